"""Good takes pass, of every length and rate; damaged ones are caught, by the right name."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.audio.samples import Samples
from anyrig.speech.chunks import trim
from anyrig.speech.engine import Take, Utterance
from anyrig.speech.quality import QualityReport, check_take, expect_duration
from anyrig.speech.repetition import find_repetition, is_repetitive
from tests.speech.takes import RATE, said, sentences

SHORT = (
    "Yes.", "No!", "Oh.", "Why?", "I see.", "Go on, then.", "Ha ha ha ha ha!", "No, no, no, no!",
    "Very, very, very well.", "One two three four five six seven eight nine ten.",
    "NASA and the BBC.",
)  # fmt: skip
# Without figures, so that the length of what is said can be told from the text.
PLAIN = tuple(text for text in sentences() if not any(c.isdigit() for c in text))[:12]


def kinds(report: QualityReport) -> set[str]:
    return {problem.kind for problem in report.problems}


def damaged(samples: Samples, text: str) -> set[str]:
    report = check_take(Take(samples, RATE), Utterance(text))
    assert report.is_good == (not report.problems)
    assert report.score < 1.0 or report.is_good
    return kinds(report)


def test_real_takes_pass(subtests: pytest.Subtests) -> None:
    for text in [*sentences()[:30], *SHORT]:
        with subtests.test(text=text):
            report = check_take(said(text), Utterance(text))
            assert report == QualityReport((), 1.0)


def test_fast_and_slow_takes_pass(subtests: pytest.Subtests) -> None:
    for rate in [0.5, 0.8, 1.5, 2.0]:
        for text in [sentences()[0], sentences()[2], *SHORT[:8]]:
            with subtests.test(text=text, rate=rate):
                assert check_take(said(text, rate), Utterance(text, rate=rate)).is_good


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
        report = check_take(Take(samples, 16000), Utterance(text, language=language))
        assert report.is_good, (text, report)


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
    assert find_repetition(often, RATE) is not None
    assert "repetition" in kinds(
        check_take(Take(often, RATE), Utterance("Never will he say again that."))
    )
    assert check_take(Take(often, RATE), Utterance("Never again. " * 5)).is_good
    assert is_repetitive("Knock knock knock.")
    assert is_repetitive("hahaha")
    assert is_repetitive("again and again and again and again")
    assert is_repetitive("Nooooooo!")
    assert is_repetitive("Row, row, row your boat.")
    assert is_repetitive("He came back and went away, he came back and went away.")
    assert not is_repetitive("He said that she said nothing.")
    assert not is_repetitive("I knew that that would do, and he had had enough.")


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
    assert "repetition" in kinds(check_take(Take(looped, RATE), Utterance(text)))


def test_better_takes_score_higher() -> None:
    text = PLAIN[0]
    whole = said(text).samples
    loud = check_take(Take(np.clip(whole * 12, -1, 1), RATE), Utterance(text)).score
    cut = check_take(Take(whole[: len(whole) // 3], RATE), Utterance(text)).score
    silent = check_take(Take(np.zeros_like(whole), RATE), Utterance(text)).score
    assert 1.0 > loud > cut > silent == 0.0


def test_lines_without_letters_expect_nothing() -> None:
    silence = Take(np.zeros(2400, dtype=np.float32), RATE)
    assert check_take(silence, Utterance("...")).is_good
    assert expect_duration(Utterance("...")).max_s == 0.0


def test_scripts_of_other_kinds_have_bounds() -> None:
    chinese = expect_duration(Utterance("今天天气很好。", language="zh"))
    assert 0.2 < chinese.min_s < 1.5 < chinese.max_s < 8.0
    phonemes = expect_duration(Utterance("Say [[həlˈoʊ]] to them."))
    assert phonemes.min_s < 1.2 < phonemes.max_s
