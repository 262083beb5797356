"""A text in stretches of one language, and those in windows that a model can take.

Windows share their ends, so that a name at an edge is whole in one of them; each name is taken from
the window in which it stands farther inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from anyrig.text.language import detect

_LEAST = 40
_MOST = 4000
_REACH = 240
_HEAD = 20_000  # characters that tell the language of a whole
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*|(?<=[.!?:;\u00bb\"\u201d)])[ \t]*\n")
_RUN = re.compile(r"\S{60,}")  # no word, and slow to look at
_LETTERS = re.compile(r"[^\W\d_]{2}")  # the least that a name is made of


class Stretch(NamedTuple):
    """Some of a text, in one language."""

    start: int
    end: int
    language: str


class Window(NamedTuple):
    """What a model is given: a text, and its language."""

    text: str
    language: str = ""

    @property
    def cost(self) -> float:
        """What it costs to look at."""
        return len(self.text) + 16.0


class Cut(NamedTuple):
    """Where a window stands, and which part of it is its own."""

    start: int
    end: int
    language: str
    own_start: int
    own_end: int
    """A name that begins in here is this window's; elsewhere it is its neighbour's."""


def stretches(text: str, *, language: str = "", default: str = "en") -> list[Stretch]:
    """The languages of a text, each paragraph by itself.

    Args:
        text: any.
        language: of all of it, where that is known.
        default: what a text that says too little is taken for.
    """
    if language or not text.strip():
        return [Stretch(0, len(text), language or default)]
    main = main_language(text, default)
    found: list[Stretch] = []
    for start, end in _paragraphs(text):
        name = _told(text[start:end], main)
        if found and found[-1].language == name:
            found[-1] = found[-1]._replace(end=end)
        else:
            found.append(Stretch(start, end, name))
    return found


def main_language(text: str, default: str) -> str:
    """The language of a text, by its beginning."""
    return _told(text[:_HEAD], default)


def _told(text: str, default: str) -> str:
    """Its language; the default, with its region, where that is the same or nothing is sure."""
    home = default.partition("-")[0]
    found = detect(_RUN.sub(" ", text), default=home)
    return found.language if found.sure and found.language != home else default


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Pieces that lie end to end, none very short unless it is the last, none very long."""
    start = 0
    for found in _PARAGRAPH.finditer(text):
        if found.end() - start >= _LEAST:
            yield from _pieces(text, start, found.end())
            start = found.end()
    if start < len(text):
        yield from _pieces(text, start, len(text))


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > _MOST:
        cut = _gap(text, start + _MOST - _REACH, start + _MOST)
        yield start, cut
        start = cut
    yield start, end


def cuts(found: Iterable[Stretch], text: str, size: int) -> list[Cut]:
    """Windows of at most `size` characters over some stretches; none where no word stands."""
    made: list[Cut] = []
    overlap = min(_REACH, size // 4)
    for start, end, language in found:
        first, own = start, start
        while True:
            last = end if end - first <= size else _gap(text, first + size - overlap, first + size)
            if last >= end:
                made.append(Cut(first, end, language, own, end))
                break
            again = max(first + 1, _gap(text, last - overlap, last - overlap // 2))
            middle = (again + last) // 2
            made.append(Cut(first, last, language, own, middle))
            first, own = again, middle
    return [cut for cut in made if _LETTERS.search(text, cut.start, cut.end)]


def _gap(text: str, low: int, high: int) -> int:
    """Behind the last break of a line between two places, else of a word; else the later place."""
    for mark in ("\n", ". ", " "):
        at = text.rfind(mark, low, high)
        if at >= 0:
            return at + len(mark)
    return high


def windows(made: Sequence[Cut], text: str) -> list[Window]:
    """What the cuts hold."""
    return [Window(text[cut.start : cut.end], cut.language) for cut in made]
