"""The sign that opens an exclamation in Spanish, which the recogniser has never learnt.

It knows 18,710 characters and `¡` is not among them: it passes over the sign, or takes it for an
`i`. So ink that no character explains is looked at where a word begins: a dot above a long stem,
narrow, is that sign. What was taken for an `i` is one where a capital follows, or where its stem
goes below the line on which the letters stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anyrig.documents.ocr.ctc import Char
from anyrig.documents.ocr.ink import Run, baseline, inked, owners, runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.documents.ocr.picture import Grey

SIGN = "¡"
LANGUAGES = ("es", "gl", "ast")
_TAKEN_FOR = "ilI|1;:"
_BEFORE = "«“\"'‘(—–-¿¡[…."
"""What may stand between the white and the sign."""
_REACH = 6
"""Lines before a `!` in which its opening is looked for."""


class _Found(NamedTuple):
    """Where the sign may stand: before a character, or in its place."""

    line: int
    number: int
    instead: bool
    column: float


def opened(cuts: Sequence[Grey], lines: Sequence[list[Char]]) -> list[list[Char]]:
    """Lines, in reading order, with the signs that were passed over.

    Every exclamation is opened once: of the places before a `!` where ink looks like the sign, one
    is taken, where a sentence begins if it can be. So no other stroke is ever taken for one.

    Args:
        cuts: the lines as they were cut out.
        lines: what was read of each.
    """
    ends = [(n, k) for n, line in enumerate(lines) for k, c in enumerate(line) if c.text in "!！"]
    mended = [list(line) for line in lines]
    taken: list[_Found] = []
    last = (-1, -1)
    for end in ends:
        span = range(max(0, last[0], end[0] - _REACH), end[0] + 1)
        places = [one for n in span for one in _places(n, cuts[n], lines[n])
                  if last < (one.line, one.number) < end]  # fmt: skip
        if places and not _has_sign(lines, last, end):
            fresh = [one for one in places if _starts(lines, one)]
            taken.append(fresh[-1] if fresh else places[0])
        last = end
    for one in sorted(taken, reverse=True):
        char = mended[one.line][one.number]
        sign = Char(SIGN, one.column, char.confidence)
        mended[one.line][one.number : one.number + one.instead] = [sign]
    return mended


def _has_sign(lines: Sequence[list[Char]], start: tuple[int, int], end: tuple[int, int]) -> bool:
    return any(
        char.text == SIGN and start < (n, k) < end
        for n, line in enumerate(lines)
        for k, char in enumerate(line)
    )


def _starts(lines: Sequence[list[Char]], place: _Found) -> bool:
    """Whether a sentence begins there: after its end, a quote, or with a capital."""
    line = lines[place.line]
    at = place.number + place.instead
    if at < len(line) and line[at].text.isupper():
        return True
    before = [char.text for char in line[: place.number] if not char.text.isspace()]
    return bool(before) and before[-1] in ".?!:;…«“\"'(—–-"


def _places(number: int, line: Grey, chars: Sequence[Char]) -> list[_Found]:
    """Where the sign may stand in a line."""
    ink = inked(line)
    found_runs = runs(ink)
    mine_of = owners(found_runs, chars, line.shape[1])
    base = baseline(ink, found_runs)
    found: list[_Found] = []
    for at, char in enumerate(chars):
        if not _begins(chars, at):
            continue
        after = chars[at + 1].text if at + 1 < len(chars) else ""
        mine = mine_of[at]
        signs = [
            run for run in _free(found_runs, mine_of, at) if _is_sign(ink, run, base, sure=False)
        ]
        if signs:
            middle = (signs[-1].start + signs[-1].end) / 2 / line.shape[1]
            found.append(_Found(number, at, False, middle))
        elif (
            char.text in _TAKEN_FOR
            and mine is not None
            and after.isalpha()
            and _is_sign(ink, found_runs[mine], base, sure=not after.isupper())
        ):
            found.append(_Found(number, at, True, char.column))
    return found


def _begins(chars: Sequence[Char], number: int) -> bool:
    """Whether a word may begin here."""
    char, before = chars[number].text, chars[number - 1].text if number else " "
    if char.isspace() or not (char.isalpha() or char in _TAKEN_FOR or char in "«“\"'¿"):
        return False
    return before.isspace() or before in _BEFORE


def _free(found: Sequence[Run], owned: Sequence[int | None], number: int) -> list[Run]:
    """Runs before a character that belong to none."""
    mine = owned[number]
    if mine is None:
        return []
    before = [n for n in owned[:number] if n is not None]
    first = (before[-1] if before else -1) + 1
    taken = {n for n in owned if n is not None}
    return [found[n] for n in range(first, mine) if n not in taken]


def _is_sign(ink: NDArray[np.bool_], run: Run, base: float, *, sure: bool) -> bool:
    """Whether a run is a dot over a long stem.

    Args:
        ink: of the line.
        run: its columns.
        base: the row on which letters stand.
        sure: whether the stem must go below it, as that of an `i` does not.
    """
    rows = np.flatnonzero(ink[:, run.start : run.end].any(axis=1))
    if not len(rows):
        return False
    top, bottom = int(rows[0]), int(rows[-1])
    high = bottom - top + 1
    if high < 0.3 * len(ink) or run.width > 0.42 * high:
        return False
    below = bottom - base >= 0.06 * len(ink)
    gaps = np.flatnonzero(np.diff(rows) > 1)
    if not len(gaps):  # too coarse or too dirty to show the white between dot and stem
        return below and not sure and top > 0.2 * len(ink)
    dot, stem = int(rows[gaps[0]]) - top + 1, bottom - int(rows[gaps[0] + 1]) + 1
    return dot < 0.75 * stem and (below or not sure)
