"""The host reader on this machine, and under a container's limit."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from anyrig.devices.machine import Machine, Memory
from anyrig.monitor.processes import ProcessTable, find_own_processes
from anyrig.monitor.readers import host
from anyrig.monitor.readers.host import HostReader, read_system_memory
from anyrig.monitor.sample import HostSample, SampleTime
from tests.monitor.fake_sysfs import system_of, write_files

GIB = 1024**3


def now() -> SampleTime:
    return SampleTime(time.monotonic(), time.time())


def read_twice(reader: HostReader) -> list[HostSample]:
    """Two samples, with work in between."""
    processes = ProcessTable(find_own_processes)
    processes.refresh()
    first = reader.read(now(), processes, ())
    end_s = time.thread_time() + 0.1
    while time.thread_time() < end_s:
        pass
    return [first, reader.read(now(), processes, ())]


def test_this_machine(machine: Callable[..., Machine]) -> None:
    here = machine("no-gpu")
    here = replace(here, cpu=replace(here.cpu, memory=Memory("dedicated", None)))
    reader = HostReader(here, system_of(Path("/")))
    first, second = read_twice(reader)
    assert first.cpu_percent is None  # nothing to compare with
    assert second.cpu_percent is not None
    assert 0 < second.cpu_percent <= 100
    assert len(second.cores_percent) == psutil.cpu_count()
    assert all(0 <= core <= 100 for core in second.cores_percent)
    assert second.memory_total_bytes == psutil.virtual_memory().total
    assert second.memory_available_bytes is not None
    assert 0 < second.memory_available_bytes < second.memory_total_bytes
    own = next(process for process in second.processes if process.pid == os.getpid())
    assert own.ours
    assert own.memory_bytes is not None
    assert second.memory_ours_bytes is not None
    assert second.memory_ours_bytes >= own.memory_bytes > 10_000_000
    cpu = reader.read_cpu(second)
    assert cpu.device == "cpu"
    assert cpu.compute_percent == second.cpu_percent
    assert cpu.memory_used_bytes == second.memory_total_bytes - second.memory_available_bytes


@pytest.mark.parametrize("folder", ["sys/fs/cgroup/docker/abc", "sys/fs/cgroup"])
def test_a_containers_limit_is_the_memory(
    tmp_path: Path, folder: str, machine: Callable[..., Machine]
) -> None:
    """The limit is half of the memory; a quarter of it is used, apart from cached files."""
    limit = read_system_memory()[0] // 2
    write_files(tmp_path, {
        "proc/self/cgroup": "0::/docker/abc", f"{folder}/memory.max": limit,
        f"{folder}/memory.current": limit // 4 + 1000,
        f"{folder}/memory.stat": "anon 5\ninactive_file 1000\nfile 2000",
    })  # fmt: skip
    here = machine("no-gpu")
    here = replace(here, cpu=replace(here.cpu, memory=Memory("dedicated", limit)))
    sample = HostReader(here, system_of(tmp_path)).read(now(), ProcessTable(find_own_processes), ())
    assert sample.memory_total_bytes == limit
    free = read_system_memory()[1]
    assert sample.memory_available_bytes == pytest.approx(min(free, limit - limit // 4), rel=0.05)


def test_reading_swap_leaves_the_warning_filters_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # psutil's, where the kernel does not count pages
        expected = psutil.swap_memory()

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("filters belong to the whole process, not to one thread")

    monkeypatch.setattr(warnings, "catch_warnings", fail)
    monkeypatch.setattr(warnings, "simplefilter", fail)
    total, used = host._read_swap()
    assert total == expected.total
    assert 0 <= used <= total
