"""A classifier from examples: lines, their strength by cross-validation, and calibration.

    learnt = learn(vectors, truth, "one")
    found = cross_validate(vectors, truth, "one", labels)

Every step that looks at examples, the choice of strength and the calibration too, is done anew
inside each fold, so the figures are those of the whole way and not of its best guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anyrig.documents.classify.calibrate import Prior, Scale, calibrate, evened, plain
from anyrig.documents.classify.figures import Figures, figures
from anyrig.documents.classify.folds import NEVER, deal
from anyrig.documents.classify.solve import (
    Array,
    Kind,
    Lines,
    fit,
    log_softmax,
    sigmoid,
)

STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Tried from strong to weak, each from where the last ended. Vectors have length 1, so the first is
close to comparing with the mean of each label, and the last to a hard border."""
UNFOUND = 0.1
"""The strength where examples are too few to choose one."""
_NESTED_MOST = 1_000
"""Examples up to which the strength is chosen anew in every fold; beyond, choosing one of seven
on so many examples cannot flatter."""
_REPEATS = ((30, 5), (100, 3), (300, 2))
"""Up to so many examples, folds are dealt so many times."""
_STEEP_ONE = 20.0
"""The slope of a head that could not be calibrated: lines of strength 0.1 are flat."""
Tell = Callable[[int, int], None]
"""Told how much of a job is done: done, of how many."""


@dataclass(frozen=True)
class Learnt:
    """Lines on vectors, and what makes their scores probabilities."""

    lines: Lines
    scale: Scale
    strength: float
    calibrated: bool

    def tell(self, vectors: Array, kind: Kind) -> Array:
        """Probabilities of each label for each vector."""
        return self.scale.applied(self.lines.scores(vectors), kind)


def learn(
    vectors: Array,
    truth: Array,
    kind: Kind,
    strength: float | None = None,
    *,
    prior: Prior = "even",
) -> Learnt:
    """Lines with a strength that does best on examples left out, calibrated on those.

    Args:
        vectors: a row for each example.
        truth: 1 where an example has a label.
        kind: of labels.
        strength: this one, without a choice.
        prior: how common each label is taken to be.
    """
    folds = deal(truth, kind)
    asked = folds != NEVER
    if not asked.any():
        steep = plain(truth.shape[1])
        steep = Scale(steep.slope * _STEEP_ONE, steep.shift)
        return Learnt(fit(vectors, truth, kind, strength or UNFOUND), steep, UNFOUND, False)
    tried = STRENGTHS if strength is None else (strength,)
    unseen = _unseen(vectors, truth, kind, folds, tried)
    common = truth.sum(axis=0)
    best: tuple[float, float, Scale] | None = None
    for value, scores in zip(tried, unseen, strict=True):
        scale = calibrate(scores[asked], truth[asked], kind, common, prior)
        miss = _miss(scale, scores[asked], truth[asked], kind, prior)
        if best is None or miss < best[0] - 1e-9:
            best = (miss, value, scale)
    assert best is not None
    return Learnt(fit(vectors, truth, kind, best[1]), best[2], best[1], True)


def _unseen(
    vectors: Array, truth: Array, kind: Kind, folds: NDArray[np.int64], tried: Sequence[float]
) -> list[Array]:
    """For each strength, every example's scores by lines that were fitted without its fold."""
    found = [np.zeros(truth.shape) for _ in tried]
    for fold in range(folds.max() + 1):
        out = folds == fold
        lines: Lines | None = None
        for number, strength in enumerate(tried):
            lines = fit(vectors[~out], truth[~out], kind, strength, lines)
            found[number][out] = lines.scores(vectors[out])
    return found


def _miss(scale: Scale, scores: Array, truth: Array, kind: Kind, prior: Prior) -> float:
    """How unlikely the truth is by calibrated scores."""
    raw = scores * scale.slope + scale.shift
    if kind == "one":
        shares = evened(truth) if prior == "even" else 1 / len(truth)
        return -float(((truth * log_softmax(raw)).sum(axis=1) * shares).sum())
    sure = sigmoid(raw).clip(1e-9, 1 - 1e-9)
    return -float((truth * np.log(sure) + (1 - truth) * np.log(1 - sure)).mean())


def cross_validate(
    vectors: Array,
    truth: Array,
    kind: Kind,
    labels: tuple[str, ...],
    *,
    strength: float | None = None,
    prior: Prior = "even",
    tell: Tell | None = None,
) -> Figures | None:
    """What to expect of `learn` on these examples; None where no example can be spared to ask.

    Args:
        vectors: a row for each example.
        truth: 1 where an example has a label.
        kind: of labels.
        labels: their names.
        strength: that was chosen on all examples, used where there are too many to choose anew.
        prior: how common each label is taken to be.
        tell: is told of each fold.
    """
    repeats = next((times for most, times in _REPEATS if len(truth) <= most), 1)
    fixed = strength if len(truth) > _NESTED_MOST else None
    told, asked_truth, num_folds = [], [], 0
    for seed in range(repeats):
        folds = deal(truth, kind, seed + 1)
        num_folds = int(folds.max()) + 1
        for fold in range(num_folds):
            out = folds == fold
            learnt = learn(vectors[~out], truth[~out], kind, fixed, prior=prior)
            told.append(learnt.tell(vectors[out], kind))
            asked_truth.append(truth[out])
            if tell is not None:
                tell(seed * num_folds + fold + 1, repeats * num_folds)
    if not told:
        return None
    return figures(
        np.vstack(told), np.vstack(asked_truth), kind, labels,
        counts=truth.sum(axis=0), folds=num_folds, repeats=repeats,
        even=kind == "one" and prior == "even",
    )  # fmt: skip


def turned(vectors: Array) -> tuple[Array, Array, Array]:
    """Examples in as few numbers as hold them: rows, the turn back, and what was taken off.

    Forty examples of 384 numbers lie in 39 directions; lines found there are the same lines, ten
    times sooner. `rows @ back + centre` are the vectors again.
    """
    centre: Array = vectors.mean(axis=0)
    rows = vectors - centre
    if len(rows) >= rows.shape[1]:
        return rows, np.eye(rows.shape[1]), centre
    left, sizes, back = np.linalg.svd(rows, full_matrices=False)
    some = sizes > 1e-9 * max(1e-12, float(sizes.max(initial=0.0)))
    return left[:, some] * sizes[some], back[some], centre


def returned(lines: Lines, back: Array, centre: Array) -> Lines:
    """Lines that were found among turned rows, for the vectors as they come."""
    weights = lines.weights @ back
    return Lines(weights, lines.bias - weights @ centre)
