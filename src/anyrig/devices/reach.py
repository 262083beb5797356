"""Which installed backend can drive which device, or exactly why not. Facts in, `Drive`s out.

Every way to run on a device is listed, open or shut, with the command that would open it. Nothing
is imported or started: the doctor proves in a child process what stands here as a claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from anyrig.devices import wheels
from anyrig.devices.describe import Device, Drive, Platform
from anyrig.devices.installed import Installed, TorchBuild
from anyrig.devices.parts import amd as amd_parts
from anyrig.devices.parts import intel as intel_parts
from anyrig.devices.parts import nvidia as nvidia_parts

# torch-directml's last release was built against these, and nothing newer.
_DML_PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12")
_ROCM_NOW = "7.2"
_INDEX = "https://download.pytorch.org/whl"


class Ground(NamedTuple):
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
    nvidia_abilities: str = ""
    """NVIDIA_DRIVER_CAPABILITIES: what the container toolkit hands in; empty says nothing."""
    render_access: str | None = None
    """What this user may do with the best of /dev/dri/renderD*; None when there is none."""
    vulkan: bool = False
    """A Vulkan loader and a driver's manifest are on this Linux."""


def drives(device: Device, ground: Ground) -> tuple[Drive, ...]:
    """Every way to drive a device, the fastest kind first."""
    if device.kind == "cpu":
        return tuple(_cpu(ground))
    ways: list[Drive] = []
    if ground.platform.system == "macOS" and device.vendor != "apple":
        pass  # Macs with Intel's or AMD's graphics have no backend but WebGPU
    elif device.vendor == "nvidia":
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
    """`cuda:0`; without a number where the library does not count the device.

    A MIG instance has no place in CUDA's count and goes by its id.
    """
    if library in device.indices:
        return f"{library}:{device.indices[library]}"
    return device.id if device.part == "mig" else library


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
    if _no_compute(ground):
        return f"NVIDIA_DRIVER_CAPABILITIES={ground.nvidia_abilities} keeps libcuda out"
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


def _no_compute(ground: Ground) -> bool:
    """Whether the container was given the driver without its compute part."""
    given = set(ground.nvidia_abilities.split(",")) if ground.nvidia_abilities else {"all"}
    return not given & {"compute", "all"}


def _driver_too_old(driver: str, runtime: str) -> bool:
    """Within one major version of CUDA any driver of that major runs it."""
    have, need = _version(driver), _version(runtime)
    return bool(have and need and have[0] < need[0])


def _onnx_cuda(device: Device, ground: Ground) -> Drive:
    word, provider = _word(device, "cuda"), "CUDAExecutionProvider"
    package = ground.installed.provider(provider)
    if not package:
        wanted = _onnx_gpu_release(device, ground)
        fix = f"pip uninstall -y onnxruntime && pip install {wanted}" if wanted else ""
        return Drive("onnx", word, provider, False, "onnxruntime-gpu is not installed", fix)
    version = ground.installed.packages[package]
    windows = ground.platform.system == "Windows"
    cuda, kernels = wheels.onnx_gpu(version, arm=_is_arm(ground.platform), windows=windows)
    capability = nvidia_parts.parse(device.capability)
    shut = ""
    if _no_compute(ground):
        shut = f"NVIDIA_DRIVER_CAPABILITIES={ground.nvidia_abilities} keeps libcuda out"
    elif _driver_too_old(ground.cuda_driver, cuda):
        shut = f"the driver runs CUDA {ground.cuda_driver}, {package} {version} needs {cuda}"
    elif capability and kernels is not None and not nvidia_parts.runs(capability, kernels):
        shut = f"{package} {version} has no kernels for compute capability {device.capability}"
    if not shut:
        return Drive("onnx", word, provider, True, _onnx_title(ground, package))
    release = _onnx_gpu_release(device, ground)
    return Drive("onnx", word, provider, False, shut, f"pip install {release}" if release else "")


def _onnx_gpu_release(device: Device, ground: Ground) -> str:
    """What to install: 1.26 is the last for CUDA 12 and the last with code before Turing."""
    capability = nvidia_parts.parse(device.capability) or (9, 0)
    driver = _version(ground.cuda_driver) or (13, 0)
    if driver[0] < 12 or capability < (6, 0):
        return ""
    return (
        "onnxruntime-gpu" if driver[0] > 12 and capability >= (7, 5) else "onnxruntime-gpu==1.26.0"
    )


def _onnx_title(ground: Ground, package: str) -> str:
    """The package with its version, and a doubt where another one writes the same files."""
    title = f"{package} {ground.installed.packages[package]}"
    others = [name for name in ground.installed.onnx if name != package]
    return title + (f", if {' and '.join(others)} did not overwrite it" if others else "")


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
    """A newer wheel that has the target, or the override under which RDNA 2 and 3 parts often run
    as their family's first target.
    """
    family = target[:-1]
    if target in (wheels.rocm_targets(_ROCM_NOW) or ()):
        return f"pip install torch --index-url {_INDEX}/rocm{_ROCM_NOW}"
    sibling = next((name for name in built if name.startswith(family)), "")
    if not sibling or not family.startswith(("gfx103", "gfx110")):
        return ""
    return f"export HSA_OVERRIDE_GFX_VERSION={sibling[3:-2]}.{sibling[-2]}.{sibling[-1]}"


def _rocm_fix(device: Device, ground: Ground) -> str:
    if ground.platform.system == "Windows":
        return "see docs/devices.md#amd-on-windows: AMD's own wheels for Python 3.12"
    return f"pip install torch --index-url {_INDEX}/rocm{_ROCM_NOW}"


def _why_no_rocm(device: Device, ground: Ground) -> tuple[str, str]:
    """What stands between ROCm and the card, whatever torch is installed; and what mends it."""
    target = device.capability or ""
    if target.startswith(("gfx7", "gfx80", "gfx900", "gfx902")):
        return f"ROCm has dropped {target}", ""
    if ground.platform.system == "Windows":
        if target and not target.startswith(("gfx110", "gfx115", "gfx120")):
            return f"AMD publishes no torch for {target} on Windows", ""
        return "", ""
    if ground.platform.wsl == 2:
        fix = "see docs/troubleshooting.md#wsl2: install AMD's ROCm for WSL with librocdxg"
        shut = "ROCm in WSL2 needs librocdxg, which is not installed"
        return ("", "") if ground.rocdxg else (shut, fix)
    if ground.platform.system != "Linux":
        return f"there is no ROCm on {ground.platform.system}", ""
    return _why_no_kfd(device, ground)


def _why_no_kfd(device: Device, ground: Ground) -> tuple[str, str]:
    if ground.kfd_access is None:
        if ground.platform.container:
            fix = "docker run --device /dev/kfd --device /dev/dri --group-add video ..."
            return "/dev/kfd was not given to this container", fix
        fix = "sudo modprobe amdgpu"
        return "/dev/kfd is not there: the amdgpu driver's compute part is off", fix
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
            shut, fix = _why_no_rocm(device, ground)
            return Drive(
                "onnx", word, provider, not shut, shut or _onnx_title(ground, package), fix
            )
    fix = "pip uninstall -y onnxruntime && pip install onnxruntime-migraphx"
    if ground.platform.system == "Windows" or _is_arm(ground.platform):
        fix = ""  # published for Linux on x86_64 alone
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
    shut, shut_fix = _why_no_render(ground)
    if shut:
        return Drive("torch", word, "xpu", False, shut, shut_fix)
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
        shut, fix = _why_no_render(ground)
        return Drive("onnx", word, provider, not shut, shut or _onnx_title(ground, package), fix)
    fix = "pip uninstall -y onnxruntime && pip install onnxruntime-openvino"
    return Drive("onnx", word, provider, False, "onnxruntime-openvino is not installed", fix)


def _why_no_render(ground: Ground) -> tuple[str, str]:
    """Whether Linux lets this user at the render nodes, which Level Zero and Vulkan open."""
    if ground.platform.system != "Linux" or ground.platform.wsl:
        return "", ""
    if ground.render_access is None:
        if ground.platform.container:
            return "/dev/dri was not given to this container", "docker run --device /dev/dri ..."
        return "there is no /dev/dri/renderD*", ""
    if "w" not in ground.render_access:
        return "this user may not open /dev/dri/render*", "sudo usermod -aG render,video $USER"
    return "", ""


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
    # Without DXGI's order nobody knows DirectML's numbers.
    word = f"dml:{device.indices['dxgi']}" if "dxgi" in device.indices else "dml"
    directml = ground.installed.packages.get("torch-directml")
    if directml:
        yield Drive("torch", word, "privateuseone", True, f"torch-directml {directml}")
    else:
        python = ".".join(ground.platform.python.split(".")[:2])
        built = python in _DML_PYTHONS and not _is_arm(ground.platform)
        fix = "pip install torch-directml" if built else ""
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
    shut, fix = _why_no_render(ground) if device.vendor in ("amd", "intel") else ("", "")
    if shut:
        return Drive("onnx", word, provider, False, shut, fix)
    version = ground.installed.packages["onnxruntime-ep-webgpu"]
    return Drive("onnx", word, provider, True, f"onnxruntime-ep-webgpu {version}")


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    if not major.isdigit():
        return None
    return int(major), int(minor.partition(".")[0] or 0) if minor.partition(".")[0].isdigit() else 0
