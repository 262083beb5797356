"""One batch through an engine: split after out-of-memory or an error, retried, failed alone.

A batch that fails is split in half until the items that fail are alone; those are tried once more
and then fail with the reason. Nothing of a failed call is kept alive: its frames are cleared before
the framework is asked to release memory.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from anyrig.errors import (
    AnyrigError,
    DeviceLostError,
    OutOfMemoryError,
    WorkError,
    error_from_dict,
    error_to_dict,
)
from anyrig.memory import oom, recovery
from anyrig.units import pluralize
from anyrig.work.batching import Batch, BatchSizer
from anyrig.work.outcome import BatchStats, FailureKind, ItemFailure, ItemOutcome, log_batch

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.backends.memory import MemoryUsage

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
EngineCall = Callable[[Sequence[T]], Sequence[R]]
_TRIES = 2
_NEW_PROCESS = "A new process is needed."


def run_batch(
    batch: Batch[T],
    call: EngineCall[T, R],
    *,
    sizer: BatchSizer,
    stats: BatchStats,
    handle: DeviceHandle | None = None,
    memory_options: Sequence[str] = (),
) -> Iterator[ItemOutcome[R]]:
    """An outcome for every item of a batch, as the parts it is split into are done.

    A lost device raises `DeviceLostError`; items without an outcome are then still to be done.

    Args:
        batch: what to compute.
        call: the engine.
        sizer: learns what worked and what did not fit.
        stats: filled during the run.
        handle: the device, to synchronise with and to free memory of.
        memory_options: command line options that need less memory, for errors.
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
    call: EngineCall[T, R],
    sizer: BatchSizer,
    stats: BatchStats,
    handle: DeviceHandle | None,
    memory_options: Sequence[str],
) -> tuple[Sequence[R], AnyrigError | None]:
    """One call: its results, or what went wrong, after everything it held has been released."""
    if handle is not None:
        handle.reset_peak()
    start = time.perf_counter()
    try:
        results = list(call([item.payload for item in part.items]))
        if len(results) != len(part.items):
            raise RuntimeError(
                f"the engine returned {len(results)} results for {len(part.items)} items"
            )
        if handle is not None:
            handle.synchronize()  # what failed on the device fails here, within this batch
    except Exception as error:  # noqa: BLE001 - whatever an engine raises is its items' outcome
        doing = f"computing {pluralize(len(part.items), 'item')} at once"
        failed = translate_error(error, doing, memory_options, handle)
        out_of_memory = oom.detect_oom(error) is not None
        recovery.clear_frames(error)
    else:
        seconds = time.perf_counter() - start
        sizer.record_success(part.cost, seconds)
        peak = handle.memory().peak_bytes if handle is not None else None
        done = BatchStats(1, part.real_cost, part.cost, seconds, 0, peak)
        stats.add_batches(done)
        log_batch("batch", len(part.items), done)
        return results, None
    if out_of_memory:
        stats.num_out_of_memory += 1
        sizer.record_out_of_memory(part.cost)
        is_lost = isinstance(failed, DeviceLostError)
        if handle is not None and not is_lost and not recovery.release_memory(handle):
            failed = DeviceLostError(failed.message, hint=_NEW_PROCESS)
    return (), failed


def translate_error(
    error: Exception,
    doing: str,
    memory_options: Sequence[str] = (),
    handle: DeviceHandle | None = None,
) -> AnyrigError:
    """What an engine raised as an error of ours, which keeps nothing of the failed call alive."""
    shortage, lost = oom.detect_oom(error), oom.detect_device_loss(error)
    text = " ".join(str(error).split())[:300]
    text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if lost is not None or (shortage is not None and shortage.fatal):
        return DeviceLostError(lost or text, hint=_NEW_PROCESS)
    if isinstance(error, AnyrigError) and (shortage is None or isinstance(error, OutOfMemoryError)):
        ours = error_from_dict(error_to_dict(error))
    elif shortage is None:
        return WorkError(text, hint="")
    else:
        ours = oom.translate_oom(
            error,
            doing=doing,
            options=memory_options,
            memory=_read_memory(handle),
            memory_of="host" if handle is not None and handle.on_host else "device",
        )
        ours.message += f" ({text})"
    if isinstance(ours, OutOfMemoryError) and shortage is not None:
        ours.on_host = shortage.location == "host"
    return ours


def _read_memory(handle: DeviceHandle | None) -> MemoryUsage | None:
    with contextlib.suppress(Exception):  # a broken device may not report its memory
        return handle.memory() if handle is not None else None
    return None
