"""A line as ink and paper: which columns are written on, and which run belongs to a character."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anyrig.documents.ocr.ctc import Char
    from anyrig.documents.ocr.picture import Grey

_REACH = 6
"""Columns by which a character's likeliest one may miss its ink."""


class Run(NamedTuple):
    """Columns of ink without white between them."""

    start: int
    end: int

    @property
    def width(self) -> int:
        """How many columns."""
        return self.end - self.start


def inked(line: Grey) -> NDArray[np.bool_]:
    """Where a line is dark, against the paper of that line."""
    import cv2

    smooth = cv2.GaussianBlur(line, (3, 3), 0)
    _, dark = cv2.threshold(smooth, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    mostly = dark.mean() > 0.5  # light on dark
    return np.asarray(dark == (0 if mostly else 1))


def runs(ink: NDArray[np.bool_]) -> list[Run]:
    """Stretches of columns with ink; a lone speck is none."""
    full = ink.sum(axis=0) >= 2
    edges = np.flatnonzero(np.diff(np.concatenate([[0], full.astype(np.int8), [0]])))
    return [Run(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def owners(found: Sequence[Run], chars: Sequence[Char], width: int) -> list[int | None]:
    """The run in which each character's likeliest column lies, or the nearest within reach."""
    owned: list[int | None] = []
    for char in chars:
        at = char.column * width
        far = [max(run.start - at, at - run.end, 0.0) for run in found]
        nearest = int(np.argmin(far)) if far and not char.text.isspace() else None
        owned.append(nearest if nearest is not None and far[nearest] <= _REACH else None)
    return owned


def baseline(ink: NDArray[np.bool_], found: Sequence[Run]) -> float:
    """The row on which most letters stand."""
    ends = [np.flatnonzero(ink[:, run.start : run.end].any(axis=1)) for run in found]
    bottoms = [int(rows[-1]) for rows in ends if len(rows)]
    return float(np.median(bottoms)) if bottoms else float(len(ink))
