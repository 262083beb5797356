"""The figures of memory that every backend gives. Light: what only decides may import it."""

from __future__ import annotations

from typing import NamedTuple


class MemoryNow(NamedTuple):
    """What this process holds of a device's memory. None: the framework does not tell."""

    allocated_bytes: int | None = None
    """In live tensors; on a CPU, the process's resident memory."""
    reserved_bytes: int | None = None
    """Taken from the driver: live tensors and what the framework keeps for the next ones."""
    peak_bytes: int | None = None
    """The most that was allocated since `reset_peak`."""
    peak_reserved_bytes: int | None = None
    free_bytes: int | None = None
    """What the device has left for everybody."""
    total_bytes: int | None = None
