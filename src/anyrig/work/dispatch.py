"""The loop of one run: reads items, sends them to workers, collects results.

Which worker gets which items the scheduler decides. What happens to the items of a worker that died
is decided in `DispatchLoop._handle_worker_exit`.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from anyrig.errors import WorkError
from anyrig.work.batching import ItemStream, WorkItem
from anyrig.work.outcome import ItemFailure, ItemOutcome, RunReport, log_batch
from anyrig.work.protocol import (
    BatchDone,
    Draining,
    ItemPart,
    ItemsReturned,
    ItemsStarted,
    WorkerEvent,
    WorkerExited,
    WorkerHandle,
)
from anyrig.work.scheduler import FEW_WORKERS, WorkerLoad

if TYPE_CHECKING:
    from anyrig.work.pool import WorkerPool

log = logging.getLogger(__name__)
TICK_S = 0.02
SILENCE_LIMIT_S = 900.0
"""A worker that sends no heartbeat for so long is killed. No shorter: a call that holds the
interpreter's lock, or a machine that swaps, delays heartbeats too."""
_SLOWDOWN_LIMIT = 30
"""Where there are no heartbeats, it may also take so many times longer than expected."""


class DispatchLoop:
    """Runs in a thread of its own until every item has its outcome, or nobody is left."""

    def __init__(
        self,
        pool: WorkerPool,
        reader: ItemStream,
        emit: Callable[[ItemOutcome[Any] | BaseException | None], None],
        report: RunReport,
    ) -> None:
        self._pool, self._reader, self._emit, self._report = pool, reader, emit, report
        self._clock, self._failures = pool.clock, pool.failures
        self.scheduler = pool.make_scheduler(pool.loads)
        self._items: dict[int, WorkItem[Any]] = {}
        """Everything read that has no outcome yet."""
        self._suspects: deque[WorkItem[Any]] = deque()
        """Items that wait to be tried alone: after a crash, or on another device."""
        self._computing: dict[int, tuple[int, ...]] = {}
        """By worker: the items it reported to compute."""
        self._failed_on: dict[int, set[str]] = {}
        """By item: the devices it failed on."""
        self._stopped = threading.Event()
        self._reported: set[int] = set()
        """Workers that sent something since they were last considered."""
        self._consider_all_at = self._considered_all_at = 0.0
        """When all of many workers are considered again, and were last."""
        self._suspect_plan: tuple[float, dict[int, WorkItem[Any]]] = (-math.inf, {})
        self._check_silence_at = 0.0
        self._silence_checked_at = self._awake_since = self._clock()
        """When heartbeats were last checked, and since when without a long pause."""

    def stop(self) -> None:
        """Send no more; from another thread."""
        self._stopped.set()
        self._pool.wake()

    def run(self) -> None:
        try:
            while not self._stopped.is_set() and self._step():
                pass
            if self._pool.closed:  # under whoever takes the results
                raise WorkError("the pool was closed during a run", hint="Close it afterwards.")
            self._emit(None if self._stopped.is_set() else self._reader.error)
        except BaseException as error:  # noqa: BLE001 - raised again where results are taken
            self._emit(error)
        finally:
            self._cancel_all()

    def _step(self) -> bool:
        """Read, send, receive; whether there is more to do."""
        for index in self._reader.take_expired():
            self._drop(index)
        for item in self._reader.take(wait=False):
            self._items[item.index] = item
            self.scheduler.add(item)
            self._consider_all_at = min(self._consider_all_at, self._considered_all_at + TICK_S)
        self.scheduler.ended = self._reader.ended
        if self._reader.ended and not self._items:
            return False
        self._pool.ensure_workers()
        self._send_items()
        for worker, message in self._receive():
            if worker is not None:
                self._handle(worker, message)
        return True

    def _cancel_all(self) -> None:
        """What is still held was done elsewhere, or nobody wants it any more."""
        for number, load in self.scheduler.workers.items():
            worker = self._pool.workers_by_number.get(number)
            if worker is not None and load.items:
                worker.cancel_items(list(load.items))

    # -- sending --------------------------------------------------------------------------------

    def _send_items(self) -> None:
        now = self._clock()
        suspects = self._assign_suspects(now) if self._suspects else {}
        for load in self._workers_to_consider(now):
            suspect = suspects.get(load.number)
            if suspect is None:
                chosen = self.scheduler.next_items(load, now)
            elif load.items:
                continue  # it finishes what it has before it tries a suspect
            else:
                self._suspects.remove(suspect)
                chosen = [suspect]
                self.scheduler.assign(load, chosen, now)
                load.isolated = True
            if chosen:
                self._send(load, chosen)

    def _send(self, load: WorkerLoad[Any], chosen: list[WorkItem[Any]]) -> None:
        for index, reason in self._pool.workers_by_number[load.number].send_items(chosen):
            self.scheduler.record_results(load, [index], self._clock())
            self._finish(index, failure=ItemFailure("error", reason, 1))

    def _workers_to_consider(self, now: float) -> list[WorkerLoad[Any]]:
        """Of many workers those that reported something, and all from time to time."""
        loads = self.scheduler.workers
        if len(loads) > FEW_WORKERS and now < self._consider_all_at:
            considered = [loads[number] for number in self._reported if number in loads]
        else:
            considered = list(loads.values())
            self._considered_all_at = now
            self._consider_all_at = now + max(TICK_S, self.scheduler.low_s / 2)
        self._reported.clear()
        # Idle ones first: where items come one by one, the next is theirs. Of those the fastest:
        # what is computed twice is computed by whoever finishes it first.
        return sorted(
            considered,
            key=lambda load: (bool(load.items), -(load.rate or load.expected_rate or 0.0)),
        )

    def _assign_suspects(self, now: float) -> dict[int, WorkItem[Any]]:
        """By worker: the suspect it is to try alone, where each is finished first."""
        made_at, plan = self._suspect_plan
        loads = self.scheduler.workers
        if len(loads) > FEW_WORKERS and now - made_at < TICK_S:
            waiting = {item.index for item in self._suspects}
            return {number: item for number, item in plan.items() if item.index in waiting}
        able = [load for load in loads.values() if not load.draining and self._is_proven(load)]
        rates = {load.number: self.scheduler.rate_of(load) or 1.0 for load in able}
        free = {load.number: load.busy_s(now, rates[load.number]) for load in able}
        plan = {}
        for item in self._suspects:
            allowed = [
                n for n in free if self._may_try(item, self._pool.workers_by_number[n].device)
            ]
            if allowed:
                first = min(allowed, key=lambda n: free[n] + item.cost / rates[n])
                free[first] += item.cost / rates[first]
                plan.setdefault(first, item)
        self._suspect_plan = (now, plan)
        return plan

    def _is_proven(self, load: WorkerLoad[Any]) -> bool:
        """Suspects go to workers that have computed something: then a crash tells more."""
        unstable = self._failures.is_unstable(self._pool.workers_by_number[load.number].device)
        return load.rate is not None or not len(self.scheduler.waiting) or unstable

    def _may_try(self, item: WorkItem[Any], device: str) -> bool:
        """Not on a device where it failed, while there is another."""
        bad = self._failed_on.get(item.index, set())
        bad = bad | {self._failures.device_to_avoid(item.index)}
        return device not in bad or not (
            self._pool.has_worker_outside(bad) or self._pool.start_fallback()
        )

    # -- receiving ------------------------------------------------------------------------------

    def _receive(self) -> Iterator[WorkerEvent]:
        """All events so far; waits for the first."""
        try:
            yield self._pool.events.get(timeout=self._wait_s())
            while True:
                yield self._pool.events.get_nowait()
        except queue.Empty:
            self._kill_silent_workers()

    def _wait_s(self) -> float:
        """How long to wait for events before everything is considered again."""
        return max(0.0, min(self._poll_s(), self._reader.deadline_in_s))

    def _poll_s(self) -> float:
        # With nothing to send there is nothing to look for: what arrives is an event.
        loads = self.scheduler.workers
        idle = bool(self._items) and any(not load.items for load in loads.values())
        low_s = self.scheduler.low_s / 2
        if idle:
            return max(TICK_S, low_s) if len(loads) > FEW_WORKERS else TICK_S
        # A remote worker sends one answer to many items: refill it in between.
        return low_s if low_s > TICK_S else 25 * TICK_S

    def _handle(self, worker: WorkerHandle, message: Any) -> None:
        number = worker.number
        self._reported.add(number)
        load = self.scheduler.workers.get(number)
        if load is None:
            self._pool.handle_arrival(worker, message)
        elif isinstance(message, BatchDone):
            self._handle_batch(worker, load, message)
        elif isinstance(message, ItemPart):
            if message.item in self._items:
                self._reader.record_part(message.item, message.part)
        elif isinstance(message, ItemsStarted):
            self._record_started(number, message.indices)
            load.since = self._clock()
        elif isinstance(message, ItemsReturned):
            self._handle_returned(load, message.indices)
        elif isinstance(message, Draining):
            self.scheduler.drain(load)
        elif isinstance(message, WorkerExited):
            self._handle_worker_exit(worker, load, message)

    def _record_started(self, number: int, indices: tuple[int, ...]) -> None:
        self._computing[number] = indices
        self._reader.record_started(indices)

    def _handle_batch(
        self, worker: WorkerHandle, load: WorkerLoad[Any], message: BatchDone
    ) -> None:
        self._record_started(load.number, message.started)
        stats, total = message.stats, self._pool.total
        if stats.num_batches:
            num_items = len(message.results) + len(message.failures)
            load.record_call(stats.real_cost, stats.busy_s)
            total.add_batches(stats)
            total.num_items += num_items
            log_batch(worker.title, num_items, stats)
        load.budget = message.budget
        self._report.add_batches(stats)
        results = dict(message.results)
        failures = {
            index: failure
            for index, failure in message.failures
            if not self._try_elsewhere(worker, load, index, failure)
        }
        fresh = self.scheduler.record_results(load, [*results, *failures], self._clock())
        for number, indices in self.scheduler.other_holders(load, fresh).items():
            self._pool.workers_by_number[number].cancel_items(indices)
        for index in fresh:
            if index in self._items:
                self._failures.record_success(index, worker.device)
                self._finish(index, results.get(index), failures.get(index), worker.device)

    def _try_elsewhere(
        self, worker: WorkerHandle, load: WorkerLoad[Any], index: int, failure: ItemFailure
    ) -> bool:
        """Whether a failed item is still computed elsewhere, or may succeed on another device."""
        if index not in self._items:
            return False
        if not self.scheduler.other_holders(load, [index]):
            devices = self._failed_on.setdefault(index, set())
            devices.add(worker.device)
            # Memory is a device's own; any other error would be the same on all of a machine.
            unconfirmed = worker.confirm_errors and len(devices) == 1 and failure.kind == "error"
            if not (failure.kind == "memory" or unconfirmed):
                return False
            if not self._pool.has_worker_outside(devices):
                return False
            self._suspects.append(self._items[index])
        self.scheduler.return_items(load, [index], self._clock())
        return True

    def _drop(self, index: int) -> None:
        """An item has an outcome already, which the reader gave it."""
        if self._items.pop(index, None) is None:
            return
        self._failed_on.pop(index, None)
        self._suspects = deque(item for item in self._suspects if item.index != index)
        for number in self.scheduler.discard(index):
            self._pool.workers_by_number[number].cancel_items([index])

    def _finish(
        self, index: int, result: Any = None, failure: ItemFailure | None = None, device: str = ""
    ) -> None:
        del self._items[index]
        self._failed_on.pop(index, None)
        outcome = ItemOutcome(index - self._reader.first, result, failure, device)
        self._report.add(outcome)
        self._emit(outcome)

    # -- crashes and lost workers ---------------------------------------------------------------

    def _handle_worker_exit(
        self, worker: WorkerHandle, load: WorkerLoad[Any], exited: WorkerExited
    ) -> None:
        """Where the items of a dead worker go.

        What it only held is queued again. What it was computing is suspect and tried alone; an
        item that has crashed too many workers is poison and fails.
        """
        computing = set(self._computing.pop(load.number, ()))
        if load.isolated:
            computing = set(load.items)  # it may have died before it could report that
        # Items that others hold as well are suspect, too, though they are not queued again.
        suspects = [i for i in load.items if i in computing and i in self._items]
        orphans = self.scheduler.remove_worker(load)
        self._pool.remove_worker(worker, exited, suspects)
        for item in orphans:
            if item.index not in self._items:
                continue
            if item.index not in computing:
                self.scheduler.add(item)
            elif self._failures.is_poison(item.index):
                self._fail_poison(item, exited.reason)
            elif self._failures.num_crashes(item.index) > 1:
                self._suspects.appendleft(item)  # settle this one before another is tried
            else:
                self._suspects.append(item)

    def _fail_poison(self, item: WorkItem[Any], reason: str) -> None:
        crashes = self._failures.num_crashes(item.index)
        self._pool.record_poison(item.index)
        log.warning(
            "item %d failed: it crashed %d workers", item.index - self._reader.first, crashes
        )
        self._finish(item.index, failure=ItemFailure("crash", f"its worker {reason}", crashes))

    def _handle_returned(self, load: WorkerLoad[Any], indices: tuple[int, ...]) -> None:
        """What a worker could not do goes to another; a suspect stays one."""
        for item in self.scheduler.return_items(load, indices, self._clock()):
            if item.index not in self._items:
                continue
            if self._failures.is_suspect(item.index) or item.index in self._failed_on:
                self._suspects.append(item)
            else:
                self.scheduler.add(item)

    def _kill_silent_workers(self) -> None:
        """Kill workers without heartbeats; `WorkerExited` follows."""
        now = self._clock()
        if now - self._silence_checked_at > self._pool.silence_limit_s / 2:
            # This process was stopped or the machine slept: heartbeats could not be read.
            self._awake_since = now
        self._silence_checked_at = now
        if now < self._check_silence_at:
            return
        self._check_silence_at = now + self._pool.silence_limit_s / 200
        for number, load in self.scheduler.workers.items():
            if not load.items:
                continue
            worker, limit_s = self._pool.workers_by_number[number], self._pool.silence_limit_s
            heartbeat = worker.last_heartbeat
            if heartbeat is None:
                rate = self.scheduler.rate_of(load)
                limit_s = max(limit_s, _SLOWDOWN_LIMIT * load.cost / rate if rate else 0.0)
                heartbeat = load.since
            silent_s = now - max(heartbeat, load.since, self._awake_since)
            if silent_s > limit_s:
                log.warning(
                    "killing a worker on %s: no heartbeat for %.0f s", worker.title, silent_s
                )
                worker.stop()
