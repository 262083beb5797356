"""NVIDIA devices through NVML: opened once, handles kept, what one call can tell asked in one call.

The module is an argument, so that a small stand-in for the foreign library drives this very code
where there is no GPU.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from anyrig.devices.machine import Device
from anyrig.monitor.asking import Asker, Lost, Pool, Rates, Unsupported
from anyrig.monitor.processes import Crowd
from anyrig.monitor.readers.host import system_memory
from anyrig.monitor.sample import (
    BRAKE,
    HOT,
    IDLE,
    OTHER,
    POWER,
    SLOWDOWN,
    USER,
    Moment,
    ProcessUse,
    Sample,
    part_memory,
)  # fmt: skip

log = logging.getLogger(__name__)
# nvmlClocksEventReasons: bit -> word.
THROTTLING = (
    (0x001, IDLE), (0x002, USER), (0x004, POWER), (0x008, SLOWDOWN), (0x010, "sync boost"),
    (0x020, HOT), (0x040, HOT), (0x080, BRAKE), (0x100, "display clocks"), (0x200, "board limit"),
    (0x400, "reliability"),
)  # fmt: skip
# nvmlReturn_t
_UNSUPPORTED = (3, 13, 25, 26)  # not supported, no such function or version of it, deprecated
_LOST = (1, 9, 15, 16, 28)  # uninitialised, driver gone, lost, needs a reset, not found
_NOTHING_NEW = (6, 21)  # not found, no data: no sample since the last one
_SM, _MEMORY = 1, 2  # nvmlClockType_t
# nvmlDeviceGetFieldValues' numbers: temperature of the memory, average power of the last second,
# uncorrected memory errors, bytes over PCIe. All in one call.
_FIELDS = {"memory_temperature": 82, "power": 185, "ecc": 4, "pcie_tx": 197, "pcie_rx": 198}
_MOST_PCIE_BYTES_S = 3e11  # more than generation 6 with 16 lanes: a counter that wrapped
_LOOK_AGAIN_S = 10.0


class NvidiaReader:
    """Samples of NVIDIA devices."""

    def __init__(
        self,
        devices: Sequence[Device],
        nvml: Any = None,
        memory: Callable[[], tuple[int, int]] = system_memory,
    ) -> None:
        self.devices = tuple(devices)
        self._nvml, self._memory = nvml, memory
        self._pool = Pool()
        self._gpus: list[_Gpu] = []
        self._opened = False
        self._retry_s, self._silence = 0.0, ""

    def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
        """One sample of each device."""
        if not self._opened and (silence := self._open(moment)):
            return [
                Sample(d.id, d.name, *moment, unknown={"device": silence}) for d in self.devices
            ]
        return [gpu.read(moment, crowd) for gpu in self._gpus]

    def close(self) -> None:
        """Let NVML go."""
        if self._opened:
            self._opened = False
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                log.debug("NVML did not close", exc_info=True)

    def _open(self, moment: Moment) -> str:
        """Nothing when NVML is open, else why not; tried again after a while."""
        if moment.monotonic_s < self._retry_s:
            return self._silence
        try:
            if self._nvml is None:
                import pynvml

                self._nvml = pynvml
            self._nvml.nvmlInit()
        except Exception as error:  # noqa: BLE001 - no package, no library, no driver
            self._silence = f"no answer: {error}"
            self._retry_s = moment.monotonic_s + _LOOK_AGAIN_S
            return self._silence
        self._opened = True
        self._gpus = [
            _Gpu(device, self._nvml, Asker(self._pool), self._memory) for device in self.devices
        ]
        return ""


def _field(value: Any) -> float:
    """A field's number, out of the member of the union that its type names."""
    members = {0: "dVal", 1: "uiVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
    return float(getattr(value.value, members.get(value.valueType, "ullVal")))


class _Gpu:
    """One GPU or MIG instance: its handle and what does not change."""

    def __init__(
        self, device: Device, nvml: Any, asker: Asker, memory: Callable[[], tuple[int, int]]
    ) -> None:
        self._device, self._nvml, self._asker, self._system_memory = device, nvml, asker, memory
        self._handle: Any = None
        self._lost: Sample | None = None
        self._unified = device.memory.kind == "unified"
        self._bytes = Rates(_MOST_PCIE_BYTES_S)
        self._seen_us = 0
        self._fixed: dict[str, int | None] = {}

    def read(self, moment: Moment, crowd: Crowd) -> Sample:
        lost = self._lost
        if lost is not None and moment.monotonic_s - lost.monotonic_s < _LOOK_AGAIN_S:
            # A lost GPU may take seconds to say so: not asked every time.
            return replace(lost, monotonic_s=moment.monotonic_s, wall_s=moment.wall_s)
        try:
            if self._handle is None:
                self._handle = self._find()
                self._fixed = self._read_fixed()
            sample = self._sample(moment, crowd)
        except Lost as error:
            self._handle = None
            self._lost = Sample(self._device.id, self._device.name, *moment, lost=str(error))
            return self._lost
        self._lost = None
        return sample

    def _call(self, function: str, *arguments: Any) -> Any:
        """One NVML call on this device."""
        nvml = self._nvml
        try:
            return getattr(nvml, function)(self._handle, *arguments)
        except AttributeError as error:
            raise Unsupported(f"this nvidia-ml-py has no {function}") from error
        except nvml.NVMLError as error:
            if error.value in _UNSUPPORTED:
                raise Unsupported(f"NVML: {error}") from error
            if error.value in _LOST:
                raise Lost(f"NVML: {error}") from error
            raise

    def _find(self) -> Any:
        """The handle, by UUID; by PCI address where the id is another."""
        nvml, device = self._nvml, self._device
        try:
            return nvml.nvmlDeviceGetHandleByUUID(device.id.partition("@")[0])
        except nvml.NVMLError as error:
            if device.part == "mig" or not device.pci_address:
                raise Lost(f"NVML: {error}") from error
        try:
            return nvml.nvmlDeviceGetHandleByPciBusId(device.pci_address)
        except nvml.NVMLError as error:
            raise Lost(f"NVML: {error}") from error

    def _read_fixed(self) -> dict[str, int | None]:
        ask, call = self._asker.ask, self._call
        generation = ask("pcie_max", lambda: call("nvmlDeviceGetMaxPcieLinkGeneration"))
        return {
            "clock": ask("clock_max", lambda: call("nvmlDeviceGetMaxClockInfo", _SM)),
            "memory_clock": ask("clock_max", lambda: call("nvmlDeviceGetMaxClockInfo", _MEMORY)),
            "generation": generation,
            "width": ask("pcie_max", lambda: call("nvmlDeviceGetMaxPcieLinkWidth")),
        }

    def _sample(self, moment: Moment, crowd: Crowd) -> Sample:
        ask, seldom, call = self._asker.ask, self._asker.seldom, self._call
        total, used, free = ask("memory", self._memory_now) or (None, None, None)
        rates = ask("utilisation", lambda: call("nvmlDeviceGetUtilizationRates"))
        fields = seldom("fields", lambda: self._fields(moment.monotonic_s)) or {}
        rx, tx = self._pcie_rates(fields)
        processes = seldom("processes", lambda: self._processes(crowd))
        shares = part_memory(used, processes, all_visible=crowd.all_visible)
        power = fields.get("power") or seldom("power", lambda: call("nvmlDeviceGetPowerUsage"))
        limit = seldom("power_limit", lambda: call("nvmlDeviceGetEnforcedPowerLimit"))
        encoder = seldom("encoder", lambda: call("nvmlDeviceGetEncoderUtilization")[0])
        decoder = seldom("decoder", lambda: call("nvmlDeviceGetDecoderUtilization")[0])
        self._asker.note("memory_ours", shares.why_unknown)
        return Sample(
            self._device.id,
            self._device.name,
            *moment,
            compute_percent=None if rates is None else float(rates.gpu),
            memory_busy_percent=None if rates is None else float(rates.memory),
            encoder_percent=encoder,
            decoder_percent=decoder,
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_free_bytes=free,
            memory_ours_bytes=shares.ours,
            memory_others_bytes=shares.others,
            power_w=None if power is None else power / 1000,
            power_limit_w=None if limit is None else limit / 1000,
            temperature_c=seldom("temperature", lambda: call("nvmlDeviceGetTemperature", 0)),
            memory_temperature_c=fields.get("memory_temperature") or None,
            fan_percent=seldom("fan", lambda: call("nvmlDeviceGetFanSpeed")),
            clock_mhz=seldom("clock", lambda: call("nvmlDeviceGetClockInfo", _SM)),
            memory_clock_mhz=seldom(
                "memory_clock", lambda: call("nvmlDeviceGetClockInfo", _MEMORY)
            ),
            throttling=seldom("throttling", self._throttling),
            ecc_errors=int(fields["ecc"]) if "ecc" in fields else None,
            pcie_generation=seldom(
                "pcie_generation", lambda: call("nvmlDeviceGetCurrPcieLinkGeneration")
            ),
            pcie_width=seldom("pcie_width", lambda: call("nvmlDeviceGetCurrPcieLinkWidth")),
            pcie_rx_bytes_s=rx,
            pcie_tx_bytes_s=tx,
            processes=processes,
            unknown=self._asker.silences,
            clock_max_mhz=self._fixed.get("clock"),
            memory_clock_max_mhz=self._fixed.get("memory_clock"),
            pcie_generation_max=self._fixed.get("generation"),
            pcie_width_max=self._fixed.get("width"),
        )

    def _memory_now(self) -> tuple[int, int, int]:
        if self._unified:
            total, available = self._system_memory()
            return total, total - available, available
        told = self._call("nvmlDeviceGetMemoryInfo")
        return int(told.total), int(told.used), int(told.free)

    def _throttling(self) -> tuple[str, ...]:
        try:
            bits = int(self._call("nvmlDeviceGetCurrentClocksEventReasons"))
        except Unsupported:  # its name before driver 535
            bits = int(self._call("nvmlDeviceGetCurrentClocksThrottleReasons"))
        words = [word for bit, word in THROTTLING if bits & bit]
        if bits and not words:
            words = [OTHER]
        return tuple(dict.fromkeys(words))

    def _fields(self, now_s: float) -> dict[str, float]:
        """Those of the fields that this device has."""
        values = self._call("nvmlDeviceGetFieldValues", list(_FIELDS.values()))
        found: dict[str, float] = {"at_s": now_s}
        for name, value in zip(_FIELDS, values, strict=True):
            if value.nvmlReturn == 0:
                found[name] = _field(value)
            elif value.nvmlReturn in _LOST:
                raise Lost("NVML: the GPU is lost")
        return found

    def _pcie_rates(self, fields: dict[str, float]) -> tuple[float | None, float | None]:
        """Bytes a second to and from the device, from its counters or as NVML measures them."""
        if "pcie_rx" not in fields or "pcie_tx" not in fields:
            kib_rx = self._asker.seldom("pcie_rx", lambda: self._throughput(1))
            kib_tx = self._asker.seldom("pcie_tx", lambda: self._throughput(0))
            return kib_rx, kib_tx
        rates = self._bytes.update(fields["at_s"], (fields["pcie_rx"], fields["pcie_tx"]))
        return (rates[0], rates[1]) if rates else (None, None)

    def _throughput(self, counter: int) -> float:
        return float(self._call("nvmlDeviceGetPcieThroughput", counter)) * 1024

    def _processes(self, crowd: Crowd) -> tuple[ProcessUse, ...]:
        memory: dict[int, int | None] = {}
        for process in self._call("nvmlDeviceGetComputeRunningProcesses"):
            memory[process.pid] = process.usedGpuMemory
        try:
            for process in self._call("nvmlDeviceGetGraphicsRunningProcesses"):
                memory.setdefault(process.pid, process.usedGpuMemory)
        except Unsupported:
            log.debug("%s lists no graphics processes", self._device.name)
        busy = self._asker.seldom("process_utilisation", self._process_busy) or {}
        return tuple(
            ProcessUse(pid, crowd.name(pid), used, busy.get(pid), crowd.is_ours(pid))
            for pid, used in sorted(memory.items())
        )

    def _process_busy(self) -> dict[int, float]:
        """Each process's share of the time since the last look."""
        try:
            told = self._call("nvmlDeviceGetProcessUtilization", self._seen_us)
        except self._nvml.NVMLError as error:
            if error.value in _NOTHING_NEW:
                return {}
            raise
        self._seen_us = max((row.timeStamp for row in told), default=self._seen_us)
        latest = sorted((row for row in told if row.smUtil <= 100), key=lambda row: row.timeStamp)
        return {int(row.pid): float(row.smUtil) for row in latest}
