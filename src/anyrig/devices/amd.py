"""AMD: devices through amdgpu's sysfs and kfd on Linux, the gfx target table, ROCm backends, what
the doctor checks.

gfx names and families: LLVM's AMDGPU target table. bf16 and fp8: ISA documents; RDNA 2 has no bf16
dot products, RDNA 3 has WMMA with bf16, gfx94x has fp8 (fnuz), gfx95x and gfx120x have OCP fp8.
TF32 as in torch: gfx94x and gfx95x. A target that is not in the table is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from anyrig.devices import pci
from anyrig.devices.findings import Findings, check_access, good, unusable
from anyrig.devices.machine import (
    Device,
    DeviceBackend,
    DeviceNote,
    DevicePart,
    Features,
    HostFacts,
    Machine,
    Memory,
    MemoryPool,
    Platform,
    SourceReport,
)
from anyrig.devices.probe import HostProbe
from anyrig.devices.reasons import DeviceReason, ReasonCode, explain
from anyrig.devices.vendor import AdapterFacts, FlashAdvice, TorchWheel, Vendor, VisibleOrder
from anyrig.devices.wheels import Version, parse_version
from anyrig.units import format_bytes, is_whole_number, pluralize

NAME = "amd"
_PCI_VENDOR = 0x1002
_NOT_IN_KFD = "not_in_kfd"
_ROCDXG = "rocdxg"
"""The fact: ROCm's bridge to DirectX in WSL2 is installed."""

# -- hardware ------------------------------------------------------------------------------------

_GCN = Features(fp16="slow", tf32=False, bf16=False, fp8=False, fp4=False)
_VEGA = Features(fp16="fast", tf32=False, bf16=False, fp8=False, fp4=False)
_CDNA = Features(fp16="matrix", tf32=False, bf16=True, fp8=False, fp4=False)
_CDNA3 = Features(fp16="matrix", tf32=True, bf16=True, fp8=True, fp4=False, fnuz=True)
_CDNA4 = Features(fp16="matrix", tf32=True, bf16=True, fp8=True, fp4=True)
_RDNA4 = Features(fp16="matrix", tf32=False, bf16=True, fp8=True, fp4=False)

_TARGETS: dict[str, tuple[str, Features]] = {
    "gfx801": ("GCN 3", _GCN),
    "gfx802": ("GCN 3", _GCN),
    "gfx803": ("GCN 4", _GCN),
    "gfx900": ("Vega", _VEGA),
    "gfx902": ("Vega", _VEGA),
    "gfx904": ("Vega", _VEGA),
    "gfx906": ("Vega", _VEGA),
    "gfx909": ("Vega", _VEGA),
    "gfx90c": ("Vega", _VEGA),
    "gfx908": ("CDNA", _CDNA),
    "gfx90a": ("CDNA 2", _CDNA),
    "gfx940": ("CDNA 3", _CDNA3),
    "gfx941": ("CDNA 3", _CDNA3),
    "gfx942": ("CDNA 3", _CDNA3),
    "gfx950": ("CDNA 4", _CDNA4),
}
# Families whose members share architecture and features.
_FAMILIES: tuple[tuple[str, str, Features], ...] = (
    ("gfx101", "RDNA", _VEGA),
    ("gfx103", "RDNA 2", _VEGA),
    ("gfx110", "RDNA 3", _CDNA),
    ("gfx115", "RDNA 3.5", _CDNA),
    ("gfx120", "RDNA 4", _RDNA4),
)

# Target by PCI device number, for systems without the kernel's kfd list (Windows, WSL2).
# Numbers and names from the public PCI list; targets from the kernel's and LLVM's chip lists.
_PCI: dict[int, str] = {}
for _gfx, _numbers in {
    "gfx803": "67c0 67c2 67c4 67c7 67ca 67cc 67cf 67d0 67d4 67d7 67df 6fdf "  # Polaris 10, 20
    "67e0 67e1 67e3 67e8 67e9 67eb 67ef 67ff "  # Polaris 11
    "6980 6981 6985 6986 6987 6995 6997 699f "  # Polaris 12: RX 550, 640
    "7300 730f",  # Fiji
    "gfx900": "6860 6861 6862 6863 6864 6867 6868 6869 686a 686b 686c 686d 686e 687f",
    "gfx906": "66a0 66a1 66a2 66a3 66a7 66af",
    "gfx908": "7388 738c 738e 7390",
    "gfx90a": "7408 740c 740f 7410",
    "gfx942": "74a0 74a1 74a2 74a5 74a9 74b5 74b6 74bd",
    "gfx950": "75a0 75a3 75b0 75b3",
    "gfx902": "15dd 15d8",
    "gfx90c": "1636 1638 164c 15e7",
    "gfx1010": "7310 7312 7318 7319 731a 731b 731e 731f",
    "gfx1012": "7340 7341 7347 734f",
    "gfx1030": "73a0 73a1 73a2 73a3 73a5 73ab 73ae 73af 73bf",
    "gfx1031": "73c0 73c1 73c3 73da 73db 73dc 73dd 73de 73df",
    "gfx1032": "73e0 73e1 73e2 73e3 73e8 73e9 73ea 73eb 73ec 73ed 73ef 73ff",
    "gfx1034": "7420 7421 7422 7423 7424 743f",
    "gfx1033": "163f 1435",
    "gfx1035": "1681 164d",
    "gfx1036": "164e 13c0 1506",
    "gfx1100": "7448 7449 744a 744b 744c 745e",
    "gfx1101": "7460 7461 7470 747e",
    "gfx1102": "7480 7481 7483 7487 7489 748b 7499 749f",
    "gfx1103": "15bf 15c8 1900 1901",
    "gfx1150": "150e",
    "gfx1151": "1586",
    "gfx1152": "1114",
    "gfx1200": "7590",
    "gfx1201": "7550 7551",
}.items():
    _PCI.update(dict.fromkeys((int(number, 16) for number in _numbers.split()), _gfx))
# On the processor's die: memory is a carve-out of the machine's plus what GTT may map.
_APU_TARGETS = frozenset(
    "gfx801 gfx902 gfx909 gfx90c gfx1033 gfx1035 gfx1036 gfx1103 gfx1150 gfx1151 gfx1152 "
    "gfx1153".split()
)


def describe_target(target: str | None) -> tuple[str | None, Features]:
    """Architecture and features; unknown for a target that is not listed."""
    if target in _TARGETS:
        return _TARGETS[target]
    for family, architecture, features in _FAMILIES:
        if target and target.startswith(family) and len(target) == len(family) + 1:
            return architecture, features
    return None, Features()


def find_target(pci_device: int) -> str | None:
    """The gfx target of a PCI device number, if known."""
    return _PCI.get(pci_device)


def parse_target(version: int) -> str | None:
    """kfd's gfx_target_version as a name: 90402 is gfx942, 90010 gfx90a, 110501 gfx1151."""
    if version <= 0:
        return None
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def is_apu(target: str | None) -> bool:
    """Whether a target is on the processor's die. The MI300A shares gfx942: see its memory."""
    return target in _APU_TARGETS


def can_run(target: str, kernels: tuple[str, ...]) -> bool:
    """Whether a ROCm build for `kernels` runs on a target: exact, or the family's generic code."""
    generic = {"gfx9-generic", "gfx10-3-generic", "gfx11-generic", "gfx12-generic"}
    families = {f"gfx{target[3:-2]}-generic", f"gfx{target[3:-2]}-{target[-2]}-generic"}
    return target in kernels or bool(families & generic & set(kernels))


# -- discovery on Linux --------------------------------------------------------------------------

_KFD = "/sys/class/kfd/kfd/topology/nodes"


class ComputeNode(NamedTuple):
    """A GPU as kfd, and so ROCm, lists it."""

    number: int
    """Its place among kfd's GPUs, which is ROCm's order."""
    target: str | None
    address: str
    render_minor: int
    num_units: int
    unique_id: int
    device: int
    memory_bytes: int
    gpu_id: str
    """What kfd calls it in its list of processes."""
    partition: int | None = None
    """Its number among the partitions of a card: an MI300X in CPX mode has eight."""

    @property
    def id(self) -> str:
        return f"GPU-{self.unique_id:016x}" if self.unique_id else ""


def list_compute_nodes(system: HostProbe) -> list[ComputeNode]:
    """The GPUs that kfd lists, in its order."""
    nodes: list[ComputeNode] = []
    for name in sorted(system.list_names(_KFD), key=lambda n: (len(n), n)):
        facts = read_properties(system, f"{_KFD}/{name}")
        if not facts.get("simd_count"):
            continue  # the CPU has a node too, without SIMD units
        banks = [
            read_properties(system, f"{_KFD}/{name}/mem_banks/{bank}")
            for bank in system.list_names(f"{_KFD}/{name}/mem_banks")
        ]
        # Heap types 1 and 2 are the frame buffer, public and private.
        sizes = [bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in (1, 2)]
        # kfd packs bus, slot and function into one number, as the bus itself does, below the number
        # of a partition.
        domain, location = facts.get("domain", 0), facts.get("location_id", 0)
        bus, slot, function = location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7
        nodes.append(
            ComputeNode(
                number=len(nodes),
                target=parse_target(facts.get("gfx_target_version", 0)),
                address=f"{domain:04x}:{bus:02x}:{slot:02x}.{function}",
                render_minor=facts.get("drm_render_minor", 0),
                num_units=facts["simd_count"] // max(1, facts.get("simd_per_cu", 0) or 2),
                unique_id=facts.get("unique_id", 0),
                device=facts.get("device_id", 0),
                memory_bytes=sum(sizes),
                gpu_id=system.read_text(f"{_KFD}/{name}/gpu_id"),
                partition=location >> 28 or None,
            )
        )
    return _number_partitions(nodes)


def _number_partitions(nodes: list[ComputeNode]) -> list[ComputeNode]:
    """The nodes; those that share a card have the card's address and a number each."""
    slots: dict[str, set[int]] = {}
    for node in nodes:
        slots.setdefault(node.address[:-2], set()).add(node.unique_id)
    cards: dict[str, list[ComputeNode]] = {}
    for node in nodes:
        # Kernels before 6.11 have the partition's number in place of the PCI function.
        same_card = len(slots[node.address[:-2]]) == 1 and node.unique_id
        cards.setdefault(node.address[:-2] if same_card else node.address, []).append(node)
    found: dict[int, ComputeNode] = {}
    for own in cards.values():
        if len(own) == 1:
            found[own[0].number] = own[0]
            continue
        address = min(node.address for node in own)
        for node, partition in zip(own, _find_partition_numbers(own), strict=True):
            found[node.number] = node._replace(address=address, partition=partition)
    return [found[number] for number in sorted(found)]


def _find_partition_numbers(nodes: list[ComputeNode]) -> list[int]:
    """kfd's own numbers, else the functions, else the order of the render nodes, else kfd's."""
    minors = [node.render_minor for node in nodes]
    for numbers in (
        [node.partition or 0 for node in nodes],
        [int(node.address[-1]) for node in nodes],
        [sorted(minors).index(minor) for minor in minors],
    ):
        if len(set(numbers)) == len(nodes):
            return numbers
    return list(range(len(nodes)))


def read_properties(system: HostProbe, folder: str) -> dict[str, int]:
    rows = (line.split() for line in system.read_text(f"{folder}/properties").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def _is_same(node: ComputeNode, card: pci.PciDevice) -> bool:
    # Partitions have render nodes of their own but share the card's address.
    same_node = card.render_node.endswith(f"renderD{node.render_minor}")
    return (node.render_minor > 0 and same_node) or node.address == card.address


def _describe(
    system: HostProbe,
    card: pci.PciDevice,
    node: ComputeNode | None,
    memory: Memory,
    num_parts: int,
) -> Device:
    target = (node.target if node else None) or find_target(card.device)
    architecture, features = describe_target(target)
    unique_id = system.read_text(f"{card.folder}/unique_id")
    device_id = (node.id if node else "") or (f"GPU-{unique_id}" if unique_id.strip("0") else "")
    in_kernel = f"in kernel {system.host().get('release', '')}" if card.driver == "amdgpu" else None
    unlisted = DeviceNote(_NOT_IN_KFD, "not listed by kfd, so ROCm cannot use it")
    return Device(
        id=_partition_id(device_id or card.address, node),
        kind="gpu",
        vendor=NAME,
        name=_read_name(system, card, target),
        architecture=architecture,
        capability=target,
        memory=_read_memory(system, card, target, memory, num_parts, node),
        driver=card.driver or None,
        driver_version=system.read_text("/sys/module/amdgpu/version") or in_kernel,
        pci_address=card.address,
        pci_id=card.pci_id,
        features=features,
        part=_find_part(node),
        units=node.num_units if node else None,
        indices={"kfd": node.number} if node else {},
        hardware_block=_driver_block(card),
        notes=() if node else (unlisted,),
    )


def _partition_id(card_id: str, node: ComputeNode | None) -> str:
    return card_id if node is None or node.partition is None else f"{card_id}/{node.partition}"


def _find_part(node: ComputeNode | None) -> DevicePart:
    return "whole" if node is None or node.partition is None else "partition"


def _driver_block(card: pci.PciDevice) -> DeviceReason | None:
    if card.driver == "radeon":
        fix = "sudo modprobe amdgpu"
        return explain(ReasonCode.WRONG_DRIVER, fix, driver="legacy radeon", feature="compute")
    return card.driver_block("amdgpu")


def _read_name(system: HostProbe, card: pci.PciDevice, target: str | None) -> str:
    name = (
        system.read_text(f"{card.folder}/product_name")
        or system.hardware_name("amdgpu", f"{card.device:04x}:{card.revision:02x}")
        or system.hardware_name("pci", card.pci_id).partition("[")[2].rstrip("]")
    )
    if not name:
        return f"AMD GPU {card.pci_id}" + (f" ({target})" if target else "")
    return name if name.startswith("AMD") else f"AMD {name}"


def _read_memory(
    system: HostProbe,
    card: pci.PciDevice,
    target: str | None,
    system_memory: Memory,
    num_parts: int,
    node: ComputeNode | None,
) -> Memory:
    total = system.read_number(f"{card.folder}/mem_info_vram_total")
    used = system.read_number(f"{card.folder}/mem_info_vram_used")
    if total is None:
        if node and node.memory_bytes:
            note = "reported by kfd; free memory unknown"
            return Memory("dedicated", node.memory_bytes, None, note=note)
        return Memory(note="the driver does not report its memory")
    free = max(0, total - used) if used is not None else None
    gtt = system.read_number(f"{card.folder}/mem_info_gtt_total")
    # The MI300A shares its target with the MI300X; it has no memory of its own.
    if (is_apu(target) or total == 0) and gtt is not None:
        gtt_used = system.read_number(f"{card.folder}/mem_info_gtt_used") or 0
        return _apu_memory(total, free, gtt, gtt_used, system_memory)
    if node and node.partition is not None:
        share = node.memory_bytes or total // num_parts
        free = None if free is None or num_parts == 1 else min(share, free // num_parts)
        note = f"one of {num_parts} partitions of {format_bytes(total)}"
        return Memory("dedicated", share, free, note=note if num_parts > 1 else "a partition")
    return Memory("dedicated", total, free)


def _apu_memory(
    carve: int, carve_free: int | None, gtt: int, gtt_used: int, system_memory: Memory
) -> Memory:
    """A carve-out that is the GPU's alone, plus the system memory GTT may map."""
    gtt_free = max(0, gtt - gtt_used)
    if system_memory.free_bytes is not None:
        gtt_free = min(gtt_free, system_memory.free_bytes)
    return Memory(
        "unified",
        carve + gtt,
        min(gtt_free + (carve_free or 0), carve + gtt),
        (MemoryPool("carve-out", carve, carve_free), MemoryPool("GTT", gtt, gtt_free)),
        f"{format_bytes(carve)} carve-out and {format_bytes(gtt)} of system memory through GTT",
    )


def _describe_kfd_only(node: ComputeNode, system_memory: Memory) -> Device:
    """A GPU in a container that has /dev/kfd but not DRM's sysfs."""
    architecture, features = describe_target(node.target)
    memory = Memory("dedicated", node.memory_bytes) if node.memory_bytes else Memory()
    if is_apu(node.target):
        memory = Memory("unified", system_memory.total_bytes, system_memory.free_bytes)
    pci_id = f"{_PCI_VENDOR:04x}:{node.device:04x}"
    return Device(
        id=_partition_id(node.id or node.address, node),
        kind="gpu",
        vendor=NAME,
        name=f"AMD GPU {pci_id} ({node.target or 'unknown target'})",
        architecture=architecture,
        capability=node.target,
        memory=memory,
        driver="amdgpu",
        pci_address=node.address,
        pci_id=pci_id,
        features=features,
        part=_find_part(node),
        units=node.num_units,
        indices={"kfd": node.number},
    )


# -- the order of ROCm ----------------------------------------------------------------------------


_ROCR = "ROCR_VISIBLE_DEVICES"


def _rocm_visible(devices: Sequence[Device], variable: str, value: str) -> list[Device]:
    """Indices or `GPU-` ids, up to the first that matches nothing.

    An entry that is repeated ends ROCr's list and is skipped in HIP's.
    """
    visible: list[Device] = []
    for entry in (part.strip() for part in value.split(",")):
        device = _rocm_entry(devices, entry, is_prefix=variable == _ROCR)
        if device is None or (device in visible and variable == _ROCR):
            break
        if device not in visible:
            visible.append(device)
    return visible


def _rocm_entry(devices: Sequence[Device], entry: str, *, is_prefix: bool) -> Device | None:
    if is_whole_number(entry):
        return devices[int(entry)] if int(entry) < len(devices) else None
    # To ROCm a partition has the id of its card.
    ids = [(device.id.lower(), device.id.lower().partition("/")[0]) for device in devices]
    for device, own in zip(devices, ids, strict=True):
        if entry.lower() in own:
            return device
    if not is_prefix or not entry.lower().startswith("gpu-") or len(entry) <= len("gpu-"):
        return None
    cards = {card for _, card in ids if card.startswith(entry.lower())}
    if len(cards) != 1:
        return None
    return next(device for device, own in zip(devices, ids, strict=True) if own[1] in cards)


# -- kernels in wheels ---------------------------------------------------------------------------

_TARGETS_IN_WHEELS: tuple[tuple[Version, str], ...] = (
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


def list_rocm_targets(rocm: str) -> tuple[str, ...] | None:
    """The gfx targets in torch's Linux wheel for that ROCm."""
    runtime = parse_version(rocm)
    rows = [
        kernels for first, kernels in _TARGETS_IN_WHEELS if runtime is not None and first <= runtime
    ]
    if not rows or (runtime and runtime > _TARGETS_IN_WHEELS[-1][0]):
        return None
    return tuple(rows[-1].split())


# -- backends ------------------------------------------------------------------------------------

_ROCM = "7.2"
_ONNX_TITLE = "ONNX Runtime for ROCm"
_DROPPED = ("gfx7", "gfx80", "gfx902")
# The newest ROCm that a version of torch was built with, by its release matrix.
_ROCM_OF_TORCH: dict[Version, str] = {
    (2, 6): "6.2.4", (2, 7): "6.3", (2, 8): "6.4", (2, 9): "6.4",
}  # fmt: skip


def _torch_block(device: Device, host: HostFacts) -> DeviceReason | None:
    torch, fix = host.installed.torch, VENDOR.find_torch_fix(device, host)
    if torch is None or torch.flavour != VENDOR.torch_flavour:
        return host.torch_block(VENDOR.torch_flavour, VENDOR.torch_title, fix)
    if _gfx_override(host) or VENDOR.has_kernels(device, torch.kernels):
        return None
    return explain(ReasonCode.NO_KERNELS, fix, package=torch.title, capability=device.capability)


def _rocm_block(device: Device, host: HostFacts) -> DeviceReason | None:
    """Why ROCm cannot use the card, whatever torch is installed."""
    target, platform = device.capability or "", host.platform
    if target.startswith(_DROPPED):
        return explain(ReasonCode.ROCM_DROPPED, target=target)
    if platform.system == "Windows":
        return _windows_block(target)
    if platform.wsl == 2:
        fix = "see docs/troubleshooting.md#wsl2: install AMD's ROCm for WSL with librocdxg"
        return None if host.facts.get(_ROCDXG) else explain(ReasonCode.NO_ROCDXG, fix)
    unlisted = device.has_note(_NOT_IN_KFD)
    # ROCr opens a render node for every GPU of kfd.
    access = kfd_block(host) or host.render_block
    return access or (explain(ReasonCode.NOT_IN_KFD) if unlisted else None)


def kfd_block(host: HostFacts) -> DeviceReason | None:
    """Why this user cannot open /dev/kfd, which ROCm needs on Linux."""
    if host.has_node("/dev/kfd"):
        return host.permission_block("/dev/kfd")
    if host.platform.container:
        fix = "docker run --device /dev/kfd --device /dev/dri --group-add video ..."
        return explain(ReasonCode.NOT_IN_CONTAINER, fix, path="/dev/kfd")
    # If the driver is loaded already, the kernel's log says why it offers no compute.
    return explain(ReasonCode.NO_KFD, "sudo modprobe amdgpu && sudo dmesg | grep -i kfd")


def _windows_block(target: str) -> DeviceReason | None:
    if not target or target.startswith(("gfx110", "gfx115", "gfx120")):
        return None
    return explain(ReasonCode.NO_WINDOWS_BUILD, target=target)


def _gfx_override(host: HostFacts) -> str:
    """The gfx target that ROCm runs a GPU as, if it is not its own."""
    return host.environment.get("HSA_OVERRIDE_GFX_VERSION", "")


# -- checks of the doctor ------------------------------------------------------------------------


def _check_access(machine: Machine) -> Findings:
    """This user may open the render nodes and /dev/kfd."""
    here = machine.platform
    if here.system != "Linux" or here.wsl or not any(machine.gpus_of(NAME)):
        return
    # ROCm is not published for ARM: there the render nodes serve WebGPU.
    kfd = None if here.is_arm else kfd_block(machine.host)
    if kfd and kfd.code is ReasonCode.NOT_IN_CONTAINER:
        return  # explained by `amd-container`
    blocks = [block for block in (kfd, machine.host.render_block) if block]
    paths = ("/dev/dri/renderD*",) if here.is_arm else ("/dev/dri/renderD*", "/dev/kfd")
    yield from check_access(machine, blocks, paths)


def _check_container(machine: Machine) -> Findings:
    if not machine.platform.container or not any(machine.gpus_of(NAME)):
        return
    block = kfd_block(machine.host)
    if block and block.code is ReasonCode.NOT_IN_CONTAINER:
        yield unusable(machine, block)
    else:
        yield good("/dev/kfd is mapped into the container")


_FLASH_TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx11", "gfx12")


# -- the vendor ----------------------------------------------------------------------------------


class Amd(Vendor):
    name = NAME
    title = "AMD"
    pci_vendors = (_PCI_VENDOR, 0x1022)
    makes_accelerators = True
    found_on = ("Linux",)
    device_nodes = ("/dev/kfd",)
    needs_render_node = True
    libraries = {"rocm": "ROCm device"}
    synonyms = {"hip": "rocm"}
    borrowed_libraries = {"cuda": "rocm"}  # torch's ROCm build calls its devices cuda
    visibility_variables = (_ROCR, "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    other_variables = (
        "HSA_OVERRIDE_GFX_VERSION", "HSA_ENABLE_DXG_DETECTION", "PYTORCH_HIP_ALLOC_CONF",
    )  # fmt: skip
    packages = ("amdsmi",)
    onnx_packages = {
        "onnxruntime-rocm": ("ROCMExecutionProvider", "MIGraphXExecutionProvider"),
        "onnxruntime-migraphx": ("MIGraphXExecutionProvider",),
    }
    torch_flavour = "rocm"
    torch_title = "ROCm"
    torch_device = "cuda:0"
    torch_tag = re.compile(r"rocm[\d.]+")
    allocator_variables = (
        "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    )  # fmt: skip
    wsl_advice = "AMD GPUs need ROCm for WSL (librocdxg) and a recent Adrenalin driver on Windows"
    checks = {"amd-access": _check_access, "amd-container": _check_container}
    explaining_checks = ("amd-access", "amd-container")

    def find_devices(
        self,
        system: HostProbe,
        pci_devices: tuple[pci.PciDevice, ...],
        memory: Memory,
        platform: Platform,
    ) -> tuple[list[Device], SourceReport]:
        """Every AMD GPU that DRM or kfd lists."""
        cards = [c for c in pci_devices if c.vendor == _PCI_VENDOR]
        nodes = list_compute_nodes(system)
        devices: list[Device] = []
        used: set[int] = set()
        for card in cards:
            own = [node for node in nodes if node.number not in used and _is_same(node, card)]
            used |= {node.number for node in own}
            # A partitioned accelerator is one card on the bus and several in kfd.
            parts: list[ComputeNode | None] = [*own] or [None]
            devices += [_describe(system, card, node, memory, len(own)) for node in parts]
        devices += [_describe_kfd_only(node, memory) for node in nodes if node.number not in used]
        if not devices:
            return [], SourceReport(NAME, "nothing", "no AMD GPU on the bus or in kfd")
        text = f"{pluralize(len(cards), 'card')} on the bus, {len(nodes)} in kfd"
        return devices, SourceReport(NAME, "found", text)

    def describe_adapter(self, pci_device: int) -> AdapterFacts:
        target = find_target(pci_device)
        architecture, features = describe_target(target)
        return AdapterFacts(architecture, target, features, is_apu(target) if target else None)

    def read_facts(self, system: HostProbe) -> Mapping[str, str]:
        bridges = ("/opt/rocm/lib/librocdxg.so", "/usr/lib/wsl/lib/librocdxg.so")
        has_bridge = any(system.read_node(path) is not None for path in bridges)
        rocm = system.read_text("/opt/rocm/.info/version")
        return {_ROCDXG: "yes" if has_bridge else "", "rocm": rocm}

    def find_order(self, devices: list[Device], environment: Mapping[str, str]) -> VisibleOrder:
        """ROCR_VISIBLE_DEVICES applies first, below HIP; then HIP's own list, or else CUDA's."""
        listed = [device for device in devices if not device.has_note(_NOT_IN_KFD)]
        listed.sort(key=lambda d: d.indices.get("kfd", 0))
        rocr, hip, cuda = self.visibility_variables
        names = (rocr, hip if hip in environment else cuda)
        variables = tuple(name for name in names if name in environment)
        visible = listed
        for name in variables:
            visible = _rocm_visible(visible, name, environment[name])
        return VisibleOrder("rocm", listed, visible, variables)

    def read_torch_runtime(self, facts: Mapping[str, str], tag: str, system: str) -> str | None:
        version = facts.get("hip") or (tag[4:] if tag.startswith("rocm") else None)
        return None if version is None else ".".join(version.split(".")[:2])

    def list_torch_kernels(
        self, torch: str, runtime: str, platform: Platform
    ) -> tuple[str, ...] | None:
        return list_rocm_targets(runtime)

    def list_backends(self, device: Device, host: HostFacts) -> list[DeviceBackend]:
        selector, blocked = device.selector_for("rocm"), _rocm_block(device, host)
        title = host.torch_title
        if _gfx_override(host):
            title += f", with HSA_OVERRIDE_GFX_VERSION={_gfx_override(host)}"
        providers = ("MIGraphXExecutionProvider", "ROCMExecutionProvider")  # the second is older
        provider = next(filter(host.installed.package_of, providers), providers[0])
        onnx = host.onnx_backend(
            selector,
            provider,
            _ONNX_TITLE,
            host.onnx_command("onnxruntime-migraphx"),
            blocked,
        )
        # Published for Linux on x86_64 alone, and for what ROCm itself supports.
        platform, target = host.platform, device.capability or "this card"
        published = platform.system == "Linux" and not platform.is_arm
        if not host.installed.package_of(provider):
            where = target if published else f"{platform.system} on {platform.machine}"
            missing = explain(ReasonCode.NO_WHEEL, package=_ONNX_TITLE, platform=where)
            if not published or target not in (list_rocm_targets(_ROCM) or ()):
                onnx = replace(onnx, blocked=missing)
        return [
            # torch's ROCm build calls its devices cuda.
            DeviceBackend("torch", selector, "cuda", title, blocked or _torch_block(device, host)),
            onnx,
        ]

    def has_kernels(self, device: Device, kernels: tuple[str, ...] | None) -> bool:
        """Whether a build runs on the device; one that is not listed may."""
        target = device.capability
        return target is None or kernels is None or can_run(target, kernels)

    def find_torch_fix(self, device: Device, host: HostFacts) -> str:
        """The wheel for this target, or for its sibling with the override."""
        target = device.capability or ""
        if host.platform.system == "Windows":
            wheels_for_windows = "see docs/devices.md#amd-on-windows: AMD's wheels for Python 3.12"
            return "" if _windows_block(target) else wheels_for_windows
        if host.platform.is_arm or target.startswith(_DROPPED):
            return ""
        kernels = list_rocm_targets(_ROCM) or ()
        command = host.torch_command("torch", f"rocm{_ROCM}")
        if target in kernels:
            return command
        # RDNA 2 and 3 GPUs often run as their family's first target.
        family = target[:-1]
        sibling = next((name for name in kernels if name.startswith(family)), "")
        if not sibling or not family.startswith(("gfx103", "gfx110")):
            return ""
        override = f"export HSA_OVERRIDE_GFX_VERSION={sibling[3:-2]}.{sibling[-2]}.{sibling[-1]}"
        return override if host.torch_flavour == self.torch_flavour else f"{command} && {override}"

    def find_torch_wheel(self, device: Device, host: HostFacts, torch: str) -> TorchWheel | None:
        """torch publishes ROCm builds for Linux on x86_64; AMD's own for Windows are others."""
        rocm = _ROCM_OF_TORCH.get(parse_version(torch) or (0, 0))
        platform, target = host.platform, device.capability or ""
        if rocm is None or platform.system != "Linux" or platform.is_arm:
            return None
        runs = target in (list_rocm_targets(rocm) or ()) or bool(_gfx_override(host))
        if (
            not runs
            or target.startswith(_DROPPED)
            or (platform.wsl and not host.facts.get(_ROCDXG))
        ):
            return None
        return TorchWheel(self.torch_flavour, f"rocm{rocm}")

    def describe_override(self, host: HostFacts) -> str:
        value = _gfx_override(host)
        return f"HSA_OVERRIDE_GFX_VERSION={value}" if value else ""

    def advise_flash_attention(self, device: Device) -> FlashAdvice | None:
        if (device.capability or "").startswith(_FLASH_TARGETS):
            return FlashAdvice("FlashAttention 2 can be built for it (CK)")
        return FlashAdvice("no FlashAttention: use SDPA")

    def runs_flash_attention(self, device: Device, package: str, version: str) -> bool:
        return package == "flash-attn" and (device.capability or "").startswith(_FLASH_TARGETS)


VENDOR = Amd()
