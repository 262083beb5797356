"""Intel: XPU through torch, OpenVINO through ONNX Runtime."""

from __future__ import annotations

from anyrig.devices.describe import Device, Drive
from anyrig.devices.parts import intel as intel_parts
from anyrig.devices.reach.ground import (
    Ground,
    TorchHost,
    no_torch,
    onnx_line,
    onnx_title,
    torch_line,
    why_no_render,
    word_of,
)


def torch_xpu_fix(device: Device, host: TorchHost) -> str:
    """The install line of a torch for XPU; nothing where it does not run on the part."""
    return "" if _part(device).xpu is False else torch_line(host, "torch", "xpu")


def _part(device: Device) -> intel_parts.Part:
    number = int(device.pci_id.partition(":")[2], 16) if device.pci_id else None
    return intel_parts.describe(number)


def torch_xpu(device: Device, ground: Ground) -> Drive:
    """torch with XPU."""
    word, torch = word_of(device, "xpu"), ground.installed.torch
    part = _part(device)
    if part.xpu is False:
        reason = f"torch's XPU build does not run on {part.architecture}"
        return Drive("torch", word, "xpu", False, reason)
    shut, shut_fix = why_no_render(ground)
    if shut:
        return Drive("torch", word, "xpu", False, shut, shut_fix)
    fix = torch_xpu_fix(device, ground.torch_host)
    if torch is None:
        return no_torch(word, "xpu", fix)
    if torch.flavour != "xpu":
        return Drive("torch", word, "xpu", False, f"{torch.title} has no XPU", fix)
    if part.xpu is None:
        reason = f"{torch.title}; this part is not in Intel's list as we know it"
        return Drive("torch", word, "xpu", True, reason)
    return Drive("torch", word, "xpu", True, torch.title)


def onnx_openvino(device: Device, ground: Ground) -> Drive:
    """ONNX Runtime with OpenVINO."""
    word, provider = word_of(device, "xpu"), "OpenVINOExecutionProvider"
    package = ground.installed.provider(provider)
    if package:
        shut, fix = why_no_render(ground)
        return Drive("onnx", word, provider, not shut, shut or onnx_title(ground, package), fix)
    fix = onnx_line(ground, "onnxruntime-openvino")
    return Drive("onnx", word, provider, False, "onnxruntime-openvino is not installed", fix)
