"""Pools of fake workers: an item is the seconds that it takes, and comes back doubled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from anyrig.devices.machine import Device, DeviceBackend
from anyrig.placement import Placement
from anyrig.work.engine import EngineFactory
from anyrig.work.live import LiveQueue
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers

DRIVE = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")


def placement(name: str, **values: Any) -> Placement:
    return Placement(Device(name, "cpu", "test", name), DRIVE, **values)


def fake_pool(
    *names: str, fallback: str = "", engine: str = "anyrig.work.fake:FakeEngine", **options: Any
) -> WorkerPool:
    """A worker for each name; `options` are the engine's."""
    factory = EngineFactory(engine, options)
    spare = placement(fallback) if fallback else None
    return WorkerPool(
        LocalWorkers(
            [placement(name) for name in names], factory, environment=os.environ, fallback=spare
        )
    )


def live_queue(
    *names: str, engine: dict[str, Any] | None = None, gate: Path | None = None, **options: Any
) -> LiveQueue[float, float]:
    """`engine` are the options of the engine, all others the queue's own.

    With a gate, an item of `HELD_S` takes until that file is there.
    """
    gated = {"engine": "tests.work.engines:Gated", "gate": str(gate)} if gate else {}
    pool = fake_pool(*names, **(engine or {}), **gated)
    pool.wait_ready()
    return LiveQueue(pool, cost=lambda item: item, **options)
