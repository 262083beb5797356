"""What is recorded of a training run: steps, validations, events, alerts.

`MetricsRecorder` receives the result of every step and reads its tensors one step later, when the
device has computed them, so that the loop does not wait. Loggers (`loggers`) get the records.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from anyrig.backends.memory import MemoryUsage
from anyrig.units import format_duration

if TYPE_CHECKING:
    import torch

    from anyrig.monitor import Monitor
    from anyrig.monitor.sample import DeviceSample
    from anyrig.training.distributed.group import Group
    from anyrig.training.step import StepResult

log = logging.getLogger(__name__)
T = TypeVar("T")
_MAX_PENDING = 8
"""Steps that the host may be ahead of what was read."""
_MEMORY_EVERY_S = 0.5
"""torch's statistics of a GPU's memory take a fifth of a millisecond to read."""


@dataclass(frozen=True)
class StepMetrics:
    """The steps since the last line of the log, up to `step`; one step where every one is logged.

    Times and rates are a step's own: validation and checkpoints are in `elapsed_s` alone. None:
    unknown.
    """

    step: int
    epoch: int
    """Counted from 0."""
    loss: float
    """The mean over the units of all processes, without those of skipped steps."""
    rate: float
    """Learning rate of the first group."""
    step_s: float
    """Mean time of a step."""
    phases: Mapping[str, float]
    """Mean seconds of a step by phase: `data`, the wait for it."""
    samples: int
    """Of all processes in these steps."""
    units: int
    samples_per_s: float | None
    units_per_s: float | None
    epoch_s: float
    """Since this epoch began."""
    elapsed_s: float
    """Since the run began, what came before a resume included."""
    time_s: float
    """Seconds since 1970."""
    precision: str
    micro_batch: int
    num_micro: int
    num_steps: int = 1
    """How many steps are in here."""
    eta_s: float | None = None
    """Until the last step, at the pace of this run so far, validation and checkpoints included."""
    grad_norm: float | None = None
    """The largest before clipping."""
    scale: float = 1.0
    num_skipped: int = 0
    """Of these steps."""
    total_skipped: int = 0
    """Of the whole run."""
    num_retries: int = 0
    """How often memory ran out in these steps."""
    total_retries: int = 0
    mfu: float | None = None
    """Useful FLOPs a second of this process as a share of its device's measured peak."""
    memory_allocated_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_peak_bytes: int | None = None
    memory_total_bytes: int | None = None
    device_temperature_c: float | None = None
    device_utilisation: float | None = None
    """Share of the time in which the device computed, from 0 to 1."""
    device_power_w: float | None = None

    @classmethod
    def from_row(cls, values: Mapping[str, Any]) -> StepMetrics:
        """From a line of `metrics.jsonl`; what a newer version added is left out."""
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})


@dataclass(frozen=True)
class ValidationMetrics:
    """The results of a validation."""

    step: int
    figures: Mapping[str, float]
    elapsed_s: float
    time_s: float


@dataclass(frozen=True)
class RunEvent:
    """Something that a person should know."""

    kind: str
    text: str
    step: int
    """The last step before it."""
    elapsed_s: float
    time_s: float
    facts: Mapping[str, Any] = field(default_factory=dict)


class Alert(NamedTuple):
    """One warning."""

    kind: str
    text: str
    step: int
    hint: str
    """What to do."""
    time_s: float = 0.0


Record: TypeAlias = StepMetrics | ValidationMetrics | RunEvent | Alert


class Logger(Protocol):
    """Receives the records of a run. It may fail: that is logged once, and the run goes on."""

    name: str

    def log(self, record: Record) -> None: ...

    def close(self) -> None: ...


def join_metrics(parts: Sequence[StepMetrics], **known: Any) -> StepMetrics:
    """Neighbouring metrics as one: sums of counts, means of means."""
    last = parts[-1]
    num = sum(one.num_steps for one in parts)
    seconds = sum(one.step_s * one.num_steps for one in parts)
    samples, units = sum(one.samples for one in parts), sum(one.units for one in parts)
    names = dict.fromkeys(name for one in parts for name in one.phases)
    phases = {n: sum(one.phases.get(n, 0.0) * one.num_steps for one in parts) for n in names}
    shares = [one.mfu * one.step_s * one.num_steps for one in parts if one.mfu is not None]
    return replace(
        last,
        **{
            "loss": _mean_loss(parts),
            "step_s": seconds / num,
            "phases": {name: total / num for name, total in phases.items()},
            "samples": samples,
            "units": units,
            "samples_per_s": samples / seconds if seconds > 0 else None,
            "units_per_s": units / seconds if seconds > 0 else None,
            "num_steps": num,
            "grad_norm": _max_norm(one.grad_norm for one in parts),
            "num_skipped": sum(one.num_skipped for one in parts),
            "num_retries": sum(one.num_retries for one in parts),
            "mfu": sum(shares) / seconds if len(shares) == len(parts) and seconds > 0 else None,
            "memory_peak_bytes": max(one.memory_peak_bytes or 0 for one in parts) or None,
            **known,
        },
    )


def _mean_loss(parts: Sequence[StepMetrics]) -> float:
    """Over units; skipped steps count only where there is nothing else."""
    counted = [one for one in parts if one.num_skipped < one.num_steps and one.units]
    counted = counted or [one for one in parts if one.units]
    units = sum(one.units for one in counted)
    return sum(one.loss * one.units for one in counted) / units if units else parts[-1].loss


def _max_norm(norms: Iterable[float | None]) -> float | None:
    """The largest of the known ones; NaN if one of them is."""
    known = [norm for norm in norms if norm is not None]
    if any(math.isnan(norm) for norm in known):
        return math.nan
    return max(known, default=None)


class ThinnedHistory(list[T]):
    """A list of bounded length: every other one of the older entries is dropped, not the first."""

    def __init__(self, max_length: int = 4096) -> None:
        super().__init__()
        self._max_length = max(8, max_length)

    def add(self, entry: T) -> None:
        self.append(entry)
        if len(self) > self._max_length:
            old = len(self) - self._max_length // 4
            self[:old] = self[:old:2]


class _PendingStep(NamedTuple):
    """A step whose tensors are on their way to the host."""

    metrics: StepMetrics
    values: torch.Tensor
    """Loss, skipped, gradient norm."""
    arrived: Any
    """An event of the device; None where the values are on the host."""
    own_units: int
    own_samples: int


class MetricsRecorder:
    """Records of a run, in bounded memory.

    Args:
        device: where the model is.
        loggers: receive the records.
        log_every: steps in one line of the log.
        total_steps: how many steps the run has, for the time that is left.
        memory: memory of the device, `handle.memory`.
        group: whose losses are added up.
        flops_per_sample: from `flops.count_flops`; may be set later.
        peak_flops: measured FLOP/s of the device; no peak, no MFU.
        monitor: adds the device's temperature, load and power.
        monitor_device: the device's id there; the first of its devices when None.
        on_alert: receives alerts.
        past: what the run recorded before it was resumed.
    """

    def __init__(
        self,
        device: torch.device | str = "cpu",
        *,
        loggers: Sequence[Logger] = (),
        log_every: int = 1,
        total_steps: int | None = None,
        memory: Callable[[], MemoryUsage] | None = None,
        group: Group | None = None,
        flops_per_sample: float | None = None,
        peak_flops: float | None = None,
        monitor: Monitor | None = None,
        monitor_device: str | None = None,
        on_alert: Callable[[Alert], object] = lambda alert: None,
        past: Iterable[Record] = (),
    ) -> None:
        import torch

        from anyrig.training.alerts import AlertRules

        self._device = torch.device(device)
        self._loggers = [*loggers]
        self._failed: set[str] = set()
        self._log_every, self._total_steps = log_every, total_steps
        self._memory, self._memory_at = memory, -math.inf
        self._memory_now = MemoryUsage()
        self._group = group if group is not None and group.size > 1 else None
        self.flops_per_sample, self._peak_flops = flops_per_sample, peak_flops
        self._monitor, self._monitor_device = monitor, monitor_device
        self._rules, self._on_alert = AlertRules(), on_alert
        self._pending: deque[_PendingStep] = deque()
        self._window: list[StepMetrics] = []
        self.steps = ThinnedHistory[StepMetrics]()
        self.validations = ThinnedHistory[ValidationMetrics]()
        self.events: deque[RunEvent] = deque(maxlen=2000)
        self.alerts: deque[Alert] = deque(maxlen=2000)
        self._began = self._epoch_began = self._step_began = time.perf_counter()
        self._aside_s = self._data_s = 0.0
        self._first: tuple[int, float] | None = None
        self._epoch: int | None = None
        self._is_in_epoch = False
        self._step = self._skipped = self._retries = 0
        self._restore(past)

    # -- what the loop calls -----------------------------------------------------------------------

    @contextlib.contextmanager
    def waiting_for_data(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._data_s += time.perf_counter() - began

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Around what is not part of a step: validation, a checkpoint."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._aside_s += time.perf_counter() - began

    def record_step(
        self, result: StepResult, *, step: int, epoch: int, rate: float, precision: str
    ) -> None:
        now = time.perf_counter()
        if epoch != self._epoch:
            self._end_epoch(now)
        if epoch != self._epoch:
            self._epoch, self._epoch_began = epoch, self._step_began
        self._is_in_epoch = True
        step_s = max(0.0, now - self._step_began - self._aside_s)
        samples, units = result.total_samples, result.total_units
        metrics = StepMetrics(
            step, epoch, math.nan, rate, step_s, {"data": self._data_s}, samples, units,
            None, None, now - self._epoch_began, now - self._began, time.time(), precision,
            result.micro_batch, result.num_micro, scale=result.scale,
            num_retries=result.num_retries,
        )  # fmt: skip
        self._step_began, self._aside_s, self._data_s = now, 0.0, 0.0
        if self._group is not None and self._pending and result.previous_loss is not None:
            last = self._pending[-1]
            self._pending[-1] = last._replace(
                metrics=replace(last.metrics, loss=result.previous_loss)
            )
        self._pending.append(self._send(metrics, result))
        self._step = step
        self._first = self._first or (step, now)
        self._read(keep=1)

    def record_event(self, kind: str, text: str, **facts: Any) -> None:
        self._emit(RunEvent(kind, text, self._step, self._measure_elapsed(), time.time(), facts))

    def record_validation(self, step: int, figures: Mapping[str, float]) -> None:
        self._emit(ValidationMetrics(step, dict(figures), self._measure_elapsed(), time.time()))

    def flush(self) -> None:
        """Read all that was recorded; every process of a group calls it at the same step."""
        if self._group is not None and self._pending:
            self._sum_last_loss()
        self._read(keep=0)

    def finish(self) -> None:
        """No step comes any more: those that fill no line of the log become a shorter one."""
        self.flush()
        self._end_window()
        self._end_epoch(time.perf_counter())

    def close(self) -> None:
        try:
            self._read(keep=0)
        except RuntimeError as error:  # a device that is lost; what was read is still written
            log.warning("the last steps' metrics could not be read: %s", error)
        self._end_window()
        self._end_epoch(time.perf_counter())
        for logger in self._loggers:
            self._guard(logger, logger.close)
        self._loggers = []

    # -- inside ------------------------------------------------------------------------------------

    def _restore(self, past: Iterable[Record]) -> None:
        for record in past:
            self._keep(record)
        if not self.steps:
            return
        last = self.steps[-1]
        self._began -= last.elapsed_s
        self._epoch, self._epoch_began = last.epoch, self._epoch_began - last.epoch_s
        self._step = last.step
        self._skipped, self._retries = last.total_skipped, last.total_retries

    def _measure_elapsed(self) -> float:
        return time.perf_counter() - self._began

    def _end_epoch(self, now: float) -> None:
        if self._epoch is None or not self._is_in_epoch:
            return
        self._is_in_epoch = False
        took = now - self._epoch_began
        text = f"epoch {self._epoch + 1}: {format_duration(took)}"
        self.record_event("epoch", text, epoch=self._epoch, seconds=took)

    def _send(self, metrics: StepMetrics, result: StepResult) -> _PendingStep:
        """Copy a step's tensors to the host behind the work that makes them."""
        import torch

        norm = math.nan if result.grad_norm is None else result.grad_norm
        if result.grad_norm is not None:
            metrics = replace(metrics, grad_norm=math.nan)
        dtype = torch.float64 if self._device.type in ("cpu", "cuda") else torch.float32
        values = torch.stack([
            torch.as_tensor(one).detach().to(self._device, dtype).reshape(())
            for one in (result.loss, result.skipped, norm)
        ])  # fmt: skip
        arrived = None
        if self._device.type in ("cuda", "xpu"):
            host = torch.empty(values.shape, dtype=dtype, pin_memory=True)
            values = host.copy_(values, non_blocking=True)
            arrived = torch.Event(self._device)
            arrived.record()
        return _PendingStep(metrics, values, arrived, result.units, result.samples)

    def _read(self, keep: int) -> None:
        """Read steps that have arrived, and wait for those that are too far behind."""
        while len(self._pending) > keep:
            head = self._pending[0]
            if (
                keep
                and head.arrived is not None
                and not head.arrived.query()
                and len(self._pending) <= _MAX_PENDING
            ):
                return
            if head.arrived is not None:
                head.arrived.synchronize()
            self._count(self._pending.popleft())

    def _count(self, pending: _PendingStep) -> None:
        loss, skipped, norm = (float(one) for one in pending.values.tolist())
        metrics = pending.metrics
        self._skipped += bool(skipped)
        self._retries += metrics.num_retries
        mfu = None
        if self.flops_per_sample and self._peak_flops and metrics.step_s > 0:
            flops = self.flops_per_sample * pending.own_samples
            mfu = flops / metrics.step_s / self._peak_flops
        metrics = replace(
            metrics,
            loss=loss if self._group is None else metrics.loss,
            grad_norm=None if metrics.grad_norm is None else norm,
            num_skipped=int(skipped),
            mfu=mfu,
        )
        self._window.append(metrics)
        for alert in self._rules.check(metrics):
            self._emit(alert)
            self._on_alert(alert)
        if metrics.step % self._log_every == 0:
            self._end_window()

    def _sum_last_loss(self) -> None:
        """The newest step's loss over all processes; the older ones' came with later steps."""
        import torch

        assert self._group is not None
        last = self._pending[-1]
        if last.arrived is not None:
            last.arrived.synchronize()
        loss, units = float(last.values[0]), last.own_units
        row = torch.tensor([loss * units if units else 0.0, units], dtype=torch.float64)
        total, count = self._group.sum(row).tolist()
        if count:
            metrics = replace(last.metrics, loss=total / count)
            self._pending[-1] = last._replace(metrics=metrics)

    def _end_window(self) -> None:
        if not self._window:
            return
        window, self._window = self._window, []
        sample, memory = self._sample(), self._read_memory()
        self._emit(join_metrics(
            window,
            eta_s=self._eta(window[-1]),
            total_skipped=self._skipped,
            total_retries=self._retries,
            memory_allocated_bytes=memory.allocated_bytes,
            memory_reserved_bytes=memory.reserved_bytes,
            memory_peak_bytes=memory.peak_bytes,
            memory_total_bytes=memory.total_bytes,
            device_temperature_c=sample.temperature_c if sample else None,
            device_utilisation=_to_share(sample.compute_percent) if sample else None,
            device_power_w=sample.power_w if sample else None,
        ))  # fmt: skip

    def _read_memory(self) -> MemoryUsage:
        now = time.perf_counter()
        if self._memory is not None and now - self._memory_at >= _MEMORY_EVERY_S:
            self._memory_at = now
            try:
                self._memory_now = self._memory()
            except Exception as error:  # noqa: BLE001 - statistics that cannot be read end no run
                log.warning("the device's memory can no longer be read: %s", error)
                self._memory = None
        return self._memory_now

    def _eta(self, last: StepMetrics) -> float | None:
        """At the pace since the first step of this run, which itself may have compiled."""
        if self._total_steps is None or self._first is None or last.step <= self._first[0]:
            return None
        took = last.elapsed_s - (self._first[1] - self._began)
        return max(0, self._total_steps - last.step) * took / (last.step - self._first[0])

    def _sample(self) -> DeviceSample | None:
        snapshot = self._monitor.latest() if self._monitor is not None else None
        if snapshot is None or not snapshot.devices:
            return None
        if self._monitor_device is None:
            return snapshot.devices[0]
        return next((one for one in snapshot.devices if one.device == self._monitor_device), None)

    def _emit(self, record: Record) -> None:
        self._keep(record)
        for logger in self._loggers:
            self._guard(logger, lambda logger=logger: logger.log(record))  # type: ignore[misc]

    def _guard(self, logger: Logger, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever its trouble is, training goes on
            if logger.name not in self._failed:
                self._failed.add(logger.name)
                log.warning("%s: not written: %s (training goes on)", logger.name, error)

    def _keep(self, record: Record) -> None:
        if isinstance(record, StepMetrics):
            self.steps.add(record)
        elif isinstance(record, ValidationMetrics):
            self.validations.add(record)
        elif isinstance(record, Alert):
            self.alerts.append(record)
        else:
            self.events.append(record)


def _to_share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100.0
