"""A look-ahead limiter: true peaks stay under a ceiling, and what is far below is left alone.

Works on blocks of a millisecond. A block that comes near the ceiling is looked at four times as
finely, since the wave between two samples may be higher than both. The gain goes down before a peak
and comes back after it on a smooth curve.

Parts come out as long as they go in, without a delay, so a peak in the first milliseconds of a part
cannot have been foreseen in the part before: there the gain falls within a millisecond. Parts
begin and end in silence as a rule, where none of this is heard.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from anyrig.audio.samples import Samples

_BLOCK_S = 0.001
_LOOKAHEAD = 6  # blocks on each side that a peak reaches
_NEAR = 0.7  # a wave is at most this much hidden between its samples: 3 dB
_MARGIN = 0.985  # gain that moves, and other meters' filters: 0.13 dB
_UNITY = 0.9999  # no gain at all
_OVERSAMPLING = 4
_TAPS = 12  # on each side of a point between two samples
_MAX_PRODUCT = 1 << 18
"""Multiplications at a time. For a larger product OpenBLAS starts a thread for each core, all of
which spin for a while after it: that was 3 % of the CPU time of a book on two cores."""


def db_to_amplitude(decibels: float) -> float:
    """The factor that a gain in decibels multiplies samples by."""
    return float(10.0 ** (decibels / 20.0))


class Limiter:
    """Keeps true peaks under a ceiling."""

    def __init__(self, rate: int, ceiling_dbtp: float) -> None:
        self._size = max(1, round(_BLOCK_S * rate))
        self._ceiling = db_to_amplitude(ceiling_dbtp)
        self._last: float | None = None

    def apply(self, samples: Samples) -> Samples:
        """A part, limited: the same number of samples."""
        if not len(samples):
            return samples
        is_idle = self._last is None or self._last > _UNITY
        loud = np.flatnonzero(np.abs(samples) > _NEAR * self._ceiling)
        if is_idle and not len(loud):
            self._last = 1.0
            return samples
        block_gains = self._compute_block_gains(samples, loud)
        if is_idle and not (block_gains < 1.0).any():
            self._last = 1.0
            return samples
        places, gains = self._smooth_gains(block_gains)
        limited = samples.copy()
        self._apply_gains(limited, places, gains)
        self._last = float(gains[-1])
        return limited

    def _apply_gains(
        self, limited: Samples, places: NDArray[np.float64], gains: NDArray[np.float64]
    ) -> None:
        """Apply the gain where it does something: on speech that is a small part of the whole."""
        # The middle of a last block that is not full may lie behind the end.
        ends = np.ceil(np.append(np.minimum(places, len(limited)), len(limited))).astype(np.intp)
        low = np.append(gains < _UNITY, gains[-1] < _UNITY)
        spans = np.flatnonzero(low[:-1] | low[1:])
        lengths = np.diff(ends)[spans]
        if not lengths.sum():
            return
        # Where each span begins, less what lies before it in `at`.
        shifts = ends[spans] - np.cumsum(lengths) + lengths
        at = np.arange(int(lengths.sum())) + np.repeat(shifts, lengths)
        lowered = limited[at] * np.interp(at, places, gains).astype(np.float32)
        limited[at] = np.clip(lowered, -self._ceiling, self._ceiling)

    def _compute_block_gains(self, samples: Samples, loud: NDArray[np.intp]) -> NDArray[np.float32]:
        """The gain that each block needs; only those with loud samples need any."""
        size = self._size
        block_gains = np.ones(-(-len(samples) // size), dtype=np.float32)
        near = loud // size
        near = near[np.diff(near, prepend=-1) > 0]
        peaks = _find_true_peaks(samples, near * size, size)
        block_gains[near] = np.minimum(1.0, self._ceiling * _MARGIN / peaks)
        return block_gains

    def _smooth_gains(
        self, block_gains: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A smooth gain by places in the part, nowhere above what a block needs."""
        lowest = _sliding_minimum(np.pad(block_gains, _LOOKAHEAD + 1, constant_values=1.0))
        window = np.hanning(2 * _LOOKAHEAD + 3)[1:-1].astype(np.float32)
        edged = np.pad(lowest, _LOOKAHEAD, mode="edge")
        smooth = np.convolve(edged, window / window.sum(), mode="valid")
        centres = (np.arange(len(smooth)) + 0.5) * self._size
        # The first point is where the part before ended, so the gain never jumps.
        start = smooth[0] if self._last is None else self._last
        return np.concatenate([[0.0], centres]), np.concatenate([[start], smooth])


def _sliding_minimum(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The least of every `2 * _LOOKAHEAD + 3` neighbours, by doubling: 15 is 8 and 8 - 1."""
    width, whole = 1, 2 * _LOOKAHEAD + 3
    while width < whole:
        step = min(width, whole - width)
        values = np.minimum(values[:-step], values[step:])
        width += step
    return values


def _find_true_peaks(samples: Samples, starts: NDArray[np.intp], size: int) -> NDArray[np.float32]:
    """The highest points of the wave in some blocks: at their samples and between them."""
    edge = np.zeros(_TAPS + size, np.float32)
    padded = np.concatenate([edge[:_TAPS], samples, edge])
    around = np.lib.stride_tricks.sliding_window_view(padded, size + 2 * _TAPS)[starts]
    matrix = _interpolation_matrix(size)
    step = max(1, _MAX_PRODUCT // matrix.size)
    peaks = np.empty(len(around), np.float32)
    for first in range(0, len(around), step):
        rows = slice(first, first + step)
        np.abs(around[rows] @ matrix).max(axis=1, initial=0, out=peaks[rows])
    return peaks


@lru_cache(maxsize=4)
def _interpolation_matrix(size: int) -> NDArray[np.float32]:
    """From a block, with `_TAPS` samples before and after it, to points of the wave.

    They are its samples, and three points before the first and after each of them.
    """
    taps = np.arange(-_TAPS + 1, _TAPS + 1, dtype=np.float64)[:, None]
    away = taps - np.arange(1, _OVERSAMPLING, dtype=np.float64)[None, :] / _OVERSAMPLING
    window = np.i0(8.0 * np.sqrt(np.clip(1 - (away / (_TAPS + 0.5)) ** 2, 0, None))) / np.i0(8.0)
    bank = np.sinc(away) * window
    bank /= bank.sum(axis=0, keepdims=True)
    between = np.zeros((size + 2 * _TAPS, size + 1, _OVERSAMPLING - 1), np.float32)
    for gap in range(size + 1):
        between[gap : gap + 2 * _TAPS, gap] = bank
    own = np.eye(size + 2 * _TAPS, size, -_TAPS, np.float32)
    return np.concatenate([own, between.reshape(len(own), -1)], axis=1)
