"""Logistic regression on vectors: one label of several (softmax), or any number (sigmoids).

L-BFGS, written small: the loss is convex and smooth, so a line search that goes back by halves is
enough. scikit-learn would bring 100 MB for this page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kind = Literal["one", "many"]
"""Whether a text has exactly one label, or any number of them."""
Loss = Callable[[Array], tuple[float, Array]]
_MEMORY, _STEPS, _HALVINGS = 10, 500, 40
_ENOUGH = 1e-7
"""Of the gradient, against that of the start: well below what float32 weights can show."""
_BIAS = 1e-4
"""How much biases are held back: a label without examples must not push its own to infinity."""


class Lines(NamedTuple):
    """A linear score for each label."""

    weights: Array
    """A row for each label."""
    bias: Array

    def scores(self, vectors: Array) -> Array:
        """A row for each vector, a column for each label."""
        found: Array = vectors @ self.weights.T + self.bias
        return found


def fit(
    vectors: Array, truth: Array, kind: Kind, strength: float, start: Lines | None = None
) -> Lines:
    """The lines that fit best, all labels counting alike however many examples each has.

    Args:
        vectors: a row for each example.
        truth: 1 where the example of a row has the label of a column, else 0.
        kind: of labels.
        strength: of the pull towards small weights; the loss is a mean, so it needs no count.
        start: lines that are near already.
    """
    num_labels, width = truth.shape[1], vectors.shape[1]
    wide = np.hstack([vectors, np.ones((len(vectors), 1))])
    pull = np.full(width + 1, strength)
    pull[-1] = _BIAS
    shares = weighing(truth, kind)

    def loss(flat: Array) -> tuple[float, Array]:
        lines = flat.reshape(num_labels, width + 1)
        value, slope = _misfit(wide @ lines.T, truth, shares, kind)
        value += 0.5 * float(np.sum(pull * lines * lines))
        return value, (slope.T @ wide + pull * lines).ravel()

    first = np.zeros(num_labels * (width + 1))
    if start is not None:
        first = np.hstack([start.weights, start.bias[:, None]]).ravel()
    best = minimise(loss, first).reshape(num_labels, width + 1)
    return Lines(best[:, :-1], best[:, -1])


def weighing(truth: Array, kind: Kind) -> Array:
    """What each example counts for each label: rare ones more, the sum of all 1 (a label, `many`).

    Ten invoices and two letters in a folder say what was at hand, not how likely a letter is.
    """
    count = truth.sum(axis=0)
    if kind == "one":
        there = max(1, int((count > 0).sum()))
        each: Array = truth / np.maximum(count, 1) / there
        return np.repeat(each.sum(axis=1, keepdims=True), truth.shape[1], axis=1)
    others = len(truth) - count
    halves: Array = 0.5 * truth / np.maximum(count, 1) + 0.5 * (1 - truth) / np.maximum(others, 1)
    return halves


def _misfit(scores: Array, truth: Array, shares: Array, kind: Kind) -> tuple[float, Array]:
    """The loss of some scores, and its slope by them."""
    if kind == "one":
        logs = log_softmax(scores)
        value = -float(np.sum(shares * truth * logs))
        return value, shares * (np.exp(logs) - truth)
    value = float(np.sum(shares * (np.logaddexp(0.0, scores) - truth * scores)))
    return value, shares * (sigmoid(scores) - truth)


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


def minimise(loss: Loss, start: Array) -> Array:
    """Where a smooth convex function is least."""
    place = start.astype(np.float64)
    value, slope = loss(place)
    enough = _ENOUGH * max(1e-3, float(np.abs(slope).max(initial=0.0)))
    seen: deque[tuple[Array, Array, float]] = deque(maxlen=_MEMORY)
    for _ in range(_STEPS):
        if float(np.abs(slope).max(initial=0.0)) <= enough:
            break
        way = _direction(slope, seen)
        downhill = float(way @ slope)
        step = 1.0 if seen else min(1.0, 1.0 / float(np.abs(slope).sum()))
        for _ in range(_HALVINGS):
            there, (next_value, next_slope) = place + step * way, loss(place + step * way)
            if next_value <= value + 1e-4 * step * downhill:
                break
            step *= 0.5
        else:
            break  # as low as these numbers can tell
        moved, turned = there - place, next_slope - slope
        bend = float(moved @ turned)
        if bend > 1e-12 * float(turned @ turned):
            seen.append((moved, turned, bend))
        place, value, slope = there, next_value, next_slope
    return place


def _direction(slope: Array, seen: deque[tuple[Array, Array, float]]) -> Array:
    """Downhill, as the last steps have shown the valley to be shaped."""
    way = -slope
    shares = []
    for moved, turned, bend in reversed(seen):
        share = float(moved @ way) / bend
        shares.append(share)
        way = way - share * turned
    if seen:
        _, turned, bend = seen[-1]
        way = way * (bend / float(turned @ turned))
    for (moved, turned, bend), share in zip(seen, reversed(shares), strict=True):
        way = way + (share - float(turned @ way) / bend) * moved
    return way
