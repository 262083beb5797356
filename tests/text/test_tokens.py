"""Tokens cover a text, and sentences are cut on them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.text.recognizers import Candidate, Stretch, choose_path, load
from anyrig.text.tokens import split_sentences, split_text, tokenize
from anyrig.text.values import Number
from tests.reading.score import FOLDER, read_cases

_ANY = st.text(st.characters(exclude_categories=()), max_size=200)
_PIECES = st.lists(
    st.sampled_from(
        ["Dr. ", "p.m. ", "He", " left", ". ", "... ", "? ", "\n", "\n\n", '"', "”", "«", "(", ")",
         "[1]", "3.5", "1. ", "M. ", "etc. ", "http://a.b/c. ", "no. ", "。", "\ud800", "\x00", "É",
         "**x** ", "&nbsp;", "\r\n", "  ", "…", "U.S. ", "<b>"]
    ),
    max_size=30,
).map("".join)  # fmt: skip


@settings(deadline=None)
@given(_ANY | _PIECES, st.sampled_from(["en", "es", "fr", "de", "it", "ja", "zz", "pt-BR"]))
def test_tokens_cover_the_text(text: str, language: str) -> None:
    position = 0
    for token in tokenize(text, language):
        assert token.start == position
        assert token.end >= token.start
        position = token.end
    assert position == len(text)


@settings(deadline=None)
@given(_ANY | _PIECES, st.sampled_from(["en", "es", "fr", "de", "zz"]))
def test_nothing_is_lost_between_sentences(text: str, language: str) -> None:
    position = 0
    for start, end in [*split_text(text, language), (len(text), len(text))]:
        assert not text[position:start].strip()
        assert start == len(text) or text[start:end].strip() == text[start:end] != ""
        position = end


def test_sentences_are_slices_of_tokens() -> None:
    text = "Dr. Lee came. He left.\n\nShe stayed"
    tokens = tokenize(text)
    sentences = [tokens[part] for part in split_sentences(tokens)]
    assert [text[one[0].start : one[-1].end] for one in sentences] == [
        "Dr. Lee came.", "He left.", "She stayed",
    ]  # fmt: skip


@pytest.mark.parametrize("written", ["He came.\nHe left.", "He came. \n He left."])
def test_a_single_line_break_is_a_space(written: str) -> None:
    assert [written[a:b] for a, b in split_text(written)] == ["He came.", "He left."]
    assert "\n" not in [token.value for token in tokenize(written)]


@pytest.mark.parametrize("name", ["english", "spanish", "french"])
def test_split_text_says_what_the_tokens_say(name: str) -> None:
    for case in read_cases(FOLDER / f"{name}.tsv")[::3]:
        tokens = tokenize(case.text, case.language)
        sentences = [tokens[part] for part in split_sentences(tokens)]
        cut = [case.text[one[0].start : one[-1].end] for one in sentences]
        spans = split_text(case.text, case.language)
        assert [case.text[start:end] for start, end in spans] == cut


@pytest.mark.parametrize(
    ("written", "sentences"),
    [
        ("IV. The garden was large. It had flowers.", 2),
        ("1. Open it. 2. Close it.", 2),
        ("Great work! 🎉", 1),
        ("it costs 12 pcs. each. nobody pays. `code` follows.", 3),
        ("« Je ne sais pas… », dit-il. Il partit.", 2),
        ("in no. They left。He came in. 5", 4),  # a Japanese full stop beside a doubtful one
    ],
)
def test_stops_that_end_no_sentence(written: str, sentences: int) -> None:
    language = "fr" if "«" in written else "en"
    assert len(split_text(written, language)) == sentences


def test_the_highest_score_without_overlap_wins() -> None:
    def propose(start: int, end: int, score: float) -> Candidate:
        return Candidate(start, end, "number", Number("1"), "none", score)

    long, left, right = propose(0, 5, 5), propose(0, 2, 3), propose(2, 5, 3)
    assert choose_path([long, left, right]) == [left, right]
    assert choose_path([long, left]) == [long]


@pytest.mark.parametrize("language", ["en", "es", "fr"])
def test_recognisers_lose_nothing_by_being_tried_at_few_places(language: str) -> None:
    """What a recogniser finds where its matches begin is what it finds at any character."""
    name = {"en": "english", "es": "spanish", "fr": "french"}[language]
    cases = read_cases(FOLDER / f"{name}.tsv")
    for case in cases[:: len(cases) // 40]:
        stretch = Stretch(case.text.replace("\n", " "))
        for one in load(language):
            if one.needs and one.needs.isdisjoint(stretch.present):
                continue
            anywhere = replace(one, at="any")
            anywhere.__dict__["compiled"] = one.compiled
            assert list(one.propose(stretch)) == list(anywhere.propose(stretch)), one.pattern


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("es", "Alcanza 120 km/h. | Véase la fig. 4 del cap. 2. | Mide 3 mm². | Es H2O. | Fin."),
        ("es", "Pesa 12 g. | El cable cuesta 5 €. | A las 15 h. Juan llegó. | Son 12 págs. | Fin."),
        ("fr", "Il atteint 120 km/h. | Voir la fig. 4 du chap. 2. | Il mesure 3 mm². | Fin."),
        ("fr", "Il pèse 12 g. | L'un coûte 5 €. | À 15 h. Jean arriva. | Voir l'art. 12. | Fin."),
        ("en", "It reaches 80 mph. | See fig. 4 and vol. 2. | The area is 3 m². | Done."),
        ("en", "Dr. Lee left Elm Dr. | He drank H2O. | It weighs 5 lb. | Done."),
        ("en", "Bp. Grey sat by an Elm. | Mary broke the Act. | Hmm. | Lk. Huron froze. | Done."),
    ],
)
def test_stops_behind_measures_and_before_numbers(language: str, written: str) -> None:
    sentences = written.split(" | ")
    text = " ".join(sentences)
    assert [text[start:end] for start, end in split_text(text, language)] == sentences


@pytest.mark.parametrize("language", ["en", "es", "fr", "it"])
def test_a_long_row_of_full_stops_is_one_sentence(language: str) -> None:
    """A pattern that starts anew at each of them needs minutes here."""
    text = "He waited" + "." * 400_000
    assert split_text(text, language)[0][0] == 0
