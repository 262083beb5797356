"""The language of a text: found where there is enough of it, and not guessed elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.text.language import _NOISE, detect
from anyrig.text.sentences import paragraphs
from tests.conftest import ROOT

_FRENCH = (
    "Longtemps, je me suis couché de bonne heure. Parfois, à peine ma bougie éteinte, mes yeux se "
    "fermaient si vite que je n'avais pas le temps de me dire : « Je m'endors. »"
)
_SPANISH = (
    "En un lugar de la Mancha, de cuyo nombre no quiero acordarme, no ha mucho tiempo que vivía un "
    "hidalgo de los de lanza en astillero, adarga antigua, rocín flaco y galgo corredor."
)


ENOUGH = [
    (_FRENCH, "fr"), (_SPANISH, "es"),
    ("It was the best of times, it was the worst of times.", "en"),
    ("Bonjour tout le monde", "fr"), ("Le chat est sur la table.", "fr"),
    ("Elle a dit qu'elle viendrait demain.", "fr"), ("Merci beaucoup.", "fr"),
    ("El gato está en la mesa.", "es"), ("Buenos días a todos", "es"),
    ("Hay tres cuartos de litro a veinte grados.", "es"), ("Sólo sé que no sé nada.", "es"),
    ("Muchas gracias por todo", "es"), ("Por favor, ven aquí.", "es"),
    ("Ein schöner Tag in München.", "de"), ("Das ist gut.", "de"),
    ("Una bella giornata a Roma.", "it"), ("Olá, como vai você?", "pt"),
    ("Привет мир", "ru"), ("你好", "zh"), ("こんにちは", "ja"), ("مرحبا", "ar"),
    ("안녕하세요", "ko"),
    ("He said it to me", "en"), ("She sells seashells by the seashore", "en"),
]  # fmt: skip


def test_enough_to_tell(subtests: pytest.Subtests) -> None:
    for text, language in ENOUGH:
        with subtests.test(text=text, language=language):
            found = detect(text)
            assert (found.language, found.sure) == (language, True)
            assert found.reason


TOO_LITTLE = [
    "", " ", "OK", "Yes.", "12345", "John Smith", "Maria Garcia", "Hello world", "Kokoro",
    "New York, Los Angeles, San Francisco, San Diego", "Alice in Wonderland", "CHAPTER IV",
    "Barack Obama, Angela Merkel, Emmanuel Macron", "https://example.com/le/chat/est",
    "Turn left at Rue de la Paix.", "😀", "\ud800", "Die hard", "* * *",
    "Homo sapiens, Canis lupus, Felis catus", "wtf lol omg brb",
    "ten point zero zero zero", "apples, pears, et cetera.", "two C E Os",
]  # fmt: skip


def test_too_little_to_tell_is_the_default(subtests: pytest.Subtests) -> None:
    for text in TOO_LITTLE:
        for default in ["en", "es"]:
            with subtests.test(text=text, default=default):
                found = detect(text, default=default)
                assert (found.language, found.sure) == (default, False)


def test_only_the_languages_allowed() -> None:
    assert detect(_FRENCH, ["en", "es", "fr"]).language == "fr"
    assert detect(_FRENCH, ["en", "ko"], default="ko").language in ("en", "ko")


def test_a_foreign_preface_does_not_decide() -> None:
    preface = "This is the preface of the book, and it is not in the language of the rest. " * 12
    assert detect(preface + f"\n\n{_FRENCH}" * 30).language == "fr"


def test_no_paragraph_of_an_english_book_is_foreign() -> None:
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    assert {detect(text[a:b]).language for a, b in paragraphs(text)} == {"en"}
    # not even when another language is the default: what is long enough speaks for itself
    spans = [span for span in paragraphs(text) if span[1] - span[0] > 150]
    assert {detect(text[a:b], default="fr").language for a, b in spans} == {"en"}


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=100))
def test_any_text_has_an_answer(text: str) -> None:
    found = detect(text)
    assert found.language
    assert 0.0 <= found.confidence <= 1.001


@pytest.mark.parametrize("run", ["a", "@", "a@", "[[", "<", "www", "_a"])
def test_noise_is_taken_out_of_a_long_run_without_end(run: str) -> None:
    # Looked for from every letter, an address in a run of this length takes minutes.
    assert _NOISE.sub("", run * 300_000 + " joe@example.org the rest").endswith(" the rest")


def test_addresses_do_not_speak_for_a_language() -> None:
    text = "Voici le texte de la lettre que nous avons reçue hier."
    noisy = f"{text} <the.of.and@was.this.that> www.the-and-of.com mailto:the@and.of, {text}"
    assert detect(noisy).language == "fr"
