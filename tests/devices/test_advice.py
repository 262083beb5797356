"""One answer to "what do I install for this GPU?", for every brand and system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anyrig.cli.main import main
from anyrig.devices.choose import DeviceRequest, choose_device
from anyrig.devices.discovery import from_record
from anyrig.devices.doctor import diagnose
from anyrig.devices.machine import Machine
from tests.conftest import MACHINES, NAMES, record_of

Load = Callable[..., Machine]
WEBGPU = "pip install 'anyrig[webgpu]'"
GPU_ONNX = "pip uninstall -y onnxruntime && pip install onnxruntime-gpu"

# machine, GPU: words of the one command, of torch's and of ONNX Runtime's; empty: nothing to do, or
# nothing that would help
ADVICE: list[tuple[str, int, str, str, str]] = [
    # NVIDIA: new, old, too old for what is installed, boards
    ("h200-linux", 0, "", "", GPU_ONNX),
    ("rtx4070-laptop-docker", 0, "", "", ""),
    ("gtx1080ti-linux", 0, "whl/cu126", "whl/cu126", "onnxruntime-gpu==1.26.0"),
    ("v100-linux", 0, "whl/cu126", "whl/cu126", "onnxruntime-gpu==1.26.0"),
    ("rtx5090-cpu-torch-windows", 0, "whl/cu130", "whl/cu130", WEBGPU),
    ("jetson-orin-linux", 0, "JetPack", "JetPack", WEBGPU),
    ("nvidia-nouveau", 0, "nvidia-driver", "", ""),
    ("rtx4090-rtxpro6000-wsl2", 0, "", "", GPU_ONNX),
    # AMD: supported and not, on Linux, Windows and WSL2
    ("mi300x-linux", 0, "", "", "onnxruntime-migraphx"),
    ("rx6700xt-linux", 0, "HSA_OVERRIDE_GFX_VERSION=10.3.0", "10.3.0", WEBGPU),
    ("strix-halo-linux", 0, "whl/rocm7.2", "whl/rocm7.2", "onnxruntime-migraphx"),
    ("rx7900xtx-linux", 0, "usermod", "usermod", "onnxruntime-migraphx"),
    ("rx7900xtx-windows", 0, "", "amd-on-windows", ""),
    ("rx7900xtx-cpu-torch-windows", 0, "amd-on-windows", "amd-on-windows", WEBGPU),
    ("rx640-uhd750-windows", 0, WEBGPU, "", WEBGPU),
    ("rx640-directml-windows", 0, WEBGPU, "", WEBGPU),
    ("vega8-directml-windows", 0, "", "", ""),
    ("amd-wsl2", 0, "librocdxg", "librocdxg", "onnxruntime-migraphx"),
    # Intel: Arc and processor graphics, on Linux and Windows
    ("arc-b580-linux", 0, "", "", "onnxruntime-openvino"),
    ("arc-b580-windows", 0, "whl/xpu", "whl/xpu", "onnxruntime-openvino"),
    ("core-ultra-linux", 0, "", "whl/xpu", ""),
    ("rx640-uhd750-windows", 1, WEBGPU, "", WEBGPU),
    # others
    ("macbook-m4", 0, "", "", ""),
    ("macbook-m1-rosetta", 0, "", "macos-aarch64", ""),
    ("macbook-intel", 0, "", "", ""),
    ("snapdragon-windows", 0, WEBGPU, "", WEBGPU),
]


def test_table(machine: Load, subtests: pytest.Subtests) -> None:
    for row in ADVICE:
        with subtests.test(row=row):
            name, number, command, torch, onnx = row
            advice = machine(name).gpus[number].advice
            for words, text in zip((command, torch, onnx), vars(advice).values(), strict=True):
                assert words in text, advice
                assert bool(words) == bool(text), advice


def test_every_recorded_gpu_is_usable_or_has_advice(
    machine: Load, subtests: pytest.Subtests
) -> None:
    """Or nothing helps: then the reasons say so."""
    hopeless = {"macbook-intel"}
    for name in NAMES:
        with subtests.test(name=name):
            for gpu in machine(name).gpus:
                if not gpu.usable and not gpu.hardware_block and name not in hopeless:
                    assert gpu.advice.command, gpu.name


def test_devices_doctor_and_warnings_advise_the_same(
    machine: Load, subtests: pytest.Subtests, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            here = machine(name)
            path = str(MACHINES / f"{name}.json")
            assert main(["devices", "--machine", path]) == 0
            listed = " ".join(capsys.readouterr().out.split())
            found = diagnose(here)
            for gpu in here.gpus:
                command = gpu.advice.command
                if gpu.usable or not command:
                    continue
                assert " ".join(command.split()) in listed
                assert gpu.block_reason is not None
                assert gpu.block_reason.fix == command
                requested = choose_device(here, [DeviceRequest(gpu.id, "flag")])
                assert any(command in warning for warning in requested.warnings)
                fixes = {one.fix for one in found if one.check != "onnx"}
                if not gpu.hardware_block and not any(one.usable for one in here.gpus):
                    others = {one.advice.command for one in here.gpus}
                    assert fixes & others, (gpu.name, command, fixes)


@pytest.mark.parametrize("name", ["rx640-directml-windows", "vega8-directml-windows"])
def test_torch_directml_is_explained_and_never_used(machine: Load, name: str) -> None:
    here = machine(name)
    for gpu in here.gpus:
        (backend,) = [one for one in gpu.backends if one.provider == "privateuseone"]
        assert not backend.usable
        assert "keeps torch at 2.4.1, anyrig needs 2.6" in backend.reason
    (finding,) = [one for one in diagnose(here) if "torch-directml" in one.message]
    assert finding.state == "warning"
    assert "pip uninstall -y torch-directml" in finding.fix
    assert not any("pip install torch-directml" in one.fix for one in diagnose(here))


def test_directml_through_onnx_is_what_the_selector_means(machine: Load) -> None:
    here = machine("vega8-directml-windows")
    choice = choose_device(here, [DeviceRequest("directml", "flag")])
    assert choice.device is here.gpus[0]
    assert not choice.warnings


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rtx5090-cpu-torch-windows", ["whl/cu130", "anyrig[torch]"]),
        ("arc-b580-windows", ["whl/xpu", "anyrig[torch]"]),
        ("rx7900xtx-cpu-torch-windows", ["amd-on-windows", "anyrig[torch]"]),
        ("rx640-uhd750-windows", ["anyrig[torch]"]),
        ("no-gpu", ["whl/cpu", "anyrig[torch]"]),
    ],
)
def test_torch_is_installed_for_the_gpu(name: str, words: list[str]) -> None:
    """Without torch too, and not the build that the package index happens to have."""
    record: dict[str, Any] = record_of(name)
    del record["packages"]["torch"]
    here = from_record(record)
    (finding,) = [one for one in diagnose(here) if one.check == "torch"]
    assert all(word in finding.fix for word in words)
