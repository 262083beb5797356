"""Probes: this machine, a captured tree of files, NVML, and recorded machines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from anyrig.devices import probe
from anyrig.devices.discovery import discover, from_record, record
from anyrig.devices.probe import (
    HostProbe,
    LiveProbe,
    Unavailable,
    load_record,
)
from anyrig.devices.reasons import ReasonCode
from anyrig.errors import InvalidRecordError
from tests.conftest import NAMES, record_of


def _tree(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_this_machine_is_described() -> None:
    here = discover(os.environ)
    assert here.cpu.cores_usable >= 1
    assert here.cpu.memory.total_bytes
    assert here.cpu_device.usable
    assert here.platform.system in ("Linux", "macOS", "Windows")
    assert all(report.state != "failed" for report in here.sources)


def test_record_and_replay_this_machine() -> None:
    here, answers = record(os.environ)
    again = from_record(json.loads(json.dumps(answers)))
    assert again == here


def test_recording_contains_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    _, answers = record(os.environ)
    text = json.dumps(answers)
    assert "hunter2" not in text
    assert str(Path.home()) not in text
    assert answers["environment"] == {"CUDA_VISIBLE_DEVICES": "0"}


def test_record_and_replay(subtests: pytest.Subtests) -> None:
    """The recorder loses nothing: what it wrote describes the same machine."""
    for name in NAMES:
        with subtests.test(name=name):
            from anyrig.devices.probe import RecordedProbe, RecordingProbe

            original = record_of(name)
            recorder = RecordingProbe(RecordedProbe(original), original.get("environment", {}))
            first = discover(original.get("environment", {}), system=HostProbe(recorder))
            again = from_record(json.loads(json.dumps(recorder.record)))
            assert again == first == from_record(original)


def test_discover_in_a_captured_tree(tmp_path: Path) -> None:
    card = "/sys/class/drm/card0/device"
    node = "/sys/class/kfd/kfd/topology/nodes/1"
    _tree(
        tmp_path,
        {
            "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen\n"
            "flags\t\t: avx2 fma\n\nprocessor\t: 1\nmodel name\t: other\n",
            "/proc/meminfo": "MemTotal:       32000000 kB\nMemAvailable:   30000000 kB\n",
            "/sys/devices/system/cpu/online": "0-15\n",
            f"{card}/vendor": "0x1002\n",
            f"{card}/device": "0x744c\n",
            f"{card}/revision": "0xc8\n",
            f"{card}/uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n",
            f"{card}/mem_info_vram_total": "25753026560\n",
            f"{card}/mem_info_vram_used": "1000000000\n",
            f"{node}/properties": "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\n"
            "location_id 768\ndomain 0\ndrm_render_minor 128\n",
            "/usr/share/libdrm/amdgpu.ids": "# list\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n",
            "/usr/share/misc/pci.ids": "1002  AMD\n\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]\n",
        },
    )
    here = discover({}, system=HostProbe(LiveProbe(str(tmp_path))))
    (gpu,) = here.gpus
    assert gpu.name == "AMD Radeon RX 7900 XTX"
    assert (gpu.capability, gpu.units, gpu.pci_address) == ("gfx1100", 96, "0000:03:00.0")
    assert gpu.memory.free_bytes == 24753026560
    assert here.cpu.cores_total == 16
    assert here.cpu.vectors == ("avx2", "fma")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[1]", "format 1"),
        ('{"format": 1, "gpus": {}}', "unknown section gpus"),
        ('{"format": 1, "files": []}', "files must be an object"),
        ("[" * 100000, "not valid JSON"),
    ],
)
def test_invalid_record(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "machine.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRecordError, match=words) as caught:
        load_record(path)
    assert "--record" in caught.value.hint


@pytest.mark.gpu
def test_nvml_on_a_real_gpu() -> None:
    here = discover(os.environ)
    gpu = next(here.gpus_of("nvidia"))
    assert gpu.id.startswith("GPU-")
    assert gpu.memory.total_bytes
    assert gpu.capability


class FakeNvml:
    """nvidia-ml-py with one GPU that has an empty MIG slot and one instance."""

    class NVMLError(Exception):
        value = 3

    def __init__(self) -> None:
        self.NVML_ERROR_NOT_SUPPORTED = 3

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802 - the library's own names
        return b"580.1"

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"gpu{index}"

    def nvmlDeviceGetMaxMigDeviceCount(self, device: str) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: str, slot: int) -> str:  # noqa: N802
        if slot == 0:
            raise self.NVMLError("empty")
        return f"{device}/mig{slot}"

    def nvmlDeviceGetName(self, device: str) -> bytes:  # noqa: N802
        return device.encode()

    def nvmlDeviceGetUUID(self, device: str) -> str:  # noqa: N802
        raise self.NVMLError("Not Supported")


def test_nvml_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "load_pynvml", FakeNvml)
    system = HostProbe()
    assert system.nvml("nvmlInit") is None
    assert system.nvml("nvmlSystemGetDriverVersion") == "580.1"
    assert system.nvml("mig", "0") == 1
    assert system.nvml("nvmlDeviceGetName", "0") == "gpu0"
    assert system.nvml("nvmlDeviceGetName", "0/0") == "gpu0/mig1"
    for function, code in (
        ("nvmlDeviceGetUUID", "NVML_ERROR_NOT_SUPPORTED"),
        ("nvmlDeviceGetFanSpeed", "NVML_ERROR_FUNCTION_NOT_FOUND"),
    ):
        with pytest.raises(Unavailable) as caught:
            system.nvml(function, "0")
        assert caught.value.code == code
        assert str(caught.value).startswith(f"{code}: ")


@pytest.mark.parametrize(
    ("code", "fix"),
    [
        ("NVML_ERROR_DRIVER_NOT_LOADED: Driver Not Loaded", "modprobe"),
        ("NVML_ERROR_LIB_RM_VERSION_MISMATCH: Mismatch", "reboot"),
        ("the package nvidia-ml-py is not installed", "pip install nvidia-ml-py"),
        ("NVML_ERROR_UNKNOWN: Unknown Error", "nvidia-smi"),
    ],
)
def test_nvml_failures_have_a_fix(code: str, fix: str) -> None:
    record = {**record_of("nvidia-init-fails"), "nvml": {"nvmlInit": {"error": code}}}
    here = from_record(record)
    gpu = here.gpus[0]
    assert gpu.hardware_block is not None
    reason = ReasonCode.NOT_INSTALLED if "pip" in fix else ReasonCode.DRIVER_FAILED
    assert gpu.hardware_block.code is reason
    assert fix in gpu.hardware_block.fix


def test_installed_tensorrt_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorrt_cu13-10.14.1.dist-info", "somebodys_own-1.0.dist-info"):
        (tmp_path / name).mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    here, answers = record(os.environ)
    assert here.packages["tensorrt-cu13"] == "10.14.1"
    text = json.dumps(answers)
    assert '"tensorrt-cu13": "10.14.1"' in text
    assert "somebodys-own" not in text
