"""A worker: Celery's own, with one queue, threads, and its device's facts in the registry.

Items of a task run through the same `work` as everything else: processes on the worker's device,
batches that fit, an item that kills its process set aside. Tasks of bulk work run one after the
other; items that somebody waits for overtake them.
"""

from __future__ import annotations

import _thread
import logging
import os
import platform
import secrets
import signal
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from celery import bootsteps
from celery.app.trace import setup_worker_optimizations
from celery.exceptions import Ignore, InvalidTaskError, WorkerShutdown
from celery.worker import state
from celery.worker.consumer import Consumer as CeleryConsumer
from celery.worker.strategy import default as run_strategy

from anyrig.cluster import tasks
from anyrig.cluster.blobs import BlobStore
from anyrig.cluster.broker import (
    DEFAULT_QUEUE,
    HEALTH,
    HEALTH_CHECK,
    HEARTBEAT_S,
    MAX_TASK_S,
    RUN_ITEMS,
    BrokerClient,
    make_app,
    make_queue,
    queue_name,
)
from anyrig.cluster.protocol import (
    Codec,
    TaskRequest,
    TaskResult,
    pack_results,
    parse_arguments,
    parse_headers,
    parse_request,
)
from anyrig.cluster.registry import (
    EngineId,
    WorkerInfo,
    WorkerRegistry,
    find_mismatch,
    make_name_taken_error,
    read_boot_id,
)
from anyrig.errors import (
    MORE_DETAILS,
    AnyrigError,
    InvalidInputError,
    OutOfMemoryError,
    PoisonItemError,
    WorkError,
    messages_to_json,
)
from anyrig.version import __version__
from anyrig.work.outcome import FailureKind, ItemFailure

if TYPE_CHECKING:
    from anyrig.work.live import LiveQueue
    from anyrig.work.protocol import WorkerStatus

log = logging.getLogger(__name__)
THREADS = 32
"""Tasks at once: of each client one that computes and one that is ready, and those of listeners,
which must find a free thread. Threads that are not needed are not started."""
MAX_BULK = 24
"""Tasks of bulk work among them."""
LEAVE_S = 20.0
"""How long current tasks may take when the worker is told to stop; then they are returned."""
_KILL_S = 10.0
_CELERY_S = 5.0
"""How long Celery may take to stop once no task is running."""
_CHECK_S = 1.0
"""How often a running task looks whether it was revoked."""
_FOREIGN_PAUSE_S = 2.0
"""How long the default queue is left alone after another application's message."""
_MAX_SEEN = 4096
_MAX_NAMES = 100
_SMOOTHING = 0.3
OnWorkerEvent = Callable[[str, Mapping[str, Any]], None]


class LoadedEngine(Protocol):
    live: LiveQueue[Any, Any]

    def check(self, payload: Any) -> None:
        """Raise an error for an item that must not be computed here."""


class Engines(Protocol):
    """What a worker can do; given by the application."""

    @property
    def engines(self) -> tuple[EngineId, ...]:
        """Those that are ready on this machine."""

    @property
    def precisions(self) -> Mapping[str, tuple[str, ...]]:
        """By engine: the precision classes it can compute in, the best first."""

    @property
    def codecs(self) -> Mapping[str, Codec]:
        """By kind of work."""

    def borrow(
        self, request: TaskRequest, on_load: Callable[[Mapping[str, Any]], None]
    ) -> AbstractContextManager[LoadedEngine]: ...

    def processes(self) -> Sequence[WorkerStatus]:
        """Processes of loaded engines that are ready."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class WorkerDevice:
    """What a worker computes on."""

    name: str
    kind: str
    word: str
    """How its library names it: `cuda:0`, `cpu`."""
    memory_mb: int = 0


class ClusterWorker:
    """One worker of a cluster.

    Args:
        machine: name that all workers of the machine share.
        engines: what it can do; closed with it.
        observe: what the GPUs report now, as fields of `WorkerInfo`.
        on_event: called with `ready`, `loaded` and `left`, and facts.
        on_heartbeat: called with its name at every heartbeat, also while the broker is away.
    """

    def __init__(
        self,
        client: BrokerClient,
        name: str,
        device: WorkerDevice,
        engines: Engines,
        *,
        machine: str = "",
        observe: Callable[[], Mapping[str, Any]] = dict,
        on_event: OnWorkerEvent = lambda event, facts: None,
        on_heartbeat: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.name, self._machine, self._device = name, machine or name, device
        self._client, self._blobs = client, BlobStore(client)
        self._registry = WorkerRegistry(client)
        self._observe, self._on_event, self._on_heartbeat = observe, on_event, on_heartbeat
        self._engines = engines
        self._instance = secrets.token_hex(8)
        self._lock, self._bulk = threading.Lock(), threading.Lock()
        self._bulk_slots = threading.Semaphore(MAX_BULK)
        self._seen: OrderedDict[str, None] = OrderedDict()
        """Ids of the last tasks."""
        self._speeds: dict[str, float] = {}
        self._num_segments = self._num_tasks = self._num_heartbeats = 0
        self._ready = self._replaced = self.draining = False
        self._stopping, self._returning = threading.Event(), threading.Event()
        self._stop_reason, self._num_signals, self._interrupting = "", 0, False
        self._ended, self._celery_stopped = threading.Event(), threading.Event()
        self._heartbeats = threading.Thread(
            target=self._send_heartbeats, name="anyrig-heartbeat", daemon=True
        )

    # -- the registry ----------------------------------------------------------------------------

    def register(self, *, fixed_name: bool = True, shared_pids: bool = True) -> None:
        """Take the name, and keep it from now on; a dead worker's name is taken over.

        Args:
            fixed_name: whether a person chose the name; otherwise a free one is found.
            shared_pids: see `WorkerRegistry.is_alive`.
        """
        chosen, other, dead = self.name, None, None
        for number in range(1, _MAX_NAMES + 1):
            self.name = chosen if number == 1 else f"{chosen}-{number}"
            while other := self._client.retry(partial(self._register, dead)):
                if self._registry.is_alive(other, shared_pids=shared_pids):
                    break
                dead = other
            if other is None:  # what was asked of the worker before is not meant for this one
                self._client.retry(lambda: self._registry.drain(self.name, on=False))
                self._heartbeats.start()
                return
            if fixed_name:
                break
        assert other is not None
        raise make_name_taken_error(other)

    def _register(self, dead: WorkerInfo | None) -> WorkerInfo | None:
        return self._registry.register(self.info(), replaces=dead)

    def info(self) -> WorkerInfo:
        """How it is now."""
        observed, active = self._observe(), list_active_tasks()
        with self._lock:
            speeds = dict(self._speeds)
            self._num_heartbeats += 1
        processes = self._engines.processes()
        models = tuple(dict.fromkeys(name for one in processes for name in one.models))
        word = processes[-1].selector if processes else self._device.word
        idle = "ready" if self._ready else "loading"
        status = "draining" if self.draining else "busy" if active else idle
        return WorkerInfo(
            self.name, __version__, instance=self._instance, machine=self._machine,
            host=socket.gethostname(), pid=os.getpid(), boot_id=read_boot_id(), clock=time.time(),
            python=platform.python_version(), system=platform.platform(terse=True),
            device=self._device.name, kind=self._device.kind, word=word,
            engines=self._engines.engines, precisions=self._engines.precisions, status=status,
            device_type=word.partition(":")[0],
            gpu_available=bool(observed.get("gpu_available", False)),
            gpu_count=int(observed.get("gpu_count", 0)),
            gpu_memory_free_mb=observed.get("gpu_memory_free_mb", 0),
            device_memory_mb=self._device.memory_mb, tts_model_loaded=bool(models),
            cached_models=models, speeds=speeds, segments_done=self._num_segments,
            shards_done=self._num_tasks, tasks=active, heartbeat=self._num_heartbeats,
        )  # fmt: skip

    def _update_entry(self) -> None:
        """Write to the registry before the next heartbeat, which does it if this fails."""
        try:
            self._registry.write(self.info())
        except Exception as error:  # noqa: BLE001 - a worker starts and stops without its broker
            log.info("the registry entry was not updated: %s", error)

    def _send_heartbeats(self) -> None:
        unavailable = False
        while not self._ended.wait(HEARTBEAT_S):
            self._on_heartbeat(self.name)
            try:
                info = self.info()
                if not self._registry.owns_name(info):  # it was suspended and replaced
                    self._replaced = self.draining = True
                    self.stop("its name was taken")
                    return
                self._registry.write(info)
                if not self._stopping.is_set():
                    self._follow_drain(info)
                if unavailable:
                    log.warning("the broker is available again")
                unavailable = False
            except Exception as error:  # noqa: BLE001 - it may come back
                if not unavailable:
                    log.warning("the broker is unavailable (%s); waiting for it", error)
                unavailable = True

    def _follow_drain(self, info: WorkerInfo) -> None:
        """Leave if somebody asks for it in the registry; until it is idle that can be undone."""
        self.draining = self._registry.is_draining(self.name)
        if self.draining and info.status == "draining" and not info.tasks:
            self.stop("it was drained")

    def unregister(self) -> None:
        """Leave nothing of this worker in the broker."""
        self._ended.set()
        if self._heartbeats.ident is None:
            return  # not registered; the name may be another worker's
        if self._heartbeats.is_alive():  # its last heartbeat would register it again
            self._heartbeats.join(timeout=HEARTBEAT_S)
        if not self._replaced:
            with suppress(Exception):  # otherwise its entry lapses
                self._registry.remove(self.name)

    def close(self) -> None:
        self.unregister()
        self._engines.close()

    # -- Celery ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until told to stop."""
        app = make_app(self._client.url)
        app.conf.task_queues = [make_queue(queue_name(self.name)), make_queue(DEFAULT_QUEUE)]
        app.steps["consumer"].add(DeviceStep)
        app.loader.import_default_modules()
        hostname = f"{self.name}@{socket.gethostname()}"
        setup_worker_optimizations(app, hostname)  # its threads use this application
        for name in list(app.tasks):
            if name not in (RUN_ITEMS, HEALTH, HEALTH_CHECK):
                app.tasks.unregister(name)
        tasks.set_worker(self)
        controller: Any = app.WorkController(
            hostname=hostname, pool="threads", concurrency=THREADS, without_gossip=True,
            without_mingle=True, loglevel=logging.WARNING,
            ready_callback=lambda consumer: self._report_ready(),
        )  # fmt: skip
        try:
            controller.start()
        finally:
            self._celery_stopped.set()
        if not self._stopping.is_set():
            raise WorkError("the worker stopped unexpectedly", hint=MORE_DETAILS)
        if self._replaced:
            raise WorkError(
                f"another worker is called {self.name} now: this one had no heartbeat for too long",
                hint="Start it again.",
            )
        self._report_left()

    def _report_ready(self) -> None:
        """The queues are consumed: from now on clients may use this worker."""
        if self._ready:
            return  # connected again
        self._ready = True
        self._update_entry()
        engines = [one.engine for one in self._engines.engines]
        facts = {"device": self._device.name, "word": self._device.word, "engines": engines}
        self._on_event("ready", facts)

    def _report_loaded(self, facts: Mapping[str, Any]) -> None:
        gpu = bool(self._observe().get("gpu_available", False))
        word = facts["word"] or self._device.word
        self._on_event(
            "loaded", {**facts, "word": word, "device": self._device.name, "gpu_available": gpu}
        )

    def _report_left(self) -> None:
        self._on_event("left", {"reason": self._stop_reason})

    # -- stopping --------------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Finish what is running and stop; from any thread, or a signal handler."""
        self._stop_reason = self._stop_reason or reason
        self._stopping.set()

    def _leave(self) -> None:
        self._stopping.wait()
        # It was told to stop, and does: whoever restarts what failed must not restart this.
        killer = threading.Timer(LEAVE_S + _KILL_S, os._exit, (0,))
        killer.daemon = True
        killer.start()
        if not self.finish(LEAVE_S):
            self._stop_reason += "; unfinished items were returned"
        state.should_stop = 0  # type: ignore[assignment]  # the exit code
        if not self._celery_stopped.wait(_CELERY_S):
            # Celery does not check should_stop while it sends an event to a broker that is away.
            self._interrupting = True
            _thread.interrupt_main(signal.SIGTERM)

    def finish(self, timeout_s: float) -> bool:
        """Take nothing new and wait for what is running; whether everything was finished."""
        self.draining = True
        if self._heartbeats.is_alive():
            self._update_entry()
        if _wait_idle(timeout_s):
            return True
        self._returning.set()
        _wait_idle(2 * _CHECK_S)
        return False

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """SIGTERM and Ctrl+C stop it; the second one ends the process at once.

        To be entered before `register`, which may wait for the broker.
        """
        threading.Thread(target=self._leave, name="anyrig-stop", daemon=True).start()
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            yield
        except WorkerShutdown:  # interrupted; Celery catches it itself
            self._report_left()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        if self._interrupting:
            self._interrupting = False
            if not self._celery_stopped.is_set():
                raise WorkerShutdown(0)
            return
        self._num_signals += 1
        if self._num_signals == 1:
            self.stop(signal.Signals(number).name)
            return
        # The processes of its engines end with it.
        threading.Thread(target=self._exit_now, daemon=True).start()
        threading.Timer(2.0, os._exit, (128 + number,)).start()

    def _exit_now(self) -> None:
        self.unregister()
        os._exit(130)

    # -- tasks -----------------------------------------------------------------------------------

    def run_items(self, value: Any, task_id: str) -> dict[str, Any]:
        """Run a task; never an error, whatever the message contains."""
        try:
            request = parse_request(value)
        except InvalidInputError as error:
            log.warning("task %s: %s", task_id, error.message)
            return _to_json(TaskResult(refused=error.message))
        with self._lock:
            if task_id in self._seen:  # sent twice: its sender could not know that it arrived
                log.info("task %s came twice", task_id)
                raise Ignore
            self._seen[task_id] = None
            while len(self._seen) > _MAX_SEEN:
                self._seen.popitem(last=False)
        try:
            result, blob = self._run(request, task_id)
            if blob:
                self._blobs.put(task_id, blob)
            return _to_json(result)
        except AnyrigError as error:
            log.warning("task %s: %s", task_id, error.message)
            return _to_json(TaskResult(refused=error.message))
        except Exception as error:
            log.exception("task %s", task_id)
            return _to_json(TaskResult(refused=f"the task failed: {type(error).__name__}"))

    def _run(self, request: TaskRequest, task_id: str) -> tuple[TaskResult, bytes]:
        returned = TaskResult(returned=tuple(index for index, _ in request.items)), b""
        if self.draining:
            return returned
        if request.lane == "live":
            return self._compute(request, task_id)
        if not self._bulk_slots.acquire(blocking=False):  # threads are left for listeners
            return returned
        try:
            with self._bulk:  # the next task is here already and starts when this one ends
                if is_revoked(task_id) or self._returning.is_set():
                    return returned
                return self._compute(request, task_id)
        finally:
            self._bulk_slots.release()

    def _compute(self, request: TaskRequest, task_id: str) -> tuple[TaskResult, bytes]:
        mine = self._engines
        reason = find_mismatch(request.engine, request.precision, mine.engines, mine.precisions)
        if reason or request.kind not in mine.codecs:
            raise InvalidInputError(
                reason or f"unknown kind of work {request.kind[:40]!r}",
                hint="Install the same engines and versions on all machines.",
            )
        with mine.borrow(request, self._report_loaded) as engine:
            return self._compute_with(engine, mine.codecs[request.kind], request, task_id)

    def _compute_with(
        self, engine: LoadedEngine, codec: Codec, request: TaskRequest, task_id: str
    ) -> tuple[TaskResult, bytes]:
        payloads = _decode_items(request, codec, engine)
        lane: Any = "live" if request.lane == "live" else "bulk"
        began, num_oom = time.monotonic(), engine.live.report.num_out_of_memory
        futures: dict[Future[Any], int] = {}
        try:
            for priority, (index, payload) in enumerate(payloads.items()):
                futures[engine.live.submit(payload, lane=lane, priority=priority)] = index
            results, failures = self._collect(futures, task_id)
        finally:
            for future in futures:
                future.cancel()
        seconds, done = time.monotonic() - began, {*results, *failures}
        cost = sum(codec.cost(payload) for index, payload in payloads.items() if index in done)
        with self._lock:
            self._num_segments += len(results)
            self._num_tasks += 1
            if results and lane == "bulk":
                self._learn_speed(request.engine.engine, cost / max(seconds, 1e-6))
        result = TaskResult(
            failures=failures, returned=tuple(index for index in payloads if index not in done),
            cost=cost, seconds=seconds,
            num_batches=int(bool(results)),  # a worker that fails at once is not the fastest
            num_out_of_memory=engine.live.report.num_out_of_memory - num_oom,
        )  # fmt: skip
        compress = request.compress
        encoded = {n: codec.encode_result(one, compress=compress) for n, one in results.items()}
        return pack_results(result, encoded)

    def _collect(
        self, futures: Mapping[Future[Any], int], task_id: str
    ) -> tuple[dict[int, Any], dict[int, ItemFailure]]:
        results: dict[int, Any] = {}
        failures: dict[int, ItemFailure] = {}
        waiting, end = set(futures), time.monotonic() + MAX_TASK_S
        while waiting:
            done, waiting = wait(waiting, timeout=_CHECK_S, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    results[futures[future]] = future.result()
                except AnyrigError as error:
                    failures[futures[future]] = _make_failure(error)
            if self._returning.is_set() or is_revoked(task_id) or time.monotonic() > end:
                break
        return results, failures

    def _learn_speed(self, engine: str, speed: float) -> None:
        before = self._speeds.get(engine)
        self._speeds[engine] = speed if before is None else before + _SMOOTHING * (speed - before)


def _decode_items(request: TaskRequest, codec: Codec, engine: LoadedEngine) -> dict[int, Any]:
    try:
        payloads = {index: codec.decode_item(value) for index, value in request.items}
    except Exception as error:  # noqa: BLE001 - whatever it contains, it is not valid
        raise InvalidInputError(
            f"invalid item: {type(error).__name__}: {error}"[:200],
            hint="Run the same version of anyrig on all machines.",
        ) from None
    for payload in payloads.values():
        engine.check(payload)
    return payloads


def _to_json(result: TaskResult) -> dict[str, Any]:
    row: dict[str, Any] = messages_to_json(asdict(result))
    return row


def _make_failure(error: AnyrigError) -> ItemFailure:
    kind: FailureKind = "crash" if isinstance(error, PoisonItemError) else "error"
    if isinstance(error, OutOfMemoryError):
        kind = "memory"
    return ItemFailure(kind, error.message, 1, error.hint)


# -- Celery's side --------------------------------------------------------------------------------


def list_active_tasks() -> tuple[str, ...]:
    """Ids of tasks that were received and have no result yet."""
    while True:
        try:
            return tuple(
                request.id for request in list(state.reserved_requests)
                if request.name == RUN_ITEMS
            )  # fmt: skip
        except RuntimeError:  # it changed meanwhile
            continue


def is_revoked(task_id: str) -> bool:
    return task_id in state.revoked


def _wait_idle(timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    while list_active_tasks():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def check_and_run(task: Any, app: Any, consumer: Any) -> Any:
    """Celery's strategy for a task, which trusts its message, after a check of all of it."""
    handle = run_strategy(task, app, consumer)

    def check(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> Any:
        try:
            parse_arguments(message.payload)
            message.headers = parse_headers(message.headers)
        except InvalidInputError as error:
            raise InvalidTaskError(error.message) from None
        return handle(message, body, ack, reject, callbacks)

    return check


class Consumer(CeleryConsumer):
    """Drops what is not a task of ours; puts it back if it is in the default queue, which may be
    another application's, and leaves that queue alone for a while.
    """

    def on_unknown_message(self, body: Any, message: Any) -> None:
        self._refuse(message, "it is not a task")

    def on_unknown_task(self, body: Any, message: Any, exc: Any) -> None:
        self._refuse(message, "its task is unknown")

    def on_invalid_task(self, body: Any, message: Any, exc: Any) -> None:
        ours = message.headers.get("task") in (RUN_ITEMS, HEALTH)
        self._refuse(message, f"it is not valid: {exc}", ours=ours)

    def on_decode_error(self, message: Any, exc: Any) -> None:
        self._refuse(message, "it cannot be decoded")

    def _refuse(self, message: Any, reason: str, *, ours: bool = False) -> None:
        # Not the message itself: it may contain texts.
        whole: Any = self  # Celery's stubs leave out most of it
        if ours or message.delivery_info.get("routing_key") != DEFAULT_QUEUE:
            log.warning("dropped an invalid message: %s", reason[:200])
            message.reject_log_error(log, whole.connection_errors)
            return
        log.info("put back a message of the default queue: %s", reason[:200])
        message.reject_log_error(log, whole.connection_errors, requeue=True)
        whole.cancel_task_queue(DEFAULT_QUEUE)
        whole.timer.call_after(_FOREIGN_PAUSE_S, self._resume_default_queue)

    def _resume_default_queue(self) -> None:
        whole: Any = self
        whole.app.amqp.queues.select_add(make_queue(DEFAULT_QUEUE))
        whole.add_task_queue(DEFAULT_QUEUE)


class DeviceStep(bootsteps.StartStopStep):
    """Adds the device's facts to `celery inspect stats`, and so to Flower."""

    def info(self, parent: Any) -> Any:
        return tasks.get_worker().info().describe()
