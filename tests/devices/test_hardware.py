"""Hardware tables, and which wheel runs on which part."""

from __future__ import annotations

import pytest

from anyrig.devices import amd, intel, nvidia, wheels
from anyrig.devices.machine import Features

SAME_MAJOR = [
    ((8, 9), "sm_86", True), ((8, 6), "sm_80", True), ((8, 0), "sm_86", False),
    ((12, 1), "sm_120", True), ((10, 3), "sm_100", True), ((11, 0), "sm_100", False),
    ((12, 0), "sm_100 sm_90", False), ((6, 1), "sm_60", True), ((7, 0), "sm_75", False),
    ((12, 0), "sm_90 compute_90", True), ((9, 0), "sm_90a", True), ((9, 1), "sm_90a", False),
    ((10, 3), "sm_100f", False), ((7, 5), "", False), ((12, 0), "compute_121", False),
    ((9, 0), "nonsense sm_ sm_x", False),
    # Systems on a chip run what was built for them, as torch.cuda.DEVICE_REQUIREMENT has it.
    ((8, 7), "sm_80", False), ((8, 7), "sm_80 sm_86", False), ((8, 7), "sm_87", True),
    ((8, 9), "sm_87", False), ((8, 7), "sm_80 compute_80", True), ((7, 2), "sm_70", False),
    ((7, 2), "sm_72", True), ((6, 2), "sm_60 sm_61", False), ((5, 3), "sm_50 sm_52", False),
    ((10, 1), "sm_100", False), ((11, 0), "sm_101", True), ((10, 3), "sm_101", False),
]  # fmt: skip


def test_same_major_rule(subtests: pytest.Subtests) -> None:
    for capability, kernels, runs in SAME_MAJOR:
        with subtests.test(capability=capability, kernels=kernels):
            assert nvidia.can_run(capability, tuple(kernels.split())) == runs


@pytest.mark.parametrize(
    ("torch", "cuda", "arm", "windows", "first", "last"),
    [
        ("2.11.0", "13.0", False, False, "sm_75", "sm_120"),
        ("2.13.0", "13.0", True, False, "sm_80", "sm_120"),
        ("2.15.0+cu132", "13.2", False, False, "sm_75", "sm_120"),
        ("2.7.1", "12.6", False, False, "sm_50", "sm_90"),
        ("2.10.0", "12.8", False, False, "sm_70", "sm_120"),
        ("2.0.1", "11.7", False, False, "sm_37", "sm_86"),
        ("2.13.0", "12.6", False, True, "sm_50", "sm_90"),
    ],
)
def test_torch_wheels(
    torch: str, cuda: str, arm: bool, windows: bool, first: str, last: str
) -> None:
    kernels = wheels.list_cuda_kernels(torch, cuda, arm=arm, windows=windows)
    assert kernels is not None
    assert (kernels[0], kernels[-1]) == (first, last)
    assert not any(kernel.startswith("compute") for kernel in kernels)


@pytest.mark.parametrize(
    ("torch", "cuda"), [("2.99.0", "13.0"), ("2.11.0", "14.0"), ("junk", "13.0"), ("2.11.0", "")]
)
def test_unlisted_build_is_unknown(torch: str, cuda: str) -> None:
    assert wheels.list_cuda_kernels(torch, cuda, arm=False, windows=False) is None


def test_thor_needs_arm_wheels() -> None:
    arm = wheels.list_cuda_kernels("2.13.0", "13.0", arm=True, windows=False)
    x86 = wheels.list_cuda_kernels("2.13.0", "13.0", arm=False, windows=False)
    assert nvidia.can_run((11, 0), arm or ())
    assert not nvidia.can_run((11, 0), x86 or ())
    assert nvidia.can_run((7, 5), x86 or ())
    assert not nvidia.can_run((7, 5), arm or ())


@pytest.mark.parametrize(
    ("rocm", "target", "runs"),
    [("6.4", "gfx1100", True), ("6.4", "gfx1151", False), ("7.2", "gfx1151", True),
     ("7.14", "gfx906", False), ("6.4", "gfx1031", False), ("6.0", "gfx942", True)],
)  # fmt: skip
def test_rocm_wheels(rocm: str, target: str, runs: bool) -> None:
    assert amd.can_run(target, wheels.list_rocm_targets(rocm) or ()) == runs


def test_newer_rocm_is_unknown() -> None:
    assert wheels.list_rocm_targets("9.0") is None


@pytest.mark.parametrize(
    ("version", "cuda", "capability", "runs"),
    [("1.26.0", "12.8", (7, 0), True), ("1.31.1", "13.0", (7, 0), False),
     ("1.31.1", "13.0", (10, 0), False), ("1.31.1", "13.0", (12, 0), True),
     ("1.22.0", "12.2", (6, 1), True)],
)  # fmt: skip
def test_onnx_wheels(version: str, cuda: str, capability: tuple[int, int], runs: bool) -> None:
    needed, kernels = wheels.find_onnx_gpu_build(version, arm=False, windows=False)
    assert needed == cuda
    assert nvidia.can_run(capability, kernels or ()) == runs


def test_rule_matches_torch() -> None:
    cuda = pytest.importorskip("torch.cuda")
    table = getattr(cuda, "DEVICE_REQUIREMENT", None)
    if table is None:
        pytest.skip("this torch has no such table")
    devices = [*nvidia.CAPABILITIES]
    for built, runs_on in table.items():
        found = {d for d in devices if nvidia.can_run(d, (f"sm_{built}",))}
        assert found == {d for d in devices if 10 * d[0] + d[1] in runs_on}, f"sm_{built}"


@pytest.mark.parametrize(
    ("version", "target"),
    [(90402, "gfx942"), (90010, "gfx90a"), (110501, "gfx1151"), (80003, "gfx803"), (0, None)],
)
def test_parse_target(version: int, target: str | None) -> None:
    assert amd.parse_target(version) == target


def test_unlisted_hardware_is_unknown() -> None:
    assert amd.describe_target("gfx9999") == amd.describe_target(None) == (None, Features())
    assert nvidia.describe_capability((13, 0), "NVIDIA") == (None, Features())
    assert intel.find_family(0xFFFF).architecture is None


def test_gtx_16_has_no_tensor_cores() -> None:
    assert nvidia.describe_capability((7, 5), "NVIDIA GeForce GTX 1660 Ti")[1].fp16 == "fast"


@pytest.mark.parametrize(
    ("device", "architecture", "xpu", "integrated"),
    [(0xE20B, "Xe2-HPG", True, False), (0x7D51, "Xe-LPG+", True, True),
     (0x4C8A, "Xe-LP", False, True), (0x0BD5, "Xe-HPC", True, False)],
)  # fmt: skip
def test_intel_families(device: int, architecture: str, xpu: bool, integrated: bool) -> None:
    family = intel.find_family(device)
    assert (family.architecture, family.xpu, family.integrated) == (architecture, xpu, integrated)
