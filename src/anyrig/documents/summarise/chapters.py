"""The chapters of a file, each as a file of its own that can be summarised."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from anyrig.text.labels import one_line
from anyrig.text.pages import Page, Paged, placed

if TYPE_CHECKING:
    from anyrig.text.document import Chapter
    from anyrig.text.formats.limits import Limits

_FEWEST_LETTERS = 200
"""Of a chapter: a title page or a list of pictures has nothing to sum up."""
_NO_PROSE = ("page", "note", "image")


def chapters(paged: Paged, limits: Limits) -> list[Paged]:
    """The chapters in order, each with its title; offsets are those within the chapter.

    A file that is read chapter by chapter has them already; of one with pages, or of plain text,
    the headings are sought. A file without any is one chapter.
    """
    found = _by_titles(paged)
    if len(found) < 2 and paged.format in ("pdf", "txt"):
        found = _by_headings(paged, limits) or found
    told = [one for one in found if sum(map(str.isalpha, one.text)) >= _FEWEST_LETTERS]
    return told or [paged]


def _by_titles(paged: Paged) -> list[Paged]:
    if any(page.number for page in paged.pages):
        return [paged]
    return [
        replace(paged, pages=placed(list(pages)), title=title or paged.title)
        for title, pages in groupby(paged.pages, key=lambda page: page.title)
    ]


def _by_headings(paged: Paged, limits: Limits) -> list[Paged]:
    from anyrig.errors import AnyrigError
    from anyrig.text import files

    try:
        document = files.read(paged.file, limits=limits)
    except AnyrigError:  # pages that only OCR can read: they have no headings to go by
        return []
    return [
        replace(paged, pages=_pages(chapter), title=one_line(chapter.title))
        for chapter in document.chapters
        if chapter.role == "body"
    ]


def _pages(chapter: Chapter) -> tuple[Page, ...]:
    kept = [block for block in chapter.blocks if block.text and block.kind not in _NO_PROSE]
    return placed(
        [
            Page("\n\n".join(block.text for block in blocks), number)
            for number, blocks in groupby(kept, key=lambda block: block.page)
        ]
    )
