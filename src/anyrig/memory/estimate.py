"""Predict the memory of a batch size from a few measurements, and how far that may be wrong.

Peak memory is nearly `fixed + slope x batch size`. Nearly: an allocator rounds (torch takes blocks
of 2 MiB and 20 MiB), a kernel's workspace jumps, freed blocks do not fit the next tensor, and with
small batches the optimizer's own peak hides the slope. So a forecast is a range: the steepest
reading of the measurements, counting what the allocator reserves, and the flattest one, counting
live tensors only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.units import GIB, format_bytes

if TYPE_CHECKING:
    from anyrig.backends.memory import MemoryUsage

# The rest of what a process could take is left to other users of the device.
_USED_SHARE = 0.9
_MIN_GIB = 1 / 1024
# The flattest slope is taken this much flatter still; with a single measurement it is a guess.
_FLATTER, _FLATTER_ALONE = 0.95, 0.6
# A peak this close to the budget was limited by the allocator: it says nothing about the slope.
_FULL_SHARE = 0.98


class PeakMemory(NamedTuple):
    """What one batch size took at its peak."""

    size: int
    live_bytes: int
    """In live tensors."""
    reserved_bytes: int
    """From the driver: live tensors and what the allocator reserved beside them."""


class MemoryForecast(NamedTuple):
    """Which batch sizes fit a budget, as far as the measurements tell."""

    safe_size: int
    """The largest size within the budget by the steepest reading."""
    max_size: int | None
    """The largest size that is possible by the flattest reading; None if nothing bounds it."""
    batch_bytes: int
    """What the largest measured batch added to idle memory: a small one predicts little."""


class MemoryBudget(NamedTuple):
    """How many bytes a process may take of a device."""

    num_bytes: int | None
    """None if the device does not report its memory."""
    reason: str


def forecast_memory(
    peaks: Sequence[PeakMemory], budget_bytes: int, *, idle_bytes: int = 0, capped: bool = True
) -> MemoryForecast:
    """Forecast which batch sizes fit; at least one measured size must be within the budget.

    Args:
        peaks: one for each size that ran, within the budget or over it.
        budget_bytes: the most that may be taken.
        idle_bytes: what stays allocated between steps: weights, gradients, optimizer state.
        capped: whether the framework itself is limited to the budget. If so it frees cached blocks
            before it fails, and live tensors decide what is possible; if not, all reserved memory
            counts.
    """
    ordered = sorted(peaks)
    fitting = [peak for peak in ordered if peak.reserved_bytes <= budget_bytes]
    base = fitting[-1]
    neighbours = [fitting[-2]] if len(fitting) > 1 else []
    neighbours += [peak for peak in ordered if peak.reserved_bytes > budget_bytes][:1]
    reserved = _slopes(base, neighbours, idle_bytes, live=False)
    live = _slopes(base, neighbours, idle_bytes, live=capped)
    headroom = budget_bytes - base.reserved_bytes
    full = base.reserved_bytes > budget_bytes * _FULL_SHARE
    safe = base.size if full or headroom <= 0 else base.size + _more(headroom, max(reserved))
    flattest = min(live) * (_FLATTER if neighbours else _FLATTER_ALONE)
    left = budget_bytes - (base.live_bytes if capped else base.reserved_bytes)
    largest = base.size + _more(left, flattest) if flattest > 0 else None
    return MemoryForecast(safe, largest, max(0, base.reserved_bytes - idle_bytes))


def _slopes(
    base: PeakMemory, neighbours: Sequence[PeakMemory], idle_bytes: int, *, live: bool
) -> tuple[float, ...]:
    """Bytes per item: from idle to the base, and between the base and its neighbours."""

    def height(peak: PeakMemory) -> int:
        return peak.live_bytes if live else peak.reserved_bytes

    between = [(height(base) - height(near)) / (base.size - near.size) for near in neighbours]
    return ((height(base) - idle_bytes) / base.size, *between)


def _more(headroom: float, slope: float) -> int:
    """How many more items fit; a huge number if an item takes nothing."""
    return int(headroom / slope) if slope > 0 else 1 << 40


def resolve_budget(
    memory: MemoryUsage, *, gib: float | None = None, fraction: float | None = None
) -> MemoryBudget:
    """Return what a process may take: what was requested, but no more than is available.

    Args:
        memory: what the device and this process hold now.
        gib: `--memory-gb`, in GiB.
        fraction: `--memory-fraction` of the device's total memory.
    """
    if gib is not None and not _MIN_GIB <= gib < float("inf"):
        raise InvalidInputError(f"--memory-gb {gib:g} is not valid", hint="Give a number above 0.")
    if fraction is not None and not 0 < fraction <= 1:
        raise InvalidInputError(
            f"--memory-fraction {fraction:g} is not between 0 and 1", hint="For example 0.8."
        )
    ours = memory.reserved_bytes or memory.allocated_bytes or 0
    available = memory.total_bytes if memory.free_bytes is None else memory.free_bytes + ours
    requested, reason = None, ""
    if gib is not None:
        requested, reason = int(gib * GIB), f"{gib:g} GiB requested"
    elif fraction is not None and memory.total_bytes is not None:
        requested = int(memory.total_bytes * fraction)
        reason = f"{fraction:.0%} of the device's memory requested"
    if available is None:
        reason = reason or "the device does not report its memory; only speed is measured"
        return MemoryBudget(requested, reason)
    if requested is not None and requested <= available:
        return MemoryBudget(requested, reason)
    reason = f"{reason}, but only {format_bytes(available)} free; using" if reason else ""
    used = f"{_USED_SHARE:.0%} of {'that' if reason else f'{format_bytes(available)} free'}"
    return MemoryBudget(int(available * _USED_SHARE), f"{reason} {used}".strip())
