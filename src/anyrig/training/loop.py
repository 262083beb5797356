"""A training run, from an untrained model to a summary.

    with Trainer(model, data=pairs, loss=loss, settings=Settings(batch=64, steps=1000)) as trainer:
        summary = trainer.run()

`run` is the recipe; what it calls can be called from a loop of one's own: `assemble.assembled`,
`step.Step`, `feed.Feed`, `checkpoint.Checkpoints`, `watch.Recorder`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError, Message, StorageError
from anyrig.training import keep
from anyrig.training.assemble import OptimiserLike
from anyrig.training.checks import accept_other_spellings, refuse_devices, refuse_mistakes
from anyrig.training.evaluating import Evaluation
from anyrig.training.feed import Fed, Position
from anyrig.training.given_loader import GivenLoader
from anyrig.training.loading import failures_in_words
from anyrig.training.opening import Run, Spec, as_given, open_run
from anyrig.training.protocol import Batch, Figure, Group, Loss, StepFacts, Task, Units, Watch
from anyrig.training.settings import Settings
from anyrig.training.step import StartAgain, Stepped
from anyrig.training.stopping import Stopping
from anyrig.training.summary import Summary
from anyrig.training.watching import Relay

if TYPE_CHECKING:
    from anyrig.monitor import Monitor
    from anyrig.placement import Placement
    from anyrig.training.watch import Figures, Recorder
    from anyrig.training.watch.sinks import Sink

__all__ = ["Summary", "Trainer"]


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
        device_ids: or a device for each process of this machine, and no more.
        group: the processes that train together; from `environment` when None.
        environment: a launcher's variables, and those that hide devices.
        watch: is told all that the recorder is told.
        sinks: where the recorder's figures go beside the folder.
        monitor: adds temperature and load to the figures.
        name: of the run.
    """

    @accept_other_spellings
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
        refuse_mistakes(model, loss, settings)
        refuse_devices(placement, device, device_ids, environment or {})
        self.spec = Spec(
            model, _taken(data, settings), loss or _own_loss, optimizer, settings or Settings(),
            units, collate,
            validation, figures, finish, Path(folder) if folder is not None else None, resume,
            placement, device, device_ids, group, environment or {}, sinks, monitor, name,
        )  # fmt: skip
        self._relay = Relay(watch)
        self._run: Run | None = None
        self._evaluation: Evaluation | None = None

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
        run = self.open()
        began, saved_at = time.perf_counter(), time.monotonic()
        with Stopping() as stop, failures_in_words(), contextlib.closing(run.feed):
            ended = False
            while not run.done and not ended:
                for fed in self._batches(run):
                    stepped = self._stepped(run, fed)
                    self._tell(run, stepped)
                    if self._measured_now(run):
                        self._measure(run)
                    # What all agreed on counts: one that left alone would have the others wait.
                    due, ended = self._agreed(run, saved_at, asked=stop.asked)
                    if due and not ended:
                        self._save(run)
                        saved_at = time.monotonic()
                    if ended or run.done:
                        break
        return self._ended(run, time.perf_counter() - began)

    def evaluate(self) -> dict[str, float]:
        """The figures of the validation data, now."""
        return self._measure(self.open())

    # ---------------------------------------------------------------- looking on

    @property
    def settings(self) -> Settings:
        """How it trains."""
        return self.spec.settings

    @property
    def recorder(self) -> Recorder | None:
        """What keeps the figures, once the run is open."""
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
        return tuple(self._run.parts.reasons) if self._run else ()

    # ---------------------------------------------------------------- opening and closing

    def open(self) -> Run:
        """Put the run together, fit and resume it; `run` does so by itself."""
        if self._run is None:
            asked, self.spec = self.spec.settings, as_given(self.spec)
            self._run = open_run(self.spec, self._relay, asked)
        return self._run

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
        run, self._run, self._evaluation = self._run, None, None
        if run is not None:
            run.closing.close()

    # ---------------------------------------------------------------- one step

    def _batches(self, run: Run) -> Generator[Fed, None, None]:
        """The steps of the epoch that is under way, each waited for as such."""
        steps = run.feed.over(run.state.position)
        with contextlib.closing(steps):
            while True:
                with self._relay.phase("data"):
                    fed = next(steps, None)
                if fed is None:
                    _next_epoch(run)
                    if run.feed.steps_in_epoch is None and not self.settings.validate_every:
                        self._measure(run)  # a stream's epoch is known to be over now
                    return
                yield fed

    def _stepped(self, run: Run, fed: Fed) -> Stepped:
        self._relay.remember(run.state.step + 1, fed.batch)
        try:
            stepped = run.parts.step(fed.batch, samples=fed.samples)
        except StartAgain as request:
            keep.leave(self.spec.folder, request.micro_batch)
        run.parts.group.note_speed(fed.samples)
        return stepped

    def _tell(self, run: Run, stepped: Stepped) -> None:
        state = run.state
        epoch = state.advance(run.feed.steps_in_epoch)
        state.retries += stepped.num_retries
        self._relay.step(
            StepFacts(
                state.step, epoch, stepped.loss, stepped.units, stepped.samples,
                run.rates.step(), stepped.micro_batch, stepped.num_micro,
                run.parts.applied.precision, stepped.skipped, stepped.grad_norm, stepped.scale,
                stepped.num_retries,
            )
        )  # fmt: skip
        if self.settings.name_nonfinite:
            self._relay.name_nonfinite(run.parts)

    # ---------------------------------------------------------------- now and then

    def _measured_now(self, run: Run) -> bool:
        if self.spec.validation is None:
            return False
        every = self.settings.validate_every
        due = run.state.step % every == 0 if every else run.state.position.step == 0
        return due or run.done  # a summary speaks of the model that came out

    def _measure(self, run: Run) -> dict[str, float]:
        if self.spec.validation is None:
            return {}
        parts = run.parts
        with self._relay.aside("validation"):
            if self._evaluation is None:
                self._evaluation = Evaluation(
                    self.spec.validation, self.spec.loss, batch=run.feed.batch,
                    micro_batch=parts.step.micro_batch,
                    applied=parts.applied, device=parts.device, group=parts.group,
                    units=self.spec.units, figures=self.spec.figures, collate=self.spec.collate,
                    handle=parts.handle,
                )  # fmt: skip
            # What once ran out there is not tried again.
            self._evaluation.micro_batch = min(self._evaluation.micro_batch, parts.step.micro_batch)
            try:
                figures = self._evaluation(parts.model)
            except StartAgain as request:
                keep.leave(self.spec.folder, request.micro_batch)
        run.state.validate(figures)
        self._relay.validated(run.state.step, figures)
        return figures

    def _agreed(self, run: Run, saved_at: float, *, asked: bool) -> tuple[bool, bool]:
        """Whether a checkpoint is due, and whether any process was asked to end."""
        keeping, step = self.settings.keeping, run.state.step
        due = run.checkpoints is not None and not run.done
        by_steps = bool(keeping.every_steps) and step % keeping.every_steps == 0
        by_time = bool(keeping.every_s) and time.monotonic() - saved_at >= keeping.every_s
        by_loss = bool(keeping.best) and run.state.is_best
        due = due and (by_steps or by_time or by_loss)
        if run.parts.group.size > 1:
            told = run.parts.group.agree(torch.tensor([int(due), int(asked)]))
            due, asked = (bool(one) for one in told.tolist())
        return due, asked

    def _save(self, run: Run, *, wait: bool = False) -> None:
        state = run.state
        if run.checkpoints is None or state.saved_step == state.step:
            return
        fresh = state.validated_step == state.step
        with self._relay.aside("checkpoint"):
            self._relay.flush()
            try:
                keep.saved(
                    run.checkpoints, run.parts, run.rates, self.settings, state.step,
                    state.position, state.validation.get("loss") if fresh else None,
                    run.feed.order_before(state.position), wait=wait,
                )  # fmt: skip
            except StorageError as error:
                self._relay.event(
                    "checkpoint",
                    Message("{problem}. {hint}", problem=error.message, hint=error.hint),
                )
                if wait:
                    _last_is_kept(run, error)
        state.saved_step = state.step
        for news in run.checkpoints.news():
            self._relay.event("checkpoint", news.text)

    # ---------------------------------------------------------------- the end

    def _ended(self, run: Run, seconds: float) -> Summary:
        if run.done and self.spec.validation is not None and not run.state.validation:
            self._measure(run)
        self._save(run, wait=True)
        self._relay.finish()
        self._relay.event("end", "finished" if run.done else "stopped")
        self._relay.flush()
        summary = self._summed_up(run, seconds)
        if run.done:
            summary = replace(summary, made=self._made(run))
        if self.spec.folder is not None and run.parts.group.rank == 0:
            from anyrig.training.watch.report import report

            summary = replace(summary, report=report(self.spec.folder, title=self.spec.name))
        return summary

    def _summed_up(self, run: Run, seconds: float) -> Summary:
        parts, state, told = run.parts, run.state, self._relay.totals()
        steps = run.feed.steps_in_epoch
        last = run.checkpoints.latest() if run.checkpoints is not None else None
        return Summary(
            steps=state.step,
            epochs=state.step / steps if steps else float(state.position.epoch),
            loss=told.loss,
            validation=dict(state.validation),
            seconds=seconds,
            samples_per_s=told.samples_per_s,
            units_per_s=told.units_per_s,
            peak_bytes=parts.handle.memory().peak_bytes,
            precision=parts.applied.precision,
            micro_batch=parts.step.micro_batch,
            num_retries=state.retries,
            num_skipped=told.num_skipped,
            finished=run.done,
            resumed_from=state.resumed_from,
            checkpoint=last.path if last else None,
            reasons=tuple(parts.reasons),
            micro_batch_why=parts.micro_batch_why,
        )

    def _made(self, run: Run) -> Mapping[str, Any]:
        """What the task makes of the trained model, in the first process."""
        parts = run.parts
        if self.spec.finish is None or self.spec.folder is None or parts.group.rank:
            return {}
        if parts.group.lockstep:
            return {"left": "resume the run in one process to have its results written"}
        if parts.masters is not None:
            parts.masters.give_back()
        parts.applied.restore()
        with self._relay.aside("results"):
            return self.spec.finish(self.spec.folder)


def _taken(data: Any, settings: Settings | None) -> Any:
    """A DataLoader is asked what it says, and not iterated."""
    if not isinstance(data, torch.utils.data.DataLoader):
        return data
    return GivenLoader(data, (settings or Settings()).seed)


def _last_is_kept(run: Run, error: StorageError) -> None:
    """A failure may be that of an earlier checkpoint: this one was begun none the less."""
    assert run.checkpoints is not None
    run.checkpoints.wait()
    last = run.checkpoints.latest()
    if run.parts.group.rank == 0 and (last is None or last.step != run.state.step):
        raise error


def _next_epoch(run: Run) -> None:
    """The data came to an end: a stream where it ends, items by number after their last batch.

    A run that is resumed with larger batches may stand behind the last one of its epoch.
    """
    epoch, step = run.state.position
    if step:
        run.state.position = Position(epoch + 1, 0)
    elif run.feed.steps_in_epoch is None:
        raise InvalidInputError(
            f"the data has fewer items than a batch of {run.feed.batch}",
            hint="Set a smaller batch, or drop_last = false.",
        )


def _own_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The loss that a model gives by itself."""
    found = model(**batch) if isinstance(batch, Mapping) else model(batch)
    if isinstance(found, Mapping):
        found = found["loss"]
    loss = getattr(found, "loss", found)
    if not isinstance(loss, torch.Tensor) or loss.dim():
        raise InvalidSettingError(
            "the model gives no loss for a batch", hint="Give `loss`, a function of both."
        )
    return loss
