"""A task and its settings, told before it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from anyrig.devices.machine import Machine
from anyrig.errors import InvalidInputError
from anyrig.training.estimating.fits import fits, rows
from anyrig.training.estimating.task import batch_of_one, estimates_of
from anyrig.training.models.gpt import PRESETS, Gpt
from anyrig.training.protocol import Task
from anyrig.training.settings import Settings


def _loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return F.cross_entropy(model(batch["tokens"]).flatten(0, 1), batch["tokens"].flatten())


def _task(data: Any = None) -> Task:
    items = [{"tokens": torch.zeros(16, dtype=torch.long)} for _ in range(8)]
    return Task("a test", Gpt(PRESETS["nano"]), items if data is None else data, _loss)


def test_a_task_is_estimated_at_two_sizes_and_told_for_a_machine(
    machine: Callable[..., Machine],
) -> None:
    found = estimates_of(_task(), Settings(batch=32), precision="bf16")
    assert [one.micro_batch for one in found] == [16, 32]
    assert found[0].peak < found[1].peak
    told = rows(fits(found, machine("h200-linux")))
    assert told[1][3] == "yes"
    assert int(told[1][4]) > 32


@pytest.mark.parametrize(
    "changed",
    [{"recompute": "blocks"}, {"recompute": "selective"}, {"micro_batch": 4},
     {"offload_optimizer": True}],
    ids=lambda one: next(iter(one)),
)  # fmt: skip
def test_settings_that_save_memory_are_seen(changed: dict[str, Any]) -> None:
    plain = estimates_of(_task(), Settings(batch=64), precision="fp32")[-1]
    less = estimates_of(_task(), Settings(batch=64, **changed), precision="fp32")[-1]
    assert less.peak < plain.peak


def test_data_of_every_kind_gives_an_example() -> None:
    items: Any = [{"tokens": torch.zeros(16, dtype=torch.long)}]
    loader: Any = DataLoader(items)
    for data in (items, iter(items), loader):
        assert batch_of_one(_task(data))["tokens"].shape == (1, 16)
    with pytest.raises(InvalidInputError, match="empty"):
        batch_of_one(_task([]))
