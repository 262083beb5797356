"""The host through psutil: cores, memory within a container's limit, swap, disks, network."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

from anyrig.devices.cpu import read_memory_limit
from anyrig.devices.machine import Machine
from anyrig.devices.probe import HostProbe
from anyrig.monitor.processes import ProcessTable
from anyrig.monitor.queries import CounterRates, Queries, UnsupportedQuery
from anyrig.monitor.sample import DeviceSample, HostSample, SampleTime

_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal")


def read_system_memory() -> tuple[int, int]:
    """Total and available memory of the system."""
    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


class HostReader:
    """Samples the host, and the CPU as a device."""

    def __init__(self, machine: Machine, system: HostProbe) -> None:
        self._cpu = machine.cpu_device
        self._system = system
        self._queries = Queries()
        self._limit = machine.cpu.memory.total_bytes
        self._core_times: list[tuple[float, float]] = []
        self._disk, self._network = CounterRates(), CounterRates()

    def read(
        self, at: SampleTime, processes: ProcessTable, device_pids: Iterable[int]
    ) -> HostSample:
        """Loads and rates are known from the second sample on."""
        run, throttled = self._queries.run, self._queries.run_throttled
        cpu, cores = run("cpu", self._read_load) or (None, ())
        total, available = run("memory", self._read_memory) or (None, None)
        swap_total, swap_used = throttled("swap", _read_swap) or (None, None)
        listed = run("processes", processes.describe_host_processes, device_pids) or ()
        ours = [process.memory_bytes for process in listed if process.ours]
        read, written = self._read_rates("disk", self._disk, psutil.disk_io_counters, at)
        sent, received = self._read_rates("network", self._network, psutil.net_io_counters, at)
        return HostSample(
            *at,
            cpu_percent=cpu,
            cores_percent=cores,
            load=run("load", _read_load_average),
            memory_total_bytes=total,
            memory_available_bytes=available,
            memory_own_bytes=None if None in ours else sum(filter(None, ours)),
            swap_total_bytes=swap_total,
            swap_used_bytes=swap_used,
            disk_read_bytes_s=read,
            disk_write_bytes_s=written,
            network_rx_bytes_s=received,
            network_tx_bytes_s=sent,
            processes=listed,
            unknown=self._queries.errors,
        )

    def read_cpu(self, host: HostSample) -> DeviceSample:
        """The CPU as a device, with the host's figures."""
        total, available = host.memory_total_bytes, host.memory_available_bytes
        return DeviceSample(
            self._cpu.id,
            self._cpu.name,
            host.monotonic_s,
            host.wall_s,
            compute_percent=host.cpu_percent,
            memory_total_bytes=total,
            memory_used_bytes=None if total is None or available is None else total - available,
            memory_own_bytes=host.memory_own_bytes,
            clock_mhz=self._queries.run_throttled("clock", _read_clock),
            temperature_c=self._queries.run_throttled("temperature", _read_temperature),
            unknown=host.unknown,
        )

    def _read_load(self) -> tuple[float | None, tuple[float, ...]]:
        """Percent of all cores together, and of each, since the last call."""
        before, self._core_times = self._core_times, _read_core_times()
        if len(before) != len(self._core_times):
            return None, ()
        spent = [
            (now[0] - then[0], now[1] - then[1])
            for then, now in zip(before, self._core_times, strict=True)
        ]
        total = sum(core_total for _, core_total in spent)
        if total <= 0:
            return None, ()
        return _percent(sum(busy for busy, _ in spent), total), tuple(_percent(*s) for s in spent)

    def _read_rates(
        self, name: str, rates: CounterRates, read: Callable[[], Any], at: SampleTime
    ) -> tuple[float | None, float | None]:
        """Bytes a second in each direction."""

        def read_counts() -> tuple[float, tuple[int, int]]:
            counters = read()
            if counters is None:
                raise UnsupportedQuery(f"the system does not count {name} traffic")
            if name == "disk":
                return at.monotonic_s, (counters.read_bytes, counters.write_bytes)
            return at.monotonic_s, (counters.bytes_sent, counters.bytes_recv)

        counts = self._queries.run_throttled(name, read_counts)
        found = rates.update(*counts) if counts else None
        return (found[0], found[1]) if found else (None, None)

    def _read_memory(self) -> tuple[int, int]:
        """Total and available, within the limit of a container."""
        total, available = read_system_memory()
        if not self._limit or self._limit >= total:
            return total, available
        limit, left = read_memory_limit(self._system)
        limit = limit or self._limit
        return limit, min(available, limit if left is None else left)


def _read_core_times() -> list[tuple[float, float]]:
    """Busy and total seconds of each core."""
    found = []
    for core in psutil.cpu_times(percpu=True):
        # Linux counts a guest's time as user time already.
        total = sum(core) - getattr(core, "guest", 0.0) - getattr(core, "guest_nice", 0.0)
        found.append((total - core.idle - getattr(core, "iowait", 0.0), total))
    return found


def _percent(part: float, whole: float) -> float:
    return min(100.0, max(0.0, 100.0 * part / whole)) if whole > 0 else 0.0


def _read_swap() -> tuple[int, int]:
    """Total and used."""
    # On Linux without psutil: where the kernel does not count swapped pages, psutil warns at every
    # call, and to silence it would change the warning filters of the whole process.
    if sys.platform == "linux":
        rows = (line.split() for line in Path("/proc/meminfo").read_text("ascii").splitlines())
        found = {row[0]: int(row[1]) * 1024 for row in rows if row[0].startswith("Swap")}
        return found["SwapTotal:"], found["SwapTotal:"] - found["SwapFree:"]
    memory = psutil.swap_memory()
    return int(memory.total), int(memory.used)


def _read_load_average() -> tuple[float, float, float]:
    if not hasattr(os, "getloadavg"):
        raise UnsupportedQuery("the system has no load average")
    return os.getloadavg()


def _read_clock() -> int:
    clock = psutil.cpu_freq()
    if not clock or not clock.current:
        raise UnsupportedQuery("the system does not report the clock")
    return round(clock.current)


def _read_temperature() -> float:
    sensors: Any = getattr(psutil, "sensors_temperatures", dict)()
    for name in _CPU_SENSORS:
        if sensors.get(name):
            return float(max(sensor.current for sensor in sensors[name]))
    raise UnsupportedQuery("the system has no CPU temperature sensor")
