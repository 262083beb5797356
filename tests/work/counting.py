"""A counter over rehearsing workers, for as long as a block lasts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from anyrig.devices.machine import Device, DeviceBackend
from anyrig.placement import Placement
from anyrig.work.engine import Recipe
from anyrig.work.live import Live
from anyrig.work.pool import Pool

DRIVE = DeviceBackend("onnx", "cpu", "CPUExecutionProvider", True, "")


@contextlib.contextmanager
def counter(*names: str, **options: Any) -> Iterator[Live[float, float]]:
    """A worker for each name; an item is the seconds that it takes, and comes back doubled.

    Args:
        names: of the workers' devices.
        options: `engine`, the options of the rehearsal; all others are the counter's own.
    """
    recipe = Recipe("anyrig.work.rehearse:Rehearsal", options.pop("engine", {}))
    seats = [Placement(Device(name, "cpu", "test", name), DRIVE) for name in names]
    pool = Pool(seats, recipe, environment=os.environ)
    pool.wait_ready()
    live: Live[float, float] = Live(pool, cost=lambda item: item, **options)
    with live:
        yield live
