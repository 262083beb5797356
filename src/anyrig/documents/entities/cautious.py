"""What may be a name, for whoever blots names out: one too many costs a word, one too few a secret.

A small model misses people. Here every run of two or more words with capitals is taken for a name,
unless its words are common ones; and what was taken for a person's name once is a name wherever it
stands, each part of it as well.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Sequence

from anyrig.documents.analyse.stop_words import is_stop
from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.labels import is_no_name

SOURCE = "cautious"
_SCORE = 0.4
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_GAP = re.compile(r"[ \t\u00a0]{1,2}|[ \t\u00a0]?\n[ \t]*(?=\S)")
_PARTICLES = frozenset(
    "de del la las los du des da dos di van von der den ter bin ibn al el y".split()
)
_LONGEST = 5
_SHORTEST_PART = 3


def cautious(text: str, found: Sequence[Entity], languages: Sequence[str] = ()) -> list[Entity]:
    """What was found, and whatever else may be a person's name.

    Args:
        text: the whole.
        found: in order, none overlapping.
        languages: of the text, whose small words are no names.
    """
    small = {word for word in _WORD.findall(text) if word[:1].islower()}
    common = _Common(small, languages)
    runs = list(_beyond(_runs(text, common), found))
    more = [Entity("person", text[a:b], a, b, "", SOURCE, _SCORE) for a, b in runs]
    people = [one.text for one in (*found, *more) if one.kind == "person"]
    kept = [one for one in found if one.kind != "person" or not _holds(runs, one)]
    whole = sorted([*kept, *more], key=lambda one: (one.start, -one.end))
    return sorted([*whole, *_again(text, people, whole, common)], key=lambda one: one.start)


class _Common:
    """Words that are no names, however they are written at the beginning of a sentence."""

    def __init__(self, small: set[str], languages: Sequence[str]) -> None:
        self._small = {word.casefold() for word in small} - _PARTICLES
        self._languages = [name.partition("-")[0] for name in languages] or ["en", "es", "fr"]

    def __contains__(self, word: str) -> bool:
        low = word.casefold()
        stops = any(is_stop(low, language) for language in self._languages)
        return stops or low in self._small or is_no_name(word)


def _runs(text: str, common: _Common) -> Iterator[tuple[int, int]]:
    """Two or more words with capitals in a row; small particles and initials may stand between."""
    run: list[tuple[int, int]] = []
    for found in _WORD.finditer(text):
        word = found[0]
        joined = bool(run) and _joins(text[run[-1][1] : found.start()])
        named = word[:1].isupper() and word not in common
        if named and (joined or not run):
            run.append(found.span())
            continue
        if run and joined and word in _PARTICLES:
            run.append(found.span())
            continue
        yield from _closed(text, run)
        run = [found.span()] if named else []
    yield from _closed(text, run)


def _joins(between: str) -> bool:
    return _GAP.fullmatch(between) is not None or (
        between[:1] == "." and between[1:2] in (" ", "\u00a0") and len(between) == 2
    )


def _closed(text: str, run: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    while run and text[slice(*run[-1])] in _PARTICLES:
        run = run[:-1]
    names = [span for span in run if text[span[0]].isupper()]
    long = [span for span in names if span[1] - span[0] > 1]
    if len(names) >= 2 and long and len(names) <= _LONGEST:
        yield run[0][0], run[-1][1]


def _beyond(runs: Iterable[tuple[int, int]], found: Sequence[Entity]) -> Iterator[tuple[int, int]]:
    """Runs of which no find holds all, and which cut through none: one may reach beyond some."""
    ends = [one.end for one in found]
    for start, end in runs:
        first = bisect.bisect_right(ends, start)
        met = []
        for one in found[first : first + _LONGEST * 2]:
            if one.start >= end:
                break
            met.append(one)
        if all(start <= one.start and one.end <= end and (one.start, one.end) != (start, end)
               for one in met):  # fmt: skip
            yield start, end


def _holds(runs: Sequence[tuple[int, int]], one: Entity) -> bool:
    """Whether a run, which takes its place, reaches over a find."""
    at = bisect.bisect_right(runs, (one.start, 1 << 62)) - 1
    return at >= 0 and one.end <= runs[at][1]


def _again(
    text: str, people: Sequence[str], found: Sequence[Entity], common: _Common
) -> Iterator[Entity]:
    """Parts of names that stand elsewhere by themselves."""
    parts = {
        word
        for name in people
        for word in _WORD.findall(name)
        if len(word) >= _SHORTEST_PART and word[:1].isupper() and word not in common
    }
    covered = sorted((one.start, one.end) for one in found)
    at = 0
    for word in _WORD.finditer(text):
        while at < len(covered) and covered[at][1] <= word.start():
            at += 1
        free = at >= len(covered) or covered[at][0] >= word.end()
        if free and word[0] in parts:
            yield Entity("person", word[0], word.start(), word.end(), "", SOURCE, _SCORE)
