"""An engine that only simulates work, at any speed and with any fault: for tests without a GPU.

Each item is a number, the seconds it takes on a device of speed 1; its result is twice the number.
Use it by name: `EngineFactory("anyrig.work.fake:FakeEngine", {"speeds": {"cpu": 0.5}})`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from anyrig.placement import Placement


class FakeEngine(BaseEngine):
    """Sleeps for as long as its items say.

    Args:
        placement: where it runs.
        speeds: by device id; 1 if not given.
        max_items: in one call.
        call_s: overhead of a call; batches grow where there is some.
        load_s: how long loading takes.
        fits: the most that fits into one call; more runs out of memory.
        fits_on: by device id, the same there.
        crash_on: items that crash the process.
        error_on: items that raise an error.
        lose_device_on: items that make this process lose the device.
        broken_devices: devices on which every worker crashes at its first item.
        lose_after: by device id, after how many calls its worker loses the device.
    """

    name = "fake"
    version = "1"
    pads = False
    batch_invariant = True

    def __init__(
        self,
        placement: Placement,
        *,
        speeds: Mapping[str, float] | None = None,
        max_items: int = 1,
        call_s: float = 0.0,
        load_s: float = 0.0,
        fits: float = float("inf"),
        fits_on: Mapping[str, float] | None = None,
        crash_on: Sequence[float] = (),
        error_on: Sequence[float] = (),
        lose_device_on: Sequence[float] = (),
        broken_devices: Sequence[str] = (),
        lose_after: Mapping[str, int] | None = None,
    ) -> None:
        device = placement.device.id
        time.sleep(load_s)
        self.max_items, self._call_s = max_items, call_s
        self._speed = (speeds or {}).get(device, 1.0)
        self._fits = (fits_on or {}).get(device, fits)
        self._crash_on, self._error_on = frozenset(crash_on), frozenset(error_on)
        self._lose_device_on = frozenset(lose_device_on)
        self._broken = device in broken_devices
        self._calls_left = (lose_after or {}).get(device)

    def run(self, batch: Sequence[float]) -> list[float]:
        """Each number doubled, after its time."""
        if self._broken or self._crash_on.intersection(batch):
            os._exit(9)
        if self._calls_left is not None:
            self._calls_left -= 1
            if self._calls_left < 0:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
        if self._lose_device_on.intersection(batch):
            raise RuntimeError("CUDA error: device-side assert triggered")
        if sum(batch) > self._fits:
            raise MemoryError(f"{sum(batch)} does not fit into {self._fits}")
        if self._error_on.intersection(batch):
            raise ValueError("invalid item")
        time.sleep(self._call_s + sum(batch) / self._speed)
        return [2 * number for number in batch]
