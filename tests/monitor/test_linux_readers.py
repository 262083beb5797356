"""The AMD and Intel readers on small sysfs and proc trees."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from anyrig.devices.machine import Device, Memory
from anyrig.monitor.readers.amd import AmdReader
from anyrig.monitor.readers.intel import IntelReader
from anyrig.monitor.sample import DeviceSample, SampleTime
from tests.monitor.fake_sysfs import open_gpu, process_table, system_of, write_files

GIB = 1024**3
OURS = 4242
AMD = "/sys/bus/pci/devices/0000:03:00.0"
INTEL = "/sys/bus/pci/devices/0000:00:02.0"
RADEON = Device("GPU-7", "gpu", "amd", "AMD Radeon RX 7900 XTX", pci_address="0000:03:00.0",
                memory=Memory("dedicated", 24 * GIB))  # fmt: skip
ARC = Device("0000:00:02.0", "gpu", "intel", "Intel Arc B580", pci_address="0000:00:02.0",
             memory=Memory("dedicated", 12 * GIB))  # fmt: skip
PROCESSES = process_table(OURS)
START = SampleTime(0.0, 0.0)


def read_amd(root: Path, device: Device = RADEON) -> DeviceSample:
    return AmdReader([device], system_of(root), str(root)).read(START, PROCESSES)[0]


def read_intel(root: Path, device: Device = ARC) -> DeviceSample:
    return IntelReader([device], system_of(root), str(root)).read(START, PROCESSES)[0]


def metrics(shape: int, content: int, size: int, start: int, word: int) -> bytes:
    table = bytearray(size)
    struct.pack_into("<HBB", table, 0, size, shape, content)
    struct.pack_into("<Q", table, start, word)
    return bytes(table)


@pytest.fixture
def amd(tmp_path: Path) -> Path:
    hwmon = f"{AMD}/hwmon/hwmon4"
    write_files(tmp_path, {
        f"{AMD}/vendor": "0x1002", f"{AMD}/gpu_busy_percent": 87, f"{AMD}/mem_busy_percent": 40,
        f"{AMD}/mem_info_vram_total": 24 * GIB, f"{AMD}/mem_info_vram_used": 9 * GIB,
        f"{AMD}/mem_info_gtt_total": 32 * GIB, f"{AMD}/mem_info_gtt_used": GIB,
        f"{AMD}/current_link_speed": "16.0 GT/s PCIe", f"{AMD}/current_link_width": 16,
        f"{AMD}/max_link_speed": "16.0 GT/s PCIe", f"{AMD}/max_link_width": 16,
        f"{AMD}/pp_dpm_sclk": "0: 500Mhz\n1: 1800Mhz *\n2: 2500Mhz",
        f"{AMD}/pp_dpm_mclk": "0: 96Mhz\n1: 1249Mhz *", f"{AMD}/ras/umc_err_count": "ue: 2\nce: 5",
        f"{hwmon}/name": "amdgpu", f"{hwmon}/power1_average": 301_000_000,
        f"{hwmon}/power1_cap": 355_000_000, f"{hwmon}/temp1_input": 58_000,
        f"{hwmon}/temp1_label": "edge", f"{hwmon}/temp2_input": 77_000,
        f"{hwmon}/temp2_label": "junction", f"{hwmon}/temp3_input": 84_000,
        f"{hwmon}/temp3_label": "mem", f"{hwmon}/freq1_input": 2_371_000_000,
        f"{hwmon}/freq1_label": "sclk", f"{hwmon}/freq2_input": 1_249_000_000,
        f"{hwmon}/freq2_label": "mclk", f"{hwmon}/fan1_input": 1450, f"{hwmon}/pwm1": 102,
    })  # fmt: skip
    (tmp_path / AMD[1:] / "gpu_metrics").write_bytes(metrics(1, 3, 120, 112, 1 << 36 | 1))
    return tmp_path


def test_all_figures_of_an_amd_card(amd: Path) -> None:
    sample = read_amd(amd)
    assert (sample.compute_percent, sample.memory_busy_percent) == (87.0, 40.0)
    assert (sample.memory_total_bytes, sample.memory_used_bytes) == (24 * GIB, 9 * GIB)
    assert sample.memory_free_bytes == 15 * GIB
    assert (sample.power_w, sample.power_limit_w) == (301.0, 355.0)
    assert (sample.temperature_c, sample.hotspot_c) == (58.0, 77.0)
    assert sample.memory_temperature_c == 84.0
    assert (sample.clock_mhz, sample.clock_max_mhz) == (2371, 2500)
    assert (sample.memory_clock_mhz, sample.memory_clock_max_mhz) == (1249, 1249)
    assert (sample.fan_percent, sample.fan_rpm) == (40.0, 1450)
    assert sample.throttling == ("power limit", "thermal")
    assert sample.ecc_errors == 2
    assert (sample.pcie_generation, sample.pcie_width) == (4, 16)
    assert sample.memory_own_bytes == 0
    assert sample.memory_others_bytes == 9 * GIB
    hwmon = amd / AMD[1:] / "hwmon/hwmon4"
    (hwmon / "power1_average").rename(hwmon / "power1_input")  # its name in newer kernels
    assert read_amd(amd).power_w == 301.0


def test_an_amd_card_that_falls_off_the_bus_is_lost(amd: Path) -> None:
    reader = AmdReader([RADEON], system_of(amd), str(amd))
    assert not reader.read(START, PROCESSES)[0].lost
    shutil.rmtree(amd / AMD[1:])
    sample = reader.read(SampleTime(1.0, 1.0), PROCESSES)[0]
    assert "fell off the bus" in sample.lost
    assert sample.memory_used_bytes is None


def test_a_card_without_files_reports_why_figures_are_unknown(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{AMD}/vendor": "0x1002"})
    sample = read_amd(tmp_path)
    assert sample.compute_percent is sample.power_w is None
    assert sample.throttling is None
    assert "gpu_busy_percent" in sample.unknown["utilisation"]
    assert sample.unknown["power"] == "no sensor power1_average or power1_input"
    assert not sample.lost


def test_an_apu_uses_system_memory_too(amd: Path) -> None:
    apu = Device("GPU-8", "gpu", "amd", "Strix Halo", pci_address="0000:03:00.0",
                 memory=Memory("unified", 56 * GIB))  # fmt: skip
    sample = read_amd(amd, apu)
    assert (sample.memory_total_bytes, sample.memory_used_bytes) == (56 * GIB, 10 * GIB)


def test_rocm_processes_from_kfd(amd: Path) -> None:
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    write_files(amd, {
        f"{nodes}/0/gpu_id": 0, f"{nodes}/0/properties": "simd_count 0",
        f"{nodes}/1/gpu_id": 51147,
        f"{nodes}/1/properties": "simd_count 192\nlocation_id 768\ndomain 0",
        f"/sys/class/kfd/kfd/proc/{OURS}/vram_51147": 6 * GIB,
        "/sys/class/kfd/kfd/proc/77/vram_51147": GIB,
    })  # fmt: skip
    sample = read_amd(amd)
    assert sample.memory_own_bytes == 6 * GIB
    assert sample.memory_others_bytes == 3 * GIB
    assert [use.pid for use in sample.processes or ()] == [77, OURS]


def test_pids_of_kfd_are_ignored_in_a_container(amd: Path) -> None:
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    write_files(amd, {
        f"{nodes}/1/gpu_id": 51147,
        f"{nodes}/1/properties": "simd_count 192\nlocation_id 768\ndomain 0",
        "/sys/class/kfd/kfd/proc/98765/vram_51147": 6 * GIB,
    })  # fmt: skip
    inside = process_table(OURS, all_visible=False)
    reader = AmdReader([RADEON], system_of(amd), str(amd))
    sample = reader.read(START, inside)[0]
    assert sample.memory_own_bytes is None
    assert "container" in sample.unknown["memory_own"]
    open_gpu(amd, OURS, 5, AMD_FDINFO.format(client=3, busy=0))
    assert reader.read(SampleTime(1.0, 1.0), inside)[0].memory_own_bytes == 2 * GIB


# -- processes through fdinfo ----------------------------------------------------------------------

AMD_FDINFO = (
    "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t{client}\ndrm-pdev:\t0000:03:00.0\n"
    "drm-memory-vram:\t2097152 KiB\ndrm-memory-gtt:\t100 KiB\ndrm-engine-gfx:\t{busy} ns\n"
    "drm-engine-compute:\t5 ns"
)


def test_memory_and_load_of_processes_on_an_amd_card(amd: Path) -> None:
    reader = AmdReader([RADEON], system_of(amd), str(amd))
    open_gpu(amd, OURS, 5, AMD_FDINFO.format(client=3, busy=0))
    open_gpu(amd, OURS, 6, AMD_FDINFO.format(client=3, busy=0))  # the same client, opened twice
    first = reader.read(START, PROCESSES)[0]
    assert first.memory_own_bytes == 2 * GIB
    for fd in (5, 6):
        open_gpu(amd, OURS, fd, AMD_FDINFO.format(client=3, busy=250_000_000))
    second = reader.read(SampleTime(0.5, 0.5), PROCESSES)[0]
    assert second.processes is not None
    assert second.processes[0].compute_percent == pytest.approx(50.0)
    shutil.rmtree(amd / f"proc/{OURS}")
    assert reader.read(SampleTime(1.0, 1.0), PROCESSES)[0].processes == ()


# -- Intel -----------------------------------------------------------------------------------------


@pytest.fixture
def xe(tmp_path: Path) -> Path:
    hwmon, clock = f"{INTEL}/hwmon/hwmon2", f"{INTEL}/tile0/gt0/freq0"
    write_files(tmp_path, {
        f"{INTEL}/vendor": "0x8086", f"{hwmon}/energy1_input": 1_000_000_000,
        f"{hwmon}/power1_max": 190_000_000, f"{hwmon}/temp2_input": 61_000,
        f"{hwmon}/temp2_label": "pkg", f"{hwmon}/temp3_input": 70_000,
        f"{hwmon}/temp3_label": "vram", f"{hwmon}/fan1_input": 900,
        f"{clock}/act_freq": 2750, f"{clock}/rp0_freq": 2850,
        f"{clock}/throttle/status": 1, f"{clock}/throttle/reason_pl1": 1,
        f"{clock}/throttle/reason_thermal": 0,
    })  # fmt: skip
    return tmp_path


def test_all_figures_of_an_intel_card(xe: Path) -> None:
    reader = IntelReader([ARC], system_of(xe), str(xe))
    open_gpu(xe, OURS, 4, "drm-pdev: 0000:00:02.0\ndrm-client-id: 2\ndrm-resident-vram0: 1 GiB\n"
                          "drm-cycles-ccs: 1000\ndrm-total-cycles-ccs: 10000")  # fmt: skip
    first = reader.read(START, PROCESSES)[0]
    assert first.power_w is None  # energy needs two readings
    assert first.compute_percent is None
    write_files(xe, {f"{INTEL}/hwmon/hwmon2/energy1_input": 1_300_000_000})
    open_gpu(xe, OURS, 4, "drm-pdev: 0000:00:02.0\ndrm-client-id: 2\ndrm-resident-vram0: 1 GiB\n"
                          "drm-cycles-ccs: 4000\ndrm-total-cycles-ccs: 20000")  # fmt: skip
    sample = reader.read(SampleTime(2.0, 2.0), PROCESSES)[0]
    assert sample.power_w == pytest.approx(150.0)
    assert sample.power_limit_w == 190.0
    assert sample.compute_percent == pytest.approx(30.0)
    assert (sample.clock_mhz, sample.clock_max_mhz) == (2750, 2850)
    assert (sample.temperature_c, sample.memory_temperature_c) == (61.0, 70.0)
    assert sample.fan_rpm == 900
    assert sample.throttling == ("power limit",)
    assert sample.memory_total_bytes == 12 * GIB
    assert sample.memory_used_bytes == sample.memory_own_bytes == GIB
    assert sample.unknown["memory_used"] == "sum over the processes that this user can see"


def test_clocks_of_the_i915_driver(tmp_path: Path) -> None:
    part = f"{INTEL}/drm/card0/gt/gt0"
    write_files(tmp_path, {
        f"{INTEL}/vendor": "0x8086", f"{part}/rps_act_freq_mhz": 1100,
        f"{part}/rps_RP0_freq_mhz": 1450, f"{part}/throttle_reason_status": 1,
        f"{part}/throttle_reason_thermal": 1, f"{part}/throttle_reason_pl2": 0,
    })  # fmt: skip
    sample = read_intel(tmp_path)
    assert (sample.clock_mhz, sample.clock_max_mhz) == (1100, 1450)
    assert sample.throttling == ("thermal",)
    assert sample.power_w is None
