"""How many bytes a process may take of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.units import GIB, format_bytes

if TYPE_CHECKING:
    from anyrig.backends.memory import MemoryUsage

# The rest of what a process could take is left to other users of the device.
USED_SHARE = 0.9
_MIN_GIB = 1 / 1024


class MemoryBudget(NamedTuple):
    num_bytes: int | None
    """None if the device does not report its memory."""
    reason: str


def resolve_budget(
    memory: MemoryUsage, *, gib: float | None = None, fraction: float | None = None
) -> MemoryBudget:
    """What a process may take: what was requested, but no more than is available.

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
    requested, reason = None, ""
    if gib is not None:
        requested, reason = int(gib * GIB), f"{gib:g} GiB requested"
    elif fraction is not None and memory.total_bytes is not None:
        requested = int(memory.total_bytes * fraction)
        reason = f"{fraction:.0%} of the device's memory requested"
    ours = memory.reserved_bytes or memory.allocated_bytes or 0
    available = memory.total_bytes if memory.free_bytes is None else memory.free_bytes + ours
    if available is None:
        reason = reason or "the device does not report its memory; only speed is measured"
        return MemoryBudget(requested, reason)
    if requested is not None and requested <= available:
        return MemoryBudget(requested, reason)
    free, share = f"{format_bytes(available)} free", f"{USED_SHARE:.0%}"
    reason = f"{reason}, but only {free}; using {share} of that" if reason else f"{share} of {free}"
    return MemoryBudget(int(available * USED_SHARE), reason)
