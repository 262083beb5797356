"""What a job is, and how a running one is told to stop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

from anyrig.errors import InvalidInputError, WorkError
from anyrig.storage.keys import JsonValue

JobState = Literal["queued", "running", "paused", "done", "failed", "cancelled"]
StopRequest = Literal["", "pause", "cancel"]
ACTIVE_STATES: tuple[JobState, ...] = ("queued", "running", "paused")
FINISHED_STATES: tuple[JobState, ...] = ("done", "failed", "cancelled")


class JobNotFoundError(InvalidInputError):
    """An id that no job has."""


class JobStopped(Exception):
    """Raised by a handler that was told to stop and did."""


class JobKilledError(WorkError):
    """Raised by a handler whose process was killed by the system, not by anyrig."""


class JobFailure(NamedTuple):
    """Why a job failed, and what a person can do."""

    message: str
    hint: str


@dataclass(frozen=True)
class Job:
    """A piece of long work, as it was when it was read. Times are seconds since 1970."""

    id: str
    kind: str
    arguments: Mapping[str, JsonValue]
    state: JobState
    created: float
    started: float | None = None
    """When it was first worked on."""
    ended: float | None = None
    progress: Mapping[str, JsonValue] | None = None
    """The last that was reported, kept when it ends."""
    error: JobFailure | None = None
    result: JsonValue = None
    attempts: int = 0
    """How often work on it was begun."""
    stop_request: StopRequest = ""
    """What a running job was told to do and has not done yet."""
    client: str = ""
    """Who submitted it, by the id of an API key; empty for the command line."""
    kills: int = 0
    """How often the system killed its process since it was submitted or resumed."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to it unless it is resumed."""
        return self.state in FINISHED_STATES

    def to_json(self) -> dict[str, JsonValue]:
        """The job as `anyrig jobs --json` prints it."""
        fields: dict[str, JsonValue] = asdict(self)
        fields["error"] = self.error._asdict() if self.error else None
        return {"requested" if name == "stop_request" else name: fields[name] for name in fields}


class FinishedJob(NamedTuple):
    """What is needed to decide whether a job that has ended is kept."""

    id: str
    kind: str
    client: str
    state: JobState
    ended: float
    folder: str | None


class JobEvent(NamedTuple):
    """Something that happened to a job."""

    number: int
    """Counted for each job from 1; old ones may be deleted, none is used twice."""
    time: float
    kind: str
    """`state`, `progress`, or what the handler reports."""
    data: Mapping[str, JsonValue]


class JobPage(NamedTuple):
    """Some jobs, and how many there are in all."""

    jobs: Sequence[Job]
    """The oldest first."""
    counts: Mapping[JobState, int]
    """By state, of the requested kinds, whether on this page or not."""
    next_before: int | None
    """`before` of the next page; None for the last one."""
    queue_positions: Mapping[str, int]
    """Of every queued job, of whatever kind, by id; 1 is the next one."""


class StopSignal:
    """Tells a running job to stop; its handler checks it often.

    It is also set when the job may have passed to another process: a lease is valid for a while
    and renewed by whoever runs the queue. One that was frozen must not go on beside its successor.
    """

    def __init__(self, lease_s: float = math.inf) -> None:
        self._event = threading.Event()
        self._lease_end = time.monotonic() + lease_s

    @property
    def is_set(self) -> bool:
        """Whether to stop now."""
        return self._event.is_set() or self.lease_left_s <= 0

    @property
    def lease_left_s(self) -> float:
        """How long no other process can have taken the job."""
        return self._lease_end - time.monotonic()

    def raise_if_set(self) -> None:
        """Raise `JobStopped` when it is time to stop."""
        if self.is_set:
            raise JobStopped

    def wait(self, timeout_s: float) -> bool:
        """Sleep until it is set, or for so long; whether it is set."""
        self._event.wait(max(0.0, min(timeout_s, self.lease_left_s, threading.TIMEOUT_MAX)))
        return self.is_set

    def set(self) -> None:
        self._event.set()

    def extend_lease(self, end: float) -> None:
        """The lease was renewed until `end`, by the monotonic clock."""
        self._lease_end = end


ReportEvent = Callable[[str, Mapping[str, JsonValue]], None]
"""Called with a kind of event and its data. `progress` is thinned out; everything else is kept."""
JobHandler = Callable[[Job, ReportEvent, StopSignal], JsonValue]
"""Does a job of any kind and returns its result; raises `JobStopped` when told to stop.

It needs the kind and the arguments, which are JSON, so it may pass both to a process of its own.
"""
