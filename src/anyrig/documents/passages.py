"""Pages cut into passages: what is embedded, searched and shown as one piece.

    for passage in passages(document): ...

A passage is some two hundred words: whole paragraphs where they fit, whole sentences where they
do not, and pieces of a sentence only where it is longer than a passage may be. A heading stands
with what follows it. Where a paragraph is cut the next passage begins with the last words of the
one before, so that what is said across the cut is found. A passage never crosses a page: its place
is one page. Every letter of a page is in a passage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyrig.text.language import detect_document
from anyrig.text.tokens import Span, cut_paragraph, split_paragraphs, split_text

if TYPE_CHECKING:
    from anyrig.text.document import Document, Part

BUDGET = 1000
"""Characters of a passage: 170 English words, which most models take in one window."""
OVERLAP = 160
_PLAIN_PARAGRAPH = 250  # not cut into sentences: it is as good a unit as one
_FULL = 0.6  # of the budget: a paragraph that ends here ends the passage
_RUNT = 120  # a passage below this joins the one before, if that has room
_ROOM = 1.25
# Scripts without spaces say as much in a character as others in four.
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)
_DENSITY = 4
_BROKEN = re.compile("[\ud800-\udfff\x00]")


@dataclass(frozen=True)
class Passage:
    """A piece of a file, with its place."""

    text: str
    number: int
    """In the file, from 0."""
    page: int
    """From 1; 0 in a file without pages."""
    start: int
    """Where it begins in its page, in characters."""
    file_start: int
    """Where it begins in the text of the file."""
    title: str = ""
    """Of the page: the chapter, the sheet, the message."""
    is_heading: bool = False
    """Whether it is nothing but headings: a cover, the title of a part."""

    @property
    def end(self) -> int:
        """Where it ends in its page."""
        return self.start + len(self.text)


def split_passages(document: Document, *, language: str = "") -> Iterator[Passage]:
    """The passages of a file in order; each `page.text[start:end]` but for characters of no text.

    Args:
        document: the file.
        language: how its sentences end; by default found from the text.
    """
    language = language or detect_document(document).language.partition("-")[0]
    number = 0
    for page in document.parts("page"):
        for start, end in split_page(page.text, page.headings, language=language):
            yield _passage(page, number, start, end)
            number += 1


def split_page(
    text: str, headings: Sequence[Span] = (), *, language: str = "en", budget: int = BUDGET
) -> list[Span]:
    """Where the passages of a page's text begin and end."""
    paragraphs = list(split_paragraphs(text))
    if (
        len(paragraphs) == 1
        and not headings
        and measure_weight(text[slice(*paragraphs[0])]) <= budget
    ):
        units = [_Unit(paragraphs[0], 0, True)]  # its sentences would be joined again
    else:
        units = list(_units(text, paragraphs, language, budget))
    if headings:
        units = list(_join_headings(units, headings))
    found = _pack_units(text, units, budget)
    return [span for span in found if any(map(str.isalnum, text[span[0] : span[1]]))]


def measure_weight(text: str) -> int:
    """How long a text is for a model, in characters of a script with spaces."""
    if text.isascii():
        return len(text)
    return len(text) + (_DENSITY - 1) * len(_DENSE.findall(text))


def _passage(page: Part, number: int, start: int, end: int) -> Passage:
    # A lone surrogate is no UTF-8, and a NUL ends a text for half of all programs.
    text = _BROKEN.sub(" ", page.text[start:end])
    left = end - start - sum(
        max(0, min(end, last) - max(start, first)) + 2 for first, last in page.headings
        if first < end and last > start
    )  # fmt: skip
    is_heading = bool(page.headings) and left <= 0
    return Passage(text, number, page.page, start, page.start + start, page.title, is_heading)


@dataclass(frozen=True)
class _Unit:
    """What is not cut any more."""

    span: Span
    weight: int
    ends: bool
    """Whether a paragraph ends with it."""


def _units(text: str, paragraphs: Iterable[Span], language: str, budget: int) -> Iterator[_Unit]:
    for start, end in paragraphs:
        if end - start <= min(_PLAIN_PARAGRAPH, budget // 4):
            yield _Unit((start, end), measure_weight(text[start:end]), True)
            continue
        for begin, stop in cut_paragraph(text, start, end):
            pieces = [
                piece
                for first, last in split_text(text[begin:stop], language)
                for piece in _pieces(text, begin + first, begin + last, budget)
            ]
            for place, piece in enumerate(pieces, 1):
                heavy = measure_weight(text[piece[0] : piece[1]])
                yield _Unit(piece, heavy, stop == end and place == len(pieces))


def _join_headings(units: Iterable[_Unit], headings: Sequence[Span]) -> Iterator[_Unit]:
    """Units, a heading as one with what follows it: the last of a page with what is before it."""
    waiting: _Unit | None = None
    for unit in units:
        if waiting is not None:
            unit = _Unit((waiting.span[0], unit.span[1]), waiting.weight + unit.weight, unit.ends)
        start, end = unit.span
        # A joined unit that still ends with a heading waits for the next as well.
        if any(first < end <= last for first, last in headings) and unit.weight <= _PLAIN_PARAGRAPH:
            waiting = unit
        else:
            waiting = None
            yield unit
    if waiting is not None:
        yield _Unit(waiting.span, waiting.weight, True)


def _pieces(text: str, start: int, end: int, budget: int) -> Iterator[Span]:
    """A sentence, in several pieces where it is longer than a passage may be."""
    while end - start > budget or measure_weight(text[start:end]) > budget:
        start_next = start + _cut(text[start : min(end, start + budget)], budget)
        yield start, start_next
        start = start_next
        while start < end and text[start].isspace():
            start += 1
    if start < end:
        yield start, end


def _cut(text: str, budget: int) -> int:
    """Where a text that is too long is cut: at the last space in its second half, or anywhere."""
    most = len(text)
    while most > 1 and measure_weight(text[:most]) > budget:
        most = max(1, most * budget // measure_weight(text[:most]))
    space = max(text.rfind(" ", most // 2, most), text.rfind("\n", most // 2, most))
    return space if space > 0 else most


def _pack_units(text: str, units: Iterable[_Unit], budget: int) -> list[Span]:
    """Units joined to passages."""
    found: list[Span] = []
    waiting: list[_Unit] = []
    waiting_weight = num_new = 0  # units that no passage has yet
    for unit in units:
        if num_new and waiting_weight + unit.weight > budget:
            found.append((waiting[0].span[0], waiting[-1].span[1]))
            waiting = _list_carried(waiting, unit, budget)
            waiting_weight, num_new = sum(one.weight for one in waiting), 0
        waiting.append(unit)
        waiting_weight += unit.weight
        num_new += 1
        if unit.ends and waiting_weight >= _FULL * budget:
            found.append((waiting[0].span[0], waiting[-1].span[1]))
            waiting, waiting_weight, num_new = [], 0, 0
    if num_new:
        found.append((waiting[0].span[0], waiting[-1].span[1]))
    return _join_runt(text, found, budget)


def _list_carried(waiting: Sequence[_Unit], following: _Unit, budget: int) -> list[_Unit]:
    """The last sentences of a passage that the next one begins with, if they leave it room."""
    carried: list[_Unit] = []
    for unit in reversed(waiting[1:]):
        heavy = unit.weight + sum(one.weight for one in carried)
        if unit.ends or heavy > min(OVERLAP, budget // 4) or heavy + following.weight > budget:
            break
        carried.insert(0, unit)
    return carried


def _join_runt(text: str, found: list[Span], budget: int) -> list[Span]:
    """The passages, a tiny last one joined to the one before it."""
    if len(found) < 2 or measure_weight(text[slice(*found[-1])]) > min(_RUNT, budget // 4):
        return found
    joined = (found[-2][0], found[-1][1])
    if measure_weight(text[slice(*joined)]) > _ROOM * budget:
        return found
    return [*found[:-2], joined]
