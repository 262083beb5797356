"""From what hibari's network foretells to a wave: a pulse train, shaped noise and a free part.

The network gives, for each frame of 300 samples, how loud and how turned the voice's harmonics are,
how loud its noise is, and a spectrum to add as it stands. The package makes a wave of that too;
here it takes half the time: fresh noise and numpy's forward transform cost the rest.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anyrig.speech.audio import Samples

RATE, SIZE, HOP = 24000, 1200, 300
_BINS, _OVERLAP = SIZE // 2 + 1, SIZE // HOP
_VOICED_HZ, _HIGHEST_HZ = 40.0, 11000.0
_LOUDEST = 7.0  # the most that a logarithm of loudness may be
_NOISE = 1 << 22

_Complex = NDArray[np.complex64]


class Wave:
    """Makes waves. It holds a store of noise, made once, and the windows."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._noise = rng.standard_normal(_NOISE, dtype=np.float32)
        window = 0.5 - 0.5 * np.cos(math.tau * np.arange(SIZE) / SIZE)
        self._window = window.astype(np.float32)
        self._squares = (self._window**2).reshape(_OVERLAP, HOP)
        # A pure tone of height 1 stands as 1 in its bin: half the window's sum, a quarter its size.
        self._analysis = (window * (SIZE / (SIZE / 4))).astype(np.float32)

    def noise_for(self, ids: Sequence[int], seed: int, frames: int) -> _Complex:
        """Noise for a stretch: a piece of the store that hangs on its phonemes and its seed."""
        count = 2 * _BINS * frames
        store = self._noise if count < _NOISE else np.resize(self._noise, 2 * count)
        mark = zlib.crc32(np.asarray([*ids, seed], np.int64).tobytes())
        start = 2 * (mark % ((len(store) - count) // 2))
        return store[start : start + count].view(np.complex64).reshape(_BINS, frames)

    def make(self, spectra: Sequence[NDArray[np.float32]], noise: _Complex) -> Samples:
        """The samples.

        Args:
            spectra: of the harmonics their loudness and turn, of the noise its loudness, of the
                free part its loudness and phase, each by bin and frame; then the pitch by frame.
            noise: by bin and frame.
        """
        harmonic, turn, hiss, free, phase, pitch = spectra
        total = self._analysed(_pulses(pitch))
        angle = np.tanh(turn)
        angle *= np.float32(math.pi)
        part = _turned(_loud(harmonic), angle)
        total *= part
        np.multiply(noise, _loud(hiss), out=part)
        total += part
        total += _turned(_loud(free), phase, part)
        return self._joined(total)

    def _analysed(self, wave: Samples) -> _Complex:
        """The spectrum of a wave, by bin and frame."""
        padded = np.pad(wave, SIZE // 2, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, SIZE)[::HOP]
        # `forward` divides by the size, which the window makes up for: numpy computes the usual
        # norm of single precision in a wider one, seven times as slowly.
        spectrum = np.fft.rfft(frames[: len(wave) // HOP] * self._analysis, axis=1, norm="forward")
        return np.ascontiguousarray(spectrum.T.astype(np.complex64, copy=False))

    def _joined(self, spectrum: _Complex) -> Samples:
        """Frames back to a wave: windowed, overlapped and divided by the windows' weight."""
        count = spectrum.shape[1]
        frames = np.fft.irfft(np.ascontiguousarray(spectrum.T), SIZE, axis=1)
        frames = frames.astype(np.float32, copy=False)
        frames *= self._window
        blocks = frames.reshape(count, _OVERLAP, HOP)
        wave = np.zeros((count + _OVERLAP - 1, HOP), np.float32)
        for place in range(_OVERLAP):
            wave[place : place + count] += blocks[:, place]
        self._weigh(wave, count)
        cut = SIZE // 2 // HOP
        return wave[cut : cut + count].reshape(-1)

    def _weigh(self, wave: Samples, count: int) -> None:
        """Divide by the squared windows that lie over each block: fewer of them at the ends."""
        inner = slice(_OVERLAP - 1, max(count, _OVERLAP - 1))
        wave[inner] *= 1 / self._squares.sum(axis=0)
        for block in (*range(inner.start), *range(inner.stop, len(wave))):
            places = [k for k in range(_OVERLAP) if 0 <= block - k < count]
            wave[block] /= np.maximum(self._squares[places].sum(axis=0), 1e-11)


def _loud(logarithm: NDArray[np.float32]) -> NDArray[np.float32]:
    loud: NDArray[np.float32] = np.exp(np.minimum(logarithm, np.float32(_LOUDEST)))
    return loud


def _turned(
    loud: NDArray[np.float32], angle: NDArray[np.float32], out: _Complex | None = None
) -> _Complex:
    """Loudness and angle as one complex number."""
    result: _Complex = np.empty(angle.shape, np.complex64) if out is None else out
    np.cos(angle, out=result.real)
    np.sin(angle, out=result.imag)
    result *= loud
    return result


def _pulses(pitch: NDArray[np.float32]) -> Samples:
    """All harmonics of a changing pitch up to a height, each as loud: a train of pulses."""
    hertz = _per_sample(np.asarray(pitch, np.float32))
    voiced = hertz > _VOICED_HZ
    np.maximum(hertz, np.float32(_VOICED_HZ), out=hertz)
    turns = np.cumsum(hertz, dtype=np.float64)
    turns /= RATE
    turns -= np.floor(turns)
    angle = (turns * math.tau).astype(np.float32)
    count = np.floor(np.float32(_HIGHEST_HZ) / hertz)
    count += np.float32(0.5)
    # Cosines of whole multiples add up to sin((n + 1/2) t) / (2 sin(t/2)) - 1/2.
    below = np.sin(angle * np.float32(0.5))
    below *= 2
    wave = np.sin(count * angle)
    flat = np.abs(below) <= 2e-3
    below[flat] = 1
    wave /= below
    wave[flat] = count[flat]
    wave -= np.float32(0.5)
    wave *= voiced
    pulses: Samples = wave
    return pulses


def _per_sample(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values in the middle of frames, drawn out to samples along straight lines."""
    half = HOP // 2
    ramp = ((np.arange(HOP) + 0.5) / HOP - 0.5).astype(np.float32)
    steps = np.diff(values, prepend=values[:1], append=values[-1:])[:, None]
    out = np.repeat(values, HOP).reshape(-1, HOP)
    out[:, :half] += ramp[:half] * steps[:-1]
    out[:, half:] += ramp[half:] * steps[1:]
    return out.reshape(-1)
