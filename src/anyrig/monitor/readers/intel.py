"""Intel GPUs on Linux with i915 and xe: hwmon, clock and throttle files, fdinfo.

The kernel reports the load of a whole device to privileged users only. So load and memory are
summed over the processes that this user can see, and the sample says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyrig.devices.machine import Device
from anyrig.devices.probe import HostProbe
from anyrig.monitor.processes import sum_own_memory
from anyrig.monitor.queries import CounterRates, UnsupportedQuery
from anyrig.monitor.readers.host import read_system_memory
from anyrig.monitor.readers.linux import LinuxGpu, LinuxReader
from anyrig.monitor.sample import DeviceProcess, SampleTime, ThrottleReason

# Of each part of the chip; xe's files, then i915's two ways.
_CLOCKS = ("tile*/gt*/freq0/act_freq", "drm/card*/gt/gt*/rps_act_freq_mhz",
           "drm/card*/gt_act_freq_mhz")  # fmt: skip
_MAX_CLOCKS = ("tile*/gt*/freq0/rp0_freq", "drm/card*/gt/gt*/rps_RP0_freq_mhz",
               "drm/card*/gt_RP0_freq_mhz")  # fmt: skip
_THROTTLE_FILES = ("tile*/gt*/freq0/throttle/reason_*", "drm/card*/gt/gt*/throttle_reason_*")
# The last word of a throttle file's name.
_REASONS = {
    **dict.fromkeys(("pl1", "pl2", "psys_pl1", "psys_pl2"), ThrottleReason.POWER),
    **dict.fromkeys(("pl4", "vr_tdc", "iccmax"), ThrottleReason.CURRENT),
    **dict.fromkeys(
        ("thermal", "prochot", "ratl", "vr_thermalert", "soc_thermal", "mem_thermal", "vr_thermal"),
        ThrottleReason.THERMAL,
    ),
}
_PARTIAL = "sum over the processes that this user can see"


class IntelGpu(LinuxGpu):
    def __init__(self, device: Device, system: HostProbe, cpu_share: float, root: str) -> None:
        super().__init__(device, system, cpu_share, root)
        self._energy = CounterRates(max_rate=5e9)  # microjoules a second: 5 kW

    def read_figures(
        self, at: SampleTime, listed: tuple[DeviceProcess, ...], all_visible: bool
    ) -> dict[str, Any]:
        run, throttled = self.queries.run, self.queries.run_throttled
        loads = [p.compute_percent for p in listed if p.compute_percent is not None]
        self.queries.set_error("utilisation", _PARTIAL)
        total, used = run("memory", self._read_memory, listed) or (None, None)
        return {
            "compute_percent": min(100.0, sum(loads)) if loads else None,
            "memory_total_bytes": total,
            "memory_used_bytes": used,
            # fdinfo lists all our processes, in a container too.
            "memory_own_bytes": run("memory_own", sum_own_memory, listed, True),
            "power_w": run("power", self._read_watts, at),
            "power_limit_w": throttled(
                "power_limit", self.read_watts, "power1_max", "power1_rated_max"
            ),
            "temperature_c": run("temperature", self.read_celsius, "pkg", "temp1_input"),
            "memory_temperature_c": run("memory_temperature", self.read_celsius, "vram"),
            "fan_rpm": throttled("fan_rpm", self.read_sensor, "fan1_input"),
            "clock_mhz": run("clock", self._read_mhz, _CLOCKS),
            "clock_max_mhz": throttled("clock_max", self._read_mhz, _MAX_CLOCKS),
            "throttling": throttled("throttling", self._read_throttling),
        }

    def _read_memory(self, listed: Sequence[DeviceProcess]) -> tuple[int | None, int]:
        if self.device.memory.kind == "unified":
            total, available = read_system_memory()
            return total, total - available
        self.queries.set_error("memory_used", _PARTIAL)
        return self.device.memory.total_bytes, sum(p.memory_bytes or 0 for p in listed)

    def _read_watts(self, at: SampleTime) -> float | None:
        rates = self._energy.update(at.monotonic_s, (self.read_sensor("energy1_input"),))
        return rates[0] / 1e6 if rates else None

    def _read_mhz(self, patterns: Sequence[str]) -> int:
        """The highest clock of all parts."""
        for pattern in patterns:
            numbers = [
                self.system.read_number(f"{self.folder}/{f}") for f in self.find_files(pattern)
            ]
            if clocks := [number for number in numbers if number is not None]:
                return max(clocks)
        raise UnsupportedQuery("the driver does not report clocks")

    def _read_throttling(self) -> tuple[ThrottleReason, ...]:
        files = [name for pattern in _THROTTLE_FILES for name in self.find_files(pattern)]
        if not files:
            raise UnsupportedQuery("the driver does not report throttling")
        words = [
            name.rpartition("reason_")[2]
            for name in files
            if self.system.read_number(f"{self.folder}/{name}") == 1
        ]
        reasons = (_REASONS.get(word, ThrottleReason.OTHER) for word in words if word != "status")
        return tuple(dict.fromkeys(reasons))


class IntelReader(LinuxReader):
    gpu_type = IntelGpu
    memory_regions = ("local", "vram", "system")
