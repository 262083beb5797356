"""How far a book is, and when it will be done: from what was measured, device by device."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from anyrig.estimates import Rate, TimeLeft, WorkEstimate
from anyrig.results import in_json

Stage = Literal["making", "writing", "read-along"]
MAKING_SPEED, WRITING_SPEED = 20.0, 100.0
"""Times real time, until something was measured: the default voice on two cores, and AAC on one
(75 to 150 were measured on slow cores)."""
_SURE_S = 1.0
"""Before so long a stage of writing says nothing of how long it takes."""


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
    """Times real time, of what was made in this run, without loading; None before it is known."""
    left_s: float | None = field(metadata=in_json(digits=1))
    """Until the end, at the measured rate; None before that is known."""
    devices: dict[str, float] = field(default_factory=dict, metadata=in_json(digits=1))
    """Characters a second that each device has made in this run."""
    left_range_s: tuple[float, float] | None = field(
        default=None, metadata=in_json(digits=1, omit_empty=True)
    )
    """At least and at most until the end, while `left_s` is not known."""

    @property
    def left(self) -> TimeLeft | None:
        if self.left_s is not None:
            return TimeLeft(self.left_s, self.left_s)
        return TimeLeft(*self.left_range_s) if self.left_range_s else None


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
        self._all = num_characters
        self._clock = clock
        self._began = clock()
        self._through = 0
        self._making, self._audio = WorkEstimate(num_characters - num_kept, clock), Rate(clock)
        self._made_s = self.loading_s = 0.0
        """`loading_s`: until the first take was there."""
        self._by_device: Counter[str] = Counter()

    def add(self, characters: int, audio_s: float, *, kept: bool, device: str) -> None:
        """One more segment is through."""
        self._through += characters
        if kept:
            return
        if not self._by_device:
            self.loading_s = self.wall_s
        self._making.add(characters)
        self._audio.add(audio_s)
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
        """Times real time, of what was made, without loading; None before it is known."""
        left = self.left
        if not self._made_s or left is None or not left.is_known:
            return None
        return self._audio.per_s or self._made_s / max(self.wall_s, 1e-9)

    @property
    def left(self) -> TimeLeft | None:
        """Until everything is made."""
        return self._making.left

    @property
    def left_s(self) -> float | None:
        """The same, once it is known."""
        return self.left.known_s if self.left else None

    @property
    def devices(self) -> dict[str, float]:
        """Characters a second by device."""
        wall = max(self.wall_s, 1e-9)
        return {name: count / wall for name, count in self._by_device.items()}


class Whole:
    """Tells all stages as one: a share from 0 to 1 that never goes back, and the time until the
    book is there. Each stage weighs what it takes here, as far as that is known.

    Args:
        tell: is told.
        read_along: what the stage after writing takes, as a share of writing; 0 if there is none.
    """

    def __init__(self, tell: Tell, read_along: float = 0.0) -> None:
        self._tell = tell
        self._done = 0.0
        self._read_along = read_along
        self._writing_share = 1.0
        self._writing_s = 0.0
        self._since: dict[Stage, float] = {}
        """When each stage of writing began."""

    def __call__(self, now: Progress) -> None:
        """How far a stage is."""
        done, left = self._making(now) if now.stage == "making" else self._writing(now)
        self._done = max(self._done, min(done, 1.0))
        left_s, left_range_s = (left.known_s, left.range_s) if left else (None, None)
        self._tell(replace(now, done=self._done, left_s=left_s, left_range_s=left_range_s))

    def _making(self, now: Progress) -> tuple[float, TimeLeft | None]:
        audio_s = now.audio_s / now.done if now.done else now.audio_s
        self._writing_s = audio_s / WRITING_SPEED
        after_s = self._writing_s * (1 + self._read_along)
        making_s = audio_s / MAKING_SPEED
        if now.left is not None:
            making_s = now.wall_s + math.sqrt(now.left.low_s * now.left.high_s)
        self._writing_share = after_s / max(after_s + making_s, 1e-9)
        left = now.left.plus(after_s) if now.left else None
        return now.done * (1 - self._writing_share), left

    def _writing(self, now: Progress) -> tuple[float, TimeLeft | None]:
        since = self._since.setdefault(now.stage, now.wall_s)
        sure = now.left_s is not None and now.wall_s - since >= _SURE_S
        if now.stage == "writing":
            through, stage_s, later_s = (
                now.done,
                self._writing_s,
                self._read_along * self._writing_s,
            )
        else:
            through, stage_s, later_s = (
                1 + self._read_along * now.done, self._read_along * self._writing_s, 0.0,
            )  # fmt: skip
        left_s = now.left_s if sure or now.done >= 1.0 else stage_s * (1 - now.done)
        left_s = (left_s or 0.0) + later_s
        share = through / (1 + self._read_along)
        return 1 - self._writing_share * (1 - share), TimeLeft(left_s, left_s)
