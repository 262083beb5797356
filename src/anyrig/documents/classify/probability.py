"""Scores to probabilities: of one label of several, or of each on its own."""

from __future__ import annotations

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
