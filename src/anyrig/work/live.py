"""Requests over time: items of many threads are computed together and answered one by one.

    with LiveQueue(pool, cost=len) as live:
        future = live.submit("a sentence", lane="live")

Waiting items are taken in order of lane, then priority, then arrival, and only when a worker is
about to be free, so that a live item overtakes all waiting bulk work. Within a lane clients take
turns (`FairQueue`). `submit` returns a future of
`concurrent.futures`; `asyncio.wrap_future` makes it awaitable. An item that is cancelled before its
turn costs nothing; one whose deadline passes before its computation starts fails at once, with
`OverloadedError`.
"""

from __future__ import annotations

import heapq
import logging
import math
import queue
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from anyrig.errors import (
    MORE_DETAILS,
    AnyrigError,
    InvalidInputError,
    Message,
    OutOfMemoryError,
    OverloadedError,
    PoisonItemError,
    WorkError,
    WorkersLostError,
    error_from_dict,
    error_to_dict,
    is_disk_full,
    to_disk_full_error,
)
from anyrig.work.batching import ItemStream, WorkItem, check_cost
from anyrig.work.fair import FairQueue
from anyrig.work.outcome import ItemFailure, ItemOutcome, OutcomeQueue, RunReport

if TYPE_CHECKING:
    from anyrig.work.pool import WorkerPool
    from anyrig.work.protocol import WorkerStatus

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
Lane = Literal["live", "bulk"]
LANES: tuple[Lane, ...] = ("live", "bulk")
MAX_WAITING = 10_000
_LIVE_PER_BULK = 15
"""So many live items before one of waiting bulk work: a stream of them must not block it."""
_MIN_CANCELLED = 256
"""Fewer cancelled items than this stay in the heap until their turn."""
_EXPIRED = ItemFailure("error", "the deadline passed while the item was waiting", 0)


class ItemFuture(Future[R]):
    deadline: float | None = None
    """By the clock; may be extended while the item waits, and it keeps its turn."""
    began: float | None = None
    """By the clock: when a worker started to compute it."""
    device: str = ""
    """Id of the device that computed it; of a cluster, name of the worker."""


@dataclass(eq=False)
class _PendingItem(Generic[T, R]):
    payload: T
    cost: float
    lane: Lane
    client: str
    on_part: Callable[[Any], None] | None = None
    future: ItemFuture[R] = field(default_factory=ItemFuture)
    index: int | None = None
    """Set when the pool takes it."""


class LiveQueue(ItemStream, Generic[T, R]):
    """Feeds items of many threads to one pool, for as long as it is open.

    Args:
        pool: used by this queue alone, and closed with it.
        cost: of an item, as in `WorkerPool.run`.
        max_in_flight: items the pool may hold at once; twice its workers if 0. More fills batches
            on a GPU, fewer let a live item overtake sooner.
        follow_pool: hold more where a pool of remote workers needs it to keep them busy.
        max_waiting: per lane; beyond it `OverloadedError` is raised.
        client_share: how much of `max_waiting` one client may use.
        report: is filled while it runs.
        clock: monotonic seconds; deadlines use this clock.
    """

    def __init__(
        self,
        pool: WorkerPool,
        *,
        cost: Callable[[T], float],
        max_in_flight: int = 0,
        follow_pool: bool = False,
        max_waiting: int = MAX_WAITING,
        client_share: float = 1.0,
        report: RunReport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pool, self._cost, self._clock = pool, cost, clock
        self._max_in_flight = max_in_flight or max(2, 2 * pool.size)
        self._follow_pool, self._max_waiting = follow_pool, max_waiting
        self._max_client_waiting = max(1, int(client_share * max_waiting))
        self.report = report if report is not None else RunReport()
        self._lock = threading.Lock()
        """Guards all that follows."""
        self._queues: dict[Lane, FairQueue[_PendingItem[T, R]]] = {
            lane: FairQueue() for lane in LANES
        }
        self._counts: dict[Lane, Counter[str]] = {lane: Counter() for lane in LANES}
        """Waiting items by client; cancelled ones stay in their queue for a while and do not
        count."""
        self._deadlines: list[tuple[float, int, weakref.ref[_PendingItem[T, R]]]] = []
        """By deadline, as they were when the item was submitted or last looked at. Weak: a finished
        item, with its payload and its error, must not stay until its deadline."""
        self._in_flight: dict[int, _PendingItem[T, R]] = {}
        self._num_submitted = self._num_taken = self._live_in_a_row = 0
        self._error: BaseException | None = None
        self._closed = False
        self._ready: OutcomeQueue[R] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._answer_all, name="anyrig-live", daemon=True)
        self._thread.start()

    def __enter__(self) -> LiveQueue[T, R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(
        self,
        payload: T,
        *,
        lane: Lane = "live",
        priority: float = 0.0,
        deadline: float | None = None,
        admitted: bool = False,
        client: str = "",
        on_part: Callable[[Any], None] | None = None,
    ) -> ItemFuture[R]:
        """A future of the item's result.

        Args:
            payload: the item.
            lane: `live` if a person waits.
            priority: lower ones of a client come first: the number of a sentence in its text, say,
                so that the first sentence of every text comes before the second of any.
            deadline: by the clock; an item that was not started by then fails.
            admitted: it belongs to a request that was accepted before, and is not refused now.
            client: for whom it is; without one, only the limit of all applies.
            on_part: called, by a thread that must not wait, with each part of the result that is
                there before the result; if the item is tried again, with some of them twice.
        """
        cost = check_cost(self._cost(payload), self._num_submitted)
        request: _PendingItem[T, R] = _PendingItem(payload, cost, lane, client, on_part)
        request.future.deadline = deadline
        with self._lock:
            self._check(lane, client, admitted)
            self._queues[lane].push(request, client=client, priority=priority, cost=cost)
            if deadline is not None:
                entry = (deadline, self._num_submitted, weakref.ref(request))
                heapq.heappush(self._deadlines, entry)
            self._counts[lane][client] += 1
            self._num_submitted += 1
        self.pool.wake()
        request.future.add_done_callback(lambda future: self._remove_cancelled(future, request))
        return request.future

    def waiting(self, lane: Lane) -> int:
        with self._lock:
            return self._counts[lane].total()

    @property
    def running(self) -> int:
        """How many items the pool holds."""
        with self._lock:
            return len(self._in_flight)

    @property
    def is_open(self) -> bool:
        """Whether items are accepted; not after its pool has failed as a whole."""
        return not self._closed and self._error is None

    def workers(self) -> tuple[WorkerStatus, ...]:
        return self.pool.workers()

    def close(self) -> None:
        """End the workers; whatever waits fails."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.pool.close()
        self._thread.join(timeout=10)
        self._fail_all(_closed_error())

    def _check(self, lane: Lane, client: str, admitted: bool) -> None:
        if self._closed:
            raise _closed_error()
        if self._error is not None:
            raise _copy_error(self._error)
        if lane not in LANES:
            raise InvalidInputError(f"unknown lane {lane!r}", hint="Use live or bulk.")
        if admitted:
            return
        if self._counts[lane].total() >= self._max_waiting:
            raise OverloadedError(
                f"{self._max_waiting} items are waiting already", hint="Try again in a moment."
            )
        if client and self._counts[lane][client] >= self._max_client_waiting:
            raise OverloadedError(
                f"{self._max_client_waiting} items of this client are waiting already",
                hint="Try again in a moment.",
            )

    def _remove_cancelled(self, future: Future[R], request: _PendingItem[T, R]) -> None:
        """Do not count a cancelled item, and clear the queue once most of it is cancelled."""
        if not future.cancelled():
            return
        with self._lock:
            self._count_down(request)
            waiting = self._queues[request.lane]
            if len(waiting) < 2 * self._counts[request.lane].total() + _MIN_CANCELLED:
                return
            cancelled = {one for one in waiting if one.future.cancelled()}
            waiting.remove(cancelled)
        for one in cancelled:
            one.future.set_running_or_notify_cancel()

    def _count_down(self, request: _PendingItem[T, R]) -> None:
        counts = self._counts[request.lane]
        counts[request.client] -= 1
        if counts[request.client] <= 0:
            del counts[request.client]

    # -- feeding the pool: the reader of a `DispatchLoop` ----------------------------------------

    ended = False
    error: BaseException | None = None

    def take(self, *, wait: bool) -> Iterator[WorkItem[T]]:
        """Waiting items, the next one whenever the pool has room.

        Not before: an item that is taken cannot be cancelled or overtaken any more.
        """
        while (taken := self._take_one()) is not None:
            index, request = taken
            yield WorkItem(self.first + index, request.payload, request.cost, request.on_part)

    def record_part(self, index: int, part: Any) -> None:
        with self._lock:
            request = self._in_flight.get(index - self.first)
        if request is not None and request.on_part is not None:
            request.on_part(part)

    def record_started(self, indices: Iterable[int]) -> None:
        now = self._clock()
        with self._lock:
            for index in indices:
                request = self._in_flight.get(index - self.first)
                if request is not None and request.future.began is None:
                    request.future.began = now

    @property
    def deadline_in_s(self) -> float:
        with self._lock:
            return self._deadlines[0][0] - self._clock() if self._deadlines else math.inf

    def take_expired(self) -> list[int]:
        """Have late items fail; the indices of those that the pool has."""
        taken = []
        for request in self._pop_late():
            if request.index is None:
                if not request.future.set_running_or_notify_cancel():
                    continue
                with self._lock:
                    self._admit(request)
            else:
                taken.append(self.first + request.index)
            assert request.index is not None
            self._ready.put(ItemOutcome(request.index, failure=_EXPIRED))
        return taken

    def _pop_late(self) -> list[_PendingItem[T, R]]:
        """Items that have not started and whose deadline has passed; none is waiting any more."""
        now, late = self._clock(), set()
        with self._lock:
            while self._deadlines and self._deadlines[0][0] <= now:
                _, number, reference = heapq.heappop(self._deadlines)
                request = reference()
                if request is None:
                    continue
                future = request.future
                if future.done() or future.began is not None or future.deadline is None:
                    continue
                if future.deadline > now:  # extended
                    heapq.heappush(self._deadlines, (future.deadline, number, reference))
                else:
                    late.add(request)
            for lane in {request.lane for request in late if request.index is None}:
                self._queues[lane].remove(late)
        return list(late)

    def _admit(self, request: _PendingItem[T, R]) -> int:
        """Number an item that does not wait any more."""
        self._count_down(request)
        request.index = self._num_taken
        self._in_flight[request.index] = request
        self._num_taken += 1
        return request.index

    def _take_one(self) -> tuple[int, _PendingItem[T, R]] | None:
        with self._lock:
            live, bulk = self._queues["live"], self._queues["bulk"]
            capacity = max(self._max_in_flight, self.pool.look_ahead if self._follow_pool else 0)
            while len(self._in_flight) < capacity and (live or bulk):
                from_live = bool(live) and not (bulk and self._live_in_a_row >= _LIVE_PER_BULK)
                waiting = live if from_live else bulk
                request = waiting.pop()
                if not request.future.set_running_or_notify_cancel():
                    waiting.refund(request.client, request.cost)
                    continue  # it uses up no turn of its lane
                self._live_in_a_row = self._live_in_a_row + 1 if from_live else 0
                return self._admit(request), request
        return None

    def _answer_all(self) -> None:
        error: BaseException = _closed_error()
        try:
            self.first = self.pool.reserve_indices()
            for outcome in self.pool.dispatch(self, self._ready, self.report):
                self._answer(outcome)
        except BaseException as raised:  # noqa: BLE001 - every waiting future fails with it
            error = raised
            if not self._closed:
                log.warning("a pool failed: %s", raised)
        with self._lock:
            self._error = error
        self._fail_all(error)

    def _answer(self, outcome: ItemOutcome[Any]) -> None:
        with self._lock:
            request = self._in_flight.pop(outcome.index, None)
        self.pool.wake()
        if request is None:
            return
        request.future.device = outcome.device
        if outcome.failure is not None:
            request.future.set_exception(_failure_to_error(outcome.failure))
        else:
            request.future.set_result(outcome.result)  # type: ignore[arg-type]

    def _fail_all(self, error: BaseException) -> None:
        with self._lock:
            left = list(self._in_flight.values())
            left += [request for waiting in self._queues.values() for request in waiting]
            self._in_flight.clear()
            self._deadlines.clear()
            for lane in LANES:
                self._queues[lane].clear()
                self._counts[lane].clear()
        for request in left:
            if request.future.running() or request.future.set_running_or_notify_cancel():
                request.future.set_exception(_copy_error(error))


def _failure_to_error(failure: ItemFailure) -> AnyrigError:
    if failure is _EXPIRED:
        return OverloadedError(failure.message, hint="Try again when there is less load.")
    kinds: dict[str, type[AnyrigError]] = {"memory": OutOfMemoryError, "crash": PoisonItemError}
    kind = kinds.get(failure.kind, WorkError)
    hint = failure.hint or Message("Check the input. {more}", more=MORE_DETAILS)
    return kind(failure.message, hint=hint)


def _copy_error(error: BaseException) -> AnyrigError:
    """A new error for each future: one exception object must not be raised in several threads."""
    if is_disk_full(error):
        return to_disk_full_error(error)
    if not isinstance(error, AnyrigError):
        return WorkersLostError(f"{type(error).__name__}: {error}", hint=MORE_DETAILS)
    if type(error) is WorkError:
        return WorkersLostError(error.message, hint=error.hint)
    return error_from_dict(error_to_dict(error))


def _closed_error() -> WorkersLostError:
    return WorkersLostError("the queue is closing and accepts no items", hint="Try again later.")
