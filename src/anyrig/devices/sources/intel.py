"""Intel devices on Linux: sysfs for what is there, the DRM ioctls of i915 and xe for memory."""

from __future__ import annotations

from typing import Any

from anyrig.devices.describe import Device, Memory, Pool, SourceReport
from anyrig.devices.parts import intel as parts
from anyrig.devices.sources.pci import Controller
from anyrig.devices.sources.system import Silent, System
from anyrig.units import pluralize

VENDOR = 0x8086
_DEVICE_MEMORY = 1  # I915_MEMORY_CLASS_DEVICE, DRM_XE_MEM_REGION_CLASS_VRAM


def find(
    system: System, controllers: tuple[Controller, ...], system_memory: Memory
) -> tuple[list[Device], SourceReport]:
    """Every Intel GPU that DRM or the bus shows."""
    cards = [c for c in controllers if c.vendor == VENDOR]
    devices = [_describe(system, card, system_memory) for card in cards]
    if not devices:
        return [], SourceReport("intel", "nothing", "no Intel GPU on the bus")
    drivers = ", ".join(sorted({card.driver or "no driver" for card in cards}))
    return devices, SourceReport(
        "intel", "found", f"{pluralize(len(cards), 'card')} under {drivers}"
    )


def _describe(system: System, card: Controller, system_memory: Memory) -> Device:
    part = parts.describe(card.device)
    blocked, fix = "", ""
    if card.driver == "vfio-pci":
        blocked = "it is passed through to a virtual machine (vfio-pci)"
    elif not card.driver and not card.card:
        module = "xe" if part.architecture in ("Xe2-HPG", "Xe2-LPG", "Xe3-LPG") else "i915"
        blocked, fix = "no driver holds it", f"sudo modprobe {module}"
    listed = system.catalogue("pci", card.pci_id)
    listed = listed.partition("[")[2].rstrip("]") or listed
    name = parts.name(card.device) or (f"Intel {listed.removeprefix('Intel ')}" if listed else "")
    return Device(
        id=card.address,
        kind="gpu",
        vendor="intel",
        name=name or f"Intel {part.architecture or 'GPU'} {card.pci_id}",
        architecture=part.architecture,
        memory=_memory(system, card, part, system_memory),
        driver=card.driver or None,
        driver_version=f"in kernel {system.host().get('release', '')}" if card.driver else None,
        pci_address=card.address,
        pci_id=card.pci_id,
        features=part.features,
        blocked=blocked,
        blocked_fix=fix,
    )


def _memory(system: System, card: Controller, part: parts.Part, system_memory: Memory) -> Memory:
    regions, silence = _regions(system, card)
    local = [region for region in regions if _class(region) == _DEVICE_MEMORY]
    if local:
        total = sum(_size(region) for region in local)
        borrowed = [region for region in regions if _class(region) != _DEVICE_MEMORY]
        pools = tuple(Pool("system", _size(region)) for region in borrowed)
        free = _free(local)
        hidden = "the kernel tells free memory to privileged users only"
        return Memory("dedicated", total, free, pools, hidden if free is None else "")
    by_sysfs = _sysfs_bytes(system, card)
    if by_sysfs:
        return Memory("dedicated", by_sysfs, None, note=silence)
    if part.integrated or regions:
        # The kernel's own figure of the system memory it lets the GPU map, where it tells one.
        told = sum(_size(region) for region in regions) or system_memory.total_bytes
        free = system_memory.free_bytes
        pools = (Pool("system", told, free),)
        shared = min(filter(None, (told, system_memory.total_bytes)), default=None)
        free = min(free, shared) if free and shared else free
        note = "shares the system's memory" + (f" ({silence})" if silence else "")
        return Memory("unified", shared, free, pools, note)
    return Memory(note=silence or "the driver does not tell its memory")


def _regions(system: System, card: Controller) -> tuple[list[dict[str, Any]], str]:
    node = card.render_node or (f"/dev/dri/{card.card}" if card.card else "")
    if not node:
        return [], "no DRM node"
    try:
        return list(system.drm(node).get("regions", [])), ""
    except Silent as silence:
        return [], str(silence)


def _class(region: dict[str, Any]) -> int:
    return int(region.get("mem_class", region.get("memory_class", -1)))


def _size(region: dict[str, Any]) -> int:
    return int(region.get("total_size", region.get("probed_size", 0)))


def _free(local: list[dict[str, Any]]) -> int | None:
    """What is left, where the kernel tells it: without CAP_PERFMON xe says 0 used and i915 says
    everything is unallocated, which nobody can tell from an idle card.
    """
    left = 0
    for region in local:
        if "used" in region:
            if not region["used"]:
                return None
            left += _size(region) - int(region["used"])
        else:
            if region.get("unallocated_size", _size(region)) >= _size(region):
                return None
            left += int(region["unallocated_size"])
    return left


def _sysfs_bytes(system: System, card: Controller) -> int:
    """xe's tiles, or the out-of-tree i915's total."""
    total = 0
    for name in system.names(card.folder):
        if name.startswith("tile"):
            total += system.number(f"{card.folder}/{name}/physical_vram_size_bytes") or 0
    return total or system.number(f"{card.folder}/lmem_total_bytes") or 0
