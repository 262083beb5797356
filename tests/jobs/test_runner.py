"""Working on a queue, in this process and in others that are killed or frozen."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, WorkError
from anyrig.jobs import (
    Job,
    JobNotFoundError,
    JobQueue,
    JobStopped,
    ReportEvent,
    StopSignal,
    run_jobs,
)
from anyrig.storage.keys import JsonValue
from tests.waiting import LONG_S, wait_until

needs_flock = pytest.mark.skipif(sys.platform == "win32", reason="the workers use flock")


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[JobQueue]:
    with JobQueue(tmp_path / "jobs.sqlite") as queue:
        yield queue


def echo(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
    report("progress", {"done": 0.5})
    return dict(job.arguments)


def run_until_stopped(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
    while not stop.wait(0.01):
        pass
    raise JobStopped


@pytest.fixture
def stop_runner(queue: JobQueue) -> Iterator[threading.Event]:
    """A thread runs jobs that take forever, until the event is set."""
    stop = threading.Event()
    thread = threading.Thread(
        target=run_jobs, args=(queue, run_until_stopped), kwargs={"stop": stop}
    )
    thread.start()
    yield stop
    stop.set()
    thread.join()


def states(queue: JobQueue, id: str) -> list[JsonValue]:
    return [event.data["state"] for event in queue.events(id) if event.kind == "state"]


def test_a_finished_job_and_its_events_are_kept(tmp_path: Path) -> None:
    now = 1_700_000_000.0
    path = tmp_path / "jobs.sqlite"
    with JobQueue(path, clock=lambda: now) as queue:
        job = queue.submit("echo", {"text": "héllo \udcff", "list": [1, None, True]})
        assert (job.state, job.attempts, job.created) == ("queued", 0, now)
        now += 5
        run_jobs(queue, echo, until_empty=True)
    with JobQueue(path) as later:
        done = later.get(job.id)
        assert (done.state, done.attempts, done.error) == ("done", 1, None)
        assert done.result == done.arguments == job.arguments
        assert done.progress == {"done": 0.5}
        assert (done.started, done.ended) == (now, now)
        events = list(later.events(job.id))
        assert [event.number for event in events] == [1, 2, 3, 4]
        assert [event.kind for event in events] == ["state", "state", "progress", "state"]
        assert list(later.events(job.id, after=3)) == events[3:]


def test_jobs_run_in_order_and_in_parallel(queue: JobQueue) -> None:
    order, now, most, lock = [], 0, 0, threading.Lock()
    together = threading.Barrier(3, timeout=60)

    def do(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
        nonlocal now, most
        with lock:
            order.append(job.arguments["n"])
            now += 1
            most = max(most, now)
        together.wait()
        with lock:
            now -= 1
        return None

    for n in range(9):
        queue.submit("count", {"n": n})
    run_jobs(queue, do, max_parallel=3, until_empty=True)
    assert sorted(map(str, order)) == list("012345678")
    assert order[0] in (0, 1, 2)
    assert most == 3
    assert {job.state for job in queue.list()} == {"done"}


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (WorkError("no voice", hint="Name one."), "no voice", "Name one."),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero", "the debug log"),
    ],
)
def test_a_failed_job_keeps_its_error_and_the_rest_goes_on(
    queue: JobQueue, error: Exception, message: str, hint: str
) -> None:
    def do(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
        if job.kind == "bad":
            raise error
        return None

    bad, good = queue.submit("bad", {}), queue.submit("good", {})
    run_jobs(queue, do, until_empty=True)
    failed = queue.get(bad.id)
    assert failed.state == "failed"
    assert failed.error is not None
    assert failed.error.message == message
    assert hint in failed.error.hint
    assert queue.get(good.id).state == "done"
    (*_, last) = queue.events(bad.id)
    assert last.data["error"] == message
    assert queue.resume(bad.id).error is None
    run_jobs(queue, echo, until_empty=True)
    assert (queue.get(bad.id).state, queue.get(bad.id).attempts) == ("done", 2)


def test_a_result_that_is_not_json_fails_the_job(queue: JobQueue) -> None:
    job = queue.submit("bad", {})
    run_jobs(queue, lambda job, report, stop: {"n": float("nan")}, until_empty=True)
    error = queue.get(job.id).error
    assert error is not None
    assert "JSON" in error.message


def test_pause_resume_and_cancel_reach_a_running_job(
    queue: JobQueue, stop_runner: threading.Event
) -> None:
    job = queue.submit("long", {})
    wait_until(lambda: queue.get(job.id).state == "running")
    with pytest.raises(InvalidInputError, match="running"):
        queue.delete(job.id)
    assert queue.pause(job.id).stop_request == "pause"
    wait_until(lambda: queue.get(job.id).state == "paused")
    assert queue.get(job.id).stop_request == ""
    queue.resume(job.id)
    wait_until(lambda: queue.get(job.id).state == "running")
    assert queue.cancel(job.id).stop_request == "cancel"
    assert queue.pause(job.id).stop_request == "cancel"
    wait_until(lambda: queue.get(job.id).state == "cancelled")
    assert states(queue, job.id) == [
        "queued", "running", "paused", "queued", "running", "cancelled"
    ]  # fmt: skip
    assert queue.get(job.id).attempts == 2
    queue.delete(job.id)
    with pytest.raises(JobNotFoundError):
        queue.get(job.id)


def test_a_queued_job_is_paused_and_cancelled_at_once(queue: JobQueue) -> None:
    job = queue.submit("long", {})
    assert queue.pause(job.id).state == "paused"
    run_jobs(queue, echo, until_empty=True)
    assert queue.get(job.id).state == "paused"
    assert queue.cancel(job.id).state == "cancelled"
    assert queue.cancel(job.id).state == "cancelled"
    with pytest.raises(InvalidInputError):
        queue.pause(job.id)
    assert queue.resume(job.id).state == "queued"
    run_jobs(queue, echo, until_empty=True)
    for change in (queue.pause, queue.resume, queue.cancel):
        with pytest.raises(InvalidInputError):
            change(job.id)


def test_a_runner_that_is_stopped_requeues_its_job(
    queue: JobQueue, stop_runner: threading.Event
) -> None:
    job = queue.submit("long", {})
    wait_until(lambda: queue.get(job.id).state == "running")
    stop_runner.set()
    wait_until(lambda: queue.get(job.id).state == "queued")
    run_jobs(queue, echo, until_empty=True)
    assert queue.get(job.id).state == "done"


def test_progress_is_thinned_out_and_the_last_is_kept(queue: JobQueue) -> None:
    def do(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
        for n in range(2000):
            report("progress", {"n": n})
        return None

    job = queue.submit("quick", {})
    run_jobs(queue, do, until_empty=True)
    events = [event for event in queue.events(job.id) if event.kind == "progress"]
    assert len(events) < 200
    assert events[0].data == {"n": 0}
    assert queue.get(job.id).progress == events[-1].data == {"n": 1999}


def test_events_are_followed_until_the_job_ends(
    queue: JobQueue, stop_runner: threading.Event
) -> None:
    job = queue.submit("long", {})
    found: list[JsonValue] = []

    def read() -> None:
        found.extend(event.data["state"] for event in queue.events(job.id, follow=True))

    reader = threading.Thread(target=read)
    reader.start()
    wait_until(lambda: "running" in found)
    queue.cancel(job.id)
    reader.join(LONG_S)
    assert found == ["queued", "running", "cancelled"]


@pytest.mark.parametrize("jump_s", [86_400.0, -86_400.0])
def test_a_clock_that_jumps_starts_no_running_job_again(tmp_path: Path, jump_s: float) -> None:
    """A laptop that slept, or a clock that was set: the jobs of this process still run."""
    offset_s, runs = 1_700_000_000.0, Counter[str]()
    jumped, end = threading.Event(), threading.Event()

    def do(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
        runs[job.id] += 1
        if job.kind == "long":
            assert end.wait(LONG_S)
        else:
            jumped.set()
        return None

    with JobQueue(tmp_path / "jobs.sqlite", clock=lambda: offset_s + time.monotonic()) as queue:
        job = queue.submit("long", {})
        runner = threading.Thread(
            target=run_jobs, args=(queue, do), kwargs={"max_parallel": 3, "until_empty": True}
        )
        runner.start()
        wait_until(lambda: runs[job.id] == 1)
        claimed = queue.list_heartbeats("")
        wait_until(lambda: queue.list_heartbeats("") != claimed)  # the next renewal is 3 s away
        offset_s += jump_s
        queue.submit("short", {})
        assert jumped.wait(LONG_S)
        wait_until(lambda: queue.get(job.id).state == "running")
        end.set()
        runner.join(LONG_S)
        assert (queue.get(job.id).state, queue.get(job.id).attempts) == ("done", 1)
    assert runs[job.id] == 1


# -- several processes -----------------------------------------------------------------------------


def start_worker(folder: Path) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("worker_process.py")
    return subprocess.Popen([sys.executable, str(script), str(folder / "jobs.sqlite"), str(folder)])


def finished(folder: Path) -> list[str]:
    return (folder / "log").read_text().split()


@needs_flock
def test_several_processes_share_a_queue(queue: JobQueue, tmp_path: Path) -> None:
    ids = [queue.submit("step", {"steps": 3, "processes": 2}).id for _ in range(24)]
    workers = [start_worker(tmp_path) for _ in range(3)]
    assert [worker.wait(LONG_S) for worker in workers] == [0, 0, 0]
    assert {(job.state, job.attempts) for job in queue.list()} == {("done", 1)}
    assert len({str(job.result) for job in queue.list()}) > 1
    assert sorted(finished(tmp_path)) == sorted(ids)
    assert not (tmp_path / "twice").exists()


@needs_flock
def test_killed_workers_lose_nothing(queue: JobQueue, tmp_path: Path) -> None:
    """Workers are killed at random and replaced; every job is done, by one at a time."""
    chance = random.Random(7)
    ids = [queue.submit("step", {"steps": 20}).id for _ in range(16)]
    workers = [start_worker(tmp_path) for _ in range(2)]
    for _ in range(6):
        time.sleep(chance.uniform(0.2, 0.8))
        victim = workers.pop(chance.randrange(len(workers)))
        victim.kill()
        victim.wait()
        workers.append(start_worker(tmp_path))
    assert [worker.wait(LONG_S) for worker in workers] == [0, 0]
    assert {job.state for job in queue.list()} == {"done"}
    assert set(finished(tmp_path)) == set(ids)
    assert not (tmp_path / "twice").exists()


@needs_flock
def test_a_frozen_worker_loses_its_job_and_does_not_finish_it(tmp_path: Path) -> None:
    with JobQueue(tmp_path / "jobs.sqlite") as queue:
        job = queue.submit("step", {"steps": 1, "until": "end"})
        first = start_worker(tmp_path)
        wait_until(lambda: queue.get(job.id).progress is not None)
        first.send_signal(signal.SIGSTOP)
        (tmp_path / "ahead").write_text("3600")
        second = start_worker(tmp_path)
        wait_until(lambda: queue.get(job.id).attempts >= 2)
        first.send_signal(signal.SIGCONT)
        wait_until((tmp_path / f"{first.pid}.stopped").exists)
        (tmp_path / "end").touch()
        assert (first.wait(LONG_S), second.wait(LONG_S)) == (0, 0)
        done = queue.get(job.id)
        assert (done.state, done.attempts) == ("done", 2)
        assert done.result == {"pid": second.pid}
    assert finished(tmp_path) == [job.id]
