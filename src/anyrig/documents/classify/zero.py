"""Labels by their names alone: a text is what its vector lies nearest to.

A label's vector is the mean of its name, and its description, in three short sentences; a label
that is the name of a common kind of document, in English or another language, has a description of
its own (`kinds.py`).

Of labels that exclude each other a text has the nearest, unless it lies nearer to another common
kind of document: then none of them fits. What all kinds share is taken off, so that `invoice`
against `letter` is not drowned by both being papers. Where a text may have several labels, only
what the sentences themselves say is taken off, and a text scores by its length along what is left.

The figures for labels that exclude each other were fitted on texts of eight kinds in English,
Spanish and French and on letters in English, Spanish and German, those for several labels on the
former and on ten topics, by all-MiniLM-L6-v2 in English and use-multilingual in the others
(tests/documents/classify/labelled.py). They hold for models whose kinds spread as theirs do, and
are scaled for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.classify.figures import Array, Kind, probabilities
from anyrig.documents.classify.kinds import find_kind, list_kinds
from anyrig.documents.classify.labels import NamedLabel
from anyrig.errors import InvalidInputError, Message, OptionRef

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors

TEMPLATES = ("{}", "This text is about {}.", "a document of the kind {}")
TEMPERATURE = 0.05
"""Of the softmax over cosines: the likeliest for kinds and letters."""
LEAD = 0.06
"""By how much another kind must be nearer than any label for `none of these`. At 0.06 nine of ten
texts that none fits are told, and as many that one fits are given a label as before there were
other kinds; 0.03 costs a tenth of the latter."""
OWN_LEAD = 0.18
"""The same where the likeliest label is no common kind but one of the user's own: it may be about
what a common kind is about as well (`letter about a flat`, where there are leases)."""
DESCRIBED_LEAD = 0.12
"""The same where the likeliest label has a description of the user's own: two of forty texts more
have their label than at 0.06, and as many that none fits are told."""
LEAST = 0.07
"""The cosine that a label must have even where no other kind is near."""
SAME = 0.35
"""The cosine to a label from which another kind means the same, and does not speak against it."""
SPREAD = 0.82
"""Of the kinds, by both models."""
SUREST = 0.85
"""The most that a label can have of those that exclude each other: the rest is for kinds that have
no name here. Of the 112 answers that were nearest to certainty, 88 were right: all 56 for papers,
32 of 56 for short texts in three languages, most of which had no label that fits."""
_ANYTHING = "something"
MANY_TEMPERATURE = 0.065
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
        described = [_describe(label) for label in labels]
        self._scorer: _Exclusive | _Several
        if kind == "one":
            named = [find_kind(label.name) for label in labels]
            rest = [n for n, (name, _) in enumerate(list_kinds()) if name not in named]
            rows = _embed(described, vectors, templates)
            leads = np.array(_choose_leads(labels, named))
            self._scorer = _Exclusive(rows, leads, _embed_kinds(vectors, templates), rest)
        else:
            rows = _embed([*described, NamedLabel(_ANYTHING)], vectors, templates)
            self._scorer = _Several(rows[:-1], rows[-1])

    def predict_proba(self, vectors: Array) -> Array:
        """Probabilities, a row for each vector; what is missing to 1 is that none fits."""
        return self._scorer.predict_proba(vectors)

    def is_near(self, vectors: Array) -> Array:
        """Whether each text is any nearer to each label than one about something else may be."""
        return self._scorer.is_near(vectors)


class _Exclusive:
    """Labels of which a text has one, or none."""

    def __init__(self, labels: Array, leads: Array, kinds: Array, rest: Sequence[int]) -> None:
        shared = kinds.mean(axis=0)
        _check_distinct(labels)
        self._labels = np.array([_unit(row) for row in labels - shared])
        others = np.array([_unit(row) for row in kinds - shared])[rest]
        is_other = (others @ self._labels.T).max(axis=1) < SAME
        self._others = others[is_other]
        spread = float(np.sqrt(((kinds - shared) ** 2).sum(axis=1).mean()))
        self._scale = max(spread, 1e-6) / SPREAD
        self._leads = leads * self._scale

    def predict_proba(self, vectors: Array) -> Array:
        none = self._score_none(vectors)
        scores = np.hstack([vectors @ self._labels.T, none]) / (TEMPERATURE * self._scale)
        return SUREST * probabilities(scores, "one")[:, :-1]

    def is_near(self, vectors: Array) -> Array:
        found: Array = (vectors @ self._labels.T >= self._score_none(vectors)).astype(np.float64)
        return found

    def _score_none(self, vectors: Array) -> Array:
        """The score of the answer that no label fits, which stands among the labels' own."""
        least = np.full((len(vectors), 1), LEAST * self._scale)
        lead = self._leads[(vectors @ self._labels.T).argmax(axis=1)][:, None]
        nearest = np.hstack([vectors @ self._others.T - lead, least])
        found: Array = nearest.max(axis=1, keepdims=True)
        return found


class _Several:
    """Labels of which a text may have any number.

    They lose the direction of the sentences around them; without what they share they would push
    each other away.
    """

    def __init__(self, labels: Array, neutral: Array) -> None:
        apart = labels - np.outer(labels @ neutral, neutral)
        spread = float(np.sqrt((apart**2).sum(axis=1).mean()))
        _check_distinct(np.vstack([apart, np.zeros_like(neutral)]))
        self._directions = np.array([_unit(row) for row in apart])
        self._temperature = MANY_TEMPERATURE * spread
        level = NormalDist().inv_cdf(CHANCE ** (1 / len(labels)))
        self._line = max(level, 1.0) * NOISE * spread

    def predict_proba(self, vectors: Array) -> Array:
        scores = vectors @ self._directions.T
        return probabilities((scores - self._line) / self._temperature, "many")

    def is_near(self, vectors: Array) -> Array:
        found: Array = (vectors @ self._directions.T >= self._line).astype(np.float64)
        return found


def _choose_leads(labels: Sequence[NamedLabel], kinds: Sequence[str]) -> list[float]:
    """By how much another kind must be nearer than each label.

    Args:
        labels: the labels.
        kinds: the common kind that each names, or nothing. Where most name none, the others mean
            subjects too: `law` among `medicine` and `finance`.
    """
    if 2 * sum(map(bool, kinds)) < len(labels):
        return [OWN_LEAD] * len(labels)
    return [
        OWN_LEAD if not kind else DESCRIBED_LEAD if label.description else LEAD
        for label, kind in zip(labels, kinds, strict=True)
    ]


def _check_distinct(rows: Array) -> None:
    if float(((rows - rows.mean(axis=0)) ** 2).sum()) < 1e-12:
        raise InvalidInputError(
            "the labels mean the same to the model",
            hint="Choose other names, or describe them.",
        )


def _embed(labels: Sequence[NamedLabel], vectors: Vectors, templates: Sequence[str]) -> Array:
    """The vector of each label: the mean of its sentences."""
    texts = [_sentences(label, templates) for label in labels]
    rows = vectors.matrix([text for some in texts for text in some])
    parts = np.split(rows.astype(np.float64), np.cumsum([len(some) for some in texts])[:-1])
    return np.array([_unit(part.mean(axis=0)) for part in parts])


_KINDS: dict[tuple[str, tuple[str, ...]], Array] = {}
_MAX_KINDS = 8


def _embed_kinds(vectors: Vectors, templates: Sequence[str]) -> Array:
    """The vectors of all kinds, kept for the next labels: a server is asked with many."""
    key = (vectors.model.fingerprint, tuple(templates))
    rows = _KINDS.get(key)
    if rows is None:
        rows = _embed([NamedLabel(*one) for one in list_kinds()], vectors, templates)
        if len(_KINDS) < _MAX_KINDS:
            _KINDS[key] = rows
    return rows


def _describe(label: NamedLabel) -> NamedLabel:
    """The label, with the description of the kind that it names unless it has one."""
    kind = "" if label.description else find_kind(label.name)
    return NamedLabel(label.name, dict(list_kinds())[kind]) if kind else label


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
