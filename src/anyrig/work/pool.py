"""One worker process per device, of any brand and speed; each gets what it can finish soonest.

    factory = EngineFactory("my_module:MyEngine")
    with WorkerPool(placements, factory, environment=os.environ) as pool:
        for outcome in pool.run(texts, cost=len): ...

Results come in order while later items are computed. A worker that dies is replaced and its items
are computed again. A device that is lost or whose workers die twice is suspended, and its items go
to other devices, at last to the fallback. No process outlives the pool.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from anyrig.errors import AnyrigError, DeviceLostError, OutOfMemoryError, WorkError
from anyrig.memory.known_sizes import BatchSizeKey, KnownBatchSizes
from anyrig.units import GIB, format_duration
from anyrig.work.batching import LOOK_AHEAD
from anyrig.work.dispatch import SILENCE_LIMIT_S, Dispatcher
from anyrig.work.failures import FailureTracker
from anyrig.work.outcome import ItemOutcome, RunReport
from anyrig.work.protocol import (
    HEARTBEAT_S,
    BatchDone,
    BatchSizes,
    DeviceLost,
    EngineFactory,
    EngineReady,
    LoadFailed,
    WorkerEvent,
    WorkerExited,
    WorkerStatus,
    error_from_dict,
)
from anyrig.work.scheduler import WorkerLoad
from anyrig.work.worker import LocalWorker

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.work.outcome import ItemFailure

log = logging.getLogger(__name__)
T = TypeVar("T")
MAX_LOADING_S = 1800.0
"""Large weights from a slow disk take minutes; nothing takes half an hour."""
_MAX_DEAD = 16
_POLL_S = 0.5


class BasePool(Protocol):
    """Workers of one engine, kept from run to run: of this machine, or of a cluster."""

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices so far."""

    @property
    def size(self) -> int:
        """Number of workers, loading ones included."""

    def workers(self) -> tuple[WorkerStatus, ...]:
        """Those of this machine as last seen; does not wait."""

    def wait_ready(self) -> None:
        """Wait until every worker has loaded its engine or has failed to."""

    def run(
        self,
        payloads: Iterable[T],
        *,
        cost: Callable[[T], float],
        look_ahead: int = LOOK_AHEAD,
        report: RunReport | None = None,
        on_outcome: Callable[[ItemOutcome[Any]], None] | None = None,
        ordered: bool = True,
    ) -> Iterator[ItemOutcome[Any]]:
        """An outcome for every item; one run at a time."""

    def close(self) -> None: ...


class WorkerPool:
    """Worker processes on devices, kept from one run to the next. They load in the background.

    Args:
        placements: where they run; `workers` of each.
        factory: how each makes its engine.
        environment: of this process.
        fallback: where items go when no device is left; usually the CPU.
        limits: batch sizes that earlier runs found; what this one finds is stored there.
        stamp: driver and library versions for which batch sizes hold.
        deterministic: an item's result must not depend on its batch.
        heartbeat_s: how often each worker sends a heartbeat.
        silence_limit_s: a worker without a heartbeat for so long is killed, and its items retried.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        placements: Sequence[Placement],
        factory: EngineFactory,
        *,
        environment: Mapping[str, str],
        fallback: Placement | None = None,
        limits: KnownBatchSizes | None = None,
        stamp: str = "",
        deterministic: bool = False,
        heartbeat_s: float = HEARTBEAT_S,
        silence_limit_s: float = SILENCE_LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._factory, self._environment, self._fallback = factory, environment, fallback
        self._limits, self._stamp, self._deterministic = limits, stamp, deterministic
        self._heartbeat_s, self._clock = heartbeat_s, clock
        self._events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()
        self._dispatcher = Dispatcher(
            self, self._events, "pool", clock=clock, silence_limit_s=silence_limit_s
        )
        self.ready: dict[int, LocalWorker] = {}
        self._loading: dict[int, LocalWorker] = {}
        self._loads: dict[int, WorkerLoad[Any]] = {}
        self._dead: deque[WorkerStatus] = deque(maxlen=_MAX_DEAD)
        self._suspended: dict[str, list[Placement]] = {}
        """By device: placements that are not used, as their workers died."""
        self._sizes: dict[str, tuple[Placement, BatchSizes, int | None]] = {}
        """By device: batch sizes as last reported, and the peak memory."""
        self._load_error: AnyrigError | None = None
        self._number = 0
        self._closed = False
        self._lock = threading.Lock()
        self.failures = FailureTracker()
        self.warnings: list[str] = []
        self.total = RunReport()
        """Statistics of all runs so far."""
        if not placements and fallback is None:
            raise WorkError("a pool needs at least one placement", hint="Pass a placement.")
        try:
            for placement in placements:
                for _ in range(placement.workers):
                    self._start_worker(placement)
        except BaseException:
            self._stop_workers()
            raise

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._living()]

    @property
    def size(self) -> int:
        """Number of workers, loading ones included."""
        return len(self._living())

    def workers(self) -> tuple[WorkerStatus, ...]:
        """Its processes as last seen, the last that died first; from any thread."""
        living = [self._status(worker, "ready") for worker in list(self.ready.values())]
        living += [self._status(worker, "loading") for worker in list(self._loading.values())]
        return (*list(self._dead), *living)

    def unload_model(self, name: str) -> None:
        """Have workers that keep several models close one, unless it is in use."""
        for worker in list(self.ready.values()):
            worker.unload_model(name)

    def wait_ready(self) -> None:
        """Wait until every worker has loaded its engine or has failed to."""
        later: list[WorkerEvent] = []
        while self._loading:
            self.ensure_workers()
            try:
                event = self._events.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            worker = self.handle_event(event)
            if worker is None:
                continue
            if isinstance(event.message, (WorkerExited, DeviceLost)):
                self.remove_worker(worker, event.message.reason, [])
            else:
                later.append(event)  # of an earlier run: the next one handles it
        for event in later:
            self._events.put(event)
        self.ensure_workers()

    def run(
        self,
        payloads: Iterable[T],
        *,
        cost: Callable[[T], float],
        look_ahead: int = LOOK_AHEAD,
        report: RunReport | None = None,
        on_outcome: Callable[[ItemOutcome[Any]], None] | None = None,
        ordered: bool = True,
    ) -> Iterator[ItemOutcome[Any]]:
        """An outcome for every item, in the order of the input; see `local.run_local`.

        `on_outcome` is called with each as soon as it is there, also before earlier items are done:
        what it stores is not lost with the process. Without `ordered`, outcomes come as they are
        computed.
        """
        return self._dispatcher.run(
            payloads,
            cost=cost,
            look_ahead=lambda: look_ahead,
            report=report,
            on_outcome=on_outcome,
            ordered=ordered,
            on_end=self._store_sizes,
        )

    def close(self) -> None:
        """End the run and every worker."""
        self._dispatcher.close()
        self._stop_workers()

    # -- what the dispatcher asks (`dispatch.WorkerSet`) ------------------------------------------

    def ensure_workers(self) -> None:
        """Make sure that somebody works; start the fallback if nobody else does."""
        if self._closed:
            raise WorkError("the pool was closed during a run", hint="Close it afterwards.")
        self._stop_slow_loading()
        if self.ready or self._loading:
            return
        if self._fallback is not None:
            self._warn(f"no device is left; continuing on {self._fallback.device.name}")
            self.start_fallback()
            return
        if self._load_error is not None:
            raise self._load_error
        last = self.warnings[-1] if self.warnings else "no worker could be started"
        raise DeviceLostError(last, hint="Run `anyrig doctor`. Finished results are kept.")

    def handle_event(self, event: WorkerEvent) -> LocalWorker | None:
        number, message = event
        worker = self._loading.get(number) or self.ready.get(number)
        if worker is None:
            return None
        if isinstance(message, EngineReady):
            log.info("%s is ready after %s", worker.title, format_duration(message.seconds))
            self.ready[number] = self._loading.pop(number)
        elif isinstance(message, LoadFailed):
            error = error_from_dict(message.error)
            if isinstance(error, OutOfMemoryError):
                error.on_host = message.on_host
            self._handle_load_error(worker, error)
        elif isinstance(message, WorkerExited) and number in self._loading:
            self.remove_worker(worker, f"{message.reason} while loading", [])
        else:
            return worker
        return None

    def load_of(self, worker: LocalWorker) -> WorkerLoad[Any]:
        load: WorkerLoad[Any] = WorkerLoad(worker.number, prior=worker.placement.speed)
        return self._loads.setdefault(worker.number, load)

    def record_batch(self, worker: LocalWorker, done: BatchDone) -> None:
        self._sizes[worker.device] = (worker.placement, done.sizes, done.stats.peak_bytes)
        self.total.add_batches(done.stats)
        self.total.num_items += len(done.results) + len(done.failures)

    def remove_worker(self, worker: LocalWorker, reason: str, suspects: list[int]) -> None:
        """A worker is gone: start another one if the device may be used again."""
        self._unregister(worker, reason)
        self.failures.record_crash(worker.device, suspects)
        self._replace_worker(worker, reason)

    def record_poison(self, index: int) -> None:
        """The devices that a poison item took down are used again."""
        for device in self.failures.forgive_devices(index):
            for placement in self._suspended.pop(device, []):
                log.info("using %s again: item %d was the cause", placement.device.name, index)
                self._start_worker(placement)

    def should_retry_elsewhere(self, failure: ItemFailure, devices: Collection[str]) -> bool:
        """Memory is a device's own; any other error would be the same on all."""
        return failure.kind == "memory"

    def has_worker_outside(self, devices: Collection[str]) -> bool:
        return any(worker.device not in devices for worker in self._living())

    def start_fallback(self) -> bool:
        if self._fallback is None:
            return False
        placement, self._fallback = self._fallback, None
        self._start_worker(placement)
        return True

    # -- workers --------------------------------------------------------------------------------

    def _living(self) -> list[LocalWorker]:
        return [*self.ready.values(), *self._loading.values()]

    def _status(
        self, worker: LocalWorker, state: Literal["loading", "ready", "dead"], reason: str = ""
    ) -> WorkerStatus:
        placement, load = worker.placement, self._loads.get(worker.number)
        # Between runs nobody has handled its exit or its loading yet.
        if worker.exit_reason and not reason:
            state, reason = "dead", worker.exit_reason
        elif state == "loading" and worker.models:
            state = "ready"
        return WorkerStatus(
            worker.pid,
            placement.device.id,
            placement.device.kind,
            placement.backend.selector,
            state,
            worker.started,
            worker.last_heartbeat,
            worker.models if state == "ready" else (),
            load.since if load is not None and load.items else None,
            reason,
            worker.nested_models if state == "ready" else (),
        )

    def _start_worker(self, placement: Placement) -> None:
        with self._lock:
            if self._closed:
                return
            self._number += 1
            self._loading[self._number] = LocalWorker(
                self._number,
                placement,
                self._factory,
                self._environment,
                self._events,
                self._known_sizes(placement),
                grow=not self._deterministic,
                heartbeat_s=self._heartbeat_s,
                clock=self._clock,
            )

    def _replace_worker(self, worker: LocalWorker, reason: str) -> None:
        placement, device = worker.placement, worker.device
        only = not self.has_worker_outside((device,)) and self._fallback is None
        suspended = self.failures.is_suspended(device)
        if not suspended or (only and not self.failures.is_hopeless(device)):
            log.warning("a worker on %s %s; starting another", worker.title, reason)
            self._start_worker(placement)
            return
        self._suspended.setdefault(device, []).append(placement)
        if not any(other.device == device for other in self.ready.values()):
            self._warn(f"{worker.title} is suspended: its worker {reason}")

    def _unregister(self, worker: LocalWorker, reason: str) -> None:
        self._dead.append(self._status(worker, "dead", reason))
        for workers in (self.ready, self._loading):
            workers.pop(worker.number, None)
        self._loads.pop(worker.number, None)
        worker.stop()

    def _handle_load_error(self, worker: LocalWorker, error: AnyrigError) -> None:
        """The engine cannot be loaded on a device: it is not tried there again."""
        self._unregister(worker, error.message)
        error.hint = error.hint or "This error is the engine's own; -vv shows more."
        on_gpu = worker.placement.device.kind == "gpu"
        if isinstance(error, OutOfMemoryError) and on_gpu and not error.on_host:
            error.devices = (worker.device,)
        self._load_error = error
        self._warn(f"the engine cannot be loaded on {worker.title}: {error.message}")

    def _stop_slow_loading(self) -> None:
        """Kill a worker that does not finish loading; `WorkerExited` follows."""
        now = self._clock()
        for worker in self._loading.values():
            if now - worker.started > MAX_LOADING_S:
                log.warning(
                    "killing a worker on %s: it has been loading for %.0f s",
                    worker.title,
                    now - worker.started,
                )
                worker.stop()

    def _stop_workers(self) -> None:
        with self._lock:
            self._closed = True
            workers = self._living()
        for worker in workers:
            worker.stop()
        self.ready, self._loading, self._fallback = {}, {}, None

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
            log.warning("%s", text)

    # -- batch sizes ----------------------------------------------------------------------------

    def _known_sizes(self, placement: Placement) -> BatchSizes:
        """From this pool's other workers on the device, else from earlier runs."""
        if placement.device.id in self._sizes:
            return self._sizes[placement.device.id][1]
        known = self._limits.get(self._size_key(placement)) if self._limits is not None else None
        return BatchSizes(known.worked or 0.0, known.failed) if known is not None else BatchSizes()

    def _store_sizes(self) -> None:
        """Store what was learnt about batch sizes for the next run."""
        if self._limits is None:
            return
        for placement, (good, failed), peak_bytes in self._sizes.values():
            if good or failed is not None:
                self._limits.record(
                    self._size_key(placement),
                    worked=good or None,
                    failed=failed,
                    peak_bytes=peak_bytes,
                )

    def _size_key(self, placement: Placement) -> BatchSizeKey:
        factory, budget = self._factory, placement.budget_bytes
        stamp = self._stamp if budget is None else f"{self._stamp}; {round(budget / GIB)} GiB"
        name = factory.name or factory.target
        return BatchSizeKey(placement.device.id, name, factory.version, placement.precision, stamp)
