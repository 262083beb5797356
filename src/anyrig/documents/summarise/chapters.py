"""The chapters of a file, each as a document of its own that can be summarised."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.text.document import Chapter, Document
    from anyrig.text.formats.limits import Limits

_FEWEST_LETTERS = 200
"""Of a chapter: a title page or a list of pictures has nothing to sum up."""
_NO_PROSE = ("page", "note", "image")


def chapters(document: Document, limits: Limits) -> list[Document]:
    """The chapters in order, each with its title; offsets are those within the chapter.

    A file that is read chapter by chapter has them already; of one with pages, or of plain text,
    the headings are sought. A file without any is one chapter.
    """
    found = [document] if document.has_pages else _split_by_titles(document)
    if len(found) < 2 and document.format in ("pdf", "txt"):
        found = _split_by_headings(document, limits) or found
    told = [one for one in found if sum(map(str.isalpha, one.text)) >= _FEWEST_LETTERS]
    return told or [document]


def _split_by_titles(document: Document) -> list[Document]:
    return [
        _take(document, tuple(run), title or document.metadata.title)
        for title, run in groupby(document.chapters, key=lambda chapter: chapter.title)
    ]


def _split_by_headings(document: Document, limits: Limits) -> list[Document]:
    from anyrig.errors import AnyrigError
    from anyrig.text.sandbox import read_book

    try:
        whole = read_book(document.path, limits=limits)
    except AnyrigError:  # pages that only OCR can read: they have no headings to go by
        return []
    return [
        _take(document, (replace(chapter, blocks=prose),), chapter.title)
        for chapter in whole.chapters
        if chapter.role == "body"
        and (prose := tuple(b for b in chapter.blocks if b.kind not in _NO_PROSE))
    ]


def _take(document: Document, chapters: tuple[Chapter, ...], title: str) -> Document:
    return replace(
        document, chapters=chapters, metadata=replace(document.metadata, title=title), scans=()
    )
