"""The hardware tables: architecture and number formats of each vendor's parts."""

from __future__ import annotations

import pytest

from anyrig.devices import amd, intel, nvidia


@pytest.mark.parametrize(
    ("version", "target"),
    [(90402, "gfx942"), (90010, "gfx90a"), (110000, "gfx1100"), (110501, "gfx1151"),
     (100301, "gfx1031"), (120001, "gfx1201"), (90012, "gfx90c"), (80003, "gfx803"), (0, None)],
)  # fmt: skip
def test_parse_target(version: int, target: str | None) -> None:
    assert amd.parse_target(version) == target


@pytest.mark.parametrize(
    ("target", "architecture", "bf16", "fp8"),
    [("gfx942", "CDNA 3", True, True), ("gfx90a", "CDNA 2", True, False),
     ("gfx1030", "RDNA 2", False, False), ("gfx1201", "RDNA 4", True, True),
     ("gfx906", "Vega", False, False), ("gfx9999", None, None, None), (None, None, None, None)],
)  # fmt: skip
def test_amd_targets(
    target: str | None, architecture: str | None, bf16: bool | None, fp8: bool | None
) -> None:
    told, features = amd.describe_target(target)
    assert (told, features.bf16, features.fp8) == (architecture, bf16, fp8)


@pytest.mark.parametrize(
    ("capability", "architecture", "fp16", "bf16", "tf32", "fp8", "fp4"),
    [
        ((5, 2), "Maxwell", "none", False, False, False, False),
        ((6, 0), "Pascal", "fast", False, False, False, False),
        ((6, 1), "Pascal", "slow", False, False, False, False),
        ((7, 0), "Volta", "matrix", False, False, False, False),
        ((7, 5), "Turing", "matrix", False, False, False, False),
        ((8, 0), "Ampere", "matrix", True, True, False, False),
        ((8, 6), "Ampere", "matrix", True, True, False, False),
        ((8, 9), "Ada", "matrix", True, True, True, False),
        ((9, 0), "Hopper", "matrix", True, True, True, False),
        ((10, 0), "Blackwell", "matrix", True, True, True, True),
        ((12, 0), "Blackwell", "matrix", True, True, True, True),
        ((12, 1), "Blackwell", "matrix", True, True, True, True),
        ((13, 0), None, None, None, None, None, None),
    ],
)
def test_nvidia_capabilities(
    capability: tuple[int, int], architecture: str, fp16: str, bf16: bool, tf32: bool, fp8: bool,
    fp4: bool,
) -> None:  # fmt: skip
    told, features = nvidia.describe_capability(capability, "NVIDIA")
    assert told == architecture
    assert (features.fp16, features.bf16, features.tf32, features.fp8, features.fp4) == (
        fp16, bf16, tf32, fp8, fp4,
    )  # fmt: skip


def test_gtx_16_has_no_tensor_cores() -> None:
    assert nvidia.describe_capability((7, 5), "NVIDIA GeForce GTX 1660 Ti")[1].fp16 == "fast"


@pytest.mark.parametrize(
    ("device", "architecture", "xpu", "integrated"),
    [(0xE20B, "Xe2-HPG", True, False), (0x56A0, "Xe-HPG", True, False),
     (0x7D55, "Xe-LPG", True, True), (0x7D51, "Xe-LPG+", True, True),
     (0x64A0, "Xe2-LPG", True, True), (0x4C8A, "Xe-LP", False, True),
     (0x9A49, "Xe-LP", False, True), (0x0BD5, "Xe-HPC", True, False), (0xFFFF, None, None, None)],
)  # fmt: skip
def test_intel_families(
    device: int, architecture: str | None, xpu: bool | None, integrated: bool | None
) -> None:
    part = intel.find_family(device)
    assert (part.architecture, part.xpu, part.integrated) == (architecture, xpu, integrated)
