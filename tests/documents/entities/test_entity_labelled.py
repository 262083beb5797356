"""The labelled passages: what the grammars find in them, without any model."""

from __future__ import annotations

import pytest

from benchmarks.entities import CHECKED, find_entities, list_errors, read_passages, score


def test_the_set_is_as_large_and_mixed_as_it_should_be() -> None:
    texts = read_passages()
    assert len(texts) >= 60
    for language in ("en", "fr", "es"):
        some = [one for one in texts if one.language == language]
        assert {label.kind for one in some for label in one.labels} >= {
            "person", "organisation", "place", *CHECKED,
        }  # fmt: skip
        assert sum(not one.labels for one in some) >= 2  # hard negatives
    for one in texts:
        assert all(one.text[label.start : label.end].strip() for label in one.labels)


@pytest.mark.parametrize("language", ["en", "fr", "es"])
def test_what_is_checked_is_found_and_nothing_else(language: str) -> None:
    texts = [one for one in read_passages() if one.language == language]
    found = find_entities(texts, names=False)
    result = score(texts, found, CHECKED)
    wrong = [
        line for line in list_errors(texts, found) if any(f" {kind}:" in line for kind in CHECKED)
    ]
    assert result.precision > 0.97, wrong
    assert result.recall > 0.97, wrong
