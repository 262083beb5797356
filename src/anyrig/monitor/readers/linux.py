"""What AMD's and Intel's GPUs on Linux have in common: sysfs, hwmon sensors, fdinfo."""

from __future__ import annotations

import glob
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from anyrig.devices.machine import Device
from anyrig.devices.probe import HostProbe
from anyrig.monitor.processes import ProcessTable
from anyrig.monitor.queries import CPU_SHARE, Queries, UnsupportedQuery
from anyrig.monitor.readers import DeviceReader
from anyrig.monitor.sample import DeviceProcess, DeviceSample, SampleTime
from anyrig.units import GIB, KIB, MIB, is_whole_number, normalize_pci_address

# By GT/s.
_PCIE_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
_UNITS = {"": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
# Processes searched for open GPUs at each sample: about a millisecond.
_PIDS_PER_SAMPLE = 24


class ProcessUsage(NamedTuple):
    """What one process uses of one GPU."""

    memory_bytes: int
    compute_percent: float | None


UsageByAddress = dict[str, dict[int, ProcessUsage]]
"""By PCI address and pid."""


class LinuxReader(DeviceReader):
    """Samples the GPUs of one vendor; `root` is where the file system begins."""

    gpu_type: type[LinuxGpu]
    memory_regions: tuple[str, ...]
    """Prefixes of the fdinfo regions that count as device memory."""

    def __init__(self, devices: Sequence[Device], system: HostProbe, root: str = "/") -> None:
        super().__init__(devices, system)
        self.queries = Queries()
        self._gpus = [
            self.gpu_type(device, system, CPU_SHARE / len(devices), root) for device in devices
        ]
        self._drm = DrmUsage(self.memory_regions, root)

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        usages = self.read_usages(at, processes)
        return [gpu.read(at, usages, processes) for gpu in self._gpus]

    def read_usages(self, at: SampleTime, processes: ProcessTable) -> UsageByAddress:
        return self.queries.run("processes", self._drm.read, at.monotonic_s, processes.ours) or {}


class LinuxGpu(ABC):
    """One GPU: its sysfs folder and its hwmon sensors. A vendor's class reads the figures."""

    def __init__(self, device: Device, system: HostProbe, cpu_share: float, root: str) -> None:
        self.device, self.system, self.root = device, system, root.rstrip("/")
        self.queries = Queries(cpu_share)
        self.address = device.pci_address or ""
        self.folder = f"/sys/bus/pci/devices/{self.address}"
        self._files: dict[str, list[str]] = {}

    @abstractmethod
    def read_figures(
        self, at: SampleTime, listed: tuple[DeviceProcess, ...], all_visible: bool
    ) -> dict[str, Any]:
        """The fields of a sample; `all_visible` says whether `listed` has all processes."""

    def read(self, at: SampleTime, usages: UsageByAddress, processes: ProcessTable) -> DeviceSample:
        if not self.system.read_text(f"{self.folder}/vendor"):
            lost = f"{self.folder} is gone: the card fell off the bus"
            return DeviceSample(self.device.id, self.device.name, *at, lost=lost)
        listed = tuple(
            processes.describe_device_process(pid, usage.memory_bytes, usage.compute_percent)
            for pid, usage in sorted(usages.get(self.address, {}).items())
        )
        figures = self.read_figures(at, listed, processes.all_visible)
        throttled = self.queries.run_throttled
        generation, width = throttled("pcie", self._read_link, "current") or (None, None)
        max_generation, max_width = throttled("pcie_max", self._read_link, "max") or (None, None)
        return DeviceSample(
            self.device.id,
            self.device.name,
            *at,
            pcie_generation=generation,
            pcie_width=width,
            pcie_generation_max=max_generation,
            pcie_width_max=max_width,
            processes=listed,
            unknown=self.queries.errors,
            **figures,
        )

    def _read_link(self, which: str) -> tuple[int | None, int]:
        """PCIe generation and lanes, `current` or `max`."""
        width = self.read_number(f"{which}_link_width")
        speed = self.system.read_text(f"{self.folder}/{which}_link_speed").partition(" ")[0]
        return _PCIE_GENERATIONS.get(speed.removesuffix(".0")), width

    def read_number(self, name: str) -> int:
        number = self.system.read_number(f"{self.folder}/{name}")
        if number is None:
            raise UnsupportedQuery(f"no number in {self.folder}/{name}")
        return number

    def read_sensor(self, *names: str) -> int:
        """The first of these hwmon sensors that the driver has."""
        for name in names if self._hwmon else ():
            number = self.system.read_number(f"{self._hwmon}/{name}")
            if number is not None:
                return number
        raise UnsupportedQuery(f"no sensor {' or '.join(names)}")

    def read_labelled_sensor(self, kind: str, label: str, default: str = "") -> int:
        """The sensor of a kind (`temp`, `freq`) with a label, else the one called `default`."""
        name = self._sensors.get((kind, label), default)
        if not name:
            raise UnsupportedQuery(f"no {kind} sensor labelled {label}")
        return self.read_sensor(name)

    def read_watts(self, *names: str) -> float:
        return self.read_sensor(*names) / 1e6

    def read_celsius(self, label: str, default: str = "") -> float:
        return self.read_labelled_sensor("temp", label, default) / 1000

    @cached_property
    def _hwmon(self) -> str:
        """The folder of the sensors; empty where the driver has none."""
        names = self.system.list_names(f"{self.folder}/hwmon")
        return f"{self.folder}/hwmon/{names[0]}" if names else ""

    @cached_property
    def _sensors(self) -> dict[tuple[str, str], str]:
        """By kind and label: `temp2_label` contains `junction`, so that is `temp2_input`."""
        found = {}
        for name in self.system.list_names(self._hwmon) if self._hwmon else ():
            if match := re.fullmatch(r"(([a-z]+)\d+)_label", name):
                label = self.system.read_text(f"{self._hwmon}/{name}").lower()
                found[match[2], label] = f"{match[1]}_input"
        return found

    def find_files(self, pattern: str) -> list[str]:
        """Files below the sysfs folder, found once."""
        if pattern not in self._files:
            folder = f"{self.root}{self.folder}"
            self._files[pattern] = sorted(glob.glob(pattern, root_dir=folder))
        return self._files[pattern]


class DrmClient(NamedTuple):
    """One open file of a GPU, as /proc/PID/fdinfo describes it."""

    address: str
    client_id: str
    memory_bytes: dict[str, int]
    """By region: vram, gtt, local0, system0."""
    busy: dict[str, tuple[int, int | None]]
    """By engine: busy and total cycles, or busy nanoseconds and None."""


class DrmUsage:
    """What each process uses of each GPU, from the fdinfo files of DRM drivers.

    To find the files, every process must be searched. So a few are searched at each sample, ours
    always; files once found are read every time. The format is documented in the kernel's
    Documentation/gpu/drm-usage-stats.rst.
    """

    def __init__(self, memory_regions: tuple[str, ...], root: str = "/") -> None:
        self._memory_regions = memory_regions
        self._proc = f"{root.rstrip('/')}/proc"
        self._files: dict[int, list[str]] = {}
        """The fdinfo files of each process that has a GPU open."""
        self._unsearched: list[int] = []
        self._last: dict[tuple[int, str, str], DrmClient] = {}
        self._last_s = 0.0

    def read(self, at_s: float, ours: Iterable[int]) -> UsageByAddress:
        elapsed_s = at_s - self._last_s
        clients = self._read_clients(ours)
        found: UsageByAddress = {}
        for key, client in clients.items():
            sizes = client.memory_bytes.items()
            memory = sum(size for name, size in sizes if name.startswith(self._memory_regions))
            load = _compute_load(self._last.get(key), client, elapsed_s)
            usages = found.setdefault(client.address, {})
            other = usages.get(key[0], ProcessUsage(0, None))
            loads = [value for value in (other.compute_percent, load) if value is not None]
            load = min(100.0, sum(loads)) if loads else None
            usages[key[0]] = ProcessUsage(memory + other.memory_bytes, load)
        self._last, self._last_s = clients, at_s
        return found

    def _read_clients(self, ours: Iterable[int]) -> dict[tuple[int, str, str], DrmClient]:
        """By pid, address and client id: each client once, however many open files it has."""
        for pid in {*ours, *self._next_pids()}:
            self._files[pid] = list(self._find_files(pid))
        clients: dict[tuple[int, str, str], DrmClient] = {}
        for pid, paths in list(self._files.items()):
            found = [client for path in paths if (client := _read_fdinfo(path))]
            clients |= {(pid, client.address, client.client_id): client for client in found}
            if not found:
                del self._files[pid]
        return clients

    def _next_pids(self) -> list[int]:
        if not self._unsearched:
            self._unsearched = [int(name) for name in _list(self._proc) if is_whole_number(name)]
        pids = self._unsearched[:_PIDS_PER_SAMPLE]
        del self._unsearched[:_PIDS_PER_SAMPLE]
        return pids

    def _find_files(self, pid: int) -> Iterator[str]:
        for name in _list(f"{self._proc}/{pid}/fd"):
            try:
                target = os.readlink(f"{self._proc}/{pid}/fd/{name}")
            except OSError:
                continue
            if "/dev/dri/" in target:
                yield f"{self._proc}/{pid}/fdinfo/{name}"


def _list(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # another user's process, or ended


def _read_fdinfo(path: str) -> DrmClient | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse_fdinfo(file.read(1 << 16))
    except OSError:
        return None


def parse_fdinfo(text: str) -> DrmClient | None:
    """None where the file is not a GPU's."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    values = {key.strip(): value.strip() for key, value in lines.items()}
    address = normalize_pci_address(values.get("drm-pdev", ""))
    if not address:
        return None
    busy: dict[str, tuple[int, int | None]] = {}
    memory: dict[str, dict[str, int]] = {"total": {}, "memory": {}, "resident": {}}
    for key, value in values.items():
        digits, _, unit = value.partition(" ")
        if not is_whole_number(digits) or not key.startswith("drm-"):
            continue
        number = int(digits) * _UNITS.get(unit.strip(), 1)
        kind, _, name = key.removeprefix("drm-").partition("-")
        total = values.get(f"drm-total-cycles-{name}", "")
        if kind == "cycles" and is_whole_number(total):
            busy[name] = (number, int(total))
        elif kind == "engine" and not name.startswith("capacity-"):
            busy.setdefault(name, (number, None))
        elif kind in memory and not name.startswith("cycles-"):
            memory[kind][name] = number
    # Resident memory counts; older kernels call it `memory`, or only report what was requested.
    resident = memory["total"] | memory["memory"] | memory["resident"]
    return DrmClient(address, values.get("drm-client-id", ""), resident, busy)


def _compute_load(before: DrmClient | None, now: DrmClient, elapsed_s: float) -> float | None:
    """Percent of the time in which the client's busiest engine worked for it."""
    if before is None:
        return None
    loads = []
    for engine, (busy, total) in now.busy.items():
        busy_before, total_before = before.busy.get(engine, (busy, total))
        elapsed = elapsed_s * 1e9 if total is None else total - (total_before or 0)
        if elapsed > 0:
            loads.append(100.0 * (busy - busy_before) / elapsed)
    return min(100.0, max(0.0, max(loads))) if loads else None
