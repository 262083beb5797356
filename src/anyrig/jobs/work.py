"""Working the queue: each job in a thread of its own, so many at once, until told to stop.

One loop takes jobs, renews their leases, passes on what is asked of them and writes down how they
ended. A file that cannot be written for a while costs nothing: what ended is written when it can
be, and a job whose lease could not be renewed in time stops by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from anyrig.errors import AnyrigError, InvalidInputError, StorageError
from anyrig.jobs.job import Job, Plain, Run, Stop, Stopped, Trouble
from anyrig.jobs.lease import Leases, Outcome
from anyrig.jobs.local import LocalJobs

log = logging.getLogger(__name__)
_TICK_S, _IDLE_S = 0.1, 0.3
_BEATS = 5  # in each lease
_TELL_S = 0.5
_LEAVE_S = 10.0  # how long those who are told to stop at the end are waited for


def work(
    jobs: LocalJobs,
    run: Run,
    *,
    num_at_once: int = 1,
    until_empty: bool = False,
    stop: threading.Event | None = None,
) -> None:
    """Do what is queued, and what was left by those who died.

    Args:
        jobs: the queue.
        run: does one job.
        num_at_once: how many run side by side.
        until_empty: return when nothing is left to do; else only when told to.
        stop: set it, and running jobs are stopped and queued again for the next.
    """
    desk = _Desk(jobs, run, num_at_once)
    told = stop or threading.Event()
    try:
        while not told.is_set():
            busy = desk.tick()
            if until_empty and not busy and desk.nothing_left():
                return
            told.wait(_TICK_S if busy else _IDLE_S)
    finally:
        desk.leave()


class _Running:
    """A job and the thread that does it."""

    def __init__(self, job: Job, run: Run, leases: Leases, held_s: float) -> None:
        self.job, self.outcome = job, Outcome()
        self.stop = Stop(held_s)
        self._run, self._leases = run, leases
        self._last: Mapping[str, Plain] | None = None
        self._next = 0.0
        self._thread = threading.Thread(target=self._do, name=f"job {job.id}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def _do(self) -> None:
        try:
            result = self._run(self.job, self._tell, self.stop)
            self.outcome = Outcome(result=result)
        except Stopped:
            self.outcome = Outcome(stopped=True)
        except AnyrigError as error:
            self.outcome = Outcome(trouble=Trouble(error.message, error.hint))
        except Exception as error:  # noqa: BLE001 - whatever it is, the job failed and the rest goes on
            log.exception("job %s failed", self.job.id)
            said = f"{type(error).__name__}: {error}"
            self.outcome = Outcome(trouble=Trouble(said, "The log says more (-vv, --log-file)."))
        self.flush()

    def _tell(self, kind: str, data: Mapping[str, Plain]) -> None:
        if kind == "progress":
            self._last = data
            if time.monotonic() >= self._next:
                self.flush()
            return
        self.flush()
        self._write(kind, data)

    def flush(self) -> None:
        """Write the last progress, if it was held back."""
        data, self._last = self._last, None
        if data is not None:
            self._next = time.monotonic() + _TELL_S
            self._write("progress", data)

    def _write(self, kind: str, data: Mapping[str, Plain]) -> None:
        try:
            self._leases.tell(self.job.id, kind, data)
        except StorageError as error:  # the work itself is worth more than word of it
            log.warning("progress of job %s is not kept: %s", self.job.id, error.message)


class _Desk:
    """What one worker has in hand."""

    def __init__(self, jobs: LocalJobs, run: Run, num_at_once: int) -> None:
        self._jobs, self._run, self._most = jobs, run, num_at_once
        self._leases = Leases(jobs)
        self._running: dict[str, _Running] = {}
        self._next_beat = 0.0
        self._seen: dict[str, float] = {}

    def tick(self) -> bool:
        """One round; whether anything is in hand. Work outlasts trouble with the file."""
        try:
            self._beat()
            self._pass_on()
            self._put_away()
            self._take()
        except StorageError as error:
            if not self._running:
                raise
            log.warning("%s", error.message)
            for running in self._running.values():
                if running.stop.held_s <= 0 and not running.alive:
                    raise  # it stopped by itself: the file has been away for too long
        return bool(self._running)

    def nothing_left(self) -> bool:
        """Whether others do all that is left, and are seen to live."""
        now = self._leases.others()
        self._seen = {id: self._seen.get(id, beat) for id, beat in now.items()}
        return not self._leases.waiting() and all(now[id] != self._seen[id] for id in now)

    def leave(self) -> None:
        """Stop what runs and hand it back."""
        for running in self._running.values():
            running.stop.ask()
        end = time.monotonic() + _LEAVE_S
        for running in self._running.values():
            running.join(max(0.0, end - time.monotonic()))
        try:
            self._put_away()
        except StorageError as error:  # the lease runs out, and another takes it
            log.warning("%s", error.message)

    def _beat(self) -> None:
        now = time.monotonic()
        if not self._running or now < self._next_beat:
            return
        ours = self._leases.beat(set(self._running))
        self._next_beat = now + self._jobs.lease_s / _BEATS
        for id, running in self._running.items():
            if id in ours:
                running.stop.hold(now + self._jobs.lease_s)
            else:
                log.warning("job %s has passed to another process", id)
                running.stop.ask()

    def _pass_on(self) -> None:
        for id, wish in self._leases.wishes().items() if self._running else ():
            if wish and id in self._running:
                self._running[id].stop.ask()

    def _put_away(self) -> None:
        for id, running in list(self._running.items()):
            if running.alive:
                continue
            try:
                self._leases.end(id, running.outcome)
            except InvalidInputError as error:  # a result that JSON cannot hold
                self._leases.end(id, Outcome(trouble=Trouble(error.message, error.hint)))
            del self._running[id]

    def _take(self) -> None:
        while len(self._running) < self._most:
            before = time.monotonic()
            job = self._leases.claim()
            if job is None:
                return
            held_s = self._jobs.lease_s - (time.monotonic() - before)
            self._running[job.id] = _Running(job, self._run, self._leases, held_s)
            self._next_beat = min(self._next_beat, before + self._jobs.lease_s / _BEATS)
