"""Footnotes: small type at the foot of a page that begins with a mark from the text above."""

from __future__ import annotations

import re
from dataclasses import dataclass

from anyrig.text.formats.pdf_lines import PdfLine

_MARK = re.compile(r"(?P<mark>\d{1,3}|[*\u2020\u2021\u00a7\u00b6#]{1,4}|[a-z])(?=[\s.)\]:]|\D)")
_RAISED_MARK = re.compile(r"\d{1,3}|[*\u2020\u2021\u00a7\u00b6#]{1,4}|[a-z]")
_SMALLER = 0.93


@dataclass(frozen=True)
class Note:
    """A footnote, or the part of one that stands on this page."""

    mark: str
    """Empty when it goes on from the page before."""
    lines: tuple[PdfLine, ...]


def is_mark(text: str) -> bool:
    """Whether raised text can be a reference to a note."""
    return _RAISED_MARK.fullmatch(text.strip("[]() ,")) is not None


def cut_notes(
    lines: list[PdfLine], body: float, *, goes_on: bool
) -> tuple[list[PdfLine], list[Note]]:
    """A page's lines without its notes, and the notes.

    Args:
        lines: of one page, in reading order.
        body: the size of the document's text.
        goes_on: whether the page before ended inside a note.
    """
    marks = {
        line.text[start:end].strip("[]() ")
        for line in lines
        for start, end in line.raised
        if start > 0 and is_mark(line.text[start:end])
    }
    found: set[int] = set()
    notes: list[Note] = []
    for region in dict.fromkeys(line.region for line in lines):
        column = [line for line in lines if line.region == region]
        foot = _foot(column, body)
        made = _notes(foot, marks, goes_on=goes_on)
        if made:
            notes += made
            found |= {id(line) for line in foot}
    return [line for line in lines if id(line) not in found], notes


def _foot(column: list[PdfLine], body: float) -> list[PdfLine]:
    """The small type that a column ends with."""
    foot: list[PdfLine] = []
    for line in reversed(column):
        if line.size > _SMALLER * body:
            break
        foot.insert(0, line)
    return foot


def _notes(foot: list[PdfLine], marks: set[str], *, goes_on: bool) -> list[Note]:
    """The notes in a foot; none if nothing in it answers to a mark of the page."""
    starts = [_mark_of(line, marks) for line in foot]
    if not any(starts):
        return []
    if not starts[0] and not goes_on:
        # Small type before the first mark, such as a caption: not this page's note.
        return []
    notes: list[Note] = []
    for line, mark in zip(foot, starts, strict=True):
        if mark or not notes:
            notes.append(Note(mark, (line,)))
        else:
            notes[-1] = Note(notes[-1].mark, (*notes[-1].lines, line))
    return notes


def _mark_of(line: PdfLine, marks: set[str]) -> str:
    """The mark that a line begins with, if it is one that the page's text has."""
    match = _MARK.match(line.text)
    if match is None or match["mark"] not in marks:
        return ""
    return match["mark"]
