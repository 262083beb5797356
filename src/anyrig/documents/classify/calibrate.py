"""Scores to probabilities that mean what they say: of those told with 0.8, four in five are right.

Fitted on scores of examples that the lines had not seen. One slope for labels that exclude each
other (a temperature); a slope and a shift for each label on its own otherwise (Platt). Labels that
exclude each other count alike, unless the examples are said to show how common each is: a hundred
letters beside eight invoices mostly show what was at hand, and would drown the invoices.

Targets are a little short of 0 and 1, as Platt had them: ten right answers of ten do not prove
certainty.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from anyrig.documents.classify.solve import (
    Array,
    Kind,
    log_softmax,
    minimise,
    probabilities,
    sigmoid,
)

Prior = Literal["even", "examples"]
"""How common each of several labels is taken to be: all alike, or as among the examples."""
_LEAST = 3
"""Examples with and without a label that its own slope and shift need."""
_FLAT, _STEEP = 1e-2, 1e3
_PSEUDO = 5.0
"""Examples that every label is thought to have besides: four letters and two invoices do not show
that letters are more common."""
_EXPECTED, _SCATTER = np.array([1.5, 0.0]), np.array([1.5, 0.5])
"""What slope (in logits of one standard deviation of the scores) and what share of the labels'
commonness are taken to be before any example is seen, and how firmly: sixteen examples cannot turn
this over, a hundred can."""
_LEAST_SLOPE = 0.1


class Scale(NamedTuple):
    """What turns raw scores into scores whose probabilities hold."""

    slope: Array
    shift: Array

    def applied(self, scores: Array, kind: Kind) -> Array:
        """Probabilities of raw scores."""
        return probabilities(scores * self.slope + self.shift, kind)


def plain(num_labels: int) -> Scale:
    """No change."""
    return Scale(np.ones(num_labels), np.zeros(num_labels))


def calibrate(
    scores: Array, truth: Array, kind: Kind, common: Array, prior: Prior = "even"
) -> Scale:
    """The scale that makes unseen examples most likely.

    Args:
        scores: of examples, made by lines that had not seen them.
        truth: which labels they have.
        kind: of labels.
        common: how many examples of each label there are in all.
        prior: how common labels of the kind `one` are taken to be.
    """
    if kind == "many":
        return _many(scores, truth)
    if prior == "even":
        return _one(scores, truth, np.zeros(len(common)), evened(truth))
    lean = np.log((common + _PSEUDO) / (common + _PSEUDO).mean())
    return _one(scores, truth, lean, np.full(len(truth), 1.0 / len(truth)))


def evened(truth: Array) -> Array:
    """What each example counts where all labels together count alike; the sum is 1."""
    each = (truth / np.maximum(truth.sum(axis=0), 1.0)).sum(axis=1)
    found: Array = each / max(1e-12, float(each.sum()))
    return found


def _one(scores: Array, truth: Array, lean: Array, shares: Array) -> Scale:
    num_labels, count = truth.shape[1], len(truth)
    doubt = 1.0 / (count + 2.0)
    wanted = truth * (1.0 - doubt) + (1.0 - truth) * doubt / max(1, num_labels - 1)
    size = max(1e-12, float(scores.std()))

    def loss(numbers: Array) -> tuple[float, Array]:
        logs = log_softmax(scores * (numbers[0] / size) + lean * numbers[1])
        wrong = (np.exp(logs) - wanted) * shares[:, None]
        off = (numbers - _EXPECTED) / _SCATTER**2 / count
        by = np.array([np.sum(wrong * scores) / size, np.sum(wrong * lean)])
        miss = -float(np.sum(shares[:, None] * wanted * logs))
        return miss + 0.5 * float(off @ (numbers - _EXPECTED)), by + off

    slope, share = minimise(loss, _EXPECTED)
    slope = float(np.clip(slope, _LEAST_SLOPE, _STEEP)) / size
    return Scale(np.full(num_labels, slope), lean * float(np.clip(share, 0.0, 1.0)))


def _many(scores: Array, truth: Array) -> Scale:
    count = truth.sum(axis=0)
    enough = (count >= _LEAST) & (len(truth) - count >= _LEAST)
    shared = _platt(scores.ravel(), truth.ravel())
    found = [
        _platt(scores[:, label], truth[:, label]) if enough[label] else shared
        for label in range(truth.shape[1])
    ]
    return Scale(np.array([slope for slope, _ in found]), np.array([shift for _, shift in found]))


def _platt(scores: Array, truth: Array) -> tuple[float, float]:
    there = float(truth.sum())
    wanted = np.where(truth > 0, (there + 1) / (there + 2), 1.0 / (len(truth) - there + 2))

    def loss(numbers: Array) -> tuple[float, Array]:
        raw = scores * numbers[0] + numbers[1]
        wrong = (sigmoid(raw) - wanted) / len(truth)
        value = float(np.mean(np.logaddexp(0.0, raw) - wanted * raw))
        return value, np.array([np.sum(wrong * scores), np.sum(wrong)])

    slope, shift = minimise(loss, np.array([1.0, 0.0]))
    return float(np.clip(slope, _FLAT, _STEEP)), float(np.clip(shift, -50.0, 50.0))
