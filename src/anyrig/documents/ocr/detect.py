"""Where text stands on a page: the detector's map of probabilities, and lines out of it.

The detector is a PP-OCR network of the `DB` kind: it gives for each pixel how likely it is the core
of a line. A line's core is smaller than the line, so its rectangle is grown by as much as the
network was taught to shrink it. What costs is the number of pixels: text is found as well at half
the size that it needs to be read at, for a quarter of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anyrig.documents.ocr.picture import Grey

Quads = NDArray[np.float32]
"""Lines x 4 corners x 2, top left first and clockwise."""
Network = Callable[[NDArray[np.float32]], NDArray[np.float32]]
CORE = 0.3
"""From which probability a pixel is text."""
LIKELY = 0.5
"""What the mean over a line must reach."""
GROW = 1.6
MOST_LOOKED_AT = 6_000_000
"""Pixels of the largest picture that the network is given: each takes it 125 bytes."""
_OVER = 1.1  # what rounding may add
_STEP = 32
_LEAST = 3


def detect(page: Grey, network: Network, scale: float) -> Quads:
    """The lines of a page, in its own pixels.

    Args:
        page: what is looked at.
        network: from a batch of pictures to a batch of maps.
        scale: how much the page is made smaller or larger to be looked at.
    """
    import cv2

    height, width = page.shape
    high, wide = _looked_at(height, width, scale)
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    small = cv2.resize(page, (wide, high), interpolation=way)
    fed = np.broadcast_to((small.astype(np.float32) / 127.5 - 1)[None, None], (1, 3, high, wide))
    found = network(np.ascontiguousarray(fed))[0, 0]
    quads = lines(found)
    quads *= np.array([width / wide, height / high], np.float32)
    return quads


def _looked_at(height: int, width: int, scale: float) -> tuple[int, int]:
    """The size of what the network is given; a strip is made shorter, as it cannot be thinner."""
    high, wide = (max(_STEP, round(side * scale / _STEP) * _STEP) for side in (height, width))
    if high * wide > MOST_LOOKED_AT * _OVER:
        most = max(_STEP, MOST_LOOKED_AT // 4 // min(high, wide) // _STEP * _STEP)
        high, wide = min(high, most), min(wide, most)
    return high, wide


def lines(probability: NDArray[np.float32]) -> Quads:
    """The rectangles of a map, grown to the size of their lines."""
    import cv2

    core = cv2.dilate((probability > CORE).astype(np.uint8), np.ones((2, 2), np.uint8))
    outlines, _ = cv2.findContours(core, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    found: list[NDArray[np.float32]] = []
    for outline in outlines:
        centre, (across, down), angle = cv2.minAreaRect(outline)
        if min(across, down) < _LEAST or _mean(probability, np.asarray(outline, np.int32)) < LIKELY:
            continue
        more = 2 * across * down * GROW / (2 * (across + down))
        if min(across, down) + more < _LEAST + 2:
            continue
        corners = cv2.boxPoints((centre, (across + more, down + more), angle))
        found.append(ordered(np.asarray(corners, np.float32)))
    return np.array(found, np.float32).reshape(-1, 4, 2)


def _mean(probability: NDArray[np.float32], outline: NDArray[np.int32]) -> float:
    """The mean probability within an outline."""
    import cv2

    left, top, wide, high = cv2.boundingRect(outline)
    inside = np.zeros((high, wide), np.uint8)
    cv2.fillPoly(inside, [outline - np.array([left, top], np.int32)], 1)
    part = probability[top : top + high, left : left + wide]
    return float(cv2.mean(np.ascontiguousarray(part), inside)[0])


def ordered(corners: NDArray[np.float32]) -> NDArray[np.float32]:
    """Corners from the top left on, clockwise as they are seen."""
    middle = corners.mean(axis=0)
    turn = np.arctan2(corners[:, 1] - middle[1], corners[:, 0] - middle[0])
    clockwise = corners[np.argsort(turn)]
    first = int(np.argmin(clockwise.sum(axis=1)))
    return np.asarray(np.roll(clockwise, -first, axis=0), np.float32)
