"""What work reports while it goes on: progress, warnings and notices, as values, and their JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from anyrig.estimates import StageEstimate, TimeLeft
from anyrig.results import fields_to_json, in_json
from anyrig.units import shorten


class Event:
    """Something that happened, for whoever follows the work."""

    def to_json(self) -> dict[str, Any] | None:
        """The event for programs; None if it is not for them, or `JsonEvents` adds to it."""
        return None


OnEvent = Callable[[Event], None]
"""Called with what happens; must not take long."""
_MAX_WARNINGS = 8


@dataclass(frozen=True)
class ProgressEvent(Event):
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
    work: float | None = None
    """How much of the work is done, in units that take about as long as each other, such as
    characters; what a cache had is not counted. The items are the work if it is None."""
    total_work: float | None = None
    unit: Literal["items", "bytes"] = "items"
    """Of `done` and `total`."""

    @property
    def fraction(self) -> float:
        """How much is done, from 0 to 1; 0 while the total is not known."""
        return self.done / self.total if self.total else 0.0


@dataclass(frozen=True, kw_only=True)
class EstimatedProgress:
    """How far long work is, with the time that it still takes."""

    left: TimeLeft | None = field(default=None, metadata=in_json(omit=True))
    """None before anything can be said."""

    @property
    def left_s(self) -> float | None:
        """None before it is known; `left` may be a range then."""
        return self.left.known_s if self.left else None

    def to_json(self) -> dict[str, Any]:
        left = self.left.to_json() if self.left else {"left_s": None}
        return {**fields_to_json(self), **left}


class NamedEvent(Event):
    """An event whose JSON is its fields and the name of what happened."""

    event: ClassVar[str]
    json_properties: ClassVar = {"event": "event"}

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self)


@dataclass(frozen=True)
class WarningEvent(Event):
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"event": "log", "level": "warning", "text": self.message}


def warn_some(on_event: OnEvent, warnings: Sequence[str], more: str) -> None:
    """Report the first few of many warnings, and how many more there are."""
    for text in warnings[:_MAX_WARNINGS]:
        on_event(WarningEvent(text))
    if len(warnings) > _MAX_WARNINGS:
        on_event(WarningEvent(f"{len(warnings) - _MAX_WARNINGS} more {more}"))


@dataclass(frozen=True)
class NoticeEvent(Event):
    """Something a person at a terminal wants to know, such as that a device is measured first."""

    message: str


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
class FasterVoice:
    """An engine that speaks the same language in far less time."""

    engine: str
    times_faster: float = field(metadata=in_json(digits=1))
    core_s_per_audio_s: float
    """What the chosen engine takes: seconds of one CPU core for a second of speech."""
    install: str = ""
    """What installs it; empty if it is installed."""


@dataclass(frozen=True)
class BookStartedEvent(NamedEvent):
    """A book is planned, and its making begins."""

    event: ClassVar = "begin"
    title: str
    chapters: tuple[str, ...]
    """Their titles."""
    numbers: tuple[int, ...]
    """Their numbers in the book, from 1."""
    num_segments: int
    num_characters: int
    estimated_audio_s: float = field(metadata=in_json(digits=1))
    is_measured: bool = field(metadata=in_json("measured"))
    """Whether the estimate is from a measurement of this voice."""
    omitted: Mapping[str, int]
    """Characters that are not read, by what they are."""
    output: Path
    engine: str
    left_out: tuple[LeftOut, ...] = field(default=(), metadata=in_json(omit=True))
    faster: FasterVoice | None = None
    """If the chosen engine takes long."""


@dataclass(frozen=True)
class BookUnfinishedEvent(NamedEvent):
    """Passages could not be spoken; an error follows."""

    passages: Sequence[Mapping[str, Any]]
    """Each with `chapter`, `segment`, `text`, `said` (why) and `hint`."""
    event: ClassVar = "unfinished"


@dataclass(frozen=True)
class ClusterEvent(Event):
    """What a worker or a coordinator of a cluster reports."""

    event: str
    """`ready`, `loaded` or `left`; of a coordinator `listening`, `joined`, `left` or `lost`."""
    name: str
    """Of the worker."""
    facts: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"event": self.event, "name": self.name, **self.facts}


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
        row = event.to_json()
        if row is None and isinstance(event, ProgressEvent):
            row = self._encode_progress(event)
        if row is not None and row["event"] == "progress" and not self._is_due(row):
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
