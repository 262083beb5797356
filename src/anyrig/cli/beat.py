"""A file that shows from outside that a worker or a coordinator goes on, whatever the broker does.

ANYRIG_BEATS names the folder, as the image does; without it nothing is written. A process touches
its file every few seconds and takes it away when it leaves; in it stands the name under which the
broker knows it, once it has one. deploy/docker/healthcheck.py reads it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

FOLDER = "ANYRIG_BEATS"
_APART_S = 1.0
"""A file is not touched more often, however often it is asked for."""


class Beat:
    """The file of one process.

    Args:
        environment: of the command.
        file: its name; no other process of the machine or container may have it.
    """

    def __init__(self, environment: Mapping[str, str], file: str) -> None:
        folder = environment.get(FOLDER, "").strip()
        self._path = Path(folder) / file if folder else None
        self._said: str | None = None
        self._next = 0.0

    def __call__(self, name: str = "") -> None:
        """All goes on, under this name in the broker."""
        if self._path is None or (name == self._said and time.monotonic() < self._next):
            return
        self._next = time.monotonic() + _APART_S
        with contextlib.suppress(OSError):  # a full disk ends no work; who looks sees an old file
            if name == self._said and self._path.exists():
                os.utime(self._path)
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            whole = self._path.with_name(f"{self._path.name}~")
            whole.write_text(name, encoding="utf-8")
            whole.replace(self._path)  # whoever reads finds all of it
            self._said = name

    def end(self) -> None:
        """It left by itself, and nobody need look for it."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
