"""Requests of many threads: lanes, turns, cancellation, deadlines, failures, closing."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from pathlib import Path

import pytest

from anyrig.errors import OverloadedError, WorkError
from anyrig.work.live import LANES, LiveQueue
from tests.waiting import wait_until
from tests.work.engines import HELD_S
from tests.work.helpers import live_queue


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """An item of `HELD_S`, which others wait behind, takes until this file is there."""
    return tmp_path / "gate"


def test_every_thread_gets_its_own_result() -> None:
    found: dict[int, float] = {}
    with live_queue("a", "b") as live:

        def ask(number: int) -> None:
            found[number] = live.submit(0.001 + number / 1e6).result(timeout=60)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert live.running == 0
    assert found == {number: pytest.approx(0.002 + number / 5e5) for number in range(50)}


def test_a_live_item_overtakes_bulk_work_and_turns_come_in_order(gate: Path) -> None:
    done: list[str] = []
    with live_queue("a", gate=gate, max_in_flight=1) as live:
        first = live.submit(HELD_S, lane="bulk")
        wait_until(lambda: live.running)
        futures = []
        for name, lane, priority in (
            ("bulk", "bulk", 0),
            ("second", "live", 1),
            ("first", "live", 0),
        ):
            future = live.submit(0.02, lane=lane, priority=priority)  # type: ignore[arg-type]
            future.add_done_callback(lambda _, name=name: done.append(name))  # type: ignore[misc]
            futures.append(future)
        assert live.waiting("live") + live.waiting("bulk") >= 2
        gate.touch()
        for future in (first, *futures):
            future.result(timeout=60)
    assert done.index("first") < done.index("second")
    assert done.index("bulk") != 1  # taken before they came, or passed by both


def test_an_item_that_is_cancelled_or_late_is_not_computed(gate: Path) -> None:
    now = [0.0]
    with live_queue("a", gate=gate, max_in_flight=1, clock=lambda: now[0]) as live:
        busy = live.submit(HELD_S)
        wait_until(lambda: live.running)
        taken = live.submit(0.01)  # may be taken already, to be the next
        gone, late = live.submit(0.02), live.submit(0.03, deadline=1.0)
        assert gone.cancel()
        now[0] = 2.0
        gate.touch()
        with pytest.raises(OverloadedError):
            late.result(timeout=60)
        assert busy.result(timeout=60) == pytest.approx(2 * HELD_S)
        assert taken.result(timeout=60) == pytest.approx(0.02)
        assert live.report.num_items == 2


def test_cancelled_items_are_not_counted_and_are_removed(gate: Path) -> None:
    with live_queue("a", gate=gate, max_in_flight=1) as live:
        live.submit(HELD_S)
        futures = [live.submit(0.01) for _ in range(1000)]
        kept = live.submit(0.02)
        gone = sum(future.cancel() for future in futures)
        assert gone >= 998
        assert live.waiting("live") <= 3
        assert sum(map(len, live._queues.values())) < 600, "most of them are gone for good"
        gate.touch()
        assert kept.result(timeout=60) == pytest.approx(0.04)


def test_too_many_items_are_refused_unless_they_were_admitted_before(gate: Path) -> None:
    with live_queue("a", gate=gate, max_waiting=2, max_in_flight=1) as live:
        first = live.submit(HELD_S)
        with pytest.raises(OverloadedError):
            fill(live)
        last = live.submit(0.01, admitted=True)
        gate.touch()
        first.result(timeout=60)
        assert last.result(timeout=60) == pytest.approx(0.02)


def test_clients_take_turns_and_each_has_a_share(gate: Path) -> None:
    done: list[str] = []
    with live_queue("a", gate=gate, max_waiting=8, client_share=0.5, max_in_flight=1) as live:
        busy = live.submit(HELD_S, client="busy")
        wait_until(lambda: live.running)
        futures = [busy]
        for client in ("ann", "ann", "ann", "ann", "bob", "bob", ""):
            future = live.submit(0.01, client=client)
            future.add_done_callback(lambda _, client=client: done.append(client))  # type: ignore[misc]
            futures.append(future)
        with pytest.raises(OverloadedError, match="4 items of this client"):
            live.submit(0.01, client="ann")
        assert futures[1].cancel()
        futures[1] = live.submit(0.01, client="ann")
        gate.touch()
        for future in futures:
            future.result(timeout=60)
        assert live.submit(0.01, client="ann").result(timeout=60) == pytest.approx(0.02)
    assert done[1:] == ["ann", "bob", "", "ann", "bob", "ann"]


def fill(live: LiveQueue[float, float]) -> None:
    for _ in range(8):
        live.submit(0.001)


def test_an_item_that_raises_or_crashes_its_worker_fails_alone() -> None:
    with live_queue("a", engine={"error_on": [0.05], "crash_on": [0.06]}) as live:
        good = [live.submit(0.001) for _ in range(4)]
        bad, deadly = live.submit(0.05), live.submit(0.06)
        good += [live.submit(0.001) for _ in range(4)]
        with pytest.raises(WorkError, match="invalid item"):
            bad.result(timeout=60)
        with pytest.raises(WorkError):
            deadly.result(timeout=60)
        assert [one.result(timeout=60) for one in good] == [0.002] * 8
        assert live.is_open


def test_closing_fails_whatever_waits(gate: Path) -> None:
    with live_queue("a", gate=gate, max_in_flight=1) as live:
        futures = [live.submit(HELD_S) for _ in range(5)]
        wait_until(lambda: live.running)
        live.close()
        assert not live.is_open
        with pytest.raises(WorkError):
            futures[-1].result(timeout=60)
        with pytest.raises(WorkError):
            live.submit(0.1)


def test_the_next_item_goes_to_an_idle_worker() -> None:
    with live_queue("a", "b") as live:
        for _ in range(12):  # by now both are known to be as fast
            live.submit(0.01).result(timeout=60)
            live.submit(0.01)
        first = live.submit(20.0)
        wait_until(lambda: sum(one.busy_since is not None for one in live.workers()) == 1)
        second = live.submit(20.0)
        wait_until(lambda: all(one.busy_since is not None for one in live.workers()))
        assert not first.done()
        assert not second.done()


def test_a_cancelled_item_uses_up_no_turn_of_bulk_work(gate: Path) -> None:
    done: list[str] = []
    with live_queue("a", gate=gate, max_in_flight=1) as live:
        first = live.submit(HELD_S)
        wait_until(lambda: live.running)
        bulk = [live.submit(0.001, lane="bulk") for _ in range(20)]
        asked = [live.submit(0.001) for _ in range(60)]
        for number, future in enumerate((*asked, bulk[-1])):
            name = "bulk" if number == len(asked) else "live"
            future.add_done_callback(lambda _, name=name: done.append(name))  # type: ignore[misc]
        assert sum(future.cancel() for future in bulk[:-1]) >= 18
        gate.touch()
        for future in (first, *asked, bulk[-1]):
            future.result(timeout=60)
    assert done.index("bulk") <= 20, "it has the turn that the cancelled ones could not take"


def test_the_very_next_item_can_still_be_cancelled(gate: Path) -> None:
    with live_queue("a", gate=gate, max_in_flight=1) as live:
        busy = live.submit(HELD_S)
        wait_until(lambda: live.running)
        following, last = live.submit(0.02), live.submit(0.03)
        time.sleep(0.05)
        assert following.cancel(), "it has not begun"
        gate.touch()
        assert last.result(timeout=60) == pytest.approx(0.06)
        assert busy.done()
        assert live.report.num_items == 2


def test_the_very_next_item_can_still_be_late_and_its_deadline_be_moved(gate: Path) -> None:
    now = [0.0]
    with live_queue("a", gate=gate, max_in_flight=1, clock=lambda: now[0]) as live:
        live.submit(HELD_S)
        wait_until(lambda: live.running)
        late, moved = live.submit(0.02, deadline=1.0), live.submit(0.03, deadline=1.0)
        time.sleep(0.05)
        moved.deadline = 9.0
        now[0] = 2.0
        gate.touch()
        with pytest.raises(OverloadedError):
            late.result(timeout=60)
        assert moved.result(timeout=60) == pytest.approx(0.06)


@pytest.mark.parametrize("max_in_flight", [1, 8])
def test_a_deadline_is_kept_behind_an_item_that_takes_long(gate: Path, max_in_flight: int) -> None:
    """Also where the pool has taken the late item already, as the next of its worker."""
    with live_queue("a", gate=gate, max_in_flight=max_in_flight) as live:
        busy = live.submit(HELD_S)
        wait_until(lambda: live.running)
        after = [live.submit(0.01, lane=lane) for lane in LANES]
        late = [live.submit(0.02, lane=lane, deadline=time.monotonic() + 0.2) for lane in LANES]
        for future in late:
            with pytest.raises(OverloadedError, match="deadline"):
                future.result(timeout=60)
        assert not busy.done(), "the deadline passed while another item was computed"
        assert live.waiting("live") + live.waiting("bulk") + live.running == 3
        gate.touch()
        assert [future.result(timeout=60) for future in after] == pytest.approx([0.02, 0.02])
        assert busy.result(timeout=60) == pytest.approx(2 * HELD_S)
    assert live.report.num_items == 3, "what was late was not computed"


def test_an_item_that_was_started_is_finished_after_its_deadline(gate: Path) -> None:
    now = [0.0]
    with live_queue("a", gate=gate, clock=lambda: now[0]) as live:
        future = live.submit(HELD_S, deadline=1.0)
        wait_until(lambda: future.began is not None)
        now[0] = 2.0
        gate.touch()
        assert future.result(timeout=60) == pytest.approx(2 * HELD_S)


def test_a_finished_item_does_not_stay_until_its_deadline() -> None:
    """Its payload and its error may be large, and deadlines are minutes away."""
    with live_queue("a") as live:
        future = live.submit(0.001, deadline=time.monotonic() + 600)
        future.result(timeout=60)
        live.submit(0.001).result(timeout=60)  # threads hold the last one they saw
        gone = weakref.ref(future)
        del future

        def is_gone() -> bool:
            gc.collect()
            return gone() is None

        wait_until(is_gone)


def test_many_late_items_fail_and_others_follow(gate: Path) -> None:
    now = [0.0]
    with live_queue("a", gate=gate, max_in_flight=2, clock=lambda: now[0]) as live:
        live.submit(HELD_S)
        wait_until(lambda: live.running)
        late = [live.submit(0.01, deadline=1.0) for _ in range(500)]
        cancelled = late[::7]
        assert all(future.cancel() for future in cancelled if future not in late[:7])
        now[0] = 2.0
        gate.touch()
        last = live.submit(0.02, deadline=9.0)
        assert last.result(timeout=60) == pytest.approx(0.04)
        expired = [one for one in late if not one.cancelled() and one.exception(timeout=60)]
        assert len(expired) > 400
        assert live.waiting("live") == 0


def test_a_queue_may_be_closed_while_its_run_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def start_late(thread: threading.Thread) -> None:
        if thread.name == "anyrig-pool":
            time.sleep(0.3)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_late)
    with live_queue("a") as live:
        pass
    assert live.pool.closed
