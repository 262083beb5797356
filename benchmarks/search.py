"""Index and search 100,000 passages on a CPU: rates, warm queries, the HNSW graph beside exact.

Files of generated prose are indexed as the command line does it (reading in processes of their own,
splitting, embedding, SQLite), and searched with passages drawn from them. The peer of a query is
what one would write by hand: the same model's vector, `matrix @ query` with a full sort in numpy,
FTS5's `ORDER BY rank`, and both fetched. `BENCHMARK_PASSAGES` and `BENCHMARK_MODEL` (100000 and
minilm by default) make it smaller or quicker; `hashing` has no model to wait for. With
`BENCHMARK_RANDOM` passages have random vectors of the model's size, and queries real ones: a search
takes as long, but nothing needs to be embedded. There is no graph then.
"""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyrig import Rig
from anyrig.app.embedding import EmbeddingOptions, find_model, open_embedder, open_vectors
from anyrig.documents.index import nearest
from anyrig.documents.index.folders import build_ways, index_folders, resolve_folders
from anyrig.documents.index.progress import Progress
from anyrig.documents.index.search import Searcher
from anyrig.documents.index.status import status
from anyrig.documents.index.update import Indexed
from anyrig.documents.model import Model
from anyrig.documents.protocol import Vectors
from benchmarks.harness import Row, percentile
from benchmarks.processes import cpu_seconds
from benchmarks.texts import read_novel

PASSAGES = int(os.environ.get("BENCHMARK_PASSAGES", "100000"))
MODEL = os.environ.get("BENCHMARK_MODEL", "minilm")
RANDOM = bool(os.environ.get("BENCHMARK_RANDOM"))
OPTIONS = EmbeddingOptions(device="cpu", model=MODEL, no_cache=True)
NUM_QUERIES = 200
MAX_MS = 50.0
MIN_RECALL = 0.95
_PER_FILE = 50
_VOCABULARY = 3_500


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _write_files(folder / "docs", PASSAGES)
        rig = Rig(environment={**os.environ, "XDG_CACHE_HOME": place, "XDG_CONFIG_HOME": place})
        model = find_model(rig, OPTIONS, {}, print)
        path = folder / "i.sqlite"
        done = _build_index(rig, model, path, folder / "docs")
        again = _rerun_index(rig, model, path, folder / "docs")
        # A query is embedded in this process, as a server and the command line do.
        with open_embedder(rig, OPTIONS, model, print, num_characters=1000) as vectors:
            queries = _draw_queries(folder / "docs")
            rows = _query_rows(path, vectors, queries)
            rows += [] if RANDOM else _graph_rows(path, vectors, queries)
    return [*_index_rows(done, again), *rows]


# -- the folder ------------------------------------------------------------------------------------


def _vocabulary() -> list[str]:
    """Real words first, since the first are drawn most often, then invented ones."""
    novel = read_novel().lower().split()
    real = list(dict.fromkeys(word for word in novel if word.isalpha()))
    parts = "ba co di fe gu ha jo ki la me no pu ra si to vu wa ze tri sto bra".split()
    made = ("".join(some) for some in itertools.product(parts, repeat=4))
    return [*real, *itertools.islice(made, _VOCABULARY - len(real))]


def _write_files(folder: Path, count: int) -> None:
    """Files of prose, some 50 passages each: words drawn by Zipf's law."""
    folder.mkdir()
    rng, words = random.Random(5), _vocabulary()
    weights = list(itertools.accumulate(1 / (place + 10) for place in range(len(words))))
    for number in range(-(-count // _PER_FILE)):
        size = min(_PER_FILE, count - number * _PER_FILE)
        drawn = iter(rng.choices(words, cum_weights=weights, k=size * 150))
        paragraphs = [_paragraph(drawn, rng) for _ in range(size)]
        (folder / f"{number:05}.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")


def _paragraph(drawn: Iterator[str], rng: random.Random) -> str:
    """Long enough that the next one starts a passage of its own."""
    sentences: list[str] = []
    while sum(map(len, sentences)) < 620:
        some = list(itertools.islice(drawn, rng.randint(8, 18)))
        sentences.append((" ".join(some) + ".").capitalize() if some else "Nothing is left.")
    return " ".join(sentences)


def _draw_queries(folder: Path) -> list[str]:
    """3 to 8 consecutive words of the files."""
    rng, files = random.Random(9), sorted(folder.iterdir())
    found = []
    for _ in range(NUM_QUERIES):
        words = rng.choice(files).read_text(encoding="utf-8").split()
        start = rng.randrange(len(words) - 10)
        found.append(" ".join(words[start : start + rng.randint(3, 8)]))
    return found


# -- indexing --------------------------------------------------------------------------------------


class _RandomVectors:
    """Random vectors of a model's size; fits `protocol.Vectors`."""

    def __init__(self, model: Model) -> None:
        import numpy as np

        self.model, self._rng = model, np.random.default_rng(3)

    def embed(self, texts: Iterable[str], *, use: str = "passage") -> Iterator[Any]:
        for _ in texts:
            drawn = self._rng.standard_normal(self.model.dimension, dtype="float32")
            yield (drawn / (drawn @ drawn) ** 0.5)[None]

    def matrix(self, texts: Iterable[str], *, use: str = "passage") -> Any:
        import numpy as np

        return np.concatenate(list(self.embed(texts)))


@contextmanager
def _vectors(rig: Rig, model: Model) -> Iterator[Vectors]:
    if RANDOM:
        yield _RandomVectors(model)
    else:
        with open_vectors(rig, OPTIONS, model, print) as made:
            yield made


def _build_index(rig: Rig, model: Model, path: Path, folder: Path) -> tuple[Indexed, float]:
    last_s = 0.0

    def report(now: Progress) -> None:
        nonlocal last_s
        if time.monotonic() > last_s + 15:
            last_s = time.monotonic()
            print(f"{now.stage} {now.done:.1%}, {now.passages_per_s:.0f} passages/s,"
                  f" {now.left_s or 0:.0f} s left", flush=True)  # fmt: skip

    before = cpu_seconds()
    with _vectors(rig, model) as vectors:
        done = index_folders(path, resolve_folders([folder]), vectors, build_ways(), tell=report)
    assert not done.failed, done.failed[:3]
    assert status(path).num_vectors == done.num_passages
    return done, cpu_seconds() - before


def _rerun_index(rig: Rig, model: Model, path: Path, folder: Path) -> float:
    """Seconds of a run that finds nothing new."""
    start = time.perf_counter()
    with _vectors(rig, model) as vectors:
        done = index_folders(path, resolve_folders([folder]), vectors, build_ways())
    assert not done.changed
    return time.perf_counter() - start


def _index_rows(indexed: tuple[Indexed, float], again: float) -> list[Row]:
    done, cpu_s = indexed
    rate = done.num_passages / done.wall_s
    return [
        Row(f"passages indexed, {'random' if RANDOM else MODEL} vectors", done.num_passages, "",
            low=0.95 * PASSAGES),
        Row("passages indexed a second", rate, "/s",
            spread=f"{done.wall_s:.0f} s, CPU {cpu_s:.0f} s"),
        Row("a run with nothing to do", again, "s"),
    ]  # fmt: skip


# -- queries -------------------------------------------------------------------------------------


def _query_rows(path: Path, vectors: Vectors, queries: Sequence[str]) -> list[Row]:
    rows = []
    with Searcher(path) as searcher:
        start = time.perf_counter()
        searcher.snapshot()
        load_s = time.perf_counter() - start
        searcher.search(queries[0], vectors)
        hybrid = _time_ms(lambda one: searcher.search(one, vectors), queries)
        theirs = _time_ms(_by_hand(path, searcher, vectors), queries[:50])
        rows.append(Row("first load of the vectors", load_s, "s", high=1.0))
        rows.append(Row("a warm question, median", percentile(hybrid, 0.5), "ms",
                        percentile(theirs, 0.5), "numpy and FTS5 by hand"))  # fmt: skip
        rows.append(
            Row("a warm question, p95, with its vector", percentile(hybrid, 0.95), "ms",
                percentile(theirs, 0.95), "numpy and FTS5 by hand", high=MAX_MS)
        )  # fmt: skip
        for mode in ("vectors", "keywords"):
            found = _time_ms(
                lambda one, mode=mode: searcher.search(one, vectors, mode=mode), queries
            )
            rows.append(Row(f"by {mode} alone, p95", percentile(found, 0.95), "ms"))
        only = _time_ms(lambda one: list(vectors.embed([one], use="query")), queries)
        rows.append(Row("the question's vector alone, p95", percentile(only, 0.95), "ms"))
    return rows


def _time_ms(search: Any, queries: Sequence[Any]) -> list[float]:
    found = []
    for one in queries:
        start = time.perf_counter()
        search(one)
        found.append(1e3 * (time.perf_counter() - start))
    return found


def _by_hand(path: Path, searcher: Searcher, vectors: Vectors) -> Any:
    import numpy as np

    snapshot = searcher.snapshot()
    matrix = snapshot.matrix
    assert matrix is not None
    connection = sqlite3.connect(path)

    def search(query: str) -> list[str]:
        (vector,) = vectors.matrix([query], use="query")
        best = snapshot.ids[np.argsort(-(matrix @ vector))[:100]].tolist()
        words = " OR ".join(f'"{word}"' for word in query.split())
        ranked = connection.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 100", (words,)
        ).fetchall()
        scores: dict[int, float] = {}
        for order in (best, [number for (number,) in ranked]):
            for place, text in enumerate(order, 1):
                scores[text] = scores.get(text, 0.0) + 1 / (60 + place)
        top = sorted(scores, key=lambda text: -scores[text])[:10]
        return [
            connection.execute("SELECT body FROM texts WHERE id = ?", (text,)).fetchone()[0]
            for text in top
        ]

    return search


def _graph_rows(path: Path, vectors: Vectors, queries: Sequence[str]) -> list[Row]:
    """An HNSW graph over the same vectors, as a larger index has one."""
    import numpy as np

    if not nearest.has_faiss():
        return []
    with Searcher(path) as searcher:
        snapshot = searcher.snapshot()
    matrix = snapshot.matrix
    assert matrix is not None
    place = {int(one): number for number, one in enumerate(snapshot.ids)}
    start = time.perf_counter()
    graph = nearest.built(
        snapshot.ids, lambda some: matrix[[place[int(one)] for one in some]],
        snapshot.fingerprint, snapshot.dimension,
    )  # fmt: skip
    build_s = time.perf_counter() - start
    assert graph is not None
    hnsw = nearest.Hnsw(
        graph, np.ones(len(graph.ids), bool), np.zeros((0, snapshot.dimension), np.float32)
    )
    exact = nearest.Exact(matrix)
    query_vectors = list(vectors.matrix(queries, use="query"))
    found = [set(hnsw.nearest(one, 10)[0].tolist()) & set(exact.nearest(one, 10)[0].tolist())
             for one in query_vectors]  # fmt: skip
    recall = sum(map(len, found)) / (10 * len(query_vectors))
    ours = _time_ms(lambda one: hnsw.nearest(one, 100), query_vectors)
    theirs = _time_ms(lambda one: exact.nearest(one, 100), query_vectors)
    return [
        Row("top ten of the graph that are the exact ones", recall, "", low=MIN_RECALL),
        Row("the graph is made in", build_s, "s"),
        Row("nearest 100 by the graph, median", percentile(ours, 0.5), "ms",
            percentile(theirs, 0.5), "exact"),
    ]  # fmt: skip
