"""Files that are written whole or not at all, whatever kills the process."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_UNIQUE = re.compile(r"[0-9a-f]{12}")
_NEW_S = 0.2
"""A file is locked right after it is made, not as it is made."""
_OLD_S = 3600.0


def write_text(path: Path, text: str) -> None:
    """Put text at a path in one step: readers see the old file or the new one, never a part."""
    with replacing(path) as file:
        file.write(text.encode())


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes its place when the block ends well, and is gone otherwise.

    What a killed process left beside it is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(path)
    name = path.parent / f".{path.name}.{secrets.token_hex(6)}"
    # Not mkstemp: its files are for their owner alone, and these may be served or sent on.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(name, flags, 0o666)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            _lock(descriptor)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def _clear_leftovers(path: Path) -> None:
    begin, now = f".{path.name}.", time.time()
    with suppress(OSError), os.scandir(path.parent) as found:
        for entry in found:
            if entry.name.startswith(begin) and _UNIQUE.fullmatch(entry.name, len(begin)):
                with suppress(OSError):
                    age_s = now - entry.stat(follow_symlinks=False).st_mtime
                    if age_s > _NEW_S and entry.is_file(follow_symlinks=False):
                        _remove_unlocked(entry.path, old=age_s > _OLD_S)


def _remove_unlocked(path: str, *, old: bool) -> None:
    """Remove a file that no process writes; where there are no locks, only an old one."""
    with open(path, "rb") as file:
        try:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        except (ImportError, OSError):
            if not old:
                return
    os.unlink(path)


def _lock(descriptor: int) -> None:
    """Whoever clears away what killed processes left can tell that this one lives."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # Windows, where open files are safe; a drive without locks
        return
