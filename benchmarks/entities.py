"""Entities found in labelled passages, by kind and language, beside plain spaCy.

An entity counts when its kind and text are as labelled, articles at its edges aside. The passages
are few, and the rules and three labels were corrected after looking at errors: the figures show
regressions; they are no estimate for other texts.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discovery import discover
from anyrig.documents.entities.finder import EntityFinder, EntityText
from anyrig.documents.entities.ner_models import choose_ner_model, list_installed
from anyrig.placement import plan_placement
from benchmarks.harness import Row

FILE = Path(__file__).resolve().parent / "data" / "entities.txt"
CHECKED = ("date", "money", "percent", "email", "phone", "iban", "tax", "card")
NAMES = ("person", "organisation", "place")
_MARK = re.compile(r"\{([a-z]+)\|([^{}|]+)\}")
_SPACY = {"PERSON": "person", "PER": "person", "ORG": "organisation", "GPE": "place",
          "LOC": "place", "FAC": "place", "DATE": "date", "MONEY": "money",
          "PERCENT": "percent"}  # fmt: skip
_EDGE = re.compile(r"^(?:the|le|la|les|l'|el|los|las|du|del|au|al) |[.,;:]$", re.IGNORECASE)


class Label(NamedTuple):
    """A kind and where it is in the text."""

    kind: str
    start: int
    end: int


class Passage(NamedTuple):
    """A text and its entities."""

    language: str
    text: str
    labels: tuple[Label, ...]


def read_passages(path: Path = FILE) -> list[Passage]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        language, _, marked = line.partition(" ")
        text, labels, last = "", [], 0
        for mark in _MARK.finditer(marked):
            text += marked[last : mark.start()]
            labels.append(Label(mark[1], len(text), len(text) + len(mark[2])))
            text += mark[2]
            last = mark.end()
        found.append(Passage(language, text + marked[last:], tuple(labels)))
    return found


def find_entities(texts: Sequence[Passage], *, names: bool = True) -> list[list[Label]]:
    """With the default model; the language is detected."""
    model = choose_ner_model() if names else None
    machine = discover(dict(os.environ))
    choice = choose_device(machine, (DeviceRequest("cpu", "flag"),))
    placed = plan_placement(machine, choice, model.workload) if model is not None else None
    with EntityFinder(model, placed=placed, environment=dict(os.environ)) as finder:
        found = list(finder.find(EntityText(one.text) for one in texts))
    return [[Label(one.kind, one.start, one.end) for one in each.entities] for each in found]


def find_with_spacy(texts: Sequence[Passage]) -> list[list[Label]]:
    """With each language's model, which is given the language; its labels become our kinds."""
    from anyrig.documents.entities.engines import load_spacy

    models = {language: load_spacy(name) for language, name in list_installed().items()}
    found = []
    for one in texts:
        spans = models[one.language](one.text).ents if one.language in models else ()
        found.append([
            Label(_SPACY[span.label_], span.start_char, span.end_char)
            for span in spans if span.label_ in _SPACY
        ])  # fmt: skip
    return found


class Score(NamedTuple):
    right: int
    found: int
    wanted: int

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.wanted if self.wanted else 1.0

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def score(
    texts: Sequence[Passage],
    found: Sequence[Sequence[Label]],
    kinds: Iterable[str],
    language: str = "",
) -> Score:
    """Over all passages of a language; of all languages when empty."""
    wanted_kinds = set(kinds)
    right = num_found = num_wanted = 0
    for passage, labels in zip(texts, found, strict=True):
        if language and passage.language != language:
            continue
        wanted = Counter(_key(passage, one) for one in passage.labels if one.kind in wanted_kinds)
        got = Counter(_key(passage, one) for one in labels if one.kind in wanted_kinds)
        right += (wanted & got).total()
        num_found += got.total()
        num_wanted += wanted.total()
    return Score(right, num_found, num_wanted)


def _key(passage: Passage, one: Label) -> tuple[str, str]:
    text = passage.text[one.start : one.end].strip()
    while (bare := _EDGE.sub("", text)) != text:
        text = bare
    return one.kind, text


def list_errors(texts: Sequence[Passage], found: Sequence[Sequence[Label]]) -> Iterable[str]:
    """One line for each entity that is missed or spurious."""
    for passage, labels in zip(texts, found, strict=True):
        wanted = {_key(passage, one) for one in passage.labels}
        got = {_key(passage, one) for one in labels}
        for kind, text in sorted(wanted - got):
            yield f"missed   {passage.language} {kind}: {text}"
        for kind, text in sorted(got - wanted):
            yield f"spurious {passage.language} {kind}: {text}"


def run(hardware: str) -> list[Row]:
    texts = read_passages()
    found, seconds = _time(find_entities, texts)
    peer, peer_seconds = _time(find_with_spacy, texts)
    _print_table(texts, found, peer)
    for line in list_errors(texts, found):
        print(line)
    rows = []
    for name, kinds in (("checked kinds", CHECKED), ("names", NAMES)):
        for language in ("en", "fr", "es"):
            mine, other = (score(texts, one, kinds, language) for one in (found, peer))
            rows.append(Row(
                f"F1 of {name}, {language}", mine.f1, "", peer=other.f1, peer_name="plain spaCy",
                low=0.95 if kinds is CHECKED else None,
                spread=f"precision {mine.precision:.2f}, recall {mine.recall:.2f}",
            ))  # fmt: skip
    rows.append(Row("passages", len(texts), "", low=60))
    rows.append(Row("seconds with loading", seconds, "s", peer=peer_seconds,
                    peer_name="plain spaCy"))  # fmt: skip
    return rows


def _time(
    call: Callable[[Sequence[Passage]], list[list[Label]]], texts: Sequence[Passage]
) -> tuple[list[list[Label]], float]:
    begin = time.perf_counter()
    found = call(texts)
    return found, time.perf_counter() - begin


def _print_table(
    texts: Sequence[Passage], found: Sequence[Sequence[Label]], peer: Sequence[Sequence[Label]]
) -> None:
    print("| kind | language | marked | precision | recall | spaCy's precision | recall |\n"
          "|---|---|---|---|---|---|---|")  # fmt: skip
    for kind in (*NAMES, *CHECKED):
        for language in ("en", "fr", "es"):
            mine, other = (score(texts, one, (kind,), language) for one in (found, peer))
            print(f"| {kind} | {language} | {mine.wanted} | {mine.precision:.2f} |"
                  f" {mine.recall:.2f} | {other.precision:.2f} | {other.recall:.2f} |")  # fmt: skip
