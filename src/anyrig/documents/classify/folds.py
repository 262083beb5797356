"""Examples dealt into folds, so that each fold has its share of every label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anyrig.documents.classify.solve import Array, Kind

NEVER = -1
"""The fold of an example that is never asked about: it is the only one of its label."""
_MOST = 5


def deal(truth: Array, kind: Kind, seed: int = 0) -> NDArray[np.int64]:
    """The fold of each example, the rarest labels dealt first; the same for the same seed.

    An example that is the only one of its label stays out of all folds: asking for a label that
    nothing was learnt of would only count against the others.
    """
    count = truth.sum(axis=0)
    folds = np.full(len(truth), NEVER - 1, np.int64)
    if kind == "one":
        folds[(truth * (count <= 1)).sum(axis=1) > 0] = NEVER
    open_ = folds == NEVER - 1
    num_folds = min(_MOST, int(open_.sum()))
    if num_folds < 2 or (kind == "one" and (count >= 2).sum() < 1):
        return np.full(len(truth), NEVER, np.int64)
    dice = np.random.default_rng(seed)
    sizes = np.zeros(num_folds)
    for label in sorted(range(truth.shape[1]), key=lambda number: (count[number], number)):
        _spread(folds, np.flatnonzero(open_ & (truth[:, label] > 0)), sizes, dice)
    _spread(folds, np.flatnonzero(open_), sizes, dice)  # those without any label
    return folds


def _spread(
    folds: NDArray[np.int64],
    rows: NDArray[np.int64],
    sizes: Array,
    dice: np.random.Generator,
) -> None:
    """Deal the rows that have no fold yet, each to the fold with the fewest of these."""
    here = np.array([np.sum(folds[rows] == number) for number in range(len(sizes))], np.float64)
    for row in dice.permutation(rows):
        if folds[row] >= NEVER:
            continue
        fold = int(np.lexsort((sizes, here))[0])
        folds[row] = fold
        here[fold] += 1
        sizes[fold] += 1
