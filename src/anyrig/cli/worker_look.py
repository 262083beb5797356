"""What a worker's device says of itself: looked at, never configured."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anyrig.cli.context import Context

if TYPE_CHECKING:
    from anyrig.devices.machine import Device

_EVERY_S = 5.0
_FIRST_S = 3.0
_MB = 1 << 20


class Look:
    """The fields of health that come from the GPUs; a machine without any costs nothing.

    Args:
        context: of the command.
        device: the worker's own.
    """

    def __init__(self, context: Context, device: Device) -> None:
        self._device = device
        self._gpus = {gpu.id for gpu in context.machine.gpus}
        self._monitor = None
        if self._gpus and context.record is None:
            from anyrig.monitor import Monitor

            self._monitor = Monitor(context.machine, _EVERY_S, 2)

    def start(self) -> None:
        """Begin to look; the first time is waited for."""
        if self._monitor is None:
            return
        self._monitor.start()
        end = time.monotonic() + _FIRST_S
        while self._monitor.latest() is None and time.monotonic() < end:
            time.sleep(0.05)

    def close(self) -> None:
        """Look no more."""
        if self._monitor is not None:
            self._monitor.stop()

    def __call__(self) -> Mapping[str, Any]:
        """What was last seen: of the worker's own GPU, or of all where it works on the CPU."""
        snapshot = self._monitor.latest() if self._monitor is not None else None
        answering = {
            one.device: one.memory_free_bytes
            for one in (snapshot.devices if snapshot is not None else ())
            if one.device in self._gpus and not one.lost and "device" not in one.unknown
        }
        rows = dict(answering)
        if self._device.kind == "gpu":
            rows = {name: free for name, free in answering.items() if name == self._device.id}
        free = [one for one in rows.values() if one is not None]
        return {
            "gpu_available": bool(rows),
            "gpu_count": len(answering),
            "gpu_memory_free_mb": round(max(free) / _MB) if free else None if rows else 0,
        }
