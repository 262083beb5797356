"""A counter's fine points: what is taken when, and that several workers share what there is."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from anyrig.errors import OverloadedError
from anyrig.work.pack import Budget, Item
from anyrig.work.schedule import Lane, Plan
from tests.work.counting import counter


def test_the_very_next_item_can_still_be_cancelled() -> None:
    with counter("a", ahead=1) as live:
        busy = live.submit(0.3)
        while not live.running:
            time.sleep(0.01)
        following, last = live.submit(0.02), live.submit(0.03)
        time.sleep(0.05)
        assert following.cancel(), "it has not begun"
        assert last.result(timeout=30) == pytest.approx(0.06)
        assert busy.done()
        assert live.report.num_items == 2


def test_the_very_next_item_can_still_be_late_and_its_deadline_be_moved() -> None:
    now = [0.0]
    with counter("a", ahead=1, clock=lambda: now[0]) as live:
        live.submit(0.3)
        while not live.running:
            time.sleep(0.01)
        late, moved = live.submit(0.02, deadline=1.0), live.submit(0.03, deadline=1.0)
        time.sleep(0.05)
        moved.deadline = 9.0
        now[0] = 2.0
        with pytest.raises(OverloadedError):
            late.result(timeout=30)
        assert moved.result(timeout=30) == pytest.approx(0.06)


def lanes(plan: Plan[Any], *rates: float) -> list[Lane[Any]]:
    found = []
    for number, rate in enumerate(rates):
        lane = plan.lanes[number] = Lane(number, budget=Budget(1000.0, 64, pads=False))
        lane.learn(rate, 1.0)
        found.append(lane)
    return found


def test_one_idle_worker_leaves_the_others_their_share() -> None:
    plan: Plan[Any] = Plan()
    fast, slow = lanes(plan, 30.0, 10.0)
    for index in range(16):
        plan.add(Item(index, None, 1.0))
    assert len(plan.next_for(fast, 0.0)) == 12
    assert len(plan.next_for(slow, 0.0)) == 4


def test_one_worker_alone_takes_all_that_fits() -> None:
    plan: Plan[Any] = Plan()
    (lane,) = lanes(plan, 30.0)
    for index in range(16):
        plan.add(Item(index, None, 1.0))
    assert len(plan.next_for(lane, 0.0)) == 16


def test_one_that_has_its_share_takes_no_more_while_another_has_less() -> None:
    plan: Plan[Any] = Plan()
    one, other = lanes(plan, 10.0, 10.0)
    for index in range(4):
        plan.add(Item(index, None, 1.0))
        assert plan.next_for((one, other)[index % 2], 0.0)
    assert len(one.hand) == len(other.hand) == 2
    for index in range(4, 24):
        plan.add(Item(index, None, 1.0))
    for lane in (one, other, one, other):
        plan.next_for(lane, 0.15)
    assert abs(len(one.hand) - len(other.hand)) <= 2


@pytest.mark.slow
def test_two_workers_do_more_than_one() -> None:
    """Batches as on a GPU: before, one took what there was and the other did it again."""

    def rate(*names: str) -> float:
        with counter(*names, ahead=128, engine={"most_items": 64, "call_s": 0.05}) as live:
            for _ in range(8):
                for future in [live.submit(0.005) for _ in range(64)]:
                    future.result(timeout=60)
            left = iter(range(400))
            lock = threading.Lock()

            def client() -> None:
                while True:
                    with lock:
                        if next(left, None) is None:
                            return
                    live.submit(0.005).result(timeout=60)

            threads = [threading.Thread(target=client) for _ in range(96)]
            start = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return 400 / (time.monotonic() - start)

    assert rate("a", "b") > 1.25 * rate("a")
