"""GPUs of any vendor on Windows, through performance counters (pdh.dll). Never run on Windows.

Counters name an adapter by its LUID, which DXGI reports for each adapter in its own order.
Temperature, power and clocks have no counters.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Sequence
from functools import cached_property

from anyrig.devices.machine import Device
from anyrig.devices.probe import HostProbe
from anyrig.monitor.processes import ProcessTable, sum_own_memory
from anyrig.monitor.queries import Queries
from anyrig.monitor.readers import DeviceReader
from anyrig.monitor.sample import DeviceSample, SampleTime

ENGINES = r"\GPU Engine(*)\Utilization Percentage"
ADAPTER_MEMORY = r"\GPU Adapter Memory(*)\Dedicated Usage"
ADAPTER_SHARED = r"\GPU Adapter Memory(*)\Shared Usage"
PROCESS_MEMORY = r"\GPU Process Memory(*)\Dedicated Usage"
_COUNTERS = (ENGINES, ADAPTER_MEMORY, ADAPTER_SHARED, PROCESS_MEMORY)
_INSTANCE = re.compile(
    r"(?:pid_(\d+)_)?luid_0x([0-9a-f]+)_0x([0-9a-f]+)_.*?(?:engtype_(.+))?$", re.I
)
_FORMAT_DOUBLE = 0x00000200  # PDH_FMT_DOUBLE
_MORE_DATA = 0x800007D2
_VALID = (0, 1)  # PDH_CSTATUS_VALID_DATA, PDH_CSTATUS_NEW_DATA
CounterValues = dict[str, dict[str, float]]
"""By counter and instance."""
_Row = tuple[int | None, str, float]
"""Pid, engine, value."""


class WindowsReader(DeviceReader):
    """Samples the adapters that DXGI lists; tests replace the counters."""

    def __init__(
        self,
        devices: Sequence[Device],
        system: HostProbe,
        read_counters: Callable[[], CounterValues] | None = None,
    ) -> None:
        super().__init__(devices, system)
        self._counters = read_counters
        self._queries = Queries()

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        values = self._queries.run("counters", self._read_counters) or {}
        luids = self._queries.run("adapters", lambda: self._luids) or {}
        return [
            self._build_sample(
                device, _select_adapter(values, luids.get(device.indices["dxgi"])), at, processes
            )
            for device in self.devices
        ]

    def _read_counters(self) -> CounterValues:
        if self._counters is None:
            self._counters = _open_counters(_COUNTERS)
        return self._counters()

    @cached_property
    def _luids(self) -> dict[int, int]:
        """By DXGI's number of the adapter."""
        adapters = self.system.list_adapters("dxgi")
        return {number: int(row.get("AdapterLuid", 0)) for number, row in enumerate(adapters)}

    def _build_sample(
        self,
        device: Device,
        rows: dict[str, list[_Row]],
        at: SampleTime,
        processes: ProcessTable,
    ) -> DeviceSample:
        engines: dict[str, float] = {}
        loads: dict[int | None, float] = {}
        for pid, engine, value in rows.get(ENGINES, ()):
            engines[engine] = engines.get(engine, 0.0) + value
            loads[pid] = max(loads.get(pid, 0.0), value)
        listed = tuple(
            processes.describe_device_process(pid, int(value), loads.get(pid))
            for pid, _, value in sorted(rows.get(PROCESS_MEMORY, ()))
            if pid is not None
        )
        counted = (ADAPTER_MEMORY, ADAPTER_SHARED)[: 2 if device.memory.kind == "unified" else 1]
        used = sum(value for counter in counted for _, _, value in rows.get(counter, ()))
        percents = {engine: min(100.0, value) for engine, value in engines.items()}
        return DeviceSample(
            device.id,
            device.name,
            *at,
            compute_percent=max(percents.values(), default=None),
            encoder_percent=percents.get("VideoEncode"),
            decoder_percent=percents.get("VideoDecode"),
            memory_total_bytes=device.memory.total_bytes,
            memory_used_bytes=int(used) if ADAPTER_MEMORY in rows else None,
            memory_own_bytes=self._queries.run("memory_own", sum_own_memory, listed or None, True),
            processes=listed,
            unknown=self._queries.errors,
        )


def _select_adapter(values: CounterValues, luid: int | None) -> dict[str, list[_Row]]:
    """The values of one adapter, by counter."""
    found: dict[str, list[_Row]] = {}
    for counter, instances in values.items():
        for instance, value in instances.items():
            parts = _INSTANCE.match(instance)
            if parts and int(parts[2], 16) << 32 | int(parts[3], 16) == luid:
                pid = int(parts[1]) if parts[1] else None
                found.setdefault(counter, []).append((pid, parts[4] or "", value))
    return found


# -- pdh.dll, from pdh.h ---------------------------------------------------------------------------


class _CounterValue(ctypes.Structure):
    """PDH_FMT_COUNTERVALUE with its union as a double."""

    _fields_ = [("status", ctypes.c_uint32), ("number", ctypes.c_double)]


class _CounterItem(ctypes.Structure):
    """PDH_FMT_COUNTERVALUE_ITEM_W."""

    _fields_ = [("name", ctypes.c_wchar_p), ("value", _CounterValue)]


def _open_counters(paths: Sequence[str]) -> Callable[[], CounterValues]:
    """A function that reads every counter that exists."""
    if sys.platform != "win32":
        raise OSError("performance counters exist only on Windows")
    library = ctypes.WinDLL("pdh.dll")
    query = ctypes.c_void_p()
    _check("PdhOpenQueryW", library.PdhOpenQueryW(None, None, ctypes.byref(query)))
    counters = {}
    for path in paths:
        counter = ctypes.c_void_p()
        # English names work in every display language.
        if library.PdhAddEnglishCounterW(query, path, None, ctypes.byref(counter)) == 0:
            counters[path] = counter
    library.PdhCollectQueryData(query)  # rates need two readings

    def read() -> CounterValues:
        _check("PdhCollectQueryData", library.PdhCollectQueryData(query))
        return {path: _read_values(library, counter) for path, counter in counters.items()}

    return read


def _read_values(library: ctypes.CDLL, counter: ctypes.c_void_p) -> dict[str, float]:
    size, count = ctypes.c_uint32(0), ctypes.c_uint32(0)
    get = library.PdhGetFormattedCounterArrayW
    result = get(counter, _FORMAT_DOUBLE, ctypes.byref(size), ctypes.byref(count), None)
    if result & 0xFFFFFFFF != _MORE_DATA:
        return {}
    buffer = ctypes.create_string_buffer(size.value)
    if get(counter, _FORMAT_DOUBLE, ctypes.byref(size), ctypes.byref(count), buffer) != 0:
        return {}
    items = ctypes.cast(buffer, ctypes.POINTER(_CounterItem))
    found: dict[str, float] = {}
    for item in items[: count.value]:
        if item.value.status in _VALID and item.name:
            # Several counters may share an instance's name.
            found[item.name] = found.get(item.name, 0.0) + item.value.number
    return found


def _check(function: str, result: int) -> None:
    if result != 0:
        raise OSError(f"{function} failed with 0x{result & 0xFFFFFFFF:08x}")
