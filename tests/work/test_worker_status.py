"""Workers as they are seen from outside: ready, busy, dead and replaced, frozen."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import pytest

from anyrig.work.live import LiveQueue
from anyrig.work.pool import WorkerPool
from anyrig.work.protocol import WorkerStatus
from tests.work.helpers import fake_pool

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def until(
    pool: WorkerPool, asked: Callable[[tuple[WorkerStatus, ...]], bool]
) -> tuple[WorkerStatus, ...]:
    """What is seen once something holds of it; a minute is far more than it takes."""
    end = time.monotonic() + 60
    while not asked(pool.workers()):
        assert time.monotonic() < end, pool.workers()
        time.sleep(0.02)
    return pool.workers()


def test_a_worker_is_seen_loading_then_ready_then_busy() -> None:
    pool = fake_pool("one")
    with LiveQueue[float, float](pool, cost=float) as live:
        assert pool.workers()[0].models == () or pool.workers()[0].state == "ready"
        (idle,) = until(pool, lambda seen: seen[0].state == "ready")
        assert (idle.device, idle.kind, idle.word) == ("one", "cpu", "cpu")
        assert idle.models
        assert idle.busy_since is None
        future = live.submit(1.0)
        (busy,) = until(pool, lambda seen: seen[0].busy_since is not None)
        assert busy.pid == idle.pid
        assert future.result(60) == 2.0
        until(pool, lambda seen: seen[0].busy_since is None)


def test_an_idle_worker_is_heard_again_and_again() -> None:
    pool = fake_pool("one")
    with LiveQueue[float, float](pool, cost=float):
        (first,) = until(pool, lambda seen: seen[0].state == "ready")
        until(pool, lambda seen: seen[0].last_seen > first.last_seen + 1.0)


@posix
def test_a_worker_that_is_killed_is_told_and_replaced() -> None:
    pool = fake_pool("one")
    with LiveQueue[float, float](pool, cost=float) as live:
        (first,) = until(pool, lambda seen: seen[0].state == "ready")
        os.kill(first.pid, signal.SIGKILL)
        seen = until(pool, lambda seen: [one.state for one in seen] == ["dead", "ready"])
        assert seen[0].pid == first.pid
        assert "SIGKILL" in seen[0].exit_reason or "9" in seen[0].exit_reason
        assert seen[1].pid != first.pid
        assert live.submit(0.01).result(60) == 0.02


@posix
def test_a_worker_that_is_stopped_falls_silent() -> None:
    pool = fake_pool("one")
    with LiveQueue[float, float](pool, cost=float):
        (first,) = until(pool, lambda seen: seen[0].state == "ready")
        os.kill(first.pid, signal.SIGSTOP)
        try:
            (seen,) = until(pool, lambda seen: time.monotonic() - seen[0].last_seen > 5)
            assert seen.state == "ready"
        finally:
            os.kill(first.pid, signal.SIGCONT)
        until(pool, lambda seen: time.monotonic() - seen[0].last_seen < 2)
