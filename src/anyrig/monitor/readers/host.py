"""The host through psutil: cores, memory under a container's limit, swap, disks, network."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from anyrig.devices.describe import Machine
from anyrig.devices.sources.system import System
from anyrig.monitor.asking import Asker, Pool, Rates, Unsupported
from anyrig.monitor.processes import Crowd
from anyrig.monitor.sample import HostSample, Moment, Sample
from anyrig.units import is_whole_number

_CGROUP = "/sys/fs/cgroup"


def system_memory() -> tuple[int, int]:
    """All memory of the system, and what it can still hand out."""
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


Cores = tuple[tuple[float, float], ...]


class HostReader:
    """Samples of the host, and of the CPU as a device."""

    def __init__(self, machine: Machine, system: System) -> None:
        self._device = machine.cpu_device
        self._system = system
        self._asker = Asker(Pool())
        self._limit = machine.cpu.memory.total_bytes
        self._group: str | None = None
        self._cores: Cores = ()
        """Busy and whole seconds of each core at the last look."""
        self._disk, self._network = Rates(), Rates()

    def read(self, moment: Moment, crowd: Crowd, device_pids: Iterable[int]) -> HostSample:
        """One look at the host; figures over time begin with the second."""
        ask, seldom = self._asker.ask, self._asker.seldom
        cores = ask("cpu", _core_seconds) or ()
        cpu_percent, cores_percent = _busy(self._cores, cores)
        self._cores = cores
        total, available = ask("memory", self._memory) or (None, None)
        swap = seldom("swap", _swap) or (None, None)
        processes = ask("processes", lambda: crowd.describe(device_pids)) or ()
        ours = [process.memory_bytes for process in processes if process.ours]
        now_s = moment.monotonic_s
        disk = _pair(self._disk, seldom("disk", lambda: (now_s, *_disk_bytes())))
        network = _pair(self._network, seldom("network", lambda: (now_s, *_network_bytes())))
        return HostSample(
            *moment,
            cpu_percent=cpu_percent,
            cores_percent=cores_percent,
            load=ask("load", _load),
            memory_total_bytes=total,
            memory_available_bytes=available,
            memory_ours_bytes=None if None in ours else sum(filter(None, ours)),
            swap_total_bytes=swap[0],
            swap_used_bytes=swap[1],
            disk_read_bytes_s=disk[0],
            disk_write_bytes_s=disk[1],
            network_rx_bytes_s=network[0],
            network_tx_bytes_s=network[1],
            processes=processes,
            unknown=self._asker.silences,
        )

    def as_device(self, host: HostSample) -> Sample:
        """The CPU's own sample: the host's figures under the device's id."""
        total, free = host.memory_total_bytes, host.memory_available_bytes
        used = None if total is None or free is None else max(0, total - free)
        ours = host.memory_ours_bytes
        return Sample(
            self._device.id,
            self._device.name,
            host.monotonic_s,
            host.wall_s,
            compute_percent=host.cpu_percent,
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_free_bytes=free,
            memory_ours_bytes=ours,
            memory_others_bytes=None if used is None or ours is None else max(0, used - ours),
            clock_mhz=self._asker.seldom("clock", _clock),
            temperature_c=self._asker.seldom("temperature", _temperature),
            unknown=host.unknown,
        )

    def _memory(self) -> tuple[int, int]:
        total, available = system_memory()
        if not self._limit or self._limit >= total:
            return total, available
        if self._group is None:
            self._group = self._limiting_group()
        left = self._limit - self._group_used(self._group)
        return self._limit, max(0, min(available, left))

    def _limiting_group(self) -> str:
        """The folder of the control group whose limit the machine's description tells."""
        inner = ["/"]
        for line in self._system.peek("/proc/self/cgroup").splitlines():
            inner.append(line.split(":", 2)[-1])
        places = [f"{_CGROUP}{path}" for path in inner] + [f"{_CGROUP}/memory{p}" for p in inner]
        for place in places:
            while place.startswith(_CGROUP):
                folder = place.rstrip("/")
                for name in ("memory.max", "memory.limit_in_bytes"):
                    if self._system.number(f"{folder}/{name}") == self._limit:
                        return folder
                place = os.path.dirname(folder)
        return ""

    def _group_used(self, folder: str) -> int:
        if not folder:
            return 0
        read = self._system.number
        used = read(f"{folder}/memory.current") or read(f"{folder}/memory.usage_in_bytes") or 0
        for line in self._system.peek(f"{folder}/memory.stat").splitlines():
            name, _, text = line.partition(" ")
            # Files that can be dropped count as used and are not.
            if name in ("inactive_file", "total_inactive_file") and is_whole_number(text):
                return max(0, used - int(text))
        return used


def _core_seconds() -> tuple[tuple[float, float], ...]:
    import psutil

    found = []
    for core in psutil.cpu_times(percpu=True):
        # Linux counts a guest's time in user already.
        whole = sum(core) - getattr(core, "guest", 0.0) - getattr(core, "guest_nice", 0.0)
        found.append((whole - core.idle - getattr(core, "iowait", 0.0), whole))
    return tuple(found)


def _busy(before: Cores, now: Cores) -> tuple[float | None, tuple[float, ...]]:
    """Percent of all cores, and of each."""
    if len(before) != len(now):
        return None, ()
    parts = [
        (after[0] - earlier[0], after[1] - earlier[1])
        for earlier, after in zip(before, now, strict=True)
    ]
    whole = sum(part[1] for part in parts)
    if whole <= 0:
        return None, ()
    each = tuple(_percent(busy, all_) for busy, all_ in parts)
    return _percent(sum(part[0] for part in parts), whole), each


def _percent(part: float, whole: float) -> float:
    return min(100.0, max(0.0, 100.0 * part / whole)) if whole > 0 else 0.0


def _pair(
    rates: Rates, counted: tuple[float, int, int] | None
) -> tuple[float | None, float | None]:
    told = rates.update(counted[0], counted[1:]) if counted else None
    return (told[0], told[1]) if told else (None, None)


def _disk_bytes() -> tuple[int, int]:
    import psutil

    told: Any = psutil.disk_io_counters()
    return (told.read_bytes, told.write_bytes) if told else _unsupported("disk it counts for")


def _network_bytes() -> tuple[int, int]:
    import psutil

    told: Any = psutil.net_io_counters()
    return (told.bytes_recv, told.bytes_sent) if told else _unsupported("network it counts for")


def _swap() -> tuple[int, int]:
    # Linux is asked by ourselves: psutil warns, every time, where the kernel does not count pages
    # swapped in and out. To silence it would change how the whole process handles warnings, from
    # this thread, while others build their schemas under filters of their own.
    if sys.platform == "linux":
        rows = (line.split() for line in Path("/proc/meminfo").read_text("ascii").splitlines())
        found = {row[0]: int(row[1]) * 1024 for row in rows if row[0].startswith("Swap")}
        return found["SwapTotal:"], found["SwapTotal:"] - found["SwapFree:"]
    import psutil

    told = psutil.swap_memory()
    return int(told.total), int(told.used)


def _load() -> tuple[float, float, float]:
    return os.getloadavg() if hasattr(os, "getloadavg") else _unsupported("load average")


def _clock() -> int:
    import psutil

    told = psutil.cpu_freq()
    return round(told.current) if told and told.current else _unsupported("clock it tells")


def _temperature() -> float:
    """The processor's own sensor, where the system shows one."""
    import psutil

    ask: Any = getattr(psutil, "sensors_temperatures", dict)
    sensors = ask()
    for name in ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal"):
        if sensors.get(name):
            return float(max(sensor.current for sensor in sensors[name]))
    return _unsupported("sensor of the processor")


def _unsupported(what: str) -> NoReturn:
    raise Unsupported(f"this system has no {what}")
