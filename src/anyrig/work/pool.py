"""Workers of one engine, on this machine or elsewhere; each gets what it can finish soonest.

    factory = EngineFactory("my_module:MyEngine")
    with WorkerPool(LocalWorkers(placements, factory, environment=os.environ)) as pool:
        for outcome in pool.run(texts, cost=len): ...

Results come in order while later items are computed. A worker that dies is replaced and its items
are computed again. A device that is lost or whose workers die twice is suspended, and its items go
to other devices, at last to the fallback. No process outlives the pool.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

from anyrig.errors import WorkError
from anyrig.units import format_duration
from anyrig.work.batching import LOOK_AHEAD, ItemReader, ItemStream
from anyrig.work.dispatch import SILENCE_LIMIT_S, DispatchLoop
from anyrig.work.failures import FailureTracker
from anyrig.work.outcome import ItemOutcome, OutcomeQueue, RunReport, drain, in_order
from anyrig.work.protocol import (
    EngineReady,
    WorkerEvent,
    WorkerExited,
    WorkerHandle,
    WorkerSource,
    WorkerStatus,
)
from anyrig.work.scheduler import Scheduler, WorkerLoad

log = logging.getLogger(__name__)
T = TypeVar("T")
_POLL_S = 0.5
_JOIN_S = 5.0
_INDICES_PER_RUN = 1 << 40


class WorkerPool:
    """Workers, kept from one run to the next; they load in the background.

    Args:
        sources: where they come from: `LocalWorkers`, those of a cluster, or both.
        scheduler: makes the scheduler of a run.
        silence_limit_s: a worker without a heartbeat for so long is killed, and its items retried.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *sources: WorkerSource,
        scheduler: Callable[[dict[int, WorkerLoad[Any]]], Scheduler[Any]] = Scheduler,
        silence_limit_s: float = SILENCE_LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self.make_scheduler, self.silence_limit_s, self.clock = scheduler, silence_limit_s, clock
        self.numbers = itertools.count(1)
        self.events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()
        """Messages of workers, from any thread."""
        self.workers_by_number: dict[int, WorkerHandle] = {}
        """Workers that have loaded, by number."""
        self.loads: dict[int, WorkerLoad[Any]] = {}
        """What the scheduler knows about each of them."""
        self.failures = FailureTracker()
        self.warnings: list[str] = []
        """What went wrong with devices so far."""
        self.total = RunReport()
        """Statistics of all runs so far."""
        self.closed = False
        self._current: tuple[DispatchLoop, threading.Thread] | None = None
        self._starting = threading.Lock()
        self._first_index = 0
        try:
            for source in sources:
                source.start(self)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Number of workers, loading ones included."""
        return len(self.devices)

    @property
    def devices(self) -> list[str]:
        """The device of every worker, loading ones included."""
        return [device for source in self._sources for device in source.devices]

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self.workers() if worker.state != "dead"]

    def workers(self) -> tuple[WorkerStatus, ...]:
        """Processes of this machine as last seen, those that died first; from any thread."""
        return tuple(worker for source in self._sources for worker in source.status())

    def wait_ready(self) -> None:
        """Wait until every worker has loaded its engine or has failed to."""
        later: list[WorkerEvent] = []
        while any(source.loading for source in self._sources):
            self.ensure_workers()
            try:
                event = self.events.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if event.worker is not None and not self.handle_arrival(*event):
                later.append(event)  # of an earlier run: the next one handles it
        for event in later:
            self.events.put(event)
        self.ensure_workers()

    def run(
        self,
        payloads: Iterable[T],
        *,
        cost: Callable[[T], float],
        look_ahead: int = LOOK_AHEAD,
        report: RunReport | None = None,
        on_outcome: Callable[[ItemOutcome[Any]], None] | None = None,
    ) -> Iterator[ItemOutcome[Any]]:
        """An outcome for every item, in the order of the input; one run at a time.

        Args:
            payloads: the items; may be a stream.
            cost: of an item in the engine's unit: tokens, characters, pixels.
            look_ahead: how many items are read ahead to be sorted and computed.
            report: filled during the run.
            on_outcome: is called with each outcome as soon as it is there, also before earlier
                items are done: what it stores is not lost with the process.
        """
        report = report if report is not None else RunReport()
        ahead = self._look_ahead(look_ahead)
        first = self.reserve_indices()
        with (
            closing(ItemReader(payloads, cost, ahead, first=first, on_arrival=self.wake)) as reader,
            closing(self.dispatch(reader, queue.SimpleQueue(), report)) as outcomes,
        ):
            for outcome in in_order(_call_for_each(on_outcome, outcomes)):
                reader.done()
                for _ in range(ahead, self._look_ahead(look_ahead)):  # more workers have come
                    ahead += 1
                    reader.done()
                self.wake()
                yield outcome

    def reserve_indices(self) -> int:
        """First index of a run: none is used twice, so that late results are recognised."""
        self._first_index += _INDICES_PER_RUN
        return self._first_index

    def dispatch(
        self, items: ItemStream, outcomes: OutcomeQueue[Any], report: RunReport
    ) -> Generator[ItemOutcome[Any]]:
        """Outcomes of a stream's items as they come.

        Args:
            items: numbered from `reserve_indices()`.
            outcomes: where they go on their way.
            report: filled during the run.
        """
        with self._starting:  # a pool may be closed by another thread at any moment
            if self.closed or self._current is not None:
                state = "closed" if self.closed else "busy with another run"
                raise WorkError(f"the pool is {state}", hint="Create a new one.")
            loop = DispatchLoop(self, items, outcomes.put, report)
            thread = threading.Thread(target=loop.run, name="anyrig-pool", daemon=True)
            thread.start()
            self._current = (loop, thread)
        try:
            yield from drain(outcomes)
        finally:
            self._stop_loop()
            for source in self._sources:
                source.end_run()
            self._current = None
            report.warnings += [text for text in self.warnings if text not in report.warnings]

    def close(self) -> None:
        """End the run and every worker."""
        with self._starting:
            self.closed = True
        self._stop_loop()
        for source in self._sources:
            source.close()

    @property
    def look_ahead(self) -> int:
        """Items that it must hold, at least, to keep its workers busy."""
        return max((source.look_ahead for source in self._sources), default=0)

    def _look_ahead(self, least: int) -> int:
        return max(1, least, self.look_ahead)

    def _stop_loop(self) -> None:
        current = self._current
        if current is not None:
            loop, thread = current
            loop.stop()
            thread.join(timeout=_JOIN_S)

    # -- what a run asks, in its own thread -----------------------------------------------------

    def wake(self) -> None:
        """Have a run look again, though no worker reported anything; from any thread."""
        self.events.put(WorkerEvent(None, None))

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
            log.warning("%s", text)

    def ensure_workers(self) -> None:
        """Raise an error if nobody works or will work."""
        if self.closed:
            raise WorkError("the pool was closed during a run", hint="Close it afterwards.")
        errors = [error for source in self._sources if (error := source.check()) is not None]
        if len(errors) == len(self._sources):
            raise errors[0]

    def handle_arrival(self, worker: WorkerHandle, message: Any) -> bool:
        """Add a worker that is ready or remove one that is gone; False for any other message."""
        if isinstance(message, EngineReady):
            log.info("%s is ready after %s", worker.title, format_duration(message.seconds))
            self.workers_by_number[worker.number] = worker
            load = WorkerLoad[Any](worker.number, concurrent_items=message.concurrent_items)
            self.loads[worker.number] = load
            worker.source.add_worker(worker, load)
        elif isinstance(message, WorkerExited):
            self.remove_worker(worker, message)
        else:
            return False
        return True

    def remove_worker(
        self, worker: WorkerHandle, exited: WorkerExited, suspects: Sequence[int] = ()
    ) -> None:
        """A worker is gone, and these items may be the cause."""
        self.workers_by_number.pop(worker.number, None)
        self.loads.pop(worker.number, None)
        if exited.crashed:
            self.failures.record_crash(worker.device, suspects)
        worker.source.remove_worker(worker, exited, suspects)

    def record_poison(self, index: int) -> None:
        """An item is the cause of crashes: the devices it took down are used again."""
        devices = self.failures.forgive_devices(index)
        for source in self._sources:
            source.reuse_devices(devices)

    def has_worker_outside(self, devices: Collection[str]) -> bool:
        """Whether there is, or will be, a worker on another device than these."""
        return any(device not in devices for device in self.devices)

    def start_fallback(self) -> bool:
        return any(source.start_fallback() for source in self._sources)


def _call_for_each(
    function: Callable[[ItemOutcome[Any]], None] | None, outcomes: Iterable[ItemOutcome[Any]]
) -> Iterator[ItemOutcome[Any]]:
    for outcome in outcomes:
        if function is not None:
            function(outcome)
        yield outcome
