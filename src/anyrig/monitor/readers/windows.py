"""Any GPU on Windows through the system's performance counters, which need no vendor's library.

Counters name an adapter by its LUID, which DXGI tells for each adapter in its own order.
Temperature, power and clocks are in no counter and stay unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from anyrig.devices.machine import Device
from anyrig.devices.probe import System
from anyrig.monitor.asking import Asker
from anyrig.monitor.processes import Crowd
from anyrig.monitor.sample import Moment, ProcessUse, Sample, part_memory

ENGINES = r"\GPU Engine(*)\Utilization Percentage"
ADAPTER_MEMORY = r"\GPU Adapter Memory(*)\Dedicated Usage"
ADAPTER_SHARED = r"\GPU Adapter Memory(*)\Shared Usage"
PROCESS_MEMORY = r"\GPU Process Memory(*)\Dedicated Usage"
PATHS = (ENGINES, ADAPTER_MEMORY, ADAPTER_SHARED, PROCESS_MEMORY)
_INSTANCE = re.compile(
    r"(?:pid_(\d+)_)?luid_0x([0-9a-f]+)_0x([0-9a-f]+)_.*?(?:engtype_(.+))?$", re.I
)
Counters = Callable[[], dict[str, dict[str, float]]]


class WindowsReader:
    """Samples of the adapters that DXGI lists."""

    def __init__(
        self, devices: Sequence[Device], system: System, counters: Counters | None = None
    ) -> None:
        self.devices = tuple(devices)
        self._system, self._counters = system, counters
        self._asker = Asker()
        self._luids: dict[int, int] | None = None

    def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
        """One sample of each device."""
        told = self._asker.ask("counters", self._collect) or {}
        luids = self._asker.ask("adapters", self._places) or {}
        samples = []
        for device in self.devices:
            luid = luids.get(device.indices.get("dxgi", -1))
            rows = {} if luid is None else of_adapter(told, luid)
            samples.append(_sample(device, rows, moment, crowd, self._asker))
        return samples

    def close(self) -> None:
        """The query goes with the process."""

    def _collect(self) -> dict[str, dict[str, float]]:
        if self._counters is None:
            from anyrig.monitor.readers.pdh import open_counters

            self._counters = open_counters(PATHS)
        return self._counters()

    def _places(self) -> dict[int, int]:
        """DXGI's number of each adapter -> its LUID."""
        if self._luids is None:
            rows = self._system.adapters("dxgi")
            self._luids = {n: int(row.get("AdapterLuid", 0)) for n, row in enumerate(rows)}
        return self._luids


Row = tuple[int | None, str, float]


def of_adapter(told: dict[str, dict[str, float]], luid: int) -> dict[str, list[Row]]:
    """The counters of one adapter: for each path (process, engine, value)."""
    found: dict[str, list[Row]] = {}
    for path, instances in told.items():
        for instance, value in instances.items():
            parts = _INSTANCE.match(instance)
            if parts and int(parts[2], 16) << 32 | int(parts[3], 16) == luid:
                pid = int(parts[1]) if parts[1] else None
                found.setdefault(path, []).append((pid, parts[4] or "", value))
    return found


def _sample(
    device: Device, rows: dict[str, list[Row]], moment: Moment, crowd: Crowd, asker: Asker
) -> Sample:
    engines: dict[str, float] = {}
    busy: dict[int, float] = {}
    for pid, engine, value in rows.get(ENGINES, []):
        engines[engine] = engines.get(engine, 0.0) + value
        if pid is not None:
            busy[pid] = max(busy.get(pid, 0.0), value)
    memory = {pid: int(value) for pid, _, value in rows.get(PROCESS_MEMORY, []) if pid is not None}
    processes = tuple(
        ProcessUse(pid, crowd.name(pid), memory.get(pid), busy.get(pid), crowd.is_ours(pid))
        for pid in sorted(memory)
    )
    used: int | None = None
    if ADAPTER_MEMORY in rows:
        used = int(sum(value for _, _, value in rows[ADAPTER_MEMORY]))
        if device.memory.kind == "unified":
            used += int(sum(value for _, _, value in rows.get(ADAPTER_SHARED, [])))
    total = device.memory.total_bytes
    shares = part_memory(used, processes if memory else None, all_visible=True)
    return Sample(
        device.id,
        device.name,
        *moment,
        compute_percent=min(100.0, max(engines.values())) if engines else None,
        encoder_percent=_engine(engines, "VideoEncode"),
        decoder_percent=_engine(engines, "VideoDecode"),
        memory_total_bytes=total,
        memory_used_bytes=used,
        memory_free_bytes=None if total is None or used is None else max(0, total - used),
        memory_ours_bytes=shares.ours,
        memory_others_bytes=shares.others,
        processes=processes,
        unknown=asker.silences,
    )


def _engine(engines: dict[str, float], name: str) -> float | None:
    return min(100.0, engines[name]) if name in engines else None
