"""Takes that are being made: each is made once for everybody who wants it, and then cached.

What is made is stored before a `bulk` reading has it, whatever must still be made before it: a
process that is killed loses no more than its workers had in hand. Whoever listens has it at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from anyrig.backends.memory import trim_heap
from anyrig.errors import (
    AnyrigError,
    WorkError,
    error_from_dict,
    error_to_dict,
    is_disk_full,
    to_disk_full_error,
)
from anyrig.work.live import ItemFuture, Lane, LiveQueue

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.speech.engine import Utterance
    from anyrig.speech.quality import CheckedTake, StreamedSamples
    from anyrig.speech.takes import TakeCache

log = logging.getLogger(__name__)
_TRIM_EVERY = 256  # segments: memory that audio leaves behind is given back to the system


class TakeJobs:
    """Has takes made by a queue, and stores them.

    Args:
        takes: where they are stored.
        open_queue: called when the first is requested.
    """

    def __init__(
        self, takes: TakeCache, open_queue: Callable[[], LiveQueue[Utterance, CheckedTake]]
    ) -> None:
        self.takes, self._open_queue = takes, open_queue
        self.by_key: dict[str, _TakeJob] = {}
        """What is being made, or waits to be stored."""
        self._lock = threading.RLock()
        self._queue: LiveQueue[Utterance, CheckedTake] | None = None
        self._num_requested = 0
        self._storing = ThreadPoolExecutor(1, thread_name_prefix="anyrig-takes")

    @property
    def has_queue(self) -> bool:
        return self._queue is not None

    @property
    def queue(self) -> LiveQueue[Utterance, CheckedTake]:
        with self._lock:
            if self._queue is None:
                self._queue = self._open_queue()
            return self._queue

    def close(self) -> None:
        """End the queue, if there is one, and store what is made."""
        if self._queue is not None:
            self._queue.close()
        self._storing.shutdown(wait=True)

    def request(
        self, utterance: Utterance, key: str, reader: TakeReader, number: int, num_retakes: int = 0
    ) -> Ticket:
        """Have a take made, unless it is being made for somebody else: then share it.

        Args:
            utterance: what to speak.
            key: of the take in the cache.
            reader: for whom it is.
            number: of the segment in the reader's text.
            num_retakes: how often it was made again on request.
        """
        self._num_requested += 1  # by several threads: it need not be exact
        if self._num_requested % _TRIM_EVERY == 0:
            trim_heap()
        deadline = None if reader.wait_s is None else time.monotonic() + reader.wait_s
        mine: Future[CheckedTake] = Future()
        with self._lock:
            job = self.by_key.get(key)
            if job is None:
                streamed = StreamedTake() if reader.streams else None
                submit = partial(
                    self.queue.submit, utterance, client=reader.client,
                    on_part=streamed.add if streamed is not None else None,
                )  # fmt: skip
                job = _TakeJob(
                    submit, key, reader.lane, number, reader.fresh, num_retakes, streamed=streamed
                )
                job.waiting.append((reader.lane, mine))
                job.future = submit(
                    lane=reader.lane, priority=number, deadline=deadline, admitted=number > 0
                )
                self.by_key[key] = job
            elif job.checked is not None:
                mine.set_result(job.checked)
                return Ticket(key, mine, job)
            else:
                job.waiting.append((reader.lane, mine))
                if not self._move_forward(job, reader.lane, number, deadline):
                    return Ticket(key, mine, job)
            future = job.future
        future.add_done_callback(lambda done: self._finish(job, done))
        return Ticket(key, mine, job)

    def _move_forward(
        self, job: _TakeJob, lane: Lane, priority: float, deadline: float | None
    ) -> bool:
        """Whether a take that still waits was moved to the front for another who wants it.

        One that is only wanted for longer keeps its place: requested again and again, it would
        never be made.
        """
        before = job.future.deadline
        if before is not None and (deadline is None or deadline > before):
            job.future.deadline = before = deadline
        sooner = (lane != "live", priority) < (job.lane != "live", job.priority)
        if not sooner or not job.future.cancel():
            return False
        job.lane, job.priority = lane, priority
        try:
            job.future = job.submit(lane=lane, priority=priority, deadline=before, admitted=True)
        except AnyrigError as error:  # closed: nobody may be left waiting
            job.future = ItemFuture()
            job.future.set_exception(error)
        return True

    def leave(self, ticket: Ticket) -> None:
        """Somebody does not want a take any more; one that nobody wants is not begun."""
        if ticket.future is None or ticket.job is None:
            return
        ticket.future.cancel()
        job = ticket.job
        with self._lock:
            job.waiting = [one for one in job.waiting if one[1] is not ticket.future]
            if not job.waiting and job.checked is None and job.future.cancel():
                self._forget(job)

    def _finish(self, job: _TakeJob, done: Future[CheckedTake]) -> None:
        """A take is made, or was given up; called by the thread that hears the workers."""
        if done.cancelled():  # requested again, or nobody wants it
            return
        error = done.exception()
        with self._lock:
            waiting, job.waiting = job.waiting, []
            job.device = job.future.device
            if error is not None:
                self._forget(job)
            else:
                job.checked = done.result()
        if error is not None:
            _fail(waiting, error)
            return
        _answer([one for one in waiting if one[0] == "live"], done.result())
        rest = [one for one in waiting if one[0] != "live"]
        try:
            self._storing.submit(self._store, job, done.result(), rest)
        except RuntimeError:  # it is being closed
            log.info("a take was made too late to be cached")
            _answer(rest, done.result())

    def _store(
        self,
        job: _TakeJob,
        checked: CheckedTake,
        waiting: Sequence[tuple[Lane, Future[CheckedTake]]],
    ) -> None:
        failure: Exception | None = None
        try:
            self.takes.store(job.key, checked, replace=job.replace, num_retakes=job.num_retakes)
        except Exception as error:  # noqa: BLE001 - raised where the take is wanted
            failure = error
            if not waiting:
                log.warning("a take is not cached: %s", error)
        with self._lock:  # until now others were given it from here
            self._forget(job)
        if failure is not None:
            _fail(waiting, failure)
        else:
            _answer(waiting, checked)

    def _forget(self, job: _TakeJob) -> None:
        if self.by_key.get(job.key) is job:
            del self.by_key[job.key]


def _answer(waiting: Sequence[tuple[Lane, Future[CheckedTake]]], checked: CheckedTake) -> None:
    for _, mine in waiting:
        if mine.set_running_or_notify_cancel():
            mine.set_result(checked)


def _fail(waiting: Sequence[tuple[Lane, Future[CheckedTake]]], error: BaseException) -> None:
    """An error of its own for each: one exception must not be raised in several threads."""
    for _, mine in waiting:
        if not mine.set_running_or_notify_cancel():
            continue
        if is_disk_full(error):
            mine.set_exception(to_disk_full_error(error))
        elif isinstance(error, AnyrigError):
            mine.set_exception(error_from_dict(error_to_dict(error)))
        else:
            problem = f"{type(error).__name__}: {error}"
            mine.set_exception(WorkError(problem, hint="See the log."))


@dataclass(frozen=True)
class TakeReader:
    """For whom takes are made: one text on its way to one reader."""

    lane: Lane
    client: str = ""
    streams: bool = False
    """Whether parts of a take are given while the rest is made."""
    fresh: bool = False
    """Whether what is made replaces what is cached."""
    wait_s: float | None = None
    """How long a take may wait for its turn."""


@dataclass(eq=False)
class _TakeJob:
    """A take that is being made, or waits to be, and everybody who wants it."""

    submit: Callable[..., ItemFuture[CheckedTake]]
    """Puts it into the queue: lane, priority, deadline, admitted."""
    key: str
    lane: Lane
    priority: float
    replace: bool
    num_retakes: int
    future: ItemFuture[CheckedTake] = field(default_factory=ItemFuture)
    waiting: list[tuple[Lane, Future[CheckedTake]]] = field(default_factory=list)
    streamed: StreamedTake | None = None
    checked: CheckedTake | None = None
    """Once it is made, until it is cached."""
    device: str = ""


@dataclass(eq=False)
class Ticket:
    """A take that a reading requested. Without a future it is in the cache."""

    key: str
    future: Future[CheckedTake] | None = None
    job: _TakeJob | None = None
    taken: bool = False
    """Whether a segment has it; the same words may come again."""


class StreamedTake:
    """The audio of a take that is not whole yet, from the worker that makes it.

    A take that is made again (its worker died) is sent from its beginning: what is there already is
    skipped, so that nothing is heard twice.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: list[Samples] = []
        self._length = 0
        self._listeners: list[Callable[[], None]] = []

    def add(self, part: StreamedSamples) -> None:
        with self._lock:
            known = self._length - part.start
            if not 0 <= known < len(part.samples):
                return
            self._parts.append(part.samples[known:])
            self._length += len(part.samples) - known
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def call_when_longer(self, length: int, listener: Callable[[], None]) -> None:
        """Call once there is more than `length` samples; at once if there is."""
        with self._lock:
            if self._length <= length:
                self._listeners.append(listener)
                return
        listener()

    def read_from(self, start: int) -> Samples:
        import numpy as np

        with self._lock:
            parts = list(self._parts)
        return np.concatenate(parts)[start:]
