"""NVIDIA: CUDA through torch and ONNX Runtime."""

from __future__ import annotations

from anyrig.devices import wheels
from anyrig.devices.describe import Device, Drive
from anyrig.devices.installed import TorchBuild
from anyrig.devices.parts import nvidia as nvidia_parts
from anyrig.devices.reach.ground import (
    INDEX,
    Ground,
    is_arm,
    no_torch,
    onnx_title,
    version_of,
    word_of,
)


def torch_cuda_fix(device: Device, ground: Ground) -> str:
    """The install line of a torch that runs on this NVIDIA device and its driver, if there is one.

    CUDA 12.6 builds end with torch 2.14 and are the last with Maxwell, Pascal and Volta; CUDA 12.8
    builds, the only ones for Blackwell on a driver of CUDA 12, end with 2.11.
    """
    capability = nvidia_parts.parse(device.capability) or (8, 0)
    arm = is_arm(ground.platform)
    if capability < ((8, 0) if arm else (5, 0)):
        return ""  # no official wheel holds kernels for it
    driver = version_of(ground.cuda_driver) or (13, 0)
    if driver[0] < 12:
        return "update NVIDIA's driver to 580 or newer"
    if capability < (7, 5):
        return f"pip install 'torch<2.15' --index-url {INDEX}/cu126"
    if driver[0] == 12:
        if capability >= (10, 0):
            return f"pip install 'torch<2.12' --index-url {INDEX}/cu128"
        return f"pip install 'torch<2.15' --index-url {INDEX}/cu126"
    return f"pip install torch --index-url {INDEX}/cu130"


def torch_cuda(device: Device, ground: Ground) -> Drive:
    """torch with CUDA."""
    word, torch = word_of(device, "cuda"), ground.installed.torch
    fix = torch_cuda_fix(device, ground)
    if torch is None:
        return no_torch(ground.platform, word, "cuda", fix or "")
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
    have, need = version_of(driver), version_of(runtime)
    return bool(have and need and have[0] < need[0])


def onnx_cuda(device: Device, ground: Ground) -> Drive:
    """ONNX Runtime with CUDA."""
    word, provider = word_of(device, "cuda"), "CUDAExecutionProvider"
    package = ground.installed.provider(provider)
    if not package:
        wanted = _onnx_gpu_release(device, ground)
        fix = f"pip uninstall -y onnxruntime && pip install {wanted}" if wanted else ""
        return Drive("onnx", word, provider, False, "onnxruntime-gpu is not installed", fix)
    version = ground.installed.packages[package]
    windows = ground.platform.system == "Windows"
    cuda, kernels = wheels.onnx_gpu(version, arm=is_arm(ground.platform), windows=windows)
    capability = nvidia_parts.parse(device.capability)
    shut = ""
    if _no_compute(ground):
        shut = f"NVIDIA_DRIVER_CAPABILITIES={ground.nvidia_abilities} keeps libcuda out"
    elif _driver_too_old(ground.cuda_driver, cuda):
        shut = f"the driver runs CUDA {ground.cuda_driver}, {package} {version} needs {cuda}"
    elif capability and kernels is not None and not nvidia_parts.runs(capability, kernels):
        shut = f"{package} {version} has no kernels for compute capability {device.capability}"
    if not shut:
        return Drive("onnx", word, provider, True, onnx_title(ground, package))
    release = _onnx_gpu_release(device, ground)
    return Drive("onnx", word, provider, False, shut, f"pip install {release}" if release else "")


def _onnx_gpu_release(device: Device, ground: Ground) -> str:
    """What to install: 1.26 is the last for CUDA 12 and the last with code before Turing."""
    capability = nvidia_parts.parse(device.capability) or (9, 0)
    driver = version_of(ground.cuda_driver) or (13, 0)
    if driver[0] < 12 or capability < (6, 0):
        return ""
    return (
        "onnxruntime-gpu" if driver[0] > 12 and capability >= (7, 5) else "onnxruntime-gpu==1.26.0"
    )
