"""Training: a TOML file in, a trained model out; a run that was interrupted can be resumed."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from anyrig.app.compute import (
    MAX_PROCESSES,
    PRECISIONS,
    DeviceOptions,
    TrainingComputeOptions,
    place,
    test_device,
)
from anyrig.devices.machine import parse_precision
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    InvalidOptionError,
    Message,
    MissingPackageError,
    OptionRef,
)
from anyrig.events import Event, NamedEvent, OnEvent, ProgressEvent, WarningEvent
from anyrig.options import option
from anyrig.precision.profiles import ProfileName
from anyrig.results import in_json, to_json
from anyrig.training import runs
from anyrig.training.config_file import (
    ConfigFile,
    build_settings,
    check_settings,
    read_config,
)
from anyrig.training.runs import Run, TrainingResult
from anyrig.units import is_whole_number, pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.placement import Placement
    from anyrig.training.config import TrainConfig
    from anyrig.training.metrics import Record, StepMetrics
    from anyrig.training.tasks import Task
    from anyrig.training.trainer import Trainer, TrainResult

log = logging.getLogger(__name__)
_STEP_EVENT_INTERVAL_S = 0.1
_REMEMBERED = ("device", "profile", "strict", "no_bench", "nproc")
"""Options that a resumed run has again if they are not given."""
UNWRITTEN = "left"
"""Among what was made: processes that each hold a part of the model could not write it."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest(DeviceOptions):
    """Training."""

    file: Path | None = option(
        None, "the TOML file, with [task] and [train]", positional=True, upload=True,
        metavar="CONFIG",
    )  # fmt: skip
    run: Path | None = option(
        None, "folder of the run; default: runs/NAME-DATE; an existing run is resumed",
        short="--folder", http=False, metavar="RUN",
    )  # fmt: skip
    resume: Path | None = option(None, "folder of a run to resume", http=False, metavar="RUN")
    fresh: bool = option(False, "discard the run in the folder and start over", http=False)
    set: Mapping[str, Any] = option(
        {}, "replace a value of the file, such as train.learning_rate=1e-3"
    )
    steps: int | None = option(None, "the same as train.steps", ge=1)
    nproc: str = option(
        "", "number of processes, one per device; auto: all devices of the chosen kind",
        metavar="N",
    )  # fmt: skip
    strategy: str = option(
        "", "ddp: each process has the whole model; fsdp: each has a shard", metavar="NAME"
    )
    export: Path | None = option(
        None, "also copy the trained model to this folder, or its ONNX file to X.onnx",
        http=False, metavar="PATH",
    )  # fmt: skip
    tensorboard: bool = option(False, "also write TensorBoard files into the run's folder")
    # The file comes between these options and the settings: see `merge_settings`.
    precision: str | None = option(
        None, "auto, fp32, tf32, fp16, bf16 or fp8; auto uses the best measured one",
        choices=PRECISIONS, normalize=parse_precision, setting="compute.precision", fill=False,
        metavar="FORMAT",
    )  # fmt: skip
    profile: ProfileName | None = option(
        None, "what to prefer; `anyrig devices --profiles` shows what each means here",
        setting="compute.profile", fill=False,
    )  # fmt: skip
    memory_gb: float | None = option(
        None, "use at most N GiB of a device", gt=0, unit="GiB", metavar="N",
        setting="compute.memory_gb", fill=False, excludes="memory_fraction",
    )  # fmt: skip
    memory_fraction: float | None = option(
        None, "use at most this fraction of a device's memory", gt=0, le=1, metavar="X",
        setting="compute.memory_fraction", fill=False, excludes="memory_gb",
    )  # fmt: skip

    def __post_init__(self) -> None:
        given: object = self.nproc
        if type(given) is int:  # of a Python program or a JSON document
            object.__setattr__(self, "nproc", str(given))
        super().__post_init__()
        count = self.nproc
        if count not in ("", "auto") and not (
            is_whole_number(count) and 1 <= int(count) <= MAX_PROCESSES
        ):
            raise InvalidOptionError(
                "nproc", f"must be a number from 1 to {MAX_PROCESSES}, or auto", value=count
            )


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


def find_missing_torch(rig: Rig) -> MissingPackageError | None:
    """The error of training without torch, with the command that installs it; None if it is."""
    from importlib.util import find_spec

    if find_spec("torch") is not None:
        return None
    from anyrig.devices.advice import find_torch_install

    return MissingPackageError(
        "training needs torch, which is not installed",
        hint=find_torch_install(rig.machine) or "torch has no wheels for this system.",
    )


def require_torch(rig: Rig) -> None:
    if error := find_missing_torch(rig):
        raise error


def train(rig: Rig, request: TrainingRequest, on_event: OnEvent) -> TrainingResult:
    """Train as a TOML file says, or resume a run, until it is finished or stopped by Ctrl+C."""
    require_torch(rig)
    if request.export is not None:
        check_export_target(request.export)
    prepared = _prepare_run(rig, request, on_event)
    result = prepared.result or _train_prepared(rig, prepared, on_event)
    on_event(RunEndedEvent(result))
    if request.export is not None and result.finished:
        result = replace(result, exported=str(export_model(result, request.export)))
    return result


def write_report(run: Run) -> Path:
    """Write `report.html` of a run as it is now."""
    from anyrig.training.report import write_report as write

    return write(run.folder, title=run.folder.name, unit=run.unit)


# -- which run -------------------------------------------------------------------------------------


class _PreparedRun(NamedTuple):
    run: Run
    request: TrainingRequest
    """With the remembered options of a resumed run."""
    result: TrainingResult | None = None
    """If it was finished before: there is nothing to do."""
    is_new: bool = False
    """Its folder did not exist."""


def _prepare_run(rig: Rig, request: TrainingRequest, on_event: OnEvent) -> _PreparedRun:
    config = load_config(request)
    folder = request.resume or request.run
    if folder is not None and (request.resume or (runs.is_run(folder) and not request.fresh)):
        return _resume(rig, request, runs.open_run(folder), config, on_event)
    settings = merge_settings(rig, request, config.train)
    check_settings(settings)
    if folder is None:
        folder = runs.choose_folder(config, Path.cwd())
    runs.check_folder(folder)
    if request.fresh:
        runs.clear_run(folder)
    is_new = not folder.exists()
    run = runs.create_run(folder, config, settings, _select_remembered(request))
    return _PreparedRun(run, request, is_new=is_new)


def load_config(request: TrainingRequest) -> ConfigFile:
    """The file of a request, or that of the run to resume, with the values that it replaces."""
    if request.file is not None and request.resume is not None:
        raise InvalidInputError(
            Message("a file and {resume} were both given", resume=OptionRef("resume")),
            hint="Leave the file out: a run has a copy of it.",
        )
    if request.fresh and request.resume is not None:
        raise InvalidInputError(
            Message(
                "{resume} and {fresh} were both given",
                resume=OptionRef("resume"),
                fresh=OptionRef("fresh"),
            ),
            hint="Leave one of them out.",
        )
    if request.resume is not None:
        run = runs.open_run(request.resume)
        config = ConfigFile(Path(run.config), run.base, "", run.task, run.train)
    elif request.file is not None:
        config = read_config(request.file)
    else:
        raise InvalidInputError(
            "no configuration was given",
            hint=Message(
                "Give a TOML file, or resume a run with {resume}.", resume=OptionRef("resume")
            ),
        )
    return config.with_values(request.set)


def _resume(
    rig: Rig, request: TrainingRequest, run: Run, config: ConfigFile, on_event: OnEvent
) -> _PreparedRun:
    """Settings of a run may change, with a warning; its task may not."""
    if to_json(config.task) != run.task:
        names = {n for n in {**config.task, **run.task} if config.task.get(n) != run.task.get(n)}
        raise InvalidInputError(
            f"{run.folder} was started with another task: {', '.join(sorted(names))}",
            hint=Message(
                "Choose another folder with {run}, or start again there with {fresh}.",
                run=OptionRef("run"),
                fresh=OptionRef("fresh"),
            ),
        )
    remembered = {
        name: run.flags[name]
        for name in _REMEMBERED
        if not getattr(request, name) and run.flags.get(name) is not None
    }
    request = replace(request, **remembered)
    settings = to_json(merge_settings(rig, request, config.train))
    result = runs.load_result(run.folder)
    if settings == run.train and result is not None and result.finished:
        return _PreparedRun(run, request, replace(result, already=True))
    runs.check_not_running(run.folder)
    check_settings(settings)
    for name in sorted({*settings, *run.train}):
        before, now = (one.get(name, "not set") for one in (run.train, settings))
        if before != now:
            on_event(WarningEvent(f"train.{name} was {before} and is now {now}"))
    if request.resume and runs.has_config_changed(run):
        note = "was edited; the run continues with what it was started with"
        on_event(WarningEvent(f"{run.config} {note}"))
    return _PreparedRun(runs.update_run(run, settings, _select_remembered(request)), request)


def _select_remembered(request: TrainingRequest) -> dict[str, Any]:
    values = {name: getattr(request, name) for name in _REMEMBERED}
    return {name: value for name, value in values.items() if value}


def merge_settings(rig: Rig, request: TrainingRequest, table: Mapping[str, Any]) -> dict[str, Any]:
    """The `[train]` table: options of the request, then the file, then the user's settings."""
    defaults, settings = rig.settings.compute, dict(table)
    limits = ("memory_gb", "memory_fraction")
    if defaults.precision != "auto":
        settings.setdefault("precision", defaults.precision)
    if not settings.keys() & set(limits):
        given = {name: getattr(defaults, name) for name in limits}
        settings |= {name: value for name, value in given.items() if value}
    if any(getattr(request, name) is not None for name in limits):
        settings = {name: value for name, value in settings.items() if name not in limits}
    for name in ("precision", *limits, "steps", "strategy", "tensorboard"):
        if value := getattr(request, name):
            settings[name] = value
    return settings


# -- where it trains -------------------------------------------------------------------------------


def place_training(
    rig: Rig, request: TrainingRequest, settings: Mapping[str, Any], *, num_sharing: int = 1
) -> Placement:
    """The device, ready for torch: the allocator's variables are set, the self-test is done.

    `num_sharing` processes train on it.
    """
    from anyrig.training.config import training_workload

    memory_gb = settings.get("memory_gb") or None
    options = TrainingComputeOptions(
        device=request.device,
        strict=request.strict,
        # Without a GPU there is nothing to choose between.
        no_bench=request.no_bench or not any(gpu.usable for gpu in rig.machine.gpus),
        precision=settings.get("precision") or "auto",
        profile=request.profile or rig.settings.compute.profile,
        memory_gb=memory_gb,
        memory_fraction=None if memory_gb else settings.get("memory_fraction") or None,
        workers_per_device=num_sharing,
    )
    plan = place(rig, rig.choose_device(options), training_workload(options.precision), options)
    placement = _limit_threads(plan.placements[0], rig.environment)
    if "torch" not in sys.modules:
        os.environ.update(placement.variables)
    test_device(rig, placement, options)
    return placement


def _limit_threads(placement: Placement, environment: Mapping[str, str]) -> Placement:
    """No more threads than OMP_NUM_THREADS allows."""
    limit = environment.get("OMP_NUM_THREADS", "")
    if not limit.isdecimal() or not 1 <= int(limit) < placement.threads:
        return placement
    reason = f"{pluralize(int(limit), 'thread')}: set by OMP_NUM_THREADS"
    return replace(placement, threads=int(limit), reasons=(*placement.reasons, reason))


# -- training --------------------------------------------------------------------------------------


def _train_prepared(rig: Rig, prepared: _PreparedRun, on_event: OnEvent) -> TrainingResult:
    from anyrig.app import training_process

    run, request = prepared.run, prepared.request
    runs.register_run(rig.folders.runs, run)
    try:
        devices = choose_devices(rig, request) if request.nproc else []
        on_event(RunStartedEvent(run, max(1, len(devices))))
        if len(devices) > 1:
            return training_process.launch(rig, request, run, devices, on_event)
        placement = place_training(rig, request, run.train)
        return train_in_process(run, placement, rig.environment, on_event)
    except AnyrigError:
        if prepared.is_new and runs.delete_if_unstarted(run):
            runs.unregister_run(rig.folders.runs, runs.make_run_id(run.folder))
        raise


def choose_devices(rig: Rig, request: TrainingRequest) -> list[str]:
    """The device of each process, by id."""
    from anyrig.training import config

    choice = rig.preview_device(request)
    for warning in choice.warnings:
        rig.warn(warning)
    count = None if request.nproc == "auto" else int(request.nproc)
    return [one.id for one in config.choose_devices(rig.machine, choice, count, "nproc")]


def train_in_process(
    run: Run, placement: Placement, environment: Mapping[str, str], on_event: OnEvent
) -> TrainingResult:
    """Train in this process; in one of several, the first saves the state and the result."""
    on_event(DeviceEvent(placement.device.name, placement.precision, placement.title))

    def write_state(status: runs.RunStatus, **facts: Any) -> None:
        if environment.get("RANK", "0") == "0":
            runs.write_state(run.folder, status, **facts)

    write_state("running")
    try:
        result = _run_trainer(
            run, placement, environment, on_event, lambda steps: write_state("running", steps=steps)
        )
    except AnyrigError as error:
        write_state("failed", error=error.message)
        raise
    except BaseException:
        with contextlib.suppress(AnyrigError):
            write_state("stopped")
        raise
    if environment.get("RANK", "0") == "0":
        with contextlib.suppress(InvalidInputError):  # stopped before anything was logged
            result = replace(result, report=str(write_report(run)))
        runs.write_result(run.folder, result)
    write_state("finished" if result.finished else "stopped", steps=result.total_steps)
    return result


def _run_trainer(
    run: Run,
    placement: Placement,
    environment: Mapping[str, str],
    on_event: OnEvent,
    on_count: Callable[[int | None], None],
) -> TrainingResult:
    """Train; `on_count` is called with the number of steps before the first."""
    on_event(ProgressEvent("reading the data"))
    from anyrig.training.trainer import Trainer

    config, optimizer = build_settings(run.train)
    task = build_task(run, config)
    total_steps = _count_steps(task, config)
    on_count(total_steps)
    logger = _EventLogger(on_event, total_steps, run.unit)
    on_event(ProgressEvent("preparing the first step"))
    with Trainer.of(
        task, config=config, optimizer=optimizer, placement=placement, folder=run.folder,
        environment=environment, loggers=[logger],
    ) as trainer:  # fmt: skip
        logger.trainer = trainer
        trained = trainer.fit()
    return _build_result(run, task, trained, total_steps)


def build_task(run: Run, config: TrainConfig) -> Task:
    from anyrig.app import training_tasks

    return training_tasks.build(run.task, run.base, run.folder, config.seed)


def _count_steps(task: Task, config: TrainConfig) -> int | None:
    """How many steps a run has; None if the length of its data is not known."""
    from anyrig.training.data import DataSource
    from anyrig.training.distributed.group import Group

    if config.steps:
        return config.steps
    steps = DataSource(task.data, config, Group(), collate=task.collate).steps_in_epoch
    return config.epochs * steps if steps else None


class _EventLogger:
    """Passes what a run reports on as events; logs the trainer's reasons with the first."""

    name = "events"

    def __init__(self, on_event: OnEvent, total_steps: int | None, unit: str) -> None:
        self.trainer: Trainer | None = None
        self._on_event, self._total_steps, self._unit = on_event, total_steps, unit
        self._waiting: StepMetrics | None = None
        self._next_step_s = 0.0
        self._has_logged = False

    def log(self, report: Record) -> None:
        from anyrig.training.metrics import StepMetrics

        if not self._has_logged and self.trainer is not None and self.trainer.reasons:
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
        self._on_event(TrainingEvent(report, self._total_steps, self._unit))


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


# -- the trained model -----------------------------------------------------------------------------


def write_sharded_model(run: Run, result: TrainingResult) -> TrainingResult:
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


def check_export_target(target: Path) -> None:
    """Refuse, before any work, to overwrite a folder with a model."""
    if target.suffix.lower() != ".onnx" and target.exists():
        if target.is_dir() and not any(target.iterdir()):
            return
        raise InvalidInputError(
            f"{target} already exists", hint="Choose another path, or remove it."
        )


def export_model(result: TrainingResult, target: Path) -> Path:
    """Copy the trained model into a folder, or its ONNX file to a path."""
    from anyrig.storage.files import open_atomic
    from anyrig.training.export import replace_folder

    if result.model is None:
        raise InvalidInputError(
            "the run has no model to export",
            hint=Message(
                "Finish it first: pass {resume} with its folder.", resume=OptionRef("resume")
            ),
        )
    if target.suffix.lower() != ".onnx":
        check_export_target(target)
        with replace_folder(target) as folder:
            shutil.copytree(result.model, folder, dirs_exist_ok=True)
        return target
    graph = result.model / "model.onnx"
    if not graph.is_file():
        raise InvalidInputError(
            f"this kind of task writes no ONNX file into {result.model}",
            hint="Name a folder instead: everything that was written is copied into it.",
        )
    with graph.open("rb") as data, open_atomic(target) as file:
        shutil.copyfileobj(data, file)
    return target
