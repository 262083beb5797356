"""What decides whether a device can be driven, beside the device; and what all routes share."""

from __future__ import annotations

from typing import NamedTuple

from anyrig.devices.describe import Device, Drive, Platform
from anyrig.devices.installed import Installed
from anyrig.install import format_install

INDEX = "https://download.pytorch.org/whl"


class TorchHost(NamedTuple):
    """What decides which build of torch a device needs, beside the device."""

    platform: Platform
    cuda_driver: str = ""
    flavour: str | None = None
    """Of the torch that is installed: `cuda`, `rocm`, `cpu`; None without one."""


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

    @property
    def torch_host(self) -> TorchHost:
        """What decides about torch."""
        torch = self.installed.torch
        return TorchHost(self.platform, self.cuda_driver, torch.flavour if torch else None)


def word_of(device: Device, library: str) -> str:
    """`cuda:0`; without a number where the library does not count the device.

    A MIG instance has no place in CUDA's count and goes by its id.
    """
    if library in device.indices:
        return f"{library}:{device.indices[library]}"
    return device.id if device.part == "mig" else library


def no_torch(word: str, provider: str, fix: str) -> Drive:
    """The way that a missing torch shuts."""
    return Drive("torch", word, provider, False, "torch is not installed", fix)


def torch_line(host: TorchHost, requirement: str, flavour: str) -> str:
    """The command that brings another build of torch.

    pip calls a requirement satisfied by any build that is there, so the old one goes first.
    """
    old = ["torch"] if host.flavour is not None else []
    return format_install(requirement, index_url=f"{INDEX}/{flavour}", uninstall=old)


def is_arm(platform: Platform) -> bool:
    """Whether the machine is a 64-bit ARM."""
    return platform.machine.lower() in ("aarch64", "arm64")


def version_of(text: str) -> tuple[int, int] | None:
    """The first two numbers of a version."""
    major, _, minor = text.partition(".")
    if not major.isdigit():
        return None
    return int(major), int(minor.partition(".")[0] or 0) if minor.partition(".")[0].isdigit() else 0


def onnx_line(ground: Ground, package: str) -> str:
    """The command that puts one ONNX Runtime in the place of whatever is there."""
    return format_install(package, uninstall=list(ground.installed.onnx))


def onnx_title(ground: Ground, package: str) -> str:
    """The package with its version, and a doubt where another one writes the same files."""
    title = f"{package} {ground.installed.packages[package]}"
    others = [name for name in ground.installed.onnx if name != package]
    return title + (f", if {' and '.join(others)} did not overwrite it" if others else "")


def why_no_render(ground: Ground) -> tuple[str, str]:
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
