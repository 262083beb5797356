"""Files that are written whole or not at all, whatever kills the process."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_text(path: Path, text: str) -> None:
    """Put text at a path in one step: readers see the old file or the new one, never a part."""
    with replacing(path) as file:
        file.write(text.encode())


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes its place when the block ends well, and is gone otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
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


def _lock(descriptor: int) -> None:
    """Whoever clears away what killed processes left can tell that this one lives."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # Windows, where open files are safe; a drive without locks
        return
