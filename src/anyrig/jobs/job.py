"""What a job is, what can be asked of all of them, and how one is told to stop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from anyrig.errors import InvalidInputError

Plain: TypeAlias = "None | bool | int | float | str | Sequence[Plain] | Mapping[str, Plain]"
"""What JSON can hold."""
State = Literal["queued", "running", "paused", "done", "failed", "cancelled"]
Wish = Literal["", "pause", "cancel"]
ACTIVE: tuple[State, ...] = ("queued", "running", "paused")
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")


class JobNotFoundError(InvalidInputError):
    """An id that no job has."""


class Trouble(NamedTuple):
    """Why a job failed, and what a person can do."""

    message: str
    hint: str


@dataclass(frozen=True)
class Job:
    """A piece of long work, as it stood when it was asked for. Times are seconds since 1970."""

    id: str
    kind: str
    arguments: Mapping[str, Plain]
    state: State
    created: float
    started: float | None = None
    """When it was first worked on."""
    ended: float | None = None
    progress: Mapping[str, Plain] | None = None
    """The last that was told, kept when it ends."""
    error: Trouble | None = None
    result: Plain = None
    attempts: int = 0
    """How often work on it was begun."""
    asked: Wish = ""
    """What a running job was asked to do and has not done yet."""
    client: str = ""
    """Who submitted it, by the id of an API key; empty for the command line."""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen to it unless it is resumed."""
        return self.state in ENDED

    def plain(self) -> dict[str, Plain]:
        """For programs."""
        found: dict[str, Plain] = asdict(self)
        found["error"] = self.error._asdict() if self.error else None
        return found


class Event(NamedTuple):
    """Something that happened to a job."""

    number: int
    """Counted for each job from 1; older ones may be gone, none is used twice."""
    time: float
    kind: str
    """`state`, `progress`, or what the job's own kind tells."""
    data: Mapping[str, Plain]


class Listing(NamedTuple):
    """Some jobs, and how many there are besides."""

    jobs: Sequence[Job]
    """The oldest first."""
    counts: Mapping[State, int]
    """Of the kinds that were asked for, by state; those that are not listed too."""
    older: int | None
    """Given as `before`, the next ones are listed; None where there are none."""
    places: Mapping[str, int]
    """Where jobs stand that wait for their turn, by id; 1 is the next one, of whatever kind."""


class Jobs(Protocol):
    """Where jobs are kept, whoever works on them: this machine or many."""

    def submit(self, kind: str, arguments: Mapping[str, Plain], *, client: str = "") -> Job:
        """A new job, queued; `client` is the id of the API key that submits it."""

    def get(self, id: str) -> Job:
        """A job by its id; `JobNotFoundError`."""

    def list(self, *, kinds: Sequence[str] = (), states: Sequence[State] = ()) -> Sequence[Job]:
        """Those of some kinds and states, or all; the oldest first."""

    def listing(
        self,
        most: int,
        *,
        before: int | None = None,
        kinds: Sequence[str] = (),
        states: Sequence[State] = (),
        client: str | None = None,
    ) -> Listing:
        """The newest that fit, so many at most; with 0 it only counts.

        With `client` only those are listed and counted that it submitted.
        """

    def events(self, id: str, after: int = 0, *, follow: bool = False) -> Iterator[Event]:
        """What happened after the event of a number; with `follow` until the job is over."""

    def pause(self, id: str) -> Job:
        """Let it rest; what runs stops soon after."""

    def resume(self, id: str) -> Job:
        """Queue it again: after a pause, a failure or a change of mind."""

    def cancel(self, id: str) -> Job:
        """Give it up; what runs stops soon after."""

    def delete(self, id: str) -> None:
        """Forget a job that does not run."""


class Stopped(Exception):
    """Raised by a runner that was told to stop and did."""


class Stop:
    """How a running job hears that it shall stop. Its runner asks often.

    It also speaks when the job may have passed to another process: the lease is held for a while
    and renewed by whoever works the queue; one that was frozen must not go on beside its successor.
    """

    def __init__(self, held_s: float = math.inf) -> None:
        self._event = threading.Event()
        self._until = time.monotonic() + held_s

    @property
    def asked(self) -> bool:
        """Whether to stop now."""
        return self._event.is_set() or self.held_s <= 0

    @property
    def held_s(self) -> float:
        """For how long the job is surely ours."""
        return self._until - time.monotonic()

    def check(self) -> None:
        """Raise `Stopped` when it is time."""
        if self.asked:
            raise Stopped

    def wait(self, seconds: float) -> bool:
        """Sleep so long at most; whether to stop."""
        self._event.wait(max(0.0, min(seconds, self.held_s, threading.TIMEOUT_MAX)))
        return self.asked

    def ask(self) -> None:
        """Tell the job to stop."""
        self._event.set()

    def hold(self, until: float) -> None:
        """The lease was renewed; `until` by the monotonic clock."""
        self._until = until


Tell = Callable[[str, Mapping[str, Plain]], None]
"""Told a kind of event and its data. `progress` is thinned out; everything else is kept."""
Run = Callable[[Job, Tell, Stop], Plain]
"""Does a job and answers its result. `Stopped` when it was told to stop; any error fails it."""
