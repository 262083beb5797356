"""Slides: in the order in which they are shown, each a page, with its notes."""

# ruff: noqa: E501 - a piece of XML is a line

from __future__ import annotations

from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text.files import read
from tests.text.formats.office_binary import pptx, shape
from tests.text.page_reading import read_pages

TABLE = (
    "<p:graphicFrame><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>Oil</a:t></a:r></a:p></a:txBody></a:tc>"
    "<a:tc><a:txBody><a:p><a:r><a:t>40</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></p:graphicFrame>"
)
PICTURE = '<p:pic><p:nvPicPr><p:cNvPr id="4" name="Picture 3" descr="A map of the port"/></p:nvPicPr></p:pic>'


def test_each_slide_is_a_page_with_title_points_table_and_notes(tmp_path: Path) -> None:
    first = shape("Boats of", "the year", kind="ctrTitle") + shape("7", kind="sldNum")
    second = shape("Cargo", kind="title") + shape("Grain", "Timber", kind="body") + TABLE + PICTURE
    notes = shape("Say it slowly.", kind="body") + shape("2", kind="sldNum")
    path = pptx(tmp_path / "a.pptx", [first, second, shape("A box")], notes={2: notes})
    document = read(path)
    assert (document.format, document.metadata.title) == ("pptx", "The talk")
    assert [chapter.title for chapter in document.chapters] == ["Boats of the year", "Cargo", ""]
    assert [(b.kind, b.text, b.page) for b in document.chapters[1].blocks] == [
        ("heading", "Cargo", 2), ("item", "Grain", 2), ("item", "Timber", 2),
        ("table", "Oil\t40", 2), ("image", "A map of the port", 2), ("note", "Say it slowly.", 2),
    ]  # fmt: skip
    pages = read_pages(path)
    assert [part.page for part in pages.parts("page")] == [1, 2, 3]
    assert pages.page_at(pages.text.index("Timber")) == 2


def test_slides_that_are_missing_or_empty(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no text in it"):
        read(pptx(tmp_path / "a.pptx", ["", ""]))
