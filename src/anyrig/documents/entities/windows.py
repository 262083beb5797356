"""A text in parts of one language, those in windows that a model can take, and what it finds there.

Windows share their ends, so that a name at an edge is whole in one of them; each name is taken from
the window in which it stands farther inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from anyrig.text.language import detect

_MIN_PARAGRAPH, _MAX_PARAGRAPH = 40, 4000
_OVERLAP = 240
_HEAD = 20_000  # characters that tell the language of a whole
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*|(?<=[.!?:;\u00bb\"\u201d)])[ \t]*\n")
_RUN = re.compile(r"\S{60,}")  # no word, and slow to look at
_LETTERS = re.compile(r"[^\W\d_]{2}")  # the least that a name is made of


class LanguageSpan(NamedTuple):
    """A part of a text, in one language."""

    start: int
    end: int
    language: str


class NameWindow(NamedTuple):
    """What a model is given: a text, its language, and where it stands in the whole."""

    text: str
    language: str = ""
    start: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def cost(self) -> float:
        return len(self.text) + 16.0


class NameSpan(NamedTuple):
    """What a model found in a window."""

    start: int
    end: int
    label: str
    score: float


def split_languages(text: str, *, language: str = "", default: str = "en") -> list[LanguageSpan]:
    """The languages of a text, each paragraph by itself.

    Args:
        text: any.
        language: of all of it, if that is known.
        default: of a text that says too little.
    """
    if language or not text.strip():
        return [LanguageSpan(0, len(text), language or default)]
    main = detect_main_language(text, default)
    found: list[LanguageSpan] = []
    for start, end in _split_paragraphs(text):
        name = _detect(text[start:end], main)
        if found and found[-1].language == name:
            found[-1] = found[-1]._replace(end=end)
        else:
            found.append(LanguageSpan(start, end, name))
    return found


def detect_main_language(text: str, default: str) -> str:
    """The language of a text, by its beginning."""
    return _detect(text[:_HEAD], default)


def _detect(text: str, default: str) -> str:
    """Its language; the default, with its region, if that is the same or nothing is sure."""
    home = default.partition("-")[0]
    found = detect(_RUN.sub(" ", text), default=home)
    return found.language if found.sure and found.language != home else default


def _split_paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Pieces that lie end to end, none very short unless it is the last, none very long."""
    start = 0
    for found in _PARAGRAPH.finditer(text):
        if found.end() - start >= _MIN_PARAGRAPH:
            yield from _split_long(text, start, found.end())
            start = found.end()
    if start < len(text):
        yield from _split_long(text, start, len(text))


def _split_long(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > _MAX_PARAGRAPH:
        cut = _find_gap(text, start + _MAX_PARAGRAPH - _OVERLAP, start + _MAX_PARAGRAPH)
        yield start, cut
        start = cut
    yield start, end


def build_windows(parts: Iterable[LanguageSpan], text: str, size: int) -> list[NameWindow]:
    """Windows of at most `size` characters over some parts; none if no word stands there."""
    found: list[NameWindow] = []
    overlap = min(_OVERLAP, size // 4)
    for start, end, language in parts:
        while True:
            last = end
            if end - start > size:
                last = _find_gap(text, start + size - overlap, start + size)
            found.append(NameWindow(text[start:last], language, start))
            if last >= end:
                break
            start = max(start + 1, _find_gap(text, last - overlap, last - overlap // 2))
    return [window for window in found if _LETTERS.search(window.text)]


def _find_gap(text: str, low: int, high: int) -> int:
    """Behind the last break of a line between two places, else of a word; else the later place."""
    for mark in ("\n", ". ", " "):
        at = text.rfind(mark, low, high)
        if at >= 0:
            return at + len(mark)
    return high


def resolve_overlaps(parts: Sequence[tuple[int, int, Iterable[NameSpan]]]) -> list[NameSpan]:
    """The spans of a text that was read in parts which overlap, each from the part it is deeper in.

    Args:
        parts: where each begins and ends in the text, and what was found there.
    """
    found: list[NameSpan] = []
    begin = -1
    for number, (_, end, spans) in enumerate(parts):
        is_last = number + 1 == len(parts)
        limit = 1 << 62 if is_last else (parts[number + 1][0] + end) // 2
        found += [span for span in spans if begin <= span.start < limit]
        begin = limit
    return found
