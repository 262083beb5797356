"""A document worker with tasks that die, sleep or go on for long, for tests of what that does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyrig.app import document_worker
from anyrig.app.document_worker import DocumentWorker, WorkerContext
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
        placement = Placement(Device(device, "gpu", "test", device), backend)
        factory = EngineFactory("anyrig.work.fake:FakeEngine")
        self.pool = WorkerPool(LocalWorkers([placement], factory, environment=os.environ))

    def pools(self) -> tuple[WorkerPool, ...]:
        return (self.pool,)

    def __enter__(self) -> OwnPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()


def _run_steps(context: WorkerContext, given: Mapping[str, Any]) -> str:
    """Go on, with many steps, until a file exists."""
    with Path(given["begun"]).open("a") as file:
        file.write("begun\n")
    while not Path(given["go_on"]).exists():
        context.check()
        time.sleep(0.01)
    return "done"


class OddDocumentWorker(DocumentWorker):
    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        odd = {"steps": _run_steps, "transcribe": _run_steps}
        document_worker.TASKS = {**document_worker.TASKS, **odd}

    def run_task(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        task, given = payload["task"], payload["given"]
        if task == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if task == "sleep":
            time.sleep(given["seconds"])
            return {"result": "awake"}
        if task == "endless":
            return self._run_endless(payload)
        if task == "borrow":
            return self._borrow(given)
        if task == "slip":
            return super().run_task({"task": "index_files", "given": {"a secret": "text"}})
        return super().run_task(payload)

    def _borrow(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Use a model in a process of its own, on a GPU that does not exist."""
        models = self.context.rig.models
        try:
            with models.borrow(given["name"], lambda: OwnPool(given["device"])) as own:
                list(own.pool.run([0.01, 0.02], cost=float))
                time.sleep(given.get("seconds", 0.0))
            return {"result": list(self.loaded_models())}
        finally:
            models.evict_idle()

    def _run_endless(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Run until nobody waits for it, or ten minutes."""
        self.context.waiting_file = payload["waiting_file"]
        Path(payload["given"]["begun"]).touch()
        for _ in range(30_000):
            try:
                self.context.check()
            except AnyrigError as error:
                Path(payload["given"]["ended"]).write_text(error.message)
                return {"error": error_to_dict(error)}
            time.sleep(0.02)
        return {"result": "awake"}
