"""Flower, Celery's own page, beside a coordinator.

It needs the workers to tell of every task, which costs a little and is off until it asks for it:
without events it lists workers and queues, and knows of no task. Flower turns them on by Celery's
remote control, at its start and for whoever joins later; they stay on until the worker ends.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from anyrig.cluster.broker import end, left_by
from anyrig.errors import MissingPackageError
from anyrig.install import format_install

USER = "anyrig"
PORT = 5555
_END_S = 5.0
_WORD = "anyrig.cluster.app"


def end_left(folder: Path) -> None:
    """End the one that a coordinator left which was killed."""
    left = left_by(folder / "flower.pid", _WORD)
    if left is not None:
        end(left)


class Flower:
    """Flower in a process of its own.

    Args:
        folder: of the coordinator.
        url: of the broker, with its password.
        host: where it listens.
        port: there.
        password: of the user `anyrig`.
    """

    def __init__(self, folder: Path, url: str, *, host: str, port: int, password: str) -> None:
        self._folder, self._url = folder, url
        self._host, self._port, self._password = host, port, password
        self._child: subprocess.Popen[bytes] | None = None
        self._pid = folder / "flower.pid"

    def start(self, environment: Mapping[str, str]) -> None:
        """Start it."""
        if find_spec("flower") is None:
            raise MissingPackageError(
                "flower is not installed", hint=format_install("anyrig[cluster]")
            )
        # Passwords go by the environment: a command line can be read by everybody on the machine.
        words = {
            "ANYRIG_CLUSTER_BROKER": self._url, "FLOWER_BASIC_AUTH": f"{USER}:{self._password}",
            "FLOWER_PORT": str(self._port), "FLOWER_ADDRESS": self._host,
        }  # fmt: skip
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._folder / "flower.log").open("ab") as out:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", _WORD, "flower"], stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, cwd=self._folder, start_new_session=True,
                env={**environment, **words},
            )  # fmt: skip
        self._pid.write_text(f"{self._child.pid}\n", encoding="ascii")

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._child is not None and self._child.poll() is None

    def stop(self) -> None:
        """End it."""
        if self._child is None:
            return
        if self._child.poll() is None:
            self._child.terminate()
        try:
            self._child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(_END_S)
        self._child = None
        with contextlib.suppress(OSError):
            os.unlink(self._pid)
