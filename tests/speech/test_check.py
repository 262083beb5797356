"""Good takes pass, of every length and rate; damaged ones are caught, by the right name."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.audio.samples import Samples
from anyrig.speech.audio import trim
from anyrig.speech.check import Verdict, examine
from anyrig.speech.engine import Take, Utterance
from anyrig.speech.expect import expected, repeats
from anyrig.speech.repetition import repetition
from tests.speech.takes import RATE, said, sentences

SHORT = (
    "Yes.", "No!", "Oh.", "Why?", "I see.", "Go on, then.", "Ha ha ha ha ha!", "No, no, no, no!",
    "Very, very, very well.", "One two three four five six seven eight nine ten.",
    "NASA and the BBC.",
)  # fmt: skip
# Without figures, so that the length of what is said can be told from the text.
PLAIN = tuple(text for text in sentences() if not any(c.isdigit() for c in text))[:12]


def kinds(verdict: Verdict) -> set[str]:
    return {problem.kind for problem in verdict.problems}


def damaged(samples: Samples, text: str) -> set[str]:
    verdict = examine(Take(samples, RATE), Utterance(text))
    assert verdict.good == (not verdict.problems)
    assert verdict.score < 1.0 or verdict.good
    return kinds(verdict)


def test_real_takes_pass(subtests: pytest.Subtests) -> None:
    for text in [*sentences()[:30], *SHORT]:
        with subtests.test(text=text):
            verdict = examine(said(text), Utterance(text))
            assert verdict == Verdict((), 1.0)


def test_fast_and_slow_takes_pass(subtests: pytest.Subtests) -> None:
    for rate in [0.5, 0.8, 1.5, 2.0]:
        for text in [sentences()[0], sentences()[2], *SHORT[:8]]:
            with subtests.test(text=text, rate=rate):
                assert examine(said(text, rate), Utterance(text, rate=rate)).good


def test_a_voice_of_another_kind_passes() -> None:
    from py_nanotts import NanoTTS

    lines = [(text, "en", "en-US") for text in (*sentences()[:10], *SHORT)]
    lines += [
        ("El tren sale de la estación a las siete de la mañana.", "es", "es-ES"),
        ("Sí.", "es", "es-ES"),
        ("Ma grand-mère prépare une soupe aux légumes tous les dimanches.", "fr", "fr-FR"),
        ("Oui.", "fr", "fr-FR"),
        ("Die Donaudampfschifffahrtsgesellschaft hat ihren Sitz in Wien.", "de", "de-DE"),
    ]
    for text, language, voice in lines:
        data = NanoTTS().speak(text, voice=voice)
        samples = np.frombuffer(data, dtype="<i2").astype(np.float32)
        samples /= 32768
        verdict = examine(Take(samples, 16000), Utterance(text, language=language))
        assert verdict.good, (text, verdict)


@pytest.mark.parametrize("text", PLAIN)
def test_damage_is_caught(text: str) -> None:
    whole = said(text).samples
    speech = trim(said(text)).samples
    broken = whole.copy()
    broken[len(broken) // 3] = np.nan
    assert damaged(broken, text) == {"non-finite"}
    broken[len(broken) // 3] = np.inf
    assert damaged(broken, text) == {"non-finite"}
    half = whole.copy()
    half[len(half) // 2 :] = 0.0
    assert damaged(half, text) & {"silence", "length"}
    assert "clipping" in damaged(np.clip(whole * 12, -1, 1), text)
    assert "length" in damaged(speech[: int(0.45 * len(speech))], text), "it breaks off"
    other = trim(said(sentences()[2])).samples
    assert "length" in damaged(np.concatenate([speech, other, other]), text), "and babbles on"
    assert damaged(np.zeros_like(whole), text) == {"silence"}
    assert damaged(whole[:0], text) == {"empty"}


@pytest.mark.parametrize("text", PLAIN)
def test_a_gap_in_the_middle_is_caught(text: str) -> None:
    speech = trim(said(text)).samples
    middle = len(speech) // 2
    gap = np.zeros(int(2.8 * RATE), dtype=np.float32)
    assert "silence" in damaged(np.concatenate([speech[:middle], gap, speech[middle:]]), text)


def test_a_looped_tail_is_caught(subtests: pytest.Subtests) -> None:
    for text in PLAIN:
        for period_s, times in [(0.4, 7), (1.0, 4)]:
            with subtests.test(text=text, period_s=period_s):
                random = np.random.default_rng(5)
                speech = trim(said(text)).samples
                size = int(period_s * RATE)
                tail = speech[-size - 2400 : -2400]
                # As a model repeats itself: never quite the same, nor quite as loud.
                loops = [
                    np.roll(tail, int(random.integers(-100, 100))) * random.uniform(0.8, 1.1)
                    + random.standard_normal(size) * 5e-4
                    for _ in range(times)
                ]
                looped = np.concatenate([speech, *loops]).astype(np.float32)
                assert "repetition" in damaged(looped, text)


def test_a_text_that_repeats_itself_may_sound_so() -> None:
    once = trim(said("Never again.")).samples
    often = np.concatenate([once] * 5)
    assert repetition(often, RATE) is not None
    assert "repetition" in kinds(
        examine(Take(often, RATE), Utterance("Never will he say again that."))
    )
    assert examine(Take(often, RATE), Utterance("Never again. " * 5)).good
    assert repeats("Knock knock knock.")
    assert repeats("hahaha")
    assert repeats("again and again and again and again")
    assert repeats("Nooooooo!")
    assert repeats("Row, row, row your boat.")
    assert repeats("He came back and went away, he came back and went away.")
    assert not repeats("He said that she said nothing.")
    assert not repeats("I knew that that would do, and he had had enough.")


@pytest.mark.parametrize(
    "text",
    [
        "Do you remember the banana, Barbara?", "She assessed the proposition in Mississippi.",
        "He had had a coconut that that day.", "El murciélago come cacao y cocos de papá.",
        "Il se remémore la mémoire de sa grand-mère cocotte.",
    ],
)  # fmt: skip
def test_a_word_with_a_syllable_twice_does_not_hide_a_loop(text: str) -> None:
    speech = trim(said("Never again.")).samples
    looped = np.concatenate([speech] * 5)
    assert "repetition" in kinds(examine(Take(looped, RATE), Utterance(text)))


def test_better_takes_score_higher() -> None:
    text = PLAIN[0]
    whole = said(text).samples
    loud = examine(Take(np.clip(whole * 12, -1, 1), RATE), Utterance(text)).score
    cut = examine(Take(whole[: len(whole) // 3], RATE), Utterance(text)).score
    silent = examine(Take(np.zeros_like(whole), RATE), Utterance(text)).score
    assert 1.0 > loud > cut > silent == 0.0


def test_lines_without_letters_expect_nothing() -> None:
    silence = Take(np.zeros(2400, dtype=np.float32), RATE)
    assert examine(silence, Utterance("...")).good
    assert expected(Utterance("...")).most_s == 0.0


def test_scripts_of_other_kinds_have_bounds() -> None:
    chinese = expected(Utterance("今天天气很好。", language="zh"))
    assert 0.2 < chinese.least_s < 1.5 < chinese.most_s < 8.0
    phonemes = expected(Utterance("Say [[həlˈoʊ]] to them."))
    assert phonemes.least_s < 1.2 < phonemes.most_s
