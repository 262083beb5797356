"""A worker that sends heartbeats is alive, however long its item; one whose heartbeats stop is not.

Time is a number that the tests put forward: nothing here depends on how fast the machine is.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from anyrig.server import metrics
from anyrig.work.engine import EngineFactory
from anyrig.work.live import LiveQueue
from anyrig.work.outcome import ItemOutcome
from anyrig.work.pool import WorkerPool
from anyrig.work.protocol import WorkerStatus
from anyrig.work.worker import LocalWorkers
from tests.waiting import wait_until
from tests.work.helpers import fake_pool, placement

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes")
SILENT_S = 900.0


class Clock:
    """Seconds that pass by themselves, and can be put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.num_read = 0
        """How often the pool looked at it."""

    def __call__(self) -> float:
        if threading.current_thread().name == "anyrig-pool":
            self.num_read += 1
        return time.monotonic() + self.ahead_s


class Run:
    """One item in a pool of one worker."""

    def __init__(self, pool: WorkerPool, clock: Clock, folder: Path) -> None:
        self.pool, self.clock, self.folder = pool, clock, folder
        self.started, self.end = folder / "started", folder / "end"
        self.outcomes: list[ItemOutcome[Any]] = []
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self, item: str = "") -> None:
        self._item = item or str(self.end)
        self._thread.start()
        wait_until(self.started.exists)

    def _work(self) -> None:
        self.outcomes = list(self.pool.run([self._item], cost=lambda item: 1.0))

    def result(self) -> ItemOutcome[Any]:
        self._thread.join(300)
        (outcome,) = self.outcomes
        return outcome

    def pass_time(self, seconds: float) -> None:
        """Put the clock forward and let the pool look at it."""
        self.clock.ahead_s += seconds
        num_read = self.clock.num_read
        wait_until(lambda: self.clock.num_read > num_read + 2)

    def await_beat(self) -> None:
        (before,) = (one.last_seen for one in self.pool.workers())
        wait_until(lambda: self.pool.workers()[0].last_seen > before)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool looks more often than it would, so that the tests are fast."""
    monkeypatch.setattr("anyrig.work.dispatch.TICK_S", 0.002, raising=False)


@contextmanager
def run(folder: Path, engine: str = "Waits", **options: Any) -> Iterator[Run]:
    clock = Clock()
    recipe = EngineFactory(
        f"tests.work.engines:{engine}", {"started": str(folder / "started"), **options}
    )
    with WorkerPool(
        LocalWorkers([placement("a")], recipe, environment=os.environ, heartbeat_s=0.02),
        clock=clock,
        silence_limit_s=SILENT_S,
    ) as pool:
        pool.wait_ready()
        yield Run(pool, clock, folder)


@pytest.mark.parametrize("models_error", [False, True])
def test_a_worker_that_sends_heartbeats_is_alive_however_long_its_item(
    models_error: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where its engine cannot say at that moment which models it has."""
    with run(tmp_path, models_error=models_error) as one:
        pids = one.pool.pids
        one.start()
        for _ in range(4):
            one.pass_time(0.4 * SILENT_S)
            one.await_beat()
        (seen,) = one.pool.workers()
        assert metrics.get_status(seen, one.clock()) == "busy"
        assert one.pool.pids == pids
        one.end.touch()
        assert one.result().failure is None
    assert caplog.messages == []


def test_a_worker_whose_heartbeats_stop_is_replaced_and_its_item_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with run(tmp_path) as one:
        (pid,) = one.pool.pids
        one.start()
        os.kill(pid, signal.SIGSTOP)
        for _ in range(6):  # its last heartbeat may be read after the first of these
            one.pass_time(0.4 * SILENT_S)
        one.end.touch()
        assert one.result().failure is None
        assert pid not in one.pool.pids
    assert any("no heartbeat for" in message for message in caplog.messages)


def test_a_call_that_holds_the_interpreter_lock_is_given_the_whole_silence_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No thread of a process can beat meanwhile: that alone is no reason to end it."""
    with run(tmp_path, "HoldsLock") as one:
        pids = one.pool.pids
        os.mkfifo(tmp_path / "pipe")
        one.start(str(tmp_path / "pipe"))
        one.pass_time(0.4 * SILENT_S)
        one.pass_time(0.4 * SILENT_S)
        (tmp_path / "pipe").write_text("go on")
        assert one.result().failure is None
        assert one.pool.pids == pids
    assert caplog.messages == []


def test_workers_are_not_killed_after_the_pool_itself_was_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ctrl-Z and fg, a laptop that slept: beats could not be read meanwhile."""
    with run(tmp_path) as one:
        (pid,) = one.pool.pids
        one.start()
        os.kill(pid, signal.SIGSTOP)  # so that no beat arrives before the pool looks
        one.pass_time(10 * SILENT_S)
        os.kill(pid, signal.SIGCONT)
        one.await_beat()
        one.end.touch()
        assert one.result().failure is None
        assert one.pool.pids == [pid]
    assert caplog.messages == []


# -- workers as health checks see them ------------------------------------------------------------


def see(
    pool: WorkerPool, condition: Callable[[tuple[WorkerStatus, ...]], bool]
) -> tuple[WorkerStatus, ...]:
    wait_until(lambda: condition(pool.workers()))
    return pool.workers()


def test_a_worker_is_seen_loading_then_ready_then_busy() -> None:
    pool = fake_pool("one")
    with LiveQueue[float, float](pool, cost=float) as live:
        assert pool.workers()[0].models == () or pool.workers()[0].state == "ready"
        (idle,) = see(pool, lambda seen: seen[0].state == "ready")
        assert (idle.device, idle.kind, idle.selector) == ("one", "cpu", "cpu")
        assert idle.models
        assert idle.busy_since is None
        future = live.submit(1.0)
        (busy,) = see(pool, lambda seen: seen[0].busy_since is not None)
        assert busy.pid == idle.pid
        assert future.result(60) == 2.0
        see(pool, lambda seen: seen[0].busy_since is None)


def test_a_worker_that_is_killed_is_shown_and_replaced() -> None:
    pool = fake_pool("one")
    with LiveQueue[float, float](pool, cost=float) as live:
        (first,) = see(pool, lambda seen: seen[0].state == "ready")
        os.kill(first.pid, signal.SIGKILL)
        seen = see(pool, lambda seen: [one.state for one in seen] == ["dead", "ready"])
        assert seen[0].pid == first.pid
        assert "SIGKILL" in seen[0].exit_reason or "9" in seen[0].exit_reason
        assert seen[1].pid != first.pid
        assert live.submit(0.01).result(60) == 0.02


def test_a_worker_that_is_stopped_falls_silent() -> None:
    pool = fake_pool("one")
    with LiveQueue[float, float](pool, cost=float):
        (first,) = see(pool, lambda seen: seen[0].state == "ready")
        os.kill(first.pid, signal.SIGSTOP)
        try:
            (seen,) = see(pool, lambda seen: time.monotonic() - seen[0].last_seen > 5)
            assert seen.state == "ready"
        finally:
            os.kill(first.pid, signal.SIGCONT)
        see(pool, lambda seen: time.monotonic() - seen[0].last_seen < 2)
