"""Who has a store open: shared by all that use it, closed to all while its file is replaced.

SQLite finds a database's log and its index by name. A file that is renamed or deleted while
another process opens the name again leaves the two with each other's logs. So whoever has the
database open holds the door, and it is replaced when nobody does. The system opens the door for the
dead. On Windows files that are open can be neither renamed nor deleted, and no door is needed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PAUSE_S = 0.01


class Door:
    """A lock on a file beside the database; where the folder or the drive has none, it is open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: int | None = None

    def share(self) -> None:
        """Hold it together with others, until `leave`."""
        if self._held is None:
            self._held = self._opened()
            if self._held is not None and fcntl:
                with contextlib.suppress(OSError):
                    fcntl.flock(self._held, fcntl.LOCK_SH)

    def leave(self) -> None:
        """Hold it no longer. After a fork the parent still does."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    @contextlib.contextmanager
    def alone(self, wait_s: float) -> Iterator[bool]:
        """A block with the door closed to all others; False where they do not leave in time."""
        assert self._held is None
        descriptor = self._opened()
        try:
            yield descriptor is None or _close_to_others(descriptor, wait_s)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _opened(self) -> int | None:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666) if fcntl else None
        except OSError:
            return None


def _close_to_others(descriptor: int, wait_s: float) -> bool:
    end = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_PAUSE_S)
        except OSError:
            return True  # a drive without locks
