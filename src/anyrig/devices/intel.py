"""Intel: devices through sysfs and DRM ioctls on Linux, the hardware table, XPU and OpenVINO, what
the doctor checks.

Device numbers: the kernel's list of Intel graphics (i915 and xe). Matrix units (XMX) came with
Xe-HPG and Xe-HPC; Xe-LP and Xe-LPG have none and compute no bf16. TF32 is documented for Xe-HPC;
for Xe2 and later it is unknown. torch supports Arc A and B, Core Ultra and Data Center Max;
OpenVINO supports Gen 9 and later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anyrig.devices import pci
from anyrig.devices.findings import Findings, check_access
from anyrig.devices.machine import (
    Device,
    DeviceBackend,
    Features,
    HostFacts,
    Machine,
    Memory,
    MemoryPool,
    Platform,
    SourceReport,
)
from anyrig.devices.probe import HostProbe, Unavailable
from anyrig.devices.reasons import ReasonCode, explain
from anyrig.devices.vendor import AdapterFacts, TorchWheel, Vendor, VisibleOrder
from anyrig.units import pluralize

NAME = "intel"
_PCI_VENDOR = 0x8086

# -- hardware ------------------------------------------------------------------------------------

_NO_FP16 = Features(fp16="none", tf32=False, bf16=False, fp8=False, fp4=False)
_VECTOR = Features(fp16="fast", tf32=False, bf16=False, fp8=False, fp4=False)
_XMX = Features(fp16="matrix", tf32=False, bf16=True, fp8=False, fp4=False)
_XE2 = Features(fp16="matrix", tf32=None, bf16=True, fp8=False, fp4=False)
_XE3 = Features(fp16="matrix", tf32=None, bf16=True, fp8=None, fp4=None)
_HPC = Features(fp16="matrix", tf32=True, bf16=True, fp8=False, fp4=False)


class GraphicsFamily(NamedTuple):
    architecture: str | None
    features: Features
    integrated: bool | None
    """None: unknown, or boards of both kinds share the family."""
    xpu: bool | None
    """Whether torch's XPU build lists it as supported."""
    openvino: bool = True
    """Whether OpenVINO supports it, as it does since Gen 9."""


_UNKNOWN = GraphicsFamily(None, Features(), None, None)
_GEN7 = GraphicsFamily("Gen 7.5 or older", _NO_FP16, True, False, openvino=False)
_GEN8 = GraphicsFamily("Gen 8", _VECTOR, True, False, openvino=False)
_GEN9 = GraphicsFamily("Gen 9", _VECTOR, True, False)
_GEN11 = GraphicsFamily("Gen 11", _VECTOR, True, False)
_XE_LP = GraphicsFamily("Xe-LP", _VECTOR, True, False)
_XE_LPG = GraphicsFamily("Xe-LPG", _VECTOR, True, True)
_XE_LPG_PLUS = GraphicsFamily("Xe-LPG+", _XMX, True, True)

# By the upper byte of the device number, except for Core Ultra.
_FAMILIES: dict[int, GraphicsFamily] = {
    **dict.fromkeys((0x00, 0x01, 0x04, 0x0A, 0x0C, 0x0D, 0x0F), _GEN7), 0x16: _GEN8, 0x22: _GEN8,
    0x19: _GEN9, 0x59: _GEN9, 0x5A: _GEN9, 0x31: _GEN9, 0x3E: _GEN9, 0x9B: _GEN9, 0x87: _GEN9,
    0x8A: _GEN11, 0x45: _GEN11, 0x4E: _GEN11,
    0x9A: _XE_LP, 0x4C: _XE_LP, 0x46: _XE_LP, 0xA7: _XE_LP,
    0x49: GraphicsFamily("Xe-LP", _VECTOR, False, False),
    0x4F: GraphicsFamily("Xe-HPG", _XMX, False, True),
    0x56: GraphicsFamily("Xe-HPG", _XMX, False, True),
    0x0B: GraphicsFamily("Xe-HPC", _HPC, False, True),
    0xB6: _XE_LPG_PLUS,
    0x64: GraphicsFamily("Xe2-LPG", _XE2, True, True),
    0xE2: GraphicsFamily("Xe2-HPG", _XE2, False, True),
    0xB0: GraphicsFamily("Xe3-LPG", _XE3, True, True),
}  # fmt: skip
_EXACT: dict[int, GraphicsFamily] = {
    **dict.fromkeys((0x7D40, 0x7D45, 0x7D55, 0x7D60, 0x7DD5), _XE_LPG),  # Meteor Lake
    0x7D67: _XE_LPG,  # Arrow Lake-S
    0x7D41: _XE_LPG,  # Arrow Lake-U
    **dict.fromkeys((0x7D51, 0x7DD1), _XE_LPG_PLUS),  # Arrow Lake-H
}
_NAMES = {
    0x4C8A: "UHD Graphics 750", 0x4680: "UHD Graphics 770", 0xA780: "UHD Graphics 770",
    0x9A49: "Iris Xe Graphics", 0x46A6: "Iris Xe Graphics", 0xA7A0: "Iris Xe Graphics",
    0x56A0: "Arc A770", 0x56A1: "Arc A750", 0x56A2: "Arc A580", 0x56A5: "Arc A380",
    0x56A6: "Arc A310", 0x5690: "Arc A770M", 0x56C0: "Data Center GPU Flex 170",
    0x56C1: "Data Center GPU Flex 140", 0x0BD5: "Data Center GPU Max 1550",
    0x0BDA: "Data Center GPU Max 1100", 0x7D55: "Arc Graphics (Meteor Lake-P)",
    0x7D45: "Graphics (Meteor Lake-P)", 0x7D51: "Arc Graphics (Arrow Lake-H)",
    0x64A0: "Arc Graphics 130V / 140V", 0xE20B: "Arc B580", 0xE20C: "Arc B570",
    0xE211: "Arc Pro B60", 0xE212: "Arc Pro B50",
}  # fmt: skip


def find_family(pci_device: int | None) -> GraphicsFamily:
    """The family of a PCI device number; unknown for one that is not listed."""
    if pci_device is None:
        return _UNKNOWN
    return _EXACT.get(pci_device) or _FAMILIES.get(pci_device >> 8, _UNKNOWN)


# -- discovery on Linux --------------------------------------------------------------------------

_DEVICE_MEMORY = 1  # I915_MEMORY_CLASS_DEVICE, DRM_XE_MEM_REGION_CLASS_VRAM


def _describe(system: HostProbe, card: pci.PciDevice, system_memory: Memory) -> Device:
    family = find_family(card.device)
    module = "xe" if family.architecture in ("Xe2-HPG", "Xe2-LPG", "Xe3-LPG") else "i915"
    listed = system.hardware_name("pci", card.pci_id)
    listed = listed.partition("[")[2].rstrip("]") or listed
    name = _NAMES.get(card.device) or listed.removeprefix("Intel ")
    name = name or f"{family.architecture or 'GPU'} {card.pci_id}"
    return Device(
        id=card.address,
        kind="gpu",
        vendor=NAME,
        name=f"Intel {name}",
        architecture=family.architecture,
        memory=_read_memory(system, card, family, system_memory),
        driver=card.driver or None,
        driver_version=f"in kernel {system.host().get('release', '')}" if card.driver else None,
        pci_address=card.address,
        pci_id=card.pci_id,
        features=family.features,
        hardware_block=card.driver_block(module),
    )


class _Region(NamedTuple):
    """A memory region, as i915 or xe describes it."""

    is_local: bool
    total_bytes: int
    free_bytes: int | None


def _read_memory(
    system: HostProbe, card: pci.PciDevice, family: GraphicsFamily, system_memory: Memory
) -> Memory:
    regions, failure = _read_regions(system, card)
    local = [region for region in regions if region.is_local]
    mapped = sum(region.total_bytes for region in regions if not region.is_local)
    if local:
        sizes = [region.free_bytes for region in local if region.free_bytes is not None]
        free = sum(sizes) if len(sizes) == len(local) else None
        note = "the kernel reports free memory to privileged users only" if free is None else ""
        pools = tuple(MemoryPool("system", r.total_bytes) for r in regions if not r.is_local)
        return Memory("dedicated", sum(r.total_bytes for r in local), free, pools, note)
    if by_sysfs := _sysfs_bytes(system, card):
        return Memory("dedicated", by_sysfs, None, note=failure)
    if family.integrated or regions:
        # The kernel's own figure of the system memory that the GPU may map, if it has one.
        total, free = system_memory.total_bytes, system_memory.free_bytes
        pools = (MemoryPool("system", mapped or total, free),)
        shared = min(filter(None, (mapped, total)), default=None)
        free = min(free, shared) if free and shared else free
        note = "shared with the system" + (f" ({failure})" if failure else "")
        return Memory("unified", shared, free, pools, note)
    return Memory(note=failure or "the driver does not report its memory")


def _read_regions(system: HostProbe, card: pci.PciDevice) -> tuple[list[_Region], str]:
    """The regions, or why there are none.

    Without CAP_PERFMON xe reports 0 used and i915 everything unallocated, as an idle card would:
    free memory is unknown then.
    """
    node = card.render_node or (f"/dev/dri/{card.card}" if card.card else "")
    if not node:
        return [], "no DRM node"
    try:
        rows = list(system.drm(node).get("regions", []))
    except Unavailable as error:
        return [], str(error)
    regions = []
    for row in rows:  # xe's names, or i915's
        total = int(row.get("total_size", row.get("probed_size", 0)))
        left = total - int(row["used"]) if "used" in row else row.get("unallocated_size")
        is_local = int(row.get("mem_class", row.get("memory_class", -1))) == _DEVICE_MEMORY
        free = None if left is None or left >= total else int(left)
        regions.append(_Region(is_local, total, free))
    return regions, ""


def _sysfs_bytes(system: HostProbe, card: pci.PciDevice) -> int:
    """xe's tiles, or the out-of-tree i915's total."""
    tiles = [name for name in system.list_names(card.folder) if name.startswith("tile")]
    sizes = [system.read_number(f"{card.folder}/{t}/physical_vram_size_bytes") or 0 for t in tiles]
    return sum(sizes) or system.read_number(f"{card.folder}/lmem_total_bytes") or 0


# -- the order of Level Zero ----------------------------------------------------------------------


def _is_selected(selector: str, number: int) -> bool:
    """Whether ONEAPI_DEVICE_SELECTOR leaves a GPU of Level Zero to SYCL, which torch uses.

    Terms are `backend:devices` between semicolons; a `!` before one discards.
    """
    terms = [term.strip() for term in selector.lower().split(";")]
    is_accepted = all(term.startswith("!") for term in terms)
    for term in terms:
        backend, _, devices = term.removeprefix("!").partition(":")
        names = [name.strip().partition(".")[0] for name in devices.split(",")]
        if backend in ("level_zero", "*") and not {"*", "gpu", str(number)}.isdisjoint(names):
            if term.startswith("!"):
                return False
            is_accepted = True
    return is_accepted


# -- the vendor ----------------------------------------------------------------------------------


def _family_of(device: Device) -> GraphicsFamily:
    return find_family(int(device.pci_id.partition(":")[2], 16) if device.pci_id else None)


def _check_access(machine: Machine) -> Findings:
    """This user may open the render nodes."""
    here = machine.platform
    if here.system != "Linux" or here.wsl or not any(machine.gpus_of(NAME)):
        return
    block = machine.host.render_block
    yield from check_access(machine, [block] if block else [], ("/dev/dri/renderD*",))


class Intel(Vendor):
    name = NAME
    title = "Intel"
    pci_vendors = (_PCI_VENDOR,)
    found_on = ("Linux",)
    needs_render_node = True
    libraries = {"xpu": "XPU device"}
    visibility_variables = ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR")
    other_variables = ("ZE_FLAT_DEVICE_HIERARCHY",)
    packages = ("intel-extension-for-pytorch",)
    onnx_packages = {"onnxruntime-openvino": ("OpenVINOExecutionProvider",)}
    torch_flavour = "xpu"
    torch_title = "XPU"
    torch_device = "xpu:0"
    torch_tag = re.compile(r"xpu")
    wsl_advice = "Intel GPUs need torch's XPU build and a recent Windows driver"
    obsolete_packages = {
        "intel-extension-for-pytorch": (
            "intel-extension-for-pytorch is discontinued: torch's own XPU build replaces it",
            "pip uninstall -y intel-extension-for-pytorch",
        )
    }
    checks = {"intel-access": _check_access}
    explaining_checks = ("intel-access",)

    def find_devices(
        self,
        system: HostProbe,
        pci_devices: tuple[pci.PciDevice, ...],
        memory: Memory,
        platform: Platform,
    ) -> tuple[list[Device], SourceReport]:
        """Every Intel GPU that DRM or the bus shows."""
        cards = [c for c in pci_devices if c.vendor == _PCI_VENDOR]
        if not cards:
            return [], SourceReport(NAME, "nothing", "no Intel GPU on the bus")
        devices = [_describe(system, card, memory) for card in cards]
        drivers = ", ".join(sorted({card.driver or "no driver" for card in cards}))
        text = f"{pluralize(len(cards), 'card')} with {drivers}"
        return devices, SourceReport(NAME, "found", text)

    def describe_adapter(self, pci_device: int) -> AdapterFacts:
        family = find_family(pci_device)
        return AdapterFacts(family.architecture, None, family.features, family.integrated)

    def find_order(self, devices: list[Device], environment: Mapping[str, str]) -> VisibleOrder:
        """ZE_AFFINITY_MASK lists devices or tiles (`0.1`); Level Zero counts cards first.

        ONEAPI_DEVICE_SELECTOR applies to what is left. An empty value hides nothing.
        """
        order = sorted(devices, key=lambda d: d.memory.kind == "unified")
        order = [device.with_index("ze", number) for number, device in enumerate(order)]
        values = {name: environment.get(name, "").strip() for name in self.visibility_variables}
        mask, selector = values.values()
        visible = order
        if mask:
            numbers = [entry.strip().partition(".")[0] for entry in mask.split(",")]
            visible = [device for number, device in enumerate(order) if str(number) in numbers]
        if selector:
            visible = [device for n, device in enumerate(visible) if _is_selected(selector, n)]
        return VisibleOrder("xpu", order, visible, tuple(name for name in values if values[name]))

    def add_indices(self, devices: Sequence[Device]) -> Sequence[Device]:
        """OpenVINO counts the processor's own graphics first: `GPU.0` is the integrated one."""
        shown = [d for d in devices if "xpu" in d.indices and not d.hardware_block]
        shown.sort(key=lambda d: (d.memory.kind != "unified", d.indices["xpu"]))
        index = {device.id: number for number, device in enumerate(shown)}
        return [d.with_index("openvino", index[d.id]) if d.id in index else d for d in devices]

    def read_torch_runtime(self, facts: Mapping[str, str], tag: str, system: str) -> str | None:
        return facts.get("xpu") or ("" if tag.startswith("xpu") else None)

    def list_backends(self, device: Device, host: HostFacts) -> list[DeviceBackend]:
        family, selector = _family_of(device), device.selector_for("xpu")
        unsupported = explain(ReasonCode.XPU_UNSUPPORTED, architecture=family.architecture)
        torch_block = (
            (unsupported if family.xpu is False else None)
            or host.render_block
            or host.torch_block(
                self.torch_flavour, self.torch_title, self.find_torch_fix(device, host)
            )
        )
        doubt = "; whether it supports this GPU is unknown" if family.xpu is None else ""
        provider, package = "OpenVINOExecutionProvider", "onnxruntime-openvino"
        if family.openvino:
            fix = host.onnx_command(package)
            openvino = host.onnx_backend(selector, provider, package, fix, host.render_block)
        else:
            no = explain(ReasonCode.OPENVINO_UNSUPPORTED, architecture=family.architecture)
            openvino = DeviceBackend("onnx", selector, provider, blocked=no)
        return [
            DeviceBackend("torch", selector, "xpu", host.torch_title + doubt, torch_block),
            openvino,
        ]

    def find_torch_fix(self, device: Device, host: HostFacts) -> str:
        """The command that installs torch for XPU; empty if it does not support the device."""
        if _family_of(device).xpu is False or host.platform.is_arm:
            return ""
        return host.torch_command("torch", self.torch_flavour)

    def find_torch_wheel(self, device: Device, host: HostFacts, torch: str) -> TorchWheel | None:
        """torch publishes XPU builds for Linux and Windows on x86_64."""
        supported = _family_of(device).xpu is not False and not host.platform.is_arm
        published = host.platform.system in ("Linux", "Windows")
        return TorchWheel(self.torch_flavour, "xpu") if supported and published else None


VENDOR = Intel()
