"""Intel GPUs on Linux with i915 and xe: hwmon, clock and throttle files, fdinfo.

The kernel reports the load of a whole device to privileged users only. So load and memory are
summed over the processes that this user can see, and the sample says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from anyrig.devices.machine import Device
from anyrig.devices.probe import System
from anyrig.monitor.processes import sum_own_memory
from anyrig.monitor.queries import CounterRates, QueryBudget, Unsupported
from anyrig.monitor.readers.host import read_system_memory
from anyrig.monitor.readers.linux import LinuxGpu, LinuxReader
from anyrig.monitor.sample import DeviceProcess, DeviceSample, SampleTime, ThrottleReason

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
    def __init__(self, device: Device, system: System, budget: QueryBudget, root: str) -> None:
        super().__init__(device, system, budget, root)
        self._energy = CounterRates(max_rate=5e9)  # microjoules a second: 5 kW

    def sample(
        self, at: SampleTime, listed: tuple[DeviceProcess, ...], all_visible: bool
    ) -> DeviceSample:
        run, throttled = self.queries.run, self.queries.run_throttled
        loads = [p.compute_percent for p in listed if p.compute_percent is not None]
        self.queries.set_error("utilisation", _PARTIAL)
        total, used = run("memory", lambda: self._read_memory(listed)) or (None, None)
        generation, width = self.read_pcie_link("current")
        generation_max, width_max = self.read_pcie_link("max")
        return DeviceSample(
            self.device.id,
            self.device.name,
            *at,
            compute_percent=min(100.0, sum(loads)) if loads else None,
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_ours_bytes=run("memory_ours", lambda: sum_own_memory(listed, all_visible=True)),
            power_w=run("power", lambda: self._read_watts(at)),
            power_limit_w=throttled(
                "power_limit", lambda: self.read_sensor("power1_max", "power1_rated_max") / 1e6
            ),
            temperature_c=run("temperature", lambda: self._read_celsius("pkg", "temp1_input")),
            memory_temperature_c=run("memory_temperature", lambda: self._read_celsius("vram")),
            fan_rpm=throttled("fan_rpm", lambda: self.read_sensor("fan1_input")),
            clock_mhz=run("clock", lambda: self._read_mhz(0)),
            clock_max_mhz=throttled("clock_max", lambda: self._read_mhz(1)),
            throttling=throttled("throttling", self._read_throttling),
            pcie_generation=generation,
            pcie_width=width,
            pcie_generation_max=generation_max,
            pcie_width_max=width_max,
            processes=listed,
            unknown=self.queries.errors,
        )

    def _read_memory(self, listed: Sequence[DeviceProcess]) -> tuple[int | None, int]:
        if self.device.memory.kind == "unified":
            total, available = read_system_memory()
            return total, total - available
        self.queries.set_error("memory_used", _PARTIAL)
        return self.device.memory.total_bytes, sum(p.memory_bytes or 0 for p in listed)

    def _read_watts(self, at: SampleTime) -> float | None:
        rates = self._energy.update(at.monotonic_s, (self.read_sensor("energy1_input"),))
        return rates[0] / 1e6 if rates else None

    def _read_celsius(self, label: str, default: str = "") -> float:
        return self.read_labelled_sensor("temp", label, default) / 1000

    def _read_mhz(self, which: int) -> int:
        """The highest clock of all tiles, current (0) or maximum (1)."""
        clocks = [self.system.number(files[which]) for files in self._find_clock_files()]
        known = [clock for clock in clocks if clock is not None]
        if not known:
            raise Unsupported("the driver does not report clocks")
        return max(known)

    def _find_clock_files(self) -> list[tuple[str, str]]:
        """Files of the current and the maximum clock of every part: xe's, then i915's two ways."""
        system, folder = self.system, self.folder
        found = []
        for tile in (name for name in system.names(folder) if re.fullmatch(r"tile\d+", name)):
            for part in system.names(f"{folder}/{tile}"):
                if re.fullmatch(r"gt\d+", part):
                    clock = f"{folder}/{tile}/{part}/freq0"
                    found.append((f"{clock}/act_freq", f"{clock}/rp0_freq"))
        for drm in system.names(f"{folder}/drm"):
            card = f"{folder}/drm/{drm}"
            for part in system.names(f"{card}/gt"):
                gt = f"{card}/gt/{part}"
                found.append((f"{gt}/rps_act_freq_mhz", f"{gt}/rps_RP0_freq_mhz"))
            if not found and drm.startswith("card"):
                found.append((f"{card}/gt_act_freq_mhz", f"{card}/gt_RP0_freq_mhz"))
        return found

    def _read_throttling(self) -> tuple[ThrottleReason, ...]:
        """The throttle files of any part that contain 1."""
        system = self.system
        reasons: dict[ThrottleReason, bool] = {}
        for clock_file, _ in self._find_clock_files():
            folder = clock_file.rpartition("/")[0]
            if folder.endswith("/freq0"):
                folder += "/throttle"
            for name in system.names(folder):
                found = re.fullmatch(r"(?:throttle_)?reason_(\w+)", name)
                if found and found[1] != "status":
                    reason = _REASONS.get(found[1], ThrottleReason.OTHER)
                    active = system.number(f"{folder}/{name}") == 1
                    reasons[reason] = reasons.get(reason, False) or active
        if not reasons:
            raise Unsupported("the driver does not report throttling")
        return tuple(reason for reason, active in reasons.items() if active)


class IntelReader(LinuxReader):
    gpu_type = IntelGpu
    memory_regions = ("local", "vram", "system")
