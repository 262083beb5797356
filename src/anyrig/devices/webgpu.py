"""WebGPU: ONNX Runtime on GPUs of any vendor with Vulkan, D3D12 or Metal."""

from __future__ import annotations

from collections.abc import Mapping

from anyrig.devices.machine import Device, DeviceBackend, HostFacts
from anyrig.devices.probe import HostProbe
from anyrig.devices.reasons import ReasonCode, explain
from anyrig.devices.vendor import BackendSource
from anyrig.install import format_install

INSTALL = format_install("anyrig[webgpu]")
_PACKAGE = "onnxruntime-ep-webgpu"
_VULKAN = "vulkan"
"""The fact: Linux has a Vulkan loader and a driver manifest."""
_MANIFESTS = (
    "/usr/share/vulkan/icd.d",
    "/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
)
_MANIFEST_VARIABLES = ("VK_ICD_FILENAMES", "VK_DRIVER_FILES")
_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
)  # fmt: skip


class WebGpu(BackendSource):
    libraries = {"webgpu": "WebGPU device"}
    other_variables = (*_MANIFEST_VARIABLES, "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER")
    packages = (_PACKAGE,)

    def read_facts(self, system: HostProbe) -> Mapping[str, str]:
        return {_VULKAN: "yes" if _has_vulkan(system) else ""}

    def list_backends(self, device: Device, host: HostFacts) -> list[DeviceBackend]:
        if device.part == "mig":
            return []
        blocked, platform = None, host.platform
        if platform.system == "macOS" and platform.machine != "arm64":
            where = f"macOS on {platform.machine}"
            blocked = explain(ReasonCode.NO_WHEEL, package="ONNX Runtime", platform=where)
        elif _PACKAGE not in host.installed.versions or not host.installed.onnx:
            blocked = explain(ReasonCode.NOT_INSTALLED, INSTALL, package=_PACKAGE)
        elif platform.system == "Linux" and not host.facts.get(_VULKAN):
            fix = "sudo apt install libvulkan1 mesa-vulkan-drivers"
            blocked = explain(ReasonCode.NO_VULKAN, fix)
        title = f"{_PACKAGE} {host.installed.versions.get(_PACKAGE, '')}"
        selector, provider = device.selector_for("webgpu"), "WebGpuExecutionProvider"
        return [DeviceBackend("onnx", selector, provider, title, blocked)]


def _has_vulkan(system: HostProbe) -> bool:
    """A loader in a library folder, and a driver's manifest in a folder or a variable."""
    manifests = any(system.list_names(folder) for folder in _MANIFESTS)
    if not manifests and system.environment.keys().isdisjoint(_MANIFEST_VARIABLES):
        return False
    folders = (*_LIBRARY_FOLDERS, *system.environment.get("LD_LIBRARY_PATH", "").split(":"))
    return any(
        system.read_node(f"{folder}/libvulkan.so.1") is not None for folder in folders if folder
    )


WEBGPU = WebGpu()
