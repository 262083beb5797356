"""The micro batch that fits: found with the real model, loss and data, before the first step.

Nothing is learnt on the way: no optimiser's step is made, gradients are dropped, random states and
batch statistics put back. The optimiser's state exists while sizes are tried, as it will later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import nn

from anyrig.memory.batch_size import BatchSizeResult, find_batch_size
from anyrig.training.nests import cut, size_of, to_device
from anyrig.training.optimisers import materialise
from anyrig.units import format_bytes, pluralize

if TYPE_CHECKING:
    from anyrig.backends.torch import TorchHandle
    from anyrig.training.protocol import Batch, Group
    from anyrig.training.step import Step

_TOGETHER_SHARE = 0.8
"""Of the budget, where processes wait for each other and none may run out."""


def fit_step(
    step: Step,
    batch: Batch,
    handle: TorchHandle,
    *,
    budget_bytes: int | None,
    tell: Callable[[str], None] = lambda _: None,
) -> BatchSizeResult:
    """The largest micro batch of a step that works, up to all items of a batch.

    Args:
        step: as it will train; its weights are not changed.
        batch: items of the run, on the host; sizes are cut from it.
        handle: the device.
        budget_bytes: the most that may be taken of it.
        tell: is told what is being tried.
    """
    before = step.before
    before.take()
    materialise(step.optimiser)
    least = _least(step, batch)
    try:
        return find_batch_size(
            _trial(step, batch, handle, least),
            handle,
            start=least,
            budget_bytes=budget_bytes,
            max_size=size_of(batch),
            on_progress=tell,
        )
    finally:
        step.forget()
        before.put_back()


def fit_together(
    step: Step, batch: Batch, handle: TorchHandle, group: Group, *, budget_bytes: int | None
) -> tuple[int, str]:
    """A micro batch for processes that wait for each other inside a step, and why.

    If one of them ran out, the others would wait for it for ever, so nothing is tried that could:
    two small sizes are measured by all, and a line through the largest peaks says the rest.
    """
    import torch

    most = group.least(size_of(batch))
    if budget_bytes is None or most < 3:
        return most, "nothing is known of the memory" if budget_bytes is None else "the whole batch"
    before = step.before
    before.take()
    materialise(step.optimiser)
    least = _least(step, batch)
    trial = _trial(step, batch, handle, least)
    peaks = []
    for size in (least, least + 1):
        for _ in range(2):
            handle.reset_peak()
            trial(size)
            handle.synchronize()
        now = handle.memory()
        taken = now.peak_reserved_bytes or now.peak_bytes or now.allocated_bytes or 0
        peaks.append(int(group.agree(torch.tensor([taken], dtype=torch.int64)).item()))
    step.forget()
    before.put_back()
    room = group.least(int(budget_bytes * _TOGETHER_SHARE)) - peaks[0]
    slope = max(1, peaks[1] - peaks[0])
    found = max(least, min(most, least + max(0, room) // slope))
    return found, (
        f"{format_bytes(peaks[0])} are taken by {pluralize(least, 'item')}, by each further one "
        f"{format_bytes(slope)}, measured "
        f"with all processes; {_TOGETHER_SHARE:.0%} of the budget is used"
    )


def _least(step: Step, batch: Batch) -> int:
    """The fewest items that can be tried: statistics of a single one are refused by torch."""
    normed = any(isinstance(module, nn.modules.batchnorm._BatchNorm)
                 for module in step.model.modules())  # fmt: skip
    return 2 if normed and size_of(batch) > 1 else 1


def _trial(step: Step, batch: Batch, handle: TorchHandle, least: int) -> Callable[[int], None]:
    def run(size: int) -> None:
        step.forget()
        piece = to_device(cut(batch, 0, max(size, least)), handle.device)
        step.gradients(piece)

    return run
