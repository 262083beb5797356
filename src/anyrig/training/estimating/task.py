"""A whole training task before it runs: what its settings will take, at two micro batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError
from anyrig.training.checks import accept_other_spellings
from anyrig.training.estimating.estimate import Estimate, estimate
from anyrig.training.estimating.hollow import batch_like
from anyrig.training.protocol import Batch, Task
from anyrig.training.settings import Settings


@accept_other_spellings
def estimates_of(
    task: Task,
    settings: Settings,
    *,
    precision: Precision,
    device_type: str = "cuda",
    capability: str | None = None,
    optimizer: str = "adamw",
    sizes: Sequence[int] = (),
) -> tuple[Estimate, ...]:
    """Estimates of a task's step, for `fits`; the last one is of the micro batch that is set.

    Args:
        task: its first item tells the shapes; nothing else of its data is read.
        settings: how it is trained. `auto` estimates the whole batch at once.
        precision: what the settings' precision comes to on the device.
        device_type: torch's word for the device.
        capability: of a CUDA device.
        optimizer: by name.
        sizes: micro batches; half of what is set and all of it when empty.
    """
    example = batch_of_one(task)
    micro = settings.batch if settings.micro_batch == "auto" else settings.micro_batch
    micro = min(micro, settings.batch)
    wanted = sorted(set(sizes)) or sorted({max(1, micro // 2), micro})
    return tuple(
        estimate(
            task.model, batch_like(example), task.loss,
            micro_batch=size, num_micro=-(-settings.batch // size), precision=precision,
            optimizer=optimizer, fused=settings.fused_optimizer is not False,
            recompute=settings.recompute, recompute_types=settings.recompute_types,
            offload_optimizer=settings.offload_optimizer, device_type=device_type,
            capability=capability,
        )
        for size in wanted
    )  # fmt: skip


def batch_of_one(task: Task) -> Batch:
    """A batch with a task's first item."""
    from torch.utils.data import DataLoader, default_collate

    data: Any = task.data
    collate = task.collate
    if isinstance(data, DataLoader):
        data, collate = data.dataset, collate or data.collate_fn
    try:
        item = data[0] if hasattr(data, "__getitem__") else next(iter(data))
    except (IndexError, StopIteration):
        raise InvalidInputError("the data set is empty", hint="Pass at least one item.") from None
    return (collate or default_collate)([item])
