"""Documents in groups that belong together, and a name for each group.

Spherical k-means from k-means++ starts, by a seed; the number of groups is the one with the best
mean silhouette, and where no division is worth its name there is one group.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyrig.documents.analyse.phrases import KeyPhrase
from anyrig.documents.analyse.space import condense, normalize
from anyrig.documents.words import plain, stem, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Points = NDArray[np.float32]
    Labels = NDArray[np.int64]

_STARTS = 5
_ROUNDS = 40
_DIRECTIONS = 64  # of many documents: more cost time and tell clusters apart no better
_MOST_CLUSTERS = 16
_WORTH = 0.04
"""The least mean silhouette of a division."""
_PLAIN = 0.25
"""One that needs no further proof."""
_CHANCE = 1.7
"""How many times that of the same numbers without order any other must be."""
_FINER = 0.04
"""By how much a division into more must be better, or it only cuts finer."""
_JUDGED = 1_500  # documents that a silhouette is taken over
_NAME_PHRASES = 3


@dataclass(frozen=True)
class Cluster:
    """Documents that belong together."""

    name: str
    members: tuple[int, ...]
    """By number, the most typical first."""
    phrases: tuple[str, ...]
    """What tells it from the others."""


@dataclass(frozen=True)
class Clustering:
    """All documents in clusters."""

    clusters: tuple[Cluster, ...]
    """The largest first."""
    silhouette: float
    """Of the division, -1 to 1; 0 for a single cluster."""

    @property
    def stands_out(self) -> bool:
        """Whether there is a division: all documents in one cluster are none."""
        return len(self.clusters) > 1


def divide_documents(points: Points, *, seed: int = 0) -> tuple[Labels, float]:
    """A label for each point, and the silhouette of the division."""
    import numpy as np

    there = np.flatnonzero(np.abs(points).sum(axis=1) > 0)
    labels = np.zeros(len(points), np.int64)
    if len(there) < 3:
        return labels, 0.0
    rows = condense(points[there], _DIRECTIONS, seed)
    best, chosen = 0.0, np.zeros(len(rows), np.int64)
    for count in range(2, _upper(len(rows)) + 1):
        found = _k_means(rows, count, seed)
        worth = _silhouette(rows, found, seed)
        if worth > best + _FINER:
            best, chosen = worth, found
    count = int(chosen.max()) + 1
    if best < _PLAIN and best < max(_WORTH, _CHANCE * _by_chance(rows, count, seed)):
        return labels, 0.0
    labels[there] = chosen
    return labels, best


def _by_chance(rows: Points, count: int, seed: int) -> float:
    """The silhouette that so many clusters reach where there are none: each column shuffled."""
    import numpy as np

    rng = np.random.default_rng(seed)
    found = []
    for _ in range(2):
        shuffled = normalize(rng.permuted(rows, axis=0))
        found.append(_silhouette(shuffled, _k_means(shuffled, count, seed), seed))
    return max(found)


def _upper(count: int) -> int:
    """The most clusters that so many documents can be in."""
    return max(2, min(_MOST_CLUSTERS, count // 2, 2 + round(1.5 * math.sqrt(count))))


def _k_means(rows: Points, count: int, seed: int) -> Labels:
    import numpy as np

    best: Labels = np.zeros(len(rows), np.int64)
    most = -math.inf
    for start in range(_STARTS):
        rng = np.random.default_rng([seed, count, start])
        centres = _starts(rows, count, rng)
        labels = (rows @ centres.T).argmax(axis=1)
        for _ in range(_ROUNDS):
            centres = _centres(rows, labels, centres)
            moved = (rows @ centres.T).argmax(axis=1)
            if np.array_equal(moved, labels):
                break
            labels = moved
        reached = float((rows * centres[labels]).sum())
        if reached > most + 1e-6:
            most, best = reached, labels
    return _number_labels(best)


def _starts(rows: Points, count: int, rng: np.random.Generator) -> Points:
    """k-means++: each next centre is drawn far from those there are."""
    import numpy as np

    chosen = [int(rng.integers(len(rows)))]
    while len(chosen) < count:
        far = np.maximum(0.0, 1.0 - (rows @ rows[chosen].T).max(axis=1)).astype(np.float64)
        total = float(far.sum())
        share = far / total if total > 1e-9 else np.full(len(rows), 1.0 / len(rows))
        chosen.append(int(rng.choice(len(rows), p=share / share.sum())))
    return rows[chosen].copy()


def _centres(rows: Points, labels: Labels, before: Points) -> Points:
    """The middle of each cluster; one without points stays where it was."""
    import numpy as np

    mine = (labels[None, :] == np.arange(len(before))[:, None]).astype(np.float32)
    centres = normalize(mine @ rows)
    empty = mine.sum(axis=1) == 0
    centres[empty] = before[empty]
    return centres


def _number_labels(labels: Labels) -> Labels:
    """Labels from 0 without holes, the largest cluster first."""
    import numpy as np

    counts = Counter(labels.tolist())
    first = {label: int(np.argmax(labels == label)) for label in counts}
    order = sorted(counts, key=lambda label: (-counts[label], first[label]))
    number = {label: place for place, label in enumerate(order)}
    return np.array([number[label] for label in labels.tolist()], np.int64)


def _silhouette(rows: Points, labels: Labels, seed: int) -> float:
    """How much nearer points are to their own cluster than to the next, on average."""
    import numpy as np

    num = int(labels.max()) + 1
    if num < 2:
        return 0.0
    judged = np.arange(len(rows))
    if len(rows) > _JUDGED:
        judged = np.sort(np.random.default_rng(seed).choice(len(rows), _JUDGED, replace=False))
    sums = np.stack([rows[labels == label].sum(axis=0) for label in range(num)])
    counts = np.array([(labels == label).sum() for label in range(num)], np.float64)
    alike = (rows[judged] @ sums.T).astype(np.float64)
    mine = labels[judged]
    place = np.arange(len(judged))
    own = (rows[judged] ** 2).sum(axis=1)
    inside = 1.0 - (alike[place, mine] - own) / np.maximum(counts[mine] - 1.0, 1.0)
    away = 1.0 - alike / counts
    away[place, mine] = np.inf
    next_best = away.min(axis=1)
    widest = np.maximum(np.maximum(inside, next_best), 1e-9)
    scores = np.where(counts[mine] > 1, (next_best - inside) / widest, 0.0)
    return float(scores.mean())


def name_clusters(
    points: Points, labels: Labels, phrases: Sequence[Sequence[KeyPhrase]]
) -> list[Cluster]:
    """The clusters with their most typical documents first, each by what tells it from the rest."""
    import numpy as np

    found = []
    weights = _weights(labels, phrases)
    spellings = _spellings(phrases)
    for label in sorted(set(labels.tolist())):
        members = np.flatnonzero(labels == label)
        centre = points[members].mean(axis=0)
        order = np.argsort(-(points[members] @ centre), kind="stable")
        distinctive = _telling(
            weights[label], [other for n, other in weights.items() if n != label]
        )
        shown = tuple(spellings[key] for key in distinctive)
        name = ", ".join(shown[:_NAME_PHRASES]) or "without a common subject"
        found.append(Cluster(name, tuple(int(members[n]) for n in order), shown))
    return sorted(found, key=lambda cluster: (-len(cluster.members), min(cluster.members)))


def key_of(phrase: KeyPhrase) -> tuple[str, ...]:
    """Under which a phrase is counted, however it is written."""
    return tuple(stem(plain(word.text)) for word in words(phrase.text))


def _weights(
    labels: Labels, phrases: Sequence[Sequence[KeyPhrase]]
) -> dict[int, dict[tuple[str, ...], float]]:
    """By cluster and phrase: the mean of its scores; one of several documents counts more."""
    found: dict[int, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    in_texts: dict[int, Counter[tuple[str, ...]]] = defaultdict(Counter)
    sizes = Counter(labels.tolist())
    for label, own in zip(labels.tolist(), phrases, strict=True):
        for phrase in own:
            found[label][key_of(phrase)] += phrase.score / sizes[label]
            in_texts[label][key_of(phrase)] += 1
        found[label]  # a cluster of texts without phrases is one as well
    for label, weights in found.items():
        for key in weights:
            weights[key] *= 1.0 + math.log(in_texts[label][key])
    return found


def _telling(
    mine: dict[tuple[str, ...], float], others: Sequence[dict[tuple[str, ...], float]]
) -> list[tuple[str, ...]]:
    """The phrases with the most weight here and little elsewhere, none said twice."""
    scored = []
    for key, weight in mine.items():
        elsewhere = max((other.get(key, 0.0) for other in others), default=0.0)
        scored.append((weight * weight / (weight + elsewhere), key))
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    kept: list[tuple[str, ...]] = []
    for _, key in scored:
        if not any(set(key) & set(other) for other in kept):
            kept.append(key)
        if len(kept) == 2 * _NAME_PHRASES:
            break
    return kept


def _spellings(phrases: Sequence[Sequence[KeyPhrase]]) -> dict[tuple[str, ...], str]:
    """How each phrase is most often written."""
    forms: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for own in phrases:
        for phrase in own:
            forms[key_of(phrase)][phrase.text] += phrase.count
    return {
        key: max(counts.items(), key=lambda one: (one[1], one[0]))[0]
        for key, counts in forms.items()
    }
