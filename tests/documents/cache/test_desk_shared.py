"""A desk of several threads, slices that are filled up, and an embedder that threads share."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from anyrig.documents.cache.desk import Desk
from anyrig.documents.cache.pace import Pace, cost
from anyrig.documents.embed import Embedder
from anyrig.documents.model import hashing
from tests.documents.cache.counting import Counting, vector_of
from tests.documents.test_embed import on_cpu


def test_as_many_slices_are_made_at_once_as_there_are_threads() -> None:
    together = threading.Barrier(3)

    def before(texts: list[str]) -> None:
        together.wait(30)

    engine = Counting(before=before)
    with Desk(engine, threads=3, pace=Pace(full=64.0)) as desk:
        futures = desk.submit(["x" * 9000, "y" * 9000, "z" * 9000], lane="bulk")
        assert not wait(futures, 30).not_done
    assert engine.most_at_once == 3
    assert all(one.exception() is None for one in futures)


def test_closing_ends_all_threads_and_answers_what_waits() -> None:
    gate, reached = threading.Event(), threading.Semaphore(0)

    def held(texts: list[str]) -> None:
        reached.release()
        gate.wait(30)

    desk = Desk(Counting(before=held), threads=2)
    futures = desk.submit([f"{n} " * 3000 for n in range(8)], lane="bulk")
    for _ in range(2):
        assert reached.acquire(timeout=30)
    closing = threading.Thread(target=desk.close)
    closing.start()
    gate.set()
    closing.join(30)
    assert not closing.is_alive()
    assert not wait(futures, 30).not_done
    assert {one.exception() is None for one in futures} == {True, False}


def test_a_slice_of_singles_is_filled_with_what_waits_in_bulk() -> None:
    gate, reached = threading.Event(), threading.Event()
    slices: list[list[str]] = []

    def before(texts: list[str]) -> None:
        slices.append(texts)
        reached.set()
        gate.wait(30)

    with Desk(Counting(batch=1000, before=before), pace=Pace(full=1000.0)) as desk:
        first = desk.submit(["first"])
        assert reached.wait(30)
        bulk = desk.submit([f"bulk {n:04}" for n in range(60)], lane="bulk")
        single = desk.submit(["single"])
        gate.set()
        assert not wait([*first, *bulk, *single], 30).not_done
        for n, future in enumerate(bulk):
            np.testing.assert_array_equal(future.result(), vector_of(f"bulk {n:04}"))
    second = slices[1]
    assert second[0] == "single"
    assert second[1:4] == ["bulk 0000", "bulk 0001", "bulk 0002"]
    assert 900 < sum(map(cost, second)) <= 1000


def test_slices_of_bulk_are_never_smaller_than_full() -> None:
    pace = Pace(full=5000.0)
    pace.came(0.0)
    for _ in range(50):  # each took far longer than a single text does
        pace.took("single", 40, 0.001, 0.0)
        pace.took("bulk", 5000, 1.0, 0.0)
    assert pace.budget("bulk", 0.0) == 5000


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
