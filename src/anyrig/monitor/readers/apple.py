"""The GPU of a Mac through ioreg, which needs no root: load and memory.

Power, temperature and clocks are available to root only (powermetrics).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from anyrig.devices.machine import Device
from anyrig.devices.probe import HostProbe
from anyrig.monitor.processes import ProcessTable
from anyrig.monitor.queries import Queries
from anyrig.monitor.readers import DeviceReader
from anyrig.monitor.sample import DeviceSample, SampleTime

_COMMAND = ("ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")
# The CPU time of a child process is not measured, so the command runs at a fixed interval.
_INTERVAL_S = 2.0
_ROOT_ONLY = dict.fromkeys(
    ("power", "temperature", "clock", "processes"), "macOS reports it to root only"
)


class AppleReader(DeviceReader):
    def __init__(self, devices: Sequence[Device], system: HostProbe) -> None:
        super().__init__(devices, system)
        self._queries = Queries()
        self._due_s = float("-inf")
        self._statistics: list[dict[str, int]] = []
        """Of each GPU, in ioreg's order."""

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        if at.monotonic_s >= self._due_s:
            self._due_s = at.monotonic_s + _INTERVAL_S
            self._statistics = self._queries.run("device", self._read_statistics) or []
        rows = [*self._statistics, *[{}] * len(self.devices)]
        pairs = zip(self.devices, rows, strict=False)
        return [self._build_sample(device, row, at) for device, row in pairs]

    def _read_statistics(self) -> list[dict[str, int]]:
        blocks = re.findall(r'"PerformanceStatistics" = \{([^}]*)\}', self.system.run(*_COMMAND))
        return [
            {name: int(value) for name, value in re.findall(r'"([^"]+)"=(\d+)', block)}
            for block in blocks
        ]

    def _build_sample(self, device: Device, row: dict[str, int], at: SampleTime) -> DeviceSample:
        load = row.get("Device Utilization %", row.get("GPU Activity(%)"))
        used = row.get("In use system memory", row.get("vramUsedBytes"))
        total = device.memory.total_bytes
        if total is None and used is not None and "vramFreeBytes" in row:
            total = used + row["vramFreeBytes"]
        return DeviceSample(
            device.id,
            device.name,
            *at,
            compute_percent=None if load is None else float(min(100, load)),
            memory_total_bytes=total,
            memory_used_bytes=used,
            # Macs with an AMD card report these two as well.
            temperature_c=row.get("Temperature(C)"),
            power_w=row.get("Total Power(W)"),
            unknown={**_ROOT_ONLY, **self._queries.errors},
        )
