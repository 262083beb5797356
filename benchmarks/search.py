"""Indexing and searching 100,000 passages on a CPU: rates, warm questions, the graph beside exact.

Files of made-up prose are written, indexed through the command line's own way (reading in processes
of their own, cutting, embedding, SQLite), and asked with questions drawn from them. The peer of a
question is what one would write by hand: the same model's vector, `matrix @ query` with a full sort
in numpy, FTS5's `ORDER BY rank`, and both fetched. `BENCHMARK_PASSAGES` and `BENCHMARK_MODEL` make
it smaller or quicker: 100000 and minilm when not given; `hashing` has no model to wait for. With
`BENCHMARK_RANDOM` the passages have random vectors of the model's size, and questions real ones: a
search takes as long, and 100,000 passages need not be embedded; the graph is then left out.
"""

from __future__ import annotations

import itertools
import os
import random
import resource
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
from benchmarks.harness import ROOT, Row

PASSAGES = int(os.environ.get("BENCHMARK_PASSAGES", "100000"))
MODEL = os.environ.get("BENCHMARK_MODEL", "minilm")
RANDOM = bool(os.environ.get("BENCHMARK_RANDOM"))
OPTIONS = EmbeddingOptions(device="cpu", model=MODEL, no_cache=True)
QUESTIONS = 200
MOST_MS = 50.0
LEAST_RECALL = 0.95
_PER_FILE = 50
_VOCABULARY = 3_500


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _write(folder / "docs", PASSAGES)
        rig = Rig(environment={**os.environ, "XDG_CACHE_HOME": place, "XDG_CONFIG_HOME": place})
        model = find_model(rig, OPTIONS, {}, print)
        path = folder / "i.sqlite"
        done = _indexed(rig, model, path, folder / "docs")
        again = _again(rig, model, path, folder / "docs")
        # A question is embedded in this process, as a server and the command line do.
        with open_embedder(rig, OPTIONS, model, print, num_characters=1000) as vectors:
            questions = _questions(folder / "docs")
            rows = _asked(path, vectors, questions)
            rows += [] if RANDOM else _graph(path, vectors, questions)
    return [*_rows(done, again), *rows]


# -- the folder ------------------------------------------------------------------------------------


def _words() -> list[str]:
    """Real words first, as they are the common ones, then made-up ones."""
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    real = list(dict.fromkeys(word for word in text.lower().split() if word.isalpha()))
    parts = "ba co di fe gu ha jo ki la me no pu ra si to vu wa ze tri sto bra".split()
    made = ("".join(some) for some in itertools.product(parts, repeat=4))
    return [*real, *itertools.islice(made, _VOCABULARY - len(real))]


def _write(folder: Path, count: int) -> None:
    """Files of prose, some 50 passages each: words drawn by Zipf's law."""
    folder.mkdir()
    dice, words = random.Random(5), _words()
    heavy = list(itertools.accumulate(1 / (place + 10) for place in range(len(words))))
    for number in range(-(-count // _PER_FILE)):
        size = min(_PER_FILE, count - number * _PER_FILE)
        drawn = iter(dice.choices(words, cum_weights=heavy, k=size * 150))
        paragraphs = [_paragraph(drawn, dice) for _ in range(size)]
        (folder / f"{number:05}.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")


def _paragraph(drawn: Iterator[str], dice: random.Random) -> str:
    """As long as a passage is: the next one begins a passage of its own."""
    sentences: list[str] = []
    while sum(map(len, sentences)) < 620:
        some = list(itertools.islice(drawn, dice.randint(8, 18)))
        sentences.append((" ".join(some) + ".").capitalize() if some else "Nothing is left.")
    return " ".join(sentences)


def _questions(folder: Path) -> list[str]:
    """Stretches of 3 to 8 words of the files, as people ask."""
    dice, files = random.Random(9), sorted(folder.iterdir())
    found = []
    for _ in range(QUESTIONS):
        words = dice.choice(files).read_text(encoding="utf-8").split()
        start = dice.randrange(len(words) - 10)
        found.append(" ".join(words[start : start + dice.randint(3, 8)]))
    return found


# -- indexing --------------------------------------------------------------------------------------


class _Random:
    """Random vectors of a model's size; fits `protocol.Vectors`."""

    def __init__(self, model: Model) -> None:
        import numpy as np

        self.model, self._dice = model, np.random.default_rng(3)

    def embed(self, texts: Iterable[str], *, use: str = "passage") -> Iterator[Any]:
        for _ in texts:
            drawn = self._dice.standard_normal(self.model.dimension, dtype="float32")
            yield drawn / (drawn @ drawn) ** 0.5

    def matrix(self, texts: Iterable[str], *, use: str = "passage") -> Any:
        import numpy as np

        return np.stack(list(self.embed(texts)))


@contextmanager
def _vectors(rig: Rig, model: Model) -> Iterator[Vectors]:
    if RANDOM:
        yield _Random(model)
    else:
        with open_vectors(rig, OPTIONS, model, print) as made:
            yield made


def _indexed(rig: Rig, model: Model, path: Path, folder: Path) -> tuple[Indexed, float]:
    told = 0.0

    def tell(now: Progress) -> None:
        nonlocal told
        if time.monotonic() > told + 15:
            told = time.monotonic()
            print(f"{now.stage} {now.done:.1%}, {now.passages_per_s:.0f} passages/s,"
                  f" {now.left_s or 0:.0f} s left", flush=True)  # fmt: skip

    before = _cpu()
    with _vectors(rig, model) as vectors:
        done = index_folders(path, resolve_folders([folder]), vectors, build_ways(), tell=tell)
    assert not done.failed, done.failed[:3]
    assert status(path).num_vectors == done.num_passages
    return done, _cpu() - before


def _again(rig: Rig, model: Model, path: Path, folder: Path) -> float:
    """Seconds of a run that finds nothing to do."""
    began = time.perf_counter()
    with _vectors(rig, model) as vectors:
        done = index_folders(path, resolve_folders([folder]), vectors, build_ways())
    assert not done.changed
    return time.perf_counter() - began


def _cpu() -> float:
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def _rows(indexed: tuple[Indexed, float], again: float) -> list[Row]:
    done, cpu_s = indexed
    rate = done.num_passages / done.wall_s
    return [
        Row(f"passages indexed, {'random' if RANDOM else MODEL} vectors", done.num_passages, "",
            low=0.95 * PASSAGES),
        Row("passages indexed a second", rate, "/s",
            spread=f"{done.wall_s:.0f} s, CPU {cpu_s:.0f} s"),
        Row("a run with nothing to do", again, "s"),
    ]  # fmt: skip


# -- questions -------------------------------------------------------------------------------------


def _asked(path: Path, vectors: Vectors, questions: Sequence[str]) -> list[Row]:
    rows = []
    with Searcher(path) as searcher:
        began = time.perf_counter()
        searcher.snapshot()
        load_s = time.perf_counter() - began
        searcher.search(questions[0], vectors)
        hybrid = _times(lambda one: searcher.search(one, vectors), questions)
        theirs = _times(_by_hand(path, searcher, vectors), questions[:50])
        rows.append(Row("first load of the vectors", load_s, "s", high=1.0))
        rows.append(Row("a warm question, median", _share(hybrid, 0.5), "ms",
                        _share(theirs, 0.5), "numpy and FTS5 by hand"))  # fmt: skip
        rows.append(Row("a warm question, p95, with its vector", _share(hybrid, 0.95), "ms",
                        _share(theirs, 0.95), "numpy and FTS5 by hand", high=MOST_MS))  # fmt: skip
        for mode in ("vectors", "keywords"):
            found = _times(
                lambda one, mode=mode: searcher.search(one, vectors, mode=mode), questions
            )
            rows.append(Row(f"by {mode} alone, p95", _share(found, 0.95), "ms"))
        only = _times(lambda one: list(vectors.embed([one], use="query")), questions)
        rows.append(Row("the question's vector alone, p95", _share(only, 0.95), "ms"))
    return rows


def _times(ask: Any, questions: Sequence[str]) -> list[float]:
    found = []
    for one in questions:
        began = time.perf_counter()
        ask(one)
        found.append(1e3 * (time.perf_counter() - began))
    return sorted(found)


def _share(times: Sequence[float], share: float) -> float:
    return times[min(len(times) - 1, int(share * len(times)))]


def _by_hand(path: Path, searcher: Searcher, vectors: Vectors) -> Any:
    import numpy as np

    snapshot = searcher.snapshot()
    matrix = snapshot.matrix
    assert matrix is not None
    connection = sqlite3.connect(path)

    def ask(question: str) -> list[str]:
        (query,) = vectors.embed([question], use="query")
        best = snapshot.ids[np.argsort(-(matrix @ query))[:100]].tolist()
        words = " OR ".join(f'"{word}"' for word in question.split())
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

    return ask


def _graph(path: Path, vectors: Vectors, questions: Sequence[str]) -> list[Row]:
    """The graph over the same vectors, made as beyond the threshold."""
    import numpy as np

    if not nearest.has_faiss():
        return []
    with Searcher(path) as searcher:
        snapshot = searcher.snapshot()
    matrix = snapshot.matrix
    assert matrix is not None
    place = {int(one): number for number, one in enumerate(snapshot.ids)}
    began = time.perf_counter()
    graph = nearest.built(
        snapshot.ids, lambda some: matrix[[place[int(one)] for one in some]],
        snapshot.fingerprint, snapshot.dimension,
    )  # fmt: skip
    build_s = time.perf_counter() - began
    assert graph is not None
    asked = nearest.Hnsw(
        graph, np.ones(len(graph.ids), bool), np.zeros((0, snapshot.dimension), np.float32)
    )
    exact = nearest.Exact(matrix)
    queries = vectors.matrix(questions, use="query")
    found = [set(asked.nearest(one, 10)[0].tolist()) & set(exact.nearest(one, 10)[0].tolist())
             for one in queries]  # fmt: skip
    recall = sum(map(len, found)) / (10 * len(queries))
    ours = _times(lambda one: asked.nearest(one, 100), list(queries))
    theirs = _times(lambda one: exact.nearest(one, 100), list(queries))
    return [
        Row("top ten of the graph that are the exact ones", recall, "", low=LEAST_RECALL),
        Row("the graph is made in", build_s, "s"),
        Row("nearest 100 by the graph, median", _share(ours, 0.5), "ms", _share(theirs, 0.5),
            "exact"),
    ]  # fmt: skip
