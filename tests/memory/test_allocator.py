"""Allocator settings: where they help, beside what the user set, and never too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from anyrig.devices.machine import Device, DeviceBackend, Machine
from anyrig.memory.allocator import CUDA, GENERAL, parsed, settings_for

CUDA_DRIVE = DeviceBackend("torch", "cuda:0", "cuda", True, "")


@pytest.fixture
def h200(machine: Callable[..., Machine]) -> Device:
    return machine("h200-linux").gpus[0]


def test_on_linux_with_cuda_they_help(h200: Device) -> None:
    new = settings_for(h200, CUDA_DRIVE, {}, torch_started=False, torch_version="2.11.0+cu130",
                       platform="linux")  # fmt: skip
    assert new.variables == {GENERAL: "expandable_segments:True"}
    old = settings_for(h200, CUDA_DRIVE, {}, torch_started=False, torch_version="2.6.0",
                       platform="linux")  # fmt: skip
    assert old.variables == {CUDA: "expandable_segments:True"}


@pytest.mark.parametrize(
    ("environment", "variables", "words"),
    [
        ({GENERAL: "garbage_collection_threshold:0.8"},
         {GENERAL: "garbage_collection_threshold:0.8,expandable_segments:True"}, "grow"),
        ({GENERAL: "a:1", CUDA: "roundup_power2_divisions:[256:1,512:2]"},
         {CUDA: "roundup_power2_divisions:[256:1,512:2],expandable_segments:True"}, "grow"),
        ({CUDA: "expandable_segments:False"}, {}, "left as it is"),
        ({GENERAL: "max_split_size_mb:128"}, {}, "sets max_split_size_mb"),
        ({CUDA: "backend:cudaMallocAsync"}, {}, "sets backend"),
        ({CUDA: ""}, {GENERAL: "expandable_segments:True"}, "grow"),
    ],
)  # fmt: skip
def test_what_the_user_set_is_kept(
    h200: Device, environment: dict[str, str], variables: dict[str, str], words: str
) -> None:
    found = settings_for(h200, CUDA_DRIVE, environment, torch_started=False, torch_version="2.13",
                         platform="linux")  # fmt: skip
    assert found.variables == variables
    assert words in found.reason


def test_never_after_torch_has_started(h200: Device) -> None:
    found = settings_for(h200, CUDA_DRIVE, {}, torch_started=True, platform="linux")
    assert found.variables == {}
    assert "torch has started" in found.reason


def test_where_they_are_known_to_fail(h200: Device) -> None:
    board = replace(h200, capability="8.7", memory=replace(h200.memory, kind="unified"))
    spark = replace(h200, capability="12.1", memory=replace(h200.memory, kind="unified"))
    mig = replace(h200, part="mig")
    onnx = DeviceBackend("onnx", "cuda:0", "CUDAExecutionProvider", True, "")
    amd = replace(h200, vendor="amd")

    def given(device: Device, drive: DeviceBackend = CUDA_DRIVE, platform: str = "linux",
              wsl: bool = False) -> bool:  # fmt: skip
        found = settings_for(device, drive, {}, torch_started=False, platform=platform, wsl=wsl)
        assert found.reason
        return bool(found.variables)

    assert given(spark)
    assert not given(board)
    assert not given(mig)
    assert not given(amd)
    assert not given(h200, onnx)
    assert not given(h200, platform="win32")
    assert not given(h200, wsl=True)


def test_a_string_is_read_as_torch_reads_it() -> None:
    assert parsed(" a:1 , b:[x:1,y:2],c:True") == {"a": "1", "b": "[x:1,y:2]", "c": "True"}
    assert parsed("") == {}
