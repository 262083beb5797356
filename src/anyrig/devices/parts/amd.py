"""AMD's gfx targets: architecture and features, and the target behind a PCI number.

gfx names and families: LLVM's AMDGPU target table. bf16 and fp8: ISA documents; RDNA 2 has no bf16
dot products, RDNA 3 has WMMA with bf16, gfx94x has fp8 (fnuz), gfx95x and gfx120x have OCP fp8.
TF32 as torch says it: gfx94x and gfx95x. A target that is not in the table is unknown.
"""

from __future__ import annotations

from anyrig.devices.describe import Features

_GCN = Features(fp16="slow", tf32=False, bf16=False, fp8=False, fp4=False)
_VEGA = Features(fp16="fast", tf32=False, bf16=False, fp8=False, fp4=False)
_CDNA = Features(fp16="matrix", tf32=False, bf16=True, fp8=False, fp4=False)
_CDNA3 = Features(fp16="matrix", tf32=True, bf16=True, fp8=True, fp4=False)
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
# Whole families, where every member shares architecture and features.
_FAMILIES: tuple[tuple[str, str, Features], ...] = (
    ("gfx101", "RDNA", _VEGA),
    ("gfx103", "RDNA 2", _VEGA),
    ("gfx110", "RDNA 3", _CDNA),
    ("gfx115", "RDNA 3.5", _CDNA),
    ("gfx120", "RDNA 4", _RDNA4),
)

# PCI device numbers, for systems without the kernel's kfd list (Windows, WSL2): device, gfx target.
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
    "gfx1033": "163f",
    "gfx1035": "1681 164d",
    "gfx1036": "164e 13c0",
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
# Graphics on the processor's die: memory is a carve-out of the machine's plus what GTT may map.
_APU_TARGETS = frozenset(
    "gfx801 gfx902 gfx909 gfx90c gfx1033 gfx1035 gfx1036 gfx1103 gfx1150 gfx1151 gfx1152 "
    "gfx1153".split()
)


def describe(target: str | None) -> tuple[str | None, Features]:
    """Architecture and features of a gfx target; nothing known of an unlisted one."""
    if target is None:
        return None, Features()
    if target in _TARGETS:
        return _TARGETS[target]
    for family, architecture, features in _FAMILIES:
        if target.startswith(family) and len(target) == len(family) + 1:
            return architecture, features
    return None, Features()


def target_of_pci(device: int | None) -> str | None:
    """The gfx target of a PCI device number, where it is known."""
    return _PCI.get(device) if device is not None else None


def target_of_version(version: int) -> str | None:
    """kfd's gfx_target_version as a name: 90402 is gfx942, 90010 gfx90a, 110501 gfx1151."""
    if version <= 0:
        return None
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}"


def is_fnuz(target: str | None) -> bool:
    """Whether a target's fp8 is the variant before OCP's, with other ranges and one zero."""
    return (target or "").startswith("gfx94")


def is_apu(target: str | None) -> bool:
    """Whether a target lives on the processor's die. The MI300A shares gfx942: see its memory."""
    return target in _APU_TARGETS


def runs(target: str, built: tuple[str, ...]) -> bool:
    """Whether a ROCm build for `built` runs on a target: exact, or the family's generic code."""
    generic = {"gfx9-generic", "gfx10-3-generic", "gfx11-generic", "gfx12-generic"}
    families = {f"gfx{target[3:-2]}-generic", f"gfx{target[3:-2]}-{target[-2]}-generic"}
    return target in built or bool(families & generic & set(built))
