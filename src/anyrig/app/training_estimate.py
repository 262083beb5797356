"""What a training run needs before it starts: estimated for every device, or measured on one.

Nothing is trained and no run is created; what a task writes while it is built goes into a temporary
folder.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.compute import load_failed_formats
from anyrig.app.profiling import BatchSizeProfile, build_profile
from anyrig.app.training import (
    TrainingRequest,
    build_task,
    load_config,
    merge_settings,
    place_training,
    require_torch,
)
from anyrig.devices.vendors import vendor_of
from anyrig.errors import AnyrigError, OutOfMemoryError
from anyrig.events import OnEvent, ProgressEvent
from anyrig.training import runs
from anyrig.training.config_file import build_settings, check_settings
from anyrig.training.runs import Run
from anyrig.units import GIB, MIB

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Device, Machine, Precision
    from anyrig.memory.batch_size import BatchSizeResult
    from anyrig.placement import Placement
    from anyrig.training.config import TrainConfig
    from anyrig.training.estimate import Estimate
    from anyrig.training.tasks import Task

PLOT_FILE = "memory.svg"
_TORCH_TYPES = {"rocm": "cuda"}
# A CUDA context with torch's kernels loaded takes 300-600 MiB; others have been seen near it.
_CONTEXT_BYTES = 512 * MIB
# A process with torch loaded, a tiny model trained in it: 331 MiB seen on Linux.
_PROCESS_BYTES = 320 * MIB
# What the allocator keeps beside live tensors.
_SPARE = 1.05


@dataclass(frozen=True)
class DeviceEstimate:
    """What a step needs of one device, and whether it fits. A measurement decides."""

    device: Device
    estimate: Estimate
    needed_bytes: int
    """With the driver's context and what the allocator keeps."""
    existing_bytes: int | None
    """What is free there and may be used; all of it if the device does not tell what is free."""
    fits: bool | None
    """None if the device does not tell its memory."""
    largest_micro_batch: int | None
    """On a line through two estimates; None if there is one only."""
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device.id, "name": self.device.name,
            "needed_bytes": self.needed_bytes, "existing_bytes": self.existing_bytes,
            "fits": self.fits, "largest_micro_batch": self.largest_micro_batch,
            "reason": self.reason, "estimate": asdict(self.estimate),
        }  # fmt: skip


def estimate_training(
    rig: Rig, request: TrainingRequest, on_event: OnEvent
) -> list[DeviceEstimate]:
    """Estimate the memory of a training step on every device, without using any."""
    require_torch(rig)
    run = _describe_run(rig, request)
    choice = rig.preview_device(request)
    for warning in choice.warnings:
        rig.warn(warning)
    return estimate_run(
        run, rig.machine, lambda device: _choose_precision(rig, choice, device, run), on_event
    )


def estimate_run(
    run: Run,
    machine: Machine,
    precision_of: Callable[[Device], Precision],
    on_event: OnEvent,
) -> list[DeviceEstimate]:
    """Estimate a run on each device of a machine, in the precision that it would train in."""
    known: dict[tuple[str, str], list[Estimate]] = {}
    found = []
    on_event(ProgressEvent("reading the data"))
    with _build_temporarily(run) as (task, settings, optimizer):
        for device in machine.devices:
            kind, precision = _find_torch_type(device), precision_of(device)
            if (kind, precision) not in known:
                on_event(ProgressEvent(f"estimating a step in {precision} for {kind}"))
                known[kind, precision] = _estimate_two_sizes(
                    task, settings, optimizer, kind, precision, device
                )
            limit = _limit_bytes(device, settings)
            found.append(compare_with_device(known[kind, precision], device, limit))
    return found


def compare_with_device(
    estimates: Sequence[Estimate], device: Device, limit_bytes: int | None = None
) -> DeviceEstimate:
    """What a device has beside what a step needs at the largest estimated micro batch.

    Args:
        estimates: of one step, at one or two micro batches.
        device: that they were made for.
        limit_bytes: use at most this much of it.
    """
    low, high = (choose(estimates, key=lambda one: one.micro_batch) for choose in (min, max))
    context = _CONTEXT_BYTES if device.kind == "gpu" else _PROCESS_BYTES
    needed = int(high.peak * _SPARE) + context
    known = (device.memory.free_bytes, device.memory.total_bytes)
    free = next((one for one in known if one is not None), None)
    existing = min((one for one in (free, limit_bytes) if one is not None), default=None)
    largest = None
    if existing is not None and low is not high:
        slope = (high.peak - low.peak) / (high.micro_batch - low.micro_batch)
        available = (existing - context) / _SPARE
        if slope > 0:
            largest = max(0, int(low.micro_batch + (available - low.peak) / slope))
        else:  # so small that the optimizer's own peak hides it
            largest = high.micro_batch if available >= high.peak else 0
    reasons = ["it does not tell its memory"] if existing is None else []
    if reason := device.block_reason:
        reasons.append(f"not usable now: {reason}")
    return DeviceEstimate(
        device, high, needed, existing, None if existing is None else needed <= existing, largest,
        "; ".join(reasons),
    )  # fmt: skip


def _limit_bytes(device: Device, settings: TrainConfig) -> int | None:
    if settings.memory_gb:
        return int(settings.memory_gb * GIB)
    total = device.memory.total_bytes
    if total is None or not settings.memory_fraction:
        return None
    return int(total * settings.memory_fraction)


def profile_training(
    rig: Rig, request: TrainingRequest, on_event: OnEvent
) -> tuple[BatchSizeProfile, Path | None]:
    """Measure memory and speed of a run's own step by micro batch.

    Returns the profile, and the plot that was written into the folder of an existing run.
    """
    require_torch(rig)
    run = _describe_run(rig, request)
    placement = place_training(rig, request, run.train)
    plot = run.folder / PLOT_FILE if runs.is_run(run.folder) else None
    found = _profile_step(run, placement, plot, on_event)
    title = f"a step of {run.name}"
    return build_profile(placement, title, placement.precision, found), plot


def _describe_run(rig: Rig, request: TrainingRequest) -> Run:
    """The run as it would be, without a folder of its own."""
    config = load_config(request)
    settings = merge_settings(rig, request, config.train)
    check_settings(settings)
    folder = request.resume or request.run or Path()
    return Run(
        folder, config.name, str(config.path), config.base, config.task, settings, {}, time.time()
    )


@contextlib.contextmanager
def _build_temporarily(run: Run) -> Iterator[tuple[Task, TrainConfig, str]]:
    settings, optimizer = build_settings(run.train)
    with tempfile.TemporaryDirectory(prefix="anyrig-train-", ignore_cleanup_errors=True) as folder:
        task = build_task(replace(run, folder=Path(folder)), settings)
        yield task, settings, optimizer
        del task  # it has mapped files


def _choose_precision(rig: Rig, choice: DeviceChoice, device: Device, run: Run) -> Precision:
    """What a device would train in; if it cannot be used now: as requested, or bf16 or fp32."""
    from anyrig.placement import PlacementOptions, plan_placement
    from anyrig.training.config import training_workload

    requested = str(run.train.get("precision", "auto"))
    try:
        plan = plan_placement(
            rig.machine,
            replace(choice, devices=(device,), selector=device.id),
            training_workload(requested),
            PlacementOptions(
                precision=requested, profile=rig.settings.compute.profile, workers_per_device=1
            ),
            speeds=rig.measurements.speeds(rig.machine),
            failed=load_failed_formats(rig),
        )
        if plan.placements[0].device.id == device.id:
            return plan.placements[0].precision
    except AnyrigError:
        pass
    if requested in ("bf16", "fp16", "fp8", "tf32"):
        return requested  # type: ignore[return-value]  # one of the literals
    return "bf16" if requested == "auto" and device.features.bf16 else "fp32"


def _estimate_two_sizes(
    task: Task,
    settings: TrainConfig,
    optimizer: str,
    kind: str,
    precision: Precision,
    device: Device,
) -> list[Estimate]:
    """For one item and for the requested micro batch: a line through both gives the largest."""
    from anyrig.training.estimate import estimate, repeat_batch

    batch = _items_in_batch(settings)
    requested = batch if settings.micro_batch == "auto" else settings.micro_batch
    example = _load_first_batch(task, settings, 2)
    return [
        estimate(
            task.model, repeat_batch(example), task.loss, micro_batch=size,
            num_micro=min(2, -(-batch // size)), precision=precision,
            optimizer=optimizer, fused=settings.fused_optimizer is not False,
            recompute=settings.recompute, recompute_types=settings.recompute_types,
            offload_optimizer=settings.offload_optimizer, device_type=kind,
            capability=device.capability if kind == "cuda" else None,
        )
        for size in sorted({1, requested})
    ]  # fmt: skip


def _find_torch_type(device: Device) -> str:
    """The device type that torch has, or would have, for a device."""
    for backend in device.backends:
        if backend.library == "torch":
            name = backend.provider.partition(":")[0]
            return _TORCH_TYPES.get(name, name)
    if device.kind == "cpu":
        return "cpu"
    return vendor_of(device).torch_device.partition(":")[0] or "cuda"


def _items_in_batch(settings: TrainConfig) -> int:
    return 32 if settings.batch == "auto" else settings.batch


def _load_first_batch(task: Task, settings: TrainConfig, count: int) -> Any:
    from anyrig.training.data import DataSource
    from anyrig.training.distributed.group import Group

    source = DataSource(task.data, settings, Group(), collate=task.collate)
    return source.first_batch(count)


def _profile_step(
    run: Run, placement: Placement, plot: Path | None, on_event: OnEvent
) -> BatchSizeResult:
    on_event(ProgressEvent("reading the data"))
    from anyrig.memory.batch_size import plot_profile, sweep_batch_sizes
    from anyrig.storage.files import write_atomic
    from anyrig.training.batch import count_items, slice_batch
    from anyrig.training.trainer import Trainer

    with _build_temporarily(run) as (task, settings, optimizer):
        batch = _load_first_batch(task, settings, _items_in_batch(settings))
        settings = replace(settings, micro_batch=1)
        with Trainer.of(
            task, config=settings, optimizer=optimizer, placement=placement, environment={}
        ) as trainer:
            run_state = trainer.open()

            def step(size: int) -> None:
                run_state.train_step.micro_batch = size
                if run_state.train_step(slice_batch(batch, 0, size)).num_retries:
                    raise OutOfMemoryError(f"{size} items do not fit", hint="Use a smaller batch.")

            found = sweep_batch_sizes(
                step, run_state.handle, sizes=_list_sizes(count_items(batch)),
                budget_bytes=placement.budget_bytes,
                on_progress=lambda text, *_: on_event(ProgressEvent(text)),
            )  # fmt: skip
        if plot is not None:
            subtitle = f"training {task.name} on {run_state.handle.name}"
            write_atomic(plot, plot_profile(found, subtitle))
        return found


def _list_sizes(most: int) -> Sequence[int]:
    """Powers of two, and the whole batch."""
    powers = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
    return sorted({*powers, most})
