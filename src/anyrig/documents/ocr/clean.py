"""A picture made easier to read, where it is dirty or dark: specks gone, light on dark turned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anyrig.documents.ocr.picture import Grey

_SPECKLED = 0.0015
"""A share of lone pixels above which a page is dirty: no writing has so many."""
_DARK = 100
_UNLIKE = 70


def cleaned(page: Grey) -> tuple[Grey, tuple[str, ...]]:
    """The page, and what was done to it."""
    notes: list[str] = []
    if float(np.median(page)) < _DARK:
        page = np.asarray(255 - page, np.uint8)
        notes.append("light text on dark was turned round")
    dark, light = _lone(page)
    if float(dark.mean()) > _SPECKLED:
        import cv2

        page = np.where(dark | light, cv2.medianBlur(page, 3), page)
        notes.append("specks were taken out")
    return page, tuple(notes)


def _lone(page: Grey) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Pixels unlike all their neighbours: black specks on the paper, white ones anywhere.

    Dots of letters in small print are such black pixels too, but few: one in 3,000.
    """
    import cv2

    ring = np.ones((3, 3), np.uint8)
    ring[1, 1] = 0
    darkest, lightest = cv2.erode(page, ring), cv2.dilate(page, ring)
    here, paper = page.astype(np.int16), float(np.median(page))
    black = (here + _UNLIKE < darkest) & (darkest > paper - _UNLIKE)
    return np.asarray(black), np.asarray(here - _UNLIKE > lightest)
