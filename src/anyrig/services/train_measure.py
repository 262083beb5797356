"""What a training run will take, before it begins: estimated for every device, or measured on one.

Nothing is trained and no run is begun; what a task keeps while it is built goes into a folder that
is thrown away.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.services import train
from anyrig.services.train_config import settings_of
from anyrig.services.train_runs import Run

if TYPE_CHECKING:
    from anyrig.devices.machine import Device, Machine, Precision
    from anyrig.memory.batch_size import BatchSizeResult
    from anyrig.placement import Placement
    from anyrig.training.estimating.estimate import Estimate
    from anyrig.training.estimating.fits import Fitting
    from anyrig.training.protocol import Task
    from anyrig.training.settings import Settings

_GPUS = {"rocm": "cuda"}
PrecisionOf = Callable[["Device"], "Precision"]
"""The number format that a device would train in."""


@contextlib.contextmanager
def built(run: Run) -> Iterator[tuple[Task, Settings, str]]:
    """The task in a folder for the time being, its settings and its optimiser."""
    settings, optimiser = settings_of(run.train)
    with tempfile.TemporaryDirectory(prefix="anyrig-train-", ignore_cleanup_errors=True) as place:
        task = train.build(replace(run, folder=Path(place)), settings)
        yield task, settings, optimiser
        del task  # files that it has mapped


def estimates(
    run: Run, machine: Machine, precision_of: PrecisionOf, tell: train.Tell = lambda text: None
) -> list[tuple[Fitting, Estimate]]:
    """Every device of a machine beside what a step is estimated to take of it."""
    from anyrig.training.estimating.fits import fits

    known: dict[tuple[str, str], list[Estimate]] = {}
    found = []
    tell("reading the data")
    with built(run) as (task, settings, optimiser):
        for device in machine.devices:
            kind, precision = torch_word(device), precision_of(device)
            if (kind, precision) not in known:
                tell(f"counting a step in {precision} for {kind}")
                known[kind, precision] = _two(task, settings, optimiser, kind, precision, device)
            both = known[kind, precision]
            held = {"gib": settings.memory_gb, "fraction": settings.memory_fraction}
            all_of_them = fits(both, machine, **held)
            fitting = next(one for one in all_of_them if one.device.id == device.id)
            found.append((fitting, both[-1]))
    return found


def _two(
    task: Task, settings: Settings, optimiser: str, kind: str, precision: Precision, device: Device
) -> list[Estimate]:
    """Of one item, and of the micro batch that is wanted: a line says the largest."""
    from anyrig.training.estimating.estimate import estimate
    from anyrig.training.estimating.hollow import batch_like

    wanted = settings.batch if settings.micro_batch == "auto" else settings.micro_batch
    example = first_batch(task, settings, 2)
    return [
        estimate(
            task.model, batch_like(example), task.loss, micro_batch=size,
            num_micro=min(2, -(-settings.batch // size)), precision=precision,
            optimizer=optimiser, fused=settings.fused_optimizer is not False,
            recompute=settings.recompute, recompute_types=settings.recompute_types,
            offload_optimizer=settings.offload_optimizer, device_type=kind,
            capability=device.capability if kind == "cuda" else None,
        )
        for size in sorted({1, wanted})
    ]  # fmt: skip


def torch_word(device: Device) -> str:
    """What torch calls a device, or would."""
    for backend in device.backends:
        if backend.library == "torch":
            word = backend.provider.partition(":")[0]
            return _GPUS.get(word, word)
    if device.kind == "cpu":
        return "cpu"
    return {"intel": "xpu", "apple": "mps"}.get(device.vendor.lower(), "cuda")


def first_batch(task: Task, settings: Settings, count: int) -> Any:
    """The run's first items."""
    from anyrig.training import keep
    from anyrig.training.distributed.alone import Alone
    from anyrig.training.feed import Feed

    feed = Feed(
        task.data, count, seed=settings.seed, shuffle=settings.shuffle, drop_last=False,
        collate=task.collate,
    )  # fmt: skip
    return keep.first_batch(feed, Alone())


def profiled(
    run: Run, placement: Placement, *, plot: Path | None, tell: train.Tell = lambda text: None
) -> BatchSizeResult:
    """Memory and speed of the run's own step by micro batch, measured."""
    from anyrig.memory.batch_size import plot_profile, sweep_batch_sizes
    from anyrig.storage import files
    from anyrig.training.assemble import assembled
    from anyrig.training.distributed.alone import Alone
    from anyrig.training.nests import cut, size_of
    from anyrig.training.protocol import Unwatched

    tell("reading the data")
    with built(run) as (task, settings, optimiser):
        batch = first_batch(task, settings, settings.batch)
        settings = replace(settings, micro_batch=1)
        parts = assembled(
            task.model, task.loss, optimiser, settings, placement, Alone(),
            units=task.units, watch=Unwatched(), environment={},
        )  # fmt: skip

        def step(size: int) -> None:
            parts.step.micro_batch = size
            done = parts.step(cut(batch, 0, size))
            if done.num_retries:
                from anyrig.errors import OutOfMemoryError

                raise OutOfMemoryError(
                    f"{size} items ran out of memory", hint="Take fewer at once."
                )

        with parts.undo:
            found = sweep_batch_sizes(
                step, parts.handle, sizes=_sizes(size_of(batch)),
                budget_bytes=placement.budget_bytes, on_progress=lambda text, *_: tell(text),
            )  # fmt: skip
        if plot is not None:
            files.write_atomic(
                plot, plot_profile(found, f"training {task.name} on {parts.handle.name}")
            )
        return found


def _sizes(most: int) -> Sequence[int]:
    """Powers of two, and the whole batch."""
    powers = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
    return sorted({*powers, most})
