"""NVIDIA's reader against a stand-in for NVML."""

from __future__ import annotations

from typing import Any

from anyrig.devices.machine import Device, Memory
from anyrig.monitor.processes import Crowd
from anyrig.monitor.readers.nvidia import NvidiaReader
from anyrig.monitor.sample import Moment, Sample
from tests.monitor import fake_nvml
from tests.monitor.fake_nvml import GIB, FakeNvml

H200 = Device("GPU-1", "gpu", "nvidia", "NVIDIA H200", pci_address="0000:41:00.0")
OURS = 4242


def crowd(*, all_visible: bool = True) -> Crowd:
    found = Crowd(lambda: frozenset({OURS}), all_visible=all_visible)
    found.refresh()
    return found


def read(nvml: FakeNvml, device: Device = H200, *, people: Crowd | None = None) -> Sample:
    return NvidiaReader([device], nvml).read(Moment(10.0, 1000.0), people or crowd())[0]


def test_everything_a_gpu_tells() -> None:
    nvml = FakeNvml()
    nvml.processes = [(OURS, 6 * GIB), (1, 3 * GIB)]
    nvml.busy = [(OURS, 40), (OURS, 55), (1, 7)]
    sample = read(nvml)
    assert (sample.compute_percent, sample.memory_busy_percent) == (62.0, 31.0)
    assert sample.memory_total_bytes == 140 * GIB
    assert sample.memory_used_bytes == 10 * GIB
    assert sample.memory_free_bytes == 130 * GIB
    assert sample.memory_ours_bytes == 6 * GIB
    assert sample.memory_others_bytes == 4 * GIB
    assert (sample.power_w, sample.power_limit_w) == (412.0, 700.0)
    assert (sample.temperature_c, sample.memory_temperature_c) == (54, 61)
    assert (sample.clock_mhz, sample.clock_max_mhz) == (1755, 1980)
    assert (sample.memory_clock_mhz, sample.memory_clock_max_mhz) == (3201, 3201)
    assert sample.throttling == ("power limit", "too hot")
    assert (sample.pcie_generation, sample.pcie_generation_max) == (4, 5)
    assert (sample.pcie_width, sample.pcie_width_max) == (8, 16)
    assert (sample.encoder_percent, sample.decoder_percent) == (3, 0)
    assert sample.ecc_errors == 0
    assert sample.processes is not None
    by_pid = {use.pid: use for use in sample.processes}
    assert by_pid[OURS].compute_percent == 55.0  # the newest
    assert (by_pid[OURS].ours, by_pid[1].ours) == (True, False)
    assert not sample.lost


def test_what_a_card_has_not_is_none_and_asked_once() -> None:
    nvml = FakeNvml()
    reader = NvidiaReader([H200], nvml)
    for second in range(5):
        sample = reader.read(Moment(float(second), 0.0), crowd())[0]
    assert sample.fan_percent is None
    assert sample.unknown["fan"] == "no answer: NVML: Not Supported"
    assert nvml.calls.count("nvmlDeviceGetFanSpeed") == 1
    assert nvml.inits == 1
    assert nvml.calls.count("nvmlDeviceGetHandleByUUID") == 1


def test_power_comes_the_old_way_where_the_field_is_missing() -> None:
    nvml = FakeNvml()
    del nvml.fields[fake_nvml.POWER]
    assert read(nvml).power_w == 399.0


def test_pcie_rates_from_counters() -> None:
    nvml = FakeNvml()
    reader = NvidiaReader([H200], nvml)
    first = reader.read(Moment(0.0, 0.0), crowd())[0]
    assert first.pcie_rx_bytes_s is None
    nvml.fields[fake_nvml.RX], nvml.fields[fake_nvml.TX] = 3_000_000, 1_000_000
    second = reader.read(Moment(2.0, 2.0), crowd())[0]
    assert (second.pcie_rx_bytes_s, second.pcie_tx_bytes_s) == (1_500_000.0, 500_000.0)
    assert "nvmlDeviceGetPcieThroughput" not in nvml.calls


def test_pcie_rates_as_nvml_measures_them_where_nothing_counts() -> None:
    nvml = FakeNvml()
    del nvml.fields[fake_nvml.RX]
    assert read(nvml).pcie_rx_bytes_s == 2048 * 1024


def test_a_lost_gpu_is_lost_and_not_zero() -> None:
    nvml = FakeNvml()
    reader = NvidiaReader([H200], nvml)
    assert not reader.read(Moment(0.0, 0.0), crowd())[0].lost
    nvml.errors["*"] = fake_nvml.LOST
    lost = reader.read(Moment(1.0, 1.0), crowd())[0]
    assert lost.lost == "NVML: GPU is lost"
    kept = ("device", "name", "monotonic_s", "wall_s", "lost", "unknown")
    assert {value for name, value in vars(lost).items() if name not in kept} == {None}
    asked = len(nvml.calls)
    assert reader.read(Moment(2.0, 2.0), crowd())[0].lost
    assert len(nvml.calls) == asked  # not asked every second: it may take seconds to say so
    nvml.errors.clear()
    assert not reader.read(Moment(30.0, 30.0), crowd())[0].lost


def test_a_call_that_fails_for_once_is_none_for_once() -> None:
    nvml = FakeNvml()
    reader = NvidiaReader([H200], nvml)
    nvml.errors["nvmlDeviceGetUtilizationRates"] = fake_nvml.UNKNOWN
    sample = reader.read(Moment(0.0, 0.0), crowd())[0]
    assert sample.compute_percent is None
    assert sample.unknown["utilisation"] == "no answer: Unknown Error"
    assert sample.memory_used_bytes == 10 * GIB
    nvml.errors.clear()
    again = reader.read(Moment(1.0, 1.0), crowd())[0]
    assert again.compute_percent == 62.0
    assert "utilisation" not in again.unknown


def test_in_a_container_ours_is_unknown_when_the_driver_counts_by_the_host() -> None:
    nvml = FakeNvml()
    nvml.processes = [(987654, 6 * GIB)]
    inside = crowd(all_visible=False)
    sample = read(nvml, people=inside)
    assert sample.memory_ours_bytes is None
    assert sample.memory_others_bytes is None
    assert "container" in sample.unknown["memory_ours"]
    assert sample.processes is not None
    assert sample.processes[0].ours is None
    nvml.processes = [(OURS, 6 * GIB)]  # a driver that counts by the container's numbers
    assert read(nvml, people=inside).memory_ours_bytes == 6 * GIB


def test_memory_of_processes_that_windows_keeps_to_itself() -> None:
    nvml = FakeNvml()
    nvml.processes = [(OURS, None)]
    sample = read(nvml)
    assert sample.memory_ours_bytes is None
    assert "does not tell a process's memory" in sample.unknown["memory_ours"]


def test_unified_memory_is_the_hosts() -> None:
    nvml = FakeNvml()
    nvml.errors["nvmlDeviceGetMemoryInfo"] = fake_nvml.NOT_SUPPORTED
    gb10 = Device("GPU-1", "gpu", "nvidia", "NVIDIA GB10", memory=Memory("unified", 128 * GIB))
    reader = NvidiaReader([gb10], nvml, memory=lambda: (128 * GIB, 100 * GIB))
    sample = reader.read(Moment(0.0, 0.0), crowd())[0]
    assert sample.memory_total_bytes == 128 * GIB
    assert sample.memory_used_bytes == 28 * GIB
    assert sample.memory_free_bytes == 100 * GIB


def test_a_mig_instance_has_memory_of_its_own_and_no_load() -> None:
    nvml = FakeNvml(mig="MIG-7")
    nvml.used = 2 * GIB
    part = Device("MIG-7", "gpu", "nvidia", "MIG 1g.10gb", part="mig", parent="GPU-1")
    sample = read(nvml, part)
    assert sample.memory_total_bytes == 10 * GIB
    assert sample.compute_percent is None
    assert "Not Supported" in sample.unknown["utilisation"]


def test_a_device_known_by_its_address_is_found_by_it() -> None:
    nvml = FakeNvml(uuid="GPU-other")
    assert read(nvml).memory_total_bytes == 140 * GIB
    nameless = Device("GPU-1", "gpu", "nvidia", "H200")
    assert read(nvml, nameless).lost == "NVML: Not Found"


def test_a_driver_that_is_not_there_says_so_and_is_tried_again() -> None:
    nvml = FakeNvml()
    nvml.errors["nvmlInit"] = fake_nvml.UNKNOWN
    reader = NvidiaReader([H200], nvml)
    for second in range(5):
        sample = reader.read(Moment(float(second), 0.0), crowd())[0]
    assert sample.unknown == {"device": "no answer: Unknown Error"}
    assert nvml.calls == ["nvmlInit"]
    nvml.errors.clear()
    assert reader.read(Moment(60.0, 0.0), crowd())[0].compute_percent == 62.0
    reader.close()
    reader.close()
    assert nvml.shutdowns == 1


def test_an_old_module_without_a_call_is_unknown() -> None:
    class Old(FakeNvml):
        def __getattribute__(self, name: str) -> Any:
            if name == "nvmlDeviceGetFieldValues":
                raise AttributeError(name)
            return super().__getattribute__(name)

    sample = read(Old())
    assert sample.power_w == 399.0
    assert "nvmlDeviceGetFieldValues" in sample.unknown["fields"]
