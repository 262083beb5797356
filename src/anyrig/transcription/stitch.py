"""Two pieces that overlap, as one text: what both heard is written once."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from anyrig.transcription.protocol import Line, Word


class _Place(NamedTuple):
    """A word: in which line, which of its words, and when about."""

    line: int
    word: int
    folded: str
    time_s: float


def stitched(
    before: Sequence[Line], after: Sequence[Line], start_s: float, end_s: float
) -> tuple[list[Line], list[Line]]:
    """The lines of two pieces without what both heard in the overlap from start_s to end_s.

    The join is in the middle of the longest run of words that both have there; where they have
    none in common, each is taken up to the middle of the overlap, by the times of its words.
    """
    slack = (end_s - start_s) * 0.75
    left = [place for place in _places(before) if place.time_s >= start_s - slack]
    right = [place for place in _places(after) if place.time_s <= end_s + slack]
    one, other = [p.folded for p in left], [p.folded for p in right]
    match = difflib.SequenceMatcher(None, one, other, autojunk=False).find_longest_match()
    if match.size and any(one[match.a : match.a + match.size]):
        keep = match.size // 2 or 1
        last, first = left[match.a + keep - 1], right[match.b + keep - 1]
        return _upto(before, last), _after(after, first)
    middle = (start_s + end_s) / 2
    held = [place for place in _places(before) if place.time_s <= middle]
    gone = [place for place in _places(after) if place.time_s <= middle]
    return (
        _upto(before, held[-1]) if held else [],
        _after(after, gone[-1]) if gone else list(after),
    )


def timed(line: Line) -> tuple[Word, ...]:
    """A line's words with times: its engine's, or laid out evenly by their letters."""
    if line.words:
        return line.words
    words = line.text.split()
    letters = sum(len(word) + 1 for word in words) or 1
    found, passed = [], 0
    for word in words:
        begin = line.start_s + (line.end_s - line.start_s) * passed / letters
        passed += len(word) + 1
        end = line.start_s + (line.end_s - line.start_s) * passed / letters
        found.append(Word(word, begin, end))
    return tuple(found)


def _places(lines: Sequence[Line]) -> list[_Place]:
    return [
        _Place(number, at, _folded(word.text), (word.start_s + word.end_s) / 2)
        for number, line in enumerate(lines)
        for at, word in enumerate(timed(line))
    ]


def _folded(word: str) -> str:
    return "".join(sign for sign in word.casefold() if sign.isalnum())


def _upto(lines: Sequence[Line], last: _Place) -> list[Line]:
    """The lines up to a word, with it."""
    cut = _part(lines[last.line], 0, last.word + 1)
    return [*lines[: last.line], *([cut] if cut is not None else [])]


def _after(lines: Sequence[Line], first: _Place) -> list[Line]:
    """The lines after a word, without it."""
    cut = _part(lines[first.line], first.word + 1, None)
    return [*([cut] if cut is not None else []), *lines[first.line + 1 :]]


def _part(line: Line, start: int, stop: int | None) -> Line | None:
    words = timed(line)
    kept = words[start:stop]
    if not kept:
        return None
    if len(kept) == len(words):
        return line
    text = " ".join(word.text for word in kept)
    return replace(
        line, text=text, start_s=kept[0].start_s, end_s=kept[-1].end_s,
        words=kept if line.words else (),
    )  # fmt: skip
