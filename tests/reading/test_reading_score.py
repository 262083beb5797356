"""Written text is read as people read it: the score of tests/reading must not fall."""

from __future__ import annotations

import pytest

from tests.reading.score import FOLDER, normalize, read_cases, score

REACHED = {"english": 5391, "spanish": 2431, "french": 2356}
"""Sentences that are read right; raise it with the score."""


@pytest.mark.parametrize("language", REACHED)
def test_the_reading_score_does_not_fall(language: str) -> None:
    classes, failures = score([FOLDER / f"{language}.tsv"])
    right = sum(right for right, _ in classes.values())
    read = "\n".join(f"{case.id}: {' | '.join(spoken)}" for case, spoken in failures)
    assert right >= REACHED[language], read


def test_cases_have_different_names() -> None:
    names = [case.id for path in sorted(FOLDER.glob("*.tsv")) for case in read_cases(path)]
    assert len(names) == len(set(names)) >= 400


def test_sentences_are_compared_as_they_are_heard() -> None:
    assert normalize("One hundred and five, he said.") == normalize("one hundred five he said.")
    assert normalize("He left.") != normalize("He left")
    assert normalize("“Twenty-one!”") == normalize("twenty one!")
