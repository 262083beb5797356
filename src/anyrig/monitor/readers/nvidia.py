"""NVIDIA GPUs through NVML: opened once, handles kept, related figures read in one call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from anyrig.devices.machine import Device
from anyrig.devices.probe import HostProbe, load_pynvml
from anyrig.monitor.processes import ProcessTable, sum_own_memory
from anyrig.monitor.queries import CPU_SHARE, CounterRates, DeviceGone, Queries, UnsupportedQuery
from anyrig.monitor.readers import DeviceReader
from anyrig.monitor.readers.host import read_system_memory
from anyrig.monitor.sample import (
    DeviceProcess,
    DeviceSample,
    SampleTime,
    ThrottleReason,
    unknown_sample,
)

log = logging.getLogger(__name__)
# nvmlClocksEventReasons
_THROTTLE_BITS = (
    (0x001, ThrottleReason.IDLE),
    (0x002, ThrottleReason.USER),
    (0x004, ThrottleReason.POWER),
    (0x008, ThrottleReason.HARDWARE_SLOWDOWN),
    (0x010, ThrottleReason.SYNC_BOOST),
    (0x020, ThrottleReason.THERMAL),
    (0x040, ThrottleReason.THERMAL),
    (0x080, ThrottleReason.POWER_BRAKE),
    (0x100, ThrottleReason.DISPLAY),
    (0x200, ThrottleReason.BOARD_LIMIT),
    (0x400, ThrottleReason.RELIABILITY),
)
# nvmlReturn_t
_UNSUPPORTED = (3, 13, 25, 26)  # not supported, no such function or version of it, deprecated
_LOST = (1, 9, 15, 16, 28)  # uninitialised, driver gone, lost, needs a reset, not found
_NO_NEW_DATA = (6, 21)  # not found, no data: nothing since the last query
_SM, _MEMORY = 1, 2  # nvmlClockType_t
_TX, _RX = 0, 1  # nvmlPcieUtilCounter_t
# Read once: the sample's field, the query's name, the function and its arguments.
_FIXED: dict[str, tuple[str, str, *tuple[int, ...]]] = {
    "clock_max_mhz": ("clock_max", "nvmlDeviceGetMaxClockInfo", _SM),
    "memory_clock_max_mhz": ("clock_max", "nvmlDeviceGetMaxClockInfo", _MEMORY),
    "pcie_generation_max": ("pcie_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_width_max": ("pcie_max", "nvmlDeviceGetMaxPcieLinkWidth"),
}
# For nvmlDeviceGetFieldValues: temperature of the memory, average power of the last second,
# uncorrectable memory errors, bytes over PCIe. All in one call.
_FIELDS = {"memory_temperature": 82, "power": 185, "ecc": 4, "pcie_tx": 197, "pcie_rx": 198}
# nvmlValueType_t -> the member of the union that holds the value.
_UNION_MEMBERS = {0: "dVal", 1: "uiVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_MAX_PCIE_BYTES_S = 3e11  # more than PCIe 6 x16: a counter that wrapped
_RETRY_AFTER_S = 10.0


class NvidiaReader(DeviceReader):
    """Samples GPUs and MIG instances; tests replace the module `pynvml`."""

    def __init__(self, devices: Sequence[Device], system: HostProbe, nvml: Any = None) -> None:
        super().__init__(devices, system)
        self._nvml = nvml
        self._gpus: list[_NvidiaGpu] = []
        self._retry_s, self._error = 0.0, ""

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        if not self._gpus and at.monotonic_s >= self._retry_s:
            self._open(at)
        if not self._gpus:
            return [unknown_sample(device, at, self._error) for device in self.devices]
        return [gpu.read(at, processes) for gpu in self._gpus]

    def close(self) -> None:
        if self._gpus:
            self._gpus = []
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                log.debug("nvmlShutdown failed", exc_info=True)

    def _open(self, at: SampleTime) -> None:
        try:
            if self._nvml is None:
                self._nvml = load_pynvml()
            else:
                self._nvml.nvmlInit()
        except Exception as error:  # noqa: BLE001 - no library or no driver
            self._error = str(error)
            self._retry_s = at.monotonic_s + _RETRY_AFTER_S
            return
        cpu_share = CPU_SHARE / len(self.devices)
        self._gpus = [_NvidiaGpu(device, self._nvml, cpu_share) for device in self.devices]


class _NvidiaGpu:
    """One GPU or MIG instance."""

    def __init__(self, device: Device, nvml: Any, cpu_share: float) -> None:
        self._device, self._nvml, self._queries = device, nvml, Queries(cpu_share)
        self._handle: Any = None
        self._lost: DeviceSample | None = None
        self._pcie_rates = CounterRates(_MAX_PCIE_BYTES_S)
        self._process_load_us = 0
        """The time of the newest load of a process."""
        self._fixed: dict[str, Any] = {}

    def read(self, at: SampleTime, processes: ProcessTable) -> DeviceSample:
        lost = self._lost
        if lost is not None and at.monotonic_s - lost.monotonic_s < _RETRY_AFTER_S:
            # Calls to a lost GPU may take seconds: not every time.
            return replace(lost, monotonic_s=at.monotonic_s, wall_s=at.wall_s)
        try:
            if self._handle is None:
                self._handle = self._open_handle()
                self._fixed = {
                    field: self._queries.run(name, self._call, *call)
                    for field, (name, *call) in _FIXED.items()
                }
            sample = self._sample(at, processes)
        except DeviceGone as error:
            self._handle = None
            self._lost = DeviceSample(self._device.id, self._device.name, *at, lost=str(error))
            return self._lost
        self._lost = None
        return sample

    def _open_handle(self) -> Any:
        """By UUID; by PCI address where the device has another id."""
        nvml, device = self._nvml, self._device
        try:
            try:
                return nvml.nvmlDeviceGetHandleByUUID(device.id.partition("@")[0])
            except nvml.NVMLError:
                if device.part == "mig" or not device.pci_address:
                    raise
                return nvml.nvmlDeviceGetHandleByPciBusId(device.pci_address)
        except nvml.NVMLError as error:
            raise DeviceGone(f"NVML: {error}") from error

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in _UNSUPPORTED:
                raise UnsupportedQuery(f"NVML: {error}") from error
            if error.value in _LOST:
                raise DeviceGone(f"NVML: {error}") from error
            raise

    def _get(self, name: str, function: str, *arguments: Any) -> Any:
        """A throttled call; None where it fails."""
        return self._queries.run_throttled(name, self._call, function, *arguments)

    def _sample(self, at: SampleTime, processes: ProcessTable) -> DeviceSample:
        run, throttled, get = self._queries.run, self._queries.run_throttled, self._get
        total, used = run("memory", self._read_memory) or (None, None)
        load = run("utilisation", self._call, "nvmlDeviceGetUtilizationRates")
        fields = throttled("fields", self._read_fields, at.monotonic_s) or {}
        rx, tx = self._read_pcie_rates(fields)
        listed = throttled("processes", self._read_processes, processes)
        power = fields.get("power") or get("power", "nvmlDeviceGetPowerUsage")
        limit = get("power_limit", "nvmlDeviceGetEnforcedPowerLimit")
        encoder = get("encoder", "nvmlDeviceGetEncoderUtilization")
        decoder = get("decoder", "nvmlDeviceGetDecoderUtilization")
        return DeviceSample(
            self._device.id,
            self._device.name,
            *at,
            compute_percent=float(load.gpu) if load else None,
            memory_busy_percent=float(load.memory) if load else None,
            encoder_percent=encoder[0] if encoder else None,
            decoder_percent=decoder[0] if decoder else None,
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_own_bytes=run("memory_own", sum_own_memory, listed, processes.all_visible),
            power_w=None if power is None else power / 1000,
            power_limit_w=None if limit is None else limit / 1000,
            temperature_c=get("temperature", "nvmlDeviceGetTemperature", 0),
            memory_temperature_c=fields.get("memory_temperature") or None,
            fan_percent=get("fan", "nvmlDeviceGetFanSpeed"),
            clock_mhz=get("clock", "nvmlDeviceGetClockInfo", _SM),
            memory_clock_mhz=get("memory_clock", "nvmlDeviceGetClockInfo", _MEMORY),
            throttling=throttled("throttling", self._read_throttling),
            ecc_errors=int(fields["ecc"]) if "ecc" in fields else None,
            pcie_generation=get("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
            pcie_width=get("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
            pcie_rx_bytes_s=rx,
            pcie_tx_bytes_s=tx,
            processes=listed,
            unknown=self._queries.errors,
            **self._fixed,
        )

    def _read_memory(self) -> tuple[int, int]:
        if self._device.memory.kind == "unified":
            total, available = read_system_memory()
            return total, total - available
        memory = self._call("nvmlDeviceGetMemoryInfo")
        return int(memory.total), int(memory.used)

    def _read_fields(self, at_s: float) -> dict[str, float]:
        """Those of the fields that this device has."""
        values = self._call("nvmlDeviceGetFieldValues", list(_FIELDS.values()))
        found = {"at_s": at_s}
        for name, value in zip(_FIELDS, values, strict=True):
            if value.nvmlReturn == 0:
                member = _UNION_MEMBERS.get(value.valueType, "ullVal")
                found[name] = float(getattr(value.value, member))
            elif value.nvmlReturn in _LOST:
                raise DeviceGone("NVML: the GPU is lost")
        return found

    def _read_pcie_rates(self, fields: dict[str, float]) -> tuple[float | None, float | None]:
        """Bytes a second to and from the device: from counters, else as NVML measures them."""
        if "pcie_rx" in fields and "pcie_tx" in fields:
            counts = (fields["pcie_rx"], fields["pcie_tx"])
            rates = self._pcie_rates.update(fields["at_s"], counts)
            return (rates[0], rates[1]) if rates else (None, None)
        rx = self._get("pcie_rx", "nvmlDeviceGetPcieThroughput", _RX)
        tx = self._get("pcie_tx", "nvmlDeviceGetPcieThroughput", _TX)
        return None if rx is None else rx * 1024.0, None if tx is None else tx * 1024.0

    def _read_throttling(self) -> tuple[ThrottleReason, ...]:
        try:
            bits = int(self._call("nvmlDeviceGetCurrentClocksEventReasons"))
        except UnsupportedQuery:  # its name before driver 535
            bits = int(self._call("nvmlDeviceGetCurrentClocksThrottleReasons"))
        reasons = dict.fromkeys(reason for bit, reason in _THROTTLE_BITS if bits & bit)
        return tuple(reasons or ([ThrottleReason.OTHER] if bits else []))

    def _read_processes(self, processes: ProcessTable) -> tuple[DeviceProcess, ...]:
        running = list(self._call("nvmlDeviceGetComputeRunningProcesses"))
        try:
            running += self._call("nvmlDeviceGetGraphicsRunningProcesses")
        except UnsupportedQuery:
            log.debug("%s does not list graphics processes", self._device.name)
        memory: dict[int, int | None] = {}
        for process in running:
            memory.setdefault(process.pid, process.usedGpuMemory)
        loads = self._queries.run_throttled("process_utilisation", self._read_process_loads) or {}
        return tuple(
            processes.describe_device_process(pid, used, loads.get(pid))
            for pid, used in sorted(memory.items())
        )

    def _read_process_loads(self) -> dict[int, float]:
        """Percent of the time since the last query, by pid."""
        try:
            rows = self._call("nvmlDeviceGetProcessUtilization", self._process_load_us)
        except self._nvml.NVMLError as error:
            if error.value in _NO_NEW_DATA:
                return {}
            raise
        rows = sorted(rows, key=lambda row: row.timeStamp)
        if rows:
            self._process_load_us = max(self._process_load_us, rows[-1].timeStamp)
        return {int(row.pid): float(row.smUtil) for row in rows if row.smUtil <= 100}
