"""The macOS and Windows readers on recorded answers, and the choice of readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from anyrig.devices.machine import Device, Machine, Memory
from anyrig.devices.probe import LiveProbe, NotFound, System
from anyrig.devices.reasons import DeviceReason, ReasonCode
from anyrig.monitor.readers import StaticReader, open_readers
from anyrig.monitor.readers.apple import AppleReader
from anyrig.monitor.readers.windows import (
    ADAPTER_MEMORY,
    ADAPTER_SHARED,
    ENGINES,
    PROCESS_MEMORY,
    WindowsReader,
)
from anyrig.monitor.sample import SampleTime
from tests.monitor.fake_sysfs import process_table

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


def answering(**answers: Any) -> System:
    """A machine of which only these interfaces answer."""

    def ask(interface: str, *question: str) -> Any:
        if interface not in answers:
            raise NotFound(f"nothing answers for {interface}")
        return answers[interface]

    return System(ask)


def test_the_gpu_of_a_mac() -> None:
    sample = AppleReader([M4], answering(commands=IOREG)).read(SampleTime(0.0, 0.0), PROCESSES)[0]
    assert sample.compute_percent == 21.0
    assert sample.memory_used_bytes == 351141888
    assert sample.memory_free_bytes == 16 * GIB - 351141888
    assert sample.power_w is None
    assert sample.unknown["power"] == "macOS reports it to root only"


def test_ioreg_does_not_run_at_every_sample() -> None:
    asked = []

    def ask(interface: str, *question: str) -> str:
        asked.append(question)
        return IOREG

    reader = AppleReader([M4], System(ask))
    for step in range(20):
        at = SampleTime(step * 0.5, 0.0)
        assert reader.read(at, PROCESSES)[0].compute_percent == 21.0
    assert len(asked) == 5


def test_a_mac_without_ioreg() -> None:
    sample = AppleReader([M4], answering()).read(SampleTime(0.0, 0.0), PROCESSES)[0]
    assert sample.compute_percent is None
    assert "commands" in sample.unknown["device"]


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
    assert sample.memory_ours_bytes == 2 * GIB
    assert sample.processes is not None
    assert {use.pid: use.compute_percent for use in sample.processes} == {OURS: 30.0, 8: 15.0}


def test_an_integrated_adapter_uses_shared_memory_too() -> None:
    part = Device("pci-1", "gpu", "intel", "UHD", indices={"dxgi": 1}, memory=Memory("unified"))
    reader = WindowsReader([part], answering(dxgi=ADAPTERS), counters)
    assert reader.read(SampleTime(0.0, 0.0), PROCESSES)[0].memory_used_bytes == int(3.5 * GIB)


def test_windows_without_counters() -> None:
    reader = WindowsReader([RX640], answering(dxgi=ADAPTERS))
    sample = reader.read(SampleTime(0.0, 0.0), PROCESSES)[0]
    assert sample.compute_percent is None
    assert "only on Windows" in sample.unknown["counters"]


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
    readers = open_readers(machine(name), System(LiveProbe()))
    assert {type(reader).__name__ for reader in readers} == kinds


def test_a_device_that_cannot_be_sampled_reports_why() -> None:
    blocked = replace(RX640, hardware_block=DeviceReason(ReasonCode.NO_DRIVER))
    for device, reason in (
        (blocked, "no driver is loaded"),
        (RX640, "no driver cannot be sampled"),
    ):
        reader = StaticReader([device], System(LiveProbe()))
        sample = reader.read(SampleTime(1.0, 2.0), PROCESSES)[0]
        assert reason in sample.unknown["device"]
        assert sample.memory_total_bytes == 4 * GIB
        assert sample.memory_used_bytes is None
        reader.close()
