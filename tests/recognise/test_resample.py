"""Another rate, the same sound: tones keep height and phase, what does not fit is gone."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.errors import InvalidInputError
from anyrig.recognise.resample import Resampler, resample
from tests.speech.sound.takes import sine

CHANGES = [(24000, 48000), (22050, 24000), (16000, 24000), (48000, 16000), (24000, 44100)]


@pytest.mark.parametrize(("source", "target"), CHANGES)
@pytest.mark.parametrize("hertz", [100.0, 1000.0, 5000.0])
def test_a_tone_stays_that_tone(source: int, target: int, hertz: float) -> None:
    made = resample(sine(0.5, hertz, source), source, target)
    wanted = sine(0.5, hertz, target)
    assert len(made) == len(wanted)
    assert made.dtype == np.float32
    inside = slice(200, -200)
    assert float(np.abs(made[inside] - wanted[inside]).max()) < 1e-4


def test_what_the_lower_rate_cannot_hold_is_gone() -> None:
    made = resample(sine(0.5, 9500.0, 48000), 48000, 16000)
    assert float(np.abs(made[200:-200]).max()) < 1e-4


@pytest.mark.parametrize(("source", "target"), [*CHANGES, (24000, 23999)])
def test_a_stream_gives_what_the_whole_gives(source: int, target: int) -> None:
    random = np.random.default_rng(3)
    sound = random.standard_normal(6000).astype(np.float32)
    change, parts, at = Resampler(source, target), [], 0
    while at < len(sound):
        size = int(random.integers(0, 900))
        parts.append(change.feed(sound[at : at + size]))
        at += size
    parts.append(change.finish())
    made, whole = np.concatenate(parts), resample(sound, source, target)
    assert len(made) == len(whole) == -(-len(sound) * target // source)
    assert float(np.abs(made - whole).max()) < 1e-5


def test_nothing_and_the_same_rate() -> None:
    empty = np.zeros(0, dtype=np.float32)
    assert len(resample(empty, 24000, 16000)) == 0
    tone = sine(0.01)
    assert resample(tone, 24000, 24000) is tone
    assert len(resample(tone[:1], 24000, 48000)) == 2


def test_rates_that_are_none() -> None:
    with pytest.raises(InvalidInputError):
        Resampler(0, 24000)
