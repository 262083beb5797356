"""The analysis of a folder from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anyrig import Rig
from anyrig.app.analyse import list_failed
from anyrig.app.events import Event, ProgressEvent
from anyrig.errors import InvalidInputError
from tests.documents.analyse import topics


def test_a_folder_is_analysed_and_the_report_written(tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    topics.make(folder)
    (folder / "empty.txt").write_text("")
    events: list[Event] = []
    found = Rig().analyse(
        folder, model="hashing", output=tmp_path / "x.html", on_event=events.append
    )
    assert (found.title, found.model, len(found.clustering.clusters)) == ("papers", "hashing", 3)
    assert [one.file for one in list_failed(found)] == ["empty.txt"]
    assert any(isinstance(one, ProgressEvent) and one.stage == "analysing" for one in events)
    assert "papers" in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_what_cannot_be_done_is_refused_before_the_work(tmp_path: Path) -> None:
    rig = Rig()
    with pytest.raises(InvalidInputError, match="nothing to analyse"):
        rig.analyse(tmp_path / "work")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"output": "x.pdf"}, "unknown format"),
        ({"similar": "nothing.txt"}, "no such file"),
    ]
    for options, error in wrong:
        with pytest.raises(InvalidInputError, match=error):
            rig.analyse(tmp_path, **options)
