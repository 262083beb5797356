"""Which packages that drive devices are installed, and for what they were built.

Read from metadata folders and from torch's version.py as text: nothing heavy is imported. What a
build holds comes from a table of official wheels; doctor checks it in a child process.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from anyrig.devices import wheels
from anyrig.devices.sources.system import System

Flavour = Literal["cuda", "rocm", "xpu", "cpu", "mac", "unknown"]

# Packages that put files into the same `onnxruntime` folder, with the providers they add.
ONNX_PACKAGES: dict[str, tuple[str, ...]] = {
    "onnxruntime": (),
    "onnxruntime-gpu": ("CUDAExecutionProvider", "TensorrtExecutionProvider"),
    "onnxruntime-rocm": ("ROCMExecutionProvider", "MIGraphXExecutionProvider"),
    "onnxruntime-migraphx": ("MIGraphXExecutionProvider",),
    "onnxruntime-openvino": ("OpenVINOExecutionProvider",),
    "onnxruntime-directml": ("DmlExecutionProvider",),
    "onnxruntime-windowsml": ("DmlExecutionProvider",),
    "onnxruntime-qnn": ("QNNExecutionProvider",),
    "onnxruntime-silicon": ("CoreMLExecutionProvider",),
}
WEBGPU_PACKAGE = "onnxruntime-ep-webgpu"
_WATCHED = (
    *ONNX_PACKAGES, WEBGPU_PACKAGE, "torch", "torch-directml", "flash-attn", "flash-attn-3",
    "flash-attn-4",
    "tensorrt", "tensorrt-cu12", "tensorrt-cu13", "nvidia-ml-py", "pynvml", "triton",
    "triton-windows", "intel-extension-for-pytorch", "amdsmi",
)  # fmt: skip


class TorchBuild(NamedTuple):
    """The installed torch, as its own version file says."""

    version: str
    flavour: Flavour
    runtime: str = ""
    """The version of CUDA or ROCm it was built with: `13.0`."""
    kernels: tuple[str, ...] | None = None
    """sm_ or gfx names in the wheel; None when no table knows this build."""

    @property
    def title(self) -> str:
        """`torch 2.11.0 (CUDA 13.0)`."""
        names = {"cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU", "cpu": "CPU only", "mac": "macOS"}
        told = f"{names.get(self.flavour, 'build unknown')} {self.runtime}".strip()
        return f"torch {self.version} ({told})"


class Installed(NamedTuple):
    """What can drive a device on this machine."""

    packages: dict[str, str]
    torch: TorchBuild | None

    @property
    def onnx(self) -> tuple[str, ...]:
        """The installed packages that provide the module `onnxruntime`."""
        return tuple(name for name in ONNX_PACKAGES if name in self.packages)

    @property
    def webgpu(self) -> bool:
        """Whether the WebGPU provider and a runtime that can load it are both there."""
        return WEBGPU_PACKAGE in self.packages and bool(self.onnx)

    def provider(self, name: str) -> str:
        """The installed package that brings a provider, or nothing."""
        return next((package for package in self.onnx if name in ONNX_PACKAGES[package]), "")


def read(system: System) -> Installed:
    """The packages that matter here, from their metadata."""
    all_packages = system.packages()
    packages = {name: all_packages[name] for name in _WATCHED if name in all_packages}
    return Installed(packages, _torch(system, packages.get("torch")))


def _torch(system: System, version: str | None) -> TorchBuild | None:
    if version is None:
        return None
    host = system.host()
    text = system.package_file("torch/version.py")
    facts = dict(re.findall(r"^(\w+)\s*(?::[^=\n]*)?=\s*['\"]([^'\"]*)['\"]", text, re.MULTILINE))
    full = facts.get("__version__", version)
    flavour, runtime = _flavour(full, facts, str(host.get("system")), bool(text))
    base, _, _ = full.partition("+")
    kernels = None
    # The table speaks of official wheels: self-built, NGC's and conda's are asked by the doctor.
    official = re.fullmatch(r"\d+\.\d+\.\d+(\+(cu\d+|rocm[\d.]+))?", full) is not None
    if official and flavour in ("cuda", "rocm"):
        kernels = wheel_kernels(
            base, flavour, runtime, str(host.get("system")), str(host.get("machine"))
        )
    return TorchBuild(full, flavour, runtime, kernels)


def _flavour(full: str, facts: dict[str, str], system: str, has_file: bool) -> tuple[Flavour, str]:
    if facts.get("cuda"):
        return "cuda", facts["cuda"]
    if facts.get("hip"):
        return "rocm", ".".join(facts["hip"].split(".")[:2])
    if facts.get("xpu"):
        return "xpu", facts["xpu"]
    _, _, tag = full.partition("+")
    found = re.match(r"cu(\d+)(\d)$", tag)
    if found:
        return "cuda", f"{found[1]}.{found[2]}"
    if tag.startswith("rocm"):
        return "rocm", ".".join(tag[4:].split(".")[:2])
    if tag.startswith("xpu"):
        return "xpu", ""
    if system == "Darwin":
        return "mac", ""
    if tag.startswith("cpu") or has_file or system == "Windows":
        return "cpu", ""  # torch from the index is a CPU build on Windows
    return "unknown", ""


def wheel_kernels(
    version: str, flavour: str, runtime: str, system: str, machine: str
) -> tuple[str, ...] | None:
    """What an official wheel of this build carries; None where no table knows."""
    if flavour == "rocm":
        return wheels.rocm_targets(runtime)
    arm = machine.lower() in ("aarch64", "arm64")
    return wheels.cuda_kernels(version, runtime, arm=arm, windows=system == "Windows")
