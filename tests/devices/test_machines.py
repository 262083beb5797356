"""Every recorded machine, compared with a description written by hand."""

from __future__ import annotations

import copy
import fnmatch
import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from anyrig.devices.choose import DeviceRequest, choose_device, suggest_workers
from anyrig.devices.discovery import from_record
from anyrig.devices.doctor import KernelResult, diagnose
from anyrig.devices.machine import (
    Device,
    Machine,
    device_from_json,
    device_to_json,
    machine_to_json,
)
from anyrig.devices.reasons import ReasonCode
from anyrig.errors import InvalidOptionError
from anyrig.placement import PlacementOptions, Workload, plan_placement
from tests.conftest import NAMES, record_of

Load = Callable[..., Machine]
GIB = 1024**3

# machine, GPU: name, architecture, capability, memory kind, GiB (rounded), precisions,
# and the selectors of its usable backends.
GPUS: list[tuple[str, int, str, str | None, str | None, str, int | None, str, tuple[str, ...]]] = [
    ("rx640-uhd750-windows", 0, "Radeon RX 640", "GCN 4", "gfx803", "dedicated", 4, "slow", ()),
    ("rx640-uhd750-windows", 1, "UHD Graphics 750", "Xe-LP", None, "unified", 8, "fast", ()),
    ("rx7900xtx-windows", 0, "RX 7900 XTX", "RDNA 3", "gfx1100", "dedicated", 24,
     "matrix bf16", ("dml:0",)),
    ("rtx4090-rtxpro6000-wsl2", 0, "RTX 4090", "Ada", "8.9", "dedicated", 24,
     "matrix bf16 tf32 fp8", ("cuda:1",)),
    ("rtx4090-rtxpro6000-wsl2", 1, "RTX PRO 6000", "Blackwell", "12.0", "dedicated", 96,
     "matrix bf16 tf32 fp8 fp4", ("cuda:0",)),
    ("h200-linux", 0, "NVIDIA H200", "Hopper", "9.0", "dedicated", 140,
     "matrix bf16 tf32 fp8", ("cuda:0",)),
    ("rtx4070-laptop-docker", 0, "RTX 4070 Laptop", "Ada", "8.9", "dedicated", 8,
     "matrix bf16 tf32 fp8", ("cuda:0",)),
    ("t4-linux", 0, "Tesla T4", "Turing", "7.5", "dedicated", 15, "matrix", ("cuda:0",)),
    ("gtx1080ti-linux", 0, "GTX 1080 Ti", "Pascal", "6.1", "dedicated", 11, "slow", ()),
    ("v100-linux", 0, "V100", "Volta", "7.0", "dedicated", 16, "matrix", ()),
    ("gb10-linux", 0, "GB10", "Blackwell", "12.1", "unified", 120,
     "matrix bf16 tf32 fp8 fp4", ("cuda:0",)),
    ("mi300x-linux", 0, "MI300X", "CDNA 3", "gfx942", "dedicated", 192,
     "matrix bf16 tf32 fp8", ("rocm:0",)),
    ("rx7900xtx-linux", 0, "RX 7900 XTX", "RDNA 3", "gfx1100", "dedicated", 24, "matrix bf16", ()),
    ("strix-halo-linux", 0, "8060S", "RDNA 3.5", "gfx1151", "unified", 63, "matrix bf16", ()),
    ("arc-b580-linux", 0, "Arc B580", "Xe2-HPG", None, "dedicated", 12, "matrix bf16", ("xpu:0",)),
    ("core-ultra-linux", 0, "Arc Graphics", "Xe-LPG", None, "unified", 31, "fast", ("xpu:0",)),
    ("macbook-m4", 0, "Apple M4", "Apple M4", "metal4", "unified", 11, "slow", ("mps",)),
    ("jetson-orin-linux", 0, "Orin", "Ampere", "8.7", "unified", 30, "matrix bf16 tf32", ()),
    ("nvidia-init-fails", 0, "RTX 3090", "Ampere", None, "unknown", None, "", ()),
    ("nvidia-nouveau", 0, "RTX 3060", "Ampere", None, "unknown", None, "", ()),
    ("amd-wsl2", 0, "RX 7900 XTX", "RDNA 3", "gfx1100", "dedicated", 24, "matrix bf16", ()),
    ("rtx5090-cpu-torch-windows", 0, "RTX 5090", "Blackwell", "12.0", "dedicated", 32,
     "matrix bf16 tf32 fp8 fp4", ()),
    ("rx6700xt-linux", 0, "RX 6700 XT", "RDNA 2", "gfx1031", "dedicated", 12, "fast", ()),
    ("gtx960m-optimus-linux", 0, "GTX 960M", "Maxwell", "5.0", "dedicated", 4, "none", ()),
    ("gtx960m-optimus-linux", 1, "Gen 9", "Gen 9", None, "unified", 16, "fast", ()),
    ("jetson-xavier-linux", 0, "Xavier", "Volta", "7.2", "unified", 7, "matrix", ("cuda:0",)),
    ("rtx3090-lost-linux", 0, "10de:2204", None, None, "unknown", None, "", ()),
    ("rtx3090-lost-linux", 1, "RTX 3090", "Ampere", "8.6", "dedicated", 24,
     "matrix bf16 tf32", ("cuda:0",)),
    ("gtx1650-rtx4090-prohibited-linux", 0, "GTX 1650", "Turing", "7.5", "dedicated", 4, "fast",
     ("cuda:1",)),
    ("gtx1650-rtx4090-prohibited-linux", 1, "RTX 4090", "Ada", "8.9", "dedicated", 24,
     "matrix bf16 tf32 fp8", ()),
    ("rx7900xtx-rx9070-docker-no-dri", 1, "gfx1201", "RDNA 4", "gfx1201", "dedicated", 16,
     "matrix bf16 fp8", ()),
    ("rtx4070-wsl2-no-nvml", 0, "RTX 4070", None, None, "dedicated", 12, "", ()),
    ("k80-exclusive-linux", 1, "Tesla K80", "Kepler", "3.7", "dedicated", 11, "none", ()),
    ("core-ultra-rtx4060-wsl2", 0, "RTX 4060 Laptop", "Ada", "8.9", "dedicated", 8,
     "matrix bf16 tf32 fp8", ("cuda:0",)),
    ("core-ultra-rtx4060-wsl2", 1, "Arc", "Xe-LPG", None, "unified", 16, "fast", ()),
    ("hd4600-linux", 0, "4th Gen Core", "Gen 7.5 or older", None, "unified", 16, "none", ()),
    ("gh200-linux", 0, "GH200", "Hopper", "9.0", "dedicated", 96, "matrix bf16 tf32 fp8", ()),
]  # fmt: skip


def _formats(device: Device) -> str:
    features = device.features
    names: list[str] = [features.fp16 or ""]
    names += [name for name in ("bf16", "tf32", "fp8", "fp4") if getattr(features, name)]
    return " ".join(filter(None, names))


def test_gpu(machine: Load, subtests: pytest.Subtests) -> None:
    for row in GPUS:
        with subtests.test(row=row):
            name, number, title, architecture, capability, kind, gib, formats, selectors = row
            gpu = machine(name).gpus[number]
            assert title in gpu.name
            assert (gpu.architecture, gpu.capability) == (architecture, capability)
            total = gpu.memory.total_bytes
            assert (gpu.memory.kind, total and round(total / GIB)) == (kind, gib)
            assert _formats(gpu) == formats
            usable = dict.fromkeys(backend.selector for backend in gpu.backends if backend.usable)
            assert tuple(usable) == selectors
            assert gpu.usable == bool(selectors)
            assert bool(gpu.block_reason) != gpu.usable


# machine: number of GPUs, platform, usable cores of all, memory in GiB, what is chosen
MACHINES = [
    ("rx640-uhd750-windows", 2, "Windows", 16, 16, 16, "cpu"),
    ("rtx4090-rtxpro6000-wsl2", 2, "WSL2", 32, 32, 63, "RTX PRO 6000"),
    ("h200-linux", 1, "Linux in docker", 16, 16, 126, "H200"),
    ("h100x8-mig", 17, "Linux", 224, 224, 2016, "H100"),
    ("rtx4070-laptop-docker", 2, "Linux in docker", 8, 16, 16, "RTX 4070"),
    ("gb10-linux", 1, "Linux", 20, 20, 120, "GB10"),
    ("macbook-m4", 1, "macOS", 10, 10, 16, "Apple M4"),
    ("no-gpu", 0, "Linux", 4, 4, 8, "cpu"),
    ("amd-wsl2", 1, "WSL2", 16, 16, 15, "cpu"),
    ("cpu64-cgroup4", 0, "Linux in kubernetes", 4, 64, 8, "cpu"),
    ("arm-cgroup-v1", 0, "Linux", 8, 80, 32, "cpu"),
    ("wsl1", 0, "WSL1", 8, 8, 16, "cpu"),
    ("core-ultra-linux", 1, "Linux", 22, 22, 31, "Arc"),
    ("core-ultra-rtx4060-wsl2", 2, "WSL2", 22, 22, 15, "RTX 4060"),
    ("k80-exclusive-linux", 2, "Linux", 12, 12, 63, "cpu"),
    ("hd4600-linux", 1, "Linux", 8, 8, 16, "cpu"),
]


def test_machine(machine: Load, subtests: pytest.Subtests) -> None:
    for row in MACHINES:
        with subtests.test(row=row):
            name, num_gpus, title, usable, total, gib, chosen = row
            here = machine(name)
            assert len(here.gpus) == num_gpus
            assert here.platform.title == title
            assert (here.cpu.cores_usable, here.cpu.cores_total) == (usable, total)
            assert here.cpu.memory.total_bytes is not None
            assert round(here.cpu.memory.total_bytes / GIB) == gib
            device = choose_device(here).device
            assert device.id == "cpu" if chosen == "cpu" else chosen in device.name


def test_invariants(machine: Load, subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            here = machine(name)
            ids = [device.id for device in here.devices]
            assert len(set(ids)) == len(ids)
            for device in here.devices:
                total, free = device.memory.total_bytes, device.memory.free_bytes
                assert total is None or total > 0
                assert free is None or (total is not None and 0 <= free <= total)
                assert suggest_workers(device) >= 1
                assert all(backend.reason for backend in device.backends)
                assert device.usable or device.block_reason
                assert device.name.strip()
            assert all(report.reason for report in here.sources)
            assert here == machine(name)


def test_json_has_a_code_for_every_reason(machine: Load, subtests: pytest.Subtests) -> None:
    """Reasons are translated by code and values, not by matching their English text."""
    for name in NAMES:
        with subtests.test(name=name):
            here = machine(name)
            for device in here.devices:
                text = json.dumps(device_to_json(replace(device, notes=())))
                data = json.loads(text)
                assert bool(data["code"]) == bool(data["why_not"])
                assert all(bool(row["code"]) != row["usable"] for row in data["backends"])
                assert json.dumps(device_to_json(device_from_json(data))) == text
            choice = choose_device(here)
            for reason in (choice.reason, *(skipped.reason for skipped in choice.skipped)):
                assert reason.message == ReasonCode(reason.code.value).template.format(
                    **dict(reason.values)
                )


def test_mig_instances_replace_their_parent(machine: Load) -> None:
    here = machine("h100x8-mig")
    instances = [gpu for gpu in here.gpus if gpu.part == "mig"]
    assert len(instances) == 9
    parents = {gpu.parent for gpu in instances}
    assert len(parents) == 2
    for gpu in here.gpus:
        if gpu.id in parents:
            assert gpu.hardware_block is not None
            assert gpu.hardware_block.code is ReasonCode.MIG_PARENT
        else:
            assert gpu.usable
    assert all(gpu.capability == "9.0" and gpu.id.startswith("MIG-") for gpu in instances)


@pytest.mark.parametrize(
    ("gib", "low", "high"),
    [(16, 10.6, 10.7), (64, 48, 48), (128, 107, 107.6)],
)
def test_metal_working_set(gib: int, low: float, high: float) -> None:
    record = record_of("macbook-m4")
    key = next(key for key in record["commands"] if key.startswith("sysctl"))
    record["commands"][key] = record["commands"][key].replace("17179869184", str(gib * GIB))
    memory = from_record(record).gpus[0].memory
    assert memory.total_bytes is not None
    assert low <= memory.total_bytes / GIB <= high


def test_arm_server_torch_on_jetson(machine: Load) -> None:
    here = machine("jetson-orin-linux")
    assert choose_device(here).device.kind == "cpu"
    gpu = here.gpus[0]
    assert gpu.block_reason is not None
    assert "no kernels for compute capability 8.7" in gpu.block_reason.message
    assert "JetPack" in gpu.block_reason.fix
    found = [f for f in diagnose(here) if f.check == "torch-kernels"]
    assert [(f.state, "JetPack" in f.fix) for f in found] == [("broken", True)]


def test_apu_memory(machine: Load) -> None:
    memory = machine("strix-halo-linux").gpus[0].memory
    assert [pool.name for pool in memory.pools] == ["carve-out", "GTT"]
    assert memory.total_bytes == sum(pool.total_bytes or 0 for pool in memory.pools)
    assert "carve-out" in memory.note


def test_removed_card_in_registry_is_not_listed(machine: Load) -> None:
    here = machine("rx640-uhd750-windows")
    assert not any("1050" in gpu.name for gpu in here.gpus)
    assert any("1050" in r.reason and "only in the registry" in r.reason for r in here.sources)


def test_unknown_capability(machine: Load) -> None:
    record = record_of("h200-linux")
    row = record["nvml"]["devices"][0]
    row["nvmlDeviceGetCudaComputeCapability"] = [14, 3]
    row["nvmlDeviceGetName"] = "NVIDIA Z9000"
    gpu = from_record(record).gpus[0]
    assert gpu.architecture is None
    assert gpu.features == type(gpu.features)()
    assert gpu.capability == "14.3"
    assert not gpu.usable
    assert "no kernels" in str(gpu.block_reason)


def test_failed_source_is_reported(machine: Load) -> None:
    here = machine("nvidia-init-fails")
    report = next(report for report in here.sources if report.source == "nvidia")
    assert report.state == "failed"
    assert "MISMATCH" in report.reason
    assert here.cpu.name


def test_discover_never_raises(subtests: pytest.Subtests) -> None:
    """Every answer replaced by something of another type: a report, not an exception."""
    for name in NAMES:
        with subtests.test(name=name):
            record = record_of(name)
            for section in [
                key for key in record if key not in ("format", "about", "cites", "probes")
            ]:
                answers: tuple[dict[str, Any], ...] = (
                    {},
                    {"error": "gone"},
                    {"devices": [{}]},
                    {"x": None},
                )
                for nonsense in answers:
                    changed = {**record, section: nonsense}
                    if section in ("dxgi", "dxcore"):
                        changed[section] = [{}, {"Description": None, "HardwareID": 3}]
                    here = from_record(changed)
                    assert here.cpu_device.id == "cpu"


# -- on machines changed by a line or two ----------------------------------------------------------


def _changed(name: str, change: Callable[[dict[str, Any]], object]) -> Machine:
    record = record_of(name)
    change(record)
    return from_record(record)


def test_npu_is_not_a_gpu() -> None:
    """Every Core Ultra has one: a processing accelerator by its class, as Instinct cards are."""
    npu = "/sys/bus/pci/devices/0000:00:0b.0"
    files = {f"{npu}/class": "0x120000", f"{npu}/vendor": "0x8086", f"{npu}/device": "0x7d1d",
             f"{npu}/uevent": "DRIVER=intel_vpu\n"}  # fmt: skip
    here = _changed("core-ultra-linux", lambda record: record["files"].update(files))
    assert [gpu.pci_id for gpu in here.gpus] == ["8086:7d55"]
    assert here.gpus[0].indices["xpu"] == 0


def test_container_with_one_of_several_cards() -> None:
    def add(record: dict[str, Any]) -> None:
        for number in (7, 8):
            card = f"/sys/bus/pci/devices/0000:0{number}:00.0"
            record["files"] |= {f"{card}/class": "0x030200", f"{card}/vendor": "0x10de",
                                f"{card}/device": "0x2335"}  # fmt: skip

    here = _changed("h200-linux", add)
    assert len(here.gpus) == 1
    report = next(report for report in here.sources if report.source == "nvidia")
    assert "2 more cards of the host" in report.reason
    assert not [f for f in diagnose(here) if f.state == "broken"]


def test_lost_gpu_is_blocked() -> None:
    lost = {"error": "NVML_ERROR_GPU_IS_LOST: GPU is lost"}

    def lose(record: dict[str, Any]) -> None:
        device = record["nvml"]["devices"][1]
        record["nvml"]["devices"][1] = dict.fromkeys(device, lost)

    here = _changed("hidden-gpu", lose)
    dead = [gpu for gpu in here.gpus if "GPU_IS_LOST" in str(gpu.hardware_block)]
    assert len(dead) == 1
    assert not dead[0].usable
    assert any("GPU_IS_LOST" in finding.message for finding in diagnose(here))


# What is said of a GPU that cannot be used: machine, GPU, reason, and the beginning of the fix.
BLOCKED = [
    ("gtx960m-optimus-linux", 0, "onnxruntime-gpu has no wheel for compute capability 5.0",
     "pip uninstall -y torch && pip install 'torch<2.15' --index-url"),
    ("rtx3090-lost-linux", 0, "not responding: NVML_ERROR_GPU_IS_LOST", "sudo reboot"),
    ("gtx1650-rtx4090-prohibited-linux", 1, "compute mode is Prohibited", "sudo nvidia-smi -i 1"),
    ("rx7900xtx-rx9070-docker-no-dri", 0, "/dev/dri is not mapped", "docker run --device /dev/dri"),
    ("rtx4070-wsl2-no-nvml", 0, "driver does not list it", "docs/troubleshooting.md#wsl2"),
    ("gh200-linux", 0, "the driver supports CUDA 12.8", "pip uninstall -y torch && pip install"),
    ("k80-exclusive-linux", 0, "no kernels for compute capability 3.7", "pip install 'anyrig[web"),
    ("hd4600-linux", 0, "OpenVINO does not support Gen 7.5 or older", "pip install 'anyrig["),
]  # fmt: skip


@pytest.mark.parametrize(("name", "number", "reason", "fix"), BLOCKED)
def test_blocked_gpu(machine: Load, name: str, number: int, reason: str, fix: str) -> None:
    block = machine(name).gpus[number].block_reason
    assert block is not None
    assert reason in block.message
    assert block.fix.startswith(fix)


NVML_FAILURES: list[tuple[str, dict[str, Any], str]] = [
    # what NVML answers, where, and what is advised
    ("NVML_ERROR_TIMEOUT: Timeout", {}, "sudo reboot"),
    ("NVML_ERROR_UNKNOWN: Unknown Error", {}, "nvidia-smi; sudo dmesg"),
    ("NVML_ERROR_UNKNOWN: Unknown Error", {"/.dockerenv": {}}, "restart the container"),
    ("NVML_ERROR_LIB_RM_VERSION_MISMATCH: x", {"/.dockerenv": {}}, "restart the container"),
    ("the package nvidia-ml-py is not installed", {}, "pip install nvidia-ml-py"),
]


@pytest.mark.parametrize(("error", "nodes", "fix"), NVML_FAILURES)
def test_failed_driver(error: str, nodes: dict[str, Any], fix: str) -> None:
    def fail(record: dict[str, Any]) -> None:
        record["nvml"] = {"error": error}
        record["nodes"] = record.get("nodes", {}) | nodes

    here = _changed("nvidia-init-fails", fail)
    block = here.gpus[0].block_reason
    assert block is not None
    assert block.fix.startswith(fix)
    findings = [f for f in diagnose(here) if f.check in ("nvidia-driver", "sources") and f.fix]
    assert {f.fix for f in findings} == {block.fix}


def test_card_without_any_driver() -> None:
    def remove(record: dict[str, Any]) -> None:
        del record["nvml"]
        for path in record["files"]:
            if path.endswith("uevent"):
                record["files"][path] = ""

    block = _changed("nvidia-init-fails", remove).gpus[0].block_reason
    assert block is not None
    assert block.code is ReasonCode.NO_DRIVER
    assert "drivers install" in block.fix


def test_a_card_of_one_process_gets_one(machine: Load) -> None:
    def limit(record: dict[str, Any]) -> None:
        record["nvml"]["devices"][0]["nvmlDeviceGetComputeMode"] = 3

    here = _changed("h200-linux", limit)
    assert [gpu.usable for gpu in here.gpus] == [True]
    assert suggest_workers(here.gpus[0]) == 1 < suggest_workers(machine("h200-linux").gpus[0])
    workload = Workload("embedding", ("torch",))
    with pytest.raises(InvalidOptionError, match="must be 1: the driver lets one process at a"):
        plan_placement(here, choose_device(here), workload, PlacementOptions(workers_per_device=2))


def test_wsl_without_its_gpu_libraries_is_not_told_to_load_a_module() -> None:
    def fail(record: dict[str, Any]) -> None:
        record["nvml"] = {"error": "NVML_ERROR_DRIVER_NOT_LOADED: Driver Not Loaded"}

    fixes = [f.fix for f in diagnose(_changed("wsl2-no-gpu", fail))]
    assert "docs/troubleshooting.md#wsl2" in fixes
    assert not any("modprobe" in fix for fix in fixes)


def test_container_in_wsl_without_gpus() -> None:
    def enter(record: dict[str, Any]) -> None:
        record.setdefault("nodes", {})["/.dockerenv"] = {}

    findings = [f for f in diagnose(_changed("wsl2-no-gpu", enter)) if f.check == "wsl"]
    assert [f.fix for f in findings] == ["docker run --gpus all ..."]


def test_gpu_that_answers_with_its_name_alone_is_lost() -> None:
    lost = {"error": "NVML_ERROR_GPU_IS_LOST: GPU is lost"}

    def lose(record: dict[str, Any]) -> None:
        record["nvml"]["devices"][0]["nvmlDeviceGetMemoryInfo"] = lost

    gpu = _changed("hidden-gpu", lose).gpus[0]
    assert gpu.hardware_block is not None
    assert gpu.hardware_block.code is ReasonCode.LOST


def test_unlisted_card_keeps_its_place() -> None:
    """NVML lists one of two cards of its driver: the first failed to start."""

    def hide(record: dict[str, Any]) -> None:
        del record["nvml"]["devices"][0]

    first, second = _changed("rtx3090-lost-linux", hide).gpus
    assert first.hardware_block is not None
    assert first.hardware_block.code is ReasonCode.NOT_IN_NVML
    assert (second.usable, second.number_text) == (True, "1")


def test_torch_for_one_gpu_is_not_wrong_for_another_that_none_supports(machine: Load) -> None:
    findings = [f for f in diagnose(machine("gtx960m-optimus-linux")) if f.check == "torch"]
    assert [f.state for f in findings] == ["good"]


def test_torch_that_is_too_old() -> None:
    def age(record: dict[str, Any]) -> None:
        text = record["package_files"]["torch/version.py"]
        record["package_files"]["torch/version.py"] = re.sub(r"2\.\d+\.\d+", "2.5.1", text)

    (finding,) = [f for f in diagnose(_changed("h200-linux", age)) if f.check == "torch"]
    assert "too old: anyrig needs 2.6 or newer" in finding.message
    assert "install torch" in finding.fix


def test_mi300a_memory_is_unified() -> None:
    """The MI300A: gfx942, and no VRAM that the driver would tell of."""

    def share(record: dict[str, Any]) -> None:
        for path in list(record["files"]):
            if path.endswith("mem_info_vram_total"):
                record["files"][path] = "0"
                record["files"][path.replace("vram", "gtt")] = str(128 * GIB)
            if path.endswith("mem_info_vram_used"):
                record["files"][path] = "0"

    memory = _changed("mi300x-linux", share).gpus[0].memory
    assert (memory.kind, memory.total_bytes) == ("unified", 128 * GIB)


def test_rocm_order_is_kfd_order() -> None:
    """Two cards whose kfd nodes stand in the other order than their addresses."""
    record = record_of("rx6700xt-linux")
    files = record["files"]
    node = next(p for p in files if p.startswith("/sys/class/kfd") and "gfx_target" in files[p])
    low = "/sys/class/drm/card9/device"
    files |= {f"{low}/vendor": "0x1002", f"{low}/device": "0x744c",
              f"{low}/uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n",
              f"{low}/mem_info_vram_total": str(24 * GIB)}  # fmt: skip
    later = node.replace("/properties", "").rpartition("/")[0] + "/9/properties"
    files[later] = (
        "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\nlocation_id 768\ndomain 0\n"
    )
    first, second = from_record(record).gpus
    assert (first.pci_address, first.indices["rocm"]) == ("0000:03:00.0", 1)
    assert second.indices["rocm"] == 0


V2 = "/sys/fs/cgroup{path}/memory."
V1 = "/sys/fs/cgroup/memory{path}/memory."


@pytest.mark.parametrize(
    ("inner", "middle", "outer", "limit", "free"),
    [
        # (limit, used, cached) in GiB of a pod's container, the pod, and the slice around it
        ((8, 1, 0), None, None, 8, 7),
        ((8, 1, 0), (16, 15, 0), None, 8, 1),  # the pod's other containers use the rest
        ((8, 1, 0), (16, 15, 9), None, 8, 7),  # mostly cached files, which can be freed
        ((8, 6, 3), (16, 7, 3), (32, 31, 2), 8, 3),
        (None, (16, 4, 0), (12, 4, 0), 12, 8),
        ((16, 4, 0), (8, 7, 1), (9, 9, 0), 8, 0),
        ((8, 9, 0), None, None, 8, 0),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_least_memory_left_of_nested_cgroups(
    version: int,
    inner: tuple[int, int, int] | None,
    middle: tuple[int, int, int] | None,
    outer: tuple[int, int, int] | None,
    limit: int,
    free: int,
) -> None:
    names = ("limit_in_bytes", "usage_in_bytes", "total_inactive_file")
    if version == 2:
        names = ("max", "current", "inactive_file")
    files = {"/proc/self/cgroup": ("0::" if version == 2 else "7:memory:") + "/pods/pod1/main\n"}
    groups = {"/pods/pod1/main": inner, "/pods/pod1": middle, "/pods": outer}
    for path, row in groups.items():
        start = (V2 if version == 2 else V1).format(path=path)
        most, used, cached = row or (1 << 31, 0, 0)
        files[start + names[0]] = "max" if version == 2 and row is None else str(most * GIB)
        files[start + names[1]] = str(used * GIB)
        files[start + "stat"] = f"anon 1\n{names[2]} {cached * GIB}\n"

    def nest(record: dict[str, Any]) -> None:
        for path in [path for path in record["files"] if "cgroup" in path]:
            del record["files"][path]
        record["files"] |= files

    memory = _changed("cpu64-cgroup4", nest).cpu.memory
    assert (memory.total_bytes, memory.free_bytes) == (limit * GIB, free * GIB)


def test_duplicate_ids_are_made_distinct() -> None:
    def same(record: dict[str, Any]) -> None:
        first, second = record["nvml"]["devices"]
        second["nvmlDeviceGetUUID"] = first["nvmlDeviceGetUUID"]

    here = _changed("rtx4090-rtxpro6000-wsl2", same)
    assert len({gpu.id for gpu in here.gpus}) == 2
    assert [gpu.pci_address for gpu in here.gpus] == ["0000:01:00.0", "0000:02:00.0"]


KFD = "/sys/class/kfd/kfd/topology/nodes"


def _without_drm(record: dict[str, Any]) -> None:
    """A container that has /dev/kfd but not the bus."""
    for path in [path for path in record["files"] if path.startswith("/sys/bus")]:
        del record["files"][path]


def _edit_nodes(record: dict[str, Any], pattern: str, value: str) -> None:
    """Replace a property of every node; {n} is the partition's number."""
    for number in range(8):
        path = f"{KFD}/{2 + number}/properties"
        text = value.format(n=number, low=1280 + number)
        record["files"][path] = re.sub(pattern, text, record["files"][path])


# What kernels and drivers differ in.
PARTITIONED: dict[str, tuple[Callable[[dict[str, Any]], object], ...]] = {
    "as recorded": (),
    "no DRM in the container": (_without_drm,),
    "number in place of the PCI function": (
        lambda record: _edit_nodes(record, r"location_id \d+", "location_id {low}"),
    ),
    "the same without DRM": (
        _without_drm,
        lambda record: _edit_nodes(record, r"location_id \d+", "location_id {low}"),
    ),
    "no number": (lambda record: _edit_nodes(record, r"location_id \d+", "location_id 1280"),),
    "neither number nor unique id": (
        _without_drm,
        lambda record: _edit_nodes(record, r"location_id \d+", "location_id 1280"),
        lambda record: _edit_nodes(record, r"unique_id \d+", "unique_id 0"),
    ),
    "nothing but the order": (
        _without_drm,
        lambda record: _edit_nodes(record, r"location_id \d+", "location_id 1280"),
        lambda record: _edit_nodes(record, r"drm_render_minor \d+", "drm_render_minor 0"),
    ),
    "an id for each": (lambda record: _edit_nodes(record, r"unique_id (\d+)", "unique_id 77{n}"),),
}


@pytest.mark.parametrize("changes", PARTITIONED.values(), ids=PARTITIONED)
def test_partitions_of_one_card(changes: tuple[Callable[[dict[str, Any]], object], ...]) -> None:
    record = record_of("mi300x-cpx-linux")
    for change in changes:
        change(record)
    here = from_record(record)
    assert [gpu.id.rpartition("/")[2] for gpu in here.gpus] == list("01234567")
    assert [gpu.selector_for("rocm") for gpu in here.gpus] == [f"rocm:{n}" for n in range(8)]
    assert {(gpu.part, gpu.pci_address) for gpu in here.gpus} == {("partition", "0000:05:00.0")}
    assert {round((gpu.memory.total_bytes or 0) / GIB) for gpu in here.gpus} == {24}
    for gpu in here.gpus:
        assert choose_device(here, [DeviceRequest(gpu.id, "flag")]).devices == (gpu,)


def test_partitions_keep_their_ids_when_others_are_gone() -> None:
    """A container that was given two of eight."""
    whole = from_record(record_of("mi300x-cpx-linux"))

    def remove(record: dict[str, Any]) -> None:
        for number in (0, 1, 2, 4, 6, 7):
            del record["files"][f"{KFD}/{2 + number}/properties"]

    here = _changed("mi300x-cpx-linux", remove)
    assert [gpu.id for gpu in here.gpus] == [whole.gpus[3].id, whole.gpus[5].id]
    assert [gpu.selector_for("rocm") for gpu in here.gpus] == ["rocm:0", "rocm:1"]


def test_instances_with_one_id() -> None:
    """Four cards, two of them in MIG mode, of which all answer with one id and one address."""

    def same(record: dict[str, Any]) -> None:
        rows = record["nvml"]["devices"]
        for row in rows:
            row["nvmlDeviceGetUUID"] = rows[0]["nvmlDeviceGetUUID"]
            row["nvmlDeviceGetPciInfo"] = rows[0]["nvmlDeviceGetPciInfo"]
            for instance in row.get("mig", ()):
                instance["nvmlDeviceGetUUID"] = "MIG-1"

    here = _changed("h100x8-mig", same)
    assert len({gpu.id for gpu in here.gpus}) == len(here.gpus)
    wholes = [gpu for gpu in here.gpus if "cuda" in gpu.indices]
    assert [gpu.indices["cuda"] for gpu in wholes] == list(range(len(wholes)))
    parents = {gpu.id: gpu for gpu in here.gpus}
    for gpu in here.gpus:
        if gpu.parent:
            assert parents[gpu.parent].indices["nvml"] == gpu.indices["nvml"]


def test_self_built_torch_has_unknown_kernels() -> None:
    def build(record: dict[str, Any]) -> None:
        record["package_files"]["torch/version.py"] = (
            "__version__ = '2.11.0a0+git0fabc3b'\ncuda = '13.0'\n"
        )

    gpu = _changed("gtx1080ti-linux", build).gpus[0]
    assert gpu.usable
    assert "doctor" in gpu.backends[0].reason


def test_version_bounds_are_quoted_once(machine: Load) -> None:
    fix = machine("gtx1080ti-linux").gpus[0].backends[0].fix
    (command,) = [part for part in fix.split(" && ") if "install " in part and "-y" not in part]
    assert shlex.split(command)[2] == "torch<2.15"


Path = tuple[str | int, ...]
# Read for people, not for machines.
_UNREAD = ("format", "about", "cites")
_SECOND_TO_TABLES = ("IsIntegrated",)
"""Read where the tables of GPUs do not know an adapter, as those of the recordings are known."""


def _leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, number))
    else:
        yield path


def _get(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _broken(record: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """The record with one value changed, in every way that suits its type."""
    changes: list[Any] = []
    old = _get(record, path)
    if isinstance(old, bool):
        changes = [not old]
    elif isinstance(old, int):
        changes = [old + 1, 0, old * 7 + 2**33]
    elif isinstance(old, str):
        changes = ["", "broken", old.replace("1", "7").replace("0", "3"), "0", "9" * 6]
    else:
        changes = [None, "broken"]
    for change in changes:
        if change != old:
            changed = copy.deepcopy(record)
            _get(changed, path[:-1])[path[-1]] = change
            yield changed
    removed = copy.deepcopy(record)
    del _get(removed, path[:-1])[path[-1]]
    yield removed


def _describe(record: dict[str, Any]) -> Any:
    machine = from_record(record)
    probes = [
        KernelResult(backend=key.split()[0], device=key.split()[1], **row)
        for key, row in record.get("probes", {}).items()
    ]
    return machine_to_json(machine), diagnose(machine, probes)


def test_every_field_matters(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            record = record_of(name)
            truth = _describe(record)
            idle = []
            for path in _leaves(record):
                if path[0] in _UNREAD or path[-1] in _SECOND_TO_TABLES:
                    continue
                if all(_describe(changed) == truth for changed in _broken(record, path)):
                    idle.append(".".join(map(str, path)))
            assert not idle, f"fields that change nothing: {idle}"


def test_an_unknown_adapter_is_what_it_says_of_itself() -> None:
    record = record_of("core-ultra-rtx4060-wsl2")
    found = record["dxcore"][0]
    found["HardwareID"]["vendorID"] = 0x1234
    told = [_describe(record)]
    found["IsIntegrated"] = not found["IsIntegrated"]
    assert _describe(record) not in told


def test_every_field_cites_its_source(subtests: pytest.Subtests) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            record = record_of(name)
            patterns = record["cites"]
            assert all(len(source) > 10 for source in patterns.values())
            uncited = []
            used: set[str] = set()
            for path in _leaves(record):
                if path[0] in _UNREAD:
                    continue
                text = ".".join(map(str, path))
                hits = [pattern for pattern in patterns if _matches(text, pattern)]
                used |= set(hits)
                if not hits:
                    uncited.append(text)
            assert not uncited, f"fields without a source: {uncited}"
            assert not set(patterns) - used, f"sources of nothing: {sorted(set(patterns) - used)}"


def _matches(text: str, pattern: str) -> bool:
    """Whether a field's path is the pattern's, or lies below it."""
    escaped = pattern.replace("**", "*").replace("[", "[[]")
    return fnmatch.fnmatchcase(text, escaped) or fnmatch.fnmatchcase(text, f"{escaped}.*")
