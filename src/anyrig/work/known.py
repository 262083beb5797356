"""Batch sizes that earlier runs found: where the next one begins, and what it need not try."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anyrig.memory.limits import BatchSizeLimits, LimitKey
from anyrig.units import GIB
from anyrig.work.pace import Pace

if TYPE_CHECKING:
    from anyrig.placement import Placement


class Sizes(NamedTuple):
    """How large batches begin, and what did not fit."""

    start: float = 0.0
    """The cost of a batch that computed most a second; 0 begins with one item."""
    failed: float | None = None
    """A cost that ran out of memory."""


def key_of(placement: Placement, engine: str, version: str, stamp: str) -> LimitKey:
    """What sizes are kept under: device, engine, format, driver, libraries and budget."""
    room = placement.budget_bytes
    told = f"{stamp}; {round(room / GIB)} GiB" if room is not None else stamp
    return LimitKey(placement.device.id, engine, version, placement.precision, told)


def sizes(limits: BatchSizeLimits, key: LimitKey) -> Sizes:
    """What is known; nothing where no run has been."""
    known = limits.get(key)
    return Sizes(known.worked or 0.0, known.failed) if known is not None else Sizes()


def keep(limits: BatchSizeLimits, key: LimitKey, pace: Pace, peak_bytes: int | None = None) -> None:
    """What a run found, for the next one."""
    remember(limits, key, pace.good, pace.failed_at, peak_bytes)


def remember(
    limits: BatchSizeLimits,
    key: LimitKey,
    good: float,
    failed: float | None,
    peak_bytes: int | None = None,
) -> None:
    """A size that was good, and one that did not fit, where there was one."""
    if good or failed is not None:
        limits.record(key, worked=good or None, failed=failed, peak_bytes=peak_bytes)
