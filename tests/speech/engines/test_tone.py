"""The fake engine: exact word times, and faults to order."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.placement import Placement
from anyrig.speech import engines
from anyrig.speech.engine import Take, Utterance


def say(placement: Placement, line: Utterance, **options: str | int | float) -> Take:
    return engines.load_engine(placement, engine="tone", options=dict(options)).run([line])[0]


def test_a_word_is_heard_exactly_when_it_says(on_cpu: Placement) -> None:
    take = say(on_cpu, Utterance("One three."))
    (one, three) = take.words
    assert (one.text, three.text) == ("One", "three")
    gap = take.samples[round(one.end_s * take.rate) : round(three.start_s * take.rate)]
    assert not gap.any()
    assert np.abs(take.samples[: round(one.end_s * take.rate)]).max() > 0.1
    assert three.end_s - three.start_s > one.end_s - one.start_s


def test_the_faults_are_what_they_are_called(on_cpu: Placement) -> None:
    line = Utterance("Say this with care")
    usual = say(on_cpu, line)
    assert not say(on_cpu, line, bad="0:silence").samples.any()
    assert np.isnan(say(on_cpu, line, bad="0:nan").samples).any()
    assert (np.abs(say(on_cpu, line, bad="0:clipping").samples) == 1.0).mean() > 0.5
    assert say(on_cpu, line, bad="0:short").duration_s < 0.1 * usual.duration_s
    assert say(on_cpu, line, bad="0:long").duration_s > 5 * usual.duration_s


def test_memory_ends_above_a_number_of_lines(on_cpu: Placement) -> None:
    engine = engines.load_engine(on_cpu, engine="tone", options={"memory_items": 2})
    assert len(engine.run([Utterance("a")] * 2)) == 2
    with pytest.raises(MemoryError):
        engine.run([Utterance("a")] * 3)
