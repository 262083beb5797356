"""A clerk with a task that kills its process, for tests of what that does to others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyrig.cli import clerk
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import AnyrigError, error_to_dict
from anyrig.placement import Placement
from anyrig.work.engine import EngineFactory
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers


class OwnPool:
    """A model in a process of its own."""

    def __init__(self, device: str) -> None:
        backend = DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider")
        place = Placement(Device(device, "gpu", "test", device), backend)
        recipe = EngineFactory("anyrig.work.fake:FakeEngine")
        self.pool = WorkerPool(LocalWorkers([place], recipe, environment=os.environ))

    def pools(self) -> tuple[WorkerPool, ...]:
        return (self.pool,)

    def __enter__(self) -> OwnPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()


class DeadlyClerk(clerk.Clerk):
    """A plain clerk, and a poisoned task."""

    def _one(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        if payload["task"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if payload["task"] == "nap":
            time.sleep(payload["arguments"]["seconds"])
            return {"result": "awake"}
        if payload["task"] == "dream":
            return self._dreamt(payload)
        if payload["task"] == "borrow":
            return self._borrowed(payload["arguments"])
        if payload["task"] == "slip":
            return super()._one({"task": "search", "arguments": {"a secret": "text"}})
        return super()._one(payload)

    def _borrowed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A task with models in processes of their own, some of them on a GPU that is not there."""
        try:
            for name in arguments["names"]:
                own = self.room.keep(name, lambda: OwnPool(arguments["device"]))
                list(own.pool.run([0.01, 0.02], cost=float))
            time.sleep(arguments.get("seconds", 0.0))
            return {"result": self.room.kept}
        finally:
            self.room.tidy()

    def _dreamt(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """A long task in many steps: until nobody waits for it, or ten minutes."""
        self.room.leash = payload["leash"]
        Path(payload["arguments"]["begun"]).touch()
        for _ in range(30_000):
            try:
                self.room.check()
            except AnyrigError as error:
                Path(payload["arguments"]["ended"]).write_text(error.message)
                return {"error": error_to_dict(error)}
            time.sleep(0.02)
        return {"result": "awake"}
