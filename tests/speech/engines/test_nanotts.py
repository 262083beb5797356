"""Pico's voices."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.placement import Placement
from anyrig.speech import engines
from anyrig.speech.engine import SpeechEngine, Utterance


@pytest.fixture
def voice(on_cpu: Placement) -> SpeechEngine:
    return engines.load_engine(on_cpu, engine="nanotts")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en-GB", "Good day."),
        ("es", "Buenos días."),
        ("fr", "Bonjour."),
    ],
)
def test_each_language_has_its_voice(voice: SpeechEngine, language: str, text: str) -> None:
    (take,) = voice.run([Utterance(text, language)])
    assert take.rate == 16000
    assert 0.3 < take.duration_s < 4
    assert np.abs(take.samples).max() > 0.05


def test_a_line_sounds_the_same_whatever_lay_in_memory(voice: SpeechEngine) -> None:
    takes = []
    for fill in (b"a", b"\xff", b"\x01"):
        blocks = [fill * (size << 18) for size in (3, 9, 11, 17)]
        del blocks
        takes.append(voice.run([Utterance("The keeper counted each step.")])[0].samples)
    assert np.array_equal(takes[0], takes[1])
    assert np.array_equal(takes[0], takes[2])


def test_angle_brackets_are_not_its_markup(voice: SpeechEngine) -> None:
    plain, bracketed = voice.run([Utterance("one two"), Utterance("one <speed level='20'> two")])
    assert bracketed.duration_s > plain.duration_s
