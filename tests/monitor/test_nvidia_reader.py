"""The NVIDIA reader with a fake NVML."""

from __future__ import annotations

import pytest

from anyrig.devices.machine import Device, Memory
from anyrig.devices.probe import HostProbe, LiveProbe
from anyrig.monitor.readers import nvidia
from anyrig.monitor.readers.nvidia import NvidiaReader
from anyrig.monitor.sample import DeviceSample, SampleTime
from tests.monitor import fake_nvml
from tests.monitor.fake_nvml import GIB, FakeNvml
from tests.monitor.fake_sysfs import process_table

H200 = Device("GPU-1", "gpu", "nvidia", "NVIDIA H200", pci_address="0000:41:00.0")
OURS = 4242


def open_reader(nvml: FakeNvml, device: Device = H200) -> NvidiaReader:
    return NvidiaReader([device], HostProbe(LiveProbe()), nvml)


def read(nvml: FakeNvml, device: Device = H200, *, all_visible: bool = True) -> DeviceSample:
    return read_at(open_reader(nvml, device), 10.0, all_visible=all_visible)


def read_at(reader: NvidiaReader, at_s: float, *, all_visible: bool = True) -> DeviceSample:
    processes = process_table(OURS, all_visible=all_visible)
    return reader.read(SampleTime(at_s, 1000.0), processes)[0]


def test_all_figures_of_a_gpu() -> None:
    nvml = FakeNvml()
    nvml.processes = [(OURS, 6 * GIB), (1, 3 * GIB)]
    nvml.busy = [(OURS, 40), (OURS, 55), (1, 7)]
    sample = read(nvml)
    assert (sample.compute_percent, sample.memory_busy_percent) == (62.0, 31.0)
    assert sample.memory_total_bytes == 140 * GIB
    assert sample.memory_used_bytes == 10 * GIB
    assert sample.memory_free_bytes == 130 * GIB
    assert sample.memory_own_bytes == 6 * GIB
    assert sample.memory_others_bytes == 4 * GIB
    assert (sample.power_w, sample.power_limit_w) == (412.0, 700.0)
    assert (sample.temperature_c, sample.memory_temperature_c) == (54, 61)
    assert (sample.clock_mhz, sample.clock_max_mhz) == (1755, 1980)
    assert (sample.memory_clock_mhz, sample.memory_clock_max_mhz) == (3201, 3201)
    assert sample.throttling == ("power limit", "thermal")
    assert (sample.pcie_generation, sample.pcie_generation_max) == (4, 5)
    assert (sample.pcie_width, sample.pcie_width_max) == (8, 16)
    assert (sample.encoder_percent, sample.decoder_percent) == (3, 0)
    assert sample.ecc_errors == 0
    assert sample.processes is not None
    by_pid = {use.pid: use for use in sample.processes}
    assert by_pid[OURS].compute_percent == 55.0  # the newest
    assert (by_pid[OURS].ours, by_pid[1].ours) == (True, False)
    assert not sample.lost


def test_an_unsupported_figure_is_none_and_queried_once() -> None:
    nvml = FakeNvml()
    reader = open_reader(nvml)
    for second in range(5):
        sample = read_at(reader, float(second))
    assert sample.fan_percent is None
    assert sample.unknown["fan"] == "NVML: Not Supported"
    assert nvml.calls.count("nvmlDeviceGetFanSpeed") == 1
    assert nvml.calls.count("nvmlInit") == 1
    assert nvml.calls.count("nvmlDeviceGetHandleByUUID") == 1


def test_pcie_rates_from_counters() -> None:
    nvml = FakeNvml()
    reader = open_reader(nvml)
    first = read_at(reader, 0.0)
    assert first.pcie_rx_bytes_s is None
    nvml.fields[fake_nvml.RX], nvml.fields[fake_nvml.TX] = 3_000_000, 1_000_000
    second = read_at(reader, 2.0)
    assert (second.pcie_rx_bytes_s, second.pcie_tx_bytes_s) == (1_500_000.0, 500_000.0)
    assert "nvmlDeviceGetPcieThroughput" not in nvml.calls


def test_a_lost_gpu_has_no_figures() -> None:
    nvml = FakeNvml()
    reader = open_reader(nvml)
    assert not read_at(reader, 0.0).lost
    nvml.errors["*"] = fake_nvml.LOST
    lost = read_at(reader, 1.0)
    assert lost.lost == "NVML: GPU is lost"
    kept = ("device", "name", "monotonic_s", "wall_s", "lost", "unknown")
    assert {value for name, value in vars(lost).items() if name not in kept} == {None}
    num_calls = len(nvml.calls)
    assert read_at(reader, 2.0).lost
    assert len(nvml.calls) == num_calls  # a call to a lost GPU may take seconds
    nvml.errors.clear()
    assert not read_at(reader, 30.0).lost


def test_own_memory_is_unknown_in_a_container_with_pids_of_the_host() -> None:
    nvml = FakeNvml()
    nvml.processes = [(987654, 6 * GIB)]
    sample = read(nvml, all_visible=False)
    assert sample.memory_own_bytes is None
    assert sample.memory_others_bytes is None
    assert "container" in sample.unknown["memory_own"]
    assert sample.processes is not None
    assert sample.processes[0].ours is None
    nvml.processes = [(OURS, 6 * GIB)]  # a driver that counts by the container's numbers
    assert read(nvml, all_visible=False).memory_own_bytes == 6 * GIB


def test_unified_memory_is_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    nvml.errors["nvmlDeviceGetMemoryInfo"] = fake_nvml.NOT_SUPPORTED
    gb10 = Device("GPU-1", "gpu", "nvidia", "NVIDIA GB10", memory=Memory("unified", 128 * GIB))
    monkeypatch.setattr(nvidia, "read_system_memory", lambda: (128 * GIB, 100 * GIB))
    sample = read(nvml, gb10)
    assert sample.memory_total_bytes == 128 * GIB
    assert sample.memory_used_bytes == 28 * GIB
    assert sample.memory_free_bytes == 100 * GIB


def test_a_mig_instance_has_its_own_memory_and_no_load() -> None:
    nvml = FakeNvml(mig="MIG-7")
    nvml.used = 2 * GIB
    part = Device("MIG-7", "gpu", "nvidia", "MIG 1g.10gb", part="mig", parent="GPU-1")
    sample = read(nvml, part)
    assert sample.memory_total_bytes == 10 * GIB
    assert sample.compute_percent is None
    assert "Not Supported" in sample.unknown["utilisation"]


def test_a_device_with_another_id_is_found_by_its_pci_address() -> None:
    nvml = FakeNvml(uuid="GPU-other")
    assert read(nvml).memory_total_bytes == 140 * GIB
    without_address = Device("GPU-1", "gpu", "nvidia", "H200")
    assert read(nvml, without_address).lost == "NVML: Not Found"


def test_a_missing_driver_is_reported_and_tried_again() -> None:
    nvml = FakeNvml()
    nvml.errors["nvmlInit"] = fake_nvml.UNKNOWN
    reader = open_reader(nvml)
    for second in range(5):
        sample = read_at(reader, float(second))
    assert sample.unknown == {"device": "Unknown Error"}
    assert nvml.calls == ["nvmlInit"]
    nvml.errors.clear()
    assert read_at(reader, 60.0).compute_percent == 62.0
    reader.close()
    reader.close()
    assert nvml.shutdowns == 1
