"""The PCI bus on Linux: every display and compute device, with or without a driver.

The vendors' own interfaces describe their cards better; this list shows the cards they miss.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from anyrig.devices.machine import SourceReport
from anyrig.devices.probe import HostProbe
from anyrig.devices.reasons import DeviceReason, ReasonCode, explain
from anyrig.units import normalize_pci_address

_BUS = "/sys/bus/pci/devices"
_DRM = "/sys/class/drm"
# VGA, 3D and other display devices; and processing accelerators, which are one vendor's compute
# cards but also every vendor's NPUs.
_DISPLAY = ("0x0300", "0x0302", "0x0380")
_ACCELERATOR = "0x1200"
# Adapters of server boards and virtual machines that only show a console.
_DISPLAY_ONLY = {
    0x1A03: "ASPEED", 0x102B: "Matrox", 0x1234: "QEMU", 0x1B36: "QXL", 0x1AF4: "virtio",
    0x15AD: "VMware", 0x1013: "Cirrus", 0x80EE: "VirtualBox", 0x1414: "Hyper-V", 0x1D0F: "Amazon",
}  # fmt: skip


class PciDevice(NamedTuple):
    """One graphics or compute device."""

    folder: str
    """Its folder in sysfs."""
    address: str
    vendor: int
    device: int
    revision: int
    driver: str
    card: str
    """`card0`, if a DRM driver is bound to it."""
    render_node: str
    """`/dev/dri/renderD128`, likewise."""

    @property
    def pci_id(self) -> str:
        """`10de:2684`."""
        return f"{self.vendor:04x}:{self.device:04x}"

    def driver_block(self, module: str) -> DeviceReason | None:
        """Why no driver of this system can use it; `module` is the one to load."""
        if self.driver == "vfio-pci":
            return explain(ReasonCode.PASSED_THROUGH)
        if not self.driver and not self.card:
            return explain(ReasonCode.NO_DRIVER, f"sudo modprobe {module}")
        return None


def list_pci_devices(
    system: HostProbe, accelerator_vendors: Collection[int]
) -> tuple[PciDevice, ...]:
    """Every device, by address; DRM's list first, then what only the bus shows.

    Args:
        accelerator_vendors: those whose processing accelerators are GPUs.
    """
    found: dict[str, PciDevice] = {}
    for device in (*_list_drm(system), *_list_bus(system, accelerator_vendors)):
        found.setdefault(device.address, device)
    return tuple(found[address] for address in sorted(found))


def report_display_only(
    devices: tuple[PciDevice, ...], gpu_vendors: Collection[int]
) -> Iterator[SourceReport]:
    for device in devices:
        if device.vendor not in gpu_vendors:
            maker = _DISPLAY_ONLY.get(device.vendor)
            what = f"{maker} adapter" if maker else "adapter of an unknown vendor"
            text = f"{what} {device.pci_id} at {device.address} is display-only: ignored"
            yield SourceReport("pci", "nothing", text)


def _list_drm(system: HostProbe) -> Iterator[PciDevice]:
    for card in system.list_names(_DRM):
        if re.fullmatch(r"card\d+", card):
            device = _read(system, f"{_DRM}/{card}/device", "")
            if device is not None:
                yield device


def _list_bus(system: HostProbe, accelerator_vendors: Collection[int]) -> Iterator[PciDevice]:
    for address in system.list_names(_BUS):
        folder = f"{_BUS}/{address}"
        pci_class = system.read_text(f"{folder}/class")
        if not pci_class.startswith((*_DISPLAY, _ACCELERATOR)):
            continue
        device = _read(system, folder, address)
        is_accelerator = pci_class.startswith(_ACCELERATOR)
        if device and (not is_accelerator or device.vendor in accelerator_vendors):
            yield device


def _read(system: HostProbe, folder: str, address: str) -> PciDevice | None:
    vendor, device = system.read_number(f"{folder}/vendor"), system.read_number(f"{folder}/device")
    if vendor is None or device is None:
        return None
    uevent = dict(
        line.split("=", 1)
        for line in system.read_text(f"{folder}/uevent").splitlines()
        if "=" in line
    )
    address = address or uevent.get("PCI_SLOT_NAME", "") or system.link(folder).rpartition("/")[2]
    drm = system.list_names(f"{folder}/drm")
    card = next((name for name in drm if re.fullmatch(r"card\d+", name)), "")
    if not card:
        found = re.search(r"/(card\d+)/device$", folder)
        card = found[1] if found else ""
    render = next((name for name in drm if name.startswith("renderD")), "")
    return PciDevice(
        folder=folder,
        address=normalize_pci_address(address) or card,
        vendor=vendor,
        device=device,
        revision=system.read_number(f"{folder}/revision") or 0,
        driver=uevent.get("DRIVER", "") or system.link(f"{folder}/driver").rpartition("/")[2],
        card=card,
        render_node=f"/dev/dri/{render}" if render else "",
    )
