"""What AMD's and Intel's GPUs on Linux have in common: sysfs, hwmon sensors, fdinfo."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from anyrig.devices.machine import Device
from anyrig.devices.probe import System
from anyrig.monitor.processes import ProcessTable
from anyrig.monitor.queries import Queries, QueryBudget, Unsupported
from anyrig.monitor.readers import DeviceReader
from anyrig.monitor.sample import DeviceProcess, DeviceSample, SampleTime
from anyrig.units import is_whole_number, normalize_pci_address

# GT/s of each PCIe generation.
_PCIE_SPEEDS = {"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5,
                "32": 5, "64.0": 6, "64": 6}  # fmt: skip
_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
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

    def __init__(self, devices: Sequence[Device], system: System, root: str = "/") -> None:
        super().__init__(devices, system)
        budget = QueryBudget()
        self.queries = Queries(budget)
        self._gpus = [self.gpu_type(device, system, budget, root) for device in devices]
        self._drm = DrmUsage(self.memory_regions, root)

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        usages = self.read_usages(at, processes)
        return [gpu.read(at, usages, processes) for gpu in self._gpus]

    def read_usages(self, at: SampleTime, processes: ProcessTable) -> UsageByAddress:
        usages = self.queries.run(
            "processes", lambda: self._drm.read(at.monotonic_s, processes.ours)
        )
        return usages or {}


class LinuxGpu(ABC):
    """One GPU: its sysfs folder and its hwmon sensors. A vendor's class builds the sample."""

    def __init__(self, device: Device, system: System, budget: QueryBudget, root: str) -> None:
        self.device, self.system, self.root = device, system, root.rstrip("/")
        self.queries = Queries(budget)
        self.address = device.pci_address or ""
        self.folder = f"/sys/bus/pci/devices/{self.address}"
        self._labels: dict[str, dict[str, str]] = {}

    @abstractmethod
    def sample(
        self, at: SampleTime, listed: tuple[DeviceProcess, ...], all_visible: bool
    ) -> DeviceSample:
        """One sample, with the listed processes; `all_visible` says whether those are all."""

    def read(self, at: SampleTime, usages: UsageByAddress, processes: ProcessTable) -> DeviceSample:
        if not self.system.peek(f"{self.folder}/vendor"):
            lost = f"{self.folder} is gone: the card fell off the bus"
            return DeviceSample(self.device.id, self.device.name, *at, lost=lost)
        listed = tuple(
            processes.describe_device_process(pid, usage.memory_bytes, usage.compute_percent)
            for pid, usage in sorted(usages.get(self.address, {}).items())
        )
        return self.sample(at, listed, processes.all_visible)

    def read_number(self, name: str) -> int:
        number = self.system.number(f"{self.folder}/{name}")
        if number is None:
            raise Unsupported(f"no number in {self.folder}/{name}")
        return number

    def read_sensor(self, *names: str) -> int:
        """The first of these hwmon sensors that the driver has."""
        for name in names if self.hwmon else ():
            number = self.system.number(f"{self.hwmon}/{name}")
            if number is not None:
                return number
        raise Unsupported(f"no sensor {' or '.join(names)}")

    def read_labelled_sensor(self, kind: str, label: str, default: str = "") -> int:
        """The sensor of a kind (`temp`, `freq`) with a label, else the one called `default`."""
        if kind not in self._labels:
            self._labels[kind] = {
                self.system.peek(f"{self.hwmon}/{name}").lower(): name
                for name in (self.system.names(self.hwmon) if self.hwmon else ())
                if name.startswith(kind) and name.endswith("_label")
            }
        name = self._labels[kind].get(label, default)
        if not name:
            raise Unsupported(f"no {kind} sensor labelled {label}")
        return self.read_sensor(name.replace("_label", "_input"))

    @cached_property
    def hwmon(self) -> str:
        """The folder of the sensors; empty where the driver has none."""
        names = self.system.names(f"{self.folder}/hwmon")
        return f"{self.folder}/hwmon/{names[0]}" if names else ""

    def read_pcie_link(self, which: str) -> tuple[int | None, int | None]:
        """PCIe generation and lanes, `current` or `max`."""

        def read() -> tuple[int | None, int]:
            speed = self.system.peek(f"{self.folder}/{which}_link_speed").partition(" ")[0]
            return _PCIE_SPEEDS.get(speed), self.read_number(f"{which}_link_width")

        name = "pcie" if which == "current" else "pcie_max"
        return self.queries.run_throttled(name, read) or (None, None)


class DrmClient(NamedTuple):
    """One open file of a GPU, as /proc/PID/fdinfo describes it."""

    address: str
    pid: int
    client_id: str
    memory_bytes: dict[str, int]
    """By region: vram, gtt, local0, system0."""
    busy_ns: dict[str, int]
    """By engine."""
    cycles: dict[str, tuple[int, int]]
    """By engine: busy and total cycles."""


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
        self._last: dict[tuple[str, str, int], DrmClient] = {}
        self._last_s = 0.0

    def read(self, at_s: float, ours: Iterable[int]) -> UsageByAddress:
        elapsed_s = at_s - self._last_s
        clients = self._read_clients(ours)
        found: UsageByAddress = {}
        for key, client in clients.items():
            memory = sum(
                size
                for region, size in client.memory_bytes.items()
                if region.startswith(self._memory_regions)
            )
            load = _compute_load(self._last.get(key), client, elapsed_s)
            usages = found.setdefault(client.address, {})
            other = usages.get(client.pid)
            if other is not None:
                memory += other.memory_bytes
                loads = [value for value in (other.compute_percent, load) if value is not None]
                load = min(100.0, sum(loads)) if loads else None
            usages[client.pid] = ProcessUsage(memory, load)
        self._last, self._last_s = clients, at_s
        return found

    def _read_clients(self, ours: Iterable[int]) -> dict[tuple[str, str, int], DrmClient]:
        """Each client once, however many open files it has."""
        for pid in {*ours, *self._next_pids()}:
            self._files[pid] = list(self._find_files(pid))
        clients: dict[tuple[str, str, int], DrmClient] = {}
        for pid, paths in list(self._files.items()):
            found = [client for path in paths if (client := _read_fdinfo(pid, path))]
            clients |= {(client.address, client.client_id, pid): client for client in found}
            if not found:
                del self._files[pid]
        return clients

    def _next_pids(self) -> list[int]:
        if not self._unsearched:
            try:
                self._unsearched = [
                    int(name) for name in os.listdir(self._proc) if is_whole_number(name)
                ]
            except OSError:
                return []
        pids = self._unsearched[:_PIDS_PER_SAMPLE]
        del self._unsearched[:_PIDS_PER_SAMPLE]
        return pids

    def _find_files(self, pid: int) -> Iterator[str]:
        folder = f"{self._proc}/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            return  # another user's process, or ended
        for name in names:
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError:
                continue
            if "/dev/dri/" in target:
                yield f"{self._proc}/{pid}/fdinfo/{name}"


def _read_fdinfo(pid: int, path: str) -> DrmClient | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse_fdinfo(pid, file.read(1 << 16))
    except OSError:
        return None


def parse_fdinfo(pid: int, text: str) -> DrmClient | None:
    """None where the file is not a GPU's."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    values = {key.strip(): value.strip() for key, value in lines.items()}
    address = normalize_pci_address(values.get("drm-pdev", ""))
    if not address:
        return None
    client = DrmClient(address, pid, values.get("drm-client-id", ""), {}, {}, {})
    memory: dict[str, dict[str, int]] = {"total": {}, "memory": {}, "resident": {}}
    for key, value in values.items():
        digits, _, unit = value.partition(" ")
        if not is_whole_number(digits) or not key.startswith("drm-"):
            continue
        number = int(digits) * _UNITS.get(unit.strip(), 1)
        kind, _, name = key.removeprefix("drm-").partition("-")
        if kind == "cycles":
            total = values.get(f"drm-total-cycles-{name}", "")
            client.cycles[name] = (number, int(total) if is_whole_number(total) else 0)
        elif kind == "engine" and not name.startswith("capacity-"):
            client.busy_ns[name] = number
        elif kind in memory and not name.startswith("cycles-"):
            memory[kind][name] = number
    # Resident memory counts; older kernels call it `memory`, or only report what was requested.
    resident = memory["total"] | memory["memory"] | memory["resident"]
    return client._replace(memory_bytes=resident)


def _compute_load(before: DrmClient | None, now: DrmClient, elapsed_s: float) -> float | None:
    """Percent of the time in which the client's busiest engine worked for it."""
    if before is None or elapsed_s <= 0:
        return None
    loads = [
        100.0 * (ns - before.busy_ns.get(engine, ns)) / (elapsed_s * 1e9)
        for engine, ns in now.busy_ns.items()
    ]
    for engine, (busy, total) in now.cycles.items():
        busy_before, total_before = before.cycles.get(engine, (busy, total))
        if total > total_before:
            loads.append(100.0 * (busy - busy_before) / (total - total_before))
    return min(100.0, max(0.0, max(loads))) if loads else None
