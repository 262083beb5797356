"""The nearest vectors: exactly, by a graph, with filters; no GPU is claimed that is not there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from anyrig.documents.index import nearest


def unit(count: int, dimension: int = 32, seed: int = 0) -> Any:
    dice = np.random.default_rng(seed)
    # In clouds, as vectors of texts are: points drawn evenly are all alike far from each other.
    centres = dice.normal(size=(40, dimension))
    made = centres[dice.integers(0, 40, count)] + 0.5 * dice.normal(size=(count, dimension))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def slowly(matrix: Any, query: Any, most: int, allowed: Any = None) -> list[int]:
    scored = [
        (-float(np.dot(row.astype(np.float64), query.astype(np.float64))), number)
        for number, row in enumerate(matrix)
        if allowed is None or allowed[number]
    ]
    return [number for _, number in sorted(scored)[:most]]


@pytest.mark.parametrize("share", [None, 0.5, 0.05, 0.001, 0.0])
def test_exact_is_what_a_plain_loop_finds(share: float | None) -> None:
    matrix = unit(2000)
    allowed = None if share is None else np.random.default_rng(1).random(2000) < share
    for query in unit(10, seed=5):
        rows, scores = nearest.Exact(matrix).nearest(query, 10, allowed)
        assert rows.tolist() == slowly(matrix, query, 10, allowed)
        assert (np.diff(scores) <= 0).all()


def test_few_and_equal_vectors() -> None:
    matrix = np.repeat(unit(1), 50, axis=0)
    rows, _ = nearest.Exact(matrix).nearest(matrix[0], 10)
    assert rows.tolist() == list(range(10)), "of equal ones the first"
    none = nearest.Exact(np.zeros((0, 32), np.float32))
    assert none.nearest(matrix[0], 10)[0].tolist() == []
    assert len(nearest.Exact(matrix[:3]).nearest(matrix[0], 10)[0]) == 3


def _graph(matrix: Any, ids: Any, before: nearest.Graph | None = None) -> nearest.Graph:
    place = {int(one): number for number, one in enumerate(ids)}
    made = nearest.built(
        ids, lambda some: matrix[[place[int(one)] for one in some]], "model", matrix.shape[1],
        before=before,
    )  # fmt: skip
    assert made is not None
    return made


def test_a_graph_finds_nearly_all(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    matrix, ids = unit(3000), np.arange(3000, dtype=np.int64) * 7 + 1
    nearest.save(_graph(matrix, ids), tmp_path / "i.hnsw")
    graph = nearest.load(tmp_path / "i.hnsw")
    assert graph is not None
    assert graph.ids.tolist() == ids.tolist()
    assert np.array_equal(graph.matrix, matrix), "its vectors, in place"
    asked = nearest.Hnsw(graph, np.ones(3000, bool), np.zeros((0, 32), np.float32))
    found = sum(
        len(set(asked.nearest(query, 10)[0].tolist()) & set(slowly(matrix, query, 10)))
        for query in unit(50, seed=5)
    )
    assert found >= 0.97 * 500


@pytest.mark.parametrize("share", [0.6, 0.02])
def test_a_graph_with_what_came_and_went_and_a_filter(share: float) -> None:
    pytest.importorskip("faiss")
    matrix = unit(2500)
    graph = _graph(matrix[:2000], np.arange(2000))
    present = np.random.default_rng(2).random(2000) < 0.9
    asked = nearest.Hnsw(graph, present, matrix[2000:])
    allowed = np.random.default_rng(3).random(2500) < share
    both = allowed & np.concatenate([present, np.ones(500, bool)])
    found = wanted = 0
    for query in unit(40, seed=6):
        rows = asked.nearest(query, 10, allowed)[0].tolist()
        assert all(both[row] for row in rows)
        best = slowly(matrix, query, 10, both)
        wanted += len(best)
        found += len(set(rows) & set(best))
    assert found >= 0.97 * wanted


def test_a_graph_grows_and_is_made_anew_when_too_much_is_gone() -> None:
    pytest.importorskip("faiss")
    matrix, ids = unit(1200), np.arange(1200)
    first = _graph(matrix[:1000], ids[:1000])
    grown = _graph(matrix, ids, before=first)
    assert grown.index is first.index, "the same graph, with more in it"
    assert (len(grown.ids), grown.index.ntotal) == (1200, 1200)
    assert not nearest.stale(grown, ids[100:], "model")
    assert nearest.stale(grown, ids[400:], "model")
    assert nearest.stale(grown, ids, "another model")
    anew = _graph(matrix[400:], ids[400:], before=grown)
    assert anew.index.ntotal == 800


def test_a_broken_graph_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("faiss")
    path = tmp_path / "i.hnsw"
    assert nearest.load(path) is None
    path.write_bytes(b"something else")
    assert nearest.load(path) is None
    nearest.save(_graph(unit(100), np.arange(100)), path)
    path.write_bytes(path.read_bytes()[:-500])
    assert nearest.load(path) is None
    assert "makes it anew" in caplog.text


def test_no_gpu_is_claimed_where_faiss_has_none() -> None:
    faiss = pytest.importorskip("faiss")
    exact = nearest.Exact(unit(100))
    if not hasattr(faiss, "StandardGpuResources"):
        assert nearest.on_gpu(exact) is exact
    without_card = SimpleNamespace(StandardGpuResources=object, get_num_gpus=lambda: 0)
    assert nearest.on_gpu(exact, without_card) is exact


def test_a_gpu_that_fails_or_is_slower_is_not_chosen() -> None:
    exact = nearest.Exact(unit(100))

    def refuses() -> None:
        raise RuntimeError("CUDA error: out of memory\nmore of it")

    broken = SimpleNamespace(StandardGpuResources=refuses, get_num_gpus=lambda: 1)
    assert nearest.on_gpu(exact, broken) is exact

    class Slow:
        def __init__(self, _: object, dimension: int) -> None:
            self.rows: Any = None

        def add(self, rows: Any) -> None:
            self.rows = rows

        def search(self, query: Any, most: int) -> tuple[Any, Any]:
            for _ in range(200):
                scores = self.rows @ query[0]
            order = np.argsort(-scores)[:most]
            return scores[order][None], order[None]

    slow = SimpleNamespace(StandardGpuResources=object, get_num_gpus=lambda: 1, GpuIndexFlatIP=Slow)
    assert nearest.on_gpu(exact, slow) is exact
    rows, _ = nearest.OnGpu(slow, exact).nearest(exact.matrix[3], 5)
    assert rows.tolist() == exact.nearest(exact.matrix[3], 5)[0].tolist()
