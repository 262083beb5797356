"""Lines cut out of a page and read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anyrig.documents.ocr.ctc import Alphabet, Char
from anyrig.documents.ocr.detect import Network, Quads

if TYPE_CHECKING:
    from anyrig.documents.ocr.picture import Grey

HIGH = 48
"""Pixels that the recogniser wants a line to be high."""
SQUEEZE = 0.8
"""How much narrower than it is a line is read. It costs a fifth less and reads no worse: of three
fonts, `maïs` and `naïveté` lost their dots at full width and kept them so."""
_NARROWEST, _WIDEST = 48, 6400
_STRAIGHT = 0.004
"""A slope under which a line is cut out as it lies: turning it would only blur it."""
_ALIKE = 1.08
"""How much wider than the narrowest the widest of a batch may be: the rest is padded."""


class Seen(NamedTuple):
    """What the recogniser saw in a line, before it is spelt."""

    columns: NDArray[np.float32]
    share: float
    """How much of it is the line."""

    def spelt(self, alphabet: Alphabet) -> list[Char]:
        """Its characters."""
        return alphabet.read(self.columns, self.share)


def cut(page: Grey, quad: NDArray[np.float32], squeeze: float = SQUEEZE) -> Grey:
    """A line of a page, level and as high as the recogniser wants it.

    Args:
        page: where it stands.
        quad: its corners.
        squeeze: its width, as a share of what its height would ask for.
    """
    import cv2

    across, down = (float(np.linalg.norm(quad[a] - quad[b])) for a, b in ((1, 0), (3, 0)))
    wide = int(np.clip(round(HIGH * squeeze * across / max(down, 1.0)), 8, _WIDEST))
    way = cv2.INTER_AREA if down > HIGH else cv2.INTER_CUBIC
    slope = abs(float(quad[1, 1] - quad[0, 1])) / max(across, 1.0)
    if slope < _STRAIGHT:
        left, top = np.floor(quad.min(axis=0)).astype(int)
        right, bottom = np.ceil(quad.max(axis=0)).astype(int)
        part = page[max(0, top) : bottom, max(0, left) : right]
    else:
        part = _levelled(page, quad, round(across), round(down))
    if not part.size:
        return np.full((HIGH, 8), 255, np.uint8)
    return np.asarray(cv2.resize(part, (wide, HIGH), interpolation=way), np.uint8)


def _levelled(page: Grey, quad: NDArray[np.float32], wide: int, high: int) -> Grey:
    import cv2

    wide, high = max(1, wide), max(1, high)
    flat = np.array([[0, 0], [wide, 0], [wide, high]], np.float32)
    matrix = cv2.getAffineTransform(quad[:3].astype(np.float32), flat)
    return np.asarray(
        cv2.warpAffine(
            page, matrix, (wide, high), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
        ),
        np.uint8,
    )


class Recogniser:
    """Lines to what is seen in them."""

    def __init__(self, network: Network, *, together: int = 1) -> None:
        """Several lines go through at once where that is faster: on a GPU, not on a CPU."""
        self._network, self._together = network, max(1, together)

    def see(self, cuts: Sequence[Grey]) -> list[Seen]:
        """What is seen in each line, in order; lines of like width share a batch."""
        order = sorted(range(len(cuts)), key=lambda n: cuts[n].shape[1])
        found: dict[int, Seen] = {}
        at = 0
        while at < len(order):
            end, first = at + 1, max(_NARROWEST, cuts[order[at]].shape[1])
            while (
                end < len(order)
                and end - at < self._together
                and cuts[order[end]].shape[1] <= first * _ALIKE + 16
            ):
                end += 1
            some = order[at:end]
            found.update(zip(some, self._batch([cuts[n] for n in some]), strict=True))
            at = end
        return [found[n] for n in range(len(cuts))]

    def _batch(self, cuts: Sequence[Grey]) -> list[Seen]:
        wide = max(_NARROWEST, *(cut.shape[1] for cut in cuts))
        wide = -(-wide // 8) * 8
        fed = np.zeros((len(cuts), 3, HIGH, wide), np.float32)
        for row, one in zip(fed, cuts, strict=True):
            row[:, :, : one.shape[1]] = one.astype(np.float32) / 127.5 - 1
        seen = self._network(fed)
        return [Seen(seen[n], one.shape[1] / wide) for n, one in enumerate(cuts)]


def longest(quads: Quads, count: int) -> list[int]:
    """The lines that say most: long ones, from all over the page."""
    across = np.linalg.norm(quads[:, 1] - quads[:, 0], axis=1)
    down = np.linalg.norm(quads[:, 3] - quads[:, 0], axis=1)
    ratio = np.minimum(across, down * 24) * np.sqrt(np.maximum(down, 1))
    return [int(n) for n in np.argsort(-ratio, kind="stable")[:count]]
