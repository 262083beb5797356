"""Samples: count them, find the sound in them, fade their edges, measure their power.

Everything counts in whole samples, so that chunks follow each other without a gap or an overlap.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""Mono, -1 to 1."""


FADE_S = 0.005
KEEP_S = 0.05
# Under the loudest vowels of a take. With the margin kept on both sides this leaves everything the
# default voice has above -60 dB; its softest consonants are above -45 dB, its pauses under -90.
THRESHOLD_DB = -45.0
_FRAME_S = 0.005
_INAUDIBLE = 1e-7  # the mean square of -70 dBFS: under it nothing is heard, whatever the rest


def count_samples(seconds: float, rate: int) -> int:
    """How many samples a time is."""
    return max(0, round(seconds * rate))


def silence(seconds: float, rate: int) -> Samples:
    """Silence of exactly `count_samples(seconds, rate)` samples."""
    return np.zeros(count_samples(seconds, rate), dtype=np.float32)


def fade(samples: Samples, rate: int, *, start: bool = True, end: bool = True) -> Samples:
    """The samples with edges that rise from and fall to nothing, so that no join clicks.

    Args:
        samples: not changed.
        rate: samples per second.
        start: whether it begins here, or goes on from a part before it.
        end: whether it ends here.
    """
    out = samples.copy()
    fade_in_place(out, rate, start=start, end=end)
    return out


def fade_in_place(samples: Samples, rate: int, *, start: bool = True, end: bool = True) -> None:
    """The same without a copy."""
    length = min(count_samples(FADE_S, rate), len(samples) // 2)
    if not length:
        return
    shape = _fade_shape(length)
    if start:
        samples[:length] *= shape
    if end:
        samples[-length:] *= shape[::-1]


@lru_cache(maxsize=16)
def _fade_shape(length: int) -> Samples:
    shape = 0.5 - 0.5 * np.cos(np.pi * (np.arange(length) + 0.5) / length)
    return shape.astype(np.float32)


def to_int16_bytes(samples: Samples) -> bytes:
    """Samples of -1 to 1 as 16-bit little-endian ones."""
    scaled = samples * np.float32(32767.0)
    np.rint(scaled, out=scaled)
    return scaled.astype("<i2").tobytes()


def find_sound(samples: Samples, rate: int, *, keep_s: float = KEEP_S) -> tuple[int, int]:
    """Where the sound begins and ends without the silence around it, but for a margin.

    Both are 0 where nothing is heard.
    """
    size = max(1, count_samples(_FRAME_S, rate))
    power = frame_power(samples, size)
    loud = np.flatnonzero(power > _compute_threshold(float(power.max(initial=0.0))))
    if not len(loud):
        return 0, 0
    keep = count_samples(keep_s, rate)
    first = max(0, int(loud[0]) * size - keep)
    return first, min(len(samples), (int(loud[-1]) + 1) * size + keep)


class Trimmer:
    """`find_sound` for sound in parts: what may be trailing silence waits for the next part.

    The loudest vowel is not known yet at the start, so the level is that of what was heard so far.
    """

    def __init__(self, rate: int) -> None:
        self._size = max(1, count_samples(_FRAME_S, rate))
        self._keep = count_samples(KEEP_S, rate)
        self._loudest = 0.0
        self._pending: Samples = np.zeros(0, dtype=np.float32)
        self._has_started = False
        self.dropped = 0
        """How many samples were cut before the first that was given: words move by as much."""

    def feed(self, samples: Samples) -> Samples:
        """What is sure to stay, of this part and of what was held back."""
        pending = np.concatenate([self._pending, samples])
        power = frame_power(pending[: len(pending) // self._size * self._size], self._size)
        self._loudest = max(self._loudest, float(power.max(initial=0.0)))
        loud = np.flatnonzero(power > _compute_threshold(self._loudest))
        if not len(loud):
            if not self._has_started:
                pending = self._cut(pending, max(0, len(pending) - self._keep - self._size))
            self._pending = pending
            return pending[:0]
        if not self._has_started:
            first = max(0, int(loud[0]) * self._size - self._keep)
            pending = self._cut(pending, first)
            self._has_started = True
            last = (int(loud[-1]) + 1) * self._size - first
        else:
            last = (int(loud[-1]) + 1) * self._size
        self._pending = pending[last:]
        return pending[:last]

    def finish(self) -> Samples:
        """The margin that is kept at the end."""
        pending, self._pending = self._pending, self._pending[:0]
        return pending[: self._keep] if self._has_started else pending[:0]

    def _cut(self, pending: Samples, count: int) -> Samples:
        self.dropped += count
        return pending[count:]


def frame_power(samples: Samples, size: int) -> NDArray[np.float32]:
    """The mean square of each frame; the last frame may be short."""
    whole = len(samples) // size * size
    framed = samples[:whole].reshape(-1, size)
    power: NDArray[np.float32] = np.einsum("ij,ij->i", framed, framed) / np.float32(size)
    rest = samples[whole:]
    if len(rest):
        power = np.append(power, np.float32(np.dot(rest, rest) / len(rest)))
    return power


def measure_clipping(samples: Samples, level: float, run: int) -> float:
    """The share of samples that end a run of `run` at the top: flat tops of a wave that was cut.

    Args:
        level: of the peak, from which on a sample is at the top.
    """
    size = np.abs(samples)
    top = size >= level * float(size.max(initial=0.0))
    flat = top[run - 1 :].copy()
    for back in range(1, run):
        flat &= top[run - 1 - back : len(top) - back]
    return float(np.count_nonzero(flat)) / max(1, len(samples))


def _compute_threshold(loudest: float) -> float:
    return float(max(_INAUDIBLE, loudest * 10.0 ** (THRESHOLD_DB / 10.0)))
