"""A scan that is removed from an index takes every cached page of its file with it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from anyrig import Rig
from anyrig.app.cache import open_local_cache
from anyrig.app.index import IndexRequest, delete_for_good, remove
from anyrig.events import Event, WarningEvent
from tests.documents.ocr.ocr_pages import page

pytest.importorskip("rapidocr")
CPU: dict[str, Any] = {"device": "cpu", "no_bench": True}


def save_scan(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    page(text, dpi=100, name="", inches=4)[0].save(path)


def read_cached_pages(rig: Rig) -> str:
    with open_local_cache(rig) as cache:
        return " ".join(one.data.decode() for one in cache.iter_results("page"))


def remove_file(rig: Rig, *files: Path, index: str = "default") -> list[str]:
    events: list[Event] = []
    remove(rig, rig.request(IndexRequest, index=index, folders=files), events.append)
    return [event.message for event in events if isinstance(event, WarningEvent)]


def test_the_pages_of_a_removed_scan_are_deleted(tmp_path: Path) -> None:
    docs, rig = tmp_path / "docs", Rig()
    save_scan(docs / "secret.png", "Quokkaberg signed it.")
    # Most of its words are those of the other scan.
    save_scan(docs / "other.png", "The harmless letter of Quokkaberg signed it all.")
    rig.index(docs, model="hashing", **CPU)
    rig.ocr(docs / "secret.png", language="en", **CPU)
    assert read_cached_pages(rig).count("Quokkaberg signed it.") == 2
    assert remove_file(rig, docs / "secret.png") == []
    left = read_cached_pages(rig)
    assert "Quokkaberg signed it." not in left
    assert "harmless letter" in left
    with open_local_cache(rig) as cache:
        files = cache.file.path.parent.glob(f"{cache.file.path.name}*")
        assert all(b"Quokkaberg signed it." not in file.read_bytes() for file in files)


def test_the_pages_stay_while_another_index_has_a_copy(tmp_path: Path) -> None:
    docs, rig = tmp_path / "docs", Rig()
    save_scan(docs / "a.png", "Quokkaberg signed it.")
    (tmp_path / "copies").mkdir()
    shutil.copy(docs / "a.png", tmp_path / "copies" / "b.png")
    rig.index(docs, model="hashing", **CPU)
    rig.index(tmp_path / "copies", index="copies", model="hashing", **CPU)
    remove_file(rig, docs / "a.png")
    assert "Quokkaberg" in read_cached_pages(rig)
    request = rig.request(IndexRequest, index="copies")
    delete_for_good(rig, request, lambda _: None)
    assert "Quokkaberg" not in read_cached_pages(rig)


def test_pages_of_unknown_files_are_deleted_with_a_message(tmp_path: Path) -> None:
    docs, rig = tmp_path / "docs", Rig()
    docs.mkdir()
    (docs / "a.txt").write_text("Something that was written.")
    rig.index(docs, model="hashing")
    with open_local_cache(rig) as cache:
        # As 0.1.0 wrote them: without the file.
        cache.put("old", b'{"lines": "Quokkaberg"}', kind="page", metadata={"engine": "rapidocr"})
    (warning,) = remove_file(rig, docs / "a.txt")
    assert warning.startswith("1 cached OCR page of an older version of anyrig")
    assert read_cached_pages(rig) == ""
