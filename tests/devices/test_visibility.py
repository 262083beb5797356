"""CUDA_VISIBLE_DEVICES and similar variables: indices, UUIDs, MIG ids, and CUDA's own order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anyrig.devices.machine import Machine
from anyrig.devices.reasons import ReasonCode

Load = Callable[..., Machine]
PAIR = "rtx4090-rtxpro6000-wsl2"
EIGHT = "h100x8-mig"


def _shown(here: Machine, library: str = "cuda") -> list[str]:
    """Ids in the library's order."""
    free = [gpu for gpu in here.gpus if not gpu.hardware_block and library in gpu.indices]
    return [gpu.id for gpu in sorted(free, key=lambda gpu: gpu.indices[library])]


def test_cuda_order_is_fastest_first(machine: Load) -> None:
    slow, fast = machine(PAIR).gpus
    assert (slow.indices["nvml"], fast.indices["nvml"]) == (0, 1)
    assert (slow.indices["cuda"], fast.indices["cuda"]) == (1, 0)


def test_pci_order_is_honoured(machine: Load) -> None:
    slow, fast = machine(PAIR, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).gpus
    assert (slow.indices["cuda"], fast.indices["cuda"]) == (0, 1)


def test_index_is_in_cuda_order(machine: Load) -> None:
    slow, fast = machine(PAIR, {"CUDA_VISIBLE_DEVICES": "0"}).gpus
    assert fast.usable
    assert slow.hardware_block is not None
    assert slow.hardware_block.code is ReasonCode.HIDDEN
    assert slow.hardware_block.message == "hidden by CUDA_VISIBLE_DEVICES=0"
    both = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    slow, fast = machine(PAIR, both).gpus
    assert slow.usable
    assert fast.hardware_block


def test_uuid_prefixes(machine: Load) -> None:
    slow, fast = machine(PAIR).gpus
    assert _shown(machine(PAIR, {"CUDA_VISIBLE_DEVICES": slow.id})) == [slow.id]
    assert _shown(machine(PAIR, {"CUDA_VISIBLE_DEVICES": slow.id[:12]})) == [slow.id]
    order = f"{slow.id},{fast.id}"
    assert _shown(machine(PAIR, {"CUDA_VISIBLE_DEVICES": order})) == [slow.id, fast.id]


@pytest.mark.parametrize("value", ["", "-1", "none", "7", "GPU-ffffffff", "GPU-"])
def test_invalid_entry_hides_everything(machine: Load, value: str) -> None:
    here = machine(PAIR, {"CUDA_VISIBLE_DEVICES": value})
    assert _shown(here) == []
    blocked = [gpu.hardware_block for gpu in here.gpus]
    assert all(b and b.code is ReasonCode.HIDDEN for b in blocked)
    assert all(b and b.fix == "unset CUDA_VISIBLE_DEVICES" for b in blocked)


def test_mig_instances_by_their_ids(machine: Load) -> None:
    instance = next(gpu for gpu in machine(EIGHT).gpus if gpu.part == "mig")
    assert "cuda" not in instance.indices  # CUDA counts whole GPUs
    here = machine(EIGHT, {"CUDA_VISIBLE_DEVICES": instance.id})
    assert _shown(here) == [instance.id]
    seen = here.find(instance.id)
    assert seen is not None
    assert "cuda:0" in seen.selectors


def test_indices_skip_gpus_in_mig_mode(machine: Load) -> None:
    here = machine(EIGHT, {"CUDA_VISIBLE_DEVICES": "5,0"})
    wholes = [gpu for gpu in here.gpus if gpu.part == "whole"]
    assert _shown(here) == [wholes[5].id, wholes[0].id]


@pytest.mark.parametrize(
    ("environment", "visible"),
    [
        ({"HIP_VISIBLE_DEVICES": "0"}, True),
        ({"HIP_VISIBLE_DEVICES": ""}, False),
        ({"HIP_VISIBLE_DEVICES": "1"}, False),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, False),
        ({"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "0"}, True),
        ({"ROCR_VISIBLE_DEVICES": "3"}, False),
        ({}, True),
    ],
)
def test_amd(machine: Load, environment: dict[str, str], visible: bool) -> None:
    gpu = machine("mi300x-linux", environment).gpus[0]
    assert gpu.usable == visible
    assert visible or "VISIBLE_DEVICES" in str(gpu.hardware_block)


@pytest.mark.parametrize(
    ("environment", "shown", "hiding"),
    [
        # partitions: those that are visible, and the variables that hide number 3
        ({"ROCR_VISIBLE_DEVICES": "0,1"}, "01", "ROCR"),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "0,1,3"}, "01", "ROCR"),
        ({"ROCR_VISIBLE_DEVICES": "3,1", "HIP_VISIBLE_DEVICES": "1"}, "1", "HIP"),
        ({"ROCR_VISIBLE_DEVICES": "0,1", "HIP_VISIBLE_DEVICES": "1"}, "1", "ROCR HIP"),
        ({"ROCR_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "0"}, "0", "CUDA ROCR"),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "3"}, "0", "HIP"),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, "0", "CUDA HIP"),
        ({"HIP_VISIBLE_DEVICES": "0", "ZE_AFFINITY_MASK": "0"}, "0", "HIP"),
    ],
)
def test_advice_makes_a_hidden_amd_gpu_visible(
    machine: Load, environment: dict[str, str], shown: str, hiding: str
) -> None:
    here = machine("mi300x-cpx-linux", environment)
    assert [device_id.rpartition("/")[2] for device_id in _shown(here, "rocm")] == list(shown)
    hidden = here.gpus[3]
    assert hidden.hardware_block is not None
    for name in environment:
        assert (name.partition("_")[0] in hiding.split()) == (name in str(hidden.hardware_block))
    command, *names = hidden.hardware_block.fix.split()
    assert command == "unset"
    left = {name: value for name, value in environment.items() if name not in names}
    assert machine("mi300x-cpx-linux", left).gpus[3].usable


TWO = "rx7900xtx-rx9070-docker-no-dri"


@pytest.mark.parametrize(
    ("environment", "order"),
    [
        ({"HIP_VISIBLE_DEVICES": "1,1,0"}, [1, 0]),  # HIP skips a repeated entry
        ({"HIP_VISIBLE_DEVICES": "0,0"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": "1,1,0"}, [1]),  # it ends ROCr's list
        ({"ROCR_VISIBLE_DEVICES": "GPU-ABCD000000000002"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "1,GPU-ABCD000000000001"}, [1, 0]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-AB"}, []),  # means both
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, [1]),
    ],
)
def test_lists_of_rocm(machine: Load, environment: dict[str, str], order: list[int]) -> None:
    gpus = machine(TWO, environment).gpus
    assert _shown(machine(TWO, environment), "rocm") == [gpus[number].id for number in order]
    assert sorted(gpu.indices["rocm"] for gpu in gpus if "rocm" in gpu.indices) == list(
        range(len(order))
    )


def test_unambiguous_beginning_of_an_id_in_rocr(machine: Load) -> None:
    gpu = machine("mi300x-linux").gpus[0]
    assert _shown(machine("mi300x-linux", {"ROCR_VISIBLE_DEVICES": gpu.id[:8]}), "rocm") == [gpu.id]
    assert _shown(machine("mi300x-linux", {"HIP_VISIBLE_DEVICES": gpu.id[:8]}), "rocm") == []


def test_cuda_counts_a_gpu_that_its_compute_mode_forbids(machine: Load) -> None:
    name = "gtx1650-rtx4090-prohibited-linux"
    slow, fast = machine(name).gpus
    assert (fast.indices["cuda"], slow.indices["cuda"]) == (0, 1)
    slow, fast = machine(name, {"CUDA_VISIBLE_DEVICES": "0"}).gpus
    assert slow.hardware_block is not None
    assert slow.hardware_block.code is ReasonCode.HIDDEN
    assert fast.hardware_block is not None
    assert fast.hardware_block.code is ReasonCode.COMPUTE_PROHIBITED


@pytest.mark.parametrize(
    ("selector", "visible"),
    [
        ("level_zero:0", True), ("level_zero:gpu", True), ("*:*", True), ("*:gpu", True),
        ("LEVEL_ZERO:*", True), ("opencl:cpu;level_zero:0", True), ("!opencl:*", True), ("", True),
        ("level_zero:1", False), ("opencl:gpu", False), ("*:cpu", False), ("!level_zero:*", False),
        ("level_zero:*;!level_zero:0", False),
    ],
)  # fmt: skip
def test_oneapi_selector(machine: Load, selector: str, visible: bool) -> None:
    gpu = machine("arc-b580-linux", {"ONEAPI_DEVICE_SELECTOR": selector}).gpus[0]
    assert gpu.usable == visible
    assert visible or "ONEAPI_DEVICE_SELECTOR" in str(gpu.hardware_block)


def test_partition_by_its_cards_id(machine: Load) -> None:
    gpus = machine("mi300x-cpx-linux").gpus
    card = gpus[0].id.partition("/")[0]
    assert _shown(machine("mi300x-cpx-linux", {"ROCR_VISIBLE_DEVICES": card}), "rocm") == [
        gpus[0].id
    ]


@pytest.mark.parametrize(
    ("mask", "visible"), [("0", True), ("0.0", True), ("1", False), ("", True), ("0,1", True)]
)
def test_intel(machine: Load, mask: str, visible: bool) -> None:
    gpu = machine("arc-b580-linux", {"ZE_AFFINITY_MASK": mask}).gpus[0]
    assert gpu.usable == visible
