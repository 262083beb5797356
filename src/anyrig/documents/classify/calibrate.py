"""Scores to probabilities that mean what they say: of those told with 0.8, four in five are right.

Fitted on scores of examples that the lines had not seen. One slope for labels that exclude each
other (a temperature), and a share of how common each label is among the examples; a slope and a
shift for each label on its own otherwise (Platt). Targets are a little short of 0 and 1, as Platt
had them: ten right answers of ten do not prove certainty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np  # noqa: TID253 - nothing here works without arrays

from anyrig.documents.classify.solve import (
    Array,
    Kind,
    log_softmax,
    minimise,
    probabilities,
    sigmoid,
)

_LEAST = 3
"""Examples with and without a label that its own slope and shift need."""
_FLAT, _STEEP = 1e-2, 1e3


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


def calibrate(scores: Array, truth: Array, kind: Kind, common: Array) -> Scale:
    """The scale that makes unseen examples most likely.

    Args:
        scores: of examples, made by lines that had not seen them.
        truth: which labels they have.
        kind: of labels.
        common: how many examples of each label there are in all.
    """
    return _one(scores, truth, common) if kind == "one" else _many(scores, truth)


def _one(scores: Array, truth: Array, common: Array) -> Scale:
    num_labels = truth.shape[1]
    doubt = 1.0 / (len(truth) + 2.0)
    wanted = truth * (1.0 - doubt) + (1.0 - truth) * doubt / max(1, num_labels - 1)
    prior = np.log(np.maximum(common, 0.5) / np.maximum(common, 0.5).mean())
    uneven = bool(np.ptp(prior) > 1e-9)

    def loss(numbers: Array) -> tuple[float, Array]:
        logs = log_softmax(scores * numbers[0] + prior * numbers[1])
        wrong = (np.exp(logs) - wanted) / len(truth)
        by = np.array([np.sum(wrong * scores), np.sum(wrong * prior) if uneven else 0.0])
        return -float(np.sum(wanted * logs)) / len(truth), by

    slope, share = minimise(loss, np.array([1.0, 0.0]))
    slope = float(np.clip(slope, _FLAT, _STEEP))
    return Scale(np.full(num_labels, slope), prior * float(np.clip(share, 0.0, 1.0)))


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
