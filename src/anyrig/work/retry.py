"""Batches through an engine: split after out-of-memory or an error, retried, failed alone.

A batch that fails is split in half until the items that fail are alone; those are tried once more
and then fail with the reason. Nothing of a failed call is kept alive: its frames are cleared before
the framework is asked to release memory.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from anyrig.backends.memory import MemoryUsage
from anyrig.errors import (
    AnyrigError,
    DeviceLostError,
    Message,
    OptionRef,
    OutOfMemoryError,
    WorkError,
    error_from_dict,
    error_to_dict,
)
from anyrig.memory import recovery
from anyrig.memory.oom import MemoryShortage, detect_device_loss, detect_oom
from anyrig.units import format_bytes, pluralize
from anyrig.work.batching import LOOK_AHEAD, Batch, BatchQueue, BatchSizer, ItemReader
from anyrig.work.outcome import (
    BatchStats,
    FailureKind,
    ItemFailure,
    ItemOutcome,
    OutcomeQueue,
    RunReport,
    drain,
    in_order,
    log_batch,
)

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
EngineCall = Callable[..., Sequence[R]]
"""Takes the items, and where any has an `on_part` those of all of them; `BaseEngine.run`."""
_TRIES = 2
_JOIN_S = 5.0
_NEW_PROCESS = "A new process is needed."


def run_batches(
    payloads: Iterable[T],
    call: Callable[[Sequence[T]], Sequence[R]],
    *,
    cost: Callable[[T], float],
    sizer: BatchSizer | None = None,
    handle: DeviceHandle | None = None,
    look_ahead: int = LOOK_AHEAD,
    report: RunReport | None = None,
) -> Iterator[ItemOutcome[R]]:
    """Run items through an engine in this process; an outcome for each, in the order of the input.

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


def run_batch(
    batch: Batch[T],
    call: EngineCall[R],
    *,
    sizer: BatchSizer,
    stats: BatchStats,
    handle: DeviceHandle | None = None,
    memory_options: Sequence[OptionRef | str] = (),
) -> Iterator[ItemOutcome[R]]:
    """An outcome for every item of a batch, as the parts it is split into are done.

    A lost device raises `DeviceLostError`; items without an outcome are then still to be done.

    Args:
        batch: what to compute.
        call: the engine.
        sizer: learns what worked and what did not fit.
        stats: filled during the run.
        handle: the device, to synchronise with and to free memory of.
        memory_options: what needs less memory, for errors.
    """
    parts = [batch]
    tries: dict[int, int] = {}
    while parts:
        part = parts.pop()
        if len(part.items) > 1 and part.cost > sizer.limit:
            parts.extend(reversed(part.split()))  # a smaller batch ran out of memory already
            continue
        results, error = _call_engine(part, call, sizer, stats, handle, memory_options)
        if error is None:
            for item, result in zip(part.items, results, strict=True):
                yield ItemOutcome(item.index, result)
        elif isinstance(error, DeviceLostError):
            raise error
        elif len(part.items) > 1:
            log.info("batch of %d failed; splitting it: %s", len(part.items), error.message)
            parts.extend(reversed(part.split()))
        else:
            index = part.items[0].index
            tries[index] = tries.get(index, 0) + 1
            if tries[index] < _TRIES:
                log.info("an item failed; retrying it: %s", error.message)
                parts.append(part)
                continue
            kind: FailureKind = "memory" if isinstance(error, OutOfMemoryError) else "error"
            yield ItemOutcome(index, failure=ItemFailure(kind, error.message, _TRIES, error.hint))


def _call_engine(
    part: Batch[T],
    call: EngineCall[R],
    sizer: BatchSizer,
    stats: BatchStats,
    handle: DeviceHandle | None,
    memory_options: Sequence[OptionRef | str],
) -> tuple[Sequence[R], AnyrigError | None]:
    """One call: its results, or what went wrong, after everything it held has been released."""
    if handle is not None:
        handle.reset_peak()
    start = time.perf_counter()
    try:
        payloads = [item.payload for item in part.items]
        listeners = [item.on_part for item in part.items]
        results = list(call(payloads, listeners) if any(listeners) else call(payloads))
        if len(results) != len(part.items):
            raise RuntimeError(
                f"the engine returned {len(results)} results for {len(part.items)} items"
            )
        if handle is not None:
            handle.synchronize()  # what failed on the device fails here, within this batch
    except Exception as error:  # noqa: BLE001 - whatever an engine raises is its items' outcome
        doing = f"computing {pluralize(len(part.items), 'item')} at once"
        shortage = detect_oom(error)
        failed = translate_error(error, shortage, doing, memory_options, handle)
        recovery.clear_frames(error)
    else:
        seconds = time.perf_counter() - start
        sizer.record_success(part.cost, seconds)
        peak = handle.memory().peak_bytes if handle is not None else None
        done = BatchStats(1, part.real_cost, part.cost, seconds, 0, peak)
        stats.add_batches(done)
        log_batch("batch", len(part.items), done)
        return results, None
    if shortage is not None:
        stats.num_out_of_memory += 1
        sizer.record_out_of_memory(part.cost)
        is_lost = isinstance(failed, DeviceLostError)
        if handle is not None and not is_lost and not recovery.release_memory(handle):
            failed = DeviceLostError(failed.message, hint=_NEW_PROCESS)
    return (), failed


def translate_error(
    error: Exception,
    shortage: MemoryShortage | None,
    doing: str,
    memory_options: Sequence[OptionRef | str] = (),
    handle: DeviceHandle | None = None,
) -> AnyrigError:
    """What an engine raised as an error of ours, which keeps nothing of the failed call alive.

    Args:
        shortage: what `detect_oom` found in it.
        doing: what was running: `embedding 64 texts with minilm`.
        memory_options: what the user can change.
        handle: for amounts that the library does not tell.
    """
    lost = detect_device_loss(error)
    text = " ".join(str(error).split())[:300]
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if lost is not None or (shortage is not None and shortage.fatal):
        return DeviceLostError(lost or text, hint=_NEW_PROCESS)
    if isinstance(error, AnyrigError) and (shortage is None or isinstance(error, OutOfMemoryError)):
        ours = error_from_dict(error_to_dict(error))
        if isinstance(ours, OutOfMemoryError) and memory_options:
            ours.hint = _suggest(memory_options)
    elif shortage is None:
        return WorkError(text, hint="")
    else:
        amounts = _describe_amounts(shortage, handle)
        message = f"the {shortage.location} ran out of memory while {doing}{amounts} ({text})"
        ours = OutOfMemoryError(message, hint=_suggest(memory_options))
    if isinstance(ours, OutOfMemoryError) and shortage is not None:
        ours.on_host = shortage.location == "host"
    return ours


def _describe_amounts(shortage: MemoryShortage, handle: DeviceHandle | None) -> str:
    """What the library says of them, else what the device reports now."""
    free, total = shortage.free_bytes, shortage.total_bytes
    if handle is not None and ("host" if handle.on_host else "device") == shortage.location:
        memory = _read_memory(handle)
        free = memory.free_bytes if free is None else free
        total = memory.total_bytes if total is None else total
    parts = []
    if shortage.requested_bytes is not None:
        parts.append(f"tried to allocate {format_bytes(shortage.requested_bytes)}")
    if free is not None:
        parts.append(f"{format_bytes(free)}{f' of {format_bytes(total)}' if total else ''} free")
    elif total:
        parts.append(f"{format_bytes(total)} in total")
    return f": {', '.join(parts)}" if parts else ""


def _suggest(options: Sequence[OptionRef | str]) -> str:
    if not options:
        return "Use smaller batches or inputs, or a device with more memory."
    *most, last = options
    listed = Message("{option}.", option=last)
    for option in reversed(most):
        joint = " or " if option is most[-1] else ", "
        listed = Message("{option}{joint}{rest}", option=option, joint=joint, rest=listed)
    return Message("Try {listed}", listed=listed)


def _read_memory(handle: DeviceHandle) -> MemoryUsage:
    with contextlib.suppress(Exception):  # a broken device may not report its memory
        return handle.memory()
    return MemoryUsage()
