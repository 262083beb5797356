"""The CPU, Apple, and the two ways that serve several brands: DirectML and WebGPU."""

from __future__ import annotations

from collections.abc import Iterator

from anyrig.devices.describe import Device, Drive
from anyrig.devices.reach.ground import Ground, is_arm, no_torch, onnx_line, why_no_render, word_of
from anyrig.install import format_install

# torch-directml's last release was built against these, and nothing newer.
_DML_PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12")


def cpu(ground: Ground) -> Iterator[Drive]:
    """The CPU, which every runtime can use."""
    torch, onnx = ground.installed.torch, ground.installed.onnx
    if onnx:
        version = ground.installed.packages[onnx[0]]
        yield Drive("onnx", "cpu", "CPUExecutionProvider", True, f"{onnx[0]} {version}")
    else:
        yield Drive(
            "onnx",
            "cpu",
            "CPUExecutionProvider",
            False,
            "no onnxruntime package is installed",
            format_install("onnxruntime"),
        )
    if torch:
        yield Drive("torch", "cpu", "cpu", True, torch.title)
    else:
        yield no_torch("cpu", "cpu", format_install("anyrig[torch]"))


def torch_mps(ground: Ground) -> Drive:
    """torch on Metal."""
    torch = ground.installed.torch
    if torch is None:
        return no_torch("mps", "mps", format_install("anyrig[torch]"))
    if ground.platform.machine != "arm64":
        reason = "this Python is built for Intel: Metal needs one for arm64"
        return Drive("torch", "mps", "mps", False, reason)
    return Drive("torch", "mps", "mps", True, torch.title)


def onnx_coreml(ground: Ground) -> Drive:
    """ONNX Runtime on CoreML, in the plain package on macOS."""
    provider = "CoreMLExecutionProvider"
    if not ground.installed.onnx:
        return Drive(
            "onnx",
            "mps",
            provider,
            False,
            "no onnxruntime package is installed",
            format_install("onnxruntime"),
        )
    package = ground.installed.onnx[0]
    version = ground.installed.packages[package]
    return Drive("onnx", "mps", provider, True, f"{package} {version}")


def directml(device: Device, ground: Ground) -> Iterator[Drive]:
    """DirectX machine learning, for any brand on Windows; torch's also in WSL2."""
    # Without DXGI's order nobody knows DirectML's numbers.
    word = f"dml:{device.indices['dxgi']}" if "dxgi" in device.indices else "dml"
    directml = ground.installed.packages.get("torch-directml")
    torch = ground.installed.torch
    if directml and torch and not torch.version.startswith("2.4."):
        reason = f"torch-directml {directml} needs torch 2.4.1 and {torch.version} is installed"
        yield Drive("torch", word, "privateuseone", False, reason, format_install("torch==2.4.1"))
    elif directml:
        yield Drive("torch", word, "privateuseone", True, f"torch-directml {directml}")
    else:
        python = ".".join(ground.platform.python.split(".")[:2])
        built = python in _DML_PYTHONS and not is_arm(ground.platform)
        fix = format_install("torch-directml") if built else ""
        reason = "torch-directml is not installed"
        if not built:
            reason = f"torch-directml has no wheel for Python {python} on {ground.platform.machine}"
        yield Drive("torch", word, "privateuseone", False, reason, fix)
    if ground.platform.system != "Windows":
        return
    provider = "DmlExecutionProvider"
    package = ground.installed.provider(provider)
    if package:
        version = ground.installed.packages[package]
        yield Drive("onnx", word, provider, True, f"{package} {version}")
    else:
        fix = onnx_line(ground, "onnxruntime-directml")
        yield Drive("onnx", word, provider, False, "onnxruntime-directml is not installed", fix)


def webgpu(device: Device, ground: Ground) -> Drive:
    """ONNX Runtime on WebGPU, for any brand with Vulkan, D3D12 or Metal."""
    word, provider = word_of(device, "webgpu"), "WebGpuExecutionProvider"
    if not ground.installed.webgpu:
        reason = "onnxruntime-ep-webgpu is not installed"
        return Drive("onnx", word, provider, False, reason, format_install("anyrig[webgpu]"))
    if ground.platform.system == "Linux" and not ground.vulkan:
        fix = "sudo apt install libvulkan1 mesa-vulkan-drivers"
        return Drive("onnx", word, provider, False, "no Vulkan loader or driver is here", fix)
    shut, fix = why_no_render(ground) if device.vendor in ("amd", "intel") else ("", "")
    if shut:
        return Drive("onnx", word, provider, False, shut, fix)
    version = ground.installed.packages["onnxruntime-ep-webgpu"]
    return Drive("onnx", word, provider, True, f"onnxruntime-ep-webgpu {version}")
