"""`Rig.find_entities`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anyrig import Rig
from anyrig.app.events import Event, WarningEvent
from anyrig.errors import InvalidInputError

TEXT = "Pay £1,250.00 to GB29 NWBK 6016 1331 9268 19 by 3 May 2024."


def test_texts_and_files() -> None:
    Path("letter.txt").write_text("Due: 12 %, then 12 %.", encoding="utf-8")
    result = Rig().find_entities("letter.txt", texts=[TEXT], engine="grammar")
    rows = result.list_rows()
    assert [(row["file"], row["kind"]) for row in rows] == [
        ("text 1", "money"), ("text 1", "iban"), ("text 1", "date"),
        ("letter.txt", "percent"), ("letter.txt", "percent"),
    ]  # fmt: skip
    assert result.sources[0].text[rows[1]["start"] : rows[1]["end"]] == rows[1]["text"]
    assert [row["count"] for row in result.sources[1].list_rows(distinct=True)] == [2]


def test_redaction_warns_that_names_can_be_missed() -> None:
    events: list[Event] = []
    result = Rig().find_entities(
        texts=[TEXT], engine="grammar", redact=True, on_event=events.append
    )
    assert result.sources[0].redacted == "Pay [MONEY] to [IBAN] by [DATE]."
    warnings = [event.message for event in events if isinstance(event, WarningEvent)]
    assert any("names can be missed" in warning for warning in warnings)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.pdf", tmp_path / "found.json"
    bad.write_bytes(b"%PDF-1.4 broken")
    with pytest.raises(InvalidInputError, match="bad.pdf"):
        Rig().find_entities(bad, engine="grammar", ocr="never", output=out)
    assert not out.exists()
    result = Rig().find_entities(bad, texts=[TEXT], engine="grammar", ocr="never", output=out)
    assert [one.file for one in result.failed] == [str(bad)]
    data = json.loads(out.read_text(encoding="utf-8"))
    assert len(data["entities"]) == 3
    assert data["failed"][0]["file"] == str(bad)
