"""A file that shows from outside that a worker or a coordinator runs, whatever the broker does.

ANYRIG_BEATS names the folder, as the container image does; without it nothing is written. A process
touches its file every few seconds and deletes it when it leaves; the file contains the name under
which the broker knows it, once it has one. deploy/docker/healthcheck.py reads it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "ANYRIG_BEATS"
_INTERVAL_S = 1.0


class HeartbeatFile:
    """The file of one process.

    Args:
        environment: of the process.
        file: its name, unique on the machine or in the container.
    """

    def __init__(self, environment: Mapping[str, str], file: str) -> None:
        folder = environment.get(VARIABLE, "").strip()
        self._path = Path(folder) / file if folder else None
        self._written: str | None = None
        self._write_at = 0.0

    def __call__(self, name: str = "") -> None:
        """Touch it; the broker knows the process under this name."""
        if self._path is None or (name == self._written and time.monotonic() < self._write_at):
            return
        self._write_at = time.monotonic() + _INTERVAL_S
        with contextlib.suppress(OSError):  # a full disk stops no work
            if name == self._written and self._path.exists():
                os.utime(self._path)
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            part = self._path.with_name(f"{self._path.name}~")
            part.write_text(name, encoding="utf-8")
            part.replace(self._path)
            self._written = name

    def delete(self) -> None:
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
