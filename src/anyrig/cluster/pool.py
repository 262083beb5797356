"""A pool whose workers are on other machines.

    pool = ClusterPool(BrokerClient(url), engine, SpeechCodec())
    for outcome in pool.run(lines, cost=lambda line: line.cost): ...

`work`'s scheduler decides which worker gets which items; here they are sent as Celery tasks to the
queue of that worker, at most two at a time, and what comes back is checked. A worker whose registry
entry lapses is gone: its tasks are revoked and its items go to others. That is the only place where
anything is sent again.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from anyrig.cluster.blobs import BlobStore
from anyrig.cluster.broker import (
    HEARTBEAT_S,
    MAX_TASK_S,
    OUTAGE_S,
    RUN_ITEMS,
    BrokerClient,
    is_outage,
    make_app,
    make_queue,
    unavailable,
)
from anyrig.cluster.protocol import EncodedResult, TaskRequest, TaskResult, parse_result
from anyrig.cluster.registry import WorkerRegistry, find_mismatch
from anyrig.errors import AnyrigError, InvalidInputError, WorkError
from anyrig.work.outcome import BatchStats
from anyrig.work.pool import WorkerPool
from anyrig.work.protocol import (
    BatchDone,
    Draining,
    EngineReady,
    ItemsReturned,
    ItemsStarted,
    WorkerEvent,
    WorkerExited,
    WorkerSource,
)
from anyrig.work.scheduler import Scheduler, WorkerLoad

if TYPE_CHECKING:
    from anyrig.cluster.protocol import Codec, OptionValue
    from anyrig.cluster.registry import EngineId, WorkerInfo
    from anyrig.work.batching import WorkItem
    from anyrig.work.protocol import WorkerHandle

log = logging.getLogger(__name__)
SLICE_S, LOW_S = 1.0, 0.2
"""How much a worker is given at once; a task and its result take about 10 ms on the way."""
MAX_IN_FLIGHT = 2
"""Tasks of a worker: one that it computes and the next."""
EXPIRES_S = 600.0
"""A task that was not started for so long is not wanted any more."""
_POLL_S, _POLL_EACH_S = 1.0, 0.002
_MISSING_S = 4.0
"""After a broker was restarted, every worker has registered again within this time."""
_REPORT_ALONE_S = 3.0
_LOST_TASK_S = 6.0
"""A task that its worker does not list after so long may have been lost with the broker."""
_BACKOFF_S = (2.0, 10.0, 30.0, 120.0, 600.0)
"""How long a worker that refused a task gets none: the first time, the second, and so on."""
_MAX_REFUSALS = 3
"""A worker that refused so many and completed none since is not waited for."""
_MAX_REMEMBERED = 1024
_MIN_AHEAD, _AHEAD = 512, 64
"""Items that may be under way at least, and for each worker: their results wait in memory."""
_REJOINS = "is considered again"


class ClusterPool(WorkerPool):
    """All workers that have an engine equal to this machine's.

    Args:
        client: of the broker; closed with the pool.
        engine: only workers with an equal one are used.
        precision: precision class that results are cached under.
        lane: `live` if somebody is listening.
        wait_s: how long there may be no worker before a run fails.
        slice_s: how long what a worker is given at once takes it.
        local: workers of this machine that work on the same runs.
    """

    def __init__(
        self,
        client: BrokerClient,
        engine: EngineId,
        codec: Codec,
        *,
        precision: str = "fp32",
        options: Mapping[str, OptionValue] | None = None,
        lane: str = "bulk",
        wait_s: float = 60.0,
        slice_s: float = SLICE_S,
        local: Sequence[WorkerSource] = (),
    ) -> None:
        request = TaskRequest(codec.kind, engine, (), precision, options or {}, lane)
        self.remote = RemoteWorkers(client, codec, request, wait_s=wait_s)
        super().__init__(
            self.remote,
            *local,
            scheduler=partial(Scheduler, slice_s=slice_s, low_s=LOW_S, known_speeds=True),
        )

    def handle_arrival(self, worker: WorkerHandle, message: Any) -> bool:
        handled = super().handle_arrival(worker, message)
        if worker.source is not self.remote and worker.number in self.loads and handled:
            # Speeds of devices are relative, those of remote workers are cost per second.
            self.loads[worker.number].expected_rate = None
        return handled


@dataclass(eq=False)
class _RemoteTask:
    """A task that was sent, or is about to be."""

    id: str
    worker: RemoteWorker
    payloads: dict[int, Any]
    open: set[int]
    """Items that no other worker has computed meanwhile."""
    sent_at: float | None = None
    cancelled_at: float | None = None
    revoked: bool = False
    answered: bool = False
    """Whether its result is here and is being checked."""
    result: Any = None
    """Celery's `AsyncResult`."""


@dataclass(eq=False)
class RemoteWorker:
    """One worker. The pool's thread sends and cancels, others report: under the source's lock."""

    source: RemoteWorkers
    number: int
    info: WorkerInfo
    confirm_errors: ClassVar[bool] = True
    """A failed item is tried on another machine: this one's disk may be full."""
    tasks: dict[str, _RemoteTask] = field(default_factory=dict)
    """Those without a result, in the order in which they were sent."""
    load: WorkerLoad[Any] | None = None
    seen_at: float = 0.0
    missing_since: float | None = None
    closed: bool = False
    draining: bool = False

    @property
    def device(self) -> str:
        return self.info.name

    @property
    def title(self) -> str:
        return f"{self.info.name} ({self.info.device})"

    @property
    def last_heartbeat(self) -> float | None:
        """Now, if it lists one of our tasks itself."""
        now = time.monotonic()
        with self.source.lock:
            sent = [one.sent_at for id, one in self.tasks.items() if id in self.info.tasks]
        since = [at for at in sent if at is not None]
        return now if since and now - min(since) < 2 * MAX_TASK_S else None

    def send_items(self, items: Sequence[WorkItem[Any]]) -> list[tuple[int, str]]:
        self.source.send(self, items)
        return []

    def cancel_items(self, indices: Sequence[int]) -> None:
        """Revoke a task of which nothing is wanted any more; its worker reports when it stopped."""
        with self.source.lock:
            for task in self.tasks.values():
                task.open.difference_update(indices)
                if not task.open and task.cancelled_at is None:
                    task.cancelled_at = time.monotonic()
                    self.source.revoke([task])

    def stop(self) -> None:
        self.source.dismiss(self, "did not complete anything")

    @property
    def computing(self) -> tuple[int, ...]:
        """Items of the task that it was sent first."""
        return next((tuple(task.payloads) for task in self.tasks.values()), ())

    def update_load(self) -> None:
        if self.load is not None:
            self.load.full = len(self.tasks) >= MAX_IN_FLIGHT


@dataclass(eq=False)
class _History:
    """What is known of a worker by name, also after it left."""

    instance: str = ""
    load: WorkerLoad[Any] | None = None
    """What the scheduler learnt about it."""
    suspects: Sequence[int] = ()
    """Its items when this instance was given up. It may only have been asleep."""
    num_refusals: int = 0
    """Tasks that this instance refused since it last completed one."""
    unused: str = ""
    """Why it gets nothing, or what it refused last."""
    not_before: float = 0.0
    """When it is considered again."""


class RemoteWorkers(WorkerSource):
    """The workers of a cluster that can do some work.

    One thread sends tasks and reads the registry, one receives results.
    """

    def __init__(
        self,
        client: BrokerClient,
        codec: Codec,
        request: TaskRequest,
        *,
        wait_s: float,
    ) -> None:
        """Prepare; nothing is connected before `start`.

        Args:
            request: of every task, without its items.
            wait_s: how long there may be no worker before a run fails.
        """
        self._client, self._codec, self._request = client, codec, request
        self._wait_s = wait_s
        self._registry, self._blobs = WorkerRegistry(client), BlobStore(client)
        self._app = self._connect()
        self.lock = threading.RLock()
        self._workers: dict[str, RemoteWorker] = {}
        self._tasks: dict[str, _RemoteTask] = {}
        self._known: OrderedDict[str, _History] = OrderedDict()
        self._alone_since = self._reported_alone = time.monotonic()
        self._outage_since: float | None = None
        self._available_at = 0.0
        """When the broker was last found again."""
        self._error: AnyrigError | None = None
        self._found_worker = False
        self._closed = threading.Event()
        self._operations: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._subscribed = threading.Event()
        self._answers: deque[Any] = deque()
        self._threads = [
            threading.Thread(target=self._serve, name="anyrig-cluster", daemon=True),
            threading.Thread(target=self._receive, name="anyrig-results", daemon=True),
        ]

    def _connect(self) -> Any:
        app = make_app(self._client.url)
        # One try: whoever sends and receives here tries again.
        app.conf.result_backend_transport_options = {"retry_policy": {"max_retries": 1}}
        for name in ("celery.backends.redis", "celery.backends.asynchronous"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # reported here, once
        # It warns of each task for a worker whose clock is behind ours.
        logging.getLogger("celery.app.base").setLevel(logging.ERROR)
        return app

    # -- what a pool asks ------------------------------------------------------------------------

    def start(self, pool: ClusterPool) -> None:  # type: ignore[override]
        self._pool = pool
        for thread in self._threads:
            thread.start()

    @property
    def devices(self) -> list[str]:
        return list(self._workers)

    @property
    def loading(self) -> bool:
        return not self._found_worker

    @property
    def look_ahead(self) -> int:
        return max(_MIN_AHEAD, _AHEAD * len(self._workers))

    def check(self) -> AnyrigError | None:
        if self._error is not None:
            return self._error
        now = time.monotonic()
        workers = list(self._workers.values())
        useful = any(self._recall(one.info).num_refusals < _MAX_REFUSALS for one in workers)
        if useful or self._outage_since is not None:
            self._alone_since = now
            return None
        engine, alone_s = self._request.engine.engine, now - self._alone_since
        if alone_s > _REPORT_ALONE_S and self._reported_alone != self._alone_since:
            self._reported_alone = self._alone_since
            if self._wait_s - alone_s > _REPORT_ALONE_S:
                log.warning(
                    "no worker has %s; waiting %.0f s for one", engine, self._wait_s - alone_s
                )
        if alone_s < self._wait_s:
            return None
        unused = [(name, one.unused) for name, one in list(self._known.items()) if one.unused]
        reasons = "; ".join(f"{name}: {reason}" for name, reason in unused)
        return WorkError(
            f"no worker of the cluster can run {engine}" + (f" ({reasons})" if reasons else ""),
            hint="`anyrig cluster status` lists workers; `anyrig worker --join TOKEN` adds one.",
        )

    def add_worker(self, worker: RemoteWorker, load: WorkerLoad[Any]) -> None:
        history = self._recall(worker.info)
        # A worker that returns as the instance it was did not crash: no item is to blame.
        for index in history.suspects:
            self._pool.failures.forgive_item(index, worker.device)
        history.suspects = ()
        speed, before = worker.info.speeds.get(self._request.engine.engine), history.load
        if before is not None:
            speed = before.rate or speed or before.expected_rate
        load.expected_rate = speed
        history.load = load
        with self.lock:
            worker.load = load
            worker.update_load()

    def _recall(self, info: WorkerInfo) -> _History:
        """What is known of a worker; another instance under its name starts anew."""
        with self.lock:
            history = self._known.setdefault(info.name, _History())
            if history.instance != info.instance:
                history.instance, history.suspects, history.num_refusals = info.instance, (), 0
            self._known.move_to_end(info.name)
            if len(self._known) > _MAX_REMEMBERED + len(self._workers):
                self._known.popitem(last=False)
            return history

    def remove_worker(
        self, worker: RemoteWorker, exited: WorkerExited, suspects: Sequence[int]
    ) -> None:
        self.dismiss(worker, exited.reason, crashed=exited.crashed)
        if not exited.crashed:
            return
        self._recall(worker.info).suspects = suspects
        others = any(one is not worker for one in list(self._workers.values()))
        self._pool.warn(
            f"{worker.title} {exited.reason}; its work {'goes to others' if others else 'waits'}"
        )

    def end_run(self) -> None:
        """Revoke what is still under way; the next run starts with the speeds of this one."""
        with self.lock:
            self.revoke(self._tasks.values())
            for worker in self._workers.values():
                for id in worker.tasks:
                    self._tasks.pop(id, None)
                worker.tasks.clear()
                load = self._pool.loads.get(worker.number)
                if load is not None:
                    worker.load = WorkerLoad(
                        worker.number, load.rate or load.expected_rate, draining=load.draining
                    )
                    self._pool.loads[worker.number] = worker.load
                    self._recall(worker.info).load = worker.load

    def close(self) -> None:
        with self.lock:
            for worker in list(self._workers.values()):
                self.dismiss(worker, _REJOINS, crashed=False)
        self._operations.put(None)
        if self._threads[0].is_alive():
            self._threads[0].join(timeout=3)  # it revokes first, unless the broker is unavailable
        self._closed.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=3)
        _disconnect(self._app)
        self._client.close()

    # -- tasks -----------------------------------------------------------------------------------

    def send(self, worker: RemoteWorker, items: Sequence[WorkItem[Any]]) -> None:
        from celery.utils import uuid

        payloads = {item.index: item.payload for item in items}
        with self.lock:
            if worker.closed or worker.draining:  # the pool is about to be told
                self._post(worker, ItemsReturned(tuple(payloads)))
                return
            if not worker.tasks:
                self._post(worker, ItemsStarted(tuple(payloads)))
            task = _RemoteTask(uuid(), worker, payloads, {*payloads})
            worker.tasks[task.id] = self._tasks[task.id] = task
            worker.update_load()
        self._operations.put(partial(self._publish, task))

    def _publish(self, task: _RemoteTask) -> None:
        with self.lock:
            if task.id not in self._tasks or task.cancelled_at is not None:
                self._return(task)
                return
            info, worker = task.worker.info, task.worker
        items = tuple((n, self._codec.encode_item(one)) for n, one in task.payloads.items())
        # On one machine compression saves nothing and costs 4 % of the default voice.
        elsewhere = info.host != socket.gethostname()
        request = replace(self._request, items=items, compress=elsewhere)
        self._subscribe(task)
        # By the worker's own clock, which may be wrong.
        worker_now = info.clock + (time.monotonic() - worker.seen_at)
        self._app.signature(RUN_ITEMS, (asdict(request),)).apply_async(
            queue=make_queue(info.queue, expires_s=MAX_TASK_S),
            task_id=task.id,
            expires=datetime.fromtimestamp(worker_now + EXPIRES_S, UTC),
            argsrepr=request.describe(),
            retry=False,
        )
        task.sent_at = time.monotonic()

    def _subscribe(self, task: _RemoteTask) -> None:
        task.result = task.result or self._app.AsyncResult(task.id)
        task.result.then(self._answers.append)
        self._subscribed.set()

    def revoke(self, tasks: Any) -> None:
        """Nobody wants these any more; whoever has one stops after the current item."""
        by_worker: dict[str, list[_RemoteTask]] = {}
        for task in tasks:
            by_worker.setdefault(task.worker.info.hostname, []).append(task)
        for hostname, some in by_worker.items():
            self._operations.put(partial(self._revoke, hostname, some))

    def _revoke(self, hostname: str, tasks: Sequence[_RemoteTask]) -> None:
        sent = [task for task in tasks if task.sent_at is not None]
        if new := [task for task in sent if not task.revoked]:
            self._app.control.revoke([task.id for task in new], destination=[hostname])
        for task in sent:
            task.revoked = True
            if task.id not in self._tasks:  # else its worker's result is awaited
                self._forget(task)

    def _forget(self, task: _RemoteTask) -> None:
        """Delete what the broker still has of a task."""
        backend = self._app.backend
        if task.result is not None:
            backend.remove_pending_result(task.result)
        self._client.redis.delete(self._blobs.key(task.id), backend.get_key_for_task(task.id))

    def _return(self, task: _RemoteTask) -> None:
        """A task is not computed, and nobody is to blame: its items are scheduled again."""
        with self.lock:
            if self._tasks.pop(task.id, None) is None:
                return
            worker = task.worker
            worker.tasks.pop(task.id, None)
            worker.update_load()
            self._post(worker, ItemsReturned(tuple(task.payloads)))
            self._post(worker, ItemsStarted(worker.computing))

    def _post(self, worker: RemoteWorker, message: Any) -> None:
        self._pool.events.put(WorkerEvent(worker, message))

    # -- sending, and who is there ---------------------------------------------------------------

    def _serve(self) -> None:
        """Send what is to be sent and poll the registry, until closed."""
        operation: Callable[[], None] | None = None
        poll_at = 0.0
        while not self._closed.is_set():
            try:
                now = time.monotonic()
                if now >= poll_at:
                    alive = self._registry.list_alive()
                    # Heartbeats come every two seconds: of very many workers none is read twice.
                    poll_at = now + min(HEARTBEAT_S, max(_POLL_S, len(alive) * _POLL_EACH_S))
                    self._end_outage(now)
                    self._update_workers(alive, now)
                if operation is None:
                    operation = self._operations.get(timeout=max(0.0, poll_at - time.monotonic()))
                    if operation is None:
                        return
                operation()
                operation = None
            except queue.Empty:
                continue
            except Exception as error:  # noqa: BLE001 - reported, and tried again
                if not self._note_error(error):
                    operation = None
                self._closed.wait(0.5)

    def _note_error(self, error: Exception) -> bool:
        """Whether it is an outage of the broker: the workers go on with what they have."""
        if not self._is_outage(error):
            log.error("unexpected error in a cluster pool", exc_info=error)
            return False
        now = time.monotonic()
        if self._outage_since is None:
            log.warning("the broker is unavailable: %s", error.__cause__ or error)
            self._outage_since = now
        elif now - self._outage_since > OUTAGE_S:
            self._error = unavailable(self._client.url, now - self._outage_since, error)
        return True

    def _is_outage(self, error: Exception) -> bool:
        # Celery raises a RuntimeError from what happened.
        return is_outage(error) or (error.__cause__ is not None and is_outage(error.__cause__))

    def _end_outage(self, now: float) -> None:
        if self._outage_since is None:
            return
        log.warning("the broker is available again")
        self._outage_since, self._available_at = None, now
        # Celery forgets what it subscribed to if it could not reconnect at once.
        self._subscribed.clear()
        old, self._app = self._app, self._connect()
        _disconnect(old)
        with self.lock:
            for worker in self._workers.values():
                worker.missing_since = None
            tasks = [task for task in self._tasks.values() if task.sent_at and not task.answered]
        for task in tasks:
            task.result = None
            self._subscribe(task)
            self._look_up(task)

    def _look_up(self, task: _RemoteTask) -> bool:
        """Take a result that is stored already; whether there was one."""
        meta = task.result._get_task_meta()
        return bool(meta["status"] in ("SUCCESS", "FAILURE", "REVOKED"))

    def _update_workers(self, alive: Mapping[str, WorkerInfo], now: float) -> None:
        with self.lock:
            for name, info in alive.items():
                worker = self._workers.get(name)
                if worker is not None and worker.info.instance != info.instance:
                    self.dismiss(worker, "was restarted", crashed=bool(worker.tasks))
                    worker = None
                if worker is None:
                    self._admit(info, now)
                else:
                    self._keep(worker, info, now)
            for name, worker in list(self._workers.items()):
                if name in alive:
                    continue
                if worker.missing_since is None:
                    worker.missing_since = now
                elif now - worker.missing_since > _MISSING_S:
                    crashed = bool(worker.tasks) and not worker.draining
                    self.dismiss(worker, "left or has no heartbeat", crashed=crashed)
            late = [one for worker in self._workers.values() for one in self._late_tasks(worker)]
        for task in late:
            self._recover(task, now)

    def _admit(self, info: WorkerInfo, now: float) -> None:
        history = self._recall(info)
        if now < history.not_before:
            return
        reason = self._find_mismatch(info)
        if reason:
            if history.unused != reason and info.status != "draining":
                self._pool.warn(f"{info.name} is not used: {reason}")
            history.unused = reason
            return
        if not history.num_refusals:
            history.unused = ""
        worker = RemoteWorker(self, next(self._pool.numbers), info, seen_at=now)
        self._workers[info.name] = worker
        self._found_worker = True
        log.info("%s joins", worker.title)
        self._post(worker, EngineReady(0.0))

    def _find_mismatch(self, info: WorkerInfo) -> str:
        """Why a worker cannot be used; empty if it can."""
        if difference := info.describe_difference():
            return difference
        if info.status == "draining":
            return "it is draining"
        request = self._request
        return find_mismatch(request.engine, request.precision, info.engines, info.precisions)

    def _keep(self, worker: RemoteWorker, info: WorkerInfo, now: float) -> None:
        if info.heartbeat != worker.info.heartbeat:
            worker.seen_at = now
        worker.missing_since, worker.info = None, info
        if worker.closed:
            self._set_aside(worker, _BACKOFF_S[-1])
            return
        if info.status == "draining":
            self._drain(worker)
        if worker.draining and not worker.tasks:
            self._set_aside(worker, _BACKOFF_S[0])

    def _drain(self, worker: RemoteWorker) -> None:
        if not worker.draining:
            worker.draining = True
            self._post(worker, Draining())

    def _set_aside(self, worker: RemoteWorker, seconds: float) -> None:
        """What a worker has is scheduled again, and nobody is to blame; it may join again later."""
        self._recall(worker.info).not_before = time.monotonic() + seconds
        self.dismiss(worker, _REJOINS, crashed=False)

    def dismiss(self, worker: RemoteWorker, reason: str, *, crashed: bool = True) -> None:
        """Use a worker no more; its tasks are revoked and its items are scheduled again."""
        with self.lock:
            if self._workers.get(worker.info.name) is worker:
                del self._workers[worker.info.name]
            if worker.closed:
                return
            worker.closed = True
            tasks = list(worker.tasks.values())
            worker.tasks.clear()
            for task in tasks:
                self._tasks.pop(task.id, None)
                if not crashed:
                    self._post(worker, ItemsReturned(tuple(task.payloads)))
            if not crashed:
                self._post(worker, ItemsStarted(()))
            self.revoke(tasks)
            self._post(worker, WorkerExited(reason, crashed=crashed))

    def _late_tasks(self, worker: RemoteWorker) -> list[_RemoteTask]:
        """Sent a while ago, without a result, and not listed by the worker."""
        now = time.monotonic()
        if now - self._available_at < 2 * _LOST_TASK_S:
            return []  # workers and the broker are only finding each other again
        return [
            task for task in worker.tasks.values()
            if task.sent_at is not None and not task.answered and task.id not in worker.info.tasks
            and now - max(task.sent_at, task.cancelled_at or 0.0) > _LOST_TASK_S
        ]  # fmt: skip

    def _recover(self, task: _RemoteTask, now: float) -> None:
        """Find the result of a late task, or schedule its items again."""
        try:
            if self._look_up(task):
                return
        except Exception as error:
            if is_outage(error):
                raise
            self._refuse(task.worker, "its result is not valid")  # not even JSON
            return
        if task.sent_at is not None and now - task.sent_at > 2 * _LOST_TASK_S:
            log.warning("a task of %s was lost; scheduling its items again", task.worker.title)
            self._return(task)
            self.revoke([task])

    # -- results ---------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Receive results, until closed."""
        while not self._closed.is_set():
            if not self._subscribed.wait(1.0):
                continue  # Celery would only sleep
            try:
                self._app.backend.result_consumer.drain_events(timeout=1.0)
            except TimeoutError:
                pass
            except Exception as error:  # noqa: BLE001 - reported, and tried again
                if self._is_outage(error):
                    self._note_error(error)
                    self._closed.wait(0.5)
                else:  # not JSON, or not a result: its task is found to be late
                    log.warning("dropped an invalid result: %s", type(error).__name__)
            while self._answers and not self._closed.is_set():
                try:
                    self._handle(self._answers[0])
                except Exception as error:  # noqa: BLE001 - reported, and tried again
                    if self._note_error(error):
                        self._closed.wait(0.5)
                        continue
                self._answers.popleft()

    def _handle(self, answer: Any) -> None:
        """A task has a result."""
        with self.lock:
            task = self._tasks.get(answer.id)
            if task is None or task.answered:
                return
        try:
            settle = self._judge(task, answer)
        except Exception as error:  # whatever it contains, it is not valid
            if self._is_outage(error):
                raise
            log.warning("invalid result of %s: %s", task.worker.title, repr(error)[:200])
            settle = partial(self._refuse, task.worker, "its result is not valid")
        settle()
        with suppress(Exception):  # it expires by itself
            self._forget(task)

    def _judge(self, task: _RemoteTask, answer: Any) -> Callable[[], None]:
        """What is to be done about a result; raises any exception if it is not valid."""
        state, value, worker = answer.state, answer.result, task.worker
        if task.cancelled_at is not None or state == "REVOKED":
            return partial(self._return, task)
        if state != "SUCCESS":
            return partial(self._refuse, worker, f"the task failed: {str(value)[:200]}")
        result = parse_result(value)
        if result.refused:
            return partial(self._refuse, worker, result.refused)
        encoded = self._fetch(task, result)
        if encoded is None:  # lost with the broker
            return partial(self._return, task)
        return partial(self._accept, task, result, self._decode(task, encoded))

    def _decode(self, task: _RemoteTask, encoded: Mapping[int, EncodedResult]) -> dict[int, Any]:
        info, results = task.worker.info, {}
        for index, one in encoded.items():
            if index not in task.payloads:
                continue
            payload = task.payloads[index]
            try:
                decoded = self._codec.decode_result(one)
                results[index] = self._codec.check(payload, decoded, info.name)
            except Exception as error:  # noqa: BLE001 - an `OSError` is no outage here
                raise InvalidInputError(
                    f"{type(error).__name__}: {error}"[:200], hint="Look at that worker."
                ) from None
        return results

    def _fetch(self, task: _RemoteTask, result: TaskResult) -> dict[int, EncodedResult] | None:
        """The bytes of a result; None if the broker has lost them."""
        if not result.results:
            return {}
        blob = self._blobs.get(task.id, sum(result.sizes))
        return result.split(blob) if blob else None

    def _accept(self, task: _RemoteTask, result: TaskResult, results: Mapping[int, Any]) -> None:
        worker = task.worker
        with self.lock:
            if self._tasks.pop(task.id, None) is None or worker.closed:
                return  # given up meanwhile: its items were given to others
            worker.tasks.pop(task.id, None)
            worker.update_load()
            failures = {n: one for n, one in result.failures.items() if n in task.payloads}
            done = {*results, *failures}
            if done:
                stats = BatchStats(
                    result.num_batches, result.cost, result.cost, result.seconds,
                    result.num_out_of_memory,
                )  # fmt: skip
                self._post(worker, BatchDone(
                    tuple(results.items()), tuple(failures.items()), worker.computing, stats
                ))  # fmt: skip
            if left := tuple(index for index in task.payloads if index not in done):
                self._post(worker, ItemsReturned(left))
                self._post(worker, ItemsStarted(worker.computing))
            if not done:
                self._drain(worker)  # it would only return the next task as well
                if not worker.tasks:
                    self._set_aside(worker, _BACKOFF_S[0])
            elif not results and len(failures) > 1:
                # All of several items: the worker is at fault rather than they.
                self._refuse(worker, next(iter(failures.values())).message)
            else:
                history = self._recall(worker.info)
                history.num_refusals, history.unused = 0, ""

    def _refuse(self, worker: RemoteWorker, reason: str) -> None:
        """A worker could not do a task: it gets none for a while, each time for longer."""
        with self.lock:
            history = self._recall(worker.info)
            history.num_refusals += 1
            history.unused = reason
            self._pool.warn(f"{worker.title} refused a task: {reason}")
            step = min(history.num_refusals, len(_BACKOFF_S)) - 1
            self._set_aside(worker, _BACKOFF_S[step])


def _disconnect(app: Any) -> None:
    """Close an app for good."""
    # Results that are still awaited would unsubscribe, and fail, when they are collected.
    app.backend.result_consumer.subscribed_to.clear()
    with suppress(Exception):  # the broker may be gone
        app.close()
