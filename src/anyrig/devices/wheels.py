"""Installed packages that can use a device.

They are read from their metadata folders and torch's version.py as text: nothing heavy is imported.
Which machine code a build contains is in the tables of the vendors. For wheels on the Python index
these were read out of the wheels themselves (what torch lists as its architectures; the fat
binaries of ONNX Runtime's providers) for torch 2.0 to 2.15 and ONNX Runtime 1.21 to 1.31; for
torch's other builds from its build scripts and release matrix. Release wheels contain no code that
is compiled later, so nothing runs on a later major version. A build that is not listed is unknown:
the doctor asks the library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from anyrig.devices.machine import Platform
    from anyrig.devices.probe import HostProbe
    from anyrig.devices.vendor import BackendSource, Vendor

Version = tuple[int, int]
PLAIN_ONNX = "onnxruntime"
CPU_FLAVOUR = "cpu"
FIRST_TORCH = "2.6"
"""Of the extra `torch`."""
_UNKNOWN_FLAVOUR = "unknown"
# Beside those of vendors. Nothing else of what a person has installed is read or recorded.
_PACKAGES = ("torch", "flash-attn", "triton", "triton-windows")


class TorchBuild(NamedTuple):
    """The installed torch, according to its own version file."""

    version: str
    flavour: str
    """A vendor's `torch_flavour`, `cpu` or `unknown`."""
    flavour_title: str
    runtime: str = ""
    """The version of the vendor's runtime that it was built with: `13.0`."""
    kernels: tuple[str, ...] | None = None
    """The machine code in the wheel; None if the tables do not list this build."""

    @property
    def title(self) -> str:
        """`torch 2.11.0 (CUDA 13.0)`."""
        return f"torch {self.full_version}"

    @property
    def full_version(self) -> str:
        """`2.11.0 (CUDA 13.0)`."""
        return f"{self.version} ({f'{self.flavour_title} {self.runtime}'.strip()})"


class InstalledPackages(NamedTuple):
    versions: Mapping[str, str] = {}
    torch: TorchBuild | None = None
    providers: Mapping[str, tuple[str, ...]] = {}
    """The installed packages that provide the module `onnxruntime`, with what each adds to it."""

    @property
    def onnx(self) -> tuple[str, ...]:
        return tuple(self.providers)

    def package_of(self, provider: str) -> str:
        """The installed package that brings an ONNX Runtime provider, or an empty string."""
        return next((name for name, own in self.providers.items() if provider in own), "")


def list_onnx_packages(sources: Iterable[BackendSource]) -> dict[str, tuple[str, ...]]:
    """Packages that install the same `onnxruntime` module, with the providers they add."""
    found: dict[str, tuple[str, ...]] = {PLAIN_ONNX: ()}
    for source in sources:
        found |= source.onnx_packages
    return found


def read_installed(
    system: HostProbe,
    platform: Platform,
    vendors: Iterable[Vendor],
    sources: Iterable[BackendSource],
) -> InstalledPackages:
    sources = tuple(sources)
    onnx = list_onnx_packages(sources)
    names = [*onnx, *_PACKAGES, *(name for source in sources for name in source.packages)]
    versions = {name: version for name in names if (version := system.package_version(name))}
    torch = _read_torch(system, platform, tuple(vendors), versions.get("torch", ""))
    return InstalledPackages(
        versions, torch, {name: onnx[name] for name in onnx if name in versions}
    )


def _read_torch(
    system: HostProbe, platform: Platform, vendors: tuple[Vendor, ...], version: str
) -> TorchBuild | None:
    if not version:
        return None
    text = system.package_file("torch/version.py")
    facts = dict(re.findall(r"^(\w+)\s*(?::[^=\n]*)?=\s*['\"]([^'\"]*)['\"]", text, re.MULTILINE))
    full = facts.get("__version__", version)
    plain, _, tag = full.partition("+")
    name = str(system.host().get("system"))
    for vendor in vendors:
        runtime = vendor.read_torch_runtime(facts, tag, name)
        if runtime is None:
            continue
        kernels = None
        # The tables list official wheels: self-built and other people's are left to the doctor.
        official = not tag or (vendor.torch_tag is not None and vendor.torch_tag.fullmatch(tag))
        if official and re.fullmatch(r"\d+\.\d+\.\d+", plain):
            kernels = vendor.list_torch_kernels(full, runtime, platform)
        return TorchBuild(full, vendor.torch_flavour, vendor.torch_title, runtime, kernels)
    if tag.startswith(CPU_FLAVOUR) or text or platform.system == "Windows":
        # torch from the Python index is a CPU build on Windows.
        return TorchBuild(full, CPU_FLAVOUR, "CPU only")
    return TorchBuild(full, _UNKNOWN_FLAVOUR, "build unknown")


def parse_version(text: str) -> Version | None:
    """The first two numbers of a version; a missing minor is 0."""
    numbers = text.partition("+")[0].split(".")[:2]
    if not numbers[0].isdigit():
        return None
    return int(numbers[0]), int(numbers[1]) if len(numbers) > 1 and numbers[1].isdigit() else 0
