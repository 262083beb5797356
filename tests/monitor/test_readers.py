"""The macOS and Windows readers on recorded answers, and the choice of readers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from anyrig.devices.machine import Device, Machine, Memory
from anyrig.devices.probe import HostProbe, LiveProbe, NotFound
from anyrig.monitor.processes import (
    AnyrigProcesses,
    ProcessTable,
    find_own_processes,
    runs_anyrig,
)
from anyrig.monitor.readers import host, open_readers
from anyrig.monitor.readers.apple import AppleReader
from anyrig.monitor.readers.host import HostReader, read_system_memory
from anyrig.monitor.readers.windows import (
    ADAPTER_MEMORY,
    ADAPTER_SHARED,
    ENGINES,
    PROCESS_MEMORY,
    WindowsReader,
)
from anyrig.monitor.sample import HostSample, SampleTime
from tests.monitor.fake_sysfs import process_table, system_of, write_files

GIB = 1024**3
OURS = 4242
PROCESSES = process_table(OURS)
IOREG = (
    "+-o AGXAcceleratorG16G  <class AGXAcceleratorG16G, id 0x10000050b>\n"
    '      "PerformanceStatistics" = {"In use system memory (driver)"=0,"Alloc system memory"='
    '1574862848,"Tiler Utilization %"=20,"Renderer Utilization %"=19,"Device Utilization %"=21,'
    '"In use system memory"=351141888}\n      "model" = "Apple M4"\n'
)
M4 = Device("mac-gpu-0", "gpu", "apple", "Apple M4", memory=Memory("unified", 16 * GIB))


def answering(**answers: Any) -> HostProbe:
    """A machine of which only these interfaces answer."""

    def ask(interface: str, *question: str) -> Any:
        if interface not in answers:
            raise NotFound(f"nothing answers for {interface}")
        return answers[interface]

    return HostProbe(ask)


def test_the_gpu_of_a_mac() -> None:
    sample = AppleReader([M4], answering(commands=IOREG)).read(SampleTime(0.0, 0.0), PROCESSES)[0]
    assert sample.compute_percent == 21.0
    assert sample.memory_used_bytes == 351141888
    assert sample.memory_free_bytes == 16 * GIB - 351141888
    assert sample.power_w is None
    assert sample.unknown["power"] == "macOS reports it to root only"


LUID = 0x0000_0000_0000_D3F1
HERE = "luid_0x00000000_0x0000D3F1_phys_0"
OTHER = "luid_0x00000000_0x0000AAAA_phys_0"
ADAPTERS = [{"AdapterLuid": 0xAAAA}, {"AdapterLuid": LUID}]
RX640 = Device("pci-1002:6987", "gpu", "amd", "Radeon 640", indices={"dxgi": 1},
               memory=Memory("dedicated", 4 * GIB))  # fmt: skip


def counters() -> dict[str, dict[str, float]]:
    return {
        ENGINES: {
            f"pid_{OURS}_{HERE}_eng_0_engtype_3D": 30.0, f"pid_8_{HERE}_eng_0_engtype_3D": 15.0,
            f"pid_8_{HERE}_eng_5_engtype_VideoEncode": 4.0,
            f"pid_9_{OTHER}_eng_0_engtype_3D": 99.0,
        },
        ADAPTER_MEMORY: {HERE: 3.0 * GIB, OTHER: 1.0 * GIB},
        ADAPTER_SHARED: {HERE: 0.5 * GIB},
        PROCESS_MEMORY: {f"pid_{OURS}_{HERE}": 2.0 * GIB, f"pid_8_{HERE}": 0.5 * GIB},
    }  # fmt: skip


def test_an_adapter_on_windows() -> None:
    reader = WindowsReader([RX640], answering(dxgi=ADAPTERS), counters)
    sample = reader.read(SampleTime(0.0, 0.0), PROCESSES)[0]
    assert sample.compute_percent == 45.0
    assert sample.encoder_percent == 4.0
    assert sample.memory_used_bytes == 3 * GIB
    assert sample.memory_free_bytes == GIB
    assert sample.memory_own_bytes == 2 * GIB
    assert sample.processes is not None
    assert {use.pid: use.compute_percent for use in sample.processes} == {OURS: 30.0, 8: 15.0}


def test_an_integrated_adapter_uses_shared_memory_too() -> None:
    part = Device("pci-1", "gpu", "intel", "UHD", indices={"dxgi": 1}, memory=Memory("unified"))
    reader = WindowsReader([part], answering(dxgi=ADAPTERS), counters)
    assert reader.read(SampleTime(0.0, 0.0), PROCESSES)[0].memory_used_bytes == int(3.5 * GIB)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("h100x8-mig", {"NvidiaReader"}),
        ("rtx4090-rtxpro6000-wsl2", {"NvidiaReader"}),
        ("rx7900xtx-linux", {"AmdReader"}),
        ("arc-b580-linux", {"IntelReader"}),
        ("macbook-m4", {"AppleReader"}),
        ("rx640-uhd750-windows", {"WindowsReader"}),
        ("nvidia-nouveau", {"StaticReader"}),
        ("amd-wsl2", {"StaticReader"}),
        ("no-gpu", set()),
    ],
)
def test_which_reader_is_chosen(
    name: str, kinds: set[str], machine: Callable[..., Machine]
) -> None:
    readers = open_readers(machine(name), HostProbe(LiveProbe()))
    assert {type(reader).__name__ for reader in readers} == kinds


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
    assert second.memory_own_bytes is not None
    assert second.memory_own_bytes >= own.memory_bytes > 10_000_000
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


def test_the_group_with_the_least_left_counts(
    tmp_path: Path, machine: Callable[..., Machine]
) -> None:
    total = read_system_memory()[0]
    write_files(tmp_path, {
        "proc/self/cgroup": "0::/pod/main",
        "sys/fs/cgroup/pod/main/memory.max": total // 4,
        "sys/fs/cgroup/pod/main/memory.current": 1000,
        "sys/fs/cgroup/pod/memory.max": total // 2,
        "sys/fs/cgroup/pod/memory.current": total // 2 - 5000,
    })  # fmt: skip
    here = machine("no-gpu")
    here = replace(here, cpu=replace(here.cpu, memory=Memory("dedicated", total // 4)))
    sample = HostReader(here, system_of(tmp_path)).read(now(), ProcessTable(find_own_processes), ())
    assert (sample.memory_total_bytes, sample.memory_available_bytes) == (total // 4, 5000)


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


def test_child_processes_are_ours() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        table = ProcessTable(find_own_processes)
        table.refresh()
        assert {os.getpid(), child.pid} <= table.ours
        described = table.describe_device_process(child.pid, 1, 2.0)
        assert described.ours
        assert described.name is not None
        child.communicate(b"\n")
    assert child.pid not in find_own_processes()


def test_processes_that_run_anyrig_are_found_by_their_command() -> None:
    command = [sys.executable, "-c", "input()", "-m", "anyrig.pretended"]
    find = AnyrigProcesses()
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        for _ in range(2):  # read, then remembered
            found = find()
            assert child.pid in found
            assert os.getpid() not in found
        child.communicate(b"\n")
    assert child.pid not in find()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python -m anyrig book moby.epub", True),
        ("/usr/bin/python3 /home/a/.venv/bin/anyrig serve", True),
        ("C:\\Python\\Scripts\\anyrig.exe top", True),
        ("vim anyrig/notes.md", False),
        ("python train.py --name anyrig", False),
    ],
)
def test_which_commands_run_anyrig(command: str, expected: bool) -> None:
    assert runs_anyrig(command.split()) is expected


def test_in_a_container_other_pids_are_of_unknown_owners() -> None:
    table = ProcessTable(frozenset)
    table.all_visible = True
    assert table.describe_device_process(1, None, None).ours is False
    table.all_visible = False
    assert table.describe_device_process(1, None, None).ours is None


@pytest.mark.skipif(sys.platform != "linux", reason="commands are bytes on Linux")
def test_a_command_that_is_not_utf8_can_be_written_as_json() -> None:
    command = [sys.executable.encode(), b"-c", b"print(flush=True); input()", b"caf\xe9"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # before it runs, it may have no command line yet
        (process,) = ProcessTable(frozenset).describe_host_processes([child.pid])
        child.communicate(b"\n")
    assert process.command.encode().endswith(b"caf?")
