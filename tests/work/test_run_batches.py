"""Batches through an engine in this process: in order, split when memory runs out, nothing lost."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from anyrig.backends.memory import MemoryUsage
from anyrig.errors import (
    AnyrigError,
    DeviceLostError,
    InvalidInputError,
    OutOfMemoryError,
    WorkError,
)
from anyrig.memory.oom import detect_oom
from anyrig.work.batching import Batch, BatchSizer, WorkItem
from anyrig.work.failures import FORGIVE_AFTER, FailureTracker
from anyrig.work.outcome import BatchStats, ItemOutcome, RunReport
from anyrig.work.retry import run_batch, run_batches, translate_error


def double(batch: Sequence[int]) -> list[int]:
    return [2 * number for number in batch]


def done(outcomes: Iterator[ItemOutcome[int]]) -> list[int | None]:
    return [outcome.result for outcome in outcomes]


def test_results_come_in_the_order_of_the_input() -> None:
    numbers = [(7 * i) % 101 + 1 for i in range(500)]
    report = RunReport()
    assert done(
        run_batches(numbers, double, cost=float, sizer=BatchSizer(start=256), report=report)
    ) == double(numbers)
    assert report.num_items == 500
    assert 1 < report.num_batches < 500
    assert report.padded_cost <= 1.05 * report.real_cost


def test_nothing_in_nothing_out() -> None:
    assert done(run_batches([], double, cost=float)) == []


class Memory:
    """An engine that holds a payload's worth of memory and runs out above a limit."""

    def __init__(self, limit: int) -> None:
        self.limit, self.calls = limit, [0]
        self.held: list[weakref.ref[object]] = []

    def __call__(self, batch: Sequence[int]) -> list[int]:
        class Block:
            pass

        block = Block()
        self.held.append(weakref.ref(block))
        self.calls.append(len(batch))
        if len(batch) * max(batch) > self.limit:
            raise MemoryError(f"cannot hold {sum(batch)}")
        return double(batch)


def test_a_batch_that_does_not_fit_is_halved_and_the_limit_kept() -> None:
    engine, report, sizer = Memory(100), RunReport(), BatchSizer(start=1 << 12)
    numbers = [10] * 300
    assert done(run_batches(numbers, engine, cost=float, sizer=sizer, report=report)) == double(
        numbers
    )
    assert 1 <= report.num_out_of_memory <= 12
    assert 50 <= sizer.largest_ok <= 100


def test_no_dead_block_stays_alive_after_running_out() -> None:
    engine = Memory(10)
    for _ in run_batches([10] * 40, engine, cost=float, sizer=BatchSizer(start=400)):
        pass
    gc.collect()
    assert not any(ref() for ref in engine.held)


def test_an_item_that_fits_nowhere_is_failed_with_the_reason() -> None:
    report = RunReport()
    outcomes = list(run_batches([5, 500, 6], Memory(100), cost=float, report=report))
    assert [outcome.result for outcome in outcomes] == [10, None, 12]
    failure = outcomes[1].failure
    assert failure is not None
    assert (failure.kind, failure.tries) == ("memory", 2)
    assert "out of memory while computing 1 item at once" in failure.message
    assert "MemoryError" in failure.message


def test_a_bad_item_is_tried_twice_alone_and_the_rest_go_on() -> None:
    seen: list[tuple[int, ...]] = []

    def engine(batch: Sequence[int]) -> list[int]:
        seen.append(tuple(batch))
        if 13 in batch:
            raise ValueError("unlucky")
        return double(batch)

    numbers = [*range(1, 13), 13, *range(14, 40)]
    outcomes = list(run_batches(numbers, engine, cost=lambda _: 1.0, sizer=BatchSizer(start=16)))
    assert [o.result for o in outcomes] == [None if n == 13 else 2 * n for n in numbers]
    assert seen.count((13,)) == 2
    bad = outcomes[12].failure
    assert bad is not None
    assert bad.message == "ValueError: unlucky"


def test_an_item_that_fails_once_is_done_the_second_time() -> None:
    failures = [True]

    def engine(batch: Sequence[int]) -> list[int]:
        if 3 in batch and failures:
            failures.clear()
            raise RuntimeError("a hiccup")
        return double(batch)

    assert done(run_batches([1, 2, 3], engine, cost=float)) == [2, 4, 6]


def test_an_engine_that_answers_too_little_loses_nothing() -> None:
    def engine(batch: Sequence[int]) -> list[int]:
        return double(batch)[: 1 if len(batch) > 1 else None]

    assert done(run_batches([1, 2, 3, 4], engine, cost=float, sizer=BatchSizer(start=100))) == [
        2,
        4,
        6,
        8,
    ]


def test_a_lost_device_ends_the_run_after_what_was_done() -> None:
    def engine(batch: Sequence[int]) -> list[int]:
        if batch[0] == 3:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return double(batch)

    took: list[int | None] = []
    with pytest.raises(DeviceLostError, match="illegal memory access"):
        took.extend(o.result for o in run_batches([1, 2, 3, 4], engine, cost=lambda _: 1.0))
    outcomes = run_batches([1, 2, 3, 4], engine, cost=lambda _: 1.0)
    assert [next(outcomes).result, next(outcomes).result] == [2, 4]
    with pytest.raises(DeviceLostError):
        next(outcomes)


def test_later_batches_run_while_a_result_is_looked_at() -> None:
    started = threading.Event()

    def engine(batch: Sequence[int]) -> list[int]:
        if 2 in batch:
            started.set()
        return double(batch)

    outcomes = run_batches([1, 2], engine, cost=float)
    next(outcomes)
    assert started.wait(timeout=60)
    outcomes.close()  # type: ignore[attr-defined]


def test_no_more_is_read_than_the_look_ahead() -> None:
    read: list[int] = []

    def stream() -> Iterator[int]:
        for number in range(1000):
            read.append(number)
            yield number

    outcomes = run_batches(stream(), double, cost=lambda _: 1.0, look_ahead=10)
    for _ in range(5):
        next(outcomes)
    time.sleep(0.05)
    assert len(read) <= 5 + 10 + 1
    outcomes.close()  # type: ignore[attr-defined]


def test_a_slow_stream_is_not_waited_for() -> None:
    """The first item is done before the second arrives, though more could be read ahead."""
    first_done = threading.Event()

    def stream() -> Iterator[int]:
        yield 1
        assert first_done.wait(timeout=60)
        yield 2

    outcomes = run_batches(stream(), double, cost=float)
    assert next(outcomes).result == 2
    first_done.set()
    assert next(outcomes).result == 4


def test_a_stream_that_breaks_is_raised_after_what_came_before() -> None:
    def stream() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("the input ended badly")

    outcomes = run_batches(stream(), double, cost=float)
    assert [next(outcomes).result, next(outcomes).result] == [2, 4]
    with pytest.raises(KeyError, match="ended badly"):
        next(outcomes)


def test_a_cost_that_is_no_number_is_told() -> None:
    with pytest.raises(InvalidInputError, match="item 1"):
        list(run_batches([1, -1], double, cost=float))


def test_deterministic_means_no_company() -> None:
    sizes: list[int] = []

    def engine(batch: Sequence[int]) -> list[int]:
        sizes.append(len(batch))
        return double(batch)

    list(run_batches(range(1, 20), engine, cost=float, sizer=BatchSizer(grow=False)))
    assert set(sizes) == {1}


def test_a_failure_names_the_options_that_need_less_memory() -> None:
    batch, engine = Batch((WorkItem(0, 500, 500.0),)), Memory(100)
    (outcome,) = run_batch(
        batch, engine, sizer=BatchSizer(), stats=BatchStats(), memory_options=["--length 256"]
    )
    assert outcome.failure is not None
    assert outcome.failure.hint == "Try --length 256."


class DeadAfterOutOfMemory:
    """A device that does not respond any more once memory ran out."""

    name, on_host = "cuda:0", False

    def __init__(self) -> None:
        self.dead = False

    def synchronize(self) -> None:
        if self.dead:
            raise RuntimeError("CUDA error: unspecified launch failure")

    def release(self) -> None: ...

    def reset_peak(self) -> None: ...

    def limit(self, num_bytes: int) -> bool:
        return False

    def memory(self) -> MemoryUsage:
        return MemoryUsage()


def test_a_device_that_does_not_recover_from_out_of_memory_is_lost() -> None:
    handle = DeadAfterOutOfMemory()
    calls = []

    def engine(batch: Sequence[int]) -> list[int]:
        calls.append(len(batch))
        handle.dead = True
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    with pytest.raises(DeviceLostError, match="out of memory"):
        list(run_batches([1, 2, 3, 4], engine, cost=lambda _: 1.0, handle=handle))
    assert len(calls) == 1


def test_a_failed_item_is_logged_by_its_place_in_the_input(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def engine(batch: Sequence[int]) -> list[int]:
        if 3 in batch:
            raise ValueError("three")
        return double(batch)

    caplog.set_level("INFO")
    assert done(run_batches([1, 2, 3], engine, cost=float)) == [2, 4, None]
    assert "item 2 failed: ValueError: three" in caplog.text


def test_an_item_that_kills_three_is_guilty_and_its_devices_are_forgiven() -> None:
    tracker = FailureTracker()
    for device in ("a", "a", "b"):
        assert not tracker.is_poison(7)
        tracker.record_crash(device, [7])
    assert tracker.is_poison(7)
    assert tracker.is_suspended("a")
    assert tracker.forgive_devices(7) == ["a"]
    assert not tracker.is_suspended("a")


def test_a_device_that_dies_twice_with_different_items_is_out() -> None:
    tracker = FailureTracker()
    tracker.record_crash("a", [1, 2])
    tracker.record_crash("a", [3])
    assert tracker.is_suspended("a")
    assert not tracker.is_suspended("b")
    tracker.record_success(1, "b")
    assert tracker.forgive_devices(2) == ["a"]


def test_a_suspect_is_kept_from_the_device_it_died_on_twice() -> None:
    tracker = FailureTracker()
    tracker.record_crash("a", [1])
    assert tracker.device_to_avoid(1) == ""
    tracker.record_crash("a", [1])
    assert tracker.device_to_avoid(1) == "a"
    assert tracker.device_to_avoid(2) == ""


def test_a_death_while_loading_counts_for_the_device_alone() -> None:
    tracker = FailureTracker()
    tracker.record_crash("a", [])
    tracker.record_crash("a", [])
    assert tracker.is_suspended("a")
    assert not tracker.exceeds_crash_limit("a")
    for _ in range(4):
        tracker.record_crash("a", [])
    assert tracker.exceeds_crash_limit("a")
    tracker.record_success(1, "a")
    assert not tracker.exceeds_crash_limit("a")


def test_a_death_is_forgiven_after_much_good_work() -> None:
    tracker = FailureTracker()
    for week in range(3):  # in a pool that lives for weeks
        tracker.record_crash("a", [week])
        assert not tracker.is_suspended("a")
        for item in range(100, 100 + FORGIVE_AFTER):
            tracker.record_success(item, "a")
    tracker.record_crash("a", [1])
    for item in range(FORGIVE_AFTER - 1):  # not quite enough
        tracker.record_success(100 + item, "a")
        tracker.record_success(100 + item, "b")
    tracker.record_crash("a", [2])
    assert tracker.is_suspended("a")
    assert tracker.forgive_devices(2) == ["a"]


OPTIONS = ("--batch-size 4", "--memory-gb 6", "--device cpu")
SHORTAGE = RuntimeError("CUDA error: out of memory")


class Handle:
    def __init__(self, *, on_host: bool = False, broken: bool = False) -> None:
        self.on_host, self.broken = on_host, broken

    def memory(self) -> MemoryUsage:
        if self.broken:
            raise RuntimeError("the device is gone")
        return MemoryUsage(free_bytes=2**29, total_bytes=24 * 2**30)


def _translate(
    error: Exception, options: Sequence[str] = (), handle: Any = None, doing: str = "speaking"
) -> AnyrigError:
    return translate_error(error, detect_oom(error), doing, options, handle)


def test_amounts_and_options() -> None:
    error = RuntimeError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.50 GiB"
        " of which 512.00 MiB is free."
    )
    translated = _translate(error, OPTIONS, doing="embedding 64 texts")
    assert isinstance(translated, OutOfMemoryError)
    assert translated.message.startswith(
        "the device ran out of memory while embedding 64 texts: tried to allocate 2 GiB, "
        "512 MiB of 23.5 GiB free (RuntimeError: CUDA"
    )
    assert translated.hint == "Try --batch-size 4, --memory-gb 6 or --device cpu."


def test_amounts_of_the_device() -> None:
    text = "the device ran out of memory while speaking"
    translated = _translate(SHORTAGE, handle=Handle())
    assert translated.message.startswith(f"{text}: 512 MiB of 24 GiB free (")
    assert translated.hint
    assert _translate(SHORTAGE, handle=Handle(broken=True)).message.startswith(f"{text} (")
    # The device's figures say nothing about the host's memory, and vice versa.
    host = "the host ran out of memory while speaking"
    assert _translate(MemoryError(), handle=Handle()).message == f"{host} (MemoryError)"
    translated = _translate(MemoryError(), handle=Handle(on_host=True))
    assert translated.message == f"{host}: 512 MiB of 24 GiB free (MemoryError)"


def test_other_errors() -> None:
    assert type(_translate(KeyError("x"))) is WorkError


def test_translated_errors_are_detected_again() -> None:
    found = detect_oom(_translate(RuntimeError("std::bad_alloc")))
    assert found is not None
    assert found.location == "host"
    found = detect_oom(_translate(MemoryError("Unable to allocate 1.5 GiB")))
    assert found is not None
    assert found.requested_bytes == 3 * 2**29
