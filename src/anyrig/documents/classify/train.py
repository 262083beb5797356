"""Examples and their vectors to a classifier with its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.classify.head import About, Head, Weights, digest, plain, reaches
from anyrig.documents.classify.probability import Array, Kind
from anyrig.documents.classify.ridge import Prior, fit_ridge, measure_left_out
from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.model import Model


def train(
    vectors: Array,
    labels: Sequence[tuple[str, ...]],
    kind: Kind,
    model: Model,
    *,
    word: str = "",
    prior: Prior = "even",
) -> Head:
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
    _refuse(names, labels, kind)
    truth = np.array([[float(name in some) for name in names] for some in labels])
    learnt = fit_ridge(vectors.astype(np.float64), truth, kind, prior=prior)
    figures = measure_left_out(learnt, truth, kind, names, prior)
    centres, reach = reaches(vectors.astype(np.float64), truth)
    parts = (learnt.weights, learnt.bias, *learnt.scale, centres, reach)
    weights = Weights(*(np.ascontiguousarray(part, np.float32) for part in parts))
    about = About(
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
        figures=plain(figures),
        digest=digest(weights, names, kind, model.fingerprint),
    )
    return Head(about, weights)


def _refuse(names: tuple[str, ...], labels: Sequence[tuple[str, ...]], kind: Kind) -> None:
    """Examples from which nothing can be learnt."""
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
