"""Real processes on rehearsed devices: order, deaths, losses, refusals, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from anyrig.errors import DeviceLostError, InvalidInputError, OutOfMemoryError, WorkError
from anyrig.memory.limits import BatchSizeLimits
from anyrig.work.engine import EngineFactory
from anyrig.work.outcome import ItemOutcome, RunReport
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.work.engines import Unpicklable
from tests.work.helpers import fake_pool, placement


def values(outcomes: list[ItemOutcome[Any]]) -> list[Any]:
    assert [outcome.index for outcome in outcomes] == list(range(len(outcomes)))
    return [outcome.result for outcome in outcomes]


def test_unequal_devices_share_the_work_in_order() -> None:
    costs = [0.002 + (i % 7) / 1000 for i in range(120)]
    report = RunReport()
    with fake_pool("fast", "slow", speeds={"slow": 0.3}) as pool:
        outcomes = list(pool.run(costs, cost=float, report=report))
    assert values(outcomes) == [2 * cost for cost in costs]
    assert {outcome.device for outcome in outcomes} == {"fast", "slow"}
    assert report.num_items == 120
    assert report.warnings == []


def test_a_pool_serves_one_run_after_the_other() -> None:
    with fake_pool("a", "b") as pool:
        for count in (3, 0, 5):
            assert values(list(pool.run([0.001] * count, cost=float))) == [0.002] * count


def test_a_run_that_is_left_does_not_disturb_the_next() -> None:
    with fake_pool("a") as pool:
        outcomes = pool.run([0.001, 0.002, 0.003], cost=float)
        assert next(outcomes).result == 0.002
        outcomes.close()  # type: ignore[attr-defined]
        assert values(list(pool.run([0.004, 0.005], cost=float))) == [0.008, 0.010]


def test_a_stream_is_worked_on_as_it_comes() -> None:
    first_done = threading.Event()

    def stream() -> Iterator[float]:
        yield 0.001
        assert first_done.wait(timeout=30)
        yield 0.002

    with fake_pool("a") as pool:
        outcomes = pool.run(stream(), cost=float)
        assert next(outcomes).result == 0.002
        first_done.set()
        assert next(outcomes).result == 0.004


def test_running_out_of_memory_splits_in_the_worker() -> None:
    report = RunReport()
    with fake_pool("a", max_items=64, fits=0.02, call_s=0.01) as pool:
        got = list(pool.run([0.001] * 200, cost=float, report=report))
    assert values(got) == [0.002] * 200
    assert report.num_out_of_memory >= 1


def test_a_bad_item_is_failed_and_the_rest_go_on() -> None:
    with fake_pool("a", error_on=[0.005]) as pool:
        got = list(pool.run([0.001, 0.005, 0.002], cost=float))
    assert values(got) == [0.002, None, 0.004]
    failure = got[1].failure
    assert failure is not None
    assert "invalid item" in failure.message


def test_an_item_that_kills_three_workers_is_failed() -> None:
    costs = [0.001, 0.002, 0.666, 0.003, 0.004]
    report = RunReport()
    with fake_pool("a", fallback="spare", crash_on=[0.666]) as pool:
        got = list(pool.run(costs, cost=float, report=report))
    assert values(got) == [None if c == 0.666 else 2 * c for c in costs]
    failure = got[2].failure
    assert failure is not None
    assert (failure.kind, failure.tries) == ("killed", 3)
    assert "code 9" in failure.message


def test_the_only_device_survives_a_deadly_item() -> None:
    with fake_pool("a", crash_on=[0.666]) as pool:
        got = list(pool.run([0.001, 0.666, 0.002], cost=float))
    assert values(got) == [0.002, None, 0.004]


def test_two_deadly_items_do_not_cost_the_device() -> None:
    costs = [0.001, 0.666, 0.002, 0.777, 0.003]
    with fake_pool("a", "b", crash_on=[0.666, 0.777]) as pool:
        got = list(pool.run(costs, cost=float))
        assert values(got) == [0.002, None, 0.004, None, 0.006]
        assert values(list(pool.run([0.004] * 8, cost=float))) == [0.008] * 8


def test_a_device_that_dies_twice_is_failed_and_its_items_finish_elsewhere() -> None:
    report = RunReport()
    with fake_pool("good", "dead", broken_devices=["dead"]) as pool:
        got = list(pool.run([0.02] * 100, cost=float, report=report))
    assert values(got) == [0.04] * 100
    assert {outcome.device for outcome in got} == {"good"}
    assert any("dead is suspended" in warning for warning in report.warnings)


def test_when_the_only_device_dies_the_fall_back_finishes() -> None:
    report = RunReport()
    with fake_pool("dead", fallback="cpu", broken_devices=["dead"]) as pool:
        got = list(pool.run([0.002] * 12, cost=float, report=report))
    assert values(got) == [0.004] * 12
    assert {outcome.device for outcome in got} == {"cpu"}
    assert not report.failed
    assert any("dead is suspended" in warning for warning in report.warnings)


def test_a_device_that_is_lost_twice_is_failed() -> None:
    report = RunReport()
    with fake_pool("gpu", fallback="cpu", lose_after={"gpu": 3}) as pool:
        got = list(pool.run([0.002] * 30, cost=float, report=report))
    assert values(got) == [0.004] * 30
    assert {outcome.device for outcome in got} == {"gpu", "cpu"}
    assert any("gpu is suspended" in warning for warning in report.warnings)


def test_nothing_left_to_work_is_an_error_not_a_hang() -> None:
    with (
        fake_pool("dead", broken_devices=["dead"]) as pool,
        pytest.raises(DeviceLostError, match="dead"),
    ):
        list(pool.run([0.001] * 30, cost=float))


def test_an_engine_that_cannot_be_made_is_an_error_with_its_hint() -> None:
    factory = EngineFactory("anyrig.work.fake:Nothing")
    pool = WorkerPool(LocalWorkers([placement("a")], factory, environment=os.environ))
    with pool, pytest.raises(InvalidInputError, match="cannot import engine") as caught:
        pool.wait_ready()
    assert "importable" in caught.value.hint


def test_a_worker_that_is_killed_is_replaced() -> None:
    with fake_pool("a", "b") as pool:
        outcomes = pool.run([0.02] * 40, cost=float)
        got = [next(outcomes)]
        os.kill(pool.pids[0], signal.SIGKILL)
        got += outcomes
        assert len(pool.pids) == 2
    assert values(got) == [0.04] * 40
    assert pool.warnings == []


def test_a_late_item_is_given_to_an_idle_faster_device() -> None:
    """The slow one would need 50 s for its item: the run ends without it, and nobody waits."""
    with fake_pool("fast", "slow", speeds={"slow": 0.001}) as pool:
        pool.wait_ready()
        got = list(pool.run([0.05] * 6, cost=float))
        assert {outcome.device for outcome in got} == {"fast"}


def test_what_overtakes_an_item_is_told_before_it() -> None:
    heard: list[int] = []
    with fake_pool("fast", "slow", speeds={"slow": 0.2}) as pool:
        pool.wait_ready()
        run = pool.run(
            [0.2] + [0.005] * 20, cost=float, on_outcome=lambda one: heard.append(one.index)
        )
        assert next(run).index == 0
        assert len(heard) > 1
        assert heard[0] != 0
        assert [outcome.index for outcome in run] == list(range(1, 21))
    assert sorted(heard) == list(range(21))


def test_an_item_that_cannot_be_sent_is_failed() -> None:
    with fake_pool("a") as pool:
        got = list(pool.run([0.001, lambda: 0], cost=lambda item: 0.001))
    assert got[0].result == 0.002
    assert got[1].failure is not None
    assert "cannot be pickled" in got[1].failure.message


def test_a_closed_pool_says_so() -> None:
    with fake_pool("a") as pool:
        pass
    with pytest.raises(WorkError, match="closed"):
        next(pool.run([1.0], cost=float))


SCRIPT = """
import os, sys, time
sys.path.insert(0, {root!r})
from tests.work.helpers import fake_pool
with fake_pool("a", "b") as pool:
    pool.wait_ready()
    print(*pool.pids, flush=True)
    for outcome in pool.run([30.0] * 10, cost=float):
        pass
"""


@pytest.mark.parametrize("way", ["SIGINT", "SIGKILL"])
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_no_worker_outlives_its_pool(way: str) -> None:
    root = str(Path(__file__).resolve().parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(root=root)], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": f"{root}/src"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.3)  # let it hand something out
        process.send_signal(getattr(signal, way))
        process.wait(timeout=20)
        deadline = time.monotonic() + 20
        while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [pid for pid in pids if psutil.pid_exists(pid)]


def test_batches_grow_in_a_worker_where_a_call_costs_much() -> None:
    report = RunReport()
    with fake_pool("a", max_items=4096, call_s=0.005) as pool:
        got = list(pool.run([1e-5] * 2000, cost=float, report=report))
    assert values(got) == [2e-5] * 2000
    assert report.num_batches < 100


def test_batches_grow_beside_a_device_that_takes_one_at_a_time() -> None:
    report = RunReport()
    with fake_pool("a", "b", max_items=4096, call_s=0.005, speeds={"b": 0.05}) as pool:
        got = list(pool.run([1e-5] * 3000, cost=float, report=report))
    assert values(got) == [2e-5] * 3000
    assert report.num_batches < 200


def test_an_item_that_cannot_be_unpacked_there_is_failed() -> None:
    with fake_pool("a") as pool:
        got = list(pool.run([0.001, Unpicklable(), 0.002], cost=lambda _: 0.001))
    assert [outcome.result for outcome in got] == [0.002, None, 0.004]
    assert got[1].failure is not None
    assert "cannot be unpickled: not here" in got[1].failure.message


def test_a_result_that_cannot_be_unpacked_here_spoils_no_other() -> None:
    factory = EngineFactory("tests.work.engines:HalfUnpicklable")
    with WorkerPool(LocalWorkers([placement("a")], factory, environment=os.environ)) as pool:
        got = list(pool.run(range(40), cost=lambda _: 1.0))
    assert [o.result for o in got] == [None if n % 2 else n for n in range(40)]
    assert all("not here" in o.failure.message for o in got if o.failure is not None)


def test_options_that_cannot_be_sent_leave_no_process() -> None:
    before = psutil.Process().children()
    with pytest.raises(InvalidInputError, match="cannot be pickled"):
        WorkerPool(
            LocalWorkers(
                [placement("a")], EngineFactory("x:y", {"f": lambda: 0}), environment=os.environ
            )
        )
    assert psutil.Process().children() == before


def _workers_alive() -> list[int]:
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # gone, or dead and not yet buried
            if "anyrig.work" in str(child.cmdline()):
                found.append(child.pid)
    return found


def test_a_pool_that_is_closed_under_a_run_leaves_nobody() -> None:
    with fake_pool("a", "b", "c") as pool:
        outcomes = pool.run([0.05] * 200, cost=float)
        next(outcomes)
        pool.close()
        with pytest.raises(WorkError, match="closed during a run"):
            list(outcomes)
    deadline = time.monotonic() + 20
    while _workers_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _workers_alive()


def test_a_worker_that_dies_while_another_loads_is_noticed() -> None:
    with fake_pool("a", "b") as pool:
        pool.wait_ready()
        os.kill(pool.pids[0], signal.SIGKILL)
        time.sleep(0.3)
        pool.wait_ready()
        assert values(list(pool.run([0.01] * 10, cost=float))) == [0.02] * 10


def test_a_stream_that_ends_the_program_is_raised_not_awaited() -> None:
    def stream() -> Iterator[float]:
        yield 0.001
        raise SystemExit(3)

    with fake_pool("a") as pool, pytest.raises(SystemExit):
        list(pool.run(stream(), cost=float))


@pytest.mark.parametrize("fallback", ["", "cpu"])
def test_many_deadly_items_cost_only_themselves(fallback: str) -> None:
    deadly = [0.661, 0.662, 0.663, 0.664]
    costs = [0.001, 0.002, *deadly, 0.003]
    with fake_pool("a", fallback=fallback, crash_on=deadly) as pool:
        got = list(pool.run(costs, cost=float))
    assert values(got) == [None if c in deadly else 2 * c for c in costs]


def test_an_item_that_breaks_the_device_is_found_out() -> None:
    report = RunReport()
    with fake_pool("gpu", "gpu2", fallback="cpu", lose_device_on=[0.666]) as pool:
        got = list(pool.run([0.001] * 5 + [0.666] + [0.002] * 5, cost=float, report=report))
    assert values(got) == [0.002] * 5 + [None] + [0.004] * 5
    assert [aside.index for aside in report.failed] == [5]


def test_what_does_not_fit_on_a_small_device_goes_to_a_large_one() -> None:
    report = RunReport()
    with fake_pool("small", "large", fits_on={"small": 0.01}, speeds={"large": 0.5}) as pool:
        got = list(pool.run([0.001, 0.002, 0.05, 0.003], cost=float, report=report))
    assert values(got) == [0.002, 0.004, 0.1, 0.006]
    assert got[2].device == "large"
    assert not report.failed


def test_half_an_engine_is_told_what_it_lacks() -> None:
    pool = WorkerPool(
        LocalWorkers(
            [placement("a")],
            EngineFactory("tests.work.engines:NotAnEngine"),
            environment=os.environ,
        )
    )
    with (
        pool,
        pytest.raises(InvalidInputError, match="is not an engine"),
    ):
        pool.wait_ready()


# -- batch sizes that are remembered --------------------------------------------------------------


def test_batch_sizes_are_remembered_for_the_next_pool(tmp_path: Path) -> None:
    options = {"max_items": 64, "fits": 0.02, "call_s": 0.01}

    def run(factory: EngineFactory, stamp: str) -> int:
        limits, report = BatchSizeLimits.load(tmp_path / "limits.json"), RunReport()
        with WorkerPool(
            LocalWorkers(
                [placement("a")], factory, environment=os.environ, limits=limits, stamp=stamp
            )
        ) as pool:
            assert sum(1 for _ in pool.run([0.001] * 150, cost=float, report=report)) == 150
        return report.num_out_of_memory

    fake = EngineFactory("anyrig.work.fake:FakeEngine", options, "fake", "1")
    assert run(fake, "driver 1") > 0
    assert run(fake, "driver 1") == 0, "the size that did not fit is not tried again"
    assert run(fake, "driver 2") > 0, "nothing is known of another driver"
    assert run(replace(fake, version="2"), "driver 1") > 0, "nor of another version"


def test_an_engine_that_runs_out_of_memory_while_loading_is_an_out_of_memory_error() -> None:
    factory = EngineFactory("tests.work.engines:OutOfMemoryAtLoad")
    pool = WorkerPool(LocalWorkers([placement("a")], factory, environment=os.environ))
    with pool, pytest.raises(OutOfMemoryError, match="Tried to allocate"):
        pool.wait_ready()
