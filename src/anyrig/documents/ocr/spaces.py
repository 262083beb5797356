"""White between words, measured: the recogniser loses some beside a quote, and makes some up.

Within a line all spaces are of like width. Where the white between two characters is as wide as
those, a space is put in; where one was read and there is hardly any white, it is taken out. A line
on which the two cannot be told apart is left as it was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.ocr.ctc import Char
from anyrig.documents.ocr.ink import inked, runs

if TYPE_CHECKING:
    from anyrig.documents.ocr.picture import Grey

_CLOSING = ".,;:!?)]}»”’\"'…%"
"""No space that was lost stands before one of these."""
_FRENCH = ".,)]}”’\"'…"
_FEWEST = 4
"""Spaces in a line from which their width is known."""
_WIDE, _WIDER, _NARROW = 0.8, 1.1, 0.3
"""In widths of a usual space of the line: white that is one, white that is one even between two
letters, where few are lost, and white that is none."""


def spaced(line: Grey, chars: Sequence[Char], language: str = "") -> list[Char]:
    """A line with its spaces where the white is.

    Args:
        line: the line as it was cut out.
        chars: what was read of it.
        language: French sets a space before some signs.
    """
    closing = _FRENCH if language == "fr" else _CLOSING
    written = [char for char in chars if not char.text.isspace()]
    if len(chars) - len(written) < _FEWEST:
        return list(chars)
    whites = _whites(line)
    gaps = _gaps(whites, line.shape[1], written)
    split = _split(chars)
    words = np.array([gap for gap, cut in zip(gaps, split, strict=True) if cut])
    letters = np.array([gap for gap, cut in zip(gaps, split, strict=True) if not cut])
    usual = float(np.median(words))
    if not len(letters) or usual < 2 or np.percentile(letters, 90) > 0.7 * usual:
        return list(chars)
    # The count decides whether any is missing or too many: a character's place is not exact.
    wide = sum(end - start >= _WIDE * usual for start, end in whites)
    lost, made_up = wide > len(words), wide < len(words)
    found = [written[0]]
    for before, char, gap, cut in zip(written, written[1:], gaps, split, strict=False):
        kept = cut and not (made_up and gap <= _NARROW * usual)
        least = _WIDE if not (before.text + char.text).isalnum() else _WIDER
        put = lost and not cut and gap >= least * usual and char.text not in closing
        if kept or put:
            column = (before.column + char.column) / 2
            found.append(Char(" ", column, min(before.confidence, char.confidence)))
        found.append(char)
    return found


def _split(chars: Sequence[Char]) -> list[bool]:
    """Between each two written characters: whether a space was read."""
    found: list[bool] = []
    white, seen = False, False
    for char in chars:
        if char.text.isspace():
            white = True
            continue
        if seen:
            found.append(white)
        white, seen = False, True
    return found


def _whites(line: Grey) -> list[tuple[int, int]]:
    """Columns without ink between columns with some."""
    found = runs(inked(line))
    return [(one.end, other.start) for one, other in zip(found, found[1:], strict=False)]


def _gaps(whites: Sequence[tuple[int, int]], width: int, written: Sequence[Char]) -> list[int]:
    """The widest white between each two written characters, in columns."""
    gaps: list[int] = []
    for before, after in zip(written, written[1:], strict=False):
        start, end = before.column * width, after.column * width
        inside = [b - a for a, b in whites if start - 2 <= (a + b) / 2 <= end + 2]
        gaps.append(max(inside, default=0))
    return gaps
