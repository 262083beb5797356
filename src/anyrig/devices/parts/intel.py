"""Intel's GPUs by PCI device number: architecture, features, and whether torch's XPU build runs.

Numbers: the kernel's list of Intel graphics (i915 and xe). Matrix units (XMX) came with Xe-HPG and
Xe-HPC; Xe-LP and Xe-LPG have none and compute no bf16. TF32 is documented for Xe-HPC; for Xe2 and
later it is left unknown. torch names Arc A and B, Core Ultra and Data Center Max as supported.
"""

from __future__ import annotations

from typing import NamedTuple

from anyrig.devices.describe import Features

_VECTOR = Features(fp16="fast", tf32=False, bf16=False, fp8=False, fp4=False)
_XMX = Features(fp16="matrix", tf32=False, bf16=True, fp8=False, fp4=False)
_XE2 = Features(fp16="matrix", tf32=None, bf16=True, fp8=False, fp4=False)
_XE3 = Features(fp16="matrix", tf32=None, bf16=True, fp8=None, fp4=None)
_HPC = Features(fp16="matrix", tf32=True, bf16=True, fp8=False, fp4=False)


class Part(NamedTuple):
    """One family of Intel graphics."""

    architecture: str | None
    features: Features
    integrated: bool | None
    """None: unknown, or boards of both kinds share the family."""
    xpu: bool | None
    """Whether torch's XPU build names it as supported."""


_UNKNOWN = Part(None, Features(), None, None)
_GEN9 = Part("Gen 9", _VECTOR, True, False)
_GEN11 = Part("Gen 11", _VECTOR, True, False)
_XE_LP = Part("Xe-LP", _VECTOR, True, False)
_XE_LPG = Part("Xe-LPG", _VECTOR, True, True)
_XE_LPG_PLUS = Part("Xe-LPG+", _XMX, True, True)

# The upper byte of the device number is the family, with the exceptions of Core Ultra below.
_FAMILIES: dict[int, Part] = {
    0x19: _GEN9, 0x59: _GEN9, 0x5A: _GEN9, 0x31: _GEN9, 0x3E: _GEN9, 0x9B: _GEN9, 0x87: _GEN9,
    0x8A: _GEN11, 0x45: _GEN11, 0x4E: _GEN11,
    0x9A: _XE_LP, 0x4C: _XE_LP, 0x46: _XE_LP, 0xA7: _XE_LP,
    0x49: Part("Xe-LP", _VECTOR, False, False),
    0x4F: Part("Xe-HPG", _XMX, False, True),
    0x56: Part("Xe-HPG", _XMX, False, True),
    0x0B: Part("Xe-HPC", _HPC, False, True),
    0xB6: _XE_LPG_PLUS,
    0x64: Part("Xe2-LPG", _XE2, True, True),
    0xE2: Part("Xe2-HPG", _XE2, False, True),
    0xB0: Part("Xe3-LPG", _XE3, True, True),
}  # fmt: skip
_EXACT: dict[int, Part] = {
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


def describe(device: int | None) -> Part:
    """The family of a PCI device number; nothing known of an unlisted one."""
    if device is None:
        return _UNKNOWN
    return _EXACT.get(device) or _FAMILIES.get(device >> 8, _UNKNOWN)


def name(device: int | None) -> str:
    """What Intel sells the part as, where we know it."""
    known = _NAMES.get(device) if device is not None else None
    return f"Intel {known}" if known else ""
