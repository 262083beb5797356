"""Which GPU a run trains on, by variables that hide some; and when cuDNN tries its algorithms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from anyrig.backends.torch import find_torch_device
from anyrig.devices.machine import Machine
from anyrig.training import Trainer
from anyrig.training.compile import cudnn_benchmark

PAIR = "rtx4090-rtxpro6000-wsl2"
"""NVML's first GPU is the slower one; CUDA's is the faster one."""
Load = Callable[..., Machine]


@pytest.fixture
def on_pair(monkeypatch: pytest.MonkeyPatch, machine: Load) -> Load:
    """A machine with two GPUs, by the variables that the trainer was given."""

    def discover(environment: Any = None) -> Machine:
        return machine(PAIR, environment)

    monkeypatch.setattr("anyrig.training.config.discover", discover)
    return machine


def trainer(**options: Any) -> Trainer:
    inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
    given = {"data": TensorDataset(inputs, inputs.sum(1, keepdim=True)), "loss": nn.MSELoss()}
    return Trainer(nn.Linear(4, 1), batch=8, epochs=1, **{**given, **options})


@pytest.mark.parametrize("device", [None, "cuda"])
def test_no_visible_gpu_is_training_on_the_cpu(on_pair: Load, device: str | None) -> None:
    with trainer(environment={"CUDA_VISIBLE_DEVICES": ""}, device=device) as one:
        result = one.fit()
        assert one.open().device.type == "cpu"
    assert (result.finished, result.steps) == (True, 2)


class Opened(Exception):
    """Instead of a device that is not there."""


def opened_by(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, torch.device]:
    """The GPU that a run is planned for, and torch's device that it computes on."""
    found: list[Any] = []

    def open_device(device: Any, backend: Any, **_: Any) -> None:
        found.extend((device, find_torch_device(device, backend)))
        raise Opened

    monkeypatch.setattr("anyrig.training.trainer.open_device", open_device)
    with pytest.raises(Opened):
        trainer(**options).open()
    return found[0], found[1]


@pytest.mark.parametrize("value", [None, "0", "1", "1,0"])
def test_a_run_is_planned_for_the_gpu_that_it_computes_on(
    on_pair: Load, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """torch counts the GPUs that it is shown from 0 on: the fastest first, or as listed."""
    slow, fast = on_pair(PAIR).gpus
    shown = {None: [fast, slow], "0": [fast], "1": [slow], "1,0": [slow, fast]}[value]

    def properties(index: int) -> Any:
        return SimpleNamespace(uuid=shown[index].id.removeprefix("GPU-"))

    for name, answer in (
        ("is_available", lambda: True), ("device_count", lambda: len(shown)),
        ("get_device_properties", properties),
    ):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, answer)
    environment = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    planned, used = opened_by(monkeypatch, environment=environment)
    assert planned.id in {one.id for one in shown}
    assert shown[used.index].id == planned.id
    if value == "1":  # CUDA's first GPU is not touched
        assert (planned.id, used) == (slow.id, torch.device("cuda", 0))


# -- cuDNN's benchmark -----------------------------------------------------------------------------


class Pictures(torch.utils.data.Dataset[Any]):
    """Each with its own width, where several are given."""

    def __init__(self, *widths: int) -> None:
        self.widths = widths

    def __len__(self) -> int:
        return 9

    def __getitem__(self, number: int) -> Any:
        return torch.zeros(3, 8, self.widths[number % len(self.widths)]), torch.zeros(1)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 2, 3), nn.Linear(2, 1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(self.conv(pictures).mean((2, 3)))
        return found


def one_by_one(items: Any) -> DataLoader[Any]:
    return DataLoader(items, batch_size=1)


@pytest.mark.parametrize(
    ("model", "data", "gains"),
    [
        (Convolutions, Pictures(8), True),
        (Convolutions, one_by_one(Pictures(8)), True),
        (Convolutions, one_by_one(Pictures(8, 9)), False),
        # The first and the last of the nine are of one size.
        (Convolutions, one_by_one(Pictures(8, 9, 8, 8)), False),
        (lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 1)), Pictures(8), False),
    ],
)
def test_cudnn_is_only_benchmarked_for_convolutions_on_one_size(
    monkeypatch: pytest.MonkeyPatch, model: Callable[[], nn.Module], data: Any, gains: bool
) -> None:
    asked = []

    @contextmanager
    def on_a_gpu(option: Any, device_type: str, *, gains: bool) -> Any:
        with cudnn_benchmark(option, "cuda", gains=gains) as reason:
            asked.append((torch.backends.cudnn.benchmark, reason))
            yield reason

    monkeypatch.setattr("anyrig.training.compile.cudnn_benchmark", on_a_gpu)
    with Trainer(model(), data, loss=nn.MSELoss(), batch=3, steps=1, device="cpu") as one:
        one.open()
    assert [used for used, _ in asked] == [gains]
    assert ("no convolutions" not in asked[0][1]) == gains
    assert not torch.backends.cudnn.benchmark  # as it was
