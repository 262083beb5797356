"""What a task's model reaches on the examples that were held out, outside of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anyrig.training.batch import Batch
from anyrig.training.tasks import Task


def measured(task: Task, *, batch: int = 32) -> dict[str, float]:
    """The task's loss and figures on its validation data, with the model as it is now.

    Nothing where there is none of it. Batches are mappings of tensors, as text tasks make them.
    """
    rows: Sequence[Any] = task.validation or ()
    if not rows or task.collate is None:
        return {}
    device = next(task.model.parameters()).device
    was, sums = task.model.training, dict[str, tuple[Any, Any]]()
    task.model.eval()
    with torch.no_grad():
        for first in range(0, len(rows), batch):
            some = rows[first : first + batch]
            made = {name: value.to(device) for name, value in task.collate(some).items()}
            _add(sums, task, made, len(some))
    task.model.train(was)
    return {name: ratio(*both) for name, both in sums.items()}


def _add(sums: dict[str, tuple[Any, Any]], task: Task, batch: Batch, count: int) -> None:
    units = task.units(batch) if task.units is not None else count
    told: dict[str, tuple[Any, Any]] = {"loss": (task.loss(task.model, batch) * units, units)}
    told |= {name: figure(task.model, batch) for name, figure in task.metrics.items()}
    for name, (top, bottom) in told.items():
        before = sums.get(name, (0.0, 0.0))
        sums[name] = (before[0] + top, before[1] + bottom)


def ratio(top: float | torch.Tensor, bottom: float | torch.Tensor) -> float:
    """A figure of its sum and count; of vectors, the mean of those that were counted."""
    tops, bottoms = (torch.as_tensor(one).double().cpu() for one in (top, bottom))
    there = bottoms > 0
    return float((tops[there] / bottoms[there]).mean()) if bool(there.any()) else 0.0
