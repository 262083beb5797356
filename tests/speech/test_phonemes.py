"""Text to phonemes, and IPA to the alphabet of the models."""

from __future__ import annotations

import logging

import pytest

from anyrig.devices.discovery import discover
from anyrig.speech import phonemes
from anyrig.speech.phonemes import PronouncedWord
from anyrig.speech.phonemes.english import EnglishReader
from anyrig.speech.phonemes.letters import spell_ipa
from benchmarks.pronunciation import is_right, read_homographs


@pytest.fixture(scope="module")
def english() -> EnglishReader:
    return EnglishReader(discover().cpu_device)


def said(words: list[PronouncedWord]) -> str:
    return "".join(word.phonemes + " " * word.space for word in words)


@pytest.mark.parametrize(
    ("ipa", "ours"),
    [
        ("həˈloʊ", "həlˈO"),
        ("təˈmeɪtoʊ", "təmˈAtO"),
        ("/ˈtʃɜːtʃ/", "ʧˈɜɹʧ"),
        ("d͡ʒʌd͡ʒ", "ʤʌʤ"),
        ("ˈbʌtn̩", "bˈʌtᵊn"),
        ("ˈɡaʊ.dɪ", "ɡˈWdɪ"),
        ("bɔ̃ˈʒuʁ", "bɔnʒˈuɹ"),
    ],
)
def test_ipa_becomes_the_models_alphabet(ipa: str, ours: str) -> None:
    assert phonemes.from_ipa(ipa) == ours


def test_british_keeps_its_vowels() -> None:
    assert phonemes.from_ipa("ɡəʊ", british=True) == "ɡQ"
    assert phonemes.from_ipa("kɑːt", british=True) == "kɑːt"


def test_english_is_read_with_brackets_in_it(english: EnglishReader) -> None:
    assert said(english.read("Hello there.")) == "həlˈO ðˈɛɹ."
    told = english.read("Hello [[ˈdʒoʊ]].")
    assert said(told) == "həlˈO ʤˈO."
    assert [word.text for word in told if word.spoken] == ["Hello", "ˈdʒoʊ"]


def test_a_link_in_the_text_is_no_phoneme(english: EnglishReader) -> None:
    read = said(english.read("See [this](/ʤˈO/) now."))
    assert read == said(english.read("See this now."))


def test_typographic_signs_read_as_plain_ones(english: EnglishReader) -> None:
    assert said(english.read("It’s fine.")) == said(english.read("It's fine."))


def test_unknown_signs_are_dropped_and_told(caplog: pytest.LogCaptureFixture) -> None:
    words = [PronouncedWord("ab", "aǂb", True), PronouncedWord("c", "c", True)]
    with caplog.at_level(logging.INFO):
        found = phonemes.encode(words, {"a": 1, "b": 2, "c": 3, " ": 9})
    assert found.ids == [1, 2, 9, 3]
    assert found.owners == [0, 0, 0, 1]
    assert "ǂ" in caplog.text


@pytest.mark.parametrize(
    ("letters", "language", "ipa"),
    [
        ("CIA", "en", "ˌsiːˌaɪˈeɪ"),
        ("a.m.", "en-US", "ˌeɪˈɛm"),
        ("PCs", "en", "ˌpiːˈsiːz"),
        ("the", "en", "ˌtiːˌeɪtʃˈiː"),
        ("IRS's", "en", "ˌaɪˌɑːrˈɛsɪz"),
        ("Z", "en-GB", "ˈzɛd"),
        ("ABCDEF", "en", "ˌeɪ ˌbiː ˌsiː ˌdiː ˌiː ˈɛf"),
        ("ONG", "es", "ˌoˌeneˈxe"),
        ("SNCF", "fr-FR", "ˌɛsˌɛnˌseˈɛf"),
        ("É", "fr", "ˈe"),
        ("C3", "en", ""),
        ("ABC", "fi", ""),
        ("", "en", ""),
    ],
)
def test_letters_are_spelled(letters: str, language: str, ipa: str) -> None:
    assert spell_ipa(letters, language) == ipa


def test_spelled_letters_sound_as_the_dictionary_says_them(english: EnglishReader) -> None:
    for letters in ("CIA", "AM", "HTTPS", "PCs", "IBM's", "QWRJK", "VXYGU"):
        spelled = said(english.read(f"It is [[{spell_ipa(letters, 'en')}]]."))
        assert spelled == said(english.read(f"It is {letters}."))


@pytest.mark.parametrize("british", [False, True])
def test_names_are_read_as_people_say_them(british: bool) -> None:
    reader = EnglishReader(discover().cpu_device, british=british)
    siobhan, _, goethe, *_ = (word.phonemes for word in reader.read("Siobhan met Goethe's aunt."))
    assert siobhan == ("ʃɪvˈɔːn" if british else "ʃɪvˈɔn")
    assert goethe == ("ɡˈɜːtəz" if british else "ɡˈɜɹtəz")


@pytest.mark.parametrize(
    ("name", "phonemes"),
    [
        ("Cunningham", "kˈʌnɪŋˌhæm"),
        ("Cunningham's", "kˈʌnɪŋˌhæmz"),
        ("Putnam’s", "pˈʌtnəmz"),
        ("Malkowski", "mælkˈɔfski"),
        ("Kruszynski", "kɹʌʃˈɪnski"),
        ("Flickinger", "flˈɪkɪŋəɹ"),
        ("Weidner", "wˈIdnəɹ"),
    ],
)
def test_unknown_names_are_read_without_the_usual_faults(
    english: EnglishReader, name: str, phonemes: str
) -> None:
    assert said(english.read(name)) == phonemes


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("It is nine A M.", "ˈA ˈɛm"),
        ("The C I A knew.", "sˈi ˌI ˈA"),
        ("An A grade.", "ɐn ˈA"),
        ("“A man,” he said.", "ɐ mˈæn"),
        ("UPON A TIME", "ɐ tˈIm"),
        ("He lives in Nice.", "ɪn nˈis"),
        ("Nice people came.", "nˈIs pˈipᵊl"),
        ("It tells a tale of A Tub.", "ɐ tˈʌb"),
    ],
)
def test_letters_articles_and_cities(english: EnglishReader, text: str, phonemes: str) -> None:
    assert phonemes in said(english.read(text))


def test_homographs_are_read_by_what_is_around_them(english: EnglishReader) -> None:
    """hibari's own reader is right in 154 of the first 200 sentences."""
    cases = list(read_homographs())
    assert len(cases) == 240
    wrong = [case.text for case in cases if not is_right(case, english.read)]
    assert len(wrong) <= 4, wrong
