from __future__ import annotations

import pytest

from anyrig.documents.analyse.statistics import Statistics, statistics
from anyrig.text.tokens import split_text

EASY = "The cat sat on the mat. The dog ran to the cat. They all went home to eat and sleep. " * 3
HARD = (
    "Notwithstanding considerable international coordination, institutional accountability "
    "mechanisms remain insufficiently operationalised throughout multilateral organisations, "
    "complicating comprehensive evaluations of administrative effectiveness considerably. " * 2
)


def told(text: str, language: str) -> Statistics:
    return statistics(text, split_text(text, language), language)


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


def test_a_language_without_a_formula_gets_none() -> None:
    found = told("Talo on iso ja vanha. " * 20, "fi")
    assert (found.ease, found.formula, found.level) == (None, "", "")
    assert found.reading_s > 0
