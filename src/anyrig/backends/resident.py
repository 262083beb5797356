"""The host memory of this process: what it holds now and what it held at most."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from anyrig.backends import MemoryNow

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class Resident:
    """This process's resident memory. On Linux the peak can be begun anew; elsewhere it is read
    whenever somebody asks, so what rose and fell in between is not seen.
    """

    def __init__(self) -> None:
        import psutil

        self._process = psutil.Process()
        self._peak = 0
        self._by_kernel = sys.platform == "linux" and _can_clear()

    def reset_peak(self) -> None:
        """Begin to measure the peak anew."""
        self._peak = 0
        if self._by_kernel:
            _CLEAR.write_text("5")

    def memory(self) -> MemoryNow:
        """What is resident now, at most since the last reset, and left for everybody."""
        import psutil

        now = int(self._process.memory_info().rss)
        system = psutil.virtual_memory()
        self._peak = max(self._peak, now, _high_water() if self._by_kernel else 0)
        return MemoryNow(now, now, self._peak, self._peak, int(system.available), int(system.total))


def _can_clear() -> bool:
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")
        return True
    return False


def _high_water() -> int:
    """The kernel's own peak, in bytes."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
