"""Which installed backend can drive which device, or exactly why not. Facts in, `Drive`s out.

Every way to run on a device is listed, open or shut, with the command that would open it. Nothing
is imported or started: the doctor proves in a child process what stands here as a claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from anyrig.devices import wheels
from anyrig.devices.describe import Device, Drive, Platform
from anyrig.devices.installed import Installed, TorchBuild
from anyrig.devices.parts import amd as amd_parts
from anyrig.devices.parts import intel as intel_parts
from anyrig.devices.parts import nvidia as nvidia_parts

# torch-directml's last release was built against these, and nothing newer.
_DML_PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12")
_INDEX = "https://download.pytorch.org/whl"


@dataclass(frozen=True)
class Ground:
    """What decides, beside the device itself."""

    platform: Platform
    installed: Installed
    cuda_driver: str = ""
    """The newest CUDA that NVIDIA's driver runs: `12.4`."""
    gfx_override: str = ""
    """HSA_OVERRIDE_GFX_VERSION: the user vouches for another target."""
    kfd_access: str | None = None
    """What this user may do with /dev/kfd; None when it is not there."""
    rocdxg: bool = False
    """ROCm's bridge to DirectX in WSL2 is installed."""
    vulkan: bool = False
    """A Vulkan loader and a driver's manifest are on this Linux."""


def drives(device: Device, ground: Ground) -> tuple[Drive, ...]:
    """Every way to drive a device, the fastest kind first."""
    if device.kind == "cpu":
        return tuple(_cpu(ground))
    ways: list[Drive] = []
    if device.vendor == "nvidia":
        ways += [_torch_cuda(device, ground), _onnx_cuda(device, ground)]
    elif device.vendor == "amd":
        ways += [_torch_rocm(device, ground), _onnx_rocm(device, ground)]
    elif device.vendor == "intel":
        ways += [_torch_xpu(device, ground), _onnx_openvino(device, ground)]
    elif device.vendor == "apple":
        ways += [_torch_mps(ground), _onnx_coreml(ground)]
    if ground.platform.system == "Windows" or ground.platform.wsl == 2:
        ways += list(_directml(device, ground))
    if device.part != "mig":
        ways.append(_webgpu(device, ground))
    if device.blocked:
        ways = [
            replace(way, usable=False, reason=device.blocked, fix=device.blocked_fix)
            if way.usable
            else way
            for way in ways
        ]
    return tuple(ways)


def _word(device: Device, library: str) -> str:
    return f"{library}:{device.indices.get(library, 0)}"


def _no_torch(platform: Platform, word: str, provider: str, fix: str) -> Drive:
    return Drive("torch", word, provider, False, "torch is not installed", fix)


def _cpu(ground: Ground) -> Iterator[Drive]:
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
            "pip install onnxruntime",
        )
    if torch:
        yield Drive("torch", "cpu", "cpu", True, torch.title)
    else:
        yield _no_torch(ground.platform, "cpu", "cpu", "pip install 'anyrig[torch]'")


# -- NVIDIA -------------------------------------------------------------------------------------


def torch_cuda_fix(device: Device, ground: Ground) -> str:
    """The install line of a torch that runs on this NVIDIA device and its driver, if there is one.

    CUDA 12.6 builds end with torch 2.14 and are the last with Maxwell, Pascal and Volta; CUDA 12.8
    builds, the only ones for Blackwell on a driver of CUDA 12, end with 2.11.
    """
    capability = nvidia_parts.parse(device.capability) or (8, 0)
    arm = _is_arm(ground.platform)
    if capability < ((8, 0) if arm else (5, 0)):
        return ""  # no official wheel holds kernels for it
    driver = _version(ground.cuda_driver) or (13, 0)
    if driver[0] < 12:
        return "update NVIDIA's driver to 580 or newer"
    if capability < (7, 5):
        return f"pip install 'torch<2.15' --index-url {_INDEX}/cu126"
    if driver[0] == 12:
        if capability >= (10, 0):
            return f"pip install 'torch<2.12' --index-url {_INDEX}/cu128"
        return f"pip install 'torch<2.15' --index-url {_INDEX}/cu126"
    return f"pip install torch --index-url {_INDEX}/cu130"


def _is_arm(platform: Platform) -> bool:
    return platform.machine.lower() in ("aarch64", "arm64")


def _torch_cuda(device: Device, ground: Ground) -> Drive:
    word, torch = _word(device, "cuda"), ground.installed.torch
    fix = torch_cuda_fix(device, ground)
    if torch is None:
        return _no_torch(ground.platform, word, "cuda", fix or "")
    shut = _why_not_cuda(device, ground, torch)
    if shut:
        return Drive("torch", word, "cuda", False, shut, fix)
    if torch.kernels is None:
        return Drive(
            "torch",
            word,
            "cuda",
            True,
            f"{torch.title}; which kernels it holds is known only to doctor",
        )
    return Drive("torch", word, "cuda", True, torch.title)


def _why_not_cuda(device: Device, ground: Ground, torch: TorchBuild) -> str:
    if torch.flavour != "cuda":
        return f"{torch.title} has no CUDA"
    if _driver_too_old(ground.cuda_driver, torch.runtime):
        return f"the driver runs CUDA {ground.cuda_driver}, {torch.title} needs {torch.runtime}"
    capability = nvidia_parts.parse(device.capability)
    if (
        capability
        and torch.kernels is not None
        and not nvidia_parts.runs(capability, torch.kernels)
    ):
        return f"{torch.title} has no kernels for compute capability {device.capability}"
    return ""


def _driver_too_old(driver: str, runtime: str) -> bool:
    """Within one major version of CUDA any driver of that major runs it."""
    have, need = _version(driver), _version(runtime)
    return bool(have and need and have[0] < need[0])


def _onnx_cuda(device: Device, ground: Ground) -> Drive:
    word, provider = _word(device, "cuda"), "CUDAExecutionProvider"
    package = ground.installed.provider(provider)
    fix = "pip uninstall -y onnxruntime && pip install onnxruntime-gpu"
    if not package:
        return Drive("onnx", word, provider, False, "onnxruntime-gpu is not installed", fix)
    version = ground.installed.packages[package]
    windows = ground.platform.system == "Windows"
    cuda, kernels = wheels.onnx_gpu(version, arm=_is_arm(ground.platform), windows=windows)
    capability = nvidia_parts.parse(device.capability)
    shut = ""
    if _driver_too_old(ground.cuda_driver, cuda):
        shut = f"the driver runs CUDA {ground.cuda_driver}, {package} {version} needs {cuda}"
    elif capability and kernels is not None and not nvidia_parts.runs(capability, kernels):
        shut = f"{package} {version} has no kernels for compute capability {device.capability}"
    if not shut:
        return Drive("onnx", word, provider, True, f"{package} {version}")
    # 1.26 is the last for CUDA 12, and the last with code for parts before Turing.
    older = "pip install onnxruntime-gpu==1.26.0" if (capability or (9, 0)) >= (6, 0) else ""
    return Drive("onnx", word, provider, False, shut, older)


# -- AMD ----------------------------------------------------------------------------------------


def _torch_rocm(device: Device, ground: Ground) -> Drive:
    word, torch = _word(device, "rocm"), ground.installed.torch
    fix = _rocm_fix(device, ground)
    shut, shut_fix = _why_no_rocm(device, ground)
    if shut:
        return Drive("torch", word, "cuda", False, shut, shut_fix)
    if torch is None:
        return _no_torch(ground.platform, word, "cuda", fix)
    if torch.flavour != "rocm":
        return Drive("torch", word, "cuda", False, f"{torch.title} has no ROCm", fix)
    target = device.capability
    if ground.gfx_override:
        reason = f"{torch.title}, as HSA_OVERRIDE_GFX_VERSION={ground.gfx_override} vouches"
        return Drive("torch", word, "cuda", True, reason)
    if target and torch.kernels is not None and not amd_parts.runs(target, torch.kernels):
        reason = f"{torch.title} has no kernels for {target}"
        return Drive("torch", word, "cuda", False, reason, _neighbour_fix(target, torch.kernels))
    return Drive("torch", word, "cuda", True, torch.title)


def _neighbour_fix(target: str, built: tuple[str, ...]) -> str:
    """RDNA 2 and 3 parts often run their family's first target under an override."""
    family = target[:-1]
    sibling = next((name for name in built if name.startswith(family)), "")
    if not sibling or not family.startswith(("gfx103", "gfx110")):
        return ""
    return f"export HSA_OVERRIDE_GFX_VERSION={sibling[3:-2]}.{sibling[-2]}.{sibling[-1]}"


def _rocm_fix(device: Device, ground: Ground) -> str:
    if ground.platform.system == "Windows":
        return "see docs/devices.md#amd-on-windows: AMD's own wheels for Python 3.12"
    return f"pip install torch --index-url {_INDEX}/rocm7.2"


def _why_no_rocm(device: Device, ground: Ground) -> tuple[str, str]:
    """What stands between ROCm and the card, whatever torch is installed."""
    target = device.capability
    if target and target.startswith(("gfx7", "gfx80", "gfx900", "gfx902")):
        return f"ROCm has dropped {target}", ""
    if ground.platform.system == "Windows":
        if target and not target.startswith(("gfx110", "gfx115", "gfx120")):
            return f"AMD publishes no torch for {target} on Windows", ""
        return "", ""
    if ground.platform.wsl == 2:
        if not ground.rocdxg:
            fix = "see docs/troubleshooting.md#wsl2: install AMD's ROCm for WSL with librocdxg"
            return "ROCm in WSL2 needs librocdxg, which is not installed", fix
        return "", ""
    if ground.platform.system != "Linux":
        return f"there is no ROCm on {ground.platform.system}", ""
    if ground.kfd_access is None:
        if ground.platform.container:
            fix = "docker run --device /dev/kfd --device /dev/dri --group-add video ..."
            return "/dev/kfd was not given to this container", fix
        return (
            "/dev/kfd is not there: the amdgpu driver's compute part is off",
            "sudo modprobe amdgpu",
        )
    if "w" not in ground.kfd_access:
        return "this user may not open /dev/kfd", "sudo usermod -aG render,video $USER"
    if any("kfd does not list" in note for note in device.notes):
        return "the kernel's kfd does not list it", ""
    return "", ""


def _onnx_rocm(device: Device, ground: Ground) -> Drive:
    word = _word(device, "rocm")
    for provider in ("MIGraphXExecutionProvider", "ROCMExecutionProvider"):
        package = ground.installed.provider(provider)
        if package:
            version = ground.installed.packages[package]
            shut, fix = _why_no_rocm(device, ground)
            return Drive("onnx", word, provider, not shut, shut or f"{package} {version}", fix)
    fix = "pip uninstall -y onnxruntime && pip install onnxruntime-migraphx"
    if ground.platform.system == "Windows":
        fix = ""
    reason = "no ONNX Runtime for ROCm is installed"
    return Drive("onnx", word, "MIGraphXExecutionProvider", False, reason, fix)


# -- Intel --------------------------------------------------------------------------------------


def _torch_xpu(device: Device, ground: Ground) -> Drive:
    word, torch = _word(device, "xpu"), ground.installed.torch
    number = int(device.pci_id.partition(":")[2], 16) if device.pci_id else None
    part = intel_parts.describe(number)
    if part.xpu is False:
        reason = f"torch's XPU build does not run on {part.architecture}"
        return Drive("torch", word, "xpu", False, reason)
    fix = f"pip install torch --index-url {_INDEX}/xpu"
    if torch is None:
        return _no_torch(ground.platform, word, "xpu", fix)
    if torch.flavour != "xpu":
        return Drive("torch", word, "xpu", False, f"{torch.title} has no XPU", fix)
    if part.xpu is None:
        reason = f"{torch.title}; this part is not in Intel's list as we know it"
        return Drive("torch", word, "xpu", True, reason)
    return Drive("torch", word, "xpu", True, torch.title)


def _onnx_openvino(device: Device, ground: Ground) -> Drive:
    word, provider = _word(device, "xpu"), "OpenVINOExecutionProvider"
    package = ground.installed.provider(provider)
    if package:
        version = ground.installed.packages[package]
        return Drive("onnx", word, provider, True, f"{package} {version}")
    fix = "pip uninstall -y onnxruntime && pip install onnxruntime-openvino"
    return Drive("onnx", word, provider, False, "onnxruntime-openvino is not installed", fix)


# -- Apple --------------------------------------------------------------------------------------


def _torch_mps(ground: Ground) -> Drive:
    torch = ground.installed.torch
    if torch is None:
        return _no_torch(ground.platform, "mps", "mps", "pip install 'anyrig[torch]'")
    if ground.platform.machine != "arm64":
        reason = "this Python is built for Intel: Metal needs one for arm64"
        return Drive("torch", "mps", "mps", False, reason)
    return Drive("torch", "mps", "mps", True, torch.title)


def _onnx_coreml(ground: Ground) -> Drive:
    provider = "CoreMLExecutionProvider"
    if not ground.installed.onnx:
        return Drive(
            "onnx",
            "mps",
            provider,
            False,
            "no onnxruntime package is installed",
            "pip install onnxruntime",
        )
    package = ground.installed.onnx[0]
    version = ground.installed.packages[package]
    return Drive("onnx", "mps", provider, True, f"{package} {version}")


# -- any brand ----------------------------------------------------------------------------------


def _directml(device: Device, ground: Ground) -> Iterator[Drive]:
    word = f"dml:{device.indices.get('dxgi', 0)}"
    directml = ground.installed.packages.get("torch-directml")
    if directml:
        yield Drive("torch", word, "privateuseone", True, f"torch-directml {directml}")
    else:
        python = ".".join(ground.platform.python.split(".")[:2])
        fix = "pip install torch-directml" if python in _DML_PYTHONS else ""
        reason = "torch-directml is not installed"
        if not fix:
            reason = f"torch-directml has no wheel for Python {python}"
        yield Drive("torch", word, "privateuseone", False, reason, fix)
    if ground.platform.system != "Windows":
        return
    provider = "DmlExecutionProvider"
    package = ground.installed.provider(provider)
    if package:
        version = ground.installed.packages[package]
        yield Drive("onnx", word, provider, True, f"{package} {version}")
    else:
        fix = "pip uninstall -y onnxruntime && pip install onnxruntime-directml"
        yield Drive("onnx", word, provider, False, "onnxruntime-directml is not installed", fix)


def _webgpu(device: Device, ground: Ground) -> Drive:
    word, provider = _word(device, "webgpu"), "WebGpuExecutionProvider"
    if not ground.installed.webgpu:
        reason = "onnxruntime-ep-webgpu is not installed"
        return Drive("onnx", word, provider, False, reason, "pip install 'anyrig[webgpu]'")
    if ground.platform.system == "Linux" and not ground.vulkan:
        fix = "sudo apt install libvulkan1 mesa-vulkan-drivers"
        return Drive("onnx", word, provider, False, "no Vulkan loader or driver is here", fix)
    version = ground.installed.packages["onnxruntime-ep-webgpu"]
    return Drive("onnx", word, provider, True, f"onnxruntime-ep-webgpu {version}")


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    if not major.isdigit():
        return None
    return int(major), int(minor.partition(".")[0] or 0) if minor.partition(".")[0].isdigit() else 0
