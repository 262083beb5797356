"""A counter for many at once: items come at any time, are worked on together, answered one by one.

    with Live(pool, cost=len) as live:
        future = live.submit("a sentence", lane="live")

What waits is taken in order of lane, then turn, then arrival, and only when a worker is about to be
free, so that a live item passes whatever bulk work still waits. `submit` answers with a future of
`concurrent.futures`; `asyncio.wrap_future` makes it awaitable. One that is cancelled before its
turn costs nothing; one whose deadline passes while it waits is answered with `OverloadedError`.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    OutOfMemoryError,
    OverloadedError,
    WorkError,
    WorkersLostError,
    is_disk_full,
    to_disk_full_error,
)
from anyrig.errors import PoisonItemError as PoisonItemError  # known by this name here too
from anyrig.work.outcome import Report

if TYPE_CHECKING:
    from anyrig.work.crew import Crew
    from anyrig.work.outcome import Failure, Outcome
    from anyrig.work.seen import Seen

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
Lane = Literal["live", "bulk"]
LANES: tuple[Lane, ...] = ("live", "bulk")
MOST_WAITING = 10_000
_IN_A_ROW = 15
"""So many live items before one of bulk work that waits: a stream of them must not stop it."""

_SWEPT = 256
"""Fewer cancelled items than this are left to be met in their turn."""


class Awaited(Future[R]):
    """A future of an item's result."""

    deadline: float | None = None
    """By the clock; may be changed while the item waits, and it keeps its place."""
    began: float | None = None
    """By the clock: when its turn came."""


@dataclass(eq=False)
class _Waiting(Generic[T, R]):
    payload: T
    lane: Lane
    future: Awaited[R] = field(default_factory=Awaited)


class Live(Generic[T, R]):
    """Takes items of many threads to one pool, for as long as it is open.

    Args:
        pool: it works for this alone; closed with it.
        cost: what an item costs, as in `Pool.run`.
        ahead: items the pool may hold at once; twice its workers when 0. More fills batches on a
            GPU, fewer let a live item pass sooner.
        most_waiting: of a lane; over it `OverloadedError` is raised.
        report: is filled with figures while it runs.
        clock: seconds that only go forward; deadlines are of it.
    """

    def __init__(
        self,
        pool: Crew,
        *,
        cost: Callable[[T], float],
        ahead: int = 0,
        most_waiting: int = MOST_WAITING,
        report: Report | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool, self._cost, self._clock = pool, cost, clock
        self._ahead = ahead or max(2, 2 * pool.size)
        self._most_waiting = most_waiting
        self.report = report if report is not None else Report()
        self._come = threading.Condition()
        """Its lock is for all that follows."""
        self._heaps: dict[Lane, list[tuple[float, int, _Waiting[T, R]]]] = {n: [] for n in LANES}
        self._counts: dict[Lane, int] = dict.fromkeys(LANES, 0)
        """Of what waits; what was cancelled stays in its heap for a while and is not counted."""
        self._running: dict[int, _Waiting[T, R]] = {}
        self._number = self._taken = self._in_a_row = 0
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="anyrig-live", daemon=True)
        self._thread.start()

    def __enter__(self) -> Live[T, R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- asking ------------------------------------------------------------------------------------

    def submit(
        self,
        payload: T,
        *,
        lane: Lane = "live",
        turn: float = 0.0,
        deadline: float | None = None,
        admitted: bool = False,
    ) -> Awaited[R]:
        """A future of the item's result.

        Args:
            payload: the item.
            lane: `live` where a person waits.
            turn: lower ones of a lane come first: the number of a sentence in its text, say, so
                that everybody's first sentence comes before anybody's second.
            deadline: by the clock; what still waits then is not worth doing.
            admitted: it belongs to something that was taken before, and is not refused now.
        """
        waiting: _Waiting[T, R] = _Waiting(payload, lane)
        waiting.future.deadline = deadline
        with self._come:
            self._check(lane, admitted)
            heapq.heappush(self._heaps[lane], (turn, self._number, waiting))
            self._counts[lane] += 1
            self._number += 1
            self._come.notify()
        waiting.future.add_done_callback(lambda future: self._cancelled(future, lane))
        return waiting.future

    def waiting(self, lane: Lane) -> int:
        """How many items of a lane wait."""
        with self._come:
            return self._counts[lane]

    @property
    def running(self) -> int:
        """How many items the pool holds."""
        with self._come:
            return len(self._running)

    @property
    def open(self) -> bool:
        """Whether items are taken; not after its pool has failed as a whole."""
        return not self._closed and self._error is None

    def workers(self) -> tuple[Seen, ...]:
        """Who works, as last seen; asks nobody."""
        return self._pool.workers()

    @property
    def pool(self) -> Crew:
        """Who works."""
        return self._pool

    def close(self) -> None:
        """End the workers; whatever waits is answered with an error."""
        with self._come:
            if self._closed:
                return
            self._closed = True
            self._come.notify_all()
        self._pool.close()
        self._thread.join(timeout=10)
        self._refuse(_closed())

    def _check(self, lane: Lane, admitted: bool) -> None:
        if self._closed:
            raise _closed()
        if self._error is not None:
            raise _told(self._error)
        if lane not in LANES:
            raise InvalidInputError(f"there is no lane {lane!r}", hint="live or bulk.")
        if not admitted and self._counts[lane] >= self._most_waiting:
            raise OverloadedError(
                f"{self._most_waiting} items wait already", hint="Try again in a moment."
            )

    def _cancelled(self, future: Future[R], lane: Lane) -> None:
        """Count what was cancelled no more, and clear it away once it is most of what is there."""
        if not future.cancelled():
            return
        with self._come:
            self._counts[lane] = max(0, self._counts[lane] - 1)
            heap = self._heaps[lane]
            if len(heap) < 2 * self._counts[lane] + _SWEPT:
                return
            stay: list[tuple[float, int, _Waiting[T, R]]] = []
            gone: list[tuple[float, int, _Waiting[T, R]]] = []
            for entry in heap:
                (gone if entry[2].future.cancelled() else stay).append(entry)
            heap[:] = stay
            heapq.heapify(heap)
        for *_, waiting in gone:
            waiting.future.set_running_or_notify_cancel()

    # -- the pool's side ---------------------------------------------------------------------------

    def _work(self) -> None:
        error: BaseException = _closed()
        try:
            for _ in self._pool.run(
                self._items(), cost=self._cost, look_ahead=self._ahead, report=self.report,
                noted=self._answer, ordered=False,
            ):  # fmt: skip
                pass
        except BaseException as raised:  # noqa: BLE001 - told to everybody who waits
            error = raised
            if not self._closed:
                log.warning("a pool failed: %s", raised)
        with self._come:
            self._error = error
        self._refuse(error)

    def _items(self) -> Iterator[T]:
        """What waits, the next one whenever the pool has room.

        Not before: what is taken can be cancelled no more, is never late and passed by nobody.
        """
        while True:
            with self._come:
                while not self._closed and not self._may_take():
                    self._come.wait()
                if self._closed:
                    return
                waiting, late = self._next()
                if waiting is not None and not late:
                    self._running[self._taken] = waiting
                    self._taken += 1
            if waiting is None:
                continue
            if late:  # told outside the lock: whoever hears it may ask for something else
                waiting.future.set_exception(
                    OverloadedError(
                        "it waited longer than it may", hint="Try again when less is going on."
                    )
                )
                continue
            yield waiting.payload

    def _may_take(self) -> bool:
        return len(self._running) < self._ahead and any(self._heaps.values())

    def _next(self) -> tuple[_Waiting[T, R] | None, bool]:
        """The next item, and whether it is too late; None where it is nobody's any more."""
        live, bulk = self._heaps["live"], self._heaps["bulk"]
        from_live = bool(live) and not (bulk and self._in_a_row >= _IN_A_ROW)
        waiting = heapq.heappop(live if from_live else bulk)[2]
        if not waiting.future.set_running_or_notify_cancel():
            return None, False  # it takes no turn: the next of its lane has it
        self._counts[waiting.lane] -= 1
        deadline = waiting.future.deadline
        now = self._clock()
        late = deadline is not None and now > deadline
        if not late:
            waiting.future.began = now
            self._in_a_row = self._in_a_row + 1 if from_live else 0
        return waiting, late

    def _answer(self, outcome: Outcome[Any]) -> None:
        with self._come:
            waiting = self._running.pop(outcome.index, None)
            self._come.notify()
            self.report.set_aside.clear()  # told to who asked; kept, they would add up for days
        if waiting is None:
            return
        if outcome.failure is not None:
            waiting.future.set_exception(_failed(outcome.failure))
        else:
            waiting.future.set_result(outcome.result)  # type: ignore[arg-type]

    def _refuse(self, error: BaseException) -> None:
        with self._come:
            left = list(self._running.values())
            left += [one for heap in self._heaps.values() for *_, one in heap]
            self._running.clear()
            for lane, heap in self._heaps.items():
                heap.clear()
                self._counts[lane] = 0
        for waiting in left:
            if waiting.future.running() or waiting.future.set_running_or_notify_cancel():
                waiting.future.set_exception(_told(error))


def _failed(failure: Failure) -> AnyrigError:
    kinds: dict[str, type[AnyrigError]] = {"memory": OutOfMemoryError, "killed": PoisonItemError}
    kind = kinds.get(failure.kind, WorkError)
    return kind(failure.said, hint=failure.hint or "Look at what was given; -vv says more.")


def _told(error: BaseException) -> AnyrigError:
    """An error of its own for each who waits: one that is raised twice tells two stories."""
    if is_disk_full(error):
        return to_disk_full_error(error)
    if type(error) is WorkError:
        return WorkersLostError(error.message, hint=error.hint)
    if isinstance(error, AnyrigError):
        return type(error)(error.message, hint=error.hint)
    return WorkersLostError(f"{type(error).__name__}: {error}", hint="-vv says more.")


def _closed() -> WorkersLostError:
    return WorkersLostError("nothing more is taken: it is being closed", hint="Ask again later.")
