"""The fake engine: exact word times, and faults to order."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.placement import Placement
from anyrig.speech import engines
from anyrig.speech.audio import Take
from anyrig.speech.protocol import Line


def say(placement: Placement, line: Line, **options: str | int | float) -> Take:
    return engines.make(placement, engine="tone", options=dict(options)).run([line])[0]


def test_a_word_is_heard_exactly_when_it_says(on_cpu: Placement) -> None:
    take = say(on_cpu, Line("One three."))
    (one, three) = take.words
    assert (one.text, three.text) == ("One", "three")
    gap = take.samples[round(one.end_s * take.rate) : round(three.start_s * take.rate)]
    assert not gap.any()
    assert np.abs(take.samples[: round(one.end_s * take.rate)]).max() > 0.1
    assert three.end_s - three.start_s > one.end_s - one.start_s


def test_languages_have_voices_of_their_own(on_cpu: Placement) -> None:
    english, spanish = say(on_cpu, Line("hola")), say(on_cpu, Line("hola", "es"))
    assert not np.array_equal(english.samples, spanish.samples)
    with pytest.raises(UnspeakableTextError, match="de"):
        say(on_cpu, Line("hallo", "de"))


def test_phonemes_are_one_word(on_cpu: Placement) -> None:
    assert [word.text for word in say(on_cpu, Line("in [[nəˈvɑdə]] now")).words] == [
        "in", "nəˈvɑdə", "now",
    ]  # fmt: skip


@pytest.mark.parametrize("fault", ["silence", "nan", "clipping", "short", "long", "repetition"])
def test_faults_come_with_their_seed_alone(on_cpu: Placement, fault: str) -> None:
    line = Line("Say this with care", seed=3)
    good, bad = say(on_cpu, line), say(on_cpu, line, bad=f"3:{fault}")
    assert not np.array_equal(good.samples, bad.samples, equal_nan=True)
    other = Line(line.text, seed=4)
    assert np.array_equal(say(on_cpu, other).samples, say(on_cpu, other, bad="3:nan").samples)
    spared = say(on_cpu, line, bad=f"3:{fault}", bad_word="elephant")
    assert np.array_equal(spared.samples, good.samples)


def test_the_faults_are_what_they_are_called(on_cpu: Placement) -> None:
    line = Line("Say this with care")
    usual = say(on_cpu, line)
    assert not say(on_cpu, line, bad="0:silence").samples.any()
    assert np.isnan(say(on_cpu, line, bad="0:nan").samples).any()
    assert (np.abs(say(on_cpu, line, bad="0:clipping").samples) == 1.0).mean() > 0.5
    assert say(on_cpu, line, bad="0:short").duration_s < 0.1 * usual.duration_s
    assert say(on_cpu, line, bad="0:long").duration_s > 5 * usual.duration_s


def test_memory_ends_above_a_number_of_lines(on_cpu: Placement) -> None:
    engine = engines.make(on_cpu, engine="tone", options={"memory_items": 2})
    assert len(engine.run([Line("a")] * 2)) == 2
    with pytest.raises(MemoryError):
        engine.run([Line("a")] * 3)


def test_a_fault_it_does_not_know_is_refused(on_cpu: Placement) -> None:
    with pytest.raises(InvalidInputError, match="hiccup") as caught:
        say(on_cpu, Line("a"), bad="0:hiccup")
    assert "silence" in caught.value.hint


def test_nothing_to_say_is_told(on_cpu: Placement) -> None:
    with pytest.raises(UnspeakableTextError):
        say(on_cpu, Line(" ... "))
