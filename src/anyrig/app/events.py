"""What an ability reports while it works: progress, warnings and notices, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyrig.app.runs import Run, TrainingResult
    from anyrig.training.watch.alerts import Alert
    from anyrig.training.watch.figures import Figures, RunEvent, Validation


@dataclass(frozen=True)
class ProgressEvent:
    """How far the work is. Whoever shows it adds the speed and the time left."""

    stage: str
    """What is being done: `loading the voice`, `speaking`."""
    done: int = 0
    total: int = 0
    """0 while it is not known."""
    detail: str = ""
    """The item: a sentence, a file's name."""
    audio_s: float | None = None
    """Seconds of audio so far, where audio is made."""


@dataclass(frozen=True)
class WarningEvent:
    message: str


@dataclass(frozen=True)
class NoticeEvent:
    """Something a person at a terminal wants to know, such as that a device is measured first."""

    message: str


@dataclass(frozen=True)
class RunStartedEvent:
    """A training run begins, or goes on, in its folder."""

    run: Run
    num_processes: int = 1


@dataclass(frozen=True)
class DeviceEvent:
    """Where the work runs."""

    name: str
    precision: str
    title: str
    """The name with what was chosen for it, for a person."""


@dataclass(frozen=True)
class TrainingEvent:
    """What a training run reports: a step (at most ten a second), a validation, a warning."""

    report: Figures | Validation | Alert | RunEvent
    total_steps: int | None
    unit: str
    """What units are: tokens, samples."""


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


Event = (
    ProgressEvent
    | WarningEvent
    | NoticeEvent
    | RunStartedEvent
    | DeviceEvent
    | TrainingEvent
    | RunEndedEvent
    | ClusterEvent
)
OnEvent = Callable[[Event], None]
