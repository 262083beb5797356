"""Allocator settings: where they help, and what the user set is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from anyrig.devices.machine import Device, DeviceBackend, Machine
from anyrig.memory.allocator import CUDA, GENERAL, choose_allocator_settings

TORCH_CUDA = DeviceBackend("torch", "cuda:0", "cuda")


@pytest.fixture
def h200(machine: Callable[..., Machine]) -> Device:
    return machine("h200-linux").gpus[0]


def test_linux_with_cuda(h200: Device) -> None:
    new = choose_allocator_settings(h200, TORCH_CUDA, {}, torch_version="2.11.0+cu130", linux=True)
    assert new == {GENERAL: "expandable_segments:True"}
    old = choose_allocator_settings(h200, TORCH_CUDA, {}, torch_version="2.6.0", linux=True)
    assert old == {CUDA: "expandable_segments:True"}


@pytest.mark.parametrize(
    ("environment", "variables"),
    [
        ({GENERAL: "garbage_collection_threshold:0.8"},
         {GENERAL: "garbage_collection_threshold:0.8,expandable_segments:True"}),
        ({GENERAL: "a:1", CUDA: "roundup_power2_divisions:[256:1,512:2]"},
         {CUDA: "roundup_power2_divisions:[256:1,512:2],expandable_segments:True"}),
        ({CUDA: "expandable_segments:False"}, {}),
        ({GENERAL: "max_split_size_mb:128"}, {}),
        ({CUDA: "backend:cudaMallocAsync"}, {}),
        ({CUDA: ""}, {GENERAL: "expandable_segments:True"}),
    ],
)  # fmt: skip
def test_user_settings_are_kept(
    h200: Device, environment: dict[str, str], variables: dict[str, str]
) -> None:
    found = choose_allocator_settings(
        h200, TORCH_CUDA, environment, torch_version="2.13", linux=True
    )
    assert found == variables


def test_unsupported_devices(h200: Device) -> None:
    board = replace(h200, capability="8.7", memory=replace(h200.memory, kind="unified"))
    spark = replace(h200, capability="12.1", memory=replace(h200.memory, kind="unified"))
    mig = replace(h200, part="mig")
    onnx = DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider")
    amd = replace(h200, vendor="amd")

    def given(device: Device, backend: DeviceBackend = TORCH_CUDA, *, linux: bool = True) -> bool:
        found = choose_allocator_settings(device, backend, {}, torch_version="", linux=linux)
        return bool(found)

    assert given(spark)
    assert not given(board)
    assert not given(mig)
    assert not given(amd)
    assert not given(h200, onnx)
    assert not given(h200, linux=False)
