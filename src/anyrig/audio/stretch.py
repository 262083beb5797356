"""Faster and slower at the same pitch, for voices that have no rate of their own.

Overlapping windows are laid closer together or further apart, each moved by a few milliseconds to
where it best continues the one before (WSOLA). Good from about half to twice the rate.
"""

from __future__ import annotations

import numpy as np

from anyrig.audio.samples import Samples

_WINDOW_S = 0.030
_SEARCH_S = 0.008


def stretch(samples: Samples, rate: int, speed: float) -> Samples:
    """The same words, `speed` times as fast."""
    size = 2 * (int(rate * _WINDOW_S) // 2)
    if speed == 1.0 or len(samples) < 3 * size:
        return samples
    hop, radius = size // 2, int(rate * _SEARCH_S)
    window = np.hanning(size + 1)[:size].astype(np.float32)
    count = int(len(samples) / speed) // hop
    padded = np.concatenate(
        [np.zeros(radius, np.float32), samples, np.zeros(2 * size + radius, np.float32)]
    )
    out = np.zeros((count + 2) * hop, np.float32)
    follows = padded[radius : radius + size]
    for step in range(count + 1):
        middle = radius + min(int(step * hop * speed), len(samples))
        place = _find_best_offset(padded, middle, radius, follows) if step else middle
        out[step * hop : step * hop + size] += window * padded[place : place + size]
        follows = padded[place + hop : place + hop + size]
    return out[hop // 2 : hop // 2 + round(len(samples) / speed)]


def _find_best_offset(padded: Samples, middle: int, radius: int, follows: Samples) -> int:
    """Near `middle`, where the sound goes on most like what would have followed."""
    around = padded[middle - radius : middle + radius + len(follows)]
    if not follows.any() or not around.any():
        return middle
    alike = np.correlate(around, follows, mode="valid")
    return middle - radius + int(np.argmax(alike))
