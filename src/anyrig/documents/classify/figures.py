"""Scores to probabilities, and how good these are on examples that were not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kind = Literal["one", "many"]
"""Whether a text has exactly one label, or any number of them."""


def log_softmax(scores: Array) -> Array:
    """The logarithms of probabilities that add up to 1 in each row."""
    moved = scores - scores.max(axis=1, keepdims=True)
    found: Array = moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))
    return found


def sigmoid(scores: Array) -> Array:
    """A probability for each score on its own."""
    found: Array = 0.5 * (1.0 + np.tanh(0.5 * scores))
    return found


def probabilities(scores: Array, kind: Kind) -> Array:
    """Scores as probabilities."""
    return np.exp(log_softmax(scores)) if kind == "one" else sigmoid(scores)


def weigh_evenly(truth: Array) -> Array:
    """What each example counts so that all labels together count alike; the sum is 1."""
    each = (truth / np.maximum(truth.sum(axis=0), 1.0)).sum(axis=1)
    found: Array = each / max(1e-12, float(each.sum()))
    return found


# -- figures ---------------------------------------------------------------------------------------

_BINS = 10
HALF = 0.5
"""Above this probability a label of `many` counts as given."""


@dataclass(frozen=True)
class LabelFigures:
    """One label's figures."""

    label: str
    num_examples: int
    precision: float | None
    """Of the texts that were given this label, the share that have it; None when none were."""
    recall: float | None
    """Of the texts that have it, the share that were given it; None where none was asked about."""

    @property
    def f1(self) -> float | None:
        """The harmonic mean of both."""
        if self.precision is None or self.recall is None:
            return None
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclass(frozen=True)
class Figures:
    """What leaving out each example has found."""

    num_tested: int
    """Examples that were asked about."""
    accuracy: float
    """The share of texts whose label (all labels, where there may be many) was found."""
    low: float
    high: float
    """Where the accuracy lies with a confidence of 95 %, by so many examples (Wilson)."""
    commonest: float
    """What always saying the commonest answer would reach."""
    macro_f1: float
    ece: float
    """How far predicted and true probabilities lie apart, on average, in ten bins."""
    brier: float
    lines: tuple[LabelFigures, ...]
    confusion: tuple[tuple[int, ...], ...] = ()
    """Rows are true labels, columns given ones, empty for many labels a text."""
    unmeasured: tuple[str, ...] = ()
    """Labels of which nothing can be said: they have one example, or none that was asked about."""


def wilson(right: float, count: int) -> tuple[float, float]:
    """The interval of a share by Wilson, which holds for few and for shares near 0 and 1."""
    if not count:
        return 0.0, 1.0
    z = 1.96
    share, square = right / count, z * z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = z * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    half /= 1 + square / count
    return max(0.0, middle - half), min(1.0, middle + half)


def ece(predicted: Array, true: Array, shares: Array | None = None) -> float:
    """The expected calibration error of probabilities against 0 or 1, in ten bins of one width.

    Args:
        predicted: probabilities.
        true: 1 where it was so.
        shares: what each counts, with a sum of 1; all alike when None.
    """
    if not predicted.size:
        return 0.0
    shares = np.full(predicted.shape, 1 / predicted.size) if shares is None else shares
    predicted, true, full = predicted * shares, true * shares, predicted
    bins = np.minimum((full * _BINS).astype(np.int64), _BINS - 1)
    gaps = [
        abs(float(predicted[bins == number].sum() - true[bins == number].sum()))
        for number in range(_BINS)
    ]
    return sum(gaps)


def pair_best(predicted: Array, truth: Array, kind: Kind) -> tuple[Array, Array]:
    """What is compared for `ece`: the surest label of each text, or every label."""
    if kind == "many":
        return predicted.ravel(), truth.ravel()
    best = predicted.argmax(axis=1)
    rows = np.arange(len(predicted))
    return predicted[rows, best], truth[rows, best]


def brier(predicted: Array, truth: Array, kind: Kind, shares: Array | None = None) -> float:
    """The mean square of predicted less true: summed over labels, or their mean."""
    squares = (predicted - truth) ** 2
    if kind == "many":
        return float(squares.mean())
    return float(np.average(squares.sum(axis=1), weights=shares))


def select_labels(predicted: Array, kind: Kind) -> Array:
    """Which labels some probabilities give: the likeliest, or all above a half."""
    if kind == "many":
        return (predicted > HALF).astype(np.float64)
    found = np.zeros_like(predicted)
    found[np.arange(len(predicted)), predicted.argmax(axis=1)] = 1.0
    return found


def measure_figures(
    predicted: Array,
    truth: Array,
    kind: Kind,
    labels: tuple[str, ...],
    *,
    counts: Array,
    even: bool = False,
) -> Figures:
    """All figures of what was predicted of examples that were not seen.

    Args:
        predicted: probabilities, a row for each example.
        truth: the labels of the same rows.
        kind: of labels.
        labels: their names.
        counts: how many examples each label has in all.
        even: whether all labels together count alike for `ece` and `brier`.
    """
    shares = weigh_evenly(truth) if even else None
    found = select_labels(predicted, kind)
    right = (found == truth).all(axis=1)
    low, high = wilson(float(right.sum()), len(truth))
    lines = tuple(
        _line(name, int(counts[n]), found[:, n], truth[:, n]) for n, name in enumerate(labels)
    )
    scores = [line.f1 or 0.0 for line in lines if line.recall is not None]
    _, common = np.unique(truth, axis=0, return_counts=True)
    return Figures(
        len(truth), float(right.mean()), low, high,
        float(common.max()) / len(truth), float(np.mean(scores)) if scores else 0.0,
        ece(*pair_best(predicted, truth, kind), shares),
        brier(predicted, truth, kind, shares), lines,
        _confusion(found, truth) if kind == "one" else (),
        tuple(line.label for line in lines if line.recall is None or line.num_examples < 2),
    )  # fmt: skip


def _line(name: str, count: int, found: Array, true: Array) -> LabelFigures:
    both = float((found * true).sum())
    precision = both / float(found.sum()) if found.any() else None
    return LabelFigures(name, count, precision, both / float(true.sum()) if true.any() else None)


def _confusion(found: Array, truth: Array) -> tuple[tuple[int, ...], ...]:
    counted = (truth.T @ found).astype(np.int64)
    return tuple(tuple(int(cell) for cell in row) for row in counted)
