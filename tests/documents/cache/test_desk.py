"""One desk for many threads: made together and once, singles first, errors to their texts alone."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.documents.cache.desk import AHEAD, Desk
from anyrig.documents.cache.pace import Pace
from anyrig.documents.cache.shelf import Shelf
from anyrig.documents.embed import Embedder
from anyrig.documents.model import hashing
from anyrig.errors import DeviceLostError, OverloadedError, WorkError
from anyrig.storage.cache import ResultCache
from tests.documents.cache.counting import DIMENSION, MARKS, Counting, vector_of
from tests.documents.test_embed import on_cpu


class Gate:
    """Holds the model in its first batch until it is opened."""

    def __init__(self) -> None:
        self.reached, self._open = threading.Event(), threading.Event()

    def __call__(self, texts: list[str]) -> None:
        self.reached.set()
        assert self._open.wait(60)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with ResultCache(tmp_path / "results.sqlite") as store:
        yield Shelf(store, MARKS, DIMENSION)


def _is(future: Future[Any], text: str) -> bool:
    return np.array_equal(future.result(60), vector_of(text))


def _at_once(count: int, ask: Any) -> list[Any]:
    """What as many threads get that begin at the same moment."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> Any:
        barrier.wait(60)
        return ask(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(begin, range(count)))


def test_a_hundred_threads_with_one_text_cost_one_inference(gate: Gate) -> None:
    engine = Counting(before=gate)
    with Desk(engine) as desk:
        found = _at_once(100, lambda _: desk.submit(["the same"])[0])
        assert gate.reached.wait(60)
        gate.open()
        assert all(_is(future, "the same") for future in found)
    assert engine.seen == {"the same": 1}
    assert len({id(future.result()) for future in found}) == 100  # each has its own array


def test_many_threads_with_mixed_texts(shelf: Shelf) -> None:
    engine = Counting(batch=64)
    with Desk(engine, shelf) as desk:

        def ask(number: int) -> list[str]:
            chance = random.Random(number)
            for _ in range(20):
                texts = [f"{chance.randrange(300)}" for _ in range(chance.choice([1, 5, 30]))]
                for text, future in zip(texts, desk.submit(texts), strict=True):
                    assert _is(future, text)
            return []

        _at_once(16, ask)
    assert set(engine.seen.values()) == {1}
    assert engine.most_at_once == 1


def test_one_bad_text_of_thirty_two(gate: Gate) -> None:
    engine = Counting(batch=1000, before=gate)
    with Desk(engine) as desk:
        first = desk.submit(["first"])[0]
        assert gate.reached.wait(60)
        texts = [f"{number}" for number in range(31)]
        texts.insert(17, "bad")
        futures = _at_once(32, lambda number: desk.submit([texts[number]])[0])
        gate.open()
        wait([first, *futures], 30)
    assert [text for text, one in zip(texts, futures, strict=True) if one.exception()] == ["bad"]
    assert all(_is(one, text) for text, one in zip(texts, futures, strict=True) if text != "bad")
    assert len(engine.batches) <= 2 + 2 * 5


def test_an_error_is_shared_and_not_remembered(gate: Gate) -> None:
    broken = True

    def fail(texts: list[str]) -> None:
        gate(texts)
        if broken:
            raise RuntimeError("a loose cable")

    engine = Counting(before=fail)
    with Desk(engine) as desk:
        found = _at_once(20, lambda _: desk.submit(["text"])[0])
        gate.open()
        assert {str(future.exception(30)) for future in found} == {"a loose cable"}
        assert engine.seen == {"text": 1}
        broken = False
        assert _is(desk.submit(["text"])[0], "text")


def test_a_lost_device_is_not_halved_into() -> None:
    def fail(texts: list[str]) -> None:
        raise DeviceLostError("gone", hint="Start again.")

    engine = Counting(batch=1000, before=fail)
    with Desk(engine) as desk:
        futures = desk.submit([f"{number}" for number in range(100)])
        assert all(isinstance(future.exception(30), DeviceLostError) for future in futures)
    assert sum(engine.batches) == 100


def test_closing_answers_everybody(gate: Gate) -> None:
    engine = Counting(batch=4, before=gate)
    desk = Desk(engine)
    first = desk.submit(["first"])[0]
    assert gate.reached.wait(60)
    rest = desk.submit([f"{number}" for number in range(50)]) + desk.submit(["one"])
    closing = threading.Thread(target=desk.close)
    closing.start()
    while not desk._closed:
        pass
    gate.open()
    closing.join(30)
    assert _is(first, "first")  # it was under way
    for future in rest:
        with pytest.raises(WorkError, match="closing"):
            future.result(60)
    with pytest.raises(WorkError, match="closing"):
        desk.submit(["late"])
    desk.close()
    Desk(engine).close()  # never used
    assert engine.seen == {"first": 1}


def test_a_cancelled_text_costs_nothing(gate: Gate) -> None:
    engine = Counting(batch=4, before=gate)
    with Desk(engine) as desk:
        first = desk.submit(["first"])[0]
        assert gate.reached.wait(60)
        alone, mine, other = (desk.submit([text])[0] for text in ("alone", "both", "both"))
        assert alone.cancel()
        assert mine.cancel()
        assert not first.cancel()
        late = desk.submit(["first"])[0]  # joins what is under way
        gate.open()
        assert _is(other, "both")
        assert _is(late, "first")
        with pytest.raises(CancelledError):
            alone.result(60)
    assert engine.seen == {"first": 1, "both": 1}


def test_a_single_text_overtakes_and_takes_its_like_along(gate: Gate) -> None:
    order: list[str] = []

    def note(texts: list[str]) -> None:
        order.extend(texts)
        gate(texts)

    engine = Counting(before=note)
    with Desk(engine) as desk:
        desk.submit(["first"])
        assert gate.reached.wait(60)
        bulk = [f"{number}" for number in range(2000)]
        futures = desk.submit(bulk)
        singles = desk.submit(["1999"]) + desk.submit(["single"])
        gate.open()
        wait(futures + singles, 30)
    assert order[:3] == ["first", "1999", "single"]
    assert order[3:] == bulk[:-1]


def test_singles_do_not_starve_the_rest() -> None:
    """From every batch a new single comes: they alone would never end."""
    numbers = itertools.count()
    bulk: list[Future[Any]] = []

    def more(texts: list[str]) -> None:
        if not all(future.done() for future in bulk):
            desk.submit([f"single {next(numbers)}"])

    engine = Counting(before=more)
    desk = Desk(engine)
    with desk:
        bulk += desk.submit([f"{number}" for number in range(100)])
        assert not wait(bulk, 30).not_done


class Simulated:
    """A device on a clock of its own: three milliseconds a batch and one a text, or more."""

    def __init__(self, batch_s: float = 0.003, text_s: float = 0.001) -> None:
        self.now, self._batch_s, self._text_s = 0.0, batch_s, text_s
        self.chance = random.Random(1)
        self.singles: list[float] = []
        self.next_single = float("inf")
        self.engine = Counting(batch=100_000, before=self.run)
        self.desk = Desk(self.engine, pace=Pace(), clock=lambda: self.now)

    def run(self, texts: list[str]) -> None:
        end = self.now + self._batch_s + self._text_s * len(texts)
        while self.next_single < end:
            self.now = self.next_single
            self.ask()
            self.next_single = self.now + self.chance.uniform(0.02, 0.2)
        self.now = end

    def ask(self) -> None:
        start = self.now
        future = self.desk.submit([f"single {start}"])[0]
        future.add_done_callback(lambda _: self.singles.append(self.now - start))


def test_singles_stay_within_three_times_of_idle_beside_bulk_work() -> None:
    device = Simulated()
    texts = [f"bulk {number}" for number in range(20_000)]
    with device.desk as desk:
        desk.submit(["idle"], lane="single")[0].result(60)
        idle = device.now
        device.next_single = device.now + 0.1
        desk.matrix(texts)
        device.next_single = float("inf")
    assert idle == pytest.approx(0.004)
    assert len(device.singles) > 200
    assert np.quantile(device.singles, 0.95) <= 3 * idle


def test_a_slow_device_still_gets_several_at_once() -> None:
    device = Simulated(batch_s=2.0, text_s=0.2)
    with device.desk as desk:
        desk.matrix(["a text of some length " * 10 + f"{number}" for number in range(200)])
    assert min(device.engine.batches[:-1]) >= 12


def test_uses_are_not_mixed_up(gate: Gate) -> None:
    engine = Counting(before=gate)
    with Desk(engine) as desk:
        passage, query = desk.submit(["a"])[0], desk.submit(["a"], use="query")[0]
        gate.open()
        assert np.array_equal(passage.result(60), vector_of("a"))
        assert np.array_equal(query.result(60), vector_of("a", "query"))


def test_a_stream_keeps_its_order_and_takes_few_ahead(shelf: Shelf) -> None:
    taken = 0

    def texts() -> Iterator[str]:
        nonlocal taken
        for number in range(3 * AHEAD):
            taken += 1
            yield f"{number % 5000}"

    engine = Counting(batch=256)
    with Desk(engine, shelf) as desk:
        stream = desk.embed(texts())
        for number in range(7000):
            assert np.array_equal(next(stream), vector_of(f"{number % 5000}"))
        assert taken <= 7000 + 2 * AHEAD
        stream.close()  # type: ignore[attr-defined]
    assert set(engine.seen.values()) == {1}


def test_a_stream_ends_with_its_error() -> None:
    with Desk(Counting()) as desk:
        stream = desk.embed(["a", "b", "bad", "c"])
        assert np.array_equal(next(stream), vector_of("a"))
        assert np.array_equal(next(stream), vector_of("b"))
        with pytest.raises(WorkError):
            next(stream)
        assert desk.matrix([]).shape == (0, DIMENSION)


def test_too_much_is_refused(gate: Gate) -> None:
    with Desk(Counting(before=gate), most_waiting=20) as desk:
        desk.submit(["first"])
        assert gate.reached.wait(60)
        texts = [f"{number}" for number in range(20)]
        futures = desk.submit(texts)
        with pytest.raises(OverloadedError):
            desk.submit(["one more"], lane="bulk")
        futures += desk.submit(texts)  # known ones cost nothing
        futures += desk.submit(["single"])
        gate.open()
        assert not wait(futures, 30).not_done


def test_threads_share_an_embedder() -> None:
    model = hashing()
    texts = [[f"thread {n} says {m} things" for m in range(1 + 7 * n)] for n in range(12)]
    with Embedder(model, placed=on_cpu(model), environment=os.environ, here=True) as alone:
        wanted = [alone.matrix(some) for some in texts]
    with Embedder(model, placed=on_cpu(model), environment=os.environ, shared=True) as made:
        with ThreadPoolExecutor(12) as threads:
            found = list(threads.map(made.matrix, texts))
        assert made.report.num_items >= 12
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    with Desk(made) as desk:
        assert desk.submit(["too late"])[0].exception(30) is not None
