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
_COARSE = 10
_LOOKAHEAD = 6  # blocks on each side that a peak reaches
_NEAR = 0.7  # a wave is at most this much hidden between its samples: 3 dB
_MARGIN = 0.985  # gain that moves, and other meters' filters: 0.13 dB
_UNITY = 0.9999  # no gain at all
_OVERSAMPLING = 4
_TAPS = 12  # on each side of a point between two samples


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
        peak = max(float(samples.max(initial=0.0)), -float(samples.min(initial=0.0)))
        is_idle = self._last is None or self._last > _UNITY
        if is_idle and peak <= _NEAR * self._ceiling:
            self._last = 1.0
            return samples
        wanted = self._compute_block_gains(samples)
        if is_idle and not (wanted < 1.0).any():
            self._last = 1.0
            return samples
        places, gains = self._smooth_gains(wanted)
        limited = samples.copy()
        low = np.flatnonzero(gains < _UNITY)
        if len(low):
            # Only where it does something: on speech that is a small part of the whole.
            for span in np.split(low, np.flatnonzero(np.diff(low) > 1) + 1):
                self._apply_gains(limited, places, gains, int(span[0]), int(span[-1]))
        self._last = float(gains[-1])
        return limited

    def _apply_gains(
        self,
        limited: Samples,
        places: NDArray[np.float64],
        gains: NDArray[np.float64],
        first: int,
        last: int,
    ) -> None:
        """Apply the gain from one point of the curve before `first` to one after `last`."""
        start = int(np.ceil(places[max(0, first - 1)]))
        end = int(np.ceil(places[last + 1])) if last + 1 < len(places) else len(limited)
        here = limited[start:end]
        here *= np.interp(np.arange(start, start + len(here)), places, gains).astype(np.float32)
        np.clip(here, -self._ceiling, self._ceiling, out=here)

    def _compute_block_gains(self, samples: Samples) -> NDArray[np.float32]:
        """The gain that each block needs."""
        size = self._size
        blocks = -(-len(samples) // size)
        peaks = np.zeros(blocks, dtype=np.float32)
        # Short rows are slow: the loud stretches are found in long ones first.
        coarse = size * _COARSE
        rows = samples[: len(samples) // coarse * coarse].reshape(-1, coarse)
        loud = np.flatnonzero(
            np.maximum(rows.max(axis=1), -rows.min(axis=1)) > _NEAR * self._ceiling
        )
        fine = np.abs(rows[loud]).reshape(-1, _COARSE, size).max(axis=2)
        peaks[: len(rows) * _COARSE].reshape(-1, _COARSE)[loud] = fine
        for block in range(len(rows) * _COARSE, blocks):
            peaks[block] = np.abs(samples[block * size : (block + 1) * size]).max()
        near = np.flatnonzero(peaks > _NEAR * self._ceiling)
        if len(near):
            padded = np.pad(samples, (_TAPS, _TAPS + size))
            finer = _find_true_peaks(padded, near * size, size)
            peaks[near] = np.maximum(peaks[near], finer)
        allowed = self._ceiling * _MARGIN
        wanted: NDArray[np.float32] = np.minimum(1.0, allowed / np.maximum(peaks, 1e-9))
        return wanted

    def _smooth_gains(
        self, wanted: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A smooth gain by places in the part, nowhere above what a block needs."""
        lowest = _sliding_minimum(np.pad(wanted, _LOOKAHEAD + 1, constant_values=1.0))
        window = np.hanning(2 * _LOOKAHEAD + 3)[1:-1].astype(np.float32)
        edged = np.pad(lowest, _LOOKAHEAD, mode="edge")
        smooth = np.convolve(edged, window / window.sum(), mode="valid")
        centres = (np.arange(len(smooth)) + 0.5) * self._size
        # The first point is where the part before ended, so the gain never jumps.
        start = smooth[0] if self._last is None else self._last
        return np.concatenate([[0.0], centres]), np.concatenate([[start], smooth])


def _sliding_minimum(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The least of every `2 * _LOOKAHEAD + 3` neighbours, by doubling: 15 is 8 and 8 - 1."""
    width, wanted = 1, 2 * _LOOKAHEAD + 3
    while width < wanted:
        step = min(width, wanted - width)
        values = np.minimum(values[:-step], values[step:])
        width += step
    return values


def _find_true_peaks(padded: Samples, starts: NDArray[np.intp], size: int) -> NDArray[np.float32]:
    """The highest point of the wave between the samples of some blocks.

    Args:
        padded: the samples with `_TAPS` more before them, and a block and more after them.
        starts: where the blocks begin, in the samples without that.
        size: of a block.
    """
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _TAPS)
    chosen = windows[starts[:, None] + np.arange(size + 1)[None, :]]
    heights = np.abs(chosen.reshape(-1, 2 * _TAPS) @ _interpolation_filters())
    highest: NDArray[np.float32] = heights.reshape(len(starts), -1).max(axis=1)
    return highest


@lru_cache(maxsize=1)
def _interpolation_filters() -> NDArray[np.float32]:
    """Filters for the three points between two samples, one a column."""
    taps = np.arange(-_TAPS + 1, _TAPS + 1, dtype=np.float64)[:, None]
    away = taps - np.arange(1, _OVERSAMPLING, dtype=np.float64)[None, :] / _OVERSAMPLING
    window = np.i0(8.0 * np.sqrt(np.clip(1 - (away / (_TAPS + 0.5)) ** 2, 0, None))) / np.i0(8.0)
    bank = np.sinc(away) * window
    points: NDArray[np.float32] = (bank / bank.sum(axis=0, keepdims=True)).astype(np.float32)
    return points
