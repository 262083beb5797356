"""Real processes on fake devices: order, crashes, lost devices, and nothing left behind."""

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
from anyrig.memory.known_sizes import KnownBatchSizes
from anyrig.work.engine import EngineFactory
from anyrig.work.outcome import ItemOutcome, RunReport
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.waiting import wait_until
from tests.work.engines import Unpicklable
from tests.work.helpers import fake_pool, placement


def one_worker(target: str) -> WorkerPool:
    return WorkerPool(LocalWorkers([placement("a")], EngineFactory(target), environment=os.environ))


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
        assert first_done.wait(timeout=60)
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


def test_an_item_that_raises_fails_alone() -> None:
    with fake_pool("a", error_on=[0.005]) as pool:
        got = list(pool.run([0.001, 0.005, 0.002], cost=float))
    assert values(got) == [0.002, None, 0.004]
    failure = got[1].failure
    assert failure is not None
    assert "invalid item" in failure.message


def test_an_item_that_crashes_three_workers_fails() -> None:
    costs = [0.001, 0.002, 0.666, 0.003, 0.004]
    report = RunReport()
    with fake_pool("a", fallback="spare", crash_on=[0.666]) as pool:
        got = list(pool.run(costs, cost=float, report=report))
    assert values(got) == [None if c == 0.666 else 2 * c for c in costs]
    failure = got[2].failure
    assert failure is not None
    assert (failure.kind, failure.tries) == ("crash", 3)
    assert "code 9" in failure.message


def test_two_poison_items_do_not_suspend_the_device() -> None:
    costs = [0.001, 0.666, 0.002, 0.777, 0.003]
    with fake_pool("a", "b", crash_on=[0.666, 0.777]) as pool:
        got = list(pool.run(costs, cost=float))
        assert values(got) == [0.002, None, 0.004, None, 0.006]
        assert values(list(pool.run([0.004] * 8, cost=float))) == [0.008] * 8


def test_a_device_whose_workers_crash_twice_is_suspended_and_its_items_finish_elsewhere() -> None:
    report = RunReport()
    with fake_pool("good", "dead", broken_devices=["dead"]) as pool:
        got = list(pool.run([0.02] * 100, cost=float, report=report))
    assert values(got) == [0.04] * 100
    assert {outcome.device for outcome in got} == {"good"}
    assert any("dead is suspended" in warning for warning in report.warnings)


def test_the_fallback_finishes_when_the_only_device_fails() -> None:
    report = RunReport()
    with fake_pool("dead", fallback="cpu", broken_devices=["dead"]) as pool:
        got = list(pool.run([0.002] * 12, cost=float, report=report))
    assert values(got) == [0.004] * 12
    assert {outcome.device for outcome in got} == {"cpu"}
    assert any("dead is suspended" in warning for warning in report.warnings)


def test_a_device_that_is_lost_twice_is_suspended() -> None:
    report = RunReport()
    with fake_pool("gpu", fallback="cpu", lose_after={"gpu": 3}) as pool:
        got = list(pool.run([0.002] * 30, cost=float, report=report))
    assert values(got) == [0.004] * 30
    assert {outcome.device for outcome in got} == {"gpu", "cpu"}
    assert any("gpu is suspended" in warning for warning in report.warnings)


def test_no_worker_left_is_an_error_and_not_a_hang() -> None:
    with (
        fake_pool("dead", broken_devices=["dead"]) as pool,
        pytest.raises(DeviceLostError, match="dead"),
    ):
        list(pool.run([0.001] * 30, cost=float))


@pytest.mark.parametrize(
    ("target", "message", "hint"),
    [
        ("anyrig.work.fake:Nothing", "cannot import engine", "importable"),
        ("tests.work.engines:NotAnEngine", "is not an engine", "BaseEngine"),
    ],
)
def test_an_engine_that_cannot_be_loaded_is_an_error(target: str, message: str, hint: str) -> None:
    pool = one_worker(target)
    with pool, pytest.raises(InvalidInputError, match=message) as caught:
        pool.wait_ready()
    assert hint in caught.value.hint


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


def test_an_outcome_is_reported_before_those_of_earlier_items() -> None:
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


def test_an_item_that_cannot_be_pickled_fails() -> None:
    with fake_pool("a") as pool:
        got = list(pool.run([0.001, lambda: 0], cost=lambda item: 0.001))
    assert got[0].result == 0.002
    assert got[1].failure is not None
    assert "cannot be pickled" in got[1].failure.message


def test_a_closed_pool_accepts_no_run() -> None:
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
        process.wait(timeout=60)
        wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


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


def test_an_item_that_cannot_be_unpickled_in_the_worker_fails() -> None:
    with fake_pool("a") as pool:
        got = list(pool.run([0.001, Unpicklable(), 0.002], cost=lambda _: 0.001))
    assert [outcome.result for outcome in got] == [0.002, None, 0.004]
    assert got[1].failure is not None
    assert "cannot be unpickled: not here" in got[1].failure.message


def test_a_result_that_cannot_be_unpickled_fails_alone() -> None:
    factory = EngineFactory("tests.work.engines:HalfUnpicklable")
    with WorkerPool(LocalWorkers([placement("a")], factory, environment=os.environ)) as pool:
        got = list(pool.run(range(40), cost=lambda _: 1.0))
    assert [o.result for o in got] == [None if n % 2 else n for n in range(40)]
    assert all("not here" in o.failure.message for o in got if o.failure is not None)


def test_options_that_cannot_be_pickled_leave_no_process() -> None:
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


def test_a_pool_that_is_closed_during_a_run_leaves_no_process() -> None:
    with fake_pool("a", "b", "c") as pool:
        outcomes = pool.run([0.05] * 200, cost=float)
        next(outcomes)
        pool.close()
        with pytest.raises(WorkError, match="closed during a run"):
            list(outcomes)
    wait_until(lambda: not _workers_alive())


def test_a_worker_that_dies_while_another_loads_is_noticed() -> None:
    with fake_pool("a", "b") as pool:
        pool.wait_ready()
        os.kill(pool.pids[0], signal.SIGKILL)
        time.sleep(0.3)
        pool.wait_ready()
        assert values(list(pool.run([0.01] * 10, cost=float))) == [0.02] * 10


def test_an_exit_raised_by_the_input_is_raised_to_the_caller() -> None:
    def stream() -> Iterator[float]:
        yield 0.001
        raise SystemExit(3)

    with fake_pool("a") as pool, pytest.raises(SystemExit):
        list(pool.run(stream(), cost=float))


@pytest.mark.parametrize("fallback", ["", "cpu"])
def test_many_poison_items_fail_alone(fallback: str) -> None:
    deadly = [0.661, 0.662, 0.663, 0.664]
    costs = [0.001, 0.002, *deadly, 0.003]
    with fake_pool("a", fallback=fallback, crash_on=deadly) as pool:
        got = list(pool.run(costs, cost=float))
    assert values(got) == [None if c in deadly else 2 * c for c in costs]


def test_an_item_that_loses_the_device_fails() -> None:
    report = RunReport()
    with fake_pool("gpu", "gpu2", fallback="cpu", lose_device_on=[0.666]) as pool:
        got = list(pool.run([0.001] * 5 + [0.666] + [0.002] * 5, cost=float, report=report))
    assert values(got) == [0.002] * 5 + [None] + [0.004] * 5


def test_what_does_not_fit_on_a_small_device_goes_to_a_large_one() -> None:
    report = RunReport()
    with fake_pool("small", "large", fits_on={"small": 0.01}, speeds={"large": 0.5}) as pool:
        got = list(pool.run([0.001, 0.002, 0.05, 0.003], cost=float, report=report))
    assert values(got) == [0.002, 0.004, 0.1, 0.006]
    assert got[2].device == "large"


# -- batch sizes that are remembered --------------------------------------------------------------


def test_batch_sizes_are_remembered_for_the_next_pool(tmp_path: Path) -> None:
    options = {"max_items": 64, "fits": 0.02, "call_s": 0.01}

    def run(factory: EngineFactory, stamp: str) -> int:
        limits, report = KnownBatchSizes(tmp_path / "limits.json"), RunReport()
        with WorkerPool(
            LocalWorkers(
                [placement("a")], factory, environment=os.environ, known_sizes=limits, stamp=stamp
            )
        ) as pool:
            assert sum(1 for _ in pool.run([0.001] * 150, cost=float, report=report)) == 150
        return report.num_out_of_memory

    fake = EngineFactory("anyrig.work.fake:FakeEngine", options, "fake", "1")
    assert run(fake, "driver 1") > 0
    assert run(fake, "driver 1") == 0, "the size that did not fit is not tried again"
    assert run(fake, "driver 2") > 0, "nothing is known of another driver"
    assert run(replace(fake, version="2"), "driver 1") > 0, "nor of another version"


def test_running_out_of_memory_while_loading_is_an_out_of_memory_error() -> None:
    with (
        one_worker("tests.work.engines:OutOfMemoryAtLoad") as pool,
        pytest.raises(OutOfMemoryError, match="Tried to allocate") as caught,
    ):
        pool.wait_ready()
    assert not caught.value.on_host


def test_host_memory_that_runs_out_while_loading_is_told_apart_from_a_devices() -> None:
    with (
        one_worker("tests.work.engines:HostOutOfMemoryAtLoad") as pool,
        pytest.raises(OutOfMemoryError) as caught,
    ):
        pool.wait_ready()
    assert caught.value.on_host


# -- several sources of workers -------------------------------------------------------------------


def source(name: str, **options: Any) -> LocalWorkers:
    factory = EngineFactory("anyrig.work.fake:FakeEngine", options)
    return LocalWorkers([placement(name)], factory, environment=os.environ)


def test_a_run_may_use_workers_of_several_sources() -> None:
    with WorkerPool(source("a"), source("b")) as pool:
        pool.wait_ready()
        got = list(pool.run([0.01] * 40, cost=float))
    assert values(got) == [0.02] * 40
    assert {outcome.device for outcome in got} == {"a", "b"}


def test_a_run_goes_on_while_one_source_has_workers() -> None:
    with WorkerPool(source("good"), source("dead", broken_devices=["dead"])) as pool:
        pool.wait_ready()
        got = list(pool.run([0.01] * 40, cost=float))
    assert values(got) == [0.02] * 40
    assert {outcome.device for outcome in got} == {"good"}


def test_a_lost_device_is_described_in_a_sentence() -> None:
    with fake_pool("gpu", fallback="cpu", lose_after={"gpu": 3}) as pool:
        assert values(list(pool.run([0.002] * 30, cost=float))) == [0.004] * 30
    assert pool.warnings[0] == (
        "gpu is suspended: its worker lost its device: "
        "CUDA error: an illegal memory access was encountered"
    )


def test_a_failed_item_is_logged_by_its_place_in_the_input(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO")
    with fake_pool("a", error_on=[0.003]) as pool:
        outcomes = list(pool.run([0.001, 0.002, 0.003], cost=float))
    assert outcomes[2].failure is not None
    assert f"item 2 failed: {outcomes[2].failure.message}" in caplog.text
    assert str(1 << 40) not in caplog.text + capfd.readouterr().err
