"""Installed packages that can use a device, and the machine code in torch and ONNX Runtime wheels.

Packages are read from their metadata folders and torch's version.py as text: nothing heavy is
imported. For wheels on the Python index the kernel lists were read out of the wheels themselves
(the flags that torch.cuda.get_arch_list() returns; the fat binaries of ONNX Runtime's CUDA
provider) for torch 2.0 to 2.15 and onnxruntime-gpu 1.21 to 1.31; for torch's other CUDA and ROCm
flavours from its build scripts and release matrix. Release wheels contain no PTX, so nothing runs
on a later major version. A build that is not listed is unknown: the doctor asks the library.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from anyrig.devices.probe import HostProbe

TorchFlavour = Literal["cuda", "rocm", "xpu", "cpu", "mac", "unknown"]
FLAVOUR_TITLES: dict[TorchFlavour, str] = {
    "cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU", "cpu": "CPU only", "mac": "macOS",
    "unknown": "build unknown",
}  # fmt: skip
Version = tuple[int, int]

# First CUDA version and torch version of a row, to what Linux x86_64 wheels hold.
_MAXWELL_ON = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
_VOLTA_ON = "sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
_TURING_ON = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
_LINUX: tuple[tuple[Version, Version, Version, str], ...] = (
    # CUDA, first torch, last torch, kernels
    ((11, 7), (2, 0), (2, 0), "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"),
    ((11, 8), (2, 0), (2, 7), f"sm_37 {_MAXWELL_ON}"),
    ((12, 1), (2, 1), (2, 5), _MAXWELL_ON),
    ((12, 4), (2, 4), (2, 6), _MAXWELL_ON),
    ((12, 6), (2, 6), (2, 14), _MAXWELL_ON),
    ((12, 8), (2, 7), (2, 7), _TURING_ON),
    ((12, 8), (2, 8), (2, 10), _VOLTA_ON),
    ((12, 8), (2, 11), (2, 11), _TURING_ON),
    ((12, 9), (2, 8), (2, 10), _VOLTA_ON),
    ((12, 9), (2, 11), (2, 13), _TURING_ON),
    ((13, 0), (2, 9), (2, 15), _TURING_ON),
    ((13, 2), (2, 12), (2, 15), _TURING_ON),
)
_ARM: tuple[tuple[Version, Version, Version, str], ...] = (
    ((12, 6), (2, 9), (2, 14), "sm_80 sm_90"),
    ((12, 8), (2, 7), (2, 7), "sm_90 sm_100 sm_120"),
    ((12, 8), (2, 9), (2, 11), "sm_80 sm_90 sm_100 sm_120"),
    ((12, 9), (2, 8), (2, 13), "sm_80 sm_90 sm_100 sm_120"),
    ((13, 0), (2, 9), (2, 15), "sm_80 sm_90 sm_100 sm_110 sm_120"),
    ((13, 2), (2, 12), (2, 15), "sm_80 sm_90 sm_100 sm_110 sm_120"),
)
_WINDOWS: tuple[tuple[Version, Version, Version, str], ...] = (
    ((11, 8), (2, 0), (2, 7), f"sm_37 sm_61 {_MAXWELL_ON}"),
    ((12, 1), (2, 1), (2, 5), f"sm_61 {_MAXWELL_ON}"),
    ((12, 4), (2, 4), (2, 6), f"sm_61 {_MAXWELL_ON}"),
    ((12, 6), (2, 6), (2, 14), f"sm_61 {_MAXWELL_ON}"),
    ((12, 8), (2, 8), (2, 10), _VOLTA_ON),
    ((12, 8), (2, 11), (2, 11), _TURING_ON),
    ((13, 0), (2, 9), (2, 15), _TURING_ON),
    ((13, 2), (2, 12), (2, 15), _TURING_ON),
)
_ROCM: tuple[tuple[Version, str], ...] = (
    # from this ROCm on; the last row that is not newer holds
    ((5, 4), "gfx900 gfx906 gfx908 gfx90a gfx1030"),
    ((5, 7), "gfx900 gfx906 gfx908 gfx90a gfx1030 gfx1100"),
    ((6, 0), "gfx900 gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100"),
    ((6, 3), "gfx900 gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1101 gfx1102 gfx1200 gfx1201"),
    (
        (7, 0),
        "gfx900 gfx906 gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1101 gfx1102 gfx1150 gfx1151 "
        "gfx1200 gfx1201",
    ),
    (
        (7, 14),
        "gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 "
        "gfx1200 gfx1201",
    ),
)
# onnxruntime-gpu from this version on: CUDA, then kernels on Linux x86_64, Windows, Linux aarch64.
_ONNX_GPU: tuple[tuple[Version, str, str, str, str], ...] = (
    ((1, 18), "11.8", "", "", ""),
    ((1, 19), "12.2", "", "", ""),
    ((1, 21), "12.2", "sm_60 sm_70 sm_75 sm_80 sm_86 sm_90 compute_90",
     "sm_52 sm_61 sm_75 sm_86 sm_89 compute_90", ""),
    ((1, 24), "12.8", "sm_60 sm_70 sm_75 sm_80 sm_86 sm_90 compute_90",
     "sm_52 sm_61 sm_75 sm_86 sm_89 compute_90", ""),
    ((1, 27), "13.0", "", "", ""),
    ((1, 29), "13.0", "sm_75 sm_80 sm_86 sm_89 sm_90 sm_120",
     "sm_75 sm_80 sm_86 sm_89 sm_90 sm_120", "sm_89 sm_90 sm_120 sm_121"),
)  # fmt: skip
_NEWEST_ONNX = (1, 31)

# Packages that install the same `onnxruntime` module, with the providers they add.
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
# Packages that can use a device: nothing else of what a person has installed is read or recorded.
DEVICE_PACKAGES = (
    *ONNX_PACKAGES, WEBGPU_PACKAGE, "torch", "torch-directml", "flash-attn", "flash-attn-3",
    "flash-attn-4",
    "tensorrt", "tensorrt-cu12", "tensorrt-cu13", "nvidia-ml-py", "pynvml", "triton",
    "triton-windows", "intel-extension-for-pytorch", "amdsmi",
)  # fmt: skip


class TorchBuild(NamedTuple):
    """The installed torch, according to its own version file."""

    version: str
    flavour: TorchFlavour
    runtime: str = ""
    """The version of CUDA or ROCm it was built with: `13.0`."""
    kernels: tuple[str, ...] | None = None
    """sm_ or gfx names in the wheel; None if the tables do not list this build."""

    @property
    def title(self) -> str:
        """`torch 2.11.0 (CUDA 13.0)`."""
        build = f"{FLAVOUR_TITLES[self.flavour]} {self.runtime}".strip()
        return f"torch {self.version} ({build})"


class InstalledPackages(NamedTuple):
    versions: dict[str, str] = {}
    torch: TorchBuild | None = None

    @property
    def onnx(self) -> tuple[str, ...]:
        """The installed packages that provide the module `onnxruntime`."""
        return tuple(name for name in ONNX_PACKAGES if name in self.versions)

    @property
    def has_webgpu(self) -> bool:
        """Whether the WebGPU provider and a runtime that can load it are both installed."""
        return WEBGPU_PACKAGE in self.versions and bool(self.onnx)

    def package_of(self, provider: str) -> str:
        """The installed package that brings an ONNX Runtime provider, or an empty string."""
        return next((package for package in self.onnx if provider in ONNX_PACKAGES[package]), "")


def read_installed(system: HostProbe) -> InstalledPackages:
    found = system.packages()
    versions = {name: found[name] for name in DEVICE_PACKAGES if name in found}
    return InstalledPackages(versions, _read_torch(system, versions.get("torch")))


def _read_torch(system: HostProbe, version: str | None) -> TorchBuild | None:
    if version is None:
        return None
    host = system.host()
    text = system.package_file("torch/version.py")
    facts = dict(re.findall(r"^(\w+)\s*(?::[^=\n]*)?=\s*['\"]([^'\"]*)['\"]", text, re.MULTILINE))
    full = facts.get("__version__", version)
    flavour, runtime = _read_flavour(full, facts, str(host.get("system")), bool(text))
    kernels = None
    # The tables list official wheels: self-built, NGC's and conda's are left to the doctor.
    if re.fullmatch(r"\d+\.\d+\.\d+(\+(cu\d+|rocm[\d.]+))?", full):
        if flavour == "rocm":
            kernels = list_rocm_targets(runtime)
        elif flavour == "cuda":
            arm = str(host.get("machine")).lower() in ("aarch64", "arm64")
            windows = host.get("system") == "Windows"
            kernels = list_cuda_kernels(full, runtime, arm=arm, windows=windows)
    return TorchBuild(full, flavour, runtime, kernels)


def _read_flavour(
    full: str, facts: dict[str, str], system: str, has_file: bool
) -> tuple[TorchFlavour, str]:
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
        return "cpu", ""  # torch from the Python index is a CPU build on Windows
    return "unknown", ""


def parse_version(text: str) -> Version | None:
    """The first two numbers of a version; a missing minor is 0."""
    numbers = text.partition("+")[0].split(".")[:2]
    if not numbers[0].isdigit():
        return None
    return int(numbers[0]), int(numbers[1]) if len(numbers) > 1 and numbers[1].isdigit() else 0


def list_cuda_kernels(torch: str, cuda: str, *, arm: bool, windows: bool) -> tuple[str, ...] | None:
    """The sm_ names in torch's wheel of that version and CUDA; None if not listed."""
    built, runtime = parse_version(torch), parse_version(cuda)
    table = _ARM if arm else _WINDOWS if windows else _LINUX
    for row_cuda, first, last, kernels in table:
        if runtime == row_cuda and built is not None and first <= built <= last:
            return tuple(sorted(kernels.split(), key=lambda name: int(name[3:])))
    return None


def list_rocm_targets(rocm: str) -> tuple[str, ...] | None:
    """The gfx targets in torch's Linux wheel for that ROCm."""
    runtime = parse_version(rocm)
    rows = [kernels for first, kernels in _ROCM if runtime is not None and first <= runtime]
    if not rows or (runtime and runtime > _ROCM[-1][0]):
        return None
    return tuple(rows[-1].split())


def find_onnx_gpu_build(
    onnxruntime: str, *, arm: bool, windows: bool
) -> tuple[str, tuple[str, ...] | None]:
    """The CUDA that onnxruntime-gpu requires, and its kernels if known."""
    built = parse_version(onnxruntime)
    rows = [row for row in _ONNX_GPU if built is not None and row[0] <= built]
    if not rows or built is None or built > _NEWEST_ONNX:
        return "", None
    _, cuda, on_linux, on_windows, on_arm = rows[-1]
    kernels = on_arm if arm else on_windows if windows else on_linux
    return cuda, tuple(kernels.split()) or None
