"""Files that are written whole or not at all, and locks between processes."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_UNIQUE = re.compile(r"[0-9a-f]{12}")
_MIN_AGE_S = 0.2
"""A temporary file is locked right after it is created, not as it is created."""
_STALE_S = 3600.0
_POLL_S = 0.01


def write_atomic(path: Path, text: str) -> None:
    """Replace a file's text in one step: readers see the old file or the new one, never a part."""
    with open_atomic(path) as file:
        file.write(text.encode())


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A binary file that replaces `path` when the block succeeds, and is deleted otherwise.

    Temporary files that a killed process left for the same path are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    name = path.parent / f".{path.name}.{secrets.token_hex(6)}"
    # Not mkstemp: its files are for their owner alone, and these may be served or sent on.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(name, flags, 0o666)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            if fcntl:
                with suppress(OSError):  # a drive without locks
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def _remove_leftovers(path: Path) -> None:
    prefix, now = f".{path.name}.", time.time()
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and _UNIQUE.fullmatch(entry.name, len(prefix)):
                with suppress(OSError):
                    age_s = now - entry.stat(follow_symlinks=False).st_mtime
                    if age_s > _MIN_AGE_S and entry.is_file(follow_symlinks=False):
                        _remove_unlocked(entry.path, stale=age_s > _STALE_S)


def _remove_unlocked(path: str, *, stale: bool) -> None:
    """Remove a file that no process is writing; where locks do not work, only a stale one."""
    with open(path, "rb") as file:
        try:
            if fcntl:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            elif not stale:
                return
        except BlockingIOError:
            return
        except OSError:
            if not stale:
                return
    os.unlink(path)


class FileLock:
    """A lock between processes, shared or exclusive; the system releases it when a process dies.

    Where the folder cannot be written or the drive has no locks, and on Windows, every attempt
    succeeds. Windows needs none for what this guards: open files cannot be renamed or deleted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shared: int | None = None

    def acquire_shared(self) -> None:
        """Hold it together with others, until `release`."""
        if self._shared is None:
            self._shared = self._open()
            if self._shared is not None:
                with suppress(OSError):
                    fcntl.flock(self._shared, fcntl.LOCK_SH)

    def release(self) -> None:
        """Give up the shared lock. After a fork the parent still holds it."""
        if self._shared is not None:
            os.close(self._shared)
            self._shared = None

    @contextmanager
    def exclusive(self, wait_s: float) -> Iterator[bool]:
        """A block in which nobody else holds it; False if others did not release it in time."""
        assert self._shared is None
        descriptor = self._open()
        try:
            yield descriptor is None or _lock_exclusively(descriptor, wait_s)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _open(self) -> int | None:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666) if fcntl else None
        except OSError:
            return None


def _lock_exclusively(descriptor: int, wait_s: float) -> bool:
    end = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)
        except OSError:
            return True  # a drive without locks
