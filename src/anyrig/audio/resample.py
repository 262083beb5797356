"""A change of rate: a windowed sinc in phases, for whole takes and for streams.

Engines give 16,000, 22,050 or 24,000 samples a second and formats want their own rates. No scipy:
it is 150 MB for one function.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.errors import InvalidInputError

_ZEROS = 24  # zero crossings on each side: flat up to 0.85 of the lower Nyquist rate
_BETA = 9.0  # of the Kaiser window: aliases lie over 85 dB down
_ROLL_OFF = 0.95


def resample(samples: Samples, source: int, target: int) -> Samples:
    """The samples at another rate: `ceil(len * target / source)` of them, without a delay."""
    if source == target:
        return samples
    change = Resampler(source, target)
    return np.concatenate([change.feed(samples), change.finish()])


class Resampler:
    """`resample` for a stream: the parts it gives are those of the whole, cut elsewhere."""

    def __init__(self, source: int, target: int) -> None:
        if source <= 0 or target <= 0:
            raise InvalidInputError(
                f"cannot resample from {source} to {target} Hz",
                hint="Sample rates must be above 0.",
            )
        common = math.gcd(source, target)
        self._up, self._down = target // common, source // common
        self._filters = _build_filters(self._up, self._down)
        self._half = self._filters.shape[1] // 2
        # The samples from `_first` on, in the counting of the input; silence lies before it.
        self._pending: Samples = np.zeros(self._half, dtype=np.float32)
        self._first = -self._half
        self._taken = 0
        self._given = 0

    def feed(self, samples: Samples) -> Samples:
        """What can be told from the input so far."""
        self._taken += len(samples)
        self._pending = np.concatenate([self._pending, samples.astype(np.float32, copy=False)])
        # Output n stands at n * down / up of the input and looks `half` to the right of it.
        available = self._taken - self._half
        return self._produce_until(max(0, -(-available * self._up // self._down)))

    def finish(self) -> Samples:
        """The rest, as though silence followed."""
        self._pending = np.concatenate([self._pending, np.zeros(self._half + 1, dtype=np.float32)])
        return self._produce_until(-(-self._taken * self._up // self._down))

    def _produce_until(self, end: int) -> Samples:
        """Outputs up to `end`, not counting it."""
        count = end - self._given
        if count <= 0:
            return np.zeros(0, dtype=np.float32)
        out = np.empty(count, dtype=np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(self._pending, self._filters.shape[1])
        for offset in range(min(self._up, count)):
            place = (self._given + offset) * self._down
            phase, centre = place % self._up, place // self._up
            many = len(range(offset, count, self._up))
            begin = centre - self._half + 1 - self._first
            chosen = windows[begin : begin + (many - 1) * self._down + 1 : self._down]
            np.einsum("ij,j->i", chosen, self._filters[phase], out=out[offset :: self._up])
        self._given = end
        keep_from = end * self._down // self._up - self._half + 1
        self._pending = self._pending[max(0, keep_from - self._first) :].copy()
        self._first = max(self._first, keep_from)
        return out


def _build_filters(up: int, down: int) -> NDArray[np.float32]:
    """A filter for each phase: row p gives the output that lies p / up after an input sample."""
    cutoff = _ROLL_OFF * min(1.0, up / down)
    half = math.ceil(_ZEROS / cutoff) + 1
    taps = np.arange(-half + 1, half + 1, dtype=np.float64)
    phases = np.arange(up, dtype=np.float64)[:, None] / up
    away = taps[None, :] - phases
    inside = np.clip(1.0 - (away / half) ** 2, 0.0, None)
    window = np.i0(_BETA * np.sqrt(inside)) / np.i0(_BETA)
    bank = cutoff * np.sinc(cutoff * away) * window
    rows: NDArray[np.float32] = (bank / bank.sum(axis=1, keepdims=True)).astype(np.float32)
    return rows
