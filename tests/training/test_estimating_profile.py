"""A real step measured at several micro batches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from anyrig.backends import DeviceHandle, open_device
from anyrig.devices.discover import discover
from anyrig.errors import InvalidInputError, OutOfMemoryError
from anyrig.training.estimating.profile import profile


@pytest.fixture
def bound() -> DeviceHandle:
    machine = discover({})
    drive = next(drive for drive in machine.cpu_device.backends if drive.backend == "torch")
    return open_device(machine.cpu_device, drive)


def _step(size: int) -> None:
    if size > 16:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    model = nn.Linear(64, 64)
    model(torch.randn(size * 64, 64)).square().mean().backward()


def test_sizes_are_measured_until_memory_runs_out(bound: DeviceHandle, tmp_path: Path) -> None:
    told: list[str] = []
    plot = tmp_path / "memory.svg"
    found = profile(_step, bound, sizes=(32, 1, 4, 64, 16), plot=plot, title="a layer",
                    tell=told.append)  # fmt: skip
    assert [(one.size, one.outcome) for one in found.tries] == [
        (1, "ran"), (4, "ran"), (16, "ran"), (32, "out of memory"),
    ]  # fmt: skip
    assert found.batch == 16
    assert all(one.rate for one in found.tries if one.ran)
    assert told[:4] == [f"micro batch {size}" for size in (1, 4, 16, 32)]
    assert "a layer on cpu" in plot.read_text()


def test_the_largest_is_found_where_it_is_asked_for(bound: DeviceHandle) -> None:
    found = profile(_step, bound, sizes=(1, 2), find=True)
    assert found.batch == 16


def test_what_does_not_fit_at_all_is_told(bound: DeviceHandle) -> None:
    with pytest.raises(OutOfMemoryError):
        profile(_step, bound, sizes=(32,))
    with pytest.raises(InvalidInputError, match="no micro batches"):
        profile(_step, bound, sizes=(0, 1))
