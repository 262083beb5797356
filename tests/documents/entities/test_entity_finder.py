"""What becomes of finds: which stays, what clings to a name, each language by itself."""

from __future__ import annotations

import pytest

from anyrig.documents.entities import marks
from anyrig.documents.entities.entity import Entity, kinds_of
from anyrig.documents.entities.finder import Finder, Text
from anyrig.documents.entities.labels import cleaned, kind_of
from anyrig.documents.entities.listing import listed, redacted
from anyrig.documents.entities.merge import joined, merged
from anyrig.documents.entities.reading import read
from anyrig.documents.entities.stretches import stretches
from anyrig.errors import InvalidInputError

MIXED = """The governor met the ministers of finance and they agreed on a sum of 1,234 euros.

Le ministre a rencontré le gouverneur et ils sont tombés d'accord sur la somme de 1.234 euros.

El ministro se reunió con el gobernador y acordaron la suma de 1.234 euros para este año."""


def name(text: str, kind: str = "organisation", start: int = 0) -> Entity:
    return Entity(kind, text, start, start + len(text), source="model", score=0.8)


def test_each_paragraph_is_read_in_its_language() -> None:
    assert [part.language for part in stretches(MIXED)] == ["en", "fr", "es"]
    (found,) = Finder(None).find([MIXED])
    assert [one.value for one in found.entities] == ["1234 EUR"] * 3
    assert set(found.languages) == {"en", "fr", "es"}


def test_a_region_is_kept_where_the_language_is_the_same() -> None:
    text = Text("It is due on 03/04/2024, as the letter from the bank said.", default="en-GB")
    (found,) = Finder(None).find([text])
    assert found.entities[0].value == "2024-04-03"


CLINGING = [
    ("the Bank of England's", "organisation", "Bank of England"),
    ("Mr. Andrew Bailey", "person", "Andrew Bailey"),
    ("Sra. Ruiz", "person", "Ruiz"),
    ("de Gaulle", "person", "de Gaulle"),
    ("The Hague", "place", "The Hague"),
    ("la Banque de France", "organisation", "Banque de France"),
    ("l'Espagne", "place", "Espagne"),
    ("Los Ángeles", "place", "Los Ángeles"),
    ("Acme Inc.", "organisation", "Acme Inc."),
    ("« Le Monde »,", "organisation", "Le Monde"),
    ("bureau de Lyon", "place", "Lyon"),
    ("Banco Santander ganó", "organisation", "Banco Santander"),
    ("John Smith\nDirector", "person", "John Smith"),
    ("IBAN", "organisation", None),
    ("Tel.", "person", None),
    ("Monday", "person", None),
    ("12 34", "place", None),
    ("somebody", "person", None),
    ("Téléphonez", "place", None),
]  # fmt: skip


def test_what_clings_to_a_name_is_left_out(subtests: pytest.Subtests) -> None:
    for text, kind, left in CLINGING:
        with subtests.test(text=text, kind=kind):
            one = cleaned(name(text, kind, 7))
            assert (one.text if one else None) == left
            if one is not None:
                assert text[one.start - 7 : one.end - 7] == one.text


def test_a_checked_number_beats_a_name_and_a_longer_name_a_shorter_one() -> None:
    text = "Ana Ruiz 12 de mayo"
    date = Entity("date", "12 de mayo", 9, 19, valid=True)
    kept = merged([name(text, "person"), date, name("Ana", "person")])
    assert [(one.kind, one.text) for one in kept] == [
        ("person", "Ana Ruiz"),
        ("date", "12 de mayo"),
    ]


def test_a_number_that_fails_its_check_becomes_nothing_else() -> None:
    text = "IBAN ES91 2100 0418 4502 0005 1333"
    (found,) = Finder(None).find([Text(text, "es")])
    assert found.entities == ()


def test_parts_of_a_persons_name_are_joined() -> None:
    text = "María López y Ana"
    parts = [name("María", "person"), name("López", "person", 6), name("Ana", "person", 14)]
    whole = joined(parts, lambda start, end: text[start:end])
    assert [one.text for one in whole] == ["María López", "Ana"]


def test_only_the_kinds_that_are_wanted_are_told() -> None:
    text = "NIF 12345678Z, el 3 de mayo de 2024, 12 €"
    (found,) = Finder(None, kinds=("tax", "money")).find([Text(text, "es")])
    assert [one.kind for one in found.entities] == ["tax", "money"]


def test_names_with_a_mark_need_no_model() -> None:
    text = "Mme Claire Fontaine, de Durand Frères SARL, est partie pour l'Espagne et Berlin."
    found = merged(marks.find(read(text, "fr")))
    assert [(one.kind, one.text) for one in found] == [
        ("person", "Claire Fontaine"), ("organisation", "Durand Frères SARL"),
        ("place", "Espagne"), ("place", "Berlin"),
    ]  # fmt: skip
    assert not list(marks.find(read("The Bank of Spain and Michael Jordan met at Paris Match.")))


def test_without_a_model_the_language_is_named() -> None:
    (found,) = Finder(None).find(["Le ministre a rencontré le gouverneur et ils ont parlé."])
    assert found.nameless == ("fr",)
    (found,) = Finder(None, kinds=("iban",)).find(["Le ministre a rencontré le gouverneur."])
    assert found.nameless == ()


def test_listing_counts_by_meaning() -> None:
    text = "14/07/2024, 14 juillet 2024 et 3 mai 2024"
    (found,) = Finder(None).find([Text(text, "fr")])
    assert [(one.value, one.count) for one in listed(found.entities)] == [
        ("2024-07-14", 2), ("2024-05-03", 1),
    ]  # fmt: skip


def test_redacted_text_keeps_the_rest() -> None:
    text = "Write to a@b.org by 3 May 2024."
    (found,) = Finder(None).find([text])
    assert redacted(text, found.entities) == "Write to [EMAIL] by [DATE]."


def test_labels_of_models_in_our_words() -> None:
    assert [kind_of(label) for label in ("PERSON", "PER", "ORG", "GPE", "LOC", "Disease")] == [
        "person", "person", "organisation", "place", "place", "disease",
    ]  # fmt: skip
    assert kind_of("NORP", known_only=True) == ""


def test_kinds_as_a_person_names_them() -> None:
    assert kinds_of("People, IBAN,mail") == ("person", "iban", "email")
    with pytest.raises(InvalidInputError):
        kinds_of("person,colour")
    with pytest.raises(InvalidInputError):
        kinds_of(" , ")


def test_many_texts_and_empty_ones_stay_in_order() -> None:
    texts = ["", "a@b.org", "   ", "12 %", "\n"]
    found = list(Finder(None).find(texts))
    assert [[one.kind for one in each.entities] for each in found] == [
        [], ["email"], [], ["percent"], [],
    ]  # fmt: skip
