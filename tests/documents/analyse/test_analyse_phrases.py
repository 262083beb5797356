from __future__ import annotations

import statistics

import pytest

from anyrig.documents.analyse import phrases
from anyrig.text.tokens import split_text
from tests.documents.marked_texts import load, matches


def ranked(text: str, language: str) -> list[str]:
    found = phrases.candidates(text, split_text(text, language), language)
    return [phrase.text for phrase in phrases.rank(found, language)]


def test_phrases_of_marked_texts_are_found_in_three_languages() -> None:
    by_language: dict[str, list[float]] = {}
    for one in load():
        best = ranked(one.text, one.language)[:10]
        share = sum(matches(phrase, one.phrases) for phrase in best) / 10
        by_language.setdefault(one.language, []).append(share)
    assert set(by_language) == {"en", "es", "fr"}
    for language, shares in by_language.items():
        assert statistics.mean(shares) >= 0.5, language


def test_a_phrase_is_not_said_twice() -> None:
    text = "The tidal gate is big. The tidal gate is new. The old tidal gate was a tidal gate."
    found = ranked(text, "en")
    assert found[0] == "tidal gate"
    assert "gate" not in found


def test_words_of_all_documents_weigh_less() -> None:
    text = "The invoice came. An invoice names slates. We paid the invoice; the slates are here."
    found = phrases.candidates(text, split_text(text, "en"), "en")
    plainly = [one.text for one in phrases.rank(found, "en")]
    common = {"invoic": 50}
    known = [one.text for one in phrases.rank(found, "en", frequencies=common, num_texts=50)]
    assert "invoice" in plainly[0]
    assert "slates" in known[0]


@pytest.mark.parametrize("text", ["", "...", "1234 5678", "the of and", "\ud800 \x00 \u202e"])
def test_a_text_that_says_nothing_has_no_phrases(text: str) -> None:
    assert ranked(text, "en") == []


def test_other_languages_get_something_sensible() -> None:
    text = (
        "Bibliotek i Norden forandrer seg. Et bibliotek er nå et møtested. "
        "Norden har mange bibliotek, og hvert bibliotek låner ut bøker."
    )
    assert "bibliotek" in ranked(text, "no")[0].lower()
    chinese = "我们在图书馆读书。图书馆很安静。他去图书馆。"
    assert "图书馆" in "".join(ranked(chinese, "zh")[:3])
