"""AMD GPUs on Linux: the amdgpu driver's sysfs, the list of processes of kfd, fdinfo.

`pcie_bw` is never read: the driver counts for a whole second before it returns.
"""

from __future__ import annotations

import re
import struct
from functools import cached_property
from typing import Any

from anyrig.devices.amd import list_compute_nodes
from anyrig.monitor.processes import ProcessTable, sum_own_memory
from anyrig.monitor.queries import UnsupportedQuery
from anyrig.monitor.readers.linux import LinuxGpu, LinuxReader, ProcessUsage, UsageByAddress
from anyrig.monitor.sample import DeviceProcess, SampleTime, ThrottleReason
from anyrig.units import is_whole_number

_KFD_PROCESSES = "/sys/class/kfd/kfd/proc"
# gpu_metrics tables whose last throttling word means the same on every chip: (format, content)
# version -> its offset (the kernel's kgd_pp_interface.h).
_THROTTLE_OFFSETS = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
# Bits of that word (amdgpu_smu.h).
_THROTTLE_BITS = (
    (range(0, 8), ThrottleReason.POWER),
    (range(16, 24), ThrottleReason.CURRENT),
    (range(32, 48), ThrottleReason.THERMAL),
)


class AmdGpu(LinuxGpu):
    def read_figures(
        self, at: SampleTime, listed: tuple[DeviceProcess, ...], all_visible: bool
    ) -> dict[str, Any]:
        run, throttled = self.queries.run, self.queries.run_throttled
        watts, celsius = self.read_watts, self.read_celsius
        total, used = run("memory", self._read_memory) or (None, None)
        return {
            "compute_percent": run("utilisation", self._read_percent, "gpu_busy_percent"),
            "memory_busy_percent": run("memory_busy", self._read_percent, "mem_busy_percent"),
            "memory_total_bytes": total,
            "memory_used_bytes": used,
            "memory_own_bytes": run("memory_own", sum_own_memory, listed, all_visible),
            "power_w": run("power", watts, "power1_average", "power1_input"),
            "power_limit_w": throttled("power_limit", watts, "power1_cap"),
            "temperature_c": run("temperature", celsius, "edge", "temp1_input"),
            "hotspot_c": run("hotspot", celsius, "junction"),
            "memory_temperature_c": run("memory_temperature", celsius, "mem"),
            "fan_percent": throttled("fan", self._read_fan),
            "fan_rpm": throttled("fan_rpm", self.read_sensor, "fan1_input"),
            "clock_mhz": run("clock", self._read_mhz, "sclk"),
            "clock_max_mhz": throttled("clock_max", self._read_max_mhz, "pp_dpm_sclk"),
            "memory_clock_mhz": run("memory_clock", self._read_mhz, "mclk"),
            "memory_clock_max_mhz": throttled(
                "memory_clock_max", self._read_max_mhz, "pp_dpm_mclk"
            ),
            "throttling": throttled("throttling", self._read_throttling),
            "ecc_errors": throttled("ecc", self._read_ecc_errors),
        }

    def _read_percent(self, name: str) -> float:
        return float(self.read_number(name))

    def _read_fan(self) -> float:
        return 100.0 * self.read_sensor("pwm1") / 255

    def _read_memory(self) -> tuple[int, int]:
        """Total and used; of an APU, its own memory and what it maps of the system's."""
        if self.device.part == "partition":
            raise UnsupportedQuery("the driver reports the card's memory, not a partition's")
        read = self.read_number
        total, used = read("mem_info_vram_total"), read("mem_info_vram_used")
        if self.device.memory.kind == "unified":
            total += read("mem_info_gtt_total")
            used += read("mem_info_gtt_used")
        return total, used

    def _read_mhz(self, label: str) -> int:
        return round(self.read_labelled_sensor("freq", label) / 1e6)

    def _read_max_mhz(self, name: str) -> int:
        """The highest of a table of clocks: `2: 2371Mhz *`."""
        text = self.system.read_text(f"{self.folder}/{name}")
        clocks = [int(clock) for clock in re.findall(r"(\d+)\s*Mhz", text, re.IGNORECASE)]
        if not clocks:
            raise UnsupportedQuery(f"no clocks in {name}")
        return max(clocks)

    def _read_ecc_errors(self) -> int:
        text = self.system.read_text(f"{self.folder}/ras/umc_err_count")
        found = re.search(r"^ue:\s*(\d+)", text, re.MULTILINE)
        if not found:
            raise UnsupportedQuery("the driver does not count memory errors")
        return int(found[1])

    def _read_throttling(self) -> tuple[ThrottleReason, ...]:
        try:
            with open(f"{self.root}{self.folder}/gpu_metrics", "rb") as file:
                return parse_throttling(file.read(4096))
        except FileNotFoundError as error:
            raise UnsupportedQuery("the driver has no gpu_metrics") from error


def parse_throttling(table: bytes) -> tuple[ThrottleReason, ...]:
    """Why clocks are reduced, from a gpu_metrics table."""
    if len(table) < 4:
        raise UnsupportedQuery("gpu_metrics is empty")
    size, major, minor = struct.unpack_from("<HBB", table)
    offset = _THROTTLE_OFFSETS.get((major, minor))
    if offset is None or len(table) < max(offset + 8, size):
        raise UnsupportedQuery(f"throttling in gpu_metrics {major}.{minor} depends on the chip")
    (word,) = struct.unpack_from("<Q", table, offset)
    if word == 0xFFFFFFFFFFFFFFFF:  # how the driver writes "unknown"
        raise UnsupportedQuery("gpu_metrics does not contain throttling")
    found = [reason for bits, reason in _THROTTLE_BITS if any(word >> bit & 1 for bit in bits)]
    return tuple(found or ([ThrottleReason.OTHER] if word else []))


class AmdReader(LinuxReader):
    gpu_type = AmdGpu
    memory_regions = ("vram",)

    def read_usages(self, at: SampleTime, processes: ProcessTable) -> UsageByAddress:
        usages = super().read_usages(at, processes)
        if not processes.all_visible:
            return usages  # kfd lists processes by the host's pids: they would count twice
        for address, pid, size in self.queries.run_throttled("kfd", self._read_kfd) or ():
            by_pid = usages.setdefault(address, {})
            drm = by_pid.get(pid, ProcessUsage(0, None))
            # Newer kernels count a ROCm process in fdinfo as well.
            by_pid[pid] = drm._replace(memory_bytes=max(size, drm.memory_bytes))
        return usages

    def _read_kfd(self) -> list[tuple[str, int, int]]:
        """ROCm processes: PCI address, pid and bytes."""
        return [
            (address, int(pid), size)
            for pid in filter(is_whole_number, self.system.list_names(_KFD_PROCESSES))
            for gpu_id, address in self._kfd_addresses.items()
            if (size := self.system.read_number(f"{_KFD_PROCESSES}/{pid}/vram_{gpu_id}"))
        ]

    @cached_property
    def _kfd_addresses(self) -> dict[str, str]:
        """kfd's number of each GPU -> PCI address."""
        return {node.gpu_id: node.address for node in list_compute_nodes(self.system)}
