"""Items through an engine in this process; results in order while later batches run."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from anyrig.work.batching import LOOK_AHEAD, BatchQueue, BatchSizer, ItemReader
from anyrig.work.outcome import ItemOutcome, OutcomeQueue, RunReport, drain, in_order
from anyrig.work.retry import EngineCall, run_batch

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle

T = TypeVar("T")
R = TypeVar("R")
_JOIN_S = 5.0


def run_in_process(
    payloads: Iterable[T],
    call: EngineCall[T, R],
    *,
    cost: Callable[[T], float],
    sizer: BatchSizer | None = None,
    handle: DeviceHandle | None = None,
    look_ahead: int = LOOK_AHEAD,
    report: RunReport | None = None,
) -> Iterator[ItemOutcome[R]]:
    """An outcome for every item, in the order of the input.

    A thread computes ahead of whoever takes the results, by at most `look_ahead` items. An item
    that fails twice is an outcome with a `failure`, and the others go on.

    Args:
        payloads: the items; may be a stream.
        call: the engine: a list of items in, as many results out.
        cost: of an item in the engine's unit: tokens, characters, pixels.
        sizer: chooses batch sizes; `BatchSizer(grow=False)` computes each item alone.
        handle: the device, to synchronise with and to free memory of after out-of-memory.
        look_ahead: how many items are read ahead to be sorted.
        report: filled during the run.
    """
    report = report if report is not None else RunReport()
    sizer = sizer or BatchSizer()
    reader = ItemReader(payloads, cost, look_ahead)
    ready: OutcomeQueue[R] = queue.SimpleQueue()
    stop = threading.Event()

    def compute() -> None:
        waiting: BatchQueue[T] = BatchQueue()
        try:
            while not stop.is_set():
                for item in reader.take(wait=not len(waiting)):
                    waiting.add(item)
                if not len(waiting):
                    break
                batch = waiting.take_batch(waiting.oldest(), sizer.budget)
                for outcome in run_batch(batch, call, sizer=sizer, stats=report, handle=handle):
                    report.add(outcome)
                    ready.put(outcome)
                    if stop.is_set():
                        return
            ready.put(reader.error)
        except BaseException as error:  # noqa: BLE001 - raised again where results are taken
            ready.put(error)

    thread = threading.Thread(target=compute, name="anyrig-work", daemon=True)
    thread.start()
    try:
        for outcome in in_order(drain(ready)):
            reader.done()
            yield outcome
    finally:
        stop.set()
        reader.close()
        thread.join(timeout=_JOIN_S)
