"""Flower, Celery's own page, beside a coordinator.

Workers send no task events until Flower asks them to, by Celery's remote control: at its start, and
for each that joins later. They send them until they stop.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from anyrig.cluster.broker_server import find_process, stop_child, stop_process
from anyrig.errors import MissingPackageError
from anyrig.install import format_install

USER = "anyrig"
_STOP_S = 5.0
_APP = "anyrig.cluster"


def stop_left_over(folder: Path) -> None:
    """Stop the one of a coordinator that was killed."""
    process = find_process(folder / "flower.pid", _APP)
    if process is not None:
        stop_process(process)


class Flower:
    """Flower in a process of its own.

    Args:
        folder: of the coordinator.
        url: of the broker.
        host: where it listens.
        port: there.
        password: of the user `anyrig`.
    """

    def __init__(self, folder: Path, url: str, *, host: str, port: int, password: str) -> None:
        self._folder, self._url = folder, url
        self._host, self._port, self._password = host, port, password
        self._child: subprocess.Popen[bytes] | None = None
        self._pid_file = folder / "flower.pid"
        self.log_file = folder / "flower.log"

    def start(self, environment: Mapping[str, str]) -> None:
        if find_spec("flower") is None:
            raise MissingPackageError(
                "flower is not installed", hint=format_install("anyrig[cluster]")
            )
        # Passwords are passed in the environment: everybody can see a command line.
        variables = {
            "ANYRIG_CLUSTER_BROKER": self._url, "FLOWER_BASIC_AUTH": f"{USER}:{self._password}",
            "FLOWER_PORT": str(self._port), "FLOWER_ADDRESS": self._host,
        }  # fmt: skip
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.log_file.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", _APP, "flower"], stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, cwd=self._folder, start_new_session=True,
                env={**environment, **variables},
            )  # fmt: skip
        self._pid_file.write_text(f"{self._child.pid}\n", encoding="ascii")

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def stop(self) -> None:
        if self._child is not None:
            stop_child(self._child, _STOP_S)
            self._child = None
            with contextlib.suppress(OSError):
                os.unlink(self._pid_file)
