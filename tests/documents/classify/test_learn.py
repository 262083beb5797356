"""Lines on vectors against what is known of them: scikit-learn's, and made-up truths."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.documents.classify import figures
from anyrig.documents.classify.calibrate import calibrate, plain
from anyrig.documents.classify.head import reaches
from anyrig.documents.classify.learn import cross_validate, learn
from anyrig.documents.classify.solve import Array, fit, probabilities


def _clouds(
    count: int, num_labels: int, width: int, apart: float, seed: int
) -> tuple[Array, Array]:
    """Clouds around as many centres, a label each."""
    dice = np.random.default_rng(seed)
    centres = dice.normal(size=(num_labels, width)) * apart
    which = np.arange(count) % num_labels
    rows = centres[which] + dice.normal(size=(count, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), np.eye(num_labels)[which]


@pytest.mark.parametrize("strength", [1.0, 0.01])
def test_lines_are_those_of_scikit_learn(strength: float) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rows, truth = _clouds(90, 4, 50, 0.2, 1)
    theirs = linear_model.LogisticRegression(
        C=1 / (strength * len(rows)), class_weight="balanced", tol=1e-8, max_iter=5000
    ).fit(rows, truth.argmax(axis=1))
    told = probabilities(fit(rows, truth, "one", strength).scores(rows), "one")
    assert np.abs(told - theirs.predict_proba(rows)).max() < 2e-3  # ours holds the bias a little


def _drawn(count: int, steep: float, seed: int) -> tuple[Array, Array]:
    """Scores of which the true probabilities are known: those of `scores / steep`."""
    dice = np.random.default_rng(seed)
    scores = dice.normal(size=(count, 4)) * 1.5
    cumulated = probabilities(scores, "one").cumsum(axis=1)
    which = (dice.random((count, 1)) > cumulated).sum(axis=1).clip(0, 3)
    return scores * steep, np.eye(4)[which]


@pytest.mark.parametrize("steep", [0.1, 5.0])
def test_calibration_mends_what_is_too_sure_or_too_shy(steep: float) -> None:
    scores, truth = _drawn(600, steep, 3)
    fresh, known = _drawn(4000, steep, 4)
    scale = calibrate(scores, truth, "one", truth.sum(axis=0))
    before = figures.ece(*figures.pairs(plain(4).applied(fresh, "one"), known, "one"))
    after = figures.ece(*figures.pairs(scale.applied(fresh, "one"), known, "one"))
    assert before > 0.15
    assert after < 0.05
    assert float(scale.slope[0]) == pytest.approx(1 / steep, rel=0.2)


def test_a_learnt_head_is_calibrated_on_what_it_never_saw() -> None:
    rows, truth = _clouds(1400, 3, 20, 0.25, 6)
    learnt = learn(rows[:200], truth[:200], "one")
    told = learnt.tell(rows[200:], "one")
    right = float((told.argmax(axis=1) == truth[200:].argmax(axis=1)).mean())
    assert 0.5 < right < 0.95  # neither hopeless nor so easy that anything is calibrated
    assert figures.ece(*figures.pairs(told, truth[200:], "one")) < 0.07


def test_cross_validation_tells_what_new_texts_show() -> None:
    rows, truth = _clouds(2120, 3, 20, 0.25, 7)
    found = cross_validate(rows[:120], truth[:120], "one", ("a", "b", "c"))
    assert found is not None
    told = learn(rows[:120], truth[:120], "one").tell(rows[120:], "one")
    right = float((told.argmax(axis=1) == truth[120:].argmax(axis=1)).mean())
    assert found.low <= right <= found.high
    assert (found.folds, found.repeats, found.num_tested) == (5, 2, 120)
    assert sum(map(sum, found.confusion)) == 240


def test_labels_of_chance_are_not_learnt() -> None:
    dice = np.random.default_rng(8)
    rows, truth = dice.normal(size=(60, 100)), np.eye(2)[np.arange(60) % 2]
    found = cross_validate(rows, truth, "one", ("a", "b"))
    assert found is not None
    assert found.low < 0.5 < found.high
    assert found.ece < 0.25


def test_the_rare_label_is_found() -> None:
    rows, truth = _clouds(400, 2, 30, 0.3, 9)
    keep = np.r_[np.flatnonzero(truth[:, 0])[:100], np.flatnonzero(truth[:, 1])[:8]]
    asked = np.setdiff1d(np.arange(400), keep)
    told = learn(rows[keep], truth[keep], "one").tell(rows[asked], "one")
    right = told.argmax(axis=1) == truth[asked].argmax(axis=1)
    rare = truth[asked, 1] > 0
    assert right[rare].mean() > 0.65
    assert right[~rare].mean() > 0.65
    swayed = learn(rows[keep], truth[keep], "one", prior="examples").tell(rows[asked], "one")
    assert (swayed.argmax(axis=1) == 1)[rare].mean() < right[rare].mean()


def test_the_only_example_of_a_label_is_never_asked_about() -> None:
    rows, truth = _clouds(20, 2, 10, 0.5, 10)
    wide = np.vstack([np.hstack([truth, np.zeros((20, 1))]), [[0.0, 0.0, 1.0]]])
    more = np.vstack([rows, rows[:1] * -1])
    found = cross_validate(more, wide, "one", ("a", "b", "lonely"))
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
    learnt = learn(rows[:150], truth[:150], "many")
    told = learnt.tell(rows[150:], "many")
    assert ((told > 0.5) == (truth[150:] > 0)).mean() > 0.9
    assert figures.ece(told.ravel(), truth[150:].ravel()) < 0.06
    found = cross_validate(rows[:150], truth[:150], "many", ("a", "b", "c"))
    assert found is not None
    assert found.confusion == ()
    assert found.macro_f1 > 0.85


def test_what_is_none_of_the_labels_lies_beyond_their_reach() -> None:
    rows, truth = _clouds(120, 6, 60, 0.6, 13)
    known, strange = truth[:, :5], truth[:, 5] > 0
    centres, reach = reaches(rows[~strange][:60], known[~strange][:60])
    near = np.asarray((rows @ centres.T - reach).max(axis=1) >= 0)
    assert near[~strange][60:].mean() > 0.75
    assert near[strange].mean() < 0.35
