"""How far a book is, and when it will be done: from what was measured, device by device."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from anyrig.results import in_json

Stage = Literal["making", "writing"]
MAKING_SPEED, WRITING_SPEED = 20.0, 100.0
"""Times real time, until something was measured: the default voice on two cores, and AAC on one
(75 to 150 were measured on slow cores)."""
_SURE_S, _SURE_TAKES = 2.0, 4
"""Before so much was seen a rate is no rate: the first takes of several workers come together."""
_SURE_SHARE, _LONG_S = 0.1, 20.0
"""And so much of all there is, or for so long: takes that are ready wait for slower ones before
them, so that a short text is through in leaps."""


@dataclass(frozen=True)
class Progress:
    """A book on its way."""

    stage: Stage
    done: float = field(metadata=in_json(digits=4))
    """The share that is through, 0 to 1: of this stage; of both once `Whole` has told it."""
    chapter: int
    """Which part of the plan, from 1."""
    num_chapters: int
    title: str
    segment: int
    num_segments: int
    audio_s: float = field(metadata=in_json(digits=2))
    """Of speech so far."""
    wall_s: float = field(metadata=in_json(digits=2))
    speed: float | None = field(metadata=in_json(digits=2))
    """Times real time, of what was made in this run; None before anything was."""
    left_s: float | None = field(metadata=in_json(digits=1))
    """Until the end, at the measured rate; None before there is one."""
    devices: dict[str, float] = field(default_factory=dict, metadata=in_json(digits=1))
    """Characters a second that each device has made in this run."""


Tell = Callable[[Progress], None]


class Pace:
    """Counts what was made while it is made.

    Args:
        num_characters: what there is to say.
        num_kept: how many of those need not be made.
        clock: seconds that only go forward.
    """

    def __init__(
        self, num_characters: int, num_kept: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._all, self._to_make = num_characters, num_characters - num_kept
        self._clock = clock
        self._began = clock()
        self._first: float | None = None
        """When the first take was there: what came before was loading."""
        self._through = self._made = 0
        self._made_after = self._takes_after = 0
        self._made_s = 0.0
        self._by_device: Counter[str] = Counter()

    def add(self, characters: int, audio_s: float, *, kept: bool, device: str) -> None:
        """One more segment is through."""
        self._through += characters
        if kept:
            return
        if self._first is None:
            self._first = self._clock()
        else:
            self._made_after += characters
            self._takes_after += 1
        self._made += characters
        self._made_s += audio_s
        self._by_device[device or "this machine"] += characters

    @property
    def done(self) -> float:
        """The share that is through."""
        return self._through / self._all if self._all else 1.0

    @property
    def wall_s(self) -> float:
        """Since it began."""
        return self._clock() - self._began

    @property
    def speed(self) -> float | None:
        """Times real time, loading included, of what was made."""
        return self._made_s / self.wall_s if self._made_s and self.wall_s else None

    @property
    def left_s(self) -> float | None:
        """Until everything is made; None before there is a rate."""
        to_make = self._to_make - self._made
        if to_make <= 0:
            return 0.0
        if self._first is None or self._takes_after < _SURE_TAKES:
            return None
        spent_s = self._clock() - self._first
        seen = self._made_after >= _SURE_SHARE * self._to_make or spent_s >= _LONG_S
        if not seen or spent_s < _SURE_S:
            return None
        return to_make / (self._made_after / spent_s)

    @property
    def devices(self) -> dict[str, float]:
        """Characters a second by device."""
        wall = max(self.wall_s, 1e-9)
        return {name: count / wall for name, count in self._by_device.items()}


class Whole:
    """Tells both stages as one: a share from 0 to 1 that never goes back, and the time until the
    book is there. Each stage weighs what it takes here, as far as that is known.

    Args:
        tell: is told.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._done = 0.0
        self._writing_share = 1.0
        self._writing_s = 0.0
        self._since: float | None = None
        """When writing began."""

    def __call__(self, now: Progress) -> None:
        """How far a stage is."""
        done, left_s = self._writing(now) if now.stage == "writing" else self._making(now)
        self._done = max(self._done, min(done, 1.0))
        self._tell(replace(now, done=self._done, left_s=left_s))

    def _making(self, now: Progress) -> tuple[float, float | None]:
        audio_s = now.audio_s / now.done if now.done else now.audio_s
        self._writing_s = audio_s / WRITING_SPEED
        making_s = audio_s / MAKING_SPEED if now.left_s is None else now.wall_s + now.left_s
        self._writing_share = self._writing_s / max(self._writing_s + making_s, 1e-9)
        left_s = None if now.left_s is None else now.left_s + self._writing_s
        return now.done * (1 - self._writing_share), left_s

    def _writing(self, now: Progress) -> tuple[float, float | None]:
        if self._since is None:
            self._since = now.wall_s
        sure = now.wall_s - self._since >= _SURE_S / 2 or now.done >= 1.0
        left_s = now.left_s if sure else self._writing_s * (1 - now.done)
        return 1 - self._writing_share * (1 - now.done), left_s
