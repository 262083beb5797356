"""AMD GPUs on Linux: the amdgpu driver's sysfs, the list of processes of kfd, fdinfo.

`pcie_bw` is never read: the driver counts for a whole second before it returns.
"""

from __future__ import annotations

import re
import struct

from anyrig.devices.probe import System
from anyrig.monitor.processes import ProcessTable, sum_own_memory
from anyrig.monitor.queries import Unsupported
from anyrig.monitor.readers.linux import LinuxGpu, LinuxReader, ProcessUsage, UsageByAddress
from anyrig.monitor.sample import DeviceProcess, DeviceSample, SampleTime, ThrottleReason
from anyrig.units import is_whole_number

_KFD = "/sys/class/kfd/kfd"
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
    def sample(
        self, at: SampleTime, listed: tuple[DeviceProcess, ...], all_visible: bool
    ) -> DeviceSample:
        run, throttled = self.queries.run, self.queries.run_throttled
        total, used = run("memory", self._read_memory) or (None, None)
        generation, width = self.read_pcie_link("current")
        generation_max, width_max = self.read_pcie_link("max")
        return DeviceSample(
            self.device.id,
            self.device.name,
            *at,
            compute_percent=run("utilisation", lambda: float(self.read_number("gpu_busy_percent"))),
            memory_busy_percent=run(
                "memory_busy", lambda: float(self.read_number("mem_busy_percent"))
            ),
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_ours_bytes=run(
                "memory_ours", lambda: sum_own_memory(listed, all_visible=all_visible)
            ),
            power_w=run("power", lambda: self.read_sensor("power1_average", "power1_input") / 1e6),
            power_limit_w=throttled("power_limit", lambda: self.read_sensor("power1_cap") / 1e6),
            temperature_c=run("temperature", lambda: self._read_celsius("edge", "temp1_input")),
            hotspot_c=run("hotspot", lambda: self._read_celsius("junction")),
            memory_temperature_c=run("memory_temperature", lambda: self._read_celsius("mem")),
            fan_percent=throttled("fan", lambda: 100.0 * self.read_sensor("pwm1") / 255),
            fan_rpm=throttled("fan_rpm", lambda: self.read_sensor("fan1_input")),
            clock_mhz=run("clock", lambda: self._read_mhz("sclk")),
            clock_max_mhz=throttled("clock_max", lambda: self._read_max_mhz("pp_dpm_sclk")),
            memory_clock_mhz=run("memory_clock", lambda: self._read_mhz("mclk")),
            memory_clock_max_mhz=throttled(
                "memory_clock_max", lambda: self._read_max_mhz("pp_dpm_mclk")
            ),
            throttling=throttled("throttling", self._read_throttling),
            ecc_errors=throttled("ecc", self._read_ecc_errors),
            pcie_generation=generation,
            pcie_width=width,
            pcie_generation_max=generation_max,
            pcie_width_max=width_max,
            processes=listed,
            unknown=self.queries.errors,
        )

    def _read_memory(self) -> tuple[int, int]:
        """Total and used; of an APU, its own memory and what it maps of the system's."""
        if self.device.part == "partition":
            raise Unsupported("the driver reports the memory of the whole card, not of a partition")
        read = self.read_number
        total, used = read("mem_info_vram_total"), read("mem_info_vram_used")
        if self.device.memory.kind == "unified":
            total += read("mem_info_gtt_total")
            used += read("mem_info_gtt_used")
        return total, used

    def _read_celsius(self, label: str, default: str = "") -> float:
        return self.read_labelled_sensor("temp", label, default) / 1000

    def _read_mhz(self, label: str) -> int:
        return round(self.read_labelled_sensor("freq", label) / 1e6)

    def _read_max_mhz(self, name: str) -> int:
        """The highest of a table of clocks: `2: 2371Mhz *`."""
        text = self.system.peek(f"{self.folder}/{name}")
        clocks = [int(clock) for clock in re.findall(r"(\d+)\s*Mhz", text, re.IGNORECASE)]
        if not clocks:
            raise Unsupported(f"no clocks in {name}")
        return max(clocks)

    def _read_ecc_errors(self) -> int:
        text = self.system.peek(f"{self.folder}/ras/umc_err_count")
        found = re.search(r"^ue:\s*(\d+)", text, re.MULTILINE)
        if not found:
            raise Unsupported("the driver does not count memory errors")
        return int(found[1])

    def _read_throttling(self) -> tuple[ThrottleReason, ...]:
        try:
            with open(f"{self.root}{self.folder}/gpu_metrics", "rb") as file:
                return parse_throttling(file.read(4096))
        except FileNotFoundError as error:
            raise Unsupported("the driver has no gpu_metrics") from error


def parse_throttling(table: bytes) -> tuple[ThrottleReason, ...]:
    """Why clocks are reduced, from a gpu_metrics table."""
    if len(table) < 4:
        raise Unsupported("gpu_metrics is empty")
    size, *version = struct.unpack_from("<HBB", table)
    offset = _THROTTLE_OFFSETS.get((version[0], version[1]))
    if offset is None or len(table) < max(offset + 8, size):
        name = f"gpu_metrics {version[0]}.{version[1]}"
        raise Unsupported(f"throttling in {name} differs from chip to chip")
    (word,) = struct.unpack_from("<Q", table, offset)
    if word == 0xFFFFFFFFFFFFFFFF:  # how the driver writes "unknown"
        raise Unsupported("gpu_metrics does not contain throttling")
    found = [reason for bits, reason in _THROTTLE_BITS if any(word >> bit & 1 for bit in bits)]
    return tuple(found or ([ThrottleReason.OTHER] if word else []))


class AmdReader(LinuxReader):
    gpu_type = AmdGpu
    memory_regions = ("vram",)
    _kfd_addresses: dict[str, str] | None = None

    def read_usages(self, at: SampleTime, processes: ProcessTable) -> UsageByAddress:
        usages = super().read_usages(at, processes)
        if not processes.all_visible:
            return usages  # kfd lists processes by the host's pids: they would count twice
        kfd = self.queries.run_throttled("kfd", self._read_kfd) or {}
        for address, sizes in kfd.items():
            by_pid = usages.setdefault(address, {})
            for pid, size in sizes.items():
                drm = by_pid.get(pid, ProcessUsage(0, None))
                # Newer kernels count a ROCm process in fdinfo as well.
                by_pid[pid] = drm._replace(memory_bytes=max(size, drm.memory_bytes))
        return usages

    def _read_kfd(self) -> dict[str, dict[int, int]]:
        """ROCm processes: bytes by PCI address and pid."""
        if self._kfd_addresses is None:
            self._kfd_addresses = _read_kfd_addresses(self.system)
        found: dict[str, dict[int, int]] = {}
        for pid in filter(is_whole_number, self.system.names(f"{_KFD}/proc")):
            for gpu_id, address in self._kfd_addresses.items():
                size = self.system.number(f"{_KFD}/proc/{pid}/vram_{gpu_id}")
                if size:
                    found.setdefault(address, {})[int(pid)] = size
        return found


def _read_kfd_addresses(system: System) -> dict[str, str]:
    """kfd's number of each GPU -> PCI address."""
    found = {}
    for name in system.names(f"{_KFD}/topology/nodes"):
        folder = f"{_KFD}/topology/nodes/{name}"
        gpu_id = system.peek(f"{folder}/gpu_id")
        rows = (line.split() for line in system.peek(f"{folder}/properties").splitlines())
        values = {row[0]: int(row[1]) for row in rows if len(row) == 2 and is_whole_number(row[1])}
        if gpu_id.strip("0") and "location_id" in values:
            location, domain = values["location_id"], values.get("domain", 0)
            bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
            found[gpu_id] = f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
    return found
