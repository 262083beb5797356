from __future__ import annotations

import numpy as np
import pytest

from anyrig.documents.analyse import clusters, space
from anyrig.documents.analyse.phrases import KeyPhrase


def blobs(counts: list[int], seed: int = 3, noise: float = 0.25) -> tuple[np.ndarray, list[int]]:
    dice = np.random.default_rng(seed)
    centres = np.eye(len(counts), 24)
    rows, labels = [], []
    for label, count in enumerate(counts):
        rows.append(centres[label] + noise * dice.normal(size=(count, 24)) / np.sqrt(24))
        labels += [label] * count
    return space.normalize(np.concatenate(rows).astype(np.float32)), labels


def purity(found: np.ndarray, labels: list[int]) -> float:
    hits = 0
    for label in set(found.tolist()):
        mine = [labels[n] for n in np.flatnonzero(found == label)]
        hits += max(mine.count(one) for one in set(mine))
    return hits / len(labels)


@pytest.mark.parametrize("counts", [[8, 8], [10, 5, 7], [12, 12, 12, 12, 12], [40, 3]])
def test_the_number_of_clusters_is_found(counts: list[int]) -> None:
    points, labels = blobs(counts)
    found, silhouette = clusters.divide_documents(points)
    assert len(set(found.tolist())) == len(counts)
    assert purity(found, labels) == 1.0
    assert silhouette > 0.5


def test_one_heap_is_one_cluster() -> None:
    points, _ = blobs([30], noise=0.9)
    found, silhouette = clusters.divide_documents(points)
    assert set(found.tolist()) == {0}
    assert silhouette == 0.0


def test_the_same_seed_gives_the_same_clusters() -> None:
    points, _ = blobs([9, 9, 9, 9], noise=1.2)
    first, second = (
        clusters.divide_documents(points, seed=4),
        clusters.divide_documents(points, seed=4),
    )
    assert first[0].tolist() == second[0].tolist()
    assert first[1] == second[1]


def test_a_name_tells_a_cluster_from_the_others() -> None:
    points, _ = blobs([3, 3])
    own = [[KeyPhrase("report", 1.0, 4), KeyPhrase("wild bees", 0.9, 3)]] * 3
    own += [[KeyPhrase("report", 1.0, 4), KeyPhrase("Tidal gates", 0.8, 2)]] * 3
    labels = np.array([0, 0, 0, 1, 1, 1])
    first, second = clusters.name_clusters(points, labels, own)
    assert first.name.startswith("wild bees")
    assert second.name.startswith("Tidal gates")
    assert sorted(first.members) == [0, 1, 2]
