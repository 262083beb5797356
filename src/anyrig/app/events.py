"""The events of every ability, and their JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from anyrig.estimates import StageEstimate, TimeLeft
from anyrig.events import (
    BookStartedEvent,
    BookUnfinishedEvent,
    NamedEvent,
    NoticeEvent,
    ProgressEvent,
    WarningEvent,
)
from anyrig.results import in_json, to_json
from anyrig.units import shorten

if TYPE_CHECKING:
    from anyrig.app.runs import Run, TrainingResult
    from anyrig.training.watch.alerts import Alert
    from anyrig.training.watch.figures import Figures, RunEvent, Validation


@dataclass(frozen=True)
class RunStartedEvent:
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
class TrainingEvent:
    """What a training run reports: a step (at most ten a second), a validation, a warning."""

    report: Figures | Validation | Alert | RunEvent
    total_steps: int | None
    unit: str
    """What units are: tokens, samples."""

    def to_json(self) -> dict[str, Any]:
        from anyrig.training.watch.alerts import Alert
        from anyrig.training.watch.figures import Figures, Validation

        report = self.report
        if isinstance(report, Figures):
            row = self._step_to_json(report)
        elif isinstance(report, Validation):
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

    def _step_to_json(self, figures: Figures) -> dict[str, Any]:
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
class RunEndedEvent:
    """A training run is finished, was finished before, or was stopped."""

    result: TrainingResult


@dataclass(frozen=True)
class ClusterEvent:
    """What a worker or a coordinator of a cluster reports."""

    event: str
    """`ready`, `loaded` or `left`; of a coordinator `listening`, `joined`, `left` or `lost`."""
    name: str
    """Of the worker."""
    facts: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"event": self.event, "name": self.name, **self.facts}


Event = (
    ProgressEvent
    | WarningEvent
    | NoticeEvent
    | RunStartedEvent
    | DeviceEvent
    | TrainingEvent
    | RunEndedEvent
    | BookStartedEvent
    | BookUnfinishedEvent
    | ClusterEvent
)
OnEvent = Callable[[Event], None]


class JsonEvents:
    """Turns events into rows for programs: `{"event": "progress", "done": 0.4, "left_s": 3.1}`.

    Progress is thinned out; what is not for programs is None. The end of the work is not an event:
    its result has a form of its own.

    Args:
        interval_s: between two rows of progress of one stage.
    """

    def __init__(self, interval_s: float = 0.2) -> None:
        self._interval_s = interval_s
        self._estimate = StageEstimate()
        self._next, self._stage = 0.0, ""

    def encode(self, event: Event) -> dict[str, Any] | None:
        if isinstance(event, WarningEvent):
            return {"event": "log", "level": "warning", "text": event.message}
        if isinstance(event, NoticeEvent | RunEndedEvent):
            return None
        row: dict[str, Any] | None = to_json(event)
        if row is None:
            assert isinstance(event, ProgressEvent)
            row = self._encode_progress(event)
        if row["event"] == "progress" and not self._is_due(row):
            return None
        return row

    def _is_due(self, row: dict[str, Any]) -> bool:
        now = time.monotonic()
        if now < self._next and row.get("stage") == self._stage and row.get("done") != 1.0:
            return False
        self._next, self._stage = now + self._interval_s, row.get("stage", "")
        return True

    def _encode_progress(self, event: ProgressEvent) -> dict[str, Any]:
        left, speed = estimate_progress(self._estimate, event)
        row: dict[str, Any] = {
            "event": "progress", "stage": event.stage,
            "done": round(event.done / max(1, event.total), 4), "num_done": event.done,
            "num_all": event.total, "title": shorten(event.detail, 80),
            **(left.to_json() if left else {"left_s": None}),
        }  # fmt: skip
        if event.audio_s is not None:
            row["speed"] = None if speed is None else round(speed, 2)
        return row


def estimate_progress(
    estimate: StageEstimate, event: ProgressEvent
) -> tuple[TimeLeft | None, float | None]:
    """The time left, and seconds of audio a second; None what is not known yet."""
    if event.work is not None and event.total_work is not None:
        return estimate.update(event.stage, event.work, event.total_work, event.audio_s)
    return estimate.update(event.stage, event.done, event.total, event.audio_s)
