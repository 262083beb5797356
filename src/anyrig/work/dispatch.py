"""Runs items over a set of workers: sends what the scheduler chooses, collects results.

The workers are processes of this machine (`pool.WorkerPool`) or other machines. What happens to the
items of a worker that died is decided in `DispatchLoop._handle_worker_exit`.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from anyrig.errors import WorkError
from anyrig.work.batching import ItemReader, WorkItem
from anyrig.work.local import OutcomeQueue, drain
from anyrig.work.outcome import ItemFailure, ItemOutcome, RunReport, in_order
from anyrig.work.protocol import (
    BatchDone,
    DeviceLost,
    Draining,
    ItemsCancelled,
    ItemsReturned,
    ItemsStarted,
    WorkerEvent,
    WorkerExited,
)
from anyrig.work.retry import log_batch
from anyrig.work.scheduler import FEW_WORKERS, Scheduler, WorkerLoad

if TYPE_CHECKING:
    from anyrig.work.failures import FailureTracker

log = logging.getLogger(__name__)
T = TypeVar("T")
TICK_S = 0.02
SILENCE_LIMIT_S = 900.0
"""A worker that sends no heartbeat for so long is killed. No shorter: a call that holds the
interpreter's lock, or a machine that swaps, delays heartbeats too."""
_SLOWDOWN_LIMIT = 30
"""Where there are no heartbeats, it may also take so many times longer than expected."""
_WAKE = WorkerEvent(0, None)
"""Something changed that no worker reported."""
_JOIN_S = 5.0


class WorkerHandle(Protocol):
    """One worker, as the dispatcher sees it."""

    number: int

    @property
    def device(self) -> str:
        """Id under which crashes are counted: its device, or the name of a remote worker."""

    @property
    def title(self) -> str:
        """Name for log messages."""

    @property
    def last_heartbeat(self) -> float | None:
        """None if unknown. A worker that sends heartbeats is alive, however long its item takes."""

    def send_items(self, items: Sequence[WorkItem[Any]]) -> Sequence[tuple[int, str]]:
        """Index and reason of those that cannot be sent."""

    def cancel_items(self, indices: Sequence[int]) -> None:
        """These need not be computed any more; it skips those that it has not started."""

    def stop(self) -> None:
        """End it now."""


class WorkerSet(Protocol):
    """All workers of a pool, and their failures."""

    failures: FailureTracker
    warnings: list[str]

    @property
    def ready(self) -> Mapping[int, WorkerHandle]:
        """Those that can be sent items."""

    def ensure_workers(self) -> None:
        """Raise an error if nobody works or will work."""

    def handle_event(self, event: WorkerEvent) -> WorkerHandle | None:
        """What a message means for the set; its sender if the message is about items."""

    def load_of(self, worker: Any) -> WorkerLoad[Any]:
        """What the scheduler knows about a ready worker: its speed is kept from run to run."""

    def record_batch(self, worker: Any, done: BatchDone) -> None:
        """A worker has computed a batch."""

    def remove_worker(self, worker: Any, reason: str, suspects: list[int]) -> None:
        """A ready worker is gone, and these items may be the cause."""

    def record_poison(self, index: int) -> None:
        """An item is the cause of the crashes it was part of."""

    def should_retry_elsewhere(self, failure: ItemFailure, devices: Collection[str]) -> bool:
        """Whether an item that failed on these devices may succeed on another."""

    def has_worker_outside(self, devices: Collection[str]) -> bool:
        """Whether there is, or will be, a worker on another device than these."""

    def start_fallback(self) -> bool:
        """Start the fallback worker; False if there is none to start."""


class Dispatcher:
    """One run after the other over a set of workers.

    Args:
        workers: who computes.
        events: their messages.
        name: of the pool, for errors: `pool`, `fleet`.
        clock: monotonic seconds.
        silence_limit_s: a worker without a heartbeat for so long is killed.
    """

    def __init__(
        self,
        workers: WorkerSet,
        events: queue.SimpleQueue[WorkerEvent],
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        silence_limit_s: float = SILENCE_LIMIT_S,
    ) -> None:
        self._workers, self._events, self._name = workers, events, name
        self._clock, self._silence_limit_s = clock, silence_limit_s
        self._closed = self._running = False
        self._first_index = 0
        self._current: tuple[DispatchLoop, threading.Thread] | None = None

    def run(
        self,
        payloads: Iterable[T],
        *,
        cost: Callable[[T], float],
        look_ahead: Callable[[], int],
        report: RunReport | None,
        on_outcome: Callable[[ItemOutcome[Any]], None] | None,
        ordered: bool,
        on_end: Callable[[], None],
        scheduler: Scheduler[Any] | None = None,
    ) -> Iterator[ItemOutcome[Any]]:
        """As `BasePool.run`; `look_ahead` may grow during the run."""
        if self._closed or self._running:
            state = "closed" if self._closed else "busy with another run"
            raise WorkError(f"the {self._name} is {state}", hint="Create a new one.")
        self._running = True
        report = report if report is not None else RunReport()
        ahead = max(1, look_ahead())
        # Indices are never used twice: late results of an earlier run are recognised by them.
        reader = ItemReader(
            payloads,
            cost,
            ahead,
            first=self._first_index,
            on_arrival=lambda: self._events.put(_WAKE),
        )
        ready: OutcomeQueue[Any] = queue.SimpleQueue()
        loop = DispatchLoop(
            self._workers,
            reader,
            self._events,
            ready.put,
            report,
            scheduler,
            clock=self._clock,
            silence_limit_s=self._silence_limit_s,
        )
        thread = threading.Thread(target=loop.run, name=f"anyrig-{self._name}", daemon=True)
        thread.start()
        self._current = (loop, thread)
        try:
            outcomes = drain(ready)
            if on_outcome is not None:
                outcomes = _call_for_each(on_outcome, outcomes)
            for outcome in in_order(outcomes) if ordered else outcomes:
                reader.done()
                for _ in range(ahead, look_ahead()):  # more workers have come
                    ahead += 1
                    reader.done()
                self._events.put(_WAKE)
                yield outcome
        finally:
            reader.close()
            loop.stop()
            thread.join(timeout=_JOIN_S)
            on_end()
            self._current = None
            self._first_index += report.num_items + ahead + 1
            self._running = False
            warnings = self._workers.warnings
            report.warnings += [text for text in warnings if text not in report.warnings]

    def close(self) -> None:
        """End the current run, and take no other."""
        self._closed = True
        if self._current is not None:
            loop, thread = self._current
            loop.stop(closed=True)
            thread.join(timeout=_JOIN_S)


def _call_for_each(
    function: Callable[[ItemOutcome[Any]], None], outcomes: Iterable[ItemOutcome[Any]]
) -> Iterator[ItemOutcome[Any]]:
    for outcome in outcomes:
        function(outcome)
        yield outcome


class DispatchLoop:
    """The loop of one run: read items, send them to workers, handle what the workers report."""

    def __init__(
        self,
        workers: WorkerSet,
        reader: ItemReader[Any],
        events: queue.SimpleQueue[WorkerEvent],
        emit: Callable[[ItemOutcome[Any] | BaseException | None], None],
        report: RunReport,
        scheduler: Scheduler[Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        silence_limit_s: float = SILENCE_LIMIT_S,
    ) -> None:
        self._workers, self._reader, self._events = workers, reader, events
        self._emit, self._report = emit, report
        self._scheduler: Scheduler[Any] = scheduler if scheduler is not None else Scheduler()
        self._clock, self._silence_limit_s = clock, silence_limit_s
        self._items: dict[int, WorkItem[Any]] = {}
        """Everything read that has no outcome yet."""
        self._suspects: deque[WorkItem[Any]] = deque()
        """Items that wait to be tried alone: after a crash, or on another device."""
        self._computing: dict[int, tuple[int, ...]] = {}
        """By worker: the items it reported to compute."""
        self._failed_on: dict[int, set[str]] = {}
        """By item: the devices it failed on."""
        self._stopped = threading.Event()
        self._closed = False
        self._reported: set[int] = set()
        """Workers that sent something since they were last considered."""
        self._consider_all_at = self._considered_all_at = 0.0
        """When all of many workers are considered again, and were last."""
        self._suspect_plan: tuple[float, dict[int, WorkItem[Any]]] = (-math.inf, {})
        self._check_silence_at = 0.0
        self._silence_checked_at = self._awake_since = clock()
        """When heartbeats were last checked, and since when without a long pause."""

    def stop(self, *, closed: bool = False) -> None:
        """Send no more and stop.

        Args:
            closed: the pool is closed under whoever takes the results, which is an error there.
        """
        self._closed = closed
        self._stopped.set()
        self._events.put(_WAKE)

    def run(self) -> None:
        """Until every item has its outcome, or nobody is left to compute."""
        try:
            for number in self._workers.ready:
                self._add_worker(number)
            while not self._stopped.is_set() and self._step():
                pass
            if self._closed:
                self._workers.ensure_workers()
                raise WorkError("the pool was closed during a run", hint="Close it afterwards.")
            if self._reader.error is not None and not self._stopped.is_set():
                self._emit(self._reader.error)
            self._emit(None)
        except BaseException as error:  # noqa: BLE001 - raised again where results are taken
            self._emit(error)
        finally:
            self._cancel_all()

    def _step(self) -> bool:
        """Read, send, receive; whether there is more to do."""
        for item in self._reader.take(wait=False):
            self._items[item.index] = item
            self._scheduler.add(item)
            self._consider_all_at = min(self._consider_all_at, self._considered_all_at + TICK_S)
        self._scheduler.ended = self._reader.ended
        if self._reader.ended and not self._items:
            return False
        self._workers.ensure_workers()
        self._send_items()
        for event in self._receive():
            self._handle(event)
        return True

    def _cancel_all(self) -> None:
        """What is still held was done elsewhere, or nobody wants it any more."""
        for number, load in self._scheduler.workers.items():
            worker = self._workers.ready.get(number)
            if worker is not None and load.items:
                worker.cancel_items(list(load.items))

    # -- sending --------------------------------------------------------------------------------

    def _send_items(self) -> None:
        now = self._clock()
        suspects = self._assign_suspects(now) if self._suspects else {}
        for load in self._workers_to_consider(now):
            suspect = suspects.get(load.number)
            if suspect is None:
                chosen = self._scheduler.next_items(load, now)
            elif load.items:
                continue  # it finishes what it has before it tries a suspect
            else:
                self._suspects.remove(suspect)
                chosen = [suspect]
                self._scheduler.assign(load, chosen, now)
                load.isolated = True
            if chosen:
                self._send(load, chosen)

    def _send(self, load: WorkerLoad[Any], chosen: list[WorkItem[Any]]) -> None:
        for index, reason in self._workers.ready[load.number].send_items(chosen):
            self._scheduler.record_results(load, [index], self._clock())
            self._finish(ItemOutcome(index, failure=ItemFailure("error", reason, 1)))

    def _workers_to_consider(self, now: float) -> list[WorkerLoad[Any]]:
        """Of many workers those that reported something, and all from time to time."""
        loads = self._scheduler.workers
        if len(loads) > FEW_WORKERS and now < self._consider_all_at:
            considered = [loads[number] for number in self._reported if number in loads]
        else:
            considered = list(loads.values())
            self._considered_all_at = now
            self._consider_all_at = now + max(TICK_S, self._scheduler.low_s / 2)
        self._reported.clear()
        # Idle ones first: where items come one by one, the next is theirs. Of those the fastest:
        # what is computed twice is computed by whoever finishes it first.
        return sorted(
            considered, key=lambda load: (bool(load.items), -(load.rate or load.prior or 0.0))
        )

    def _assign_suspects(self, now: float) -> dict[int, WorkItem[Any]]:
        """By worker: the suspect it is to try alone, where each is finished first."""
        made_at, plan = self._suspect_plan
        loads = self._scheduler.workers
        if len(loads) > FEW_WORKERS and now - made_at < TICK_S:
            waiting = {item.index for item in self._suspects}
            return {number: item for number, item in plan.items() if item.index in waiting}
        able = [load for load in loads.values() if not load.draining and self._is_proven(load)]
        rates = {load.number: self._scheduler.rate_of(load) or 1.0 for load in able}
        free = {load.number: load.busy_s(now, rates[load.number]) for load in able}
        plan = {}
        for item in self._suspects:
            allowed = [n for n in free if self._may_try(item, self._workers.ready[n].device)]
            if allowed:
                first = min(allowed, key=lambda n: free[n] + item.cost / rates[n])
                free[first] += item.cost / rates[first]
                plan.setdefault(first, item)
        self._suspect_plan = (now, plan)
        return plan

    def _is_proven(self, load: WorkerLoad[Any]) -> bool:
        """Suspects go to workers that have computed something: then a crash tells more."""
        unstable = self._workers.failures.is_unstable(self._workers.ready[load.number].device)
        return load.rate is not None or not len(self._scheduler.waiting) or unstable

    def _may_try(self, item: WorkItem[Any], device: str) -> bool:
        """Not on a device where it failed, while there is another."""
        bad = self._failed_on.get(item.index, set())
        bad = bad | {self._workers.failures.device_to_avoid(item.index)}
        return device not in bad or not (
            self._workers.has_worker_outside(bad) or self._workers.start_fallback()
        )

    # -- receiving ------------------------------------------------------------------------------

    def _receive(self) -> Iterator[WorkerEvent]:
        """All events so far; waits for the first."""
        try:
            yield self._events.get(timeout=self._wait_s())
            while True:
                yield self._events.get_nowait()
        except queue.Empty:
            self._kill_silent_workers()

    def _wait_s(self) -> float:
        """How long to wait for events before everything is considered again."""
        # With nothing to send there is nothing to look for: what arrives is an event.
        loads = self._scheduler.workers
        idle = bool(self._items) and any(not load.items for load in loads.values())
        low_s = self._scheduler.low_s / 2
        if idle:
            return max(TICK_S, low_s) if len(loads) > FEW_WORKERS else TICK_S
        # A remote worker sends one answer to many items: refill it in between.
        return low_s if low_s > TICK_S else 25 * TICK_S

    def _handle(self, event: WorkerEvent) -> None:
        number, message = event
        self._reported.add(number)
        worker = self._workers.handle_event(event)
        if worker is None:
            self._add_worker(number)
            return
        load = self._scheduler.workers.get(number)
        if load is None:
            return
        if isinstance(message, BatchDone):
            self._handle_batch(worker, load, message)
        elif isinstance(message, ItemsStarted):
            self._computing[number] = message.indices
            load.since = self._clock()
        elif isinstance(message, ItemsCancelled):
            self._scheduler.record_cancelled(load, message.indices, self._clock())
        elif isinstance(message, ItemsReturned):
            self._handle_returned(load, message.indices)
        elif isinstance(message, Draining):
            self._scheduler.drain(load)
        elif isinstance(message, (DeviceLost, WorkerExited)):
            self._handle_worker_exit(worker, load, message.reason)

    def _add_worker(self, number: int) -> None:
        worker = self._workers.ready.get(number)
        if worker is not None and number not in self._scheduler.workers:
            load = self._scheduler.workers[number] = self._workers.load_of(worker)
            load.isolated = load.isolated and bool(load.items)

    def _handle_batch(
        self, worker: WorkerHandle, load: WorkerLoad[Any], message: BatchDone
    ) -> None:
        self._computing[load.number] = message.started
        stats = message.stats
        if stats.num_batches:
            load.record_call(stats.real_cost, stats.busy_s)
            self._workers.record_batch(worker, message)
            log_batch(worker.title, len(message.results) + len(message.failures), stats)
        load.budget = message.budget
        self._report.add_batches(stats)
        outcomes = [ItemOutcome(index, result) for index, result in message.results]
        outcomes += [
            ItemOutcome(index, failure=failure)
            for index, failure in message.failures
            if not self._try_elsewhere(worker, load, index, failure)
        ]
        fresh = set(
            self._scheduler.record_results(load, [one.index for one in outcomes], self._clock())
        )
        for number, indices in self._scheduler.other_holders(load, fresh).items():
            self._workers.ready[number].cancel_items(indices)
        for outcome in outcomes:
            if outcome.index in fresh and outcome.index in self._items:
                self._workers.failures.record_success(outcome.index, worker.device)
                self._finish(replace(outcome, device=worker.device))

    def _try_elsewhere(
        self, worker: WorkerHandle, load: WorkerLoad[Any], index: int, failure: ItemFailure
    ) -> bool:
        """Whether a failed item is still computed elsewhere, or may fit on another device."""
        if index not in self._items:
            return False
        if not self._scheduler.other_holders(load, [index]):
            devices = self._failed_on.setdefault(index, set())
            devices.add(worker.device)
            if not self._workers.has_worker_outside(devices):
                return False
            if not self._workers.should_retry_elsewhere(failure, devices):
                return False
            self._suspects.append(self._items[index])
        self._scheduler.record_cancelled(load, [index], self._clock())
        return True

    def _finish(self, outcome: ItemOutcome[Any]) -> None:
        del self._items[outcome.index]
        self._failed_on.pop(outcome.index, None)
        relative = replace(outcome, index=outcome.index - self._reader.first)
        self._report.add(relative)
        self._emit(relative)

    # -- crashes and lost workers ---------------------------------------------------------------

    def _handle_worker_exit(self, worker: WorkerHandle, load: WorkerLoad[Any], reason: str) -> None:
        """Where the items of a dead worker go.

        What it only held is queued again. What it was computing is suspect and tried alone; an
        item that has crashed too many workers is poison and fails.
        """
        computing = set(self._computing.pop(load.number, ()))
        if load.isolated:
            computing = set(load.items)  # it may have died before it could report that
        # Items that others hold as well are suspect, too, though they are not queued again.
        suspects = [i for i in load.items if i in computing and i in self._items]
        orphans = self._scheduler.remove_worker(load)
        self._workers.remove_worker(worker, reason, suspects)
        failures = self._workers.failures
        for item in orphans:
            if item.index not in self._items:
                continue
            if item.index not in computing:
                self._scheduler.add(item)
            elif failures.is_poison(item.index):
                self._fail_poison(item, reason)
            elif failures.num_crashes(item.index) > 1:
                self._suspects.appendleft(item)  # settle this one before another is tried
            else:
                self._suspects.append(item)

    def _fail_poison(self, item: WorkItem[Any], reason: str) -> None:
        crashes = self._workers.failures.num_crashes(item.index)
        self._workers.record_poison(item.index)
        log.warning(
            "item %d failed: it crashed %d workers", item.index - self._reader.first, crashes
        )
        failure = ItemFailure("killed", f"its worker {reason}", crashes)
        self._finish(ItemOutcome(item.index, failure=failure))

    def _handle_returned(self, load: WorkerLoad[Any], indices: tuple[int, ...]) -> None:
        """What a worker could not do goes to another; a suspect stays one."""
        load.since = self._clock()
        for item in self._scheduler.return_items(load, indices):
            if item.index not in self._items:
                continue
            if self._workers.failures.is_suspect(item.index) or item.index in self._failed_on:
                self._suspects.append(item)
            else:
                self._scheduler.add(item)

    def _kill_silent_workers(self) -> None:
        """Kill workers without heartbeats; `WorkerExited` follows."""
        now = self._clock()
        if now - self._silence_checked_at > self._silence_limit_s / 2:
            # This process was stopped or the machine slept: heartbeats could not be read.
            self._awake_since = now
        self._silence_checked_at = now
        if now < self._check_silence_at:
            return
        self._check_silence_at = now + self._silence_limit_s / 200
        for number, load in self._scheduler.workers.items():
            if not load.items:
                continue
            worker, limit_s = self._workers.ready[number], self._silence_limit_s
            heartbeat = worker.last_heartbeat
            if heartbeat is None:
                rate = self._scheduler.rate_of(load)
                limit_s = max(limit_s, _SLOWDOWN_LIMIT * load.cost / rate if rate else 0.0)
                heartbeat = load.since
            silent_s = now - max(heartbeat, load.since, self._awake_since)
            if silent_s > limit_s:
                log.warning(
                    "killing a worker on %s: no heartbeat for %.0f s", worker.title, silent_s
                )
                worker.stop()
