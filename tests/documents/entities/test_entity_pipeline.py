"""Files to what they name: pages, offsets in the whole, and files that cannot be read."""

from __future__ import annotations

from pathlib import Path

from anyrig.documents.entities.finder import Finder
from anyrig.documents.entities.pipeline import find_in_sources
from anyrig.documents.reading import TextSource
from tests.text.formats.pdf_making import Leaf, pdf


def page(text: str) -> Leaf:
    made = Leaf()
    made.centre(700, text)
    return made


def test_offsets_count_in_the_file_and_pages_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(
        pdf([page("The sum of $12 is due on 3 May 2024."), page("It rose by 5 % then.")])
    )
    (told,) = find_in_sources([TextSource("a.pdf", path)], Finder(None), mode="never")
    assert not told.error
    assert [(one.entity.text, one.page) for one in told.entities] == [
        ("$12", 1), ("3 May 2024", 1), ("5 %", 2),
    ]  # fmt: skip
    for one in told.entities:
        assert told.text[one.entity.start : one.entity.end] == one.entity.text
        assert one.entity.start >= one.page_start
        assert one.to_json()["page"] == one.page


def test_files_texts_and_broken_ones_in_order(tmp_path: Path) -> None:
    good, broken = tmp_path / "a.txt", tmp_path / "b.pdf"
    good.write_text("Write to a@b.org.", encoding="utf-8")
    broken.write_bytes(b"%PDF-1.4 nothing")
    sources = [
        TextSource("first", text="12 %"), TextSource("a", good), TextSource("b", broken),
        TextSource("none", tmp_path / "none.txt"), TextSource("empty", text=""),
        TextSource("last", text="5 €"),
    ]  # fmt: skip
    told = list(find_in_sources(sources, Finder(None), mode="never"))
    assert [one.source.name for one in told] == ["first", "a", "b", "none", "empty", "last"]
    assert [len(one.entities) for one in told] == [1, 1, 0, 0, 0, 1]
    assert [bool(one.error) for one in told] == [False, False, True, True, False, False]
    assert all(one.error.hint for one in told if one.error)
