"""The default voice's wave, beside what its package makes of the same spectrum."""

from __future__ import annotations

import numpy as np
import pytest
from hibari import dsp
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.speech.models import hibari_vocoder

Plane = NDArray[np.float32]
Planes = tuple[Plane, Plane, Plane, Plane, Plane, Plane]


def planes(num_frames: int, *, noise: float) -> Planes:
    """Such as the network gives: falling with the frequency, a pitch with a silent stretch."""
    rng = np.random.default_rng(3)
    slope = -2.0 - 6.0 * np.linspace(0, 1, 601, dtype=np.float32)[:, None]

    def plane(level: float) -> NDArray[np.float32]:
        return (slope + level + rng.normal(0, 0.3, (601, num_frames))).astype(np.float32)

    turns = rng.normal(0, 1, (2, 601, num_frames)).astype(np.float32)
    f0 = (180 + 40 * np.sin(np.arange(num_frames) / 9)).astype(np.float32)
    f0[num_frames // 3 : num_frames // 2] = 0
    return plane(0), turns[0], plane(noise), plane(-1), turns[1], f0


def wave(given: Planes, seed: int = 0) -> Samples:
    """The package has a row for each frequency, we have one for each frame."""
    lh, th, ln, lr, phi, f0 = given
    return hibari_vocoder.vocode(lh.T, th.T, ln.T, lr.T, phi.T, f0, np.random.default_rng(seed))


@pytest.mark.parametrize("num_frames", [1, 2, 5, 47, 48, 49, 333])
def test_without_noise_it_is_the_packages_own_wave(num_frames: int) -> None:
    given = planes(num_frames, noise=-60.0)
    theirs = dsp.synth(*given, np.random.default_rng(0))
    ours = wave(given)
    assert len(ours) == num_frames * hibari_vocoder.HOP
    assert np.abs(ours - theirs).max() < 1e-3 * max(1e-3, float(np.abs(theirs).max()))


def test_noise_is_as_loud_as_the_packages_and_drawn_by_the_seed() -> None:
    given = planes(400, noise=2.0)
    theirs = dsp.synth(*given, np.random.default_rng(0))
    one, same, other = (wave(given, seed) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert np.sqrt(np.mean(one**2)) == pytest.approx(np.sqrt(np.mean(theirs**2)), rel=0.03)
    ours, package = (np.abs(np.fft.rfft(wave)) for wave in (one, theirs))
    bands = np.array_split(np.arange(len(ours)), 12)
    for band in bands:
        assert ours[band].mean() == pytest.approx(package[band].mean(), rel=0.15)
