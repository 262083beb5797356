"""How far a book is, and how long it still takes.

`Pace` is for the takes, `OverallProgress` makes one share of all stages.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from anyrig.estimates import SmoothedRate, TimeLeft, WorkEstimate
from anyrig.events import EstimatedProgress, ProgressEvent
from anyrig.results import in_json

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import NarrationPlan
    from anyrig.audiobooks.record import Timeline

Stage = Literal["making", "writing", "read-along"]
MAKING_SPEED, WRITING_SPEED = 20.0, 100.0
"""Times real time, until something was measured: the default voice on two cores, and AAC on one
(75 to 150 were measured on slow cores)."""
_MIN_STAGE_S = 1.0
"""Before so long a stage of writing says nothing of how long it takes."""


@dataclass(frozen=True)
class BookProgress(EstimatedProgress):
    """How far a book is."""

    stage: Stage
    done: float = field(metadata=in_json(digits=4))
    """The share that is through, 0 to 1: of this stage; of all as `OverallProgress` reports it."""
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
    devices: dict[str, float] = field(default_factory=dict, metadata=in_json(digits=1))
    """Characters a second that each device has made in this run."""


OnProgress = Callable[[BookProgress], None]


@dataclass(frozen=True)
class BookProgressEvent(ProgressEvent):
    """How far a book is: `done` of `total` is the share of both stages, making and writing."""

    progress: BookProgress = field(kw_only=True)

    def to_json(self) -> dict[str, Any]:
        return {"event": "progress", **self.progress.to_json()}


class Pace:
    """How fast takes are made, and how long the rest takes.

    Args:
        num_characters: of the whole book.
        num_cached: how many of those need not be made.
        clock: seconds that only go forward.
    """

    def __init__(
        self, num_characters: int, num_cached: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._num_characters, self._num_done = num_characters, 0
        self._clock, self._began = clock, clock()
        self._work = WorkEstimate(num_characters - num_cached, clock)
        self._audio = SmoothedRate(clock)
        self._made_s = self.loading_s = 0.0
        """`loading_s`: until the first take was there."""
        self._by_device: Counter[str] = Counter()

    def add(self, characters: int, audio_s: float, *, cached: bool, device: str) -> None:
        """Count one more segment."""
        self._num_done += characters
        if cached:
            return
        if not self._by_device:
            self.loading_s = self.wall_s
        self._work.add(characters)
        self._audio.add(audio_s)
        self._made_s += audio_s
        self._by_device[device or "this machine"] += characters

    @property
    def done(self) -> float:
        return self._num_done / self._num_characters if self._num_characters else 1.0

    @property
    def wall_s(self) -> float:
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
        return self._work.left

    @property
    def devices(self) -> dict[str, float]:
        """Characters a second by device."""
        wall_s = max(self.wall_s, 1e-9)
        return {name: count / wall_s for name, count in self._by_device.items()}


class OverallProgress:
    """All stages as one: a share from 0 to 1 that never goes back, and the time until the book is
    there. Each stage weighs what it takes here, as far as that is known.

    Args:
        on_progress: is called with it.
        read_along: what the stage after writing takes, as a share of writing; 0 if there is none.
    """

    def __init__(self, on_progress: OnProgress, read_along: float = 0.0) -> None:
        self._on_progress = on_progress
        self._began = time.monotonic()
        self._done = 0.0
        self._read_along = read_along
        self._writing_share = 1.0
        self._writing_s = 0.0
        self._since: dict[Stage, float] = {}
        """When each stage of writing began."""

    def __call__(self, now: BookProgress) -> None:
        done, left = self._weigh_making(now) if now.stage == "making" else self._weigh_writing(now)
        self._done = max(self._done, min(done, 1.0))
        self._on_progress(replace(now, done=self._done, left=left))

    def follow_writing(
        self, plan: NarrationPlan, timeline: Timeline, stage: Stage
    ) -> Callable[[float], None]:
        """Turns the share that an encoder reports into progress."""
        ends = [chapter.end for chapter in timeline.chapters]
        work, written = WorkEstimate(1.0), 0.0

        def on_written(done: float) -> None:
            nonlocal written
            work.add(done - written)
            written = done
            chapter = min(bisect_right(ends, done * timeline.num_samples), len(plan.parts) - 1)
            rate = work.rate.per_s if work.is_known else None
            self(BookProgress(
                stage, done, chapter + 1, len(plan.parts), plan.parts[chapter].title,
                plan.num_segments, plan.num_segments, timeline.duration_s,
                time.monotonic() - self._began,
                speed=rate and rate * timeline.duration_s,
                left=work.left,
            ))  # fmt: skip

        return on_written

    def _weigh_making(self, now: BookProgress) -> tuple[float, TimeLeft | None]:
        audio_s = now.audio_s / now.done if now.done else now.audio_s
        self._writing_s = audio_s / WRITING_SPEED
        after_s = self._writing_s * (1 + self._read_along)
        making_s = audio_s / MAKING_SPEED
        if now.left is not None:
            making_s = now.wall_s + math.sqrt(now.left.low_s * now.left.high_s)
        self._writing_share = after_s / max(after_s + making_s, 1e-9)
        left = now.left.plus(after_s) if now.left else None
        return now.done * (1 - self._writing_share), left

    def _weigh_writing(self, now: BookProgress) -> tuple[float, TimeLeft | None]:
        since = self._since.setdefault(now.stage, now.wall_s)
        is_sure = now.left_s is not None and now.wall_s - since >= _MIN_STAGE_S
        read_along_s = self._read_along * self._writing_s
        if now.stage == "writing":
            through, stage_s, later_s = now.done, self._writing_s, read_along_s
        else:
            through, stage_s, later_s = 1 + self._read_along * now.done, read_along_s, 0.0
        left_s = now.left_s if is_sure or now.done >= 1.0 else stage_s * (1 - now.done)
        left_s = (left_s or 0.0) + later_s
        share = through / (1 + self._read_along)
        return 1 - self._writing_share * (1 - share), TimeLeft.exactly(left_s)
