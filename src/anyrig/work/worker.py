"""Worker processes of this machine: one per device, replaced when they die.

`LocalWorker` is one process as its pool sees it; `LocalWorkers` starts them, replaces those that
died, suspends devices whose workers keep dying, and remembers batch sizes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from anyrig.backends.process import (
    StderrTail,
    bind_device,
    describe_exit,
    kill_process_group,
    start_module,
)
from anyrig.errors import (
    MORE_DETAILS,
    AnyrigError,
    DeviceLostError,
    InvalidInputError,
    Message,
    OutOfMemoryError,
    WorkError,
    error_from_dict,
)
from anyrig.memory.known_sizes import BatchSizeKey, KnownBatchSizes
from anyrig.storage.files import PRIVATE_UMASK
from anyrig.units import GIB
from anyrig.work.outcome import ItemFailure
from anyrig.work.protocol import (
    HEARTBEAT_S,
    PICKLE_ERRORS,
    BatchDone,
    BatchSizes,
    CancelItems,
    Connection,
    EngineReady,
    Heartbeat,
    ItemPart,
    LoadEngine,
    NestedModel,
    RunItems,
    UnloadModel,
    WorkerEvent,
    WorkerExited,
    WorkerFailed,
    WorkerSource,
    WorkerStatus,
    encode_message,
    pickle_value,
)

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.work.batching import WorkItem
    from anyrig.work.engine import EngineFactory
    from anyrig.work.pool import WorkerPool
    from anyrig.work.scheduler import WorkerLoad

log = logging.getLogger(__name__)
MAX_LOADING_S = 1800.0
"""Large weights from a slow disk take minutes; nothing takes half an hour."""
_MAX_DEAD = 16
_LAST_MESSAGES_S = 2.0


class LocalWorkers(WorkerSource):
    """One process per placement and worker.

    Args:
        placements: where they run; `workers` of each.
        factory: how each makes its engine.
        environment: of this process.
        fallback: where items go when no device is left; usually the CPU.
        limits: batch sizes that earlier runs found; what this one finds is stored there.
        stamp: driver and library versions for which batch sizes hold.
        deterministic: an item's result must not depend on its batch.
        heartbeat_s: how often each worker sends a heartbeat.
    """

    def __init__(
        self,
        placements: Sequence[Placement],
        factory: EngineFactory,
        *,
        environment: Mapping[str, str],
        fallback: Placement | None = None,
        known_sizes: KnownBatchSizes | None = None,
        stamp: str = "",
        deterministic: bool = False,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        if not placements and fallback is None:
            raise WorkError("a pool needs at least one placement", hint="Pass a placement.")
        self._placements, self._fallback = placements, fallback
        self.factory, self.environment = factory, environment
        self.deterministic, self.heartbeat_s = deterministic, heartbeat_s
        self._known, self._stamp = known_sizes, stamp
        self._workers: list[LocalWorker] = []
        self._removed: list[LocalWorker] = []
        """Stopped ones whose process may not have ended yet."""
        self._dead: deque[WorkerStatus] = deque(maxlen=_MAX_DEAD)
        self._suspended: dict[str, list[Placement]] = {}
        """By device: placements that are not used, as their workers died."""
        self._sizes: dict[str, tuple[Placement, BatchSizes]] = {}
        """By device: batch sizes of workers that are gone or of earlier runs."""
        self._load_error: AnyrigError | None = None
        self._closed = False
        self._lock = threading.Lock()

    def start(self, pool: WorkerPool) -> None:
        self.pool = pool
        for placement in self._placements:
            for _ in range(placement.workers):
                self._start_worker(placement)

    @property
    def loading(self) -> bool:
        return any(worker.number not in self.pool.loads for worker in self._workers)

    @property
    def devices(self) -> list[str]:
        return [worker.device for worker in self._workers]

    def status(self) -> tuple[WorkerStatus, ...]:
        """Those that died come first."""
        return (*list(self._dead), *(worker.status() for worker in list(self._workers)))

    def unload_model(self, name: str) -> None:
        """Have workers that keep several models close one, unless it is in use."""
        for worker in list(self._workers):
            if worker.ready:
                worker.unload_model(name)

    def check(self) -> AnyrigError | None:
        """Make sure that somebody works; start the fallback if nobody else does."""
        self._stop_slow_loading()
        if self._workers:
            return None
        if self._fallback is not None:
            self.pool.warn(f"no device is left; continuing on {self._fallback.device.name}")
            self.start_fallback()
            return None
        if self._load_error is not None:
            return self._load_error
        last = self.pool.warnings[-1] if self.pool.warnings else "no worker could be started"
        return DeviceLostError(last, hint="Run `anyrig doctor`. Finished results are kept.")

    def add_worker(self, worker: LocalWorker, load: WorkerLoad[Any]) -> None:
        load.expected_rate = worker.placement.speed

    def remove_worker(
        self, worker: LocalWorker, exited: WorkerExited, suspects: Sequence[int]
    ) -> None:
        """Start another one if the device may be used again."""
        if worker not in self._workers:  # closed meanwhile
            return
        self._dead.append(worker.status())
        self._workers.remove(worker)
        self._remember_sizes(worker)
        worker.stop()
        self._removed = [one for one in (*self._removed, worker) if one.is_stopping]
        if exited.error is not None:
            self._record_load_error(worker, exited.error)
            return
        placement, device, failures = worker.placement, worker.device, self.pool.failures
        only = self._fallback is None and all(other == device for other in self.pool.devices)
        if not failures.is_suspended(device) or (only and not failures.exceeds_crash_limit(device)):
            log.warning("a worker on %s %s; starting another", worker.title, exited.reason)
            self._start_worker(placement)
            return
        self._suspended.setdefault(device, []).append(placement)
        if not any(other.device == device and other.ready for other in self._workers):
            self.pool.warn(f"{worker.title} is suspended: its worker {exited.reason}")

    def reuse_devices(self, devices: Sequence[str]) -> None:
        for device in devices:
            for placement in self._suspended.pop(device, []):
                log.info("using %s again: an item was the cause", placement.device.name)
                self._start_worker(placement)

    def start_fallback(self) -> bool:
        if self._fallback is None:
            return False
        placement, self._fallback = self._fallback, None
        self._start_worker(placement)
        return True

    def close(self) -> None:
        with self._lock:
            self._closed = True
            workers, self._workers = self._workers, []
        self._fallback = None
        for worker in workers:
            worker.stop()
        for worker in (*workers, *self._removed):
            worker.join()

    def _start_worker(self, placement: Placement) -> None:
        with self._lock:
            if not self._closed:
                sizes = self._known_sizes(placement)
                self._workers.append(LocalWorker(self, placement, sizes))

    def _record_load_error(self, worker: LocalWorker, error: AnyrigError) -> None:
        """The engine cannot be loaded on a device: it is not tried there again."""
        error.hint = error.hint or Message(
            "The error comes from the engine. {more}", more=MORE_DETAILS
        )
        on_gpu = worker.placement.device.kind == "gpu"
        if isinstance(error, OutOfMemoryError) and on_gpu and not error.on_host:
            error.devices = (worker.device,)
        self._load_error = error
        self.pool.warn(
            Message(
                "the engine cannot be loaded on {title}: {problem}",
                title=worker.title,
                problem=error.message,
            )
        )

    def _stop_slow_loading(self) -> None:
        """Kill a worker that does not finish loading; `WorkerExited` follows."""
        now = self.pool.clock()
        for worker in self._workers:
            loading_s = now - worker.started
            if not worker.ready and loading_s > MAX_LOADING_S:
                log.warning("killing a worker on %s: loading for %.0f s", worker.title, loading_s)
                worker.stop()

    # -- batch sizes ----------------------------------------------------------------------------

    def end_run(self) -> None:
        """Store what was learnt about batch sizes."""
        for worker in self._workers:
            self._remember_sizes(worker)
        if self._known is None:
            return
        for placement, (good, failed) in self._sizes.values():
            if good or failed is not None:
                self._known.record(self._size_key(placement), worked=good or None, failed=failed)

    def _remember_sizes(self, worker: LocalWorker) -> None:
        if worker.sizes is not None:
            self._sizes[worker.device] = (worker.placement, worker.sizes)

    def _known_sizes(self, placement: Placement) -> BatchSizes:
        """From this pool's other workers on the device, else from earlier runs."""
        if placement.device.id in self._sizes:
            return self._sizes[placement.device.id][1]
        known = self._known.get(self._size_key(placement)) if self._known is not None else None
        return BatchSizes(known.worked or 0.0, known.failed) if known is not None else BatchSizes()

    def _size_key(self, placement: Placement) -> BatchSizeKey:
        factory, budget = self.factory, placement.budget_bytes
        stamp = self._stamp if budget is None else f"{self._stamp}; {round(budget / GIB)} GiB"
        name = factory.name or factory.target
        return BatchSizeKey(placement.device.id, name, factory.version, placement.precision, stamp)


class LocalWorker:
    """One process on one device. Threads read, write and wait for its end; only `join` blocks."""

    confirm_errors = False  # an error would be the same on every device of this machine

    def __init__(self, source: LocalWorkers, placement: Placement, sizes: BatchSizes) -> None:
        self.source, self.placement = source, placement
        self._events, self._clock = source.pool.events, source.pool.clock
        self.number = next(source.pool.numbers)
        self.started = self.last_heartbeat = self._clock()
        self.ready = False
        """Whether it has loaded its engine."""
        self.models: tuple[str, ...] = ()
        self.nested_models: tuple[NestedModel, ...] = ()
        self.sizes: BatchSizes | None = None
        """What it has learnt about batch sizes."""
        self.exit_reason = ""
        """How the process ended; empty while it lives."""
        self._exit_reported = threading.Lock()
        """Held for ever by whoever reports the exit: that happens once."""
        self._reaper: threading.Thread | None = None
        """Waits for the end of a stopped process."""
        self._start(sizes)

    def _start(self, sizes: BatchSizes) -> None:
        source, placement = self.source, self.placement
        factory, environment = source.factory, source.environment
        variables, visible = bind_device(placement.device, environment)
        # An empty one, as in an interactive session, is the working directory.
        paths = tuple(path or os.getcwd() for path in sys.path)
        interpreter = factory.interpreter
        own_variables = interpreter.variables if interpreter else {}
        request = LoadEngine(
            factory,
            replace(placement, device=visible),
            () if interpreter else paths,
            sizes,
            not source.deterministic,
            source.heartbeat_s,
        )
        # Before the process starts: options that cannot be pickled leave none behind.
        try:
            data = encode_message(request)
        except PICKLE_ERRORS as error:
            raise InvalidInputError(
                f"the options of {factory.target} cannot be pickled: {error}",
                hint="Use plain values, or names that a worker can import.",
            ) from error
        # numpy's own threads spin while they wait for the next product, and small ones come often:
        # a voice spent a third of its CPU time on that.
        counts = {"OMP_NUM_THREADS": placement.threads, "MKL_NUM_THREADS": placement.threads}
        threads = {name: str(count) for name, count in counts.items()}
        threads["OPENBLAS_NUM_THREADS"] = "1"
        self._process = start_module(
            "anyrig.work.worker_main",
            {**threads, **environment, **variables, **placement.variables, **own_variables},
            interpreter=(interpreter.python, interpreter.packages) if interpreter else None,
            umask=PRIVATE_UMASK,  # it writes nothing but what it caches
        )
        self._stderr = StderrTail(self._process.stderr)
        self._connection = Connection(self._process.stdout, self._process.stdin)
        self._outbox: queue.SimpleQueue[list[bytes | memoryview] | None] = queue.SimpleQueue()
        self._outbox.put(data)
        self._reader = self._start_thread(self._read)
        self._start_thread(self._write)
        self._start_thread(self._wait_for_exit)

    @property
    def device(self) -> str:
        return self.placement.device.id

    @property
    def title(self) -> str:
        return self.placement.device.name

    def status(self) -> WorkerStatus:
        placement, load = self.placement, self.source.pool.loads.get(self.number)
        state: Literal["loading", "ready", "dead"] = "ready" if self.ready else "loading"
        if self.exit_reason:
            state = "dead"
        return WorkerStatus(
            self._process.pid,
            self.device,
            placement.device.kind,
            placement.backend.selector,
            state,
            self.started,
            self.last_heartbeat,
            self.models if state == "ready" else (),
            load.since if load is not None and load.items else None,
            self.exit_reason,
            self.nested_models if state == "ready" else (),
        )

    def send_items(self, items: Sequence[WorkItem[Any]]) -> list[tuple[int, str]]:
        pickled, refused = [], []
        for item in items:
            try:
                data = pickle_value(item.payload)
                pickled.append((item.index, data, item.cost, item.on_part is not None))
            except PICKLE_ERRORS as error:
                refused.append((item.index, f"the item cannot be pickled: {error}"))
        if pickled:
            self._send(RunItems(tuple(pickled)))
        return refused

    def cancel_items(self, indices: Sequence[int]) -> None:
        self._send(CancelItems(tuple(indices)))

    def unload_model(self, name: str) -> None:
        self._send(UnloadModel(name))

    def stop(self) -> None:
        """Kill the process; one that does not end is given up after a while."""
        if self._reaper is not None:
            return
        self._outbox.put(None)
        self._process.kill_group()
        self._process.kill()
        self._reaper = self._start_thread(self._reap)

    @property
    def is_stopping(self) -> bool:
        return self._reaper is not None and self._reaper.is_alive()

    def join(self) -> None:
        """Wait until a stopped process has ended, or was given up."""
        if self._reaper is not None:
            self._reaper.join()

    def _reap(self) -> None:
        if kill_process_group(self._process) is None:
            self._report_exit("was killed but has not exited")

    def _send(self, message: Any) -> None:
        self._outbox.put(encode_message(message))

    def _report_exit(self, reason: str, error: AnyrigError | None = None) -> None:
        """The first report counts.

        Args:
            reason: how the process ended.
            error: what the worker itself said before.
        """
        if not self._exit_reported.acquire(blocking=False):
            return
        if not self.ready and error is None:
            reason += " while loading"
        self.exit_reason = reason
        failed_to_load = error is not None and not self.ready
        exited = WorkerExited(reason, not failed_to_load, error if failed_to_load else None)
        self._events.put(WorkerEvent(self, exited))

    def _start_thread(self, target: Callable[[], None]) -> threading.Thread:
        name = f"anyrig-worker-{self.number}"
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (parts := self._outbox.get()) is not None:
                self._connection.write(parts)

    def _read(self) -> None:
        try:
            while True:
                message = self._connection.receive()
                self.last_heartbeat = self._clock()
                if isinstance(message, Heartbeat):
                    self.models, self.nested_models = message.models, message.nested_models
                    continue
                self.ready = self.ready or isinstance(message, EngineReady)
                if isinstance(message, WorkerFailed):
                    error = error_from_dict(message.error)
                    lost = isinstance(error, DeviceLostError)
                    reason = (
                        Message("lost its device: {problem}", problem=error.message)
                        if lost
                        else error.message
                    )
                    self._report_exit(reason, error)
                    continue
                if isinstance(message, ItemPart):
                    message = message._replace(part=message.part.load())
                elif isinstance(message, BatchDone):
                    message = _unpickle_results(message)
                    if message.stats.num_batches:
                        self.sizes = message.sizes
                self._events.put(WorkerEvent(self, message))
        except (EOFError, OSError, ValueError):
            pass  # it is gone: `_wait_for_exit` reports it
        except Exception:  # without its messages this worker is of no use
            log.exception("cannot read a message of worker %d", self.number)
            self._process.kill()
        finally:
            with contextlib.suppress(OSError, ValueError):
                assert self._process.stdout is not None
                self._process.stdout.close()

    def _wait_for_exit(self) -> None:
        """Wait for the process, not for its pipe: a child of it may keep the pipe open."""
        code = self._process.wait()
        self._reader.join(timeout=_LAST_MESSAGES_S)
        reason = describe_exit(code, self._stderr.lines())
        if self._reaper is None:
            log.debug("worker %d %s", self.number, reason)
        self._report_exit(reason)


def _unpickle_results(message: BatchDone) -> BatchDone:
    """A result that cannot be unpickled is a failure of its item alone."""
    results: list[tuple[int, Any]] = []
    failures = list(message.failures)
    for index, data in message.results:
        try:
            results.append((index, data.load()))
        except Exception as error:  # noqa: BLE001 - pickle raises whatever a class raises
            text = f"the result cannot be unpickled: {error}"
            failures.append((index, ItemFailure("error", text, 1)))
    return message._replace(results=tuple(results), failures=tuple(failures))
