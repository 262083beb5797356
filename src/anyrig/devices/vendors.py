"""Every vendor of GPUs that anyrig knows, and what follows from their files."""

from __future__ import annotations

from collections.abc import Mapping

from anyrig.devices import amd, apple, intel, nvidia, qualcomm
from anyrig.devices.directml import DIRECTML
from anyrig.devices.machine import Device
from anyrig.devices.vendor import BackendSource, Vendor
from anyrig.devices.webgpu import WEBGPU

VENDORS: dict[str, Vendor] = {
    vendor.name: vendor
    for vendor in (nvidia.VENDOR, amd.VENDOR, intel.VENDOR, apple.VENDOR, qualcomm.VENDOR)
}
SHARED: tuple[BackendSource, ...] = (DIRECTML, WEBGPU)
"""Backends that serve GPUs of any vendor."""
SOURCES: tuple[BackendSource, ...] = (*VENDORS.values(), *SHARED)
_UNKNOWN = Vendor()
# What a description of a machine depends on, beside the variables of vendors; all others are the
# user's own.
_OTHER_VARIABLES = (
    "PYTORCH_ALLOC_CONF", "OMP_NUM_THREADS", "container", "KUBERNETES_SERVICE_HOST",
    "WSL_DISTRO_NAME",
)  # fmt: skip


def vendor_of(device: Device) -> Vendor:
    """The vendor of a GPU; one without tools if it is unknown."""
    return VENDORS.get(device.vendor, _UNKNOWN)


def find_vendor(pci_vendor: int) -> Vendor | None:
    return next((one for one in VENDORS.values() if pci_vendor in one.pci_vendors), None)


def select_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that affect devices, and no secrets beside them."""
    names = [*_OTHER_VARIABLES]
    for source in SOURCES:
        names += source.other_variables
    for vendor in VENDORS.values():
        names += vendor.visibility_variables
    found = {name: environment[name] for name in sorted(set(names)) if name in environment}
    # Paths may contain a person's name; that they are set is all that counts.
    return {name: "set" if name.startswith("VK_") else value for name, value in found.items()}
