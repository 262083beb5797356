"""How far a page is askew, and the page with its lines level.

Seen along its lines, a page of text is rows of ink and rows of paper: the projection on its edge
has steep sides at the right angle and none at a wrong one. A page on its side has the same, seen
from the other edge, so both are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anyrig.documents.ocr.picture import Grey

MOST_DEGREES = 12.0
"""More than this is no slip of the scanner."""
LEAST_DEGREES = 0.15
"""Less than this is no harm to a line, and turning blurs it."""
_SIDE = 1000
_FEWEST_INK = 200
_LEAST_SIDE = 8
# How much steeper the sides must be than those of the page as it lies.
_BETTER = 1.02
_MOST_TURNED = 40_000_000
"""Pixels of a page that was turned back."""
Matrix = NDArray[np.float64]
"""2 x 3: from a point of one page to the same point of another."""


def skew(page: Grey) -> float:
    """Degrees by which lines run down to the right; 0 where there is nothing to tell."""
    if min(page.shape) * min(1.0, _SIDE / max(page.shape)) < _LEAST_SIDE:
        return 0.0  # a strip has no lines to compare
    ink = _ink(page)
    if int(np.count_nonzero(ink)) < _FEWEST_INK:
        return 0.0
    flat = _steepness(ink, 0.0)
    best, found = 0.0, flat
    for step, reach in ((1.0, MOST_DEGREES), (0.25, 1.0), (0.05, 0.25)):
        count = round(reach / step)
        for angle in [best + n * step for n in range(-count, count + 1)]:
            if abs(angle) <= MOST_DEGREES and (here := _steepness(ink, angle)) > found:
                best, found = angle, here
    if found <= flat * _BETTER or not _fits(page.shape, best):
        return 0.0
    return round(best, 3)


def _fits(shape: tuple[int, ...], degrees: float) -> bool:
    """Whether a page that is turned back is not much larger: a long strip would be."""
    _, (width, height) = _matrix(shape, degrees, grow=True)
    return width * height <= max(_MOST_TURNED, 2 * shape[0] * shape[1])


def _ink(page: Grey) -> NDArray[np.float32]:
    """A small page with 1 where it is written on, whatever the colour of the paper."""
    import cv2

    share = min(1.0, _SIDE / max(page.shape))
    small = cv2.resize(page, None, fx=share, fy=share, interpolation=cv2.INTER_AREA)
    small = cv2.medianBlur(small, 3)
    paper = cv2.blur(small, (31, 31))
    mark = np.abs(paper.astype(np.float32) - small)
    level = max(24.0, float(np.percentile(mark, 99)) * 0.4)
    return np.asarray(mark > level, np.float32)


def _steepness(ink: NDArray[np.float32], degrees: float) -> float:
    """How sharply rows, or columns, of ink are set off from each other at an angle."""
    import cv2

    if degrees:
        size = (ink.shape[1], ink.shape[0])
        ink = np.asarray(cv2.warpAffine(ink, _matrix(ink.shape, degrees)[0], size), np.float32)
    rows, columns = (cv2.reduce(ink, axis, cv2.REDUCE_SUM).ravel() for axis in (1, 0))
    return max(float(np.square(np.diff(edge)).sum()) for edge in (rows, columns))


def levelled(page: Grey, degrees: float) -> tuple[Grey, Matrix]:
    """The page turned back by an angle, and the way from its points to the old page's."""
    import cv2

    if abs(degrees) < LEAST_DEGREES:
        return page, np.array([[1.0, 0, 0], [0, 1.0, 0]])
    matrix, (width, height) = _matrix(page.shape, degrees, grow=True)
    paper = int(np.median(page))
    level = cv2.warpAffine(
        page, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_CONSTANT,
        borderValue=(paper,),
    )  # fmt: skip
    return np.asarray(level, np.uint8), np.asarray(cv2.invertAffineTransform(matrix), np.float64)


def _matrix(
    shape: tuple[int, ...], degrees: float, *, grow: bool = False
) -> tuple[Matrix, tuple[int, int]]:
    import cv2

    height, width = shape[:2]
    middle = (width / 2, height / 2)
    matrix = np.asarray(cv2.getRotationMatrix2D(middle, degrees, 1.0), np.float64)
    if not grow:
        return matrix, (width, height)
    cosine, sine = abs(matrix[0, 0]), abs(matrix[0, 1])
    wide, high = int(height * sine + width * cosine), int(height * cosine + width * sine)
    matrix[:, 2] += (wide / 2 - width / 2, high / 2 - height / 2)
    return matrix, (wide, high)


def turned(page: Grey, degrees: int) -> tuple[Grey, Matrix]:
    """The page turned clockwise by a quarter or several, and the way back to the old points."""
    height, width = page.shape
    back = {
        0: [[1, 0, 0], [0, 1, 0]],
        90: [[0, 1, 0], [-1, 0, height]],
        180: [[-1, 0, width], [0, -1, height]],
        270: [[0, -1, width], [1, 0, 0]],
    }[degrees]
    rotated = np.rot90(page, -degrees // 90)
    return np.ascontiguousarray(rotated), np.array(back, np.float64)


def through(outer: Matrix, inner: Matrix) -> Matrix:
    """First `inner`, then `outer`."""
    full = np.vstack([inner, [0.0, 0.0, 1.0]])
    return np.asarray(outer @ full)


def mapped(points: NDArray[np.float32], matrix: Matrix) -> NDArray[np.float64]:
    """Points on the other page."""
    return np.asarray(points.astype(np.float64) @ matrix[:, :2].T + matrix[:, 2])
