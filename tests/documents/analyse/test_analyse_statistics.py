from __future__ import annotations

import pytest

from anyrig.documents.analyse.statistics import Statistics, statistics, syllables
from anyrig.text.sentences import sentences

EASY = "The cat sat on the mat. The dog ran to the cat. They all went home to eat and sleep. " * 3
HARD = (
    "Notwithstanding considerable international coordination, institutional accountability "
    "mechanisms remain insufficiently operationalised throughout multilateral organisations, "
    "complicating comprehensive evaluations of administrative effectiveness considerably. " * 2
)


def told(text: str, language: str) -> Statistics:
    return statistics(text, sentences(text, language), language)


def test_counts() -> None:
    found = told("One two three. Four five!\n\nSix?", "en")
    assert (found.num_words, found.num_sentences, found.num_paragraphs) == (6, 3, 2)
    assert found.words_a_sentence == pytest.approx(2.0)
    assert found.longest[0].text == "One two three."
    assert found.distinct == 1.0


def test_a_child_reads_one_and_not_the_other() -> None:
    easy, hard = told(EASY, "en"), told(HARD, "en")
    assert easy.ease is not None
    assert hard.ease is not None
    assert easy.ease > 90
    assert hard.ease < 10
    assert easy.level == "very easy"
    assert hard.formula == "Flesch"


@pytest.mark.parametrize(
    ("language", "formula"), [("fr", "Kandel-Moles"), ("es", "Szigriszt"), ("de", "Amstad")]
)
def test_each_language_has_its_formula(language: str, formula: str) -> None:
    assert told("mot ici la " * 20 + ".", language).formula == formula


def test_a_language_without_a_formula_gets_none() -> None:
    found = told("Talo on iso ja vanha. " * 20, "fi")
    assert (found.ease, found.formula, found.level) == (None, "", "")
    assert found.reading_s > 0


@pytest.mark.parametrize(
    ("word", "language", "count"),
    [
        ("cat", "en", 1), ("table", "en", 2), ("make", "en", 1), ("hoped", "en", 1),
        ("wanted", "en", 2), ("banana", "en", 3), ("casa", "es", 2), ("río", "es", 2),
        ("leer", "es", 2), ("agua", "es", 2), ("maison", "fr", 2), ("table", "fr", 1),
        ("gouvernement", "fr", 4),
    ],
)  # fmt: skip
def test_syllables(word: str, language: str, count: int) -> None:
    assert syllables(word, language) == count


def test_an_empty_text_divides_by_nothing() -> None:
    found = told("", "en")
    assert (found.num_words, found.reading_s, found.distinct, found.ease) == (0, 0.0, 0.0, None)


def test_long_texts_are_as_varied_as_their_stretches() -> None:
    once = told(HARD, "en")
    often = told(HARD * 40, "en")
    assert often.distinct < once.distinct
    assert often.distinct > 0.02
