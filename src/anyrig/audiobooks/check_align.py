"""Two rows of words laid beside each other: what should be heard, and what was.

Runs of words that stand once on both sides are found first and hold the rest in place, so the cost
grows with the length of a chapter and not with its square; only what lies between them is compared
word by word.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Words = Sequence[str]
Pair = tuple[int, int]
_RUNS = (5, 3, 2)  # words of an anchor, tried one after the other
_SMALL = 40_000  # cells that are compared word by word without looking for anchors
_LARGE = 16_000_000  # more cells than this stay apart: there is nothing in common to be found


class Gap(NamedTuple):
    """Where the two do not agree: words `i0` to `i1` of one, `j0` to `j1` of the other."""

    i0: int
    i1: int
    j0: int
    j1: int


def gaps(one: Words, other: Words, *, stray: int = 2) -> list[Gap]:
    """Where two rows of words differ, in order.

    Args:
        one: what should be there.
        other: what is there.
        stray: so few words between two larger differences agree by chance.
    """
    found: list[Gap] = []
    i = j = 0
    for a, b in [*pairs(one, other), (len(one), len(other))]:
        if a > i or b > j:
            found.append(Gap(i, a, j, b))
        i, j = a + 1, b + 1
    return _joined(found, stray)


def pairs(one: Words, other: Words) -> list[Pair]:
    """Places of equal words, rising on both sides."""
    return list(_between(one, other, Gap(0, len(one), 0, len(other)), 0))


def common(one: Words, other: Words) -> list[Pair]:
    """The same, word by word: of short rows."""
    return list(_word_by_word(one, other, Gap(0, len(one), 0, len(other))))


def _joined(found: list[Gap], stray: int) -> list[Gap]:
    """Two differences with a word or two between them are one, if both are larger than that."""
    made: list[Gap] = []
    for gap in found:
        if made and 0 < gap.i0 - made[-1].i1 <= stray:
            last, between = made[-1], gap.i0 - made[-1].i1
            if min(_size(last), _size(gap)) > between + 1:
                made[-1] = Gap(last.i0, gap.i1, last.j0, gap.j1)
                continue
        made.append(gap)
    return made


def _size(gap: Gap) -> int:
    return max(gap.i1 - gap.i0, gap.j1 - gap.j0)


def _between(one: Words, other: Words, gap: Gap, level: int) -> Iterator[Pair]:
    """Equal words of a stretch of both."""
    i0, i1, j0, j1 = gap
    if i0 == i1 or j0 == j1:
        return
    cells = (i1 - i0) * (j1 - j0)
    if cells <= _SMALL or level == len(_RUNS):
        if cells <= _LARGE:
            yield from _word_by_word(one, other, gap)
        return
    i, j = i0, j0
    for a, b, size in _anchors(one, other, gap, _RUNS[level]):
        yield from _between(one, other, Gap(i, a, j, b), level if (i, j) != (i0, j0) else level + 1)
        yield from ((a + at, b + at) for at in range(size))
        i, j = a + size, b + size
    yield from _between(one, other, Gap(i, i1, j, j1), level + 1)


def _anchors(one: Words, other: Words, gap: Gap, size: int) -> Iterator[tuple[int, int, int]]:
    """Runs that stand once on each side, in the longest order that rises on both; with length."""
    left = _once(one, gap.i0, gap.i1, size)
    right = _once(other, gap.j0, gap.j1, size)
    both = sorted((at, right[run]) for run, at in left.items() if run in right)
    i, j = gap.i0, gap.j0
    for a, b in _rising(both):
        if a < i or b < j:
            continue  # inside the last one, which was made longer
        while a > i and b > j and one[a - 1] == other[b - 1]:
            a, b = a - 1, b - 1
        length = 0
        while a + length < gap.i1 and b + length < gap.j1 and one[a + length] == other[b + length]:
            length += 1
        yield a, b, length
        i, j = a + length, b + length


def _once(words: Words, start: int, end: int, size: int) -> dict[tuple[str, ...], int]:
    places: dict[tuple[str, ...], int] = {}
    for at in range(start, end - size + 1):
        run = tuple(words[at : at + size])
        places[run] = -1 if run in places else at
    return {run: at for run, at in places.items() if at >= 0}


def _rising(both: list[Pair]) -> list[Pair]:
    """The longest row of pairs that rises on the right as well."""
    ends: list[int] = []  # the least right end of a row of each length
    tops: list[int] = []  # which pair that is
    before: list[int] = []
    for at, (_, b) in enumerate(both):
        place = bisect_left(ends, b)
        before.append(tops[place - 1] if place else -1)
        ends[place : place + 1] = [b]
        tops[place : place + 1] = [at]
    row: list[Pair] = []
    at = tops[-1] if tops else -1
    while at >= 0:
        row.append(both[at])
        at = before[at]
    return row[::-1]


def _word_by_word(one: Words, other: Words, gap: Gap) -> Iterator[Pair]:
    """Levenshtein's, a row at a time, and the way back."""
    import numpy as np

    i0, i1, j0, j1 = gap
    known: dict[str, int] = {}
    left = [known.setdefault(word, len(known)) for word in one[i0:i1]]
    right = np.array([known.setdefault(word, len(known)) for word in other[j0:j1]])
    width = len(right)
    # The way back: 0 both, 1 only the left, 2 only the right.
    ways = np.zeros((len(left) + 1, width + 1), dtype=np.uint8)
    ways[0], ways[:, 0] = 2, 1
    places = np.arange(width + 1)
    row = places.copy()
    for at, word in enumerate(left, 1):
        across = row[:-1] + 2 * (right != word)  # a wrong word costs as much as one each way
        down = row[1:] + 1
        best = np.concatenate([[row[0] + 1], np.minimum(across, down)])
        new = np.minimum.accumulate(best - places) + places
        ways[at, 1:] = np.where(new[1:] == across, 0, np.where(new[1:] == down, 1, 2))
        row = new
    found: list[Pair] = []
    i, j = len(left), width
    while i and j:
        way = ways[i, j]
        if way == 0 and left[i - 1] == right[j - 1]:
            found.append((i0 + i - 1, j0 + j - 1))
        i, j = i - int(way != 2), j - int(way != 1)
    yield from reversed(found)
