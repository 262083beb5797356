"""Items that join others which are being computed, for an engine that can do that."""

from __future__ import annotations

import os

from anyrig.errors import PoisonItemError, WorkError
from anyrig.work.batching import WorkItem
from anyrig.work.engine import EngineFactory
from anyrig.work.live import LiveQueue
from anyrig.work.pool import WorkerPool
from anyrig.work.scheduler import Scheduler, WorkerLoad
from anyrig.work.worker import LocalWorkers
from tests.waiting import wait_until
from tests.work.helpers import placement


def open_queue() -> LiveQueue[int, int]:
    factory = EngineFactory("tests.work.engines:Meets")
    pool = WorkerPool(LocalWorkers([placement("a")], factory, environment=os.environ))
    pool.wait_ready()
    return LiveQueue(pool, cost=lambda _: 1.0, max_in_flight=8)


def test_items_join_those_that_are_being_computed() -> None:
    """The first two would wait for ever if the third came only after them."""
    with open_queue() as live:
        first, second = live.submit(3), live.submit(3)
        wait_until(lambda: first.began is not None and second.began is not None)
        third = live.submit(3)
        assert [future.result(timeout=60) for future in (first, second, third)] == [3, 3, 3]
        assert live.submit(1).result(timeout=60) == 1


def test_an_item_that_fails_leaves_the_others_alone() -> None:
    with open_queue() as live:
        waiting, bad = live.submit(2), live.submit(0)
        error = bad.exception(timeout=60)
        assert isinstance(error, WorkError)
        assert "nobody to meet" in error.message
        assert not waiting.done()
        assert live.submit(2).result(timeout=60) == 2
        assert waiting.result(timeout=60) == 2


def test_an_item_that_ends_the_process_is_found_out() -> None:
    """What was computed beside it is computed again."""
    with open_queue() as live:
        bad = live.submit(-1)
        others = [live.submit(1) for _ in range(4)]
        assert isinstance(bad.exception(timeout=120), PoisonItemError)
        assert [other.result(timeout=60) for other in others] == [1] * 4


def test_a_worker_is_given_what_it_has_room_for() -> None:
    workers = {n: WorkerLoad[int](n, concurrent_items=3) for n in (0, 1)}
    scheduler = Scheduler(workers)
    for index in range(8):
        scheduler.add(WorkItem(index, index, 1.0))
    assert [one.index for one in scheduler.next_items(workers[0], 0.0)] == [0, 1, 2]
    assert [one.index for one in scheduler.next_items(workers[1], 0.0)] == [3, 4, 5]
    assert scheduler.next_items(workers[0], 0.0) == []
    scheduler.record_results(workers[0], [1], 1.0)
    assert [one.index for one in scheduler.next_items(workers[0], 1.0)] == [6]
