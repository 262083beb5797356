"""A run opened: put together, fitted, resumed and watched, ready for its first step.

The order is the point: the optimiser's state is fitted in before a checkpoint fills it, a recorder
opens when it is known where the run goes on, and random states are put back last, because all that
comes before draws numbers of its own.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training import keep
from anyrig.training.assemble import OptimiserLike, Parts, assembled
from anyrig.training.checkpoint import Checkpoints, random
from anyrig.training.distributed.joining import place_of
from anyrig.training.feed import Feed
from anyrig.training.fitting import fit_step, fit_together
from anyrig.training.given_loader import GivenLoader
from anyrig.training.loading import numbered
from anyrig.training.nests import cut, to_device
from anyrig.training.protocol import Batch, Figure, Group, Loss, Units
from anyrig.training.schedule import Rates
from anyrig.training.settings import Settings
from anyrig.training.summary import State
from anyrig.training.watching import Relay, opened

if TYPE_CHECKING:
    from anyrig.monitor import Monitor
    from anyrig.placement import Placement
    from anyrig.training.watch.sinks import Sink

log = logging.getLogger(__name__)


@dataclass
class Spec:
    """What is to be trained, and how; `Trainer` says what each is."""

    model: nn.Module
    data: Any
    loss: Loss
    optimizer: OptimiserLike = "adamw"
    settings: Settings = field(default_factory=Settings)
    units: Units | None = None
    collate: Callable[[Sequence[Any]], Batch] | None = None
    validation: Any = None
    figures: Mapping[str, Figure] | None = None
    finish: Callable[[Path], Mapping[str, Any]] | None = None
    folder: Path | None = None
    resume: bool = True
    placement: Placement | None = None
    device: str | None = None
    device_ids: Sequence[int | str] = ()
    group: Group | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    sinks: Sequence[Sink] = ()
    monitor: Monitor | None = None
    name: str = "run"


@dataclass
class Run:
    """A run that is open."""

    parts: Parts
    feed: Feed
    rates: Rates
    total: int
    """Steps of the whole run."""
    checkpoints: Checkpoints | None
    fitted: bool = False
    """Whether the micro batch is known from before."""
    state: State = field(default_factory=State)
    closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def done(self) -> bool:
        """Whether its last step is made."""
        return self.state.step >= self.total


def open_run(spec: Spec, relay: Relay, asked: Settings | None = None) -> Run:
    """Open a run; what was begun is undone when something fails on the way."""
    with contextlib.ExitStack() as stack:
        parts = assembled(
            spec.model, spec.loss, spec.optimizer, spec.settings,
            spec.placement or _placed(spec), spec.group,
            units=spec.units, watch=relay, environment=spec.environment,
        )  # fmt: skip
        stack.callback(_freed, parts, own=not isinstance(spec.optimizer, torch.optim.Optimizer))
        stack.enter_context(parts.undo)
        feed = _fed(spec, parts.group)
        if feed.given is not None:
            feed.given.check_group(parts.group.rank, parts.group.size)
            parts.reasons += feed.given.reasons(asked or spec.settings, parts.group.size)
        _check_validation(spec)
        stack.callback(feed.close)
        if parts.group.lockstep:
            for size in feed.sizes:
                parts.group.share(size)  # what cannot be shared is refused now, not at the end
        total = _total(spec.settings, feed)
        checkpoints = keep.opened(spec.folder, spec.settings.keeping, parts.group)
        if checkpoints is not None:
            stack.enter_context(checkpoints)
        run = Run(parts, feed, _paced(spec.settings, parts, total), total, checkpoints)
        states = _resume(spec, run, relay)
        first = keep.first_batch(feed, parts.group)
        _attending(spec, parts, first)
        _prepared(spec, run, first)
        relay.open(
            opened(
                parts, spec.settings, spec.loss, first, spec.folder,
                total_steps=total, after=run.state.resumed_from,
                sinks=spec.sinks, monitor=spec.monitor,
            )
        )  # fmt: skip
        stack.callback(relay.close)
        _begun(spec, run, relay)
        told = random.restore(
            states, parts.group.rank, parts.device,
            seed=spec.settings.seed, step=run.state.step,
        )  # fmt: skip
        for text in told if run.state.resumed_from is not None else ():
            relay.event("resume", text)
        run.closing = stack.pop_all()
    return run


def as_given(spec: Spec) -> Spec:
    """With what a DataLoader says in the settings."""
    if not isinstance(spec.data, GivenLoader):
        return spec
    size = spec.group.size if spec.group is not None else place_of(spec.environment).size
    return replace(spec, settings=spec.data.settings(spec.settings, size))


def _placed(spec: Spec) -> Placement:
    from anyrig.training.placing import placed

    found = placed(
        spec.settings,
        spec.device,
        device_ids=spec.device_ids,
        local_rank=place_of(spec.environment).local_rank,
        environment=spec.environment,
    )
    # Whoever calls from a program has set torch's threads, or left them, on purpose.
    return replace(found, threads=torch.get_num_threads())


def _fed(spec: Spec, group: Group) -> Feed:
    settings = spec.settings
    if isinstance(spec.data, Iterator):
        raise InvalidInputError(
            "an iterator can be read only once; epochs and a resume need its beginning",
            hint="Pass a list, a data set, or an object whose __iter__ starts from the beginning.",
        )
    return Feed(
        spec.data, settings.batch, seed=settings.seed, shuffle=settings.shuffle,
        drop_last=settings.drop_last, collate=spec.collate, share=group.share,
        num_processes=group.size,
    )  # fmt: skip


def _check_validation(spec: Spec) -> None:
    """Refuse now what would fail after the first epoch."""
    data = getattr(spec.validation, "dataset", spec.validation)
    if data is None:
        return
    if isinstance(spec.validation, torch.utils.data.DataLoader) and (
        spec.validation.batch_size is None and spec.validation.batch_sampler is None
    ):
        raise InvalidInputError(
            "a DataLoader with batch_size=None cannot be measured on: its items are whole batches",
            hint="Pass the data set itself, or a loader with a batch size, as validation.",
        )
    if not numbered(data):
        raise InvalidInputError(
            f"a {type(data).__name__} cannot be measured on: its items have no numbers",
            hint="Pass a list or a data set with len() and [number] as validation.",
        )
    if not len(data):
        raise InvalidInputError(
            "the validation data is empty", hint="Pass some items, or leave it out."
        )


def _total(settings: Settings, feed: Feed) -> int:
    steps = feed.steps_in_epoch
    if not settings.steps and steps is None:
        raise InvalidSettingError(
            "the length of an epoch of this data is unknown", hint="Set steps instead."
        )
    return settings.steps or settings.epochs * (steps or 0)


def _paced(settings: Settings, parts: Parts, total: int) -> Rates:
    return Rates(
        parts.optimiser, total=total, schedule=settings.schedule, warmup=settings.warmup,
        final=settings.final_rate,
    )  # fmt: skip


def _resume(spec: Spec, run: Run, relay: Relay) -> Mapping[int, Mapping[str, Any]]:
    """Go on from the last checkpoint where there is one; the random states to put back later."""
    if run.checkpoints is None or not spec.resume:
        return {}
    found = keep.restored(run.checkpoints, run.parts, run.rates, spec.settings, relay)
    if found is None:
        return {}
    run.state = State(found.step, found.position, resumed_from=found.step, saved_step=found.step)
    given, order = run.feed.given, found.order
    if given is not None and order and not run.feed.is_same_order(order, found.position):
        relay.event(
            "resume",
            "the sampler of the DataLoader gives another order than before the stop: items of this "
            "epoch may come twice or not at all; give it a generator, or draw by its epoch",
        )
    if spec.settings.micro_batch == "auto" and found.micro_batch:
        run.fitted = True
        run.parts.step.micro_batch = found.micro_batch
        run.parts.explain_micro_batch(f"{found.micro_batch}, as before")
    return found.random


def _prepared(spec: Spec, run: Run, first: Batch) -> None:
    """Fit the micro batch, unless it was set or is known from before; then plan the loading."""
    parts, seconds = run.parts, None
    if spec.settings.micro_batch == "auto" and not run.fitted:
        seconds = _fitted(spec, parts, first)
    asked = keep.asked_micro_batch(spec.folder)
    if asked is not None and asked < parts.step.micro_batch:
        parts.step.micro_batch = asked
        parts.explain_micro_batch(f"{asked}, because of an earlier out-of-memory error")
    elif asked is not None and run.fitted:
        keep.forget_smaller(spec.folder)  # the checkpoint holds it by now
    plan = keep.loading(run.feed, spec.settings, parts, seconds)
    options = plan.options(spec.settings.seed)
    if run.feed.given is not None:
        options = replace(options, **run.feed.given.reading())
    run.feed.set_options(options)
    parts.reasons += [f"loading: {reason}" for reason in plan.reasons]


def _attending(spec: Spec, parts: Parts, first: Batch) -> None:
    """Attention by a test of the model's own calls, before anything is compiled or recorded."""
    from anyrig.training.attending import best_attention, calls_of

    if parts.device.type != "cuda" or parts.group.lockstep:
        return
    try:
        calls = calls_of(parts.model, spec.loss, to_device(cut(first, 0, 1), parts.device))
    except Exception as error:  # noqa: BLE001 - a model may do anything; it still can be trained
        parts.reasons.append(f"attention: as torch has it ({type(error).__name__}: {error})"[:200])
        return
    chosen = parts.undo.enter_context(best_attention(calls, parts.device, parts.applied.precision))
    parts.reasons.append(f"attention: {chosen.reason}")


def _fitted(spec: Spec, parts: Parts, first: Batch) -> float | None:
    """The micro batch by trial; how long a step takes with it, where that is known."""
    budget = parts.placement.budget_bytes
    if parts.group.lockstep:
        size, why = fit_together(parts.step, first, parts.handle, parts.group, budget_bytes=budget)
        parts.step.micro_batch = size
        parts.explain_micro_batch(f"{size}: {why}")
        return None
    found = fit_step(parts.step, first, parts.handle, budget_bytes=budget, tell=log.info)
    parts.fit = found
    parts.step.micro_batch = parts.group.least(found.batch_size)
    parts.explain_micro_batch(f"{parts.step.micro_batch}: {found.reason}")
    rate = found.best.rate
    return spec.settings.batch / parts.group.size / rate if rate else None


def _begun(spec: Spec, run: Run, relay: Relay) -> None:
    """What a report says at its top."""
    weights = sum(weight.numel() for weight in spec.model.parameters() if weight.requires_grad)
    relay.event(
        "start",
        "resumed" if run.state.resumed_from is not None else "started",
        model=spec.name,
        parameters=weights,
        device=run.parts.placement.device.name,
        precision=run.parts.applied.precision,
        reasons=list(run.parts.reasons),
        settings=asdict(spec.settings),
    )


def _freed(parts: Parts, *, own: bool) -> None:
    """Give the device back what only this run held; an optimiser that was given keeps its state."""
    parts.step.release()
    if own:
        parts.optimiser.state.clear()
    parts.handle.release()
