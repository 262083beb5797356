"""A training run, from an untrained model to a result.

    trainer = Trainer(model, loader, loss=nn.CrossEntropyLoss(), epochs=3, folder="run")
    result = trainer.fit()

`fit` is the recipe; `open` puts the run together.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import platform
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from anyrig.backends import open_device
from anyrig.backends.torch import TorchHandle
from anyrig.devices.choose import DeviceRequest, choose_device, parse_kind
from anyrig.devices.discovery import discover
from anyrig.errors import (
    InvalidInputError,
    InvalidSettingError,
    Message,
    OutOfMemoryError,
    StorageError,
    WorkError,
)
from anyrig.memory.oom import detect_oom
from anyrig.memory.recovery import run_with_recovery
from anyrig.training import rng
from anyrig.training.batch import (
    Batch,
    count_items,
    slice_batch,
    slice_length,
    tensors_of,
    to_device,
)
from anyrig.training.callbacks import BestMetric, Callback, WeightAverage
from anyrig.training.config import (
    RENAMED,
    TrainConfig,
    choose_devices,
    choose_placement,
    rename_keys,
)
from anyrig.training.data import Collate, DataSource, Position, data_errors, plan_loading
from anyrig.training.distributed.group import load_weights
from anyrig.training.distributed.launch import (
    FitFile,
    clear_request,
    gather,
    next_fit_file,
    open_group,
    read_rank,
    request_restart,
    requested_micro_batch,
    run_again,
)
from anyrig.training.evaluate import Evaluator, Metric, check_validation_data
from anyrig.training.loggers import PrintLogger
from anyrig.training.losses import CountUnits, LanguageLoss, Loss, choose_fp8_head, resolve_loss
from anyrig.training.metrics import Alert, MetricsRecorder, StepMetrics
from anyrig.training.step import (
    RestartNeeded,
    StepBatch,
    StepFlags,
    StepResult,
    TrainStep,
    split_step,
)
from anyrig.version import __version__

if TYPE_CHECKING:
    from anyrig.memory.batch_size import BatchSizeResult
    from anyrig.monitor import Monitor
    from anyrig.placement import Placement
    from anyrig.precision.policy import FallbackEvent, PrecisionPolicy
    from anyrig.training.checkpoint import Checkpointer
    from anyrig.training.compile import Compiled, CompileOption
    from anyrig.training.distributed.group import Group
    from anyrig.training.metrics import Logger
    from anyrig.training.optim import RateScheduler, TorchScheduler
    from anyrig.training.tasks import Task

log = logging.getLogger(__name__)
OptimizerLike = str | Callable[..., torch.optim.Optimizer] | torch.optim.Optimizer
SchedulerLike = LRScheduler | Callable[[torch.optim.Optimizer], LRScheduler]
CHECKPOINTS = "checkpoints"
_RECENT_BATCHES = 4
"""How far back a batch can still be looked at: a loss is read a step late."""
_MAX_LOOKS = 3
_SIZES_SEEN = 8
_ORDER_SETTINGS = ("batch", "seed", "shuffle", "drop_last")
_OPTIMIZER_SETTINGS = ("weight_decay", "betas", "momentum")


@dataclass(frozen=True)
class TrainResult:
    """What a run led to."""

    steps: int
    """Of the whole run with its earlier parts."""
    epochs: float
    loss: float | None
    """The last step's mean over all processes; None if there was none."""
    validation: Mapping[str, float]
    """Of the weights that the model has now: with `load_best`, of the best validation."""
    seconds: float
    samples_per_s: float | None
    units_per_s: float | None
    peak_bytes: int | None
    precision: str
    micro_batch: int
    num_retries: int
    """How often memory ran out."""
    num_skipped: int
    """Steps whose gradients were not finite."""
    finished: bool
    """False if it was stopped by a signal or `Trainer.stop`: it can be resumed."""
    resumed_from: int | None
    checkpoint: Path | None
    reasons: tuple[str, ...] = field(repr=False)
    micro_batch_reason: str = field(default="", repr=False)
    """Empty if it was set."""
    stopped_early: bool = False
    """Whether validation no longer got better (`patience`)."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """What the task wrote at the end."""
    report: Path | None = None


class ProcessInfo(NamedTuple):
    """What one process of a group trains with."""

    device: str
    micro_batch: int


class FitOutcome(NamedTuple):
    """What processes leave to the program that started them."""

    result: TrainResult
    weights: Mapping[str, torch.Tensor]
    history: list[StepMetrics]


class Trainer:
    """Trains a model.

    Args:
        model: any module, on any device.
        data: a data set with `len` and `[number]`, a DataLoader, or an iterable of ready batches.
        loss: of the model and a batch, a mean over the batch's units, or a criterion such as
            `nn.CrossEntropyLoss()`. None uses the loss that the model returns.
        optimizer: `adamw` and others by name, a class or function of the weights, or an optimizer.
        scheduler: of torch, for the optimizer; or a function of it. It steps after each step.
        validation: data that is only measured.
        metrics: what else to measure there; see `evaluate.Metric`.
        folder: of the run: checkpoints, metrics, report. None keeps nothing.
        resume: continue from the folder's last checkpoint; `auto` where there is one, True needs
            one.
        device: a selector such as `cuda:1`; the best device when None.
        devices: a number of processes, or a device for each. They are started by `fit`, unless
            torchrun has.
        callbacks: see `callbacks.Callback`.
        loggers: receive what is recorded, beside the folder.
        config: everything else, or its fields as further arguments: `epochs=10`.
        units: how many units a batch's loss is a mean over; its items when None.
        collate: items to a batch.
        finish: writes what a user wants into the folder at the end.
        placement: a device that was chosen already.
        group: the processes that train together; from `environment` when None.
        environment: a launcher's variables, and those that hide devices; this process' when None.
        monitor: adds temperature and load to the metrics.
        name: of the run.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        *,
        loss: Any = None,
        optimizer: OptimizerLike | None = None,
        scheduler: SchedulerLike | None = None,
        validation: Any = None,
        metrics: Mapping[str, Metric] | None = None,
        folder: Path | str | None = None,
        resume: bool | str = "auto",
        device: int | str | None = None,
        devices: int | Sequence[int | str] | None = None,
        callbacks: Sequence[Callback] = (),
        loggers: Sequence[Logger] = (),
        config: TrainConfig | None = None,
        units: CountUnits | None = None,
        collate: Collate | None = None,
        finish: Callable[[Path], Mapping[str, Any]] | None = None,
        placement: Placement | None = None,
        group: Group | None = None,
        environment: Mapping[str, str] | None = None,
        monitor: Monitor | None = None,
        name: str = "run",
        **options: Any,
    ) -> None:
        if isinstance(model, type):
            raise InvalidSettingError(
                f"{model.__name__} is a class, not a model",
                hint=f"Pass an object of it: {model.__name__}(...).",
            )
        if not isinstance(model, nn.Module):
            raise InvalidSettingError(
                f"a {type(model).__name__} is not a model", hint="Pass a torch.nn.Module."
            )
        self.environment = dict(os.environ if environment is None else environment)
        options, optimizer = _take_optimizer(options, optimizer)
        self.config = _build_config(config, options)
        self.model, self.data, self.validation = model, data, validation
        self.loss: Loss = resolve_loss(loss)
        self._optimizer_like: OptimizerLike = optimizer or "adamw"
        self._scheduler_like = scheduler
        if metrics is not None and not isinstance(metrics, Mapping):
            raise InvalidSettingError(
                f"metrics is a {type(metrics).__name__}", hint='Pass names: {"accuracy": metric}.'
            )
        self._metrics, self._units, self._collate = dict(metrics or {}), units, collate
        _check_best_metric(self.config.best_metric, self._metrics)
        _check_resume(resume)
        self.folder = Path(folder) if folder is not None else None
        self._resume, self._finish_task = resume, finish
        self._device = None if device is None else str(device)
        self._placement = placement
        self._devices = _parse_devices(devices, device, placement)
        self._num_processes = _count_processes(devices, self.environment)
        self._given_group, self._monitor, self.name = group, monitor, name
        _check_callbacks(callbacks)
        self._callbacks, self._loggers = list(callbacks), list(loggers)
        self._stop_requested = self._is_trained = False
        self.total_steps = 0
        """Optimizer steps of the whole run; 0 before it is opened."""
        self._run: _OpenRun | None = None
        self._closed_history: list[StepMetrics] = []
        self._outcome: FitOutcome | None = None

    @classmethod
    def of(cls, task: Task, **options: Any) -> Trainer:
        """A trainer of a ready-made task."""
        return cls(
            task.model, task.data, loss=task.loss, units=task.units, collate=task.collate,
            validation=task.validation, metrics=task.metrics, finish=task.finish, name=task.name,
            **options,
        )  # fmt: skip

    # -- the recipe --------------------------------------------------------------------------------

    def fit(self) -> TrainResult:
        """Train to the end, or until it is stopped; everything so far is saved either way."""
        if self._num_processes > 1:
            return self._fit_in_processes()
        return self._fit()

    run = fit

    def _fit(self) -> TrainResult:
        run = self.open()
        self._record_start(run)
        with StopSignals() as signals, data_errors(), contextlib.closing(run.source):
            for batch in self._batches(run):
                stop = self._stop_requested or signals.received
                result = self._step(run, batch, StepFlags(stop, run.is_save_due()))
                self._call("on_step", result)
                if run.is_validation_due():
                    self._validate(run)
                if result.flags.save or run.is_best_due():
                    self._save(run)
                self._stop_requested |= signals.received
                if result.flags.stop or run.is_done or self._must_stop(run):
                    break
        return self._end(run)

    def evaluate(self) -> dict[str, float]:
        """The metrics of the validation data, now; the run takes no notice of it."""
        if self.validation is None:
            raise InvalidSettingError("there is no validation data", hint="Pass `validation`.")
        if self._run is not None or not self._is_trained:
            return self._measure(self.open())
        weights = {name: one.clone() for name, one in self.model.state_dict().items()}
        run = self.open()  # it resumes from the last checkpoint
        self.model.load_state_dict(weights)
        return self._measure(run)

    def stop(self) -> None:
        """End the run after this step, with a checkpoint; callbacks may call it."""
        self._stop_requested = True

    def _step(self, run: _OpenRun, batch: StepBatch, flags: StepFlags) -> StepResult:
        run.recent.append((run.step + 1, batch))
        try:
            result = run.train_step(batch, flags)
        except RestartNeeded as request:
            self._restart(request)
        run.group.record_speed(result.samples)
        if run.processes:
            self._describe_processes(run)
        if run.ema is not None:
            run.ema.update()
        rate = run.advance()
        run.num_retries += result.num_retries
        run.recorder.record_step(
            result, step=run.step, epoch=run.last_epoch, rate=rate,
            precision=run.policy.precision,
        )  # fmt: skip
        if self.config.name_nonfinite:
            self._name_nonfinite(run)
        return result

    def _batches(self, run: _OpenRun) -> Iterator[StepBatch]:
        """Batches of this epoch and the next ones, until the run is done."""
        while not run.is_done and not run.is_stopped_early:
            began = run.position
            with contextlib.closing(run.source.steps(run.position)) as steps:  # type: ignore[type-var]
                while True:
                    with run.recorder.waiting_for_data():
                        batch = next(steps, None)
                    if batch is None:
                        break
                    yield batch
            if run.start_next_epoch(began) and not self.config.validate_every:
                self._validate(run)  # only now it is known that the epoch of a stream is over

    def _must_stop(self, run: _OpenRun) -> bool:
        # One process that leaves alone would have the others wait: with several the flag decides.
        return run.is_stopped_early or (self._stop_requested and run.group.size == 1)

    # -- several processes -------------------------------------------------------------------------

    def _fit_in_processes(self) -> TrainResult:
        """Train in processes of their own, whose result and weights this one takes over."""
        file = next_fit_file(self.environment)
        if file is None:  # torchrun has started them
            return self._fit()
        if read_rank(self.environment).size == 1:
            if not self._devices:
                machine = discover(self.environment)
                requests = [DeviceRequest(self._device, "flag")] if self._device else []
                choose_devices(machine, choose_device(machine, requests), self._num_processes)
            self._start_processes(file)
        elif not file.is_past:
            self._hand_over(file.path, self._fit())
            self.close()
            raise SystemExit(0)  # the program goes on where it was started
        outcome = _load_outcome(file.path)
        load_weights(self.model, outcome.weights)
        self._outcome, self._is_trained = outcome, True
        return outcome.result

    def _start_processes(self, file: FitFile) -> None:
        def fit(environment: Mapping[str, str]) -> None:
            self.environment = dict(environment)
            self._hand_over(file.path, self._fit())
            self.close()

        try:
            run_again(
                fit, self._num_processes, file, environment=self.environment,
                on_message=lambda text: log.warning("%s", text),
            )  # fmt: skip
        except KeyboardInterrupt:
            if not file.path.exists():  # stopped before there was anything to keep
                raise

    def _hand_over(self, path: Path, result: TrainResult) -> None:
        run = self.open()
        weights = run.group.state_dict(run.model)
        if run.group.rank == 0:
            weights = {name: one.detach().cpu() for name, one in weights.items()}
            torch.save(FitOutcome(result, weights, self.history()), path)

    def _describe_processes(self, run: _OpenRun) -> None:
        """One line that says what each process got; again whenever that changes."""
        counts = run.group.counts(run.source.batch)
        if counts == run.counts:
            return
        run.counts = counts
        text = "; ".join(
            f"process {rank + 1}: {one.device}, {count} of {run.source.batch} items, "
            f"micro batch {min(one.micro_batch, max(count, 1))}"
            for rank, (one, count) in enumerate(zip(run.processes, counts, strict=True))
        )
        self._event(run, "processes", text)
        if run.group.rank == 0:
            log.info("%s", text)

    # -- opening and closing -----------------------------------------------------------------------

    def open(self) -> _OpenRun:
        """Put the run together, fit and resume it; `fit` does so by itself."""
        if self._run is None:
            with contextlib.ExitStack() as stack, _note_on_lists(self.data):
                run = self._open(stack)
                run.closing = stack.pop_all()
            self._run = run
            self._call("on_start")
        return self._run

    def _open(self, stack: contextlib.ExitStack) -> _OpenRun:
        """The order matters: the optimizer's state is fitted in before a checkpoint fills it, and
        random states are restored last, because everything before draws numbers of its own.
        """
        config = self.config
        placement = self._placement or self._choose_placement()
        handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(handle, TorchHandle)
        reasons = list(placement.reasons)
        _limit_memory(handle, config, placement, stack, reasons)
        group = self._given_group or self._open_group(placement, handle, stack, reasons)
        rng.restore({}, group.rank, handle.device, seed=config.seed)
        source = DataSource(
            self.data, config, group, collate=self._collate, device_type=handle.device.type
        )  # fmt: skip
        stack.callback(source.close)
        reasons += source.describe()
        if self.validation is not None:
            check_validation_data(self.validation)
            which = "highest" if config.highest_is_best else "lowest"
            reasons.append(f"validation: the {which} {config.best_metric} is the best")
        if group.lockstep:
            for size in source.step_sizes:
                group.share(size)  # what cannot be shared is refused now, not at the end
        run = self._assemble(placement, handle, group, source, stack, reasons)
        states = self._resume_run(run)
        self._prepare(run, stack)
        run.recorder = self._open_recorder(run)
        stack.callback(run.recorder.close)
        for kind, text in run.early_events:
            run.recorder.record_event(kind, text)
        if group.size > 1:
            own = ProcessInfo(placement.device.name, run.train_step.micro_batch)
            run.processes = gather(own, group.size) if self._given_group is None else []
            if run.processes:
                self._describe_processes(run)
        messages = rng.restore(
            states, group.rank, run.device, seed=config.seed, step=run.step
        )  # fmt: skip
        for text in messages if run.resumed_from is not None else ():
            self._event(run, "resume", text)
        return run

    def _assemble(
        self,
        placement: Placement,
        handle: TorchHandle,
        group: Group,
        source: DataSource,
        stack: contextlib.ExitStack,
        reasons: list[str],
    ) -> _OpenRun:
        """Model, precision, optimizer, compiler and step, in the order that they need."""
        from anyrig.training.callbacks import WeightAverage
        from anyrig.training.checkpoint import Checkpointer

        config, model = self.config, self.model.to(handle.device)
        set_training_mode(model)
        for one in (self.loss, getattr(self.loss, "criterion", None)):
            if isinstance(one, nn.Module):
                one.to(handle.device)  # weights of classes, say
        run = _OpenRun(config, placement, handle, group, source, model, reasons)
        stack.callback(run.free, own=not isinstance(self._optimizer_like, torch.optim.Optimizer))
        run.policy = self._build_policy(run, stack)
        self._shape_model(run, stack)
        optimizer = self._build_optimizer(run)
        if isinstance(self.loss, LanguageLoss):
            self.loss.chunks = config.loss_chunks
            self._choose_head(run, self.loss)
        compiled = self._compile(run, stack)
        own = isinstance(self._optimizer_like, torch.optim.Optimizer)
        max_norm = (0.0 if own else 1.0) if config.max_norm == "auto" else config.max_norm
        if own:
            reasons.append(
                f"gradients: {f'clipped to {max_norm:g}' if max_norm else 'not clipped'}"
            )
        run.train_step = TrainStep(
            model, optimizer, self.loss, run.policy, handle.device,
            micro_batch=_first_micro_batch(config, source, group), group=group, units=self._units,
            max_norm=max_norm or None, guard=config.guard, handle=handle,
            compiled=compiled, on_event=lambda kind, text: self._event(run, kind, text),
        )  # fmt: skip
        self.total_steps = run.total_steps = _count_total_steps(config, source)
        run.rates = _build_rates(
            config, optimizer, run.total_steps, self._scheduler_like, own=own
        )  # fmt: skip
        if config.ema:
            run.ema = WeightAverage(model, config.ema)
        run.best = BestMetric(config.best_metric, highest=config.highest_is_best)
        if self.folder is not None:
            run.checkpoints = Checkpointer(self.folder / CHECKPOINTS, config.checkpoints)
            if self._resume is False:
                run.checkpoints.start_over()
            if group.rank == 0:
                run.checkpoints.acquire()
            group.barrier()
            stack.enter_context(run.checkpoints)
        run.has_validation = self.validation is not None
        for text in self._list_ineffective():
            self._warn(run, text)
            self._event(run, "settings", text)
        return run

    def _list_ineffective(self) -> Iterator[str]:
        """What is set and changes nothing."""
        config = self.config
        for name in ("patience", "load_best"):
            if getattr(config, name) and self.validation is None:
                yield f"{name} has no effect without validation data"
        if config.load_best and self.folder is None:
            yield "load_best has no effect without a folder"

    def __enter__(self) -> Trainer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what was begun and free the device; the model stays, with what it has learnt."""
        run, self._run = self._run, None
        if run is not None:
            self._closed_history = list(run.recorder.steps)
            run.closing.close()

    # -- observing ---------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Optimizer steps that are done."""
        if self._outcome is not None:
            return self._outcome.result.steps
        return self._run.step if self._run else 0

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every choice that was made, in a sentence each."""
        if self._outcome is not None:
            return self._outcome.result.reasons
        return tuple(self._run.reasons) if self._run else ()

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        return self.open().train_step.optimizer

    @property
    def recorder(self) -> MetricsRecorder | None:
        return self._run.recorder if self._run else None

    def latest(self) -> StepMetrics | None:
        """The newest metrics."""
        history = self.history()
        return history[-1] if history else None

    def history(self) -> list[StepMetrics]:
        """All metrics so far, older ones thinned out."""
        if self._outcome is not None:
            return self._outcome.history
        return list(self._run.recorder.steps) if self._run else list(self._closed_history)

    def _call(self, name: str, *values: Any) -> None:
        for callback in self._callbacks:
            getattr(callback, name)(self, *values)

    def _event(self, run: _OpenRun, kind: str, text: str) -> None:
        if hasattr(run, "recorder"):
            run.recorder.record_event(kind, text)
        else:
            run.early_events.append((kind, text))
        self._call("on_event", kind, text)

    def _warn(self, run: _OpenRun, text: str) -> None:
        """Once, in one process: a `PrintLogger` prints what is recorded."""
        if run.group.rank == 0 and not any(isinstance(one, PrintLogger) for one in self._loggers):
            log.warning("%s", text)

    # -- the parts of a run ------------------------------------------------------------------------

    def _choose_placement(self) -> Placement:
        found = choose_placement(
            self.config, self._device, devices=self._devices,
            local_rank=read_rank(self.environment).local_rank,
            num_processes=_count_local_processes(self.environment), environment=self.environment,
        )  # fmt: skip
        # Whoever calls from a program has set torch's threads, or left them, on purpose.
        return replace(found, threads=torch.get_num_threads())

    def _open_group(
        self,
        placement: Placement,
        handle: TorchHandle,
        stack: contextlib.ExitStack,
        reasons: list[str],
    ) -> Group:
        config, device = self.config, placement.device
        group = open_group(
            config.strategy, self.environment, handle.device, shares=config.shares,
            device_name=f"{device.name} {device.memory.total_bytes}",
        )  # fmt: skip
        stack.callback(group.close)
        if group.size > 1:
            kind = type(group).__name__.lower()
            reasons.append(f"process {group.rank + 1} of {group.size}, {kind}")
            if group.rank == 0 and device.kind == "gpu":
                log.warning(
                    "training on several GPUs is experimental: it has been tested with processes "
                    "on CPUs and on one GPU only"
                )
        return group

    def _build_policy(self, run: _OpenRun, stack: contextlib.ExitStack) -> PrecisionPolicy:
        from anyrig.training.precision import build_policy, trainable_in_fp32

        config, placement, group = self.config, run.placement, run.group
        converted = stack.enter_context(trainable_in_fp32(run.model))
        if converted:
            run.reasons.append(f"weights: {converted} in fp16 are trained in fp32")
        features = placement.device.features

        def report(event: FallbackEvent) -> None:
            self._event(run, "precision", f"{event.reason}: continuing in {event.after}")

        fallback: Any = None
        if config.dynamic and placement.precision == "fp16":
            fallback = "bf16" if features.bf16 and placement.device.kind == "gpu" else "fp32"
        provider = placement.backend.provider
        policy = build_policy(
            run.model, placement.precision, {"rocm": "cuda"}.get(provider, provider),
            scaler=config.scaler, fallback=fallback, fallback_settings=config.moving,
            on_fallback=report,
            # Where kernels can call a step off, `TrainStep` guards without waiting.
            skip_nonfinite=config.guard,
            sync_flag=group.max if group.size > 1 else None,
        )  # fmt: skip
        stack.callback(policy.restore)
        return policy

    def _shape_model(self, run: _OpenRun, stack: contextlib.ExitStack) -> None:
        """Convert, recompute, share out; the order matters: shards are made of what is cast."""
        from anyrig.training.precision import Fp8Policy

        config, model = self.config, run.model
        if isinstance(run.policy, Fp8Policy):
            run.policy.cast_model(model)
        if config.recompute != "none":
            from anyrig.training.compile import preview_compile
            from anyrig.training.memory import recompute

            how = config.recompute
            if (
                how == "selective"
                and not preview_compile(self._compile_option, run.device.type).used
            ):
                how = "blocks"
                self._event(
                    run, "recompute",
                    "recomputing whole blocks: selective recompute needs torch.compile; without it "
                    "it takes more time and more memory",
                )  # fmt: skip
            changed = stack.enter_context(recompute(model, how, config.recompute_types))
            run.reasons.append(f"recompute: {changed.reason}")
        run.group.prepare(model)

    def _build_optimizer(self, run: _OpenRun) -> torch.optim.Optimizer:
        from anyrig.training.optim import build_optimizer

        config, given = self.config, self._optimizer_like
        if isinstance(given, torch.optim.Optimizer):
            run.group.adopt_optimizer(given)
        built = build_optimizer(
            given, run.model, learning_rate=config.learning_rate, weight_decay=config.weight_decay,
            betas=config.betas, momentum=config.momentum, fused=config.fused_optimizer,
        )  # fmt: skip
        if run.group.lockstep and isinstance(built.optimizer, torch.optim.Adafactor):
            raise InvalidSettingError(
                "torch's adafactor cannot train the shards of fsdp",
                hint='Use adamw or sgd, or set strategy = "ddp".',
            )
        run.reasons.append(f"optimizer: {built.reason}")
        if config.offload_optimizer:
            from anyrig.training.memory import offload_optimizer

            run.reasons.append("optimizer: its state is kept in the host's memory")
            offload_optimizer(built.optimizer)
        return built.optimizer

    @property
    def _compile_option(self) -> CompileOption:
        """A mode of torch.compile forces it."""
        option = self.config.compile
        return option if isinstance(option, bool) or option == "auto" else True

    def _compile(self, run: _OpenRun, stack: contextlib.ExitStack) -> Compiled:
        from anyrig.training.compile import compile_model, cudnn_benchmark

        core = getattr(self.loss, "core", None)
        mode = self.config.compile
        compiled = compile_model(
            core(run.model) if core is not None else run.model,
            self._compile_option, run.device.type,
            mode=None if isinstance(mode, bool) or mode in ("auto", "default") else mode,
            on_message=lambda text: self._event(run, "compile", text),
        )  # fmt: skip
        run.reasons.append(f"compile: {compiled.reason}")
        stack.enter_context(compiled)
        gains = _has_convolutions(run.model) and _has_one_size(self.data)
        reason = stack.enter_context(
            cudnn_benchmark(self.config.cudnn_benchmark, run.device.type, gains=gains)
        )
        run.reasons.append(f"cuDNN: {reason}")
        return compiled

    def _choose_head(self, run: _OpenRun, loss: LanguageLoss) -> None:
        """How a language model's head is computed."""
        config, sides = self.config, loss.head(run.model)
        why = f"in chunks ({config.loss_chunks})"
        if run.policy.precision == "fp8" or config.fp8_head is True:
            loss.fp8 = True
        elif config.fp8_head == "auto" and run.policy.precision == "bf16" and sides is not None:
            loss.fp8, reason = choose_fp8_head(run.device, *sides)
            why += f"; its head {reason if loss.fp8 else f'in bf16: {reason}'}"
        else:
            loss.fp8 = False
        run.reasons.append(f"loss: {why}")

    def _choose_states(self, run: _OpenRun, first: Batch, stack: contextlib.ExitStack) -> None:
        """The format of the states between blocks, by a test of the first item."""
        from anyrig.training.precision import compare_gradients, half_states

        option = self.config.half_states
        if not option or run.policy.autocast_dtype != torch.bfloat16:
            return
        if option == "auto":
            if run.device.type != "cuda" or run.group.lockstep:
                return
            if not isinstance(self.loss, LanguageLoss):
                return
            step, item = run.train_step, to_device(run.take_one(first), run.device)

            def compute() -> torch.Tensor:
                step.snapshot.restore()
                return step.gradients(item)

            step.snapshot.take()
            try:
                with torch.compiler.set_stance("force_eager"):
                    change = compare_gradients(run.model, compute, lambda: half_states(run.model))
                step.snapshot.restore()
            except Exception as error:
                if detect_oom(error) is None:
                    raise
                small = False
            else:
                small = change.is_small
            if not run.group.min(int(small)):
                run.reasons.append("states: in fp32, since bf16 changes the first item's gradients")
                return
        stack.enter_context(half_states(run.model))
        run.reasons.append("states: in bf16 between blocks")

    def _prepare(self, run: _OpenRun, stack: contextlib.ExitStack) -> None:
        """Choose the attention, the micro batch and the workers."""
        config, source = self.config, run.source
        auto = config.micro_batch == "auto"
        first: Batch = None
        if auto or run.device.type == "cuda" or run.placement.speed:
            first = source.first_batch(-(-source.batch // run.group.size))
            run.first_batch = first
        if run.device.type == "cuda" and not run.group.lockstep:
            self._choose_attention(run, first, stack)
        self._choose_states(run, first, stack)
        step_s = None
        if auto and not run.is_fitted:
            step_s = self._fit_micro_batch(run, first)
        requested = requested_micro_batch(self.folder) if self.folder is not None else None
        if requested is not None and requested < run.train_step.micro_batch:
            run.train_step.micro_batch = requested
            run.explain_micro_batch(f"{requested}, because of an earlier out-of-memory error")
        elif requested is not None and run.is_fitted and self.folder is not None:
            clear_request(self.folder)  # the checkpoint has it by now
        if source.kind in ("items", "stream"):
            self._plan_loading(run, step_s)

    def _plan_loading(self, run: _OpenRun, step_s: float | None) -> None:
        from anyrig.training.data import TensorRows, measure_reading

        source, loading = run.source, self.config.loading
        cost = None
        in_memory = self._collate is None and TensorRows.wrap(self.data) is not None
        if loading.num_workers == "auto" and source.kind == "items" and not in_memory:
            size = max(1, source.batch // run.group.size)
            cost = measure_reading(self.data, self._collate, size)
        plan = plan_loading(
            cost, loading, run.device.type, step_s, num_processes=run.group.size
        )  # fmt: skip
        source.set_options(plan.options)
        run.reasons += [f"loading: {reason}" for reason in plan.reasons]

    def _choose_attention(self, run: _OpenRun, first: Batch, stack: contextlib.ExitStack) -> None:
        """By a test of the model's own calls, before anything is compiled."""
        from anyrig.training.compile import best_attention, record_attention_calls

        try:
            calls = record_attention_calls(run.model, self.loss, run.take_one(first))
        except Exception as error:  # noqa: BLE001 - a model may do anything; it still can be trained
            run.reasons.append(
                f"attention: torch's default ({type(error).__name__}: {error})"[:200]
            )
            return
        precision: Any = run.policy.precision
        chosen = stack.enter_context(best_attention(calls, run.device, precision))
        run.reasons.append(f"attention: {chosen.reason}")

    def _fit_micro_batch(self, run: _OpenRun, first: Batch) -> float | None:
        """The micro batch by trial; how long a step takes with it, where that is known."""
        from anyrig.training.memory import fit_micro_batch, fit_micro_batch_in_lockstep

        if slice_length(first) is None:
            run.explain_micro_batch("whole batches: they cannot be cut")
            return None
        step, budget = run.train_step, run.placement.budget_bytes
        if run.group.lockstep:
            step.micro_batch, why = fit_micro_batch_in_lockstep(
                step, first, run.handle, run.group, budget_bytes=budget
            )
            run.explain_micro_batch(f"{step.micro_batch}: {why}")
            return None
        found = fit_micro_batch(step, first, run.handle, budget_bytes=budget, on_message=log.info)
        run.fit = found
        step.micro_batch, step.can_grow = found.batch_size, found.batch_size >= count_items(first)
        run.explain_micro_batch(f"{step.micro_batch}: {found.reason}")
        rate = found.best.rate
        return run.source.batch / run.group.size / rate if rate else None

    def _open_recorder(self, run: _OpenRun) -> MetricsRecorder:
        from anyrig.training.flops import count_flops
        from anyrig.training.loggers import JsonLinesLogger, TensorBoardLogger

        is_first, config = run.group.rank == 0, self.config
        loggers: list[Logger] = [*self._loggers] if is_first else []
        past: Any = ()
        if self.folder is not None and is_first:
            self.folder.mkdir(parents=True, exist_ok=True)
            lines = JsonLinesLogger(self.folder, after=run.resumed_from)
            loggers.append(lines)
            past = lines.past
            if config.tensorboard:
                loggers.append(TensorBoardLogger(self.folder, after=run.resumed_from))
        flops = None
        if run.placement.speed and not run.group.lockstep and run.first_batch is not None:
            flops = count_flops(run.model, self.loss, run.take_one(run.first_batch), 1)
        return MetricsRecorder(
            run.device, loggers=loggers, log_every=config.log_every, total_steps=run.total_steps,
            memory=run.handle.memory, group=run.group,
            flops_per_sample=flops.per_sample if flops else None, peak_flops=run.placement.speed,
            monitor=self._monitor, monitor_device=run.placement.device.id,
            on_alert=lambda alert: self._on_alert(run, alert), past=past,
        )  # fmt: skip

    def _record_start(self, run: _OpenRun) -> None:
        if run.is_started:
            return
        run.is_started = True
        weights = sum(one.numel() for one in run.model.parameters() if one.requires_grad)
        text = "resumed" if run.resumed_from is not None else "started"
        run.recorder.record_event(
            "start", text, model=self.name, parameters=weights,
            device=run.placement.device.name, precision=run.policy.precision,
            reasons=list(run.reasons), settings=asdict(self.config),
        )  # fmt: skip
        self._call("on_event", "start", text)

    # -- validation --------------------------------------------------------------------------------

    def _validate(self, run: _OpenRun) -> None:
        if self.validation is None:
            return
        run.figures, run.validated_step = self._measure(run), run.step
        run.is_best = run.best.update(run.figures)
        run.recorder.record_validation(run.step, run.figures)
        patience = self.config.patience
        if patience and run.best.num_worse >= patience:
            run.is_stopped_early = True
            text = f"no better {run.best.name} in {patience} validations: stopping"
            self._event(run, "early stop", text)
        self._call("on_validate", run.figures)

    def _measure(self, run: _OpenRun) -> dict[str, float]:
        with run.recorder.aside(), run.averaged_weights():
            if run.evaluator is None:
                run.evaluator = Evaluator(
                    self.validation, self.loss, batch=run.source.batch,
                    micro_batch=run.train_step.micro_batch, policy=run.policy, device=run.device,
                    group=run.group, units=self._units, metrics=self._metrics,
                    collate=self._collate, handle=run.handle,
                )  # fmt: skip
            try:
                return run.evaluator(run.model)
            except RestartNeeded as request:
                self._restart(request)

    # -- checkpoints -------------------------------------------------------------------------------

    def _save(self, run: _OpenRun, *, wait: bool = False) -> None:
        """Every process takes part, the first one writes."""
        if run.checkpoints is None or run.saved_step == run.step:
            return
        with run.recorder.aside():
            run.recorder.flush()
            try:
                self._write_checkpoint(run, wait=wait)
            except StorageError as error:
                text = Message("{problem}. {hint}", problem=error.message, hint=error.hint)
                self._event(run, "checkpoint", text)
                if wait:
                    _check_last_is_saved(run, error)
        run.saved_step, run.saved_at = run.step, time.monotonic()
        for report in run.checkpoints.take_reports():
            self._event(run, "checkpoint", report.text)

    def _write_checkpoint(self, run: _OpenRun, *, wait: bool) -> None:
        from anyrig.training.checkpoint import TrainingState

        assert run.checkpoints is not None
        step = run.train_step
        weights = run.group.state_dict(run.model)
        optimizer = run.group.optimizer_state_dict(run.model, step.optimizer)
        averages = run.ema.state_dict() if run.ema is not None else None
        if averages is not None:
            averages["averages"] = run.group.gather(averages["averages"])
        states = dict(enumerate(gather(rng.capture(run.device), run.group.size)))
        if run.group.rank:
            return
        is_fresh = run.validated_step == run.step
        plain = {
            "position": list(run.position),
            "data": run.source.state_dict(),
            "applied": run.policy.state_dict(),
            "rates": run.rates.state_dict() if run.rates is not None else {"steps": run.step},
            "best": run.best.state_dict(),
            "figures": run.figures if is_fresh else {},
            "ema": averages,
            "micro_batch": step.micro_batch,
            "micro_batch_can_grow": step.can_grow,
            "reference_units": step.reference_units,
            "precision": run.policy.precision,
            "settings": asdict(self.config),
            "processes": run.group.size,
            "device": run.placement.device.name,
            "versions": {
                "anyrig": __version__, "torch": torch.__version__,
                "python": platform.python_version(),
            },
        }  # fmt: skip
        run.checkpoints.save(
            TrainingState(
                run.step, epoch=run.position.epoch, weights=weights, optimizer=optimizer,
                plain=plain, random=states,
                loss=run.best.rank(run.figures) if is_fresh else None,
            ),
            wait=wait,
        )  # fmt: skip

    def _resume_run(self, run: _OpenRun) -> Mapping[int, Mapping[str, Any]]:
        """Continue from the last checkpoint; the random states to restore later."""
        if run.checkpoints is None or self._resume is False:
            return {}
        found = run.checkpoints.load()
        if found is None:
            self._check_resume(run.checkpoints)
            return {}
        saved, plain = found.state, found.state.plain
        for text in found.skipped:
            self._event(run, "checkpoint", text)
        try:
            run.position = Position(*plain["position"])
            policy_state, rates_state = plain["applied"], plain["rates"]
        except (KeyError, TypeError) as error:
            raise InvalidInputError(
                f"{found.path} is not a checkpoint of a run: {error!r} is missing",
                hint="Use another one, or start over in another folder.",
            ) from error
        step = run.train_step
        self._load_state(run, saved.weights, saved.optimizer)
        run.policy.load_state_dict(policy_state)
        if run.rates is not None:
            run.rates.load_state_dict(rates_state)
        run.source.load_state_dict(plain.get("data") or {})
        run.load_averages(plain)
        step.reference_units = int(plain.get("reference_units") or 0)
        run.step = run.resumed_from = run.saved_step = saved.step
        before = plain.get("settings") or {}
        for text in _list_differences(before, asdict(self.config)):
            self._event(run, "resume", text)
        self._event(run, "resume", f"continuing from the checkpoint {found.path.name}")
        same = (plain.get("device"), plain.get("processes")) == (
            run.placement.device.name, run.group.size,
        )  # fmt: skip
        micro = plain.get("micro_batch")
        if self.config.micro_batch == "auto" and same and isinstance(micro, int):
            run.is_fitted = True
            step.micro_batch, step.can_grow = micro, bool(plain.get("micro_batch_can_grow"))
            run.explain_micro_batch(f"{micro}, as before")
        return saved.random

    def _check_resume(self, checkpoints: Checkpointer) -> None:
        if self._resume is True:
            raise InvalidInputError(
                f"there is no checkpoint in {checkpoints.folder}",
                hint='Pass resume="auto" to start where there is none.',
            )

    def _load_state(
        self, run: _OpenRun, weights: Mapping[str, torch.Tensor], state: Mapping[str, Any] | None
    ) -> None:
        optimizer = run.train_step.optimizer
        groups = optimizer.param_groups
        names = () if run.rates is None else _OPTIMIZER_SETTINGS
        now = [{name: one[name] for name in names if name in one} for one in groups]
        run.group.load_state_dict(run.model, optimizer, weights, state)
        for one, own in zip(optimizer.param_groups, now, strict=True):
            one.update(own)  # what is set now holds, as it does for the rate

    def _restart(self, request: RestartNeeded) -> NoReturn:
        """End this process so that the launcher starts all again with a smaller micro batch."""
        if self.folder is None:
            raise OutOfMemoryError(
                "out of memory, and a run without a folder cannot be restarted",
                hint="Pass `folder`, or set a smaller micro_batch.",
            )
        request_restart(self.folder, request.micro_batch)

    # -- the end -----------------------------------------------------------------------------------

    def _end(self, run: _OpenRun) -> TrainResult:
        if run.is_over and self.validation is not None and not run.figures:
            self._validate(run)
        self._save(run, wait=True)
        run.recorder.finish()
        self._event(run, "end", "finished" if run.is_over else "stopped")
        if run.is_over:
            self._choose_final_weights(run)
        result = self._build_result(run)
        if run.is_over:
            result = replace(result, outputs=self._write_outputs(run))
        if self.folder is not None and run.group.rank == 0:
            from anyrig.training.report import write_report

            result = replace(result, report=write_report(self.folder, title=self.name))
        if run.checkpoints is not None:
            run.checkpoints.close()  # another trainer may continue in the folder
        self._stop_requested, self._is_trained = False, True
        self._call("on_end", result)
        return result

    def _choose_final_weights(self, run: _OpenRun) -> None:
        """The average of the weights, or those of the best validation, where that is asked for."""
        if run.ema is not None:
            run.ema.swap_in(for_good=True)
        if not self.config.load_best or run.checkpoints is None:
            return
        run.group.barrier()
        best = run.checkpoints.best()
        if best is None or best.step == run.step:
            return
        found = run.checkpoints.load(best.path)
        assert found is not None
        run.group.load_state_dict(run.model, None, found.state.weights, None)
        run.figures = dict(found.state.plain.get("figures") or run.figures)
        if run.ema is not None:
            run.load_averages(found.state.plain)
            run.ema.swap_in(for_good=True)
        self._event(run, "best", f"loaded the best checkpoint, of step {best.step}")

    def _build_result(self, run: _OpenRun) -> TrainResult:
        rows = run.recorder.steps
        last = rows[-1] if rows else None
        seconds = sum(row.step_s * row.num_steps for row in rows)
        steps = run.source.steps_in_epoch
        latest = run.checkpoints.latest() if run.checkpoints is not None else None
        return TrainResult(
            steps=run.step,
            epochs=run.step / steps if steps else float(run.position.epoch),
            loss=last.loss if last else None,
            validation=dict(run.figures),
            seconds=time.perf_counter() - run.began,
            samples_per_s=sum(row.samples for row in rows) / seconds if seconds > 0 else None,
            units_per_s=sum(row.units for row in rows) / seconds if seconds > 0 else None,
            peak_bytes=run.handle.memory().peak_bytes,
            precision=run.policy.precision,
            micro_batch=run.train_step.micro_batch,
            num_retries=run.num_retries,
            num_skipped=last.total_skipped if last else 0,
            finished=run.is_over,
            resumed_from=run.resumed_from,
            checkpoint=latest.path if latest else None,
            reasons=tuple(run.reasons),
            micro_batch_reason=run.micro_batch_reason,
            stopped_early=run.is_stopped_early,
        )

    def _write_outputs(self, run: _OpenRun) -> Mapping[str, Any]:
        """What the task makes of the trained model, in the first process."""
        if self._finish_task is None or self.folder is None or run.group.rank:
            return {}
        if run.group.lockstep:
            return {"left": "resume the run in one process to have its results written"}
        run.policy.restore()
        with run.recorder.aside():
            return self._finish_task(self.folder)

    # -- values that are not finite ----------------------------------------------------------------

    def _on_alert(self, run: _OpenRun, alert: Alert) -> None:
        self._warn(run, f"step {alert.step}: {alert.text}")
        if alert.kind in ("loss-nonfinite", "steps-skipped"):
            run.suspect_step = alert.step

    def _name_nonfinite(self, run: _OpenRun) -> None:
        """Where a loss was not finite, run its batch again with hooks to name the module.

        The weights have moved on by a step or two when that is known, which seldom matters.
        """
        step, run.suspect_step = run.suspect_step, None
        if step is None or run.num_looks >= _MAX_LOOKS or run.group.lockstep:
            return
        run.num_looks += 1
        near = [batch for number, batch in run.recent if number >= step]
        for batch in near or [batch for _, batch in run.recent]:
            outcome = run_with_recovery(lambda batch=batch: _find_nonfinite(run, batch), run.handle)  # type: ignore[misc]
            if outcome.result:
                self._event(run, "not finite", outcome.result)
                return
        self._event(run, "not finite", "no module gave it again when the batch was run once more")


class _OpenRun:
    """A run that is put together, and where it stands."""

    policy: PrecisionPolicy
    train_step: TrainStep
    recorder: MetricsRecorder
    best: BestMetric

    def __init__(
        self,
        config: TrainConfig,
        placement: Placement,
        handle: TorchHandle,
        group: Group,
        source: DataSource,
        model: nn.Module,
        reasons: list[str],
    ) -> None:
        self.config, self.placement, self.handle = config, placement, handle
        self.group, self.source, self.model, self.reasons = group, source, model, reasons
        self.rates: RateScheduler | TorchScheduler | None = None
        self.ema: WeightAverage | None = None
        self.checkpoints: Checkpointer | None = None
        self.evaluator: Evaluator | None = None
        self.fit: BatchSizeResult | None = None
        self.micro_batch_reason = ""
        self.first_batch: Batch = None
        self.is_fitted = self.is_started = False
        self.has_validation = self.is_stopped_early = self.is_best = False
        self.total_steps = self.step = self.last_epoch = self.num_retries = 0
        self.position = Position()
        self.resumed_from: int | None = None
        self.saved_step = self.validated_step = -1
        self.figures: dict[str, float] = {}
        self.early_events: list[tuple[str, str]] = []
        self.processes: list[ProcessInfo] = []
        self.counts: list[int] = []
        self.recent: deque[tuple[int, StepBatch]] = deque(maxlen=_RECENT_BATCHES)
        self.suspect_step: int | None = None
        self.num_looks = 0
        self.began, self.saved_at = time.perf_counter(), time.monotonic()
        self.closing = contextlib.ExitStack()

    @property
    def device(self) -> torch.device:
        return self.handle.device

    @property
    def is_done(self) -> bool:
        return self.step >= self.total_steps

    @property
    def is_over(self) -> bool:
        """Whether it ended by itself."""
        return self.is_done or self.is_stopped_early

    def explain_micro_batch(self, reason: str) -> None:
        self.micro_batch_reason = reason
        self.reasons.append(f"micro batch: {reason}")

    def take_one(self, batch: Batch) -> Batch:
        return to_device(slice_batch(batch, 0, 1), self.device)

    def advance(self) -> float:
        """A step is done; the learning rate that it had."""
        steps = self.source.steps_in_epoch
        epoch, step = self.position
        self.step += 1
        self.is_best = False
        self.last_epoch = epoch
        ended = steps is not None and step + 1 >= steps
        self.position = Position(epoch + 1, 0) if ended else Position(epoch, step + 1)
        if self.rates is not None:
            return self.rates.step()
        return float(self.train_step.optimizer.param_groups[0]["lr"])

    def start_next_epoch(self, began: Position) -> bool:
        """The data came to an end; whether only now it is known that the epoch is over.

        A run that is resumed with larger batches may stand behind the last one of its epoch.
        """
        epoch, step = self.position
        if step:
            self.position = Position(epoch + 1, 0)
        elif self.position == began:
            raise _no_batch(self.source)
        return self.source.steps_in_epoch is None

    def is_validation_due(self) -> bool:
        if not self.has_validation:
            return False
        every = self.config.validate_every
        due = self.step % every == 0 if every else self.position.step == 0
        return due or self.is_done  # a result tells of the model that came out

    def is_save_due(self) -> bool:
        """Whether a checkpoint should follow the step that comes next."""
        settings, step = self.config.checkpoints, self.step + 1
        if self.checkpoints is None or step >= self.total_steps:
            return False
        by_steps = bool(settings.every_steps) and step % settings.every_steps == 0
        by_time = bool(settings.every_s) and time.monotonic() - self.saved_at >= settings.every_s
        return by_steps or by_time

    def is_best_due(self) -> bool:
        return self.is_best and bool(self.config.checkpoints.best) and not self.is_done

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        if self.ema is None:
            yield
            return
        self.ema.swap_in()
        try:
            yield
        finally:
            self.ema.swap_out()

    def load_averages(self, plain: Mapping[str, Any]) -> None:
        if plain.get("best"):
            self.best.load_state_dict(plain["best"])
        if self.ema is not None and plain.get("ema"):
            self.ema.load_state_dict(plain["ema"])

    def free(self, *, own: bool) -> None:
        """Give the device back what only this run held; an optimizer that was given keeps its
        state.
        """
        self.recent.clear()
        if hasattr(self, "train_step"):
            self.train_step.zero_grad()
            if own:
                self.train_step.optimizer.state.clear()
        self.handle.release()


class StopSignals:
    """Ctrl-C and SIGTERM, heeded between two steps, so that nothing is half done.

    The first one asks; a second Ctrl-C ends at once. Only the main thread receives signals.
    """

    def __init__(self) -> None:
        self.received = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM"):
                number = getattr(signal, name, None)
                # One that is ignored (a job of a shell in the background) stays so.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = True


# -- what a trainer is given -----------------------------------------------------------------------


def _take_optimizer(
    options: dict[str, Any], optimizer: OptimizerLike | None
) -> tuple[dict[str, Any], OptimizerLike | None]:
    other = options.pop("optimiser", None)
    if other is not None and optimizer is not None:
        raise InvalidSettingError("optimiser and optimizer are both set", hint="Set one of them.")
    return options, optimizer if other is None else other


def _build_config(config: TrainConfig | None, options: Mapping[str, Any]) -> TrainConfig:
    if config is not None and not isinstance(config, TrainConfig):
        raise InvalidSettingError(
            f"config is a {type(config).__name__}", hint="Pass TrainConfig(batch=64, ...)."
        )
    from anyrig.training.config import check_name

    arguments = list(inspect.signature(Trainer.__init__).parameters)[1:-1]
    known = [*TrainConfig.__dataclass_fields__, *RENAMED]
    for name in options:
        if name not in known:
            check_name(name, [*arguments, *known], "Trainer")
    if config is None:
        return TrainConfig(**options)
    return replace(config, **rename_keys(options)) if options else config


def _check_best_metric(name: str, metrics: Mapping[str, Metric]) -> None:
    if name != "loss" and name not in metrics:
        raise InvalidSettingError(
            f"best_metric is {name!r}, which is not measured",
            hint=f"Measured: {', '.join(['loss', *metrics])}.",
        )


def _check_resume(resume: object) -> None:
    if resume != "auto" and not isinstance(resume, bool):
        raise InvalidSettingError(
            f"resume is {str(resume)!r}",
            hint='Pass True, False or "auto"; `folder` is the folder of the run that continues.',
        )


def _check_callbacks(callbacks: Sequence[Callback]) -> None:
    if isinstance(callbacks, Callback) or callable(callbacks):
        raise InvalidSettingError("callbacks is not a list", hint="Pass callbacks=[callback].")
    for one in callbacks:
        if isinstance(one, type):
            raise InvalidSettingError(
                f"the callback {one.__name__} is a class", hint=f"Pass an object: {one.__name__}()."
            )
        if not isinstance(one, Callback):
            raise InvalidSettingError(
                f"a {type(one).__name__} is not a callback",
                hint="Derive it from anyrig.training.Callback.",
            )


@contextlib.contextmanager
def _note_on_lists(data: Any) -> Iterator[None]:
    """Batches in a list are collated once more, which a model or its loss may not survive."""
    try:
        yield
    except Exception as error:
        if isinstance(data, list) and data and (slice_length(data[0]) or 0) > 1:
            error.add_note(
                "A list is a data set, whose items are collated. If these are ready batches, pass "
                "DataLoader(batches, batch_size=None)."
            )
        raise


def _parse_devices(
    devices: int | Sequence[int | str] | None, device: int | str | None, placement: Placement | None
) -> tuple[int | str, ...]:
    """The device of each process; empty where they are only counted."""
    if devices is None:
        return ()
    if isinstance(devices, (str, bytes, bool)) or not isinstance(devices, (int, Sequence)):
        raise InvalidInputError(
            f"devices is {devices!r}",
            hint="Pass a number of processes, or a list with a device for each of them.",
        )
    count = devices if isinstance(devices, int) else len(devices)
    if count < 1:
        raise InvalidInputError(f"devices is {devices!r}", hint="Pass one device or more.")
    if isinstance(devices, int):
        is_kind = device in (None, "cpu") or bool(parse_kind(str(device)))
        if count > 1 and not is_kind:
            raise InvalidInputError(
                f"device is {device!r}, but devices is {devices}",
                hint="Pass a list with a device for each process, or a kind such as cuda or cpu.",
            )
        return ()
    if device is not None or placement is not None:
        other = "device" if device is not None else "placement"
        raise InvalidInputError(f"{other} and devices are both given", hint="Pass one of them.")
    return tuple(devices)


def _count_processes(
    devices: int | Sequence[int | str] | None, environment: Mapping[str, str]
) -> int:
    """How many processes of this machine were asked for."""
    count = 1 if devices is None else devices if isinstance(devices, int) else len(devices)
    started = _count_local_processes(environment)
    if environment.get("WORLD_SIZE") and count > started:
        raise InvalidInputError(
            f"{count} devices were given, but {started} "
            f"{'process trains' if started == 1 else 'processes train'} on this machine, "
            "each on one device",
            hint=f"Start a process for each: torchrun --nproc-per-node {count} SCRIPT.py.",
        )
    return count


def _count_local_processes(environment: Mapping[str, str]) -> int:
    local = environment.get("LOCAL_WORLD_SIZE") or environment.get("WORLD_SIZE") or "1"
    return int(local) if local.isdecimal() else 1


def _load_outcome(path: Path) -> FitOutcome:
    if not path.exists():
        raise WorkError(
            "the processes ended without a result", hint="Their output above says more."
        )
    outcome: FitOutcome = torch.load(path, weights_only=False, map_location="cpu")
    return outcome


def set_training_mode(model: nn.Module) -> None:
    """Training mode, except for what was put into evaluation mode on purpose.

    Modules of a model in training mode stay as they are: a batch norm in `eval()` is frozen. A
    model that is in evaluation mode as a whole, as `from_pretrained` returns it, is put into
    training mode, except for norms whose weights are frozen.
    """
    if model.training:
        return
    model.train()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            weights = list(module.parameters(recurse=False))
            if weights and not any(one.requires_grad for one in weights):
                module.eval()


def _limit_memory(
    handle: TorchHandle,
    config: TrainConfig,
    placement: Placement,
    stack: contextlib.ExitStack,
    reasons: list[str],
) -> None:
    """Hold the framework to what was asked for, so that a run never takes what others need."""
    if (config.memory_gb or config.memory_fraction) and placement.budget_bytes:
        limited = handle.limit(placement.budget_bytes)
        total = handle.memory().total_bytes
        if limited and total:
            stack.callback(handle.limit, total)
        reasons.append(
            "memory: the framework is limited to it"
            if limited
            else "memory: the framework cannot be limited; micro batches are fitted to it"
        )


def _first_micro_batch(config: TrainConfig, source: DataSource, group: Group) -> int:
    most = -(-source.batch // group.size)
    return most if config.micro_batch == "auto" else min(config.micro_batch, source.batch)


def _count_total_steps(config: TrainConfig, source: DataSource) -> int:
    steps = source.steps_in_epoch
    if not config.steps and steps is None:
        raise InvalidSettingError(
            "the length of an epoch of this data is unknown",
            hint="Set steps instead, or give the iterable a __len__, the number of its batches."
            if source.kind == "batches"
            else "Set steps instead.",
        )
    if steps == 0:
        raise _no_batch(source)
    return config.steps or config.epochs * (steps or 0)


def _no_batch(source: DataSource) -> InvalidInputError:
    return InvalidInputError(
        f"the data has fewer items than a batch of {source.batch}",
        hint="Set a smaller batch, or drop_last = false.",
    )


def _build_rates(
    config: TrainConfig,
    optimizer: torch.optim.Optimizer,
    total: int,
    scheduler: SchedulerLike | None,
    *,
    own: bool,
) -> RateScheduler | TorchScheduler | None:
    """None where a given optimizer keeps its rate, or what the program does with it."""
    from anyrig.training.optim import RateScheduler, TorchScheduler

    if scheduler is not None:
        if config.schedule != "auto":
            raise InvalidSettingError(
                "schedule and scheduler are both set", hint="Set one of them."
            )
        return TorchScheduler(scheduler, optimizer)
    if own and config.schedule == "auto":
        return None
    schedule: Any = "cosine" if config.schedule == "auto" else config.schedule
    return RateScheduler(
        optimizer, total=total, schedule=schedule, warmup=config.warmup, final=config.final_rate
    )


def _has_convolutions(model: nn.Module) -> bool:
    return any(isinstance(one, nn.modules.conv._ConvNd) for one in model.modules())


def _has_one_size(data: Any) -> bool:
    """Whether items of a data set, looked at here and there, are of one size."""
    items = getattr(data, "dataset", data)
    try:
        last = len(items) - 1
        numbers = {last * place // (_SIZES_SEEN - 1) for place in range(_SIZES_SEEN)}
        with rng.preserved_host_rng():
            shapes = {tuple(one.shape for one in tensors_of(items[n])) for n in numbers}
    except Exception:  # noqa: BLE001 - anybody's data set; nothing depends on it
        return False
    return len(shapes) == 1


def _list_differences(before: Any, now: dict[str, Any]) -> list[str]:
    """What was changed since, where that changes what a resume gives."""
    means = dict.fromkeys(_ORDER_SETTINGS, "the data continues in another order")
    means |= dict.fromkeys(("learning_rate", *_OPTIMIZER_SETTINGS), "it holds from here on")
    return [
        f"{name} was {before[name]!r} and is {now[name]!r}: {meaning}"
        for name, meaning in means.items()
        if name in before and before[name] != now[name] and "auto" not in (before[name], now[name])
    ]


def _check_last_is_saved(run: _OpenRun, error: StorageError) -> None:
    """A failure may be that of an earlier checkpoint: this one was begun all the same."""
    assert run.checkpoints is not None
    run.checkpoints.wait()
    last = run.checkpoints.latest()
    if run.group.rank == 0 and (last is None or last.step != run.step):
        raise error


def _find_nonfinite(run: _OpenRun, batch: StepBatch) -> str:
    """The sentence on the first module that is not finite in a batch; empty where all are."""
    from anyrig.training.nonfinite import find_nonfinite

    for piece in split_step(batch, run.train_step.micro_batch):
        items = to_device(piece.slice(batch), run.device)
        # Hooks that read values would break what is compiled into pieces.
        with torch.compiler.set_stance("force_eager"):
            found = find_nonfinite(
                run.model,
                lambda items=items: run.train_step.gradients(items),  # type: ignore[misc]
            )
        run.train_step.zero_grad()
        if found is not None:
            return found.text
    return ""
