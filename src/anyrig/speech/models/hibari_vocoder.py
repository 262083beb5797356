"""A predicted spectrum to a wave: what the default voice's network leaves to the host.

For every frame of 12.5 ms the network gives a pitch and five planes over 601 frequencies. The sound
is the sum of three parts, added in the spectrum and transformed into a wave by one inverse
transform with overlapping windows:

    harmonic   e^lh * e^(i pi tanh th) * spectrum of a pulse train at the pitch
    noise      e^ln * white noise
    free       e^lr * e^(i phi)

Frames are worked on in blocks that stay in the processor's cache, and the noise is read from one
table at offsets that the seed draws: new noise for every take was a third of all work here.
A plane has a row for each frame: with a row for each frequency a block lies in 601 places, and to
gather it took a quarter of the time.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.storage import derived

RATE = 24000
SIZE, HOP = 1200, 300
_BINS = SIZE // 2 + 1
_OVER = SIZE // HOP
_VOICED_HZ = 40.0
_HIGHEST_HZ = 11000.0
_BLOCK = 48
_LOUDEST = np.float32(7.0)  # the network's planes are logarithms; larger values are errors
_TABLE = 1 << 20  # complex values: 1,700 frames of noise
_NOISE_SEED = 20261115
_NEAR_ZERO = 2e-3

Plane = NDArray[np.float32]


def vocode(
    lh: Plane, th: Plane, ln: Plane, lr: Plane, phi: Plane, f0: Plane, rng: np.random.Generator
) -> Samples:
    """The sound of some frames, a row each; `rng` draws its noise."""
    num_frames = len(lh)
    pulses = np.pad(_build_pulse_train(f0), SIZE // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(pulses, SIZE)[::HOP]
    out = np.zeros((num_frames + _OVER - 1, HOP), np.float32)
    for start in range(0, num_frames, _BLOCK):
        at = slice(start, min(num_frames, start + _BLOCK))
        # `forward` divides by the size. numpy's usual norm turns single precision into a wider
        # one first, and takes seven times as long.
        spectrum = np.fft.rfft(windows[at] * (_window() * np.float32(4)), axis=1, norm="forward")
        spectrum = spectrum.astype(np.complex64, copy=False)
        spectrum *= _polar(np.tanh(th[at]) * np.float32(np.pi), lh[at])
        spectrum += _draw_noise(rng, len(spectrum)) * _to_amplitude(ln[at])
        spectrum += _polar(phi[at], lr[at])
        frames = np.fft.irfft(spectrum, n=SIZE, axis=1).astype(np.float32, copy=False)
        frames *= _window()
        parts = frames.reshape(-1, _OVER, HOP)
        for shift in range(_OVER):
            out[start + shift : start + shift + len(parts)] += parts[:, shift]
    _divide_by_windows(out, num_frames)
    return out.reshape(-1)[SIZE // 2 : SIZE // 2 + num_frames * HOP]


def _to_amplitude(plane: Plane) -> Plane:
    return np.exp(np.minimum(plane, _LOUDEST))


def _polar(angle: Plane, loudness: Plane) -> NDArray[np.complex64]:
    """Complex values of an angle and a logarithm of their size."""
    found = np.empty(angle.shape, np.complex64)
    size = _to_amplitude(loudness)
    np.multiply(np.cos(angle), size, out=found.real)
    np.multiply(np.sin(angle), size, out=found.imag)
    return found


def _draw_noise(rng: np.random.Generator, num_frames: int) -> NDArray[np.complex64]:
    count = num_frames * _BINS
    start = int(rng.integers(_TABLE - count))
    return _white_noise()[start : start + count].reshape(num_frames, _BINS)


@lru_cache(maxsize=1)
def _white_noise() -> NDArray[np.complex64]:
    def draw() -> bytes:
        rng = np.random.default_rng(_NOISE_SEED)
        return rng.standard_normal(2 * _TABLE, dtype=np.float32).tobytes()

    # Drawing it takes a third of the time of a short sentence.
    table = derived.derive("noise", str(_NOISE_SEED), str(_TABLE), np.__version__, build=draw)
    return np.frombuffer(table, np.complex64)


@lru_cache(maxsize=1)
def _window() -> Plane:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SIZE) / SIZE)).astype(np.float32)


def _divide_by_windows(out: Plane, num_frames: int) -> None:
    """Undo the windows where they overlap: all of them inside, fewer at both ends."""
    squared = (_window() ** 2).reshape(_OVER, HOP)
    inside = 1.0 / squared.sum(axis=0)
    edge = min(_OVER - 1, len(out))
    out[edge : len(out) - edge] *= inside
    for row in {*range(edge), *range(max(0, len(out) - edge), len(out))}:
        over = [squared[shift] for shift in range(_OVER) if 0 <= row - shift < num_frames]
        out[row] *= 1.0 / np.maximum(np.sum(over, axis=0), np.float32(1e-11))


def _build_pulse_train(f0: Plane) -> Plane:
    """A pulse train at a pitch given for each frame: all harmonics up to 11 kHz, equally loud."""
    train = _interpolate(f0)
    phase = 0.0
    for start in range(0, len(train), _BLOCK * HOP):
        phase = _write_pulses(train[start : start + _BLOCK * HOP], phase)
    return train


def _write_pulses(pitch: Plane, phase: float) -> float:
    """Turn the pitch of each sample into the train, in place; its phase at the end.

    The harmonics' sum has a closed form: sin((n + 1/2) t) / (2 sin(t / 2)) - 1/2 for n of them.
    """
    voiced = pitch > _VOICED_HZ
    np.maximum(pitch, np.float32(_VOICED_HZ), out=pitch)
    turns = pitch.astype(np.float64)
    turns[0] += phase
    np.cumsum(turns, out=turns)
    phase = float(turns[-1])
    turns /= RATE
    turns -= np.floor(turns)
    turns *= 2 * np.pi
    angle = turns.astype(np.float32)
    count = np.divide(np.float32(_HIGHEST_HZ), pitch, out=pitch)
    np.floor(count, out=count)
    count += np.float32(0.5)
    below = np.sin(angle * np.float32(0.5))
    below *= np.float32(2)
    peaks = np.flatnonzero(np.abs(below) <= _NEAR_ZERO)
    tops = count[peaks]
    below[peaks] = 1
    train = np.multiply(count, angle, out=count)
    np.sin(train, out=train)
    train /= below
    train[peaks] = tops
    train -= np.float32(0.5)
    train *= voiced
    return phase


def _interpolate(values: Plane) -> Plane:
    """Values in the middle of frames, as samples on the straight lines between them."""
    ramp = ((np.arange(HOP) + 0.5) / HOP - 0.5).astype(np.float32)
    steps = np.diff(values, prepend=values[:1], append=values[-1:])[:, None]
    out: Plane = np.repeat(values, HOP).reshape(-1, HOP)
    half = HOP // 2
    out[:, :half] += ramp[:half] * steps[:-1]
    out[:, half:] += ramp[half:] * steps[1:]
    return out.reshape(-1)
