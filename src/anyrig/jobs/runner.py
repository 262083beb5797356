"""Working on a queue: each job in a thread of its own, several at once, until told to stop.

One loop claims jobs, renews their leases, passes on requests to stop and records how they ended. A
file that cannot be written for a while costs nothing: what ended is recorded when it can be, and a
job whose lease could not be renewed in time stops by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from functools import partial

from anyrig.errors import (
    MORE_DETAILS,
    AnyrigError,
    InvalidInputError,
    StorageError,
)
from anyrig.jobs.job import (
    Job,
    JobFailure,
    JobHandler,
    JobKilledError,
    JobStopped,
    ReportEvent,
    StopSignal,
)
from anyrig.jobs.queue import JobOutcome, JobQueue, make_owner_name
from anyrig.storage.keys import JsonValue

log = logging.getLogger(__name__)
_BUSY_POLL_S, _IDLE_POLL_S = 0.1, 0.3
_RENEWALS_PER_LEASE = 5
_PROGRESS_INTERVAL_S = 0.5
_STOP_TIMEOUT_S = 10.0  # for the jobs that are told to stop at the end


def run_jobs(
    queue: JobQueue,
    handler: JobHandler,
    *,
    max_parallel: int = 1,
    until_empty: bool = False,
    stop: threading.Event | None = None,
) -> None:
    """Do what is queued, and what crashed workers left.

    Args:
        queue: the jobs.
        handler: does one job of any kind; called in a thread.
        max_parallel: how many run at once.
        until_empty: return when nothing is left to do; otherwise only when told to.
        stop: set it, and running jobs are stopped and queued again.
    """
    runner = _JobRunner(queue, handler, max_parallel)
    stop = stop or threading.Event()
    try:
        while not stop.is_set():
            busy = runner.step()
            if until_empty and not busy and runner.is_empty():
                return
            stop.wait(_BUSY_POLL_S if busy else _IDLE_POLL_S)
    finally:
        runner.shut_down()


class _RunningJob:
    """A job and the thread that does it."""

    def __init__(
        self, job: Job, handler: JobHandler, report_event: ReportEvent, lease_s: float
    ) -> None:
        self.job, self.outcome = job, JobOutcome()
        self.stop = StopSignal(lease_s)
        self._handler, self._report_event = handler, report_event
        self._progress: Mapping[str, JsonValue] | None = None
        self._next_progress = 0.0
        self.thread = threading.Thread(target=self._run, name=f"job {job.id}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.outcome = JobOutcome(self._handler(self.job, self._report, self.stop))
        except JobStopped:
            self.outcome = JobOutcome(stopped=True)
        except AnyrigError as error:
            failure = JobFailure(error.message, error.hint)
            self.outcome = JobOutcome(error=failure, killed=isinstance(error, JobKilledError))
        except Exception as error:  # noqa: BLE001 - whatever it is, the job failed and the rest goes on
            log.exception("job %s failed", self.job.id)
            message = f"{type(error).__name__}: {error}"
            self.outcome = JobOutcome(error=JobFailure(message, MORE_DETAILS))
        self._flush_progress()

    def _report(self, kind: str, data: Mapping[str, JsonValue]) -> None:
        if kind != "progress":
            self._flush_progress()
            self._write(kind, data)
            return
        self._progress = data
        if time.monotonic() >= self._next_progress:
            self._flush_progress()

    def _flush_progress(self) -> None:
        data, self._progress = self._progress, None
        if data is not None:
            self._next_progress = time.monotonic() + _PROGRESS_INTERVAL_S
            self._write("progress", data)

    def _write(self, kind: str, data: Mapping[str, JsonValue]) -> None:
        try:
            self._report_event(kind, data)
        except StorageError as error:  # the work itself is worth more than reports of it
            log.warning("cannot record the progress of job %s: %s", self.job.id, error.message)


class _JobRunner:
    def __init__(self, queue: JobQueue, handler: JobHandler, max_parallel: int) -> None:
        self._queue, self._handler, self._max_parallel = queue, handler, max_parallel
        self._owner = make_owner_name()
        self._running: dict[str, _RunningJob] = {}
        self._next_renewal = 0.0
        self._heartbeats: dict[str, float | None] = {}

    def step(self) -> bool:
        """One round; whether jobs are running. They outlast trouble with the file."""
        try:
            self._renew_leases()
            self._pass_on_stop_requests()
            self._record_finished()
            self._start_jobs()
        except StorageError as error:
            if not self._running:
                raise
            log.warning("%s", error.message)
            for running in self._running.values():
                if running.stop.lease_left_s <= 0 and not running.thread.is_alive():
                    raise  # it stopped by itself: the file has been unusable for too long
        return bool(self._running)

    def is_empty(self) -> bool:
        """Whether all that is left is done by others, who renew it."""
        now = self._queue.list_heartbeats(self._owner)
        self._heartbeats = {id: self._heartbeats.get(id, beat) for id, beat in now.items()}
        renewed = all(now[id] != self._heartbeats[id] for id in now)
        return renewed and not self._queue.has_work()

    def shut_down(self) -> None:
        """Stop what runs and queue it again."""
        for running in self._running.values():
            running.stop.set()
        end = time.monotonic() + _STOP_TIMEOUT_S
        for running in self._running.values():
            running.thread.join(max(0.0, end - time.monotonic()))
        try:
            self._record_finished()
        except StorageError as error:  # the lease expires, and another process takes the job
            log.warning("%s", error.message)

    def _renew_leases(self) -> None:
        now = time.monotonic()
        if not self._running or now < self._next_renewal:
            return
        owned = self._queue.renew(self._owner, self._running)
        self._next_renewal = now + self._queue.lease_s / _RENEWALS_PER_LEASE
        for id, running in self._running.items():
            if id in owned:
                running.stop.extend_lease(now + self._queue.lease_s)
            else:
                log.warning("job %s was taken over by another process", id)
                running.stop.set()

    def _pass_on_stop_requests(self) -> None:
        for id in self._queue.list_stop_requests(self._owner) if self._running else ():
            if id in self._running:
                self._running[id].stop.set()

    def _record_finished(self) -> None:
        for id, running in list(self._running.items()):
            if running.thread.is_alive():
                continue
            try:
                self._queue.finish(self._owner, id, running.outcome)
            except InvalidInputError as error:  # a result that is not JSON
                failed = JobOutcome(error=JobFailure(error.message, error.hint))
                self._queue.finish(self._owner, id, failed)
            del self._running[id]

    def _start_jobs(self) -> None:
        while len(self._running) < self._max_parallel:
            before = time.monotonic()
            job = self._queue.claim(self._owner)
            if job is None:
                return
            report_event = partial(self._queue.report_event, self._owner, job.id)
            lease_s = self._queue.lease_s - (time.monotonic() - before)
            self._running[job.id] = _RunningJob(job, self._handler, report_event, lease_s)
            renewal = before + self._queue.lease_s / _RENEWALS_PER_LEASE
            self._next_renewal = min(self._next_renewal, renewal)
