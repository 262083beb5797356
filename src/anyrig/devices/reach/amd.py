"""AMD: ROCm through torch and ONNX Runtime, on Linux, in WSL2 and on Windows."""

from __future__ import annotations

from anyrig.devices import wheels
from anyrig.devices.describe import Device, Drive
from anyrig.devices.parts import amd as amd_parts
from anyrig.devices.reach.ground import (
    Ground,
    TorchHost,
    is_arm,
    no_torch,
    onnx_line,
    onnx_title,
    torch_line,
    word_of,
)

_ROCM_NOW = "7.2"
_DROPPED = ("gfx7", "gfx80", "gfx902")
# Where the driver is loaded already, the kernel's log says why it offers no compute.
KFD_FIX = "sudo modprobe amdgpu && sudo dmesg | grep -i kfd"


def torch_rocm(device: Device, ground: Ground) -> Drive:
    """torch with ROCm, which calls its devices cuda."""
    word, torch = word_of(device, "rocm"), ground.installed.torch
    fix = torch_rocm_fix(device, ground.torch_host)
    shut, shut_fix = _why_no_rocm(device, ground)
    if shut:
        return Drive("torch", word, "cuda", False, shut, shut_fix)
    if torch is None:
        return no_torch(word, "cuda", fix)
    if torch.flavour != "rocm":
        return Drive("torch", word, "cuda", False, f"{torch.title} has no ROCm", fix)
    target = device.capability
    if ground.gfx_override:
        reason = f"{torch.title}, as HSA_OVERRIDE_GFX_VERSION={ground.gfx_override} vouches"
        return Drive("torch", word, "cuda", True, reason)
    if target and torch.kernels is not None and not amd_parts.runs(target, torch.kernels):
        reason = f"{torch.title} has no kernels for {target}"
        return Drive("torch", word, "cuda", False, reason, fix)
    return Drive("torch", word, "cuda", True, torch.title)


def _override(target: str, built: tuple[str, ...]) -> str:
    """The variable under which RDNA 2 and 3 parts often run as their family's first target."""
    family = target[:-1]
    sibling = next((name for name in built if name.startswith(family)), "")
    if not sibling or not family.startswith(("gfx103", "gfx110")):
        return ""
    return f"export HSA_OVERRIDE_GFX_VERSION={sibling[3:-2]}.{sibling[-2]}.{sibling[-1]}"


def torch_rocm_fix(device: Device, host: TorchHost) -> str:
    """The wheel that holds this target, or its sibling with the override; nothing if none does."""
    if host.platform.system == "Windows":
        if _why_not_on_windows(device.capability or ""):
            return ""
        return "see docs/devices.md#amd-on-windows: AMD's own wheels for Python 3.12"
    if is_arm(host.platform) or (device.capability or "").startswith(_DROPPED):
        return ""
    newest = wheels.rocm_targets(_ROCM_NOW) or ()
    target = device.capability or ""
    line = torch_line(host, "torch", f"rocm{_ROCM_NOW}")
    if target in newest:
        return line
    override = _override(target, newest)
    if override and host.flavour == "rocm":
        return override
    return f"{line} && {override}" if override else ""


def _why_no_rocm(device: Device, ground: Ground) -> tuple[str, str]:
    """What stands between ROCm and the card, whatever torch is installed; and what mends it."""
    target = device.capability or ""
    if target.startswith(_DROPPED):
        return f"ROCm has dropped {target}", ""
    if ground.platform.system == "Windows":
        return _why_not_on_windows(target), ""
    if ground.platform.wsl == 2:
        fix = "see docs/troubleshooting.md#wsl2: install AMD's ROCm for WSL with librocdxg"
        shut = "ROCm in WSL2 needs librocdxg, which is not installed"
        return ("", "") if ground.rocdxg else (shut, fix)
    if ground.platform.system != "Linux":
        return f"there is no ROCm on {ground.platform.system}", ""
    return _why_no_kfd(device, ground)


def _why_not_on_windows(target: str) -> str:
    if target and not target.startswith(("gfx110", "gfx115", "gfx120")):
        return f"AMD publishes no torch for {target} on Windows"
    return ""


def _why_no_kfd(device: Device, ground: Ground) -> tuple[str, str]:
    if ground.kfd_access is None:
        if ground.platform.container:
            fix = "docker run --device /dev/kfd --device /dev/dri --group-add video ..."
            return "/dev/kfd was not given to this container", fix
        return "/dev/kfd is not there: the amdgpu driver's compute part is off", KFD_FIX
    if "w" not in ground.kfd_access:
        return "this user may not open /dev/kfd", "sudo usermod -aG render,video $USER"
    if any("kfd does not list" in note for note in device.notes):
        return "the kernel's kfd does not list it", ""
    return "", ""


def onnx_rocm(device: Device, ground: Ground) -> Drive:
    """ONNX Runtime with MIGraphX or the older ROCm provider."""
    word = word_of(device, "rocm")
    for provider in ("MIGraphXExecutionProvider", "ROCMExecutionProvider"):
        package = ground.installed.provider(provider)
        if package:
            shut, fix = _why_no_rocm(device, ground)
            return Drive("onnx", word, provider, not shut, shut or onnx_title(ground, package), fix)
    # Published for Linux on x86_64 alone, and for what ROCm itself runs on.
    fits = (device.capability or "") in (wheels.rocm_targets(_ROCM_NOW) or ())
    published = ground.platform.system == "Linux" and not is_arm(ground.platform)
    fix = onnx_line(ground, "onnxruntime-migraphx") if fits and published else ""
    reason = "no ONNX Runtime for ROCm is installed"
    return Drive("onnx", word, "MIGraphXExecutionProvider", False, reason, fix)
