"""From the vectors of a text's passages to its label, how sure that is, and what speaks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from anyrig.documents.classify.figures import Array, Kind
from anyrig.documents.embed import document_vectors

if TYPE_CHECKING:
    from anyrig.documents.passages import Passage

Pooling = Literal["mean", "vote"]
"""What a text of several passages is taken for: the mean of their vectors, or of their answers."""
HALF = 0.5


class LabelScorer(Protocol):
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

    def predict_proba(self, vectors: Array) -> Array:
        """Probabilities, a row for each vector; of one label, they may leave some for none."""

    def is_near(self, vectors: Array) -> Array:
        """1 where a text is near enough to a label to be one of its kind at all, else 0."""


@dataclass(frozen=True)
class AnswerOptions:
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
class LabelAnswer:
    """What a text is."""

    labels: tuple[str, ...]
    """Those it was given, the likeliest first; none when nothing fits."""
    probabilities: tuple[tuple[str, float], ...]
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
        return self.probabilities[0][1] if self.probabilities else 0.0


def decide(
    passages: Sequence[Passage],
    vectors: Array,
    chooser: LabelScorer,
    options: AnswerOptions,
    unknown_language: str = "",
) -> LabelAnswer:
    """The labels of a text by its passages' vectors."""
    sizes = [len(passage.text) for passage in passages]
    texts = [passage.text for passage in passages]
    options = replace(options, other=chooser.rejects if options.other is None else options.other)
    whole = document_vectors([texts], [vectors]).astype(np.float64)
    if not options.other and not chooser.calibrated:
        # A label must be given: by the passages that any fits, where there are some.
        fitting = np.flatnonzero(chooser.is_near(vectors).any(axis=1))
        if len(fitting):
            chosen = [texts[n] for n in fitting]
            whole = document_vectors([chosen], [vectors[fitting]]).astype(np.float64)
    voted = options.pooling == "vote" and len(passages) > 1
    found = chooser.predict_proba(np.vstack([whole, vectors]))
    each = found[1:]
    shares = np.average(each, axis=0, weights=np.maximum(sizes, 1)) if voted else found[0]
    near = chooser.is_near(vectors).max(axis=0) if voted else chooser.is_near(whole)[0]
    if not options.other and chooser.kind == "one":
        shares = shares / max(1e-12, float(shares.sum()))
    given = choose_labels(shares, near, chooser.kind, options)
    order = np.argsort(-shares, kind="stable")
    first = given[0] if given else int(order[0])
    best = int(each[:, first].argmax())
    reason = Reason(
        chooser.labels[first], passages[best].text, passages[best].page,
        passages[best].file_start, float(each[best, first]),
    )  # fmt: skip
    return LabelAnswer(
        tuple(chooser.labels[n] for n in given),
        tuple((chooser.labels[n], float(shares[n])) for n in order),
        len(passages),
        chooser.calibrated and not voted and not unknown_language,
        reason,
        unknown_language,
    )


def choose_labels(shares: Array, near: Array, kind: Kind, options: AnswerOptions) -> list[int]:
    """The labels of some probabilities, the likeliest first."""
    order = [int(n) for n in np.argsort(-shares, kind="stable")]
    line = options.line(kind)
    able = [n for n in order if shares[n] >= line and (not options.other or near[n] > 0)]
    if kind == "many":
        return able
    return order[:1] if able[:1] == order[:1] else []
