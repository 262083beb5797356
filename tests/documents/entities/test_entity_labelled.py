"""The labelled passages: what the grammars find in them, without any model."""

from __future__ import annotations

import pytest

from benchmarks.entities import CHECKED, ours, passages, scored, slips


def test_the_set_is_as_large_and_mixed_as_it_should_be() -> None:
    texts = passages()
    assert len(texts) >= 60
    for language in ("en", "fr", "es"):
        some = [one for one in texts if one.language == language]
        assert {mark.kind for one in some for mark in one.marks} >= {
            "person", "organisation", "place", *CHECKED,
        }  # fmt: skip
        assert sum(not one.marks for one in some) >= 2  # hard negatives
    for one in texts:
        assert all(one.text[mark.start : mark.end].strip() for mark in one.marks)


@pytest.mark.parametrize("language", ["en", "fr", "es"])
def test_what_is_checked_is_found_and_nothing_else(language: str) -> None:
    texts = [one for one in passages() if one.language == language]
    found = ours(texts, names=False)
    score = scored(texts, found, CHECKED)
    wrong = [line for line in slips(texts, found) if any(f" {kind}:" in line for kind in CHECKED)]
    assert score.precision > 0.97, wrong
    assert score.recall > 0.97, wrong
