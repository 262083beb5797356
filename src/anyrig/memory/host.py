"""The host's memory as something to measure: freed memory really given back to the system.

The C library keeps freed blocks below its thresholds, so a process that once ran a large batch
stays large, and a smaller batch cannot be measured any more. glibc gives them back when it is told
to; other systems' allocators do so by themselves, or not at all.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.backends.memory import MemoryUsage
    from anyrig.memory.fit import Meter


class Trimming:
    """A CPU's meter that gives freed memory back to the system on `release`."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""
        self._meter.synchronize()

    def memory(self) -> MemoryUsage:
        """What is held now, and at most since the last `reset_peak`."""
        return self._meter.memory()

    def reset_peak(self) -> None:
        """Begin to measure the peak anew."""
        self._meter.reset_peak()

    def release(self) -> None:
        """Give back what nobody uses, down to the system."""
        gc.collect()
        self._meter.release()
        trim()


def trim() -> bool:
    """Whether the C library was asked to give freed memory back; it can be on Linux with glibc."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
        return True
    return False


def few_arenas(most: int = 2) -> bool:
    """Whether the C library was held to so many pools of memory; it can be on Linux with glibc.

    By itself it opens up to eight for each core, and threads leave pieces in all of them: a server
    whose requests wander over forty threads grew by 50 KB with each that encoded speech.
    """
    if sys.platform != "linux":
        return False
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).mallopt(_ARENA_MAX, most))
    return False


_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
