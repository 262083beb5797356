"""Faster and slower: as long as asked, at the same pitch, without clicks."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.audio.stretch import stretch

RATE = 24000


def _voice(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """A buzz of 130 Hz with overtones that swells and fades five times a second."""
    time = np.arange(int(seconds * RATE)) / RATE
    buzz = sum(np.sin(2 * np.pi * 130 * k * time) / k for k in range(1, 12))
    return np.asarray(0.3 * buzz * (0.6 + 0.4 * np.sin(2 * np.pi * 5 * time)), np.float32)


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.25, 2.0])
def test_length_and_pitch(speed: float) -> None:
    samples = _voice(2.0)
    made = stretch(samples, RATE, speed)
    assert len(made) == round(len(samples) / speed)
    assert made.dtype == np.float32
    middle = made[RATE // 4 : -RATE // 4] * np.hanning(len(made) - RATE // 2)
    peak = np.argmax(np.abs(np.fft.rfft(middle, 4 * RATE))) / 4
    assert abs(peak - 130) < 2.5
    assert np.abs(np.diff(made)).max() < 1.5 * np.abs(np.diff(samples)).max()  # no clicks
    assert 0.8 < np.std(middle) / np.std(samples * np.hanning(len(samples))) < 1.2


def test_beginning_and_end_stay() -> None:
    """A click near either end is still there."""
    samples = np.zeros(RATE, np.float32)
    samples[1200] = samples[-1200] = 1.0
    made = stretch(samples, RATE, 2.0)
    loud = np.flatnonzero(np.abs(made) > 0.2)
    assert loud.size
    assert loud[0] < 1200
    assert loud[-1] > len(made) - 1200
