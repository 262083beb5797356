"""What looks on in a run: a recorder with its sinks, and whoever else wants to.

A run says things before its recorder is there (how a batch was fitted, what was resumed): they are
held, and told when it opens.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from anyrig.memory.recovery import run_with_recovery
from anyrig.training.nests import cut, size_of, to_device
from anyrig.training.protocol import Batch, Loss, Phase, StepFacts, Watch
from anyrig.training.step import pieces

if TYPE_CHECKING:
    from anyrig.monitor import Monitor
    from anyrig.training.assemble import Parts
    from anyrig.training.settings import Settings
    from anyrig.training.watch import Alert, Recorder
    from anyrig.training.watch.sinks import Sink

log = logging.getLogger(__name__)
_BATCHES = 4
"""How far back a batch can still be looked at: the loss is read some steps late."""
_MOST_LOOKS = 3


class Totals(NamedTuple):
    """What a summary says of the figures."""

    loss: float | None = None
    samples_per_s: float | None = None
    units_per_s: float | None = None
    num_skipped: int = 0


class Relay:
    """Fits `Watch`: passes on to the recorder and to a watch that was handed in."""

    def __init__(self, other: Watch | None = None) -> None:
        self.recorder: Recorder | None = None
        self._other = other
        self._early: list[tuple[str, str, dict[str, Any]]] = []
        self._batches: deque[tuple[int, Batch]] = deque(maxlen=_BATCHES)
        self._suspect: int | None = None
        self._num_looks = 0

    def open(self, recorder: Recorder) -> None:
        """Tell the recorder what was said so far, and all that comes."""
        self.recorder = recorder
        recorder.on_alert.append(self._alarmed)
        for kind, text, facts in self._early:
            recorder.event(kind, text, **facts)
        self._early = []

    def phase(self, name: Phase) -> AbstractContextManager[object]:
        """Around a part of a step."""
        if self.recorder is None:
            return contextlib.nullcontext()
        if self._other is None:
            return self.recorder.phase(name)
        return _both(self._other.phase(name), self.recorder.phase(name))

    def step(self, facts: StepFacts) -> None:
        """A step is done."""
        for one in self._all():
            one.step(facts)

    def event(self, kind: str, text: str, **facts: Any) -> None:
        """Something a person should know."""
        if self.recorder is None:
            self._early.append((kind, text, facts))
        for one in self._all():
            one.event(kind, text, **facts)

    def validated(self, step: int, figures: Mapping[str, float]) -> None:
        """The model was measured."""
        for one in self._all():
            one.validated(step, figures)

    def aside(self, what: str) -> AbstractContextManager[object]:
        """Around what is no step."""
        if self.recorder is None:
            return contextlib.nullcontext()
        if self._other is None:
            return self.recorder.aside(what)
        return _both(self._other.aside(what), self.recorder.aside(what))

    def flush(self) -> None:
        """Read and write all that was told."""
        if self.recorder is not None:
            self.recorder.flush()

    def finish(self) -> None:
        """No step comes any more: the last ones are told too."""
        if self.recorder is not None:
            self.recorder.finish()

    def close(self) -> None:
        """The run is over."""
        self._batches.clear()
        for one in self._all():
            one.close()

    def totals(self) -> Totals:
        """The figures so far, in short."""
        if self.recorder is None or (last := self.recorder.latest()) is None:
            return Totals()
        rows = self.recorder.history()
        seconds = sum(row.step_s * row.num_steps for row in rows)
        if seconds <= 0:
            return Totals(last.loss, num_skipped=last.total_skipped)
        samples, units = sum(row.samples for row in rows), sum(row.units for row in rows)
        return Totals(last.loss, samples / seconds, units / seconds, last.total_skipped)

    def _all(self) -> list[Watch]:
        found: list[Watch | None] = [self.recorder, self._other]
        return [one for one in found if one is not None]

    # ---------------------------------------------------------------- what is not finite

    def remember(self, step: int, batch: Batch) -> None:
        """Hold a step's batch for a while, should it turn out to be the bad one."""
        self._batches.append((step, batch))

    def _alarmed(self, alert: Alert) -> None:
        log.warning("%s", alert.text)
        if alert.kind in ("loss-nonfinite", "steps-skipped"):
            self._suspect = alert.step

    def name_nonfinite(self, parts: Parts) -> None:
        """Where a loss was not finite, run its batch again with hooks and say which module did it.

        The weights have moved on by a step or two when that is known, which seldom matters.
        """
        step, self._suspect = self._suspect, None
        if step is None or self._num_looks >= _MOST_LOOKS or parts.group.lockstep:
            return
        self._num_looks += 1
        near = [batch for number, batch in self._batches if number >= step] or [
            batch for _, batch in self._batches
        ]
        for batch in near:
            looked = run_with_recovery(partial(_named, parts, batch), parts.handle)
            text = looked.result
            if text:
                self.event("not finite", text, step=step)
                return
        self.event("not finite", "no module gave it again when the batch was run once more")


@contextlib.contextmanager
def _both(
    first: AbstractContextManager[object], second: AbstractContextManager[object]
) -> Iterator[None]:
    with first, second:
        yield


def _named(parts: Parts, batch: Batch) -> str:
    """The sentence on the first module that is not finite in a batch; empty where all are."""
    from anyrig.training.watch.health import find_nonfinite

    for start, stop in pieces(size_of(batch), parts.step.micro_batch):
        piece = to_device(cut(batch, start, stop), parts.device)
        # Hooks that read values would break what is compiled into pieces.
        with torch.compiler.set_stance("force_eager"):
            found = find_nonfinite(parts.model, partial(parts.step.gradients, piece))
        parts.step.forget()
        if found is not None:
            return found.text
    return ""


def opened(
    parts: Parts,
    settings: Settings,
    loss: Loss,
    batch: Batch,
    folder: Path | None,
    *,
    total_steps: int,
    after: int | None,
    sinks: Sequence[Sink] = (),
    monitor: Monitor | None = None,
) -> Recorder:
    """The recorder of a run; only the first process writes."""
    from anyrig.training.watch import Recorder
    from anyrig.training.watch.flops import count_flops
    from anyrig.training.watch.sinks.lines import Lines

    first = parts.group.rank == 0
    all_sinks: list[Sink] = [*sinks] if first else []
    past: Any = ()
    if folder is not None and first:
        folder.mkdir(parents=True, exist_ok=True)
        lines = Lines(folder, after=after)
        all_sinks.append(lines)
        past = lines.past
        all_sinks += _further(settings, folder, after)
    speed = parts.placement.speed
    recorder = Recorder(
        parts.device,
        sinks=all_sinks,
        log_every=settings.log_every,
        total_steps=total_steps,
        memory=parts.handle.memory,
        total=parts.group.total if parts.group.size > 1 else None,
        peaks={parts.placement.precision: speed} if speed else None,
        monitor=monitor,
        monitor_device=parts.placement.device.id,
        past=past,
    )
    if speed and not parts.group.lockstep:
        counted = count_flops(parts.model, loss, to_device(cut(batch, 0, 1), parts.device), 1)
        recorder.flops_per_sample = counted.per_sample if counted else None
    return recorder


def _further(settings: Settings, folder: Path, after: int | None) -> list[Sink]:
    found: list[Sink] = []
    if settings.tensorboard:
        from anyrig.training.watch.sinks.board import Board

        found.append(Board(folder, after=after))
    if settings.prometheus:
        from anyrig.training.watch.sinks.prometheus import Prometheus

        found.append(Prometheus(folder, run=folder.name))
    return found
