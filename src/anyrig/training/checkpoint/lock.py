"""One process at a time writes checkpoints into a folder.

The system takes the lock back from a process that dies, however it dies. It is a record lock: it
does not pass to children, so loading processes that outlive a killed run do not keep its folder.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from pathlib import Path

from anyrig.errors import OverloadedError
from anyrig.training.checkpoint.write import refusals

log = logging.getLogger(__name__)
_NAME = ".lock"
_PAUSE_S = 0.02
_HELD = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
# A record lock does not stop its own process: folders held by this one, by process number as
# a fork inherits the table but not the locks.
_ours: set[tuple[int, str]] = set()
_guard = threading.Lock()


class FolderLock:
    """The right to write into a folder, from `take` until `release`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self._key: tuple[int, str] | None = None

    def take(self, patience_s: float) -> None:
        """Have the lock; `OverloadedError` when another still has it after a while."""
        if self._key is not None:
            return
        with refusals(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        end = time.monotonic() + patience_s
        while not self._try():
            if time.monotonic() >= end:
                raise OverloadedError(
                    f"another process{self._holder()} writes checkpoints into {self._folder}",
                    hint="Wait for it or end it, or name another folder.",
                )
            time.sleep(_PAUSE_S)

    def _try(self) -> bool:
        key = (os.getpid(), str(self._folder.resolve()))
        with _guard:
            if key in _ours:
                return False
            with refusals(self._folder):
                descriptor = os.open(self._folder / _NAME, os.O_RDWR | os.O_CREAT, 0o666)
            if not _locked(descriptor):
                os.close(descriptor)
                return False
            _ours.add(key)
        self._descriptor, self._key = descriptor, key
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"\n" + str(os.getpid()).encode() + b"\n")
        return True

    def _holder(self) -> str:
        if (os.getpid(), str(self._folder.resolve())) in _ours:
            return " or object of this one"  # opening the file here would let go of the lock
        try:
            number = (self._folder / _NAME).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""
        return f" ({number})" if number.isdecimal() else ""

    def release(self) -> None:
        """Let go."""
        if self._key is None or self._descriptor is None:
            return
        with _guard:
            os.close(self._descriptor)
            _ours.discard(self._key)
        self._descriptor = self._key = None


def _locked(descriptor: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        log.warning("the drive has no locks: see that one run alone writes into its folder")
    return True
