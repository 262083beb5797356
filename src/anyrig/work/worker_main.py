"""The process of a worker: it is bound to one device, loads an engine and computes what it is sent.

    python -m anyrig.work.worker_main

Messages come in on its stdin and go out on a copy of its stdout made before any library loads;
libraries print what they like to stderr. A thread reads stdin all the time: when that ends, the
pool is gone, and the process exits at once, whatever it is computing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

from anyrig.backends.process import claim_stdio
from anyrig.errors import DeviceLostError, error_to_dict
from anyrig.memory.oom import detect_oom
from anyrig.settings.folders import find_folders
from anyrig.storage import derived
from anyrig.work.batching import Batch, BatchQueue, BatchSizer, WorkItem
from anyrig.work.engine import load_engine
from anyrig.work.outcome import BatchStats, ItemFailure, ItemOutcome
from anyrig.work.protocol import (
    PICKLE_ERRORS,
    BatchDone,
    BatchSizes,
    CancelItems,
    Connection,
    EngineReady,
    Heartbeat,
    ItemPart,
    ItemsReturned,
    ItemsStarted,
    LoadEngine,
    PickledValue,
    RunItems,
    UnloadModel,
    WorkerFailed,
    pickle_value,
)
from anyrig.work.retry import run_batch, translate_error


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pool to handle
    connection = Connection(*claim_stdio())
    derived.set_folder(find_folders(os.environ).derived)
    try:
        request: LoadEngine = connection.receive()
    except (EOFError, OSError):
        return 1
    except Exception as error:  # noqa: BLE001 - an option whose class this process does not have
        return _fail(connection, error)
    try:
        process = EngineProcess(connection, request)
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the answer
        return _fail(connection, error)
    try:
        process.run()
    except DeviceLostError as error:
        return _fail(connection, error)
    return 0


def _fail(connection: Connection, error: Exception) -> int:
    translated = translate_error(error, detect_oom(error), "loading the engine")
    connection.send(WorkerFailed(error_to_dict(translated)))
    return 0


class EngineProcess:
    """Receives items, computes batches of them, sends results and heartbeats."""

    def __init__(self, connection: Connection, request: LoadEngine) -> None:
        self._connection = connection
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._waiting: BatchQueue[Any] = BatchQueue()
        threading.Thread(target=self._receive, daemon=True).start()  # ends an orphan that loads
        sys.path.extend(path for path in request.paths if path not in sys.path)
        start = time.perf_counter()
        placement, factory = request.placement, request.factory
        if placement.disabled_attention_backends:
            from anyrig.precision.selftest import disable_attention

            disable_attention(placement.disabled_attention_backends)
        engine = self._engine = load_engine(factory.target, placement, factory.options)
        if engine.handle is not None and placement.budget_bytes is not None:
            engine.handle.limit(placement.budget_bytes)
        self._sizer = BatchSizer(
            start=request.sizes.worked or engine.first_batch_cost,
            failed=request.sizes.failed,
            max_items=engine.max_items,
            pads=engine.pads,
            grow=request.grow or engine.batch_invariant,
            keep_speed=placement.batch_speed,
        )
        connection.send(self._heartbeat())
        connection.send(EngineReady(time.perf_counter() - start, engine.concurrent_items))
        beat = threading.Thread(target=self._send_heartbeats, args=(request.heartbeat_s,))
        beat.daemon = True
        beat.start()

    def run(self) -> None:
        """Compute until stdin ends, which ends the process."""
        if self._engine.concurrent_items > 1:
            self._run_together()
        batch: Batch[Any] | None = None
        while True:
            if batch is None:
                self._take_messages(wait=not len(self._waiting))
                batch = self._next_batch()
                if batch is None:
                    continue
                self._connection.send(ItemsStarted(batch.indices))
            # Which batch is next is sent with the results of this one, in one message.
            stats, outcomes = BatchStats(), list[ItemOutcome[Any]]()
            try:
                outcomes.extend(
                    run_batch(
                        batch, self._engine.run, sizer=self._sizer, stats=stats,
                        handle=self._engine.handle, memory_options=self._engine.memory_options,
                    )
                )  # fmt: skip
            except DeviceLostError:  # what was done before is sent
                done = {outcome.index for outcome in outcomes}
                left = tuple(index for index in batch.indices if index not in done)
                self._send_outcomes(outcomes, stats, left)
                raise
            self._take_messages(wait=False)
            batch = self._next_batch()
            self._send_outcomes(outcomes, stats, batch.indices if batch is not None else ())
            del outcomes  # before it waits

    def _run_together(self) -> NoReturn:
        """Each item in a thread of its own, for an engine that lets it join the others."""
        running: dict[int, None] = {}
        threads = ThreadPoolExecutor(self._engine.concurrent_items, "anyrig-item")
        while True:
            self._take_messages(wait=True)
            while len(self._waiting):
                item = self._waiting.remove(self._waiting.oldest().index)
                running[item.index] = None
                self._connection.send(ItemsStarted(tuple(running)))
                threads.submit(self._compute_one, item, running)

    def _compute_one(self, item: WorkItem[Any], running: dict[int, None]) -> None:
        """Compute an item beside others, which share the time that it took."""
        stats, outcomes, num_others = BatchStats(), list[ItemOutcome[Any]](), len(running) - 1
        try:
            # Without the device: to synchronise with it would be to wait for the others.
            outcomes += run_batch(
                Batch((item,)), self._engine.run, sizer=BatchSizer(grow=False), stats=stats,
                memory_options=self._engine.memory_options,
            )  # fmt: skip
        except DeviceLostError as error:
            self._inbox.put(error)
            return
        num_others = max(num_others, len(running) - 1)
        del running[item.index]
        stats.busy_s /= num_others + 1
        self._send_outcomes(outcomes, stats, tuple(running))

    def _next_batch(self) -> Batch[Any] | None:
        if not len(self._waiting):
            return None
        return self._waiting.take_batch(self._waiting.oldest(), self._sizer.budget)

    def _send_part(self, index: int, part: Any) -> None:
        self._connection.send(ItemPart(index, pickle_value(part)))

    def _send_outcomes(
        self, outcomes: Sequence[ItemOutcome[Any]], stats: BatchStats, started: tuple[int, ...] = ()
    ) -> None:
        results: list[tuple[int, PickledValue]] = []
        failures: list[tuple[int, ItemFailure]] = []
        for outcome in outcomes:
            if outcome.failure is not None:
                failures.append((outcome.index, outcome.failure))
                continue
            try:
                results.append((outcome.index, pickle_value(outcome.result)))
            except PICKLE_ERRORS as error:
                message = f"the result cannot be pickled: {error}"
                failures.append((outcome.index, ItemFailure("error", message, 1)))
        sizer = self._sizer
        sizes = BatchSizes(sizer.best_cost, sizer.failed_cost)
        self._connection.send(
            BatchDone(tuple(results), tuple(failures), started, stats, sizer.budget, sizes)
        )

    # -- messages -------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Until the pool is gone, for whatever reason: then this process exits."""
        try:
            while True:
                message = self._connection.receive()
                if isinstance(message, RunItems):
                    self._inbox.put(self._unpickle(message.items))
                elif isinstance(message, UnloadModel):  # at once: a task may take hours
                    threading.Thread(target=self._unload, args=(message.name,), daemon=True).start()
                else:
                    self._inbox.put(message)
        finally:
            os._exit(1)

    def _take_messages(self, *, wait: bool) -> None:
        while True:
            try:
                message = self._inbox.get(block=wait)
            except queue.Empty:
                return
            wait = False
            if isinstance(message, DeviceLostError):
                raise message
            if isinstance(message, CancelItems):
                self._cancel(message.indices)
            else:
                for item in message:
                    if isinstance(item, WorkItem):
                        self._waiting.add(item)
                    else:
                        self._send_outcomes([item], BatchStats())

    def _unpickle(
        self, items: Sequence[tuple[int, PickledValue, float, bool]]
    ) -> list[WorkItem[Any] | ItemOutcome[Any]]:
        """Prepare items as soon as they arrive; one that cannot be unpickled here fails at once."""
        found: list[WorkItem[Any] | ItemOutcome[Any]] = []
        for index, data, cost, wants_parts in items:
            try:
                payload = self._engine.prepare_item(data.load())
                emits = wants_parts and self._engine.emits_parts
                on_part = partial(self._send_part, index) if emits else None
                found.append(WorkItem(index, payload, cost, on_part))
            except Exception as error:  # noqa: BLE001 - pickle raises whatever a class raises
                failure = ItemFailure("error", f"the item cannot be unpickled: {error}", 1)
                found.append(ItemOutcome(index, failure=failure))
        return found

    def _cancel(self, indices: tuple[int, ...]) -> None:
        cancelled = tuple(index for index in indices if index in self._waiting)
        for index in cancelled:
            self._waiting.remove(index)
        if cancelled:
            self._connection.send(ItemsReturned(cancelled))

    def _unload(self, name: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._engine.unload_model(name)
            self._connection.send(self._heartbeat())  # the parent waits for the memory

    def _send_heartbeats(self, every_s: float) -> None:
        last = Heartbeat((self._engine.name,))
        with contextlib.suppress(OSError):  # the pool is gone
            while True:
                time.sleep(every_s)
                with contextlib.suppress(Exception):  # its models may change at this moment
                    last = self._heartbeat()
                self._connection.send(last)

    def _heartbeat(self) -> Heartbeat:
        engine = self._engine
        return Heartbeat(tuple(engine.loaded_models()), tuple(engine.nested_models()))


if __name__ == "__main__":
    sys.exit(main())
