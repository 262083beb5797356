"""NVIDIA: CUDA through torch and ONNX Runtime."""

from __future__ import annotations

from anyrig.devices import wheels
from anyrig.devices.describe import Device, Drive
from anyrig.devices.installed import TorchBuild
from anyrig.devices.parts import nvidia as nvidia_parts
from anyrig.devices.reach.ground import (
    Ground,
    TorchHost,
    is_arm,
    no_torch,
    onnx_line,
    onnx_title,
    torch_line,
    version_of,
    word_of,
)

# Boards whose torch comes with JetPack: the index's wheels for ARM are for servers.
_JETSON = frozenset({(5, 3), (6, 2), (7, 2), (8, 7)})
# Newest, and the last for CUDA 12 and for parts before Turing.
_ONNX_RELEASES = (("onnxruntime-gpu", "1.31.1"), ("onnxruntime-gpu==1.26.0", "1.26.0"))
_COMPUTE_FIX = "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ..."


def torch_cuda_fix(device: Device, host: TorchHost) -> str:
    """The install line of a torch that runs on this NVIDIA device and its driver, if there is one.

    CUDA 12.6 builds end with torch 2.14 and are the last with Maxwell, Pascal and Volta; CUDA 12.8
    builds, the only ones for Blackwell on a driver of CUDA 12, end with 2.11.
    """
    capability = nvidia_parts.parse(device.capability) or (8, 0)
    arm = is_arm(host.platform)
    if arm and capability in _JETSON:
        return "install the torch of NVIDIA's JetPack"
    if capability < ((8, 0) if arm else (5, 0)):
        return ""  # no official wheel holds kernels for it
    driver = version_of(host.cuda_driver) or (13, 0)
    if driver[0] < 12:
        last = "580, the last for this card" if capability < (7, 5) else "580 or newer"
        return f"update NVIDIA's driver to {last}"
    if capability < (7, 5):
        return torch_line(host, "'torch<2.15'", "cu126")
    if driver[0] == 12:
        if capability >= (10, 0):
            return torch_line(host, "'torch<2.12'", "cu128")
        return torch_line(host, "'torch<2.15'", "cu126")
    return torch_line(host, "torch", "cu130")


def torch_cuda(device: Device, ground: Ground) -> Drive:
    """torch with CUDA."""
    word, torch = word_of(device, "cuda"), ground.installed.torch
    fix = torch_cuda_fix(device, ground.torch_host)
    if torch is None:
        return no_torch(word, "cuda", fix)
    if _no_compute(ground):
        reason = f"NVIDIA_DRIVER_CAPABILITIES={ground.nvidia_abilities} keeps libcuda out"
        return Drive("torch", word, "cuda", False, reason, _COMPUTE_FIX)
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
        fix = onnx_line(ground, wanted) if wanted else ""
        return Drive("onnx", word, provider, False, "onnxruntime-gpu is not installed", fix)
    version = ground.installed.packages[package]
    windows = ground.platform.system == "Windows"
    cuda, kernels = wheels.onnx_gpu(version, arm=is_arm(ground.platform), windows=windows)
    capability = nvidia_parts.parse(device.capability)
    shut = ""
    if _no_compute(ground):
        reason = f"NVIDIA_DRIVER_CAPABILITIES={ground.nvidia_abilities} keeps libcuda out"
        return Drive("onnx", word, provider, False, reason, _COMPUTE_FIX)
    if _driver_too_old(ground.cuda_driver, cuda):
        shut = f"the driver runs CUDA {ground.cuda_driver}, {package} {version} needs {cuda}"
    elif capability and kernels is not None and not nvidia_parts.runs(capability, kernels):
        shut = f"{package} {version} has no kernels for compute capability {device.capability}"
    if not shut:
        return Drive("onnx", word, provider, True, onnx_title(ground, package))
    release = _onnx_gpu_release(device, ground)
    fix = onnx_line(ground, release) if release else ""
    return Drive("onnx", word, provider, False, shut, fix)


def onnx_tensorrt(device: Device, ground: Ground) -> list[Drive]:
    """ONNX Runtime with TensorRT, where its libraries are installed beside a CUDA that works."""
    packages = ground.installed.packages
    found = next((name for name in packages if name.startswith("tensorrt")), "")
    cuda = onnx_cuda(device, ground)
    if not found or not cuda.usable:
        return []
    word = cuda.word.replace("cuda", "tensorrt", 1)
    reason = f"{cuda.reason} with {found} {packages[found]}"
    return [Drive("onnx", word, "TensorrtExecutionProvider", True, reason)]


def _onnx_gpu_release(device: Device, ground: Ground) -> str:
    """The newest release whose CUDA this driver runs and whose kernels run on this device."""
    capability = nvidia_parts.parse(device.capability)
    windows, arm = ground.platform.system == "Windows", is_arm(ground.platform)
    for requirement, number in _ONNX_RELEASES:
        cuda, kernels = wheels.onnx_gpu(number, arm=arm, windows=windows)
        old = _driver_too_old(ground.cuda_driver, cuda)
        if kernels and not old and (not capability or nvidia_parts.runs(capability, kernels)):
            return requirement
    return ""
