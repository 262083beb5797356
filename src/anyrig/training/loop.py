"""A training run, from an untrained model to a summary.

    with Trainer(model, data=pairs, loss=loss, settings=Settings(batch=64, steps=1000)) as trainer:
        summary = trainer.run()

`run` is the recipe; what it calls can be called from a loop of one's own: `assemble.assembled`,
`step.Step`, `feed.Feed`, `checkpoint.Checkpoints`, `watch.Recorder`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyrig.errors import BadSetting, StoreFailed
from anyrig.training import keep
from anyrig.training.assemble import OptimiserLike, Parts, assembled
from anyrig.training.checkpoint import random
from anyrig.training.evaluating import Evaluation
from anyrig.training.feed import Fed, Feed, Position
from anyrig.training.fitting import fit_step, fit_together
from anyrig.training.protocol import Batch, Figure, Group, Loss, StepFacts, Task, Units, Watch
from anyrig.training.schedule import Rates
from anyrig.training.settings import Settings
from anyrig.training.step import StartAgain, Stepped
from anyrig.training.stopping import Stopping
from anyrig.training.watching import Relay, opened

if TYPE_CHECKING:
    from anyrig.monitor import Monitor
    from anyrig.placement import Placement
    from anyrig.training.watch import Figures, Recorder
    from anyrig.training.watch.sinks import Sink

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Summary:
    """What a run came to."""

    steps: int
    """Of the optimiser, over the whole run with its earlier parts."""
    epochs: float
    loss: float | None
    """The last step's mean over all processes; None when none was made."""
    validation: Mapping[str, float]
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
    """False when it was asked to end early; it can be resumed."""
    resumed_from: int | None
    checkpoint: Path | None
    reasons: tuple[str, ...]
    made: Mapping[str, Any] = field(default_factory=dict)
    """What the task wrote at the end."""


@dataclass
class _State:
    """Where a run stands."""

    step: int = 0
    position: Position = Position()
    resumed_from: int | None = None
    validation: dict[str, float] = field(default_factory=dict)
    retries: int = 0
    saved_at: float = 0.0
    saved_step: int = -1


class Trainer:
    """Trains a model.

    Args:
        model: any module, on any device.
        data: a data set with `len` and `[number]`, an iterable of items, or a DataLoader.
        loss: of the model and a batch, a mean over the batch's units. None takes what the model
            gives for a batch: a scalar, or something with a `loss`.
        optimizer: `adamw` and others by name, a class or function of the weights, or an optimiser.
        settings: all else.
        units: how many units a batch's loss is a mean over; its items when None.
        collate: items to a batch.
        validation: data that is only measured.
        figures: what else to measure there.
        finish: writes what a user wants into a folder at the end.
        folder: of the run: checkpoints, metrics, report. None keeps nothing.
        resume: go on from the folder's last checkpoint where there is one.
        placement: where to train; the best device when None.
        device: or a word for it.
        device_ids: or a device for each process of this machine.
        group: the processes that train together; from `environment` when None.
        environment: a launcher's variables, and those that hide devices.
        watch: looks on instead of a `Recorder`.
        sinks: where the recorder's figures go beside the folder.
        monitor: adds temperature and load to the figures.
        name: of the run.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        data: Any,
        loss: Loss | None = None,
        optimizer: OptimiserLike = "adamw",
        settings: Settings | None = None,
        units: Units | None = None,
        collate: Callable[[Sequence[Any]], Batch] | None = None,
        validation: Any = None,
        figures: Mapping[str, Figure] | None = None,
        finish: Callable[[Path], Mapping[str, Any]] | None = None,
        folder: Path | str | None = None,
        resume: bool = True,
        placement: Placement | None = None,
        device: str | None = None,
        device_ids: Sequence[int | str] = (),
        group: Group | None = None,
        environment: Mapping[str, str] | None = None,
        watch: Watch | None = None,
        sinks: Sequence[Sink] = (),
        monitor: Monitor | None = None,
        name: str = "run",
    ) -> None:
        self.settings = settings or Settings()
        self.model, self.folder = model, Path(folder) if folder is not None else None
        self.name = name
        self._loss, self._units, self._collate = loss or _own_loss, units, collate
        self._data, self._validation, self._figures = data, validation, figures
        self._optimizer, self._finish, self._resume = optimizer, finish, resume
        self._placement, self._device, self._device_ids = placement, device, device_ids
        self._given_group, self._environment = group, environment or {}
        self._sinks, self._monitor = sinks, monitor
        self._relay = Relay(watch)
        self._stack = contextlib.ExitStack()
        self._parts: Parts | None = None
        self._feed: Feed
        self._random: Mapping[int, Mapping[str, Any]] = {}

    @classmethod
    def of(cls, task: Task, **options: Any) -> Trainer:
        """A trainer of a ready-made task."""
        return cls(
            task.model, data=task.data, loss=task.loss, units=task.units, collate=task.collate,
            validation=task.validation, figures=task.figures, finish=task.finish, name=task.name,
            **options,
        )  # fmt: skip

    # ---------------------------------------------------------------- the recipe

    def run(self) -> Summary:
        """Train to the end, or until asked to stop; everything so far is kept either way."""
        parts, feed = self._open()
        began, stop = time.perf_counter(), Stopping()
        with stop, contextlib.closing(feed):
            while not self._done(feed) and not stop.asked:
                for fed in self._batches(feed):
                    stepped = self._stepped(parts, fed)
                    self._tell(parts, stepped)
                    self._advance(feed)
                    if self._measured_now(feed):
                        self._measure(parts)
                    stop.asked = self._kept_now(parts, stop) or stop.asked
                    if stop.asked or self._done(feed):
                        break
        return self._summed_up(parts, feed, began, finished=self._done(feed))

    def evaluate(self) -> dict[str, float]:
        """The figures of the validation data, now."""
        parts, _ = self._open()
        return self._measure(parts)

    # ---------------------------------------------------------------- looking on

    @property
    def recorder(self) -> Recorder | None:
        """What keeps the figures, once the run has begun."""
        return self._relay.recorder

    def latest(self) -> Figures | None:
        """The newest figures."""
        return self.recorder.latest() if self.recorder else None

    def history(self) -> list[Figures]:
        """All figures so far, older ones thinned out."""
        return self.recorder.history() if self.recorder else []

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every choice that was made, in a sentence each."""
        return tuple(self._parts.reasons) if self._parts else ()

    # ---------------------------------------------------------------- opening and closing

    def _open(self) -> tuple[Parts, Feed]:
        if self._parts is not None:
            return self._parts, self._feed
        with contextlib.ExitStack() as stack:
            placement = self._placement or self._placed()
            parts = assembled(
                self.model, self._loss, self._optimizer, self.settings, placement,
                self._given_group,
                units=self._units, watch=self._relay, environment=self._environment,
            )  # fmt: skip
            stack.callback(_freed, parts)
            if self._given_group is None:
                stack.callback(parts.group.close)
            stack.enter_context(parts.undo)
            self._feed = self._fed(parts.group)
            self._rates = self._paced(parts, self._feed)
            self._checkpoints = keep.opened(self.folder, self.settings.keeping, parts.group)
            if self._checkpoints is not None:
                stack.enter_context(self._checkpoints)
            self._state = self._resumed(parts)
            self._fit(parts)
            self._relay.open(
                opened(
                    parts, self.settings, self._loss, self._sample(parts), self.folder,
                    total_steps=self._total, after=self._state.resumed_from,
                    sinks=self._sinks, monitor=self._monitor,
                )
            )  # fmt: skip
            stack.callback(self._relay.close)
            told = random.restore(
                self._random, parts.group.rank, parts.device,
                seed=self.settings.seed, step=self._state.step,
            )  # fmt: skip
            for text in told if self._state.resumed_from is not None else ():
                self._relay.event("resume", text)
            self._state.saved_at = time.monotonic()
            self._stack, self._parts = stack.pop_all(), parts
        return parts, self._feed

    def _placed(self) -> Placement:
        from anyrig.training.distributed.joining import place_of
        from anyrig.training.placing import placed

        return placed(
            self.settings,
            self._device,
            device_ids=self._device_ids,
            local_rank=place_of(self._environment).local_rank,
            environment=self._environment,
        )

    def _fed(self, group: Group) -> Feed:
        settings = self.settings
        return Feed(
            self._data, settings.batch, seed=settings.seed, shuffle=settings.shuffle,
            drop_last=settings.drop_last, collate=self._collate, share=group.share,
        )  # fmt: skip

    def _paced(self, parts: Parts, feed: Feed) -> Rates:
        settings, steps = self.settings, feed.steps_in_epoch
        if not settings.steps and steps is None:
            raise BadSetting(
                "nobody knows how long an epoch of this data is", hint="Set steps instead."
            )
        self._total = settings.steps or settings.epochs * (steps or 0)
        return Rates(
            parts.optimiser, total=self._total, schedule=settings.schedule,
            warmup=settings.warmup, final=settings.final_rate,
        )  # fmt: skip

    def _resumed(self, parts: Parts) -> _State:
        if self._checkpoints is None or not self._resume:
            return _State()
        found = keep.restored(self._checkpoints, parts, self._rates, self.settings, self._relay)
        if found is None:
            return _State()
        step, position, micro, self._random = found
        if self.settings.micro_batch == "auto" and micro:
            parts.step.micro_batch = micro
            parts.reasons.append(f"micro batch: {micro}, as before")
        return _State(step, position, resumed_from=step, saved_step=step)

    def _fit(self, parts: Parts) -> None:
        """Fit the micro batch, unless it was set or is known from before; then plan the loading."""
        seconds = None
        asked = keep.asked_micro_batch(self.folder)
        if self.settings.micro_batch == "auto" and self._state.resumed_from is None:
            seconds = self._fitted(parts)
        if asked is not None and asked < parts.step.micro_batch:
            parts.step.micro_batch = asked
            parts.reasons.append(f"micro batch: {asked}, as memory ran out before")
        plan = keep.loading(self._feed, self.settings, parts, seconds)
        self._feed.set_options(plan.options(self.settings.seed))
        parts.reasons += [f"loading: {reason}" for reason in plan.reasons]

    def _fitted(self, parts: Parts) -> float | None:
        batch, budget = self._sample(parts), parts.placement.budget_bytes
        if parts.group.lockstep:
            size, why = fit_together(
                parts.step, batch, parts.bound, parts.group, budget_bytes=budget
            )
            parts.step.micro_batch = size
            parts.reasons.append(f"micro batch: {size}: {why}")
            return None
        found = fit_step(parts.step, batch, parts.bound, budget_bytes=budget, tell=log.info)
        parts.step.micro_batch = parts.group.least(found.batch)
        parts.reasons.append(f"micro batch: {parts.step.micro_batch}: {found.reason}")
        rate = found.throughput
        return self.settings.batch / parts.group.size / rate if rate else None

    def _sample(self, parts: Parts) -> Batch:
        """The run's first items, as many as a step of this process has."""
        if not hasattr(self, "_first_batch"):
            self._first_batch = keep.first_batch(self._feed, parts.group)
        return self._first_batch

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
        self._parts = None
        self._stack.close()

    # ---------------------------------------------------------------- one step

    def _batches(self, feed: Feed) -> Any:
        """The steps of the epoch that is under way, each waited for as such."""
        steps = feed.over(self._state.position)
        with contextlib.closing(steps):  # type: ignore[type-var]  # a generator
            while True:
                with self._relay.phase("data"):
                    fed = next(steps, None)
                if fed is None:
                    if feed.steps_in_epoch is None:  # an iterable ends where it ends
                        self._state.position = Position(self._state.position.epoch + 1, 0)
                    return
                yield fed

    def _stepped(self, parts: Parts, fed: Fed) -> Stepped:
        self._relay.remember(self._state.step + 1, fed.batch)
        try:
            stepped = parts.step(fed.batch, samples=fed.samples)
        except StartAgain as request:
            keep.leave(self.folder, request.micro_batch)
        parts.group.note_speed(fed.samples)
        return stepped

    def _tell(self, parts: Parts, stepped: Stepped) -> None:
        state = self._state
        state.step += 1
        state.retries += stepped.num_retries
        self._relay.step(
            StepFacts(
                state.step, state.position.epoch, stepped.loss, stepped.units, stepped.samples,
                self._rates.step(), stepped.micro_batch, stepped.num_micro,
                parts.applied.precision, stepped.skipped, stepped.grad_norm, stepped.scale,
                stepped.num_retries,
            )
        )  # fmt: skip
        if self.settings.name_nonfinite:
            self._relay.name_nonfinite(parts)

    def _advance(self, feed: Feed) -> None:
        epoch, step = self._state.position
        whole = feed.steps_in_epoch
        over = whole is not None and step + 1 >= whole
        self._state.position = Position(epoch + 1, 0) if over else Position(epoch, step + 1)

    def _done(self, feed: Feed) -> bool:
        return self._state.step >= self._total

    # ---------------------------------------------------------------- now and then

    def _measured_now(self, feed: Feed) -> bool:
        if self._validation is None:
            return False
        every = self.settings.validate_every
        return (
            self._state.step % every == 0
            if every
            else self._state.position.step == 0 or self._done(feed)
        )

    def _measure(self, parts: Parts) -> dict[str, float]:
        if self._validation is None:
            return {}
        with self._relay.aside("validation"):
            figures = Evaluation(
                self._validation, self._loss, micro_batch=parts.step.micro_batch,
                applied=parts.applied, device=parts.device, group=parts.group,
                units=self._units, figures=self._figures, collate=self._collate,
                bound=parts.bound,
            )(parts.model)  # fmt: skip
        self._state.validation = figures
        self._relay.validated(self._state.step, figures)
        return figures

    def _kept_now(self, parts: Parts, stop: Stopping) -> bool:
        """Keep a checkpoint when it is time; whether any process was asked to end."""
        due = self._due()
        asked = stop.asked
        if parts.group.size > 1:
            told = torch.tensor([int(due), int(asked)])
            due, asked = (bool(one) for one in parts.group.agree(told).tolist())
        if due and not asked:
            self._save(parts)
        return asked

    def _due(self) -> bool:
        keeping, state = self.settings.keeping, self._state
        if self._checkpoints is None or state.step == self._total:
            return False
        if keeping.every_steps and state.step % keeping.every_steps == 0:
            return True
        return bool(keeping.every_s) and time.monotonic() - state.saved_at >= keeping.every_s

    def _save(self, parts: Parts, *, wait: bool = False) -> None:
        state = self._state
        if self._checkpoints is None or state.saved_step == state.step:
            return
        with self._relay.aside("checkpoint"):
            self._relay.flush()
            try:
                keep.saved(
                    self._checkpoints, parts, self._rates, self.settings, state.step,
                    state.position, state.validation.get("loss"), wait=wait,
                )  # fmt: skip
            except StoreFailed as error:
                self._relay.event("checkpoint", f"{error.message}. {error.hint}")
                if wait:
                    raise
            state.saved_at, state.saved_step = time.monotonic(), state.step

    # ---------------------------------------------------------------- the end

    def _summed_up(self, parts: Parts, feed: Feed, began: float, *, finished: bool) -> Summary:
        state = self._state
        if finished and self._validation is not None and not state.validation:
            self._measure(parts)
        self._save(parts, wait=True)
        self._relay.flush()
        seconds = time.perf_counter() - began
        told = self._relay.totals()
        steps = feed.steps_in_epoch
        last = self._checkpoints.latest() if self._checkpoints is not None else None
        summary = Summary(
            steps=state.step,
            epochs=state.step / steps if steps else float(state.position.epoch),
            loss=told.loss,
            validation=dict(state.validation),
            seconds=seconds,
            samples_per_s=told.samples_per_s,
            units_per_s=told.units_per_s,
            peak_bytes=parts.bound.memory().peak_bytes,
            precision=parts.applied.precision,
            micro_batch=parts.step.micro_batch,
            num_retries=state.retries,
            num_skipped=told.num_skipped,
            finished=finished,
            resumed_from=state.resumed_from,
            checkpoint=last.path if last else None,
            reasons=tuple(parts.reasons),
        )
        return replace(summary, made=self._made(parts)) if finished else summary

    def _made(self, parts: Parts) -> Mapping[str, Any]:
        """What the task makes of the trained model, in the first process."""
        if self._finish is None or self.folder is None or parts.group.rank:
            return {}
        if parts.group.lockstep:
            return {"left": "resume the run in one process to have its results written"}
        if parts.masters is not None:
            parts.masters.give_back()
        parts.applied.undo()
        with self._relay.aside("results"):
            return self._finish(self.folder)


def _own_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The loss that a model gives by itself."""
    found = model(**batch) if isinstance(batch, Mapping) else model(batch)
    if isinstance(found, Mapping):
        found = found["loss"]
    loss = getattr(found, "loss", found)
    if not isinstance(loss, torch.Tensor) or loss.dim():
        raise BadSetting(
            "the model gives no loss for a batch", hint="Give `loss`, a function of both."
        )
    return loss


def _freed(parts: Parts) -> None:
    """Give the device back what only this run held."""
    parts.step.forget()
    parts.optimiser.state.clear()
    parts.bound.release()
