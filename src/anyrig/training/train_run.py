"""One run, trained in its folder: its events, its state and its result.

Nothing heavy is imported before it starts.
"""

from __future__ import annotations

import contextlib
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from anyrig.errors import AnyrigError, InvalidInputError, OutOfMemoryError
from anyrig.events import Event, NamedEvent, OnEvent, ProgressEvent
from anyrig.results import in_json, to_json
from anyrig.training import runs
from anyrig.training.config_file import build_settings
from anyrig.training.runs import Run, TrainingResult

if TYPE_CHECKING:
    from anyrig.memory.batch_size import BatchSizeResult
    from anyrig.placement import Placement
    from anyrig.training.config import TrainConfig
    from anyrig.training.metrics import Record, StepMetrics
    from anyrig.training.tasks import Task
    from anyrig.training.trainer import Trainer, TrainResult

log = logging.getLogger(__name__)
BuildTask = Callable[[Run, "TrainConfig"], "Task"]
UNWRITTEN = "left"
"""Among what was made: processes that each hold a part of the model could not write it."""
_STEP_EVENT_INTERVAL_S = 0.1


@dataclass(frozen=True)
class RunStartedEvent(Event):
    """A training run begins, or goes on, in its folder."""

    run: Run
    num_processes: int = 1

    def to_json(self) -> dict[str, Any]:
        return {
            "event": "begin", "run": str(self.run.folder), "task": self.run.task.get("kind"),
            "processes": self.num_processes,
        }  # fmt: skip


@dataclass(frozen=True)
class DeviceEvent(NamedEvent):
    """Where the work runs."""

    event: ClassVar = "device"
    name: str = field(metadata=in_json("device"))
    precision: str
    title: str = field(metadata=in_json(omit=True))
    """The name with what was chosen for it, for a person."""


@dataclass(frozen=True)
class TrainingEvent(Event):
    """What a training run reports: a step (at most ten a second), a validation, a warning."""

    report: Record
    total_steps: int | None
    unit: str
    """What units are: tokens, samples."""

    def to_json(self) -> dict[str, Any]:
        from anyrig.training.metrics import Alert, StepMetrics, ValidationMetrics

        report = self.report
        if isinstance(report, StepMetrics):
            row = self._step_to_json(report)
        elif isinstance(report, ValidationMetrics):
            row = {"event": "validation", "step": report.step, "figures": report.figures}
        elif isinstance(report, Alert):
            row = {
                "event": "alert", "kind": report.kind, "step": report.step, "text": report.text,
                "hint": report.hint,
            }  # fmt: skip
        else:
            row = {"event": "said", "kind": report.kind, "step": report.step, "text": report.text}
        plain: dict[str, Any] = to_json(row)
        return plain

    def _step_to_json(self, figures: StepMetrics) -> dict[str, Any]:
        total = self.total_steps
        of = f"/{total}" if total else ""
        return {
            "event": "progress", "stage": "training", "step": figures.step, "steps": total,
            "loss": figures.loss, "done": figures.step / total if total else None,
            "left_s": figures.eta_s, "elapsed_s": figures.elapsed_s, "epoch": figures.epoch,
            "rate": figures.rate, "step_s": figures.step_s, "unit": self.unit,
            "units_per_s": figures.units_per_s, "memory_peak_bytes": figures.memory_peak_bytes,
            "title": f"step {figures.step}{of}, loss {figures.loss:.4g}",
        }  # fmt: skip


@dataclass(frozen=True)
class RunEndedEvent(Event):
    """A training run is finished, was finished before, or was stopped."""

    result: TrainingResult


def train_run(
    run: Run,
    build_task: BuildTask,
    placement: Placement,
    environment: Mapping[str, str],
    on_event: OnEvent,
) -> TrainingResult:
    """Train in this process; in one of several, the first saves the state and the result."""
    on_event(DeviceEvent(placement.device.name, placement.precision, placement.title))
    is_first = environment.get("RANK", "0") == "0"

    def write_state(status: runs.RunStatus, **facts: Any) -> None:
        if is_first:
            runs.write_state(run.folder, status, **facts)

    write_state("running")
    try:
        on_event(ProgressEvent("reading the data"))
        from anyrig.training.trainer import Trainer

        config, optimizer = build_settings(run.train)
        task = build_task(run, config)
        on_event(ProgressEvent("preparing the first step"))
        logger = _EventLogger(on_event, run.unit)
        with Trainer.of(
            task, config=config, optimizer=optimizer, placement=placement, folder=run.folder,
            environment=environment, loggers=[logger],
        ) as trainer:  # fmt: skip
            logger.trainer = trainer
            trainer.open()
            total_steps = trainer.total_steps
            write_state("running", steps=total_steps)
            result = _build_result(run, task, trainer.fit(), total_steps)
    except AnyrigError as error:
        write_state("failed", error=error.message)
        raise
    except BaseException:
        with contextlib.suppress(AnyrigError):
            write_state("stopped")
        raise
    if is_first:
        with contextlib.suppress(InvalidInputError):  # stopped before anything was logged
            result = replace(result, report=str(write_report(run)))
        runs.write_result(run.folder, result)
    write_state("finished" if result.finished else "stopped", steps=total_steps)
    return result


def write_report(run: Run) -> Path:
    """Write `report.html` of a run as it is now."""
    from anyrig.training.report import write_report as write

    return write(run.folder, title=run.folder.name, unit=run.unit)


class _EventLogger:
    """Passes what a run reports on as events; logs the trainer's reasons with the first."""

    name = "events"
    trainer: Trainer

    def __init__(self, on_event: OnEvent, unit: str) -> None:
        self._on_event, self._unit = on_event, unit
        self._waiting: StepMetrics | None = None
        self._next_step_s = 0.0
        self._has_logged = False

    def log(self, report: Record) -> None:
        from anyrig.training.metrics import StepMetrics

        if not self._has_logged and self.trainer.reasons:
            self._has_logged = True
            log.info("training\n  %s", "\n  ".join(self.trainer.reasons))
        if not isinstance(report, StepMetrics):
            self.close()
            self._send(report)
            return
        self._waiting = report
        now = time.monotonic()
        if now >= self._next_step_s:
            self._next_step_s = now + _STEP_EVENT_INTERVAL_S
            self.close()

    def close(self) -> None:
        """Send the last step that was held back."""
        if self._waiting is not None:
            figures, self._waiting = self._waiting, None
            self._send(figures)

    def _send(self, report: Record) -> None:
        self._on_event(TrainingEvent(report, self.trainer.total_steps, self._unit))


def _build_result(
    run: Run, task: Task, trained: TrainResult, total_steps: int | None
) -> TrainingResult:
    if trained.loss is None:
        trained = replace(trained, loss=runs.load_state(run.folder).loss)
    plain = {**asdict(trained), "made": _make_plain(trained.outputs)}
    plain["micro_batch_why"] = plain.pop("micro_batch_reason")
    for name in ("outputs", "stopped_early"):
        plain.pop(name)
    return TrainingResult(**{
        **to_json(plain),
        "run": str(run.folder), "task": run.task.get("kind"), "total_steps": total_steps,
        "epochs": round(trained.epochs, 4), "seconds": round(trained.seconds, 3), "unit": run.unit,
        "left_out": dict(task.skipped), "reasons": tuple(trained.reasons),
    })  # fmt: skip


def _make_plain(made: Mapping[str, Any]) -> dict[str, Any]:
    """What a task has written, by name; values that are not JSON as text."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(made), default=str))
    return plain


def write_sharded_model(run: Run, build_task: BuildTask, result: TrainingResult) -> TrainingResult:
    """Write the model that several processes hold in parts, from its checkpoint.

    On the host: it may be too large for one device.
    """
    from anyrig.training.checkpoint import Checkpointer
    from anyrig.training.distributed.group import Group
    from anyrig.training.trainer import CHECKPOINTS

    config, _ = build_settings(run.train)
    task = build_task(run, config)
    found = Checkpointer(run.folder / CHECKPOINTS).load()
    if found is None or task.finish is None:
        return result
    Group().load_state_dict(task.model, None, found.state.weights, None)
    result = replace(result, made=to_json(_make_plain(task.finish(run.folder))))
    runs.write_result(run.folder, result)
    return result


# -- before it is trained --------------------------------------------------------------------------


@contextlib.contextmanager
def build_temporarily(run: Run, build_task: BuildTask) -> Iterator[tuple[Task, TrainConfig, str]]:
    """The task of a run, its settings and the optimizer's name; what the task writes goes into a
    temporary folder.
    """
    settings, optimizer = build_settings(run.train)
    with tempfile.TemporaryDirectory(prefix="anyrig-train-", ignore_cleanup_errors=True) as folder:
        task = build_task(replace(run, folder=Path(folder)), settings)
        yield task, settings, optimizer
        del task  # it has mapped files


def profile_run(
    run: Run,
    build_task: BuildTask,
    placement: Placement,
    on_event: OnEvent,
    *,
    plot: Path | None = None,
) -> BatchSizeResult:
    """Measure memory and speed of a run's own step by micro batch."""
    on_event(ProgressEvent("reading the data"))
    from anyrig.memory.batch_size import plot_profile, sweep_batch_sizes
    from anyrig.storage.files import write_atomic
    from anyrig.training.batch import count_items, slice_batch
    from anyrig.training.trainer import Trainer

    with build_temporarily(run, build_task) as (task, settings, optimizer):
        with Trainer.of(
            task, config=replace(settings, micro_batch=1), optimizer=optimizer,
            placement=placement, environment={},
        ) as trainer:  # fmt: skip
            opened = trainer.open()
            batch = opened.source.first_batch(opened.source.batch)

            def step(size: int) -> None:
                opened.train_step.micro_batch = size
                if opened.train_step(slice_batch(batch, 0, size)).num_retries:
                    raise OutOfMemoryError(f"{size} items do not fit", hint="Use a smaller batch.")

            found = sweep_batch_sizes(
                step, opened.handle, sizes=_list_sizes(count_items(batch)),
                budget_bytes=placement.budget_bytes,
                on_progress=lambda text, *_: on_event(ProgressEvent(text)),
            )  # fmt: skip
        if plot is not None:
            subtitle = f"training {task.name} on {opened.handle.name}"
            write_atomic(plot, plot_profile(found, subtitle))
        return found


def _list_sizes(most: int) -> Sequence[int]:
    """Powers of two, and the whole batch."""
    powers = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
    return sorted({*powers, most})
