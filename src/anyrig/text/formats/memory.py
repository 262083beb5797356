"""How much memory a process that reads one file may take: 1 GB above what it has when idle.

The system refuses larger allocations where it can, and a thread ends the process where the memory
grows in small steps. A file above 20 MB may take more, as an honest one does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import NoReturn

EXIT_CODE = 77
"""Of a process that was ended because its memory grew too large."""
MESSAGE = "takes more than 1 GB of memory to read"
HINT = "It may be damaged or malicious: split it, or save it with another program."
_MOST_BYTES = 1_000_000_000
_RESIDENT_BYTES = 850_000_000
_FREE_FILE_BYTES = 20_000_000
_PER_FILE_BYTE = 20
_CEILING_BYTES = 4 << 30
_LOOK_S = 0.02


class _Bound:
    """What this process may take at the moment; None before it is limited."""

    idle: int | None = None
    idle_space = 0
    resident = 0


def limit_memory(file_bytes: int = 0) -> None:
    """Bound the memory of this process, for a file of this size; where the system can."""
    is_first = _Bound.idle is None
    if _Bound.idle is None:
        _Bound.idle = _resident()
        _Bound.idle_space = _address_space()
    more = max(0, file_bytes - _FREE_FILE_BYTES) * _PER_FILE_BYTE
    _Bound.resident = _Bound.idle + min(_RESIDENT_BYTES + more, _CEILING_BYTES)
    if is_first:  # only now: the thread would compare with a bound of 0
        threading.Thread(target=_watch, name="memory limit", daemon=True).start()
    try:
        import resource
    except ImportError:
        return
    most = _Bound.idle_space + min(_MOST_BYTES + more, _CEILING_BYTES)
    with contextlib.suppress(ValueError, OSError):  # not every system lets this be set
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def lift_limits(pid: int) -> None:
    """Let a program that this process started take what it needs; it is no parser of ours."""
    if sys.platform != "linux" or not is_limited():
        return
    import resource

    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
        with contextlib.suppress(ValueError, OSError):
            hard = resource.getrlimit(limit)[1]
            resource.prlimit(pid, limit, (hard, hard))


def is_limited() -> bool:
    """Whether the memory of this process is bounded."""
    return _Bound.idle is not None


def _watch() -> NoReturn:
    """End the process when it holds more than it may: C libraries let go of Python meanwhile."""
    while True:
        time.sleep(_LOOK_S)
        if _resident() > _Bound.resident:
            os._exit(EXIT_CODE)


def _resident() -> int:
    if sys.platform == "linux":
        return _statm(1)
    try:
        import psutil
    except ImportError:
        return 0
    return int(psutil.Process().memory_info().rss)


def _address_space() -> int:
    return _statm(0) if sys.platform == "linux" else _CEILING_BYTES


def _statm(field: int) -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
