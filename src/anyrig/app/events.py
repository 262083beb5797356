"""What an ability reports while it works: progress, warnings and notices, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
class LeftOut:
    """A part of a book that is not read, and the option that has it read."""

    what: str
    """`chapters`, or what is left out of them: `note`, `table`, `picture`."""
    count: int
    option: str
    value: str
    titles: tuple[str, ...] = ()
    """Of chapters."""


@dataclass(frozen=True)
class BookStartedEvent:
    """A book is planned, and its making begins."""

    title: str
    chapters: tuple[str, ...]
    """Their titles."""
    numbers: tuple[int, ...]
    """Their numbers in the book, from 1."""
    num_segments: int
    num_characters: int
    estimated_audio_s: float
    is_measured: bool
    """Whether the estimate is from a measurement of this voice."""
    omitted: Mapping[str, int]
    """Characters that are not read, by what they are."""
    output: Path
    engine: str
    left_out: tuple[LeftOut, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "event": "begin", "title": self.title, "chapters": list(self.chapters),
            "numbers": list(self.numbers), "num_segments": self.num_segments,
            "num_characters": self.num_characters,
            "estimated_audio_s": round(self.estimated_audio_s, 1), "measured": self.is_measured,
            "omitted": dict(self.omitted), "output": str(self.output), "engine": self.engine,
        }  # fmt: skip


@dataclass(frozen=True)
class BookProgressEvent(ProgressEvent):
    """How far a book is: `done` of `total` is the share of both stages, making and writing."""

    chapter: int = 0
    """Which of the chapters that are read, from 1."""
    num_chapters: int = 0
    segment: int = 0
    num_segments: int = 0
    wall_s: float = 0.0
    speed: float | None = None
    """Times real time, of what was made in this run; None before anything was."""
    left_s: float | None = None
    """Until the end; None before it can be estimated."""
    devices: Mapping[str, float] = field(default_factory=dict)
    """Characters per second that each device made in this run."""

    def to_json(self) -> dict[str, Any]:
        return {
            "event": "progress", "stage": self.stage, "done": round(self.done / self.total, 4),
            "chapter": self.chapter, "num_chapters": self.num_chapters, "title": self.detail,
            "segment": self.segment, "num_segments": self.num_segments,
            "audio_s": round(self.audio_s or 0.0, 2), "wall_s": round(self.wall_s, 2),
            "speed": None if self.speed is None else round(self.speed, 2),
            "left_s": None if self.left_s is None else round(self.left_s, 1),
            "devices": {name: round(rate, 1) for name, rate in self.devices.items()},
        }  # fmt: skip


@dataclass(frozen=True)
class BookUnfinishedEvent:
    """Passages could not be spoken; an error follows."""

    passages: Sequence[Mapping[str, Any]]
    """Each with `chapter`, `segment`, `text`, `said` (why) and `hint`."""

    def to_json(self) -> dict[str, Any]:
        return {"event": "unfinished", "passages": list(self.passages)}


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
)
OnEvent = Callable[[Event], None]
