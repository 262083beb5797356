"""How a page lies: how far it is askew, whether it is on its side, where its lines are.

Seen along its lines, a page of text is rows of ink and rows of paper: the projection on its edge
has steep sides at the right angle and none at a wrong one. A page on its side has the same, seen
from the other edge, so both are looked at, and the steeper one tells which way the lines run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anyrig.documents.ocr.picture import Grey

_MAX_DEGREES = 12.0
"""More than this is no slip of the scanner."""
_MIN_DEGREES = 0.15
"""Less than this is no harm to a line, and turning blurs it."""
_SIDE = 1000
_FEWEST_INK = 200
_LEAST_SIDE = 8
# How much steeper the sides must be than those of the page as it lies.
_BETTER = 1.02
_MAX_PIXELS = 40_000_000
"""Pixels of a page that was turned back."""
Matrix = NDArray[np.float64]
"""2 x 3: from a point of one page to the same point of another."""


def find_skew(page: Grey) -> tuple[float, bool]:
    """Degrees by which lines run down to the right, 0 where there is nothing to tell; and whether
    the page seems to lie on its side.
    """
    if min(page.shape) * min(1.0, _SIDE / max(page.shape)) < _LEAST_SIDE:
        return 0.0, False  # a strip has no lines to compare
    ink = _ink(page)
    if int(np.count_nonzero(ink)) < _FEWEST_INK:
        return 0.0, False
    flat = _steepness(ink, 0.0)
    best, found = 0.0, flat
    for step, reach in ((1.0, _MAX_DEGREES), (0.25, 1.0), (0.05, 0.25)):
        count = round(reach / step)
        for angle in [best + n * step for n in range(-count, count + 1)]:
            if abs(angle) <= _MAX_DEGREES and (here := _steepness(ink, angle)) > found:
                best, found = angle, here
    if found <= flat * _BETTER or not _fits(page.shape, best):
        best = 0.0
    rows, columns = _edges(ink, best)
    return round(best, 3), columns > rows


def _fits(shape: tuple[int, ...], degrees: float) -> bool:
    """Whether a page that is turned back is not much larger: a long strip would be."""
    _, (width, height) = _matrix(shape, degrees, grow=True)
    return width * height <= max(_MAX_PIXELS, 2 * shape[0] * shape[1])


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
    return max(_edges(ink, degrees))


def _edges(ink: NDArray[np.float32], degrees: float) -> tuple[float, float]:
    """How sharply rows, and columns, of ink are set off from each other at an angle."""
    import cv2

    if degrees:
        size = (ink.shape[1], ink.shape[0])
        ink = np.asarray(cv2.warpAffine(ink, _matrix(ink.shape, degrees)[0], size), np.float32)
    rows, columns = (cv2.reduce(ink, axis, cv2.REDUCE_SUM).ravel() for axis in (1, 0))
    return float(np.square(np.diff(rows)).sum()), float(np.square(np.diff(columns)).sum())


def level(page: Grey, degrees: float) -> tuple[Grey, Matrix]:
    """The page turned back by an angle, and the way from its points to the old page's."""
    import cv2

    if abs(degrees) < _MIN_DEGREES:
        return page, np.array([[1.0, 0, 0], [0, 1.0, 0]])
    matrix, (width, height) = _matrix(page.shape, degrees, grow=True)
    paper = int(np.median(page))
    levelled = cv2.warpAffine(
        page, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_CONSTANT,
        borderValue=(paper,),
    )  # fmt: skip
    return np.asarray(levelled, np.uint8), np.asarray(cv2.invertAffineTransform(matrix), np.float64)


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


def turn(page: Grey, degrees: int) -> tuple[Grey, Matrix]:
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


def join(outer: Matrix, inner: Matrix) -> Matrix:
    """First `inner`, then `outer`."""
    full = np.vstack([inner, [0.0, 0.0, 1.0]])
    return np.asarray(outer @ full)


def move_points(points: NDArray[np.float32], matrix: Matrix) -> NDArray[np.float64]:
    """Points on the other page."""
    return np.asarray(points.astype(np.float64) @ matrix[:, :2].T + matrix[:, 2])


# -- letters ---------------------------------------------------------------------------------------

_LETTER_PIXELS = 8_000_000
"""A larger page is looked at in a smaller picture."""
_FEWEST_LETTERS = 4
_SAMPLE_HEIGHT, _WHOLE_HEIGHT = 18.0, 30.0
"""In x-heights: six lines, and a page so low that a sample is all of it."""
_WIDE_WHITE, _MARGIN = 12.0, 4.0
"""In x-heights: white that parts a page, and what is left around the parts."""


def find_sample_rows(page: Grey) -> tuple[slice, float]:
    """The rows of a page with the most letters, and the x-height of its letters; 0 if unknown."""
    height = len(page)
    letters, share = _find_letters(page)
    if len(letters) < _FEWEST_LETTERS:
        return slice(0, height), 0.0
    x_height = float(np.median(letters[:, 3]))
    if height * share <= _WHOLE_HEIGHT * x_height:
        return slice(0, height), x_height / share
    covered = _count_letters(letters, round(height * share) + 2)
    wanted = round(_SAMPLE_HEIGHT * x_height)
    sums = np.concatenate([[0], np.cumsum(covered)])
    starts = np.arange(max(1, len(covered) - wanted))
    start = int(np.argmax(sums[np.minimum(starts + wanted, len(covered))] - sums[starts]))
    reach = round(3 * x_height)
    first = _find_white(covered, max(0, start - reach), start + 1)
    last = _find_white(covered, start + wanted, start + wanted + reach)
    return slice(int(first / share), min(height, int((last + 1) / share))), x_height / share


def _find_white(covered: NDArray[np.int64], start: int, end: int) -> int:
    """The row between two lines."""
    some = covered[start:end]
    return start + int(np.argmin(some)) if len(some) else len(covered)


def find_bands(page: Grey, x_height: float) -> list[tuple[slice, slice]]:
    """The written parts of a page, rows and columns, where wide white lies between them."""
    letters, share = _find_letters(page)
    if not x_height or not len(letters):
        return [(slice(0, page.shape[0]), slice(0, page.shape[1]))]
    covered = _count_letters(letters, round(len(page) * share) + 2)
    written = np.flatnonzero(covered)
    cuts = np.flatnonzero(np.diff(written) > _WIDE_WHITE * x_height * share) + 1
    bands: list[tuple[slice, slice]] = []
    margin = _MARGIN * x_height
    for rows in np.split(written, cuts):
        inside = letters[(letters[:, 1] >= rows[0]) & (letters[:, 1] <= rows[-1])]
        edges = (rows[0], rows[-1], inside[:, 0].min(), (inside[:, 0] + inside[:, 2]).max())
        top, bottom, left, right = (float(edge) / share for edge in edges)
        bands.append((
            slice(max(0, int(top - margin)), int(bottom + margin)),
            slice(max(0, int(left - margin)), int(right + margin)),
        ))  # fmt: skip
    return bands


def _count_letters(letters: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """How many letters each row crosses."""
    edges = np.zeros(height, np.int64)
    np.add.at(edges, letters[:, 1], 1)
    np.add.at(edges, np.minimum(letters[:, 1] + letters[:, 3], height - 1), -1)
    return np.cumsum(edges)


def _find_letters(page: Grey) -> tuple[NDArray[np.int64], float]:
    """Left, top, width and height of what may be letters, in a picture smaller by a share."""
    import cv2

    share = min(1.0, (_LETTER_PIXELS / page.size) ** 0.5)
    small = page if share == 1.0 else cv2.resize(
        page, None, fx=share, fy=share, interpolation=cv2.INTER_AREA
    )  # fmt: skip
    _, dark = cv2.threshold(small, 0, 1, cv2.THRESH_BINARY_INV + cv2.THRESH_OTSU)
    _, _, stats, _ = cv2.connectedComponentsWithStats(dark)
    found = stats[1:].astype(np.int64)
    high, area = found[:, 3], found[:, 4]
    likely = (high >= 4) & (area >= 8) & (high < max(40, len(small) // 8))
    return found[likely, :4], share
