"""A worker process as its pool sees it: what it is sent, what it sends, how it ends."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyrig.backends.process import (
    StderrTail,
    bind_device,
    describe_exit,
    kill_process_group,
    start_module,
)
from anyrig.errors import InvalidInputError
from anyrig.work.outcome import ItemFailure
from anyrig.work.protocol import (
    HEARTBEAT_S,
    PICKLE_ERRORS,
    BatchDone,
    BatchSizes,
    CancelItems,
    Connection,
    Heartbeat,
    LoadEngine,
    NestedModel,
    RunItems,
    UnloadModel,
    WorkerEvent,
    WorkerExited,
    encode_message,
    pickle_value,
)

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.work.batching import WorkItem
    from anyrig.work.protocol import EngineFactory

log = logging.getLogger(__name__)
_LAST_MESSAGES_S = 2.0


class LocalWorker:
    """One process on one device. No method blocks: threads read, write and wait for its end."""

    def __init__(
        self,
        number: int,
        placement: Placement,
        factory: EngineFactory,
        environment: Mapping[str, str],
        events: queue.SimpleQueue[WorkerEvent],
        sizes: BatchSizes,
        *,
        grow: bool = True,
        heartbeat_s: float = HEARTBEAT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number, self.placement = number, placement
        self._clock = clock
        self.started = clock()
        self.last_heartbeat = self.started
        self.models: tuple[str, ...] = ()
        self.nested_models: tuple[NestedModel, ...] = ()
        self.exit_reason = ""
        """How the process ended; empty while it lives."""
        self._stopped = self._given_up = False
        variables, visible = bind_device(placement.device, environment)
        paths = tuple(path for path in (*sys.path, os.getcwd()) if path)
        request = LoadEngine(
            factory, replace(placement, device=visible), paths, sizes, grow, heartbeat_s
        )
        # Before the process starts: options that cannot be pickled leave none behind.
        try:
            data = encode_message(request)
        except PICKLE_ERRORS as error:
            raise InvalidInputError(
                f"the options of {factory.target} cannot be pickled: {error}",
                hint="Use plain values, or names that a worker can import.",
            ) from error
        self._process = start_module(
            "anyrig.work.worker_main",
            {
                **environment,
                **limit_threads(placement.threads, environment),
                **variables,
                **placement.variables,
            },
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stderr = StderrTail(self._process.stderr)
        self._connection = Connection(self._process.stdout, self._process.stdin)
        self._events = events
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._outbox.put(data)
        self._reader = self._start_thread(self._read)
        self._start_thread(self._write)
        self._start_thread(self._wait_for_exit)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def device(self) -> str:
        """Id of its device."""
        return self.placement.device.id

    @property
    def title(self) -> str:
        """Name of its device."""
        return self.placement.device.name

    def send_items(self, items: Sequence[WorkItem[Any]]) -> list[tuple[int, str]]:
        """Index and reason of those that cannot be sent."""
        pickled, refused = [], []
        for item in items:
            try:
                pickled.append((item.index, pickle_value(item.payload), item.cost))
            except PICKLE_ERRORS as error:
                refused.append((item.index, f"the item cannot be pickled: {error}"))
        if pickled:
            self._send(RunItems(tuple(pickled)))
        return refused

    def cancel_items(self, indices: Sequence[int]) -> None:
        """Those that have not started are skipped."""
        self._send(CancelItems(tuple(indices)))

    def unload_model(self, name: str) -> None:
        self._send(UnloadModel(name))

    def stop(self) -> None:
        """Kill the process; one that does not end is given up."""
        if self._given_up:
            return
        self._stopped = True
        self._outbox.put(None)
        if kill_process_group(self._process) is None:
            self._given_up = True
            self._exited("was killed but has not exited")

    def _send(self, message: Any) -> None:
        self._outbox.put(encode_message(message))

    def _exited(self, reason: str) -> None:
        self.exit_reason = reason
        self._events.put(WorkerEvent(self.number, WorkerExited(reason)))

    def _start_thread(self, target: Callable[[], None]) -> threading.Thread:
        name = f"anyrig-worker-{self.number}"
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (data := self._outbox.get()) is not None:
                self._connection.write(data)

    def _read(self) -> None:
        try:
            while True:
                message = self._connection.receive()
                self.last_heartbeat = self._clock()
                if isinstance(message, Heartbeat):
                    self.models, self.nested_models = message.models, message.nested_models
                    continue
                if isinstance(message, BatchDone):
                    message = _unpickle_results(message)
                self._events.put(WorkerEvent(self.number, message))
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
        if not self._stopped:
            log.debug("worker %d %s", self.number, reason)
        self._exited(reason)


def _unpickle_results(message: BatchDone) -> BatchDone:
    """A result that cannot be unpickled is a failure of its item alone."""
    results: list[tuple[int, Any]] = []
    failures = list(message.failures)
    for index, data in message.results:
        try:
            results.append((index, pickle.loads(data)))
        except Exception as error:  # noqa: BLE001 - pickle raises whatever a class raises
            text = f"the result cannot be unpickled: {error}"
            failures.append((index, ItemFailure("error", text, 1)))
    return message._replace(results=tuple(results), failures=tuple(failures))


def limit_threads(count: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that limit the threads of a worker's libraries; the user's own are kept."""
    counts = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    # numpy's own: its threads spin while they wait for the next product, and small ones come often.
    # A voice spent a third of its CPU time on that.
    counts["OPENBLAS_NUM_THREADS"] = 1
    return {name: str(number) for name, number in counts.items() if name not in environment}
