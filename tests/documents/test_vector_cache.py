"""Vectors that are kept: made once, in order, in little memory, whatever becomes of the store."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.documents import vector_cache as module
from anyrig.documents.model import EmbeddingModel
from anyrig.documents.ordered import iter_rows
from anyrig.documents.vector_cache import BLOCK, KIND, CachedEmbedder, VectorCache
from anyrig.errors import StorageError, WorkError
from anyrig.storage.cache import CacheEntry, ResultCache
from tests.conftest import ROOT
from tests.documents.counting import MODEL, Counting, Threaded, vector_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "results.sqlite") as store:
        yield store


def _open(
    store: Any, engine: Counting | None = None, model: EmbeddingModel = MODEL, **settings: Any
) -> CachedEmbedder:
    return CachedEmbedder(engine or Counting(), VectorCache(store, model, **settings))


def _same(found: Iterable[Any], texts: Iterable[str], use: str = "passage") -> None:
    pairs = list(zip(iter_rows(found), texts, strict=True))
    assert all(np.array_equal(vector, vector_of(text, use)) for vector, text in pairs)


@pytest.mark.parametrize("engine", [Counting(batch=1), Threaded(batch=32, ahead=40)])
def test_each_text_is_made_once_and_in_order(store: ResultCache, engine: Counting) -> None:
    texts = [f"text {number * 7919 % 1500}" for number in range(4000)]
    texts += ["", "\ud83d", "é", "e\u0301"]
    kept = _open(store, engine)
    _same(kept.embed(texts), texts)
    assert len(engine.seen) == 1504
    if not isinstance(engine, Threaded):  # that may read a text again before it is made
        assert set(engine.seen.values()) == {1}
        assert (kept.num_made, kept.num_found) == (1504, 4004 - 1504)
    again = Counting()
    _same(_open(store, again).embed(texts), texts)
    assert not again.seen
    assert store.stats().num_results == 1504


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 100)
    monkeypatch.setattr(module, "_MAX_BLOCKS", 8)


class Taken:
    def __init__(self, texts: Iterable[str]) -> None:
        self.count, self._texts = 0, texts

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            self.count += 1
            yield text


@pytest.mark.usefixtures("small")
def test_a_gap_before_many_found_ones_holds_few(store: ResultCache) -> None:
    texts = [f"{number}" for number in range(4000)]
    list(_open(store).embed(texts[1:]))
    taken, engine = Taken(texts), Counting()
    stream = _open(store, engine).embed(taken)
    _same([next(stream)], texts[:100])
    assert taken.count <= 1000
    _same(stream, texts[100:])
    assert engine.seen == {"0": 1}


@pytest.mark.usefixtures("small")
def test_a_long_stream_takes_little_memory(store: ResultCache) -> None:
    """Every other one is kept, so that both ways are gone; four times as many take no more."""

    def peak(count: int) -> int:
        texts = [f"{count}.{number}" for number in range(count)]
        list(_open(store).embed(texts[::2]))
        engine = Counting(batch=64)
        tracemalloc.start()
        for _ in _open(store, engine).embed(texts):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most - sys.getsizeof(engine.seen)  # the test's own count of every text

    peak(500)
    assert peak(8000) < 1.3 * peak(2000)


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "w"}, {"longest": 256}, {"overlap": 32}, {"pooling": "cls"},
        {"normalise": False}, {"prompts": {"passage": "passage: "}},
    ],
)  # fmt: skip
def test_whatever_of_a_model_shapes_a_vector_is_in_its_key(
    store: ResultCache, change: dict[str, Any]
) -> None:
    list(_open(store).embed(["a"]))
    engine = Counting()
    list(_open(store, engine, replace(MODEL, **change)).embed(["a"]))
    assert engine.seen == {"a": 1}


@pytest.mark.parametrize(
    "settings", [{"precision": "half"}, {"long": "cut"}, {"deterministic": True}]
)
def test_how_a_vector_is_made_is_in_its_key(store: ResultCache, settings: dict[str, Any]) -> None:
    list(_open(store).embed(["a"]))
    engine = Counting()
    list(_open(store, engine, **settings).embed(["a"]))
    assert engine.seen == {"a": 1}


def test_nobody_shares_an_array(store: ResultCache) -> None:
    for _ in range(2):
        (found,) = _open(store).embed(["a", "b", "a", "a"])
        assert found.flags.writeable
        found += 1
        assert np.allclose(found[3], vector_of("a") + 1)
    _same(_open(store).embed(["a"]), ["a"])


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 68, np.full(16, np.nan, "<f4").tobytes()],
    ids=["empty", "long", "not-finite"],
)
def test_a_wrong_row_is_made_again(
    store: ResultCache, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    cache = VectorCache(store, MODEL)
    store.put(cache.make_key("a"), data, kind=KIND)
    store.put(cache.make_key("b"), vector_of("b").tobytes(), kind="speech")
    engine = Counting()
    with caplog.at_level(logging.WARNING):
        _same(CachedEmbedder(engine, cache).embed("abc"), "abc")
    assert engine.seen == {"a": 1, "b": 1, "c": 1}
    assert caplog.text.count("made again") == 2
    found = cache.get_many([cache.make_key("a"), cache.make_key("b")])
    _same([[found[cache.make_key(text)] for text in "ab"]], "ab")


def test_a_failing_text_loses_nothing_made_before(store: ResultCache) -> None:
    texts = [f"{number}" for number in range(100)] + ["bad"]
    with pytest.raises(WorkError):
        list(_open(store, Counting(batch=1)).embed(texts))
    engine = Counting()
    _same(_open(store, engine).embed(texts[:-1]), texts[:-1])
    assert not engine.seen


def test_a_reader_who_leaves_loses_nothing(store: ResultCache) -> None:
    engine = Counting(batch=4)
    stream = _open(store, engine).embed(f"{number}" for number in range(2000))
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert engine.most_at_once == 1
    assert engine._at_once == 0  # the model's stream was closed as well
    assert store.stats().num_results >= 10


class Failing(ResultCache):
    """A store whose disk goes away and comes back."""

    broken = False
    num_asked = 0

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        self.num_asked += 1
        if self.broken:
            raise StorageError("the disk is gone", hint="Find it.")
        return super().get_many(keys)

    def put_many(self, entries: Iterable[CacheEntry]) -> int:
        self.num_asked += 1
        if self.broken:
            raise StorageError("the disk is gone", hint="Find it.")
        return super().put_many(entries)


def test_a_store_that_fails_costs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    texts = [f"{number}" for number in range(3000)]
    store = Failing(tmp_path / "results.sqlite")
    with store:
        cache = VectorCache(store, MODEL, clock=lambda: now)
        list(CachedEmbedder(Counting(), cache).embed(texts[:10]))
        store.broken, store.num_asked = True, 0
        _same(CachedEmbedder(Counting(), cache).embed(texts), texts)
        assert caplog.text.count("without the cache") == 1
        assert store.num_asked == 1
        store.broken, now = False, 31.0
        engine = Counting()
        _same(CachedEmbedder(engine, cache).embed(texts), texts)
        assert engine.seen.total() == 2990


def test_a_vector_can_be_forgotten_for_good(store: ResultCache) -> None:
    cache = VectorCache(store, replace(MODEL, prompts={"query": "q: "}))
    kept = CachedEmbedder(Counting(), cache)
    list(kept.embed("abc"))
    list(kept.embed("a", use="query"))
    assert cache.forget(["a", "z"]) == 2
    assert store.stats().num_results == 2


def test_a_model_that_answers_too_little_is_found_out(store: ResultCache) -> None:
    class Short(Counting):
        def embed(self, texts: Iterable[str], **words: Any) -> Iterator[Any]:
            for block in super().embed(texts, **words):
                yield block[:3]

    with pytest.raises(WorkError, match="got no result"):
        list(_open(store, Short(batch=4)).embed("abcd"))


def test_a_kill_loses_little_and_nothing_wrong(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    command = [sys.executable, "-m", "tests.documents.killed", str(path)]
    reached = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        for line in child.stdout:
            reached = int(line)
            if reached >= 1500:
                os.kill(child.pid, signal.SIGKILL)
                break
    assert reached >= 1500
    with ResultCache(path) as store:
        engine = Counting()
        texts = [f"{number}" for number in range(reached + 1)]
        _same(CachedEmbedder(engine, VectorCache(store, MODEL)).embed(texts), texts)
        assert engine.seen.total() <= BLOCK
        assert store.verify().num_bad == 0
