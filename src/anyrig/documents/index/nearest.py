"""The vectors nearest to one: exactly, by a graph when there are many, on a GPU where it is faster.

Exact is a product of the matrix with the question, 5 to 15 ms for 100,000 vectors of 384 numbers.
Beyond that a graph (FAISS, HNSW) answers in a millisecond and misses a few; it is made when the
folder is indexed and lies beside the index. A question that a filter leaves few vectors to is
answered exactly. Without FAISS, and for vectors that the graph has not, everything is exact.
"""

from __future__ import annotations

import json
import logging
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np  # noqa: TID253 - arrays are all that is here

from anyrig.storage.files import open_atomic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.documents.model import Model

    Matrix = NDArray[np.float32]
    Rows = NDArray[np.int64]
    Mask = NDArray[np.bool_]

log = logging.getLogger(__name__)
THRESHOLD = 100_000
"""Vectors up to which everything is exact."""
_LINKS, _BUILD_WIDTH, _SEARCH_WIDTH = 32, 100, 400
_FEW = 0.1  # of the vectors: a filter that leaves fewer is answered exactly
_STALE = 0.2  # of a graph's vectors: when so many are gone it is made anew
_STEP = 5_000
_MARK = b"anyrig-hnsw-1\n"
_TRIES = 5


def unit(vector: Matrix, model: Model) -> Matrix:
    """A vector of length 1, whose products are cosines: not every model gives such."""
    if model.normalise:
        return vector
    made: Matrix = vector / np.float32(max(float(np.linalg.norm(vector)), 1e-12))
    return made


class Nearest(Protocol):
    """Vectors that can be asked which are nearest."""

    what: str
    """How it does it, for people."""

    def nearest(self, query: Matrix, most: int, allowed: Mask | None = None) -> tuple[Rows, Matrix]:
        """Rows and their products with the query, the largest first, at most so many."""


class Exact:
    """A matrix, multiplied with each question."""

    what = "exact"

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix

    def nearest(self, query: Matrix, most: int, allowed: Mask | None = None) -> tuple[Rows, Matrix]:
        """See `Nearest`."""
        if allowed is None:
            return _best(np.arange(len(self.matrix)), self.matrix @ query, most)
        rows = np.flatnonzero(allowed)
        if len(rows) < _FEW * len(self.matrix):
            return _best(rows, self.matrix[rows] @ query, most)
        return _best(rows, (self.matrix @ query)[rows], most)


def _best(rows: Rows, scores: Matrix, most: int) -> tuple[Rows, Matrix]:
    if len(scores) > most:
        chosen = np.argpartition(-scores, most - 1)[:most]
        # Equal ones at the edge are taken in order, whatever the partition did.
        edge = scores[chosen].min()
        chosen = np.flatnonzero(scores >= edge)
        rows, scores = rows[chosen], scores[chosen]
    order = np.lexsort((rows, -scores))[:most]
    return rows[order], scores[order]


# -- the graph ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Graph:
    """A graph over the vectors of some texts."""

    ids: Rows
    """The text of each of its vectors."""
    fingerprint: str
    """The model's."""
    faiss: Any
    """The module, and in `index` what it made."""
    index: Any

    @property
    def matrix(self) -> Matrix:
        """Its vectors, where FAISS keeps them: no copy."""
        flat = self.faiss.downcast_index(self.index.storage)
        numbers = self.faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d)
        found: Matrix = numbers.reshape(flat.ntotal, flat.d)
        return found


class Hnsw:
    """A graph, with what has come and gone since it was made.

    Args:
        graph: of most of the vectors.
        present: which of its vectors are still in the index.
        tail: the vectors that it has not; their rows follow those of the graph.
    """

    def __init__(self, graph: Graph, present: Mask, tail: Matrix) -> None:
        self.what = f"HNSW over {len(graph.ids):,} vectors"
        self._graph, self._present, self._tail = graph, present, Exact(tail)
        self._exact = Exact(graph.matrix)

    def nearest(self, query: Matrix, most: int, allowed: Mask | None = None) -> tuple[Rows, Matrix]:
        """See `Nearest`."""
        num = len(self._present)
        among = self._present if allowed is None else self._present & allowed[:num]
        if among.sum() < max(_FEW * num, 2 * most):
            rows, scores = self._exact.nearest(query, most, among)
        else:
            rows, scores = self._walk(query, most, among)
        if len(self._tail.matrix):
            more = self._tail.nearest(query, most, None if allowed is None else allowed[num:])
            rows = np.concatenate([rows, more[0] + num])
            scores = np.concatenate([scores, more[1]])
        return _best(rows, scores, most)

    def _walk(self, query: Matrix, most: int, among: Mask) -> tuple[Rows, Matrix]:
        faiss = self._graph.faiss
        width = max(_SEARCH_WIDTH, 2 * most)
        if among.all():
            how = faiss.SearchParametersHNSW(efSearch=width)
        else:
            bits = np.packbits(among, bitorder="little")
            chosen = faiss.IDSelectorBitmap(bits)
            how = faiss.SearchParametersHNSW(efSearch=width, sel=chosen)
        scores, rows = self._graph.index.search(query[None], most, params=how)
        found = rows[0] >= 0
        return rows[0][found].astype(np.int64), scores[0][found]


def built(
    ids: Rows,
    matrix: Callable[[Rows], Matrix],
    fingerprint: str,
    dimension: int,
    *,
    before: Graph | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> Graph | None:
    """A graph of all vectors: the one before with what it lacks, or a new one; None without FAISS.

    Args:
        ids: the texts whose vectors are wanted, sorted.
        matrix: the vectors of some of them.
        fingerprint: the model's.
        dimension: of its vectors.
        before: what was made earlier.
        tell: is told how many are in it, of how many.
    """
    faiss = _faiss()
    if faiss is None:
        return None
    if before is None or stale(before, ids, fingerprint):
        index = faiss.IndexHNSWFlat(dimension, _LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_WIDTH
        before = Graph(np.zeros(0, np.int64), fingerprint, faiss, index)
    lacking = np.setdiff1d(ids, before.ids)
    for start in range(0, len(lacking), _STEP):
        some = lacking[start : start + _STEP]
        before.index.add(matrix(some))
        if tell:
            tell(min(start + _STEP, len(lacking)), len(lacking))
    return Graph(np.concatenate([before.ids, lacking]), fingerprint, faiss, before.index)


def stale(graph: Graph, ids: Rows, fingerprint: str) -> bool:
    """Whether a graph is another model's, or too many of its vectors are gone."""
    if graph.fingerprint != fingerprint:
        return True
    num_gone = len(graph.ids) - int(np.isin(graph.ids, ids).sum())
    return num_gone > _STALE * len(graph.ids)


def save(graph: Graph, path: Path) -> None:
    """Keep a graph in one file, whole or not at all."""
    head = json.dumps({"fingerprint": graph.fingerprint, "count": len(graph.ids)}).encode()
    with open_atomic(path) as file:
        file.write(_MARK + struct.pack("<I", len(head)) + head)
        file.write(graph.ids.astype("<i8").tobytes())
        file.write(memoryview(graph.faiss.serialize_index(graph.index)))


def load(path: Path) -> Graph | None:
    """A graph that was kept; None where there is none, or FAISS is not installed."""
    faiss = _faiss()
    if faiss is None or not path.is_file():
        return None
    try:
        data = np.memmap(path, np.uint8, "r")
        start = len(_MARK) + 4
        if bytes(data[: len(_MARK)]) != _MARK:
            return None
        (size,) = struct.unpack("<I", bytes(data[len(_MARK) : start]))
        head = json.loads(bytes(data[start : start + size]))
        start += size
        ids = np.frombuffer(bytes(data[start : start + 8 * head["count"]]), "<i8").copy()
        index = faiss.deserialize_index(np.array(data[start + 8 * head["count"] :]))
        return Graph(ids.astype(np.int64), str(head["fingerprint"]), faiss, index)
    except (OSError, ValueError, KeyError, RuntimeError, struct.error) as error:
        log.warning("%s cannot be used (%s): the next `anyrig index` creates it again", path, error)
        return None


def _faiss() -> Any:
    try:
        import faiss  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    return faiss


def has_faiss() -> bool:
    """Whether FAISS is installed."""
    return _faiss() is not None


# -- a GPU -------------------------------------------------------------------------------------


class OnGpu:
    """The matrix on a GPU, through FAISS; questions with a filter are answered by the CPU."""

    def __init__(self, faiss: Any, cpu: Exact) -> None:
        self.what = "exact, on the GPU"
        self._cpu = cpu
        self._resources = faiss.StandardGpuResources()
        self._index = faiss.GpuIndexFlatIP(self._resources, cpu.matrix.shape[1])
        self._index.add(cpu.matrix)

    def nearest(self, query: Matrix, most: int, allowed: Mask | None = None) -> tuple[Rows, Matrix]:
        """See `Nearest`."""
        if allowed is not None:
            return self._cpu.nearest(query, most, allowed)
        scores, rows = self._index.search(query[None], min(most, len(self._cpu.matrix)))
        return rows[0].astype(np.int64), scores[0]


def on_gpu(cpu: Exact, faiss: Any = None) -> Nearest:
    """The matrix where it answers sooner: on a GPU that FAISS drives, or where it is.

    It is asked for by a searcher that lives long: to open a GPU takes seconds.
    """
    faiss = faiss or _faiss()
    if faiss is None or not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        return cpu
    if not len(cpu.matrix):
        return cpu
    try:
        gpu = OnGpu(faiss, cpu)
        here, there = _speed(cpu), _speed(gpu)
    except (RuntimeError, MemoryError) as error:
        log.warning("the GPU is not used for searching: %s", str(error).splitlines()[0])
        return cpu
    log.info("a question takes %.2f ms here and %.2f ms on the GPU", here * 1e3, there * 1e3)
    return gpu if there < here else cpu


def _speed(asked: Exact | OnGpu) -> float:
    """Seconds that a question takes, after one to warm up."""
    matrix = asked.matrix if isinstance(asked, Exact) else asked._cpu.matrix
    times = []
    for turn in range(_TRIES + 1):
        began = time.perf_counter()
        asked.nearest(matrix[turn % len(matrix)], 100)
        times.append(time.perf_counter() - began)
    return sorted(times[1:])[_TRIES // 2]
