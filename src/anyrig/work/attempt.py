"""One batch through an engine, whatever happens: split when memory runs out or an item is bad.

A batch that fails is halved until the items that fail stand alone; those are tried once more and
then set aside with the reason. Nothing of a failed call is kept alive: its frames are cleared
before the framework is asked to give memory back.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from anyrig.errors import AnyrigError, DeviceLostError
from anyrig.memory import oom, recover
from anyrig.units import format_bytes, format_duration, pluralize
from anyrig.work.outcome import Failure, FailureKind, Outcome, Report
from anyrig.work.pace import Pace
from anyrig.work.pack import Batch, Item

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.backends.memory import MemoryUsage

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
Call = Callable[[Sequence[T]], Sequence[R]]
_TRIES = 2


class Fault(NamedTuple):
    """What went wrong, as words: no reference to the error or its frames is kept."""

    said: str
    memory: bool
    lost: str
    """Why the device is of no more use to this process; empty when it is."""
    hint: str = ""


def attempt(
    batch: Batch[T],
    call: Call[T, R],
    *,
    pace: Pace,
    report: Report,
    bound: DeviceHandle | None = None,
    relief: Sequence[str] = (),
) -> Iterator[Outcome[R]]:
    """An outcome for every item of a batch, as the pieces it is split into are done.

    A device that is lost raises `DeviceLostError`; items without an outcome are then still to be
    done.

    Args:
        batch: what to compute.
        call: the engine.
        pace: is told what worked and what did not fit.
        report: is filled with figures.
        bound: the device, to wait for and to free.
        relief: options that need less memory, as a person types them, for errors.
    """
    parts = [batch]
    tries: dict[int, int] = {}
    while parts:
        part = parts.pop()
        if len(part.items) > 1 and part.cost > pace.limit:
            parts.extend(reversed(part.halves()))  # memory ran out below this already
            continue
        done, fault = _once(part, call, pace, report, bound, relief)
        if fault is None:
            yield from (
                Outcome(item.index, result) for item, result in zip(part.items, done, strict=True)
            )
        elif fault.lost:
            raise DeviceLostError(fault.lost, hint="A new process is needed.")
        elif len(part.items) > 1:
            _say_split(part, fault)
            parts.extend(reversed(part.halves()))
        else:
            (item,) = part.items
            tries[item.index] = tries.get(item.index, 0) + 1
            if tries[item.index] < _TRIES:
                log.info("item %d failed and is tried once more: %s", item.index, fault.said)
                parts.append(part)
            else:
                yield _aside(item, fault)


def _once(
    part: Batch[T],
    call: Call[T, R],
    pace: Pace,
    report: Report,
    bound: DeviceHandle | None,
    relief: Sequence[str],
) -> tuple[Sequence[R], Fault | None]:
    """One call: its results, or what went wrong, after everything it held has been let go."""
    fault: Fault | None = None
    if bound is not None:
        bound.reset_peak()
    start = time.perf_counter()
    try:
        done = _checked(call([item.payload for item in part.items]), len(part.items))
        if bound is not None:
            bound.synchronize()  # what failed on the device fails here, within this batch
    except Exception as error:  # noqa: BLE001 - whatever an engine throws is its items' outcome
        fault = _fault(error, len(part.items), bound, relief)
        recover.clear(error)
    if fault is None:
        _account(part, time.perf_counter() - start, pace, report, bound)
        return done, None
    if fault.memory:
        report.num_out_of_memory += 1
        pace.ran_out(part.cost)
        if bound is not None and not fault.lost:
            recover.release(bound)
    return (), fault


def _checked(results: Sequence[R], count: int) -> Sequence[R]:
    results = list(results)
    if len(results) != count:
        raise RuntimeError(f"the engine gave {len(results)} results for {count} items")
    return results


def _fault(
    error: Exception, count: int, bound: DeviceHandle | None, relief: Sequence[str]
) -> Fault:
    shortage = oom.recognise(error)
    lost = oom.device_lost(error) or ""
    said = " ".join(str(error).split())[:300]
    said = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if shortage is None and isinstance(error, AnyrigError):
        return Fault(error.message, False, lost, error.hint)  # it says best itself what to do
    if shortage is None:
        return Fault(said, False, lost)
    if shortage.fatal:
        return Fault(said, True, lost or said)
    told = oom.translate(
        error,
        doing=f"computing {pluralize(count, 'item')} at once",
        options=relief,
        memory=_memory(bound),
        memory_of="host" if bound is not None and bound.on_host else "device",
    )
    return Fault(f"{told.message} ({said})", True, lost, told.hint)


def _memory(bound: DeviceHandle | None) -> MemoryUsage | None:
    with contextlib.suppress(Exception):  # a broken device may not tell its memory
        return bound.memory() if bound is not None else None
    return None


def _account(
    part: Batch[T], seconds: float, pace: Pace, report: Report, bound: DeviceHandle | None
) -> None:
    pace.worked(part.cost, seconds)
    peak = bound.memory().peak_bytes if bound is not None else None
    report.batch_done(part.real_cost, part.cost, seconds, peak)
    if log.isEnabledFor(logging.DEBUG):
        log.debug(
            "batch of %d, cost %g (%g padded), %s%s",
            len(part.items),
            part.real_cost,
            part.cost,
            format_duration(seconds),
            f", peak memory {format_bytes(peak)}" if peak is not None else "",
        )


def _say_split(part: Batch[T], fault: Fault) -> None:
    what = "did not fit into memory" if fault.memory else "failed"
    log.info("a batch of %d %s and is split: %s", len(part.items), what, fault.said)


def _aside(item: Item[T], fault: Fault) -> Outcome[R]:
    log.warning("item %d is set aside: %s", item.index, fault.said)
    kind: FailureKind = "memory" if fault.memory else "error"
    failure = Failure(kind, fault.said, _TRIES, fault.hint)
    return Outcome(item.index, failure=failure)
