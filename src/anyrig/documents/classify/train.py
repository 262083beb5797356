"""A classifier from examples: ridge regression, calibrated on what it says of examples that it was
not fitted to.

Leaving out each example in turn has a closed form in ridge regression: one decomposition gives, for
every strength, the scores of all examples by weights that had not seen them. On these the strength
is chosen, one temperature is fitted, and the figures are computed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from anyrig.documents.classify.classifier import (
    ClassifierRecord,
    HeadWeights,
    TrainedHead,
    digest_weights,
)
from anyrig.documents.classify.figures import (
    Array,
    Figures,
    Kind,
    log_softmax,
    measure_figures,
    probabilities,
    sigmoid,
    weigh_evenly,
)
from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.model import EmbeddingModel

Prior = Literal["even", "examples"]
"""How common each of several labels is taken to be: all alike, or as among the examples."""
_STRENGTHS = np.geomspace(3.0, 0.001, 15)
"""Vectors have length 1, so the first is close to comparing with the mean of each label, and the
last to a hard border."""
_DEFAULT_STRENGTH = 0.3
"""If there are too few examples to choose one."""
_DEFAULT_SLOPE = 4.0
"""Of scores that could not be calibrated."""
_BIAS = 3.0
"""The constant column: its weight is held back by a ninth of the strength."""
_PSEUDO = 5.0
"""Examples that every label is thought to have besides: four letters and two invoices do not show
that letters are more common."""
_EXPECTED_SLOPE, _SCATTER = 1.5, 1.5
"""What the slope, in logits of one standard deviation of the scores, is taken to be before any
example is seen, and how firmly: sixteen examples cannot turn this over, a hundred can."""
_LEAVING_OUT = 3.0
"""An example that is left out takes a share of its label's weight with it, so the scores of
examples left out are lower than those of new texts: the temperature fitted on them is too high, by
1.75 with two examples of each label and still by 1.5 to 1.75 with four (measured on the labelled
texts of the tests in twelve random splits each, with both packaged models). The slope is corrected
by `1 + _LEAVING_OUT / (n + 2)`, n examples a label."""
_SLOPES = np.geomspace(0.1, 60.0, 120)
_NEWTON_STEPS = 30
_MAX_LOST = 0.1
"""Share of the examples that may be further from their own kind than the line of `find_reach`."""


class Scale(NamedTuple):
    """What turns scores into scores whose probabilities hold."""

    slope: Array
    shift: Array


@dataclass(frozen=True)
class Ridge:
    """Fitted weights, and what is known of them."""

    weights: Array
    """A row for each label."""
    bias: Array
    scale: Scale
    strength: float
    left_out: Array | None
    """Probabilities of each example by weights fitted without it; None if none could be left out.
    Rows of examples that are the only one of their label are not numbers."""

    @property
    def calibrated(self) -> bool:
        return self.left_out is not None

    def predict(self, vectors: Array, kind: Kind) -> Array:
        """Probabilities, a row for each vector."""
        scores = vectors @ self.weights.T + self.bias
        return probabilities(scores * self.scale.slope + self.scale.shift, kind)


class _Solution(NamedTuple):
    weights: Array
    """With that of the constant column last."""
    left_out: Array


class _Decomposition:
    """Examples with what each counts for a label, ready to be solved with any strength."""

    def __init__(self, rows: Array, shares: Array) -> None:
        self._rows, self._shares = rows, shares
        self._sizes, self._turn = np.linalg.eigh((rows * shares[:, None]).T @ rows)
        self._turned = rows @ self._turn

    def solve(self, targets: Array, strength: float) -> _Solution:
        inverse = 1.0 / (np.maximum(self._sizes, 0.0) + strength)
        inner = inverse[:, None] * (self._turned.T @ (targets * self._shares[:, None]))
        fitted = self._turned @ inner
        leverage = self._shares * ((self._turned**2) @ inverse)
        # An example's own share in its fitted value, taken out again.
        left_out = targets + (fitted - targets) / np.maximum(1.0 - leverage, 1e-9)[:, None]
        return _Solution((self._turn @ inner).T, left_out)


def fit_ridge(vectors: Array, truth: Array, kind: Kind, *, prior: Prior = "even") -> Ridge:
    """Weights with the strength that does best on examples left out, calibrated on those.

    Args:
        vectors: a row for each example.
        truth: 1 where an example has a label.
        kind: of labels.
        prior: how common each label is taken to be.
    """
    count = truth.sum(axis=0)
    asked = (truth * (count <= 1)).sum(axis=1) == 0
    if kind == "many":
        asked = np.full(len(truth), len(truth) > 1)
    rows = np.hstack([vectors, np.full((len(vectors), 1), _BIAS)])
    parts = _decompose(rows, truth, kind)
    targets = truth if kind == "one" else 2.0 * truth - 1.0
    if not asked.any() or int(asked.sum()) < 2:
        found = _solve(parts, targets, _DEFAULT_STRENGTH)
        return _build(found, _default_scale(truth.shape[1], kind), _DEFAULT_STRENGTH, None)
    best: tuple[float, float, Scale, _Solution] | None = None
    for strength in _STRENGTHS:
        found = _solve(parts, targets, float(strength))
        scale, miss = _calibrate(found.left_out[asked], truth[asked], kind, count, prior)
        if best is None or miss < best[0] - 1e-9:
            best = (miss, float(strength), scale, found)
    assert best is not None
    _, strength, scale, found = best
    left_out = probabilities(found.left_out * scale.slope + scale.shift, kind)
    left_out[~asked] = np.nan
    if kind == "one":
        growth = 1.0 + _LEAVING_OUT / (len(truth) / truth.shape[1] + 2.0)
        scale = Scale(scale.slope * growth, scale.shift)
    return _build(found, scale, strength, left_out)


def measure_left_out(
    ridge: Ridge, truth: Array, kind: Kind, labels: tuple[str, ...], prior: Prior
) -> Figures | None:
    """What to expect on new texts, by what is said of each example without it."""
    if ridge.left_out is None:
        return None
    asked = np.isfinite(ridge.left_out).all(axis=1)
    return measure_figures(
        ridge.left_out[asked], truth[asked], kind, labels, counts=truth.sum(axis=0),
        even=kind == "one" and prior == "even",
    )  # fmt: skip


def _decompose(rows: Array, truth: Array, kind: Kind) -> list[_Decomposition]:
    """One for all labels that exclude each other; one for each of those that do not.

    Rare labels count as much as others: ten invoices and two letters in a folder say what was at
    hand, not how likely a letter is.
    """
    if kind == "one":
        return [_Decomposition(rows, weigh_evenly(truth))]
    found = []
    for label in truth.T:
        halves = label / max(1.0, label.sum()) + (1 - label) / max(1.0, (1 - label).sum())
        found.append(_Decomposition(rows, halves / halves.sum()))
    return found


def _solve(parts: list[_Decomposition], targets: Array, strength: float) -> _Solution:
    if len(parts) == 1 and targets.shape[1] > 1:
        return parts[0].solve(targets, strength)
    each = [part.solve(targets[:, [n]], strength) for n, part in enumerate(parts)]
    return _Solution(
        np.vstack([one.weights for one in each]), np.hstack([one.left_out for one in each])
    )


def _build(found: _Solution, scale: Scale, strength: float, left_out: Array | None) -> Ridge:
    weights = found.weights
    return Ridge(weights[:, :-1], _BIAS * weights[:, -1], scale, strength, left_out)


def _default_scale(num_labels: int, kind: Kind) -> Scale:
    slope = _DEFAULT_SLOPE if kind == "one" else _DEFAULT_SLOPE / 2
    return Scale(np.full(num_labels, slope), np.zeros(num_labels))


def _calibrate(
    scores: Array, truth: Array, kind: Kind, count: Array, prior: Prior
) -> tuple[Scale, float]:
    """The scale that makes examples left out most likely, and how unlikely they are with it."""
    if kind == "many":
        return _calibrate_many(scores, truth)
    if prior == "even":
        return _fit_temperature(scores, truth, np.zeros(len(count)), weigh_evenly(truth))
    lean = np.log((count + _PSEUDO) / (count + _PSEUDO).mean())
    shares = np.full(len(truth), 1.0 / len(truth))
    tried = [_fit_temperature(scores, truth, lean * part, shares) for part in (0, 0.25, 0.5, 1.0)]
    return min(tried, key=lambda one: one[1])


def _fit_temperature(
    scores: Array, truth: Array, lean: Array, shares: Array
) -> tuple[Scale, float]:
    """Targets are a little short of 0 and 1: ten right answers of ten do not prove certainty."""
    num_labels, count = truth.shape[1], len(truth)
    doubt = 1.0 / (count + 2.0)
    wanted = truth * (1.0 - doubt) + (1.0 - truth) * doubt / max(1, num_labels - 1)
    size = max(1e-12, float(scores.std()))

    def miss(slope: float) -> float:
        logs = log_softmax(scores * (slope / size) + lean)
        return -float((shares[:, None] * wanted * logs).sum())

    def doubtful(slope: float) -> float:
        return miss(slope) + 0.5 * ((slope - _EXPECTED_SLOPE) / _SCATTER) ** 2 / count

    slope = float(min(_SLOPES, key=doubtful))
    return Scale(np.full(num_labels, slope / size), lean), miss(slope)


def _calibrate_many(scores: Array, truth: Array) -> tuple[Scale, float]:
    """One slope and one shift for all labels, by Newton's method."""
    flat, known = scores.ravel(), truth.ravel()
    there = float(known.sum())
    wanted = np.where(known > 0, (there + 1) / (there + 2), 1.0 / (len(known) - there + 2))
    columns = np.stack([flat / max(1e-12, float(flat.std())), np.ones(len(flat))], axis=1)
    numbers = np.array([_EXPECTED_SLOPE, 0.0])
    for _ in range(_NEWTON_STEPS):
        sure = sigmoid(columns @ numbers)
        bend = (columns * (sure * (1 - sure))[:, None]).T @ columns + np.eye(2) * 1e-3
        numbers = numbers - np.linalg.solve(bend, columns.T @ (sure - wanted)).clip(-2.0, 2.0)
    slope = max(0.05, float(numbers[0])) / max(1e-12, float(flat.std()))
    sure = sigmoid(flat * slope + numbers[1]).clip(1e-9, 1 - 1e-9)
    miss = -float((known * np.log(sure) + (1 - known) * np.log(1 - sure)).mean())
    ones = np.ones(truth.shape[1])
    return Scale(ones * slope, ones * float(numbers[1])), miss


def train(
    vectors: Array,
    labels: Sequence[tuple[str, ...]],
    kind: Kind,
    model: EmbeddingModel,
    *,
    word: str = "",
    prior: Prior = "even",
) -> TrainedHead:
    """A classifier of examples.

    Args:
        vectors: a row for each example.
        labels: of each.
        kind: whether a text has one of them, or any number.
        model: whose vectors they are.
        word: what the person calls it, to find it again.
        prior: how common each label is taken to be.
    """
    names = tuple(sorted({name for some in labels for name in some}))
    _check_labels(names, labels, kind)
    truth = np.array([[float(name in some) for name in names] for some in labels])
    learnt = fit_ridge(vectors.astype(np.float64), truth, kind, prior=prior)
    figures = measure_left_out(learnt, truth, kind, names, prior)
    centres, reach = find_reach(vectors.astype(np.float64), truth)
    parts = (learnt.weights, learnt.bias, *learnt.scale, centres, reach)
    weights = HeadWeights(*(np.ascontiguousarray(part, np.float32) for part in parts))
    about = ClassifierRecord(
        labels=names,
        kind=kind,
        embedding=model.name,
        word=word or model.name,
        fingerprint=model.fingerprint,
        dimension=vectors.shape[1],
        num_examples=len(labels),
        counts={name: int(count) for name, count in zip(names, truth.sum(axis=0), strict=True)},
        strength=learnt.strength,
        calibrated=learnt.calibrated,
        prior=prior if kind == "one" else "examples",
        rejects=kind == "one",
        figures=None if figures is None else json.loads(json.dumps(asdict(figures))),
        digest=digest_weights(weights, names, kind, model.fingerprint),
    )
    return TrainedHead(about, weights)


def _check_labels(names: tuple[str, ...], labels: Sequence[tuple[str, ...]], kind: Kind) -> None:
    """Refuse examples from which nothing can be learnt."""
    if not names:
        raise InvalidInputError("no example has a label", hint="Give each at least one.")
    bare = sum(not some for some in labels)
    if kind == "one" and len(names) < 2:
        raise InvalidInputError(
            f"all examples have the label {names[0]!r}: at least two labels are needed",
            hint="Pass examples of a second label, such as `other`.",
        )
    if kind == "one" and bare:
        raise InvalidInputError(
            f"{pluralize(bare, 'example')} without a label",
            hint=Message(
                "Label them, or pass {multi}: then a text may have none.", multi=OptionRef("multi")
            ),
        )
    if kind == "many" and all(set(some) == set(names) for some in labels):
        raise InvalidInputError(
            "every example has every label: nothing can be learnt",
            hint="Pass examples without some of them.",
        )


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
