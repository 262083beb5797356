"""AMD devices on Linux: the amdgpu driver's sysfs and the kernel's compute list (kfd)."""

from __future__ import annotations

from typing import NamedTuple

from anyrig.devices.describe import Device, Memory, Pool, SourceReport
from anyrig.devices.parts import amd as parts
from anyrig.devices.sources.pci import Controller
from anyrig.devices.sources.system import System
from anyrig.units import format_bytes, pluralize

VENDOR = 0x1002
_KFD = "/sys/class/kfd/kfd/topology/nodes"


class ComputeNode(NamedTuple):
    """A GPU as kfd, and so ROCm, sees it."""

    number: int
    """Its place among kfd's GPUs, which ROCm counts by."""
    target: str | None
    address: str
    render_minor: int
    num_units: int
    unique_id: int
    device: int
    memory_bytes: int


def find(
    system: System, controllers: tuple[Controller, ...], system_memory: Memory
) -> tuple[list[Device], SourceReport]:
    """Every AMD GPU that DRM or kfd shows."""
    cards = [c for c in controllers if c.vendor == VENDOR]
    nodes = _compute_nodes(system)
    devices: list[Device] = []
    taken: set[int] = set()
    for card in cards:
        mine = [i for i, node in enumerate(nodes) if i not in taken and _same(node, card)]
        # A partitioned accelerator (MI300X in CPX mode) is one card on the bus and several in kfd.
        for part_number, i in enumerate(mine or [-1]):
            node = nodes[i] if i >= 0 else None
            taken.add(i)
            devices.append(
                _describe(system, card, node, system_memory, part_number, len(mine) or 1)
            )
    devices += [
        _from_kfd_alone(node, system_memory) for i, node in enumerate(nodes) if i not in taken
    ]
    if not devices:
        return [], SourceReport("amd", "nothing", "no AMD GPU on the bus or in kfd")
    text = f"{pluralize(len(cards), 'card')} on the bus, {len(nodes)} in kfd"
    return devices, SourceReport("amd", "found", text)


def _compute_nodes(system: System) -> list[ComputeNode]:
    nodes: list[ComputeNode] = []
    for name in sorted(system.names(_KFD), key=lambda n: (len(n), n)):
        rows = (line.split() for line in system.peek(f"{_KFD}/{name}/properties").splitlines())
        facts = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
        target = parts.target_of_version(facts.get("gfx_target_version", 0))
        if not facts.get("simd_count"):
            continue  # the CPU has a node too, with no SIMD
        nodes.append(
            ComputeNode(
                number=len(nodes),
                target=target,
                address=_address(facts.get("domain", 0), facts.get("location_id", 0)),
                render_minor=facts.get("drm_render_minor", 0),
                num_units=facts["simd_count"] // max(1, facts.get("simd_per_cu", 0) or 2),
                unique_id=facts.get("unique_id", 0),
                device=facts.get("device_id", 0),
                memory_bytes=_bank_bytes(system, f"{_KFD}/{name}/mem_banks"),
            )
        )
    return nodes


def _bank_bytes(system: System, folder: str) -> int:
    total = 0
    for bank in system.names(folder):
        rows = (line.split() for line in system.peek(f"{folder}/{bank}/properties").splitlines())
        facts = {row[0]: row[1] for row in rows if len(row) == 2}
        if facts.get("heap_type") in ("1", "2"):  # frame buffer, public or private
            total += int(facts.get("size_in_bytes", "0"))
    return total


def _address(domain: int, location: int) -> str:
    """kfd packs bus, slot and function into one number, as the bus itself does."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _same(node: ComputeNode, card: Controller) -> bool:
    # Partitions have render nodes of their own but share the card's address.
    same_node = card.render_node.endswith(f"renderD{node.render_minor}")
    return (node.render_minor > 0 and same_node) or node.address == card.address


def _describe(
    system: System,
    card: Controller,
    node: ComputeNode | None,
    system_memory: Memory,
    part_number: int,
    num_parts: int,
) -> Device:
    target = (node.target if node else None) or parts.target_of_pci(card.device)
    architecture, features = parts.describe(target)
    blocked, fix = _blocked(card)
    identity = f"GPU-{node.unique_id:016x}" if node and node.unique_id else ""
    identity = identity or _unique_id(system, card)
    if num_parts > 1:
        identity = f"{identity or card.address}/{part_number}"
    return Device(
        id=identity or card.address,
        kind="gpu",
        vendor="amd",
        name=_name(system, card, target),
        architecture=architecture,
        capability=target,
        memory=_memory(system, card, target, system_memory, num_parts, node),
        driver=card.driver or None,
        driver_version=system.peek("/sys/module/amdgpu/version")
        or (f"in kernel {system.host().get('release', '')}" if card.driver == "amdgpu" else None),
        pci_address=card.address,
        pci_id=card.pci_id,
        features=features,
        part="partition" if num_parts > 1 else "whole",
        units=node.num_units if node else None,
        indices={"kfd": node.number} if node else {},
        blocked=blocked,
        blocked_fix=fix,
        notes=() if node else ("kfd does not list it, so ROCm does not see it",),
    )


def _blocked(card: Controller) -> tuple[str, str]:
    if card.driver == "vfio-pci":
        return "it is passed through to a virtual machine (vfio-pci)", ""
    if card.driver == "radeon":
        return "the old radeon driver holds it, which computes nothing", "sudo modprobe amdgpu"
    if not card.driver and not card.card:
        return "no driver holds it", "sudo modprobe amdgpu"
    return "", ""


def _unique_id(system: System, card: Controller) -> str:
    number = system.peek(f"{card.folder}/unique_id")
    return f"GPU-{number}" if number.strip("0") else ""


def _name(system: System, card: Controller, target: str | None) -> str:
    product = system.peek(f"{card.folder}/product_name")
    listed = system.catalogue("amdgpu", f"{card.device:04x}:{card.revision:02x}")
    by_bus = system.catalogue("pci", card.pci_id).partition("[")[2].rstrip("]")
    name = product or listed or by_bus
    if not name:
        return f"AMD GPU {card.pci_id}" + (f" ({target})" if target else "")
    return name if name.startswith("AMD") else f"AMD {name}"


def _memory(
    system: System,
    card: Controller,
    target: str | None,
    system_memory: Memory,
    num_parts: int,
    node: ComputeNode | None,
) -> Memory:
    total = system.number(f"{card.folder}/mem_info_vram_total")
    used = system.number(f"{card.folder}/mem_info_vram_used")
    if total is None:
        if node and node.memory_bytes:
            return Memory("dedicated", node.memory_bytes, None, note="kfd's figure; free unknown")
        return Memory(note="the driver does not tell its memory")
    free = max(0, total - used) if used is not None else None
    gtt = system.number(f"{card.folder}/mem_info_gtt_total")
    # The MI300A shares its target with the MI300X; it has no memory of its own.
    if (parts.is_apu(target) or total == 0) and gtt is not None:
        gtt_used = system.number(f"{card.folder}/mem_info_gtt_used") or 0
        return _apu_memory(total, free, gtt, gtt_used, system_memory)
    if num_parts > 1:
        free = free // num_parts if free is not None else None
        note = f"one of {num_parts} parts of {format_bytes(total)}"
        return Memory("dedicated", total // num_parts, free, note=note)
    return Memory("dedicated", total, free)


def _apu_memory(
    carve: int, carve_free: int | None, gtt: int, gtt_used: int, system_memory: Memory
) -> Memory:
    """A carve-out that is the GPU's alone, plus the system memory GTT may map."""
    gtt_free = max(0, gtt - gtt_used)
    if system_memory.free_bytes is not None:
        gtt_free = min(gtt_free, system_memory.free_bytes)
    free = gtt_free + (carve_free or 0)
    return Memory(
        "unified",
        carve + gtt,
        min(free, carve + gtt),
        pools=(Pool("carve-out", carve, carve_free), Pool("GTT", gtt, gtt_free)),
        note=f"{format_bytes(carve)} carve-out and {format_bytes(gtt)} of system memory"
        " through GTT",
    )


def _from_kfd_alone(node: ComputeNode, system_memory: Memory) -> Device:
    """A GPU in a container that was given /dev/kfd without DRM's sysfs."""
    architecture, features = parts.describe(node.target)
    memory = Memory("dedicated", node.memory_bytes) if node.memory_bytes else Memory()
    if parts.is_apu(node.target):
        memory = Memory("unified", system_memory.total_bytes, system_memory.free_bytes)
    return Device(
        id=f"GPU-{node.unique_id:016x}" if node.unique_id else node.address,
        kind="gpu",
        vendor="amd",
        name=f"AMD GPU {VENDOR:04x}:{node.device:04x} ({node.target or 'unknown target'})",
        architecture=architecture,
        capability=node.target,
        memory=memory,
        driver="amdgpu",
        pci_address=node.address,
        pci_id=f"{VENDOR:04x}:{node.device:04x}",
        features=features,
        units=node.num_units,
        indices={"kfd": node.number},
    )
