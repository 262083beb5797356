"""Our way from the network's spectra to a wave is the package's, given the same noise."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.speech.models.hibari_wave import HOP, Wave


@pytest.mark.parametrize("frames", [1, 2, 3, 5, 40, 211])
def test_it_makes_the_packages_wave(frames: int) -> None:
    from hibari import dsp

    rng = np.random.default_rng(frames)
    spectra = [rng.standard_normal((601, frames), dtype=np.float32) - 2 for _ in range(5)]
    pitch = np.abs(rng.standard_normal(frames, dtype=np.float32)) * 120  # some of it unvoiced
    noise = np.random.default_rng(7).standard_normal((601, 2 * frames), dtype=np.float32)
    ours = Wave().make([*spectra, pitch], noise.view(np.complex64))
    theirs = dsp.synth(*spectra, pitch, np.random.default_rng(7))
    assert ours.shape == theirs.shape == (frames * HOP,)
    assert np.abs(ours - theirs).max() < 1e-3 * np.abs(theirs).max()


def test_noise_hangs_on_the_phonemes_and_the_seed() -> None:
    wave = Wave()
    one = wave.noise_for([1, 2, 3], 5, 20)
    assert np.array_equal(one, wave.noise_for([1, 2, 3], 5, 20))
    assert not np.array_equal(one, wave.noise_for([1, 2, 3], 6, 20))
    assert not np.array_equal(one, wave.noise_for([1, 2, 4], 5, 20))
    assert 0.9 < np.abs(one).std() * 2 < 1.4


def test_there_is_noise_for_the_longest_stretch() -> None:
    assert Wave().noise_for([1], 0, 6000).shape == (601, 6000)
