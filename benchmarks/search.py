"""Index and search 100,000 passages on a CPU: rates, warm queries, a searcher while it is indexed.

Files of generated prose are indexed as the command line does it (reading in processes of their own,
splitting, embedding, SQLite), and searched with passages drawn from them. The peer of a query is
what one would write by hand: the same model's vector, `matrix @ query` with a full sort in numpy,
FTS5's `ORDER BY rank`, and both fetched. `BENCHMARK_PASSAGES` and `BENCHMARK_MODEL` (100000 and
minilm by default) make it smaller or quicker; `hashing` has no model to wait for. With
`BENCHMARK_RANDOM` passages have random vectors of the model's size, and queries real ones: a search
takes as long, but nothing needs to be embedded.

On a GPU only indexing is measured, with random weights of MiniLM's size.
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
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyrig import Rig
from anyrig.app.embedding import EmbeddingOptions, find_model, open_embedder, open_vectors
from anyrig.documents.index.db import IndexDatabase, list_known, put_link
from anyrig.documents.index.files import FolderReader, resolve_folders
from anyrig.documents.index.progress import IndexProgress
from anyrig.documents.index.search import Searcher
from anyrig.documents.index.status import read_status
from anyrig.documents.index.update import IndexChanges, update_index
from anyrig.documents.model import EmbeddingModel
from anyrig.documents.protocol import Vectors
from benchmarks.embedding_models import MINILM_SIZE, build_bert, find_tokenizer, save_model
from benchmarks.harness import Row, percentile
from benchmarks.processes import cpu_seconds
from benchmarks.texts import read_novel

PASSAGES = int(os.environ.get("BENCHMARK_PASSAGES", "100000"))
MODEL = os.environ.get("BENCHMARK_MODEL", "minilm")
RANDOM = bool(os.environ.get("BENCHMARK_RANDOM"))
OPTIONS = EmbeddingOptions(device="cpu", model=MODEL, no_cache=True)
MIN_RATE_ON_GPU = 10_000.0
NUM_QUERIES = 200
MAX_MS = 50.0
_PER_FILE = 50
_VOCABULARY = 3_500


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _write_files(folder / "docs", PASSAGES)
        rig = Rig(environment={**os.environ, "XDG_CACHE_HOME": place, "XDG_CONFIG_HOME": place})
        options, on_gpu = OPTIONS, hardware != "cpu"
        if on_gpu:
            tokenizer = find_tokenizer()
            save_model(folder / "minilm", build_bert(MINILM_SIZE), tokenizer)
            options = replace(OPTIONS, device="auto", model=str(folder / "minilm"))
        model = find_model(rig, options, {}, print)
        path = folder / "i.sqlite"
        done = _build_index(rig, options, model, path, folder / "docs")
        again = _rerun_index(rig, options, model, path, folder / "docs")
        rows = _index_rows(done, again, MIN_RATE_ON_GPU if on_gpu else None)
        if on_gpu:
            return rows
        # A query is embedded in this process, as a server and the command line do.
        with open_embedder(rig, options, model, print, num_characters=1000) as vectors:
            queries = _draw_queries(folder / "docs")
            rows += _query_rows(path, vectors, queries)
            rows += _live_rows(path, folder / "docs")
    return rows


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

    def __init__(self, model: EmbeddingModel) -> None:
        import numpy as np

        self.model, self._rng = model, np.random.default_rng(3)

    def embed(self, texts: Iterable[str], *, use: str = "passage") -> Iterator[Any]:
        import numpy as np

        shape = len(list(texts)), self.model.dimension
        drawn = self._rng.standard_normal(shape, dtype="float32")
        yield drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    def matrix(self, texts: Iterable[str], *, use: str = "passage") -> Any:
        import numpy as np

        return np.concatenate(list(self.embed(texts)))


@contextmanager
def _vectors(rig: Rig, options: EmbeddingOptions, model: EmbeddingModel) -> Iterator[Vectors]:
    if RANDOM:
        yield _RandomVectors(model)
    else:
        with open_vectors(rig, options, model, print) as made:
            yield made


def _build_index(
    rig: Rig, options: EmbeddingOptions, model: EmbeddingModel, path: Path, folder: Path
) -> tuple[IndexChanges, float, float]:
    last_s = 0.0

    def report(now: IndexProgress) -> None:
        nonlocal last_s
        if time.monotonic() > last_s + 15:
            last_s = time.monotonic()
            print(f"{now.stage} {now.done:.1%}, {now.passages_per_s:.0f} passages/s,"
                  f" {now.left_s or 0:.0f} s left", flush=True)  # fmt: skip

    before, own = cpu_seconds(), time.process_time()
    with _vectors(rig, options, model) as vectors:
        done = update_index(
            path, resolve_folders([folder]), vectors, FolderReader(), on_progress=report
        )
    assert not done.failed, done.failed[:3]
    assert read_status(path).num_vectors == done.num_passages
    return done, cpu_seconds() - before, time.process_time() - own


def _rerun_index(
    rig: Rig, options: EmbeddingOptions, model: EmbeddingModel, path: Path, folder: Path
) -> float:
    """Seconds of a run that finds nothing new."""
    start = time.perf_counter()
    with _vectors(rig, options, model) as vectors:
        done = update_index(path, resolve_folders([folder]), vectors, FolderReader())
    assert not done.any
    return time.perf_counter() - start


def _index_rows(
    indexed: tuple[IndexChanges, float, float], again: float, min_rate: float | None
) -> list[Row]:
    done, cpu_s, own_s = indexed
    rate = done.num_passages / done.wall_s
    return [
        Row(f"passages indexed, {'random' if RANDOM else MODEL} vectors", done.num_passages, "",
            low=0.95 * PASSAGES),
        Row("passages indexed a second", rate, "/s", low=min_rate,
            spread=f"{done.wall_s:.0f} s, CPU {cpu_s:.0f} s"),
        Row("CPU of the parent, without a model's" if RANDOM else "CPU of the parent",
            1e6 * own_s / done.num_passages, "µs a passage"),
        Row("a run with nothing to do", again, "s"),
    ]  # fmt: skip


# -- queries -------------------------------------------------------------------------------------


def _query_rows(path: Path, vectors: Vectors, queries: Sequence[str]) -> list[Row]:
    rows = []
    with Searcher(path) as searcher:
        start = time.perf_counter()
        searcher.refresh()
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

    matrix = searcher.refresh().matrix
    assert matrix is not None
    connection = sqlite3.connect(path)

    def search(query: str) -> list[str]:
        (vector,) = vectors.matrix([query], use="query")
        best = (np.argsort(-(matrix @ vector))[:100] + 1).tolist()
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
            connection.execute("SELECT body FROM passages WHERE id = ?", (text,)).fetchone()[0]
            for text in top
        ]

    return search


def _live_rows(path: Path, folder: Path) -> list[Row]:
    """What a searcher that is open does after each file that is written."""
    times = []
    with Searcher(path) as searcher, IndexDatabase(path) as index:
        searcher.refresh()
        known = index.read(list_known)
        stamps = [known[one].stamp for one in sorted(known)[:50]]
        for stamp in stamps:
            index.write(lambda connection, stamp=stamp: put_link(  # type: ignore[misc]
                connection, stamp, time.time(), known[stamp.path].digest
            ))  # fmt: skip
            start = time.perf_counter()
            searcher.refresh()
            times.append(1e3 * (time.perf_counter() - start))
    return [Row("an open searcher notices a written file, median", percentile(times, 0.5), "ms")]
