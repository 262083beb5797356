"""Looks on while a model is trained: figures of every step, read late and never waited for.

    with Recorder(device, sinks=[Lines(folder)], memory=handle.memory) as watch:
        for batch in data:
            with watch.phase("forward"):
                loss = ...
            watch.step(StepFacts(...))

A step's tensors are sent to the host behind the work that makes them and read in a later step, when
they have arrived. Sinks write on a thread of their own, which also notices that a run hangs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

from anyrig.training.protocol import Phase, StepFacts
from anyrig.training.watch.alerts import Alarm, Alert, Rules
from anyrig.training.watch.figures import (
    Around,
    Counted,
    Figures,
    RunEvent,
    Validation,
    summarise,
)
from anyrig.training.watch.history import Thinned, newest
from anyrig.training.watch.outbox import Outbox
from anyrig.training.watch.pending import Pending, known_of, read
from anyrig.training.watch.phases import Phases
from anyrig.training.watch.readback import Arrival, Readback
from anyrig.training.watch.sinks import Sink, Told
from anyrig.units import format_duration

if TYPE_CHECKING:
    from anyrig.backends.memory import MemoryUsage
    from anyrig.monitor import Monitor
    from anyrig.monitor.sample import DeviceSample

log = logging.getLogger(__name__)
# Steps that the host may be ahead of the device before a step waits for an old one.
_DEPTH = 64
# torch keeps its books of a GPU's memory in a way that takes a fifth of a millisecond to read.
_MEMORY_EVERY_S = 0.5


class Recorder:
    """Fits `anyrig.training.protocol.Watch`.

    Args:
        device: where the model is.
        sinks: who is told; see `anyrig.training.watch.sinks`.
        log_every: steps in one line of the log.
        total_steps: how many steps the run has, for the time that is left.
        memory: the device's books, `handle.memory`.
        total: the sum of a tensor over all processes, in place (`group.total`): losses and counts
            are then those of all. Called once in every step, by every process.
        flops_per_sample: from `anyrig.training.watch.flops`; may be set later.
        peaks: measured FLOP/s of the device by precision; no peak, no MFU.
        monitor: adds the device's temperature, load and power.
        monitor_device: the device's id there; the first of its devices when None.
        rules: when to warn.
        on_alert: are told of warnings, on the recorder's thread.
        past: what the run told before it was resumed (`Lines.past`).
    """

    def __init__(
        self,
        device: torch.device | str = "cpu",
        *,
        sinks: Sequence[Sink] = (),
        log_every: int = 1,
        total_steps: int | None = None,
        memory: Callable[[], MemoryUsage] | None = None,
        total: Callable[[torch.Tensor], torch.Tensor] | None = None,
        flops_per_sample: float | None = None,
        peaks: Mapping[str, float] | None = None,
        monitor: Monitor | None = None,
        monitor_device: str | None = None,
        rules: Rules | None = None,
        on_alert: Sequence[Callable[[Alert], object]] = (),
        past: Iterable[Told] = (),
    ) -> None:
        self._device = torch.device(device)
        self._phases = Phases(self._device)
        self._readback = Readback(self._device, 5, _DEPTH + 1)
        self._log_every = max(1, log_every)
        self.total_steps = total_steps
        self.flops_per_sample = flops_per_sample
        self.peaks = dict(peaks or {})
        self.on_alert = list(on_alert)
        self._memory = memory
        self._memory_at = -_MEMORY_EVERY_S
        self._memory_seen: MemoryUsage | None = None
        self._total = total
        self._monitor, self._monitor_device = monitor, monitor_device
        self._alarm = Alarm(rules)
        self._lock = threading.RLock()
        self._pending: deque[Pending] = deque()
        self._window: list[Counted] = []
        self._window_memory: MemoryUsage | None = None
        self._history = Thinned[Figures]()
        self._validations = Thinned[Validation]()
        self._events: deque[RunEvent] = newest()
        self._alerts: deque[Alert] = newest()
        self._begun = self._epoch_begun = self._alive = time.perf_counter()
        self._first: tuple[int, float] | None = None
        self._epoch: int | None = None
        self._number = self._skipped = self._retries = 0
        self._asides = 0
        self._remember(past)
        self._outbox = Outbox(sinks, self._call_back, self._beat)

    # What the loop calls.

    def phase(self, name: Phase) -> AbstractContextManager[object]:
        """Around a part of a step."""
        return self._phases.phase(name)

    @contextmanager
    def aside(self, what: str) -> Iterator[None]:
        """Around what is no step and may take long, so that nobody calls it a hang."""
        self._asides += 1
        try:
            yield
        finally:
            self._asides -= 1
            self._alive = time.perf_counter()

    def step(self, facts: StepFacts) -> None:
        """A step is done."""
        reading = self._phases.cut()
        now = time.perf_counter()
        self._alive = now
        self._turn_epoch(facts.epoch, now)
        logged = facts.number % self._log_every == 0
        arrival, summed = self._send(facts)
        known = known_of(facts, now - self._begun, now - self._epoch_begun)
        pending = Pending(known, reading, arrival, summed, self._look(now) if logged else None)
        with self._lock:
            self._number = facts.number
            if self._first is None:
                self._first = (facts.number, now)
            self._pending.append(pending)
            self._poll(_DEPTH)

    def event(self, kind: str, text: str, **facts: Any) -> None:
        """Something a person should know."""
        self._alive = time.perf_counter()
        with self._lock:
            self._tell(RunEvent(kind, text, self._number, self._elapsed(), time.time(), facts))

    def validated(self, step: int, figures: Mapping[str, float]) -> None:
        """The model was measured on the validation data."""
        self._alive = time.perf_counter()
        with self._lock:
            self._tell(Validation(step, dict(figures), self._elapsed(), time.time()))

    def flush(self) -> None:
        """Wait until all that was told is read and written; before a checkpoint counts as made."""
        with self._lock:
            self._poll(0)
        self._outbox.flush()

    def finish(self) -> None:
        """No step comes any more: those that fill no line of the log are told as a shorter one."""
        with self._lock:
            self._poll(0)
            self._end_window()
        self._outbox.flush()

    def close(self) -> None:
        """The run is over: read what is left, write it."""
        if self._outbox.closed:
            return
        with self._lock:
            try:
                self._poll(0)
            except RuntimeError as error:  # a device that is lost; what was read is still written
                log.warning("the last steps' figures could not be read: %s", error)
            self._end_window()
            if self._epoch is not None:
                self._tell_epoch(time.perf_counter())
        self._outbox.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What others ask, from any thread.

    def latest(self) -> Figures | None:
        """The newest figures; None before the first."""
        with self._lock:
            return self._history[-1] if self._history else None

    def history(self) -> list[Figures]:
        """Figures so far, oldest first; of a long run the older ones are thinned out."""
        with self._lock:
            return list(self._history)

    def validations(self) -> list[Validation]:
        """What was measured on the validation data, oldest first."""
        with self._lock:
            return list(self._validations)

    def events(self) -> list[RunEvent]:
        """What happened, oldest first."""
        with self._lock:
            return list(self._events)

    def alerts(self) -> list[Alert]:
        """Warnings so far, oldest first."""
        with self._lock:
            return list(self._alerts)

    # Inside.

    def _remember(self, past: Iterable[Told]) -> None:
        for told in past:
            self._keep(told)
        if not self._history:
            return
        last = self._history[-1]
        self._begun -= last.elapsed_s
        self._epoch, self._epoch_begun = last.epoch, self._epoch_begun - last.epoch_s
        self._number = last.step
        self._skipped, self._retries = last.total_skipped, last.total_retries

    def _elapsed(self) -> float:
        return time.perf_counter() - self._begun

    def _turn_epoch(self, epoch: int, now: float) -> None:
        if self._epoch is None:
            self._epoch = epoch
        elif epoch != self._epoch:
            with self._lock:
                self._tell_epoch(now)
            self._epoch, self._epoch_begun = epoch, now

    def _tell_epoch(self, now: float) -> None:
        took = now - self._epoch_begun
        text = f"epoch {(self._epoch or 0) + 1}: {format_duration(took)}"
        self._tell(
            RunEvent("epoch", text, self._number, now - self._begun, time.time(),
                     {"epoch": self._epoch, "seconds": took})
        )  # fmt: skip

    def _send(self, facts: StepFacts) -> tuple[Arrival, bool]:
        norm = 0.0 if facts.grad_norm is None else facts.grad_norm.detach()
        loss = facts.loss.detach()
        if self._total is None:
            return self._readback.send([loss, facts.skipped, norm]), False
        counts = torch.zeros(3, dtype=self._readback.dtype, device=loss.device)
        if facts.units:  # a process without items has no loss; it must not make the others' NaN
            counts[0].copy_(loss).mul_(facts.units)
        # Filled on the device: a tensor made of host numbers would wait for its copy.
        counts[1].fill_(facts.units)
        counts[2].fill_(facts.samples)
        sums = self._total(counts)
        return self._readback.send([sums[0], facts.skipped, norm, sums[1], sums[2]]), True

    def _look(self, now: float) -> MemoryUsage | None:
        if self._memory is not None and now - self._memory_at >= _MEMORY_EVERY_S:
            self._memory_at = now
            try:
                self._memory_seen = self._memory()
            except Exception as error:  # noqa: BLE001 - books that cannot be read end no run
                log.warning("the device's memory is no longer told: %s", error)
                self._memory = None
        return self._memory_seen

    def _poll(self, depth: int) -> None:
        """Read what has arrived; wait only where more than so many are under way."""
        while self._pending:
            head = self._pending[0]
            if not (head.arrival.ready() and head.time.ready()):
                if len(self._pending) <= depth:
                    return
                head.arrival.wait()
                head.time.wait()
            self._pending.popleft()
            self._count(head)

    def _count(self, pending: Pending) -> None:
        step = read(pending)
        self._readback.give_back(pending.arrival)
        self._skipped += step.skipped
        self._retries += step.num_retries
        self._window.append(step)
        for alert in self._alarm.check(step):
            self._tell(alert)
        if pending.memory is not None:
            self._window_memory = pending.memory
            for alert in self._alarm.check_memory(pending.memory, step.number, step.time_s):
                self._tell(alert)
        if step.number % self._log_every == 0:
            self._end_window()

    def _end_window(self) -> None:
        if not self._window:
            return
        last = self._window[-1]
        sample = self._sample()
        around = Around(
            flops_per_sample=self.flops_per_sample,
            peak_flops=self.peaks.get(last.precision),
            memory=self._window_memory,
            temperature_c=sample.temperature_c if sample else None,
            utilisation=_share(sample.compute_percent) if sample else None,
            power_w=sample.power_w if sample else None,
            total_skipped=self._skipped,
            total_retries=self._retries,
            eta_s=self._eta(last),
        )
        self._tell(summarise(self._window, around))
        self._window = []

    def _eta(self, last: Counted) -> float | None:
        """At the pace since the first step of this run, which itself may have compiled."""
        if self.total_steps is None or self._first is None or last.number <= self._first[0]:
            return None
        took = last.elapsed_s - (self._first[1] - self._begun)
        pace = took / (last.number - self._first[0])
        return max(0, self.total_steps - last.number) * pace

    def _sample(self) -> DeviceSample | None:
        snapshot = self._monitor.latest() if self._monitor is not None else None
        if snapshot is None or not snapshot.devices:
            return None
        if self._monitor_device is None:
            return snapshot.devices[0]
        return next((one for one in snapshot.devices if one.device == self._monitor_device), None)

    def _tell(self, told: Told) -> None:
        self._keep(told)
        self._outbox.put(told)

    def _keep(self, told: Told) -> None:
        if isinstance(told, Figures):
            self._history.add(told)
        elif isinstance(told, Validation):
            self._validations.add(told)
        elif isinstance(told, Alert):
            self._alerts.append(told)
        else:
            self._events.append(told)

    def _call_back(self, alert: Alert) -> None:
        level = logging.INFO if self.on_alert else logging.WARNING
        log.log(level, "step %d: %s", alert.step, alert.text)
        for callback in self.on_alert:
            try:
                callback(alert)
            except Exception:
                log.exception("a warning's receiver failed")

    def _beat(self) -> None:
        """Once a second, on the recorder's thread."""
        with self._lock:
            self._poll(_DEPTH)
            if self._asides or self._first is None:
                return
            idle = time.perf_counter() - self._alive
            for alert in self._alarm.check_stall(idle, self._number, time.time()):
                self._tell(alert)


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100.0
