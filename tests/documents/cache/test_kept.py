"""Vectors that are kept: made once, in order, in little memory, whatever becomes of the store."""

from __future__ import annotations

import itertools
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

from anyrig.documents.cache import kept as module
from anyrig.documents.cache.kept import KEEP_EVERY, Kept
from anyrig.documents.cache.shelf import KIND, Marks, Shelf
from anyrig.errors import StorageError, WorkError
from anyrig.storage.cache import CacheEntry, ResultCache
from tests.conftest import ROOT
from tests.documents.cache.counting import DIMENSION, MARKS, Counting, Threaded, vector_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "results.sqlite") as store:
        yield store


def _kept(store: Any, engine: Counting | None = None, marks: Marks = MARKS) -> Kept:
    return Kept(engine or Counting(), Shelf(store, marks, DIMENSION))


def _same(found: Iterable[Any], texts: Iterable[str], use: str = "passage") -> None:
    pairs = list(zip(found, texts, strict=True))
    assert all(np.array_equal(vector, vector_of(text, use)) for vector, text in pairs)


@pytest.mark.parametrize("engine", [Counting(batch=1), Threaded(batch=32, ahead=40)])
def test_each_text_is_made_once_and_in_order(store: ResultCache, engine: Counting) -> None:
    texts = [f"text {number * 7919 % 1500}" for number in range(4000)]
    texts += ["", "\ud83d", "é", "e\u0301"]
    kept = _kept(store, engine)
    _same(kept.embed(texts), texts)
    assert set(engine.seen.values()) == {1}
    assert len(engine.seen) == 1504
    assert (kept.num_made, kept.num_found) == (1504, 4004 - 1504)
    again = Counting()
    _same(_kept(store, again).embed(texts), texts)
    assert not again.calls
    assert store.stats().num_results == 1504


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 100)
    monkeypatch.setattr(module, "HELD", 800)


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
    list(_kept(store).embed(texts[1:]))
    taken, engine = Taken(texts), Counting()
    stream = _kept(store, engine).embed(taken)
    _same([next(stream)], ["0"])
    assert taken.count <= 1000
    _same(stream, texts[1:])
    assert engine.seen == {"0": 1}


@pytest.mark.usefixtures("small")
def test_a_long_stream_takes_little_memory(store: ResultCache) -> None:
    """Every other one is kept, so that both ways are gone; four times as many take no more."""

    def peak(count: int) -> int:
        texts = [f"{count}.{number}" for number in range(count)]
        list(_kept(store).embed(texts[::2]))
        engine = Counting(batch=64)
        tracemalloc.start()
        for _ in _kept(store, engine).embed(texts):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most - sys.getsizeof(engine.seen)  # the test's own count of every text

    peak(500)
    assert peak(8000) < 1.3 * peak(2000)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": "w"}, {"tokenizer": "t"}, {"precision": "half"}, {"longest": 256},
        {"overlap": 32}, {"windows": "cut"}, {"pooling": "cls"}, {"normalise": False},
        {"deterministic": True}, {"prompts": {"passage": "passage: "}}, {"version": "2"},
    ],
)  # fmt: skip
def test_whatever_shapes_a_vector_is_in_its_key(store: ResultCache, change: dict[str, Any]) -> None:
    list(_kept(store).embed(["a"]))
    engine = Counting()
    list(_kept(store, engine, replace(MARKS, **change)).embed(["a"]))
    assert engine.seen == {"a": 1}


def test_nobody_shares_an_array(store: ResultCache) -> None:
    for _ in range(2):
        found = list(_kept(store).embed(["a", "b", "a", "a"]))
        for vector in found:
            assert vector.flags.writeable
            vector += 1
        assert np.allclose(found[3], vector_of("a") + 1)
    _same(_kept(store).embed(["a"]), ["a"])


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 68, np.full(16, np.nan, "<f4").tobytes()],
    ids=["empty", "long", "not-finite"],
)
def test_a_wrong_row_is_made_again(
    store: ResultCache, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = Shelf(store, MARKS, DIMENSION)
    store.put(shelf.key("a"), data, kind=KIND)
    store.put(shelf.key("b"), vector_of("b").tobytes(), kind="speech")
    engine = Counting()
    with caplog.at_level(logging.WARNING):
        _same(Kept(engine, shelf).embed("abc"), "abc")
    assert engine.seen == {"a": 1, "b": 1, "c": 1}
    assert caplog.text.count("made again") == 2
    found = shelf.find([shelf.key("a"), shelf.key("b")])
    _same([found[shelf.key(text)] for text in "ab"], "ab")


def test_a_failing_text_loses_nothing_made_before(store: ResultCache) -> None:
    texts = [f"{number}" for number in range(100)] + ["bad"]
    with pytest.raises(WorkError):
        list(_kept(store, Counting(batch=1)).embed(texts))
    engine = Counting()
    _same(_kept(store, engine).embed(texts[:-1]), texts[:-1])
    assert not engine.seen


def test_a_reader_who_leaves_loses_nothing(store: ResultCache) -> None:
    engine = Counting(batch=4)
    stream = _kept(store, engine).embed(f"{number}" for number in range(100))
    for _ in range(10):
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
        shelf = Shelf(store, MARKS, DIMENSION, clock=lambda: now)
        list(Kept(Counting(), shelf).embed(texts[:10]))
        store.broken, store.num_asked = True, 0
        _same(Kept(Counting(), shelf).embed(texts), texts)
        assert caplog.text.count("without the store") == 1
        assert store.num_asked == 1
        store.broken, now = False, 31.0
        engine = Counting()
        _same(Kept(engine, shelf).embed(texts), texts)
        assert engine.seen.total() == 2990


def test_a_vector_can_be_forgotten_for_good(store: ResultCache) -> None:
    kept = _kept(store, marks=replace(MARKS, prompts={"query": "q: "}))
    list(kept.embed("abc"))
    list(kept.embed("a", use="query"))
    assert kept.shelf.forget(["a", "z"]) == 2
    assert store.stats().num_results == 2


def test_a_model_that_answers_too_little_is_found_out(store: ResultCache) -> None:
    class Short(Counting):
        def embed(self, texts: Iterable[str], **words: Any) -> Iterator[Any]:
            return itertools.islice(super().embed(texts, **words), 3)

    with pytest.raises(WorkError, match="no vector"):
        list(_kept(store, Short(batch=4)).embed("abcd"))


def test_a_kill_loses_little_and_nothing_wrong(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    command = [sys.executable, "-m", "tests.documents.cache.killed", str(path)]
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
        found = Kept(engine, Shelf(store, MARKS, DIMENSION)).embed(texts)
        assert all(np.array_equal(v, vector_of(t)) for v, t in zip(found, texts, strict=True))
        assert engine.seen.total() <= KEEP_EVERY
        assert store.verify().num_bad == 0
