"""Which wheel runs on which part: the same-major rule, and what was read out of the wheels."""

from __future__ import annotations

import pytest

from anyrig.devices import amd, intel, nvidia, wheels


@pytest.mark.parametrize(
    ("capability", "kernels", "runs"),
    [
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
    ],
)  # fmt: skip
def test_same_major_rule(capability: tuple[int, int], kernels: str, runs: bool) -> None:
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
    kernels = wheels.cuda_kernels(torch, cuda, arm=arm, windows=windows)
    assert kernels is not None
    assert (kernels[0], kernels[-1]) == (first, last)
    assert not any(kernel.startswith("compute") for kernel in kernels)


@pytest.mark.parametrize(
    ("torch", "cuda"), [("2.99.0", "13.0"), ("2.11.0", "14.0"), ("junk", "13.0"), ("2.11.0", "")]
)
def test_an_unread_build_is_unknown(torch: str, cuda: str) -> None:
    assert wheels.cuda_kernels(torch, cuda, arm=False, windows=False) is None


def test_thor_runs_on_arm_alone() -> None:
    arm = wheels.cuda_kernels("2.13.0", "13.0", arm=True, windows=False)
    x86 = wheels.cuda_kernels("2.13.0", "13.0", arm=False, windows=False)
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
    assert amd.can_run(target, wheels.rocm_targets(rocm) or ()) == runs


def test_rocm_newer_than_the_table_is_unknown() -> None:
    assert wheels.rocm_targets("9.0") is None


@pytest.mark.parametrize(
    ("version", "cuda", "capability", "runs"),
    [("1.26.0", "12.8", (7, 0), True), ("1.31.1", "13.0", (7, 0), False),
     ("1.31.1", "13.0", (10, 0), False), ("1.31.1", "13.0", (12, 0), True),
     ("1.22.0", "12.2", (6, 1), True)],
)  # fmt: skip
def test_onnx_wheels(version: str, cuda: str, capability: tuple[int, int], runs: bool) -> None:
    needed, kernels = wheels.onnx_gpu(version, arm=False, windows=False)
    assert needed == cuda
    assert nvidia.can_run(capability, kernels or ()) == runs


def test_the_rule_is_torchs_own() -> None:
    cuda = pytest.importorskip("torch.cuda")
    table = getattr(cuda, "DEVICE_REQUIREMENT", None)
    if table is None:
        pytest.skip("this torch has no such table")
    devices = [*nvidia.CAPABILITIES]
    for built, runs_on in table.items():
        found = {d for d in devices if nvidia.can_run(d, (f"sm_{built}",))}
        assert found == {d for d in devices if 10 * d[0] + d[1] in runs_on}, f"sm_{built}"


# -- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "target"),
    [(90402, "gfx942"), (90010, "gfx90a"), (110000, "gfx1100"), (110501, "gfx1151"),
     (100301, "gfx1031"), (120001, "gfx1201"), (90012, "gfx90c"), (80003, "gfx803"), (0, None)],
)  # fmt: skip
def test_kfd_versions(version: int, target: str | None) -> None:
    assert amd.parse_target(version) == target


@pytest.mark.parametrize(
    ("target", "architecture", "bf16", "fp8"),
    [("gfx942", "CDNA 3", True, True), ("gfx90a", "CDNA 2", True, False),
     ("gfx1030", "RDNA 2", False, False), ("gfx1201", "RDNA 4", True, True),
     ("gfx906", "Vega", False, False), ("gfx9999", None, None, None), (None, None, None, None)],
)  # fmt: skip
def test_amd_parts(
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
def test_nvidia_parts(
    capability: tuple[int, int], architecture: str, fp16: str, bf16: bool, tf32: bool, fp8: bool,
    fp4: bool,
) -> None:  # fmt: skip
    told, features = nvidia.describe_capability(capability, "NVIDIA")
    assert told == architecture
    assert (features.fp16, features.bf16, features.tf32, features.fp8, features.fp4) == (
        fp16, bf16, tf32, fp8, fp4,
    )  # fmt: skip


def test_a_gtx_16_has_no_tensor_cores() -> None:
    assert nvidia.describe_capability((7, 5), "NVIDIA GeForce GTX 1660 Ti")[1].fp16 == "fast"


@pytest.mark.parametrize(
    ("device", "architecture", "xpu", "integrated"),
    [(0xE20B, "Xe2-HPG", True, False), (0x56A0, "Xe-HPG", True, False),
     (0x7D55, "Xe-LPG", True, True), (0x7D51, "Xe-LPG+", True, True),
     (0x64A0, "Xe2-LPG", True, True), (0x4C8A, "Xe-LP", False, True),
     (0x9A49, "Xe-LP", False, True), (0x0BD5, "Xe-HPC", True, False), (0xFFFF, None, None, None)],
)  # fmt: skip
def test_intel_parts(
    device: int, architecture: str | None, xpu: bool | None, integrated: bool | None
) -> None:
    part = intel.find_family(device)
    assert (part.architecture, part.xpu, part.integrated) == (architecture, xpu, integrated)
