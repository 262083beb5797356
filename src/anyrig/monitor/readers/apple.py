"""The GPU of a Mac through ioreg, which needs no root: load and memory in use.

Power, temperature and clocks are told to root alone (powermetrics) and stay unknown.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from anyrig.devices.machine import Device
from anyrig.devices.probe import System
from anyrig.monitor.asking import Asker
from anyrig.monitor.processes import Crowd
from anyrig.monitor.sample import Moment, Sample

COMMAND = ("ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
# A program started for each answer: its CPU time is not ours to see, so it is simply asked seldom.
_GAP_S = 2.0
_UNTOLD = dict.fromkeys(
    ("power", "temperature", "clock", "processes"), "no answer: macOS tells it to root alone"
)


class AppleReader:
    """Samples of a Mac's GPUs."""

    def __init__(
        self,
        devices: Sequence[Device],
        system: System,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.devices = tuple(devices)
        self._system, self._clock = system, clock
        self._asker = Asker()
        self._due = 0.0
        self._rows: list[dict[str, int]] = []

    def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
        """One sample of each device."""
        if self._clock() >= self._due:
            self._due = self._clock() + _GAP_S
            self._rows = self._asker.ask("device", lambda: parse(self._system.run(*COMMAND))) or []
        unknown = {**_UNTOLD, **self._asker.silences}
        return [
            _sample(device, self._rows[number] if number < len(self._rows) else {}, moment, unknown)
            for number, device in enumerate(self.devices)
        ]

    def close(self) -> None:
        """Nothing stays open."""


def parse(text: str) -> list[dict[str, int]]:
    """The figures of each accelerator, in ioreg's order."""
    found = []
    for block in re.findall(r'"PerformanceStatistics" = \{([^}]*)\}', text):
        found.append({name: int(value) for name, value in re.findall(r'"([^"]+)"=(\d+)', block)})
    return found


def _sample(device: Device, row: dict[str, int], moment: Moment, unknown: dict[str, str]) -> Sample:
    busy = row.get("Device Utilization %", row.get("GPU Activity(%)"))
    used = row.get("In use system memory", row.get("vramUsedBytes"))
    total = device.memory.total_bytes
    if total is None and used is not None and "vramFreeBytes" in row:
        total = used + row["vramFreeBytes"]
    return Sample(
        device.id,
        device.name,
        *moment,
        compute_percent=None if busy is None else float(min(100, busy)),
        memory_total_bytes=total,
        memory_used_bytes=used,
        memory_free_bytes=None if total is None or used is None else max(0, total - used),
        # Macs with an AMD card tell these two as well.
        temperature_c=row.get("Temperature(C)"),
        power_w=row.get("Total Power(W)"),
        unknown=unknown,
    )
