"""From the vectors of a text's passages to its label, how sure that is, and what speaks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from anyrig.documents.classify.probability import Array, Kind
from anyrig.documents.embed import document_vectors

if TYPE_CHECKING:
    from anyrig.documents.passages import Passage

Pooling = Literal["mean", "vote"]
"""What a text of several passages is taken for: the mean of their vectors, or of their answers."""
HALF = 0.5


class Chooser(Protocol):
    """Whatever gives labels to vectors."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def kind(self) -> Kind:
        """Whether a text has one of them, or any number."""

    @property
    def calibrated(self) -> bool:
        """Whether its probabilities were fitted to examples."""

    @property
    def rejects(self) -> bool:
        """Whether `none of these` is an answer unless the caller says otherwise."""

    def tell(self, vectors: Array) -> Array:
        """Probabilities, a row for each vector; of one label, they may leave some for none."""

    def near(self, vectors: Array) -> Array:
        """1 where a text is near enough to a label to be one of its kind at all, else 0."""


@dataclass(frozen=True)
class Ways:
    """How probabilities become an answer."""

    pooling: Pooling = "mean"
    other: bool | None = None
    """Whether `none of these` is an answer; None leaves it to the chooser."""
    at_least: float = 0.0
    """Of one label: below this probability the answer is none. Of many: those above it."""

    def line(self, kind: Kind) -> float:
        """The probability that a label must have."""
        return self.at_least or (HALF if kind == "many" else 0.0)


@dataclass(frozen=True)
class Reason:
    """The passage that speaks for a label most."""

    label: str
    text: str
    page: int
    start: int
    """Where it begins in the text of the file."""
    probability: float
    """Of the label, were this passage all."""


@dataclass(frozen=True)
class Answer:
    """What a text is."""

    labels: tuple[str, ...]
    """Those it was given, the likeliest first; none when nothing fits."""
    told: tuple[tuple[str, float], ...]
    """Every label with its probability, the likeliest first."""
    num_passages: int
    calibrated: bool
    reason: Reason | None = None
    """For the first label."""
    unknown_language: str = ""
    """Of the text, where the model was not trained on it: the probabilities say nothing then."""

    @property
    def probability(self) -> float:
        """Of the likeliest label."""
        return self.told[0][1] if self.told else 0.0


def decide(
    passages: Sequence[Passage],
    vectors: Array,
    chooser: Chooser,
    ways: Ways,
    unknown_language: str = "",
) -> Answer:
    """The labels of a text by its passages' vectors."""
    sizes = [len(passage.text) for passage in passages]
    texts = [passage.text for passage in passages]
    whole = document_vectors([texts], [vectors]).astype(np.float64)
    voted = ways.pooling == "vote" and len(passages) > 1
    each = chooser.tell(vectors)
    told = (
        np.average(each, axis=0, weights=np.maximum(sizes, 1)) if voted else chooser.tell(whole)[0]
    )
    near = chooser.near(vectors).max(axis=0) if voted else chooser.near(whole)[0]
    ways = replace(ways, other=chooser.rejects if ways.other is None else ways.other)
    if not ways.other and chooser.kind == "one":
        told = told / max(1e-12, float(told.sum()))
    given = chosen(told, near, chooser.kind, ways)
    order = np.argsort(-told, kind="stable")
    first = given[0] if given else int(order[0])
    best = int(each[:, first].argmax())
    reason = Reason(
        chooser.labels[first], passages[best].text, passages[best].page,
        passages[best].file_start, float(each[best, first]),
    )  # fmt: skip
    return Answer(
        tuple(chooser.labels[n] for n in given),
        tuple((chooser.labels[n], float(told[n])) for n in order),
        len(passages),
        chooser.calibrated and not voted and not unknown_language,
        reason,
        unknown_language,
    )


def chosen(told: Array, near: Array, kind: Kind, ways: Ways) -> list[int]:
    """Which labels some probabilities give, the likeliest first."""
    order = [int(n) for n in np.argsort(-told, kind="stable")]
    line = ways.line(kind)
    able = [n for n in order if told[n] >= line and (not ways.other or near[n] > 0)]
    if kind == "many":
        return able
    return order[:1] if able[:1] == order[:1] else []
