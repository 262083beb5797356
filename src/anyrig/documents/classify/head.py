"""A trained classifier as a value: what it tells, and what is known of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anyrig.documents.classify.figures import Array, Figures, Kind, probabilities

_MAX_LOST = 0.1
"""Share of the examples that may be further from their own kind than the line of `find_reach`."""


@dataclass(frozen=True)
class ClassifierInfo:
    """What is known of a classifier without opening it."""

    labels: tuple[str, ...]
    kind: Kind
    embedding: str
    """The model whose vectors it takes."""
    fingerprint: str
    """Of that model: no other's vectors will do."""
    dimension: int
    num_examples: int
    counts: Mapping[str, int]
    """Examples of each label."""
    strength: float
    calibrated: bool
    """Whether its probabilities were fitted to examples that it had not seen."""
    figures: Mapping[str, Any] | None = None
    """What cross-validation found; None where no example could be spared."""
    word: str = ""
    """What that model is found by: a name, or a folder."""
    prior: str = "even"
    """How common each label is taken to be: all alike, or as among the examples."""
    passages: str = "mean"
    """What stands for a long text: the mean of its passages' vectors."""
    name: str = ""
    version: int = 0
    made: str = ""
    anyrig: str = ""
    rejects: bool = False
    """Whether `none of these` is an answer by default; it is none in files of 0.1.0."""
    digest: str = ""
    """Of all that it computes with: the same examples give the same."""

    @property
    def title(self) -> str:
        """`bills@3`."""
        return f"{self.name}@{self.version}"


class HeadWeights(NamedTuple):
    """All numbers of a head, in float32 as they are kept."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    slope: NDArray[np.float32]
    shift: NDArray[np.float32]
    centres: NDArray[np.float32]
    """The mean of each label's examples, at length 1."""
    reach: NDArray[np.float32]
    """The least cosine to a label's centre that a text of its kind has."""


@dataclass(frozen=True)
class TrainedHead:
    """A trained classifier."""

    about: ClassifierInfo
    weights: HeadWeights = field(repr=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """Their names."""
        return self.about.labels

    @property
    def kind(self) -> Kind:
        """Whether a text has one of them, or any number."""
        return self.about.kind

    @property
    def calibrated(self) -> bool:
        """Whether its probabilities hold on examples that it had not seen."""
        return self.about.calibrated

    @property
    def rejects(self) -> bool:
        """Whether its reach was made to lose few texts of its kinds."""
        return self.about.rejects

    def predict_proba(self, vectors: Array) -> Array:
        """Probabilities, a row for each vector."""
        its = self.weights
        scores = vectors @ its.weights.T.astype(np.float64) + its.bias
        return probabilities(scores * its.slope + its.shift, self.kind)

    def is_near(self, vectors: Array) -> Array:
        """Whether each text is as close to each label's examples as these are to each other."""
        found: Array = (vectors @ self.weights.centres.T >= self.weights.reach).astype(np.float64)
        return found


def digest_weights(
    weights: HeadWeights, labels: tuple[str, ...], kind: Kind, fingerprint: str
) -> str:
    """One name for all that a head computes with."""
    found = hashlib.sha256(repr((labels, kind, fingerprint)).encode())
    for part in weights:
        found.update(repr(part.shape).encode())
        found.update(part.tobytes())
    return found.hexdigest()


def find_reach(vectors: Array, truth: Array) -> tuple[Array, Array]:
    """Where each label's examples lie, and how near a text must come to be of their kind at all.

    A text that is none of the labels is to the nearest what an example is to the nearest of the
    *other* labels: so the examples themselves tell where the line is best drawn, but no higher than
    nine tenths of them reach. One line for all labels, as few examples of each say little.
    """
    totals = truth.T @ vectors
    centres = totals / np.maximum(np.linalg.norm(totals, axis=1, keepdims=True), 1e-12)
    inside, outside = [], []
    for row, own in zip(vectors, truth > 0, strict=True):
        others = float((centres[~own] @ row).max(initial=-1.0))
        rest = totals[own] - row  # an example pulls its own centre to itself
        sizes = np.linalg.norm(rest, axis=1)
        kin = float((rest[sizes > 1e-9] @ row / sizes[sizes > 1e-9]).max(initial=-1.0))
        if (~own).any():
            outside.append(others)
        if (sizes > 1e-9).any():
            inside.append(max(kin, others))
    line = _find_border(np.array(inside), np.array(outside))
    if inside:
        line = min(line, float(np.quantile(inside, _MAX_LOST)))
    return centres, np.full(truth.shape[1], line)


def _find_border(inside: Array, outside: Array) -> float:
    """The line that parts two groups with the fewest mistakes, as shares of each group."""
    if not len(inside) or not len(outside):
        return -1.0
    places = np.unique(np.concatenate([inside, outside]))
    right = (inside >= places[:, None]).mean(axis=1) + (outside < places[:, None]).mean(axis=1)
    best = int(right.argmax())
    below = places[best - 1] if best else places[best]
    return float((places[best] + below) / 2)


def figures_to_json(figures: Figures | None) -> dict[str, Any] | None:
    """Figures as JSON has them."""
    if figures is None:
        return None
    found: dict[str, Any] = json.loads(json.dumps(asdict(figures)))  # lists, as they come back
    return found
