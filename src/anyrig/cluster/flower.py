"""Flower, Celery's own page, beside a coordinator.

Workers send no task events until Flower asks them to, by Celery's remote control: at its start, and
for each that joins later. They send them until they stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from anyrig.backends.process import child_environment, module_command
from anyrig.cluster.broker_server import Service
from anyrig.errors import MissingPackageError
from anyrig.install import format_install

USER = "anyrig"
_APP = "anyrig.cluster"


class Flower(Service):
    """Flower in a process of its own; `configure` it before its start."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "flower", _APP)
        self._environment: Mapping[str, str] = {}

    def configure(
        self, environment: Mapping[str, str], url: str, *, host: str, port: int, password: str
    ) -> None:
        """Which broker, and where it listens; the password is of the user `anyrig`."""
        # Passwords are passed in the environment: everybody can see a command line.
        self._environment = {
            **environment, "ANYRIG_CLUSTER_BROKER": url,
            "FLOWER_BASIC_AUTH": f"{USER}:{password}",
            "FLOWER_PORT": str(port), "FLOWER_ADDRESS": host,
        }  # fmt: skip

    def start(self) -> None:
        if find_spec("flower") is None:
            raise MissingPackageError(
                "flower is not installed", hint=format_install("anyrig[cluster]")
            )
        # Celery's command imports from its working directory: that is the service's own folder.
        command = module_command("celery", "-A", _APP, "flower")
        self.launch(command, child_environment(self._environment))
