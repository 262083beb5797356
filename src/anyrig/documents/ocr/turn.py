"""Which way up a page is, by the vote of its lines.

One line may lie: `SOS` reads the same upside down, a row of figures nearly so. Lines taller than
wide say that the page lies on its side. Then several lines are read one way; only where they are
not plainly right are they read the other way as well, and each votes with how much surer it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anyrig.documents.ocr.detect import Quads

VOTERS = 5
PLAIN = 0.97
"""Lines that read as surely as this, on average, stand the right way up."""
_TALL = 1.5
Sure = Callable[[Sequence[int], bool], list[tuple[float, int]]]
"""How sure lines are, by number, and how many letters each has; upside down if so asked."""


def on_side(quads: Quads) -> bool:
    """Whether most of the text runs down the page."""
    across, down = _sides(quads)
    tall = down > across * _TALL
    wide = across > down * _TALL
    return float((down * tall).sum()) > 1.5 * float((across * wide).sum())


def _sides(quads: Quads) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Width and height of each, upright."""
    size = quads.max(axis=1) - quads.min(axis=1) if len(quads) else np.zeros((0, 2), np.float32)
    return size[:, 0], size[:, 1]


def upside_down(voters: Sequence[int], sure: Sure) -> bool:
    """Whether the page stands on its head; not where nobody can tell."""
    if not voters:
        return False
    here = sure(voters, False)
    if _mean(here) >= PLAIN:
        return False
    there = sure(voters, True)
    votes = sum(
        (other - one) * min(1.0, max(a, b) / 8)
        for (one, a), (other, b) in zip(here, there, strict=True)
    )
    return votes > 0


def _mean(said: Sequence[tuple[float, int]]) -> float:
    letters = sum(count for _, count in said)
    return sum(one * count for one, count in said) / letters if letters else 0.0
