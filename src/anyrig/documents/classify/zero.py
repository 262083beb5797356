"""Labels by their names alone: a text is what its vector lies nearest to.

A label's vector is the mean of its name, and its description, in three short sentences. What all
labels share is taken off, so that `invoice` against `letter` is not drowned by both being papers;
where a text may have several, only what the sentences themselves say is.
A text scores by its length along what is left of each.

The figures below were fitted on texts of eight kinds and of ten topics
(tests/documents/classify/labelled.py), with random subsets of their labels, by all-MiniLM-L6-v2 in
English and use-multilingual in English, Spanish and French. They are shares of the labels' own
spread, so that they hold for a model whose vectors all lie close together.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.classify.figures import Array, Kind, probabilities
from anyrig.documents.classify.labels import NamedLabel
from anyrig.errors import InvalidInputError, Message, OptionRef

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors

TEMPLATES = ("{}", "This text is about {}.", "a document of the kind {}")
TEMPERATURE = 0.065
"""Of the softmax: the likeliest for kinds of documents with both models; topics want 0.03 to 0.065,
and texts in languages that the model does not know 0.12 to 0.17: theirs are not shown."""
NONE = 0.13
"""The score of the answer that no label fits, which stands among the labels' own. Between 0.1 and
0.15 the texts are about as likely; higher, it takes a third of those that do fit."""
_ANYTHING = "something"
NOISE = 0.085
"""How far scores of labels that do not fit scatter around nothing: one standard deviation."""
CHANCE = 0.75
"""Where a text may have several labels: of texts that fit none, how many get none, as their best
score of so many labels stays under the line."""


class ByName:
    """Probabilities of labels that have no examples."""

    calibrated = False
    rejects = True

    def __init__(
        self,
        labels: Sequence[NamedLabel],
        vectors: Vectors,
        *,
        kind: Kind = "one",
        templates: Sequence[str] = TEMPLATES,
    ) -> None:
        """Embed the labels.

        Args:
            labels: what a text may be.
            vectors: of the model that the texts are embedded with too.
            kind: whether a text has one of them, or any number.
            templates: sentences with `{}` for the label.
        """
        if kind == "one" and len(labels) < 2:
            raise InvalidInputError(
                "one label leaves nothing to choose",
                hint=Message(
                    "Give several, or pass {multi}: then each label fits or does not.",
                    multi=OptionRef("multi"),
                ),
            )
        self.labels = tuple(label.name for label in labels)
        self.kind: Kind = kind
        texts = [_sentences(label, templates) for label in labels]
        neutral = _sentences(NamedLabel(_ANYTHING), templates)
        rows = vectors.matrix([text for some in (*texts, neutral) for text in some])
        edges = np.cumsum([len(some) for some in texts])
        parts = np.split(rows.astype(np.float64), edges)
        means = np.array([_unit(part.mean(axis=0)) for part in parts])
        apart = _remove_shared(means[:-1], means[-1], kind)
        spread = float(np.sqrt((apart**2).sum(axis=1).mean()))
        if spread < 1e-6:
            raise InvalidInputError(
                "the labels mean the same to the model",
                hint="Choose other names, or describe them.",
            )
        self._directions = np.array([_unit(row) for row in apart])
        self._temperature = TEMPERATURE * spread
        level = NormalDist().inv_cdf(CHANCE ** (1 / len(labels)))
        self._none = NONE * spread
        self._line = max(level, 1.0) * NOISE * spread

    def predict_proba(self, vectors: Array) -> Array:
        """Probabilities, a row for each vector; what is missing to 1 is that none fits."""
        scores = vectors @ self._directions.T
        if self.kind == "many":
            return probabilities((scores - self._line) / self._temperature, self.kind)
        none = np.full((len(scores), 1), self._none)
        return probabilities(np.hstack([scores, none]) / self._temperature, "one")[:, :-1]

    def is_near(self, vectors: Array) -> Array:
        """Whether each text is any nearer to each label than one about something else may be."""
        line = self._line if self.kind == "many" else self._none
        found: Array = (vectors @ self._directions.T >= line).astype(np.float64)
        return found


def _remove_shared(means: Array, neutral: Array, kind: Kind) -> Array:
    """Labels without what says nothing.

    Those that exclude each other lose what they share. Those that do not would push each other away
    by that; they lose the direction of the sentences around them.
    """
    found: Array = means - means.mean(axis=0)
    if kind == "many":
        found = means - np.outer(means @ neutral, neutral)
    return found


def _sentences(label: NamedLabel, templates: Sequence[str]) -> list[str]:
    found = [template.replace("{}", label.name) for template in templates]
    if label.description:
        described = f"{label.name}: {label.description}"
        found += [template.replace("{}", described) for template in templates]
    return found


def _unit(row: Array) -> Array:
    size = float(np.linalg.norm(row))
    found: Array = row / size if size > 1e-12 else row
    return found
