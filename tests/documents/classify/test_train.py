"""Classifiers from examples against what is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anyrig.documents.classify import figures
from anyrig.documents.classify.figures import Array, Kind
from anyrig.documents.classify.train import (
    _Decomposition,
    find_reach,
    fit_ridge,
    measure_left_out,
)


def _clouds(
    count: int, num_labels: int, width: int, apart: float, seed: int
) -> tuple[Array, Array]:
    """Clouds around as many centres, a label each."""
    dice = np.random.default_rng(seed)
    centres = dice.normal(size=(num_labels, width)) * apart
    which = np.arange(count) % num_labels
    rows = centres[which] + dice.normal(size=(count, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.eye(num_labels)[which]


@pytest.mark.parametrize("kind", ["one", "many"])
def test_leaving_out_in_closed_form_is_fitting_anew(kind: Kind) -> None:
    rows, truth = _clouds(24, 3, 8, 0.4, 1)
    whole = np.hstack([rows, np.ones((24, 1))])
    targets = 2 * truth - 1
    shares = np.random.default_rng(2).random(24)
    found = _Decomposition(whole, shares).solve(targets, 0.2).left_out
    for number in (0, 11, 23):
        rest = np.arange(24) != number
        inner = (whole[rest] * shares[rest, None]).T
        weights = np.linalg.solve(inner @ whole[rest] + 0.2 * np.eye(9), inner @ targets[rest])
        np.testing.assert_allclose(found[number], whole[number] @ weights, atol=1e-9)
    learnt = fit_ridge(rows, truth, kind)
    assert learnt.left_out is not None
    assert learnt.left_out.shape == truth.shape


def _measure(rows: Array, truth: Array, kind: Kind, labels: tuple[str, ...]) -> Any:
    return measure_left_out(fit_ridge(rows, truth, kind), truth, kind, labels, "even")


def test_a_learnt_head_is_calibrated_on_what_it_never_saw() -> None:
    rows, truth = _clouds(1400, 3, 20, 0.25, 6)
    learnt = fit_ridge(rows[:200], truth[:200], "one")
    told = learnt.predict(rows[200:], "one")
    right = float((told.argmax(axis=1) == truth[200:].argmax(axis=1)).mean())
    assert 0.5 < right < 0.95  # neither hopeless nor so easy that anything is calibrated
    assert figures.ece(*figures.pair_best(told, truth[200:], "one")) < 0.07


def test_leaving_out_tells_what_new_texts_show() -> None:
    rows, truth = _clouds(2120, 3, 20, 0.25, 7)
    found = _measure(rows[:120], truth[:120], "one", ("a", "b", "c"))
    assert found is not None
    told = fit_ridge(rows[:120], truth[:120], "one").predict(rows[120:], "one")
    right = float((told.argmax(axis=1) == truth[120:].argmax(axis=1)).mean())
    assert found.low <= right <= found.high
    assert found.num_tested == 120
    assert sum(map(sum, found.confusion)) == 120


def test_labels_of_chance_are_not_learnt() -> None:
    dice = np.random.default_rng(8)
    rows, truth = dice.normal(size=(60, 100)), np.eye(2)[np.arange(60) % 2]
    found = _measure(rows, truth, "one", ("a", "b"))
    assert found is not None
    assert found.low < 0.5 < found.high
    assert found.ece < 0.25


def test_the_rare_label_is_found() -> None:
    rows, truth = _clouds(400, 2, 30, 0.3, 9)
    keep = np.r_[np.flatnonzero(truth[:, 0])[:100], np.flatnonzero(truth[:, 1])[:8]]
    asked = np.setdiff1d(np.arange(400), keep)
    told = fit_ridge(rows[keep], truth[keep], "one").predict(rows[asked], "one")
    right = told.argmax(axis=1) == truth[asked].argmax(axis=1)
    rare = truth[asked, 1] > 0
    assert right[rare].mean() > 0.65
    assert right[~rare].mean() > 0.65
    swayed = fit_ridge(rows[keep], truth[keep], "one", prior="examples").predict(rows[asked], "one")
    assert (swayed.argmax(axis=1) == 1)[rare].mean() < right[rare].mean()


def test_the_only_example_of_a_label_is_never_asked_about() -> None:
    rows, truth = _clouds(20, 2, 10, 0.5, 10)
    wide = np.vstack([np.hstack([truth, np.zeros((20, 1))]), [[0.0, 0.0, 1.0]]])
    more = np.vstack([rows, rows[:1] * -1])
    found = _measure(more, wide, "one", ("a", "b", "lonely"))
    assert found is not None
    assert found.num_tested == 20
    assert found.unmeasured == ("lonely",)
    assert found.lines[2].recall is None


def test_many_labels_a_text() -> None:
    dice = np.random.default_rng(12)
    centres = dice.normal(size=(3, 40))
    truth = (dice.random((400, 3)) < 0.4).astype(float)
    rows = truth @ centres + 0.8 * dice.normal(size=(400, 40))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    learnt = fit_ridge(rows[:150], truth[:150], "many")
    told = learnt.predict(rows[150:], "many")
    assert ((told > 0.5) == (truth[150:] > 0)).mean() > 0.9
    assert figures.ece(told.ravel(), truth[150:].ravel()) < 0.06
    found = _measure(rows[:150], truth[:150], "many", ("a", "b", "c"))
    assert found is not None
    assert found.confusion == ()
    assert found.macro_f1 > 0.85


def test_what_is_none_of_the_labels_lies_beyond_their_reach() -> None:
    rows, truth = _clouds(120, 6, 60, 0.6, 13)
    known, strange = truth[:, :5], truth[:, 5] > 0
    centres, reach = find_reach(rows[~strange][:60], known[~strange][:60])
    near = np.asarray((rows @ centres.T - reach).max(axis=1) >= 0)
    assert near[~strange][60:].mean() > 0.75
    assert near[strange].mean() < 0.35
