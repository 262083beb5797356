"""How far a book is, and when it will be done: from what was measured, device by device."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["making", "writing"]


@dataclass(frozen=True)
class Progress:
    """A book on its way."""

    stage: Stage
    done: float
    """The share of this stage that is through, 0 to 1."""
    chapter: int
    """Which part of the plan, from 1."""
    num_chapters: int
    title: str
    segment: int
    num_segments: int
    audio_s: float
    """Of speech so far."""
    wall_s: float
    speed: float | None
    """Times real time, of what was made in this run; None before anything was."""
    left_s: float | None
    """Until the stage ends, at the measured rate."""
    devices: dict[str, float] = field(default_factory=dict)
    """Characters a second that each device has made in this run."""

    def plain(self) -> dict[str, object]:
        """For programs."""
        return {
            "event": "progress", "stage": self.stage, "done": round(self.done, 4),
            "chapter": self.chapter, "num_chapters": self.num_chapters, "title": self.title,
            "segment": self.segment, "num_segments": self.num_segments,
            "audio_s": round(self.audio_s, 2), "wall_s": round(self.wall_s, 2),
            "speed": None if self.speed is None else round(self.speed, 2),
            "left_s": None if self.left_s is None else round(self.left_s, 1),
            "devices": {name: round(rate, 1) for name, rate in self.devices.items()},
        }  # fmt: skip


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
        self._made_after = 0
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
        if self._first is None or not self._made_after:
            return None
        return to_make / (self._made_after / max(self._clock() - self._first, 1e-9))

    @property
    def devices(self) -> dict[str, float]:
        """Characters a second by device."""
        wall = max(self.wall_s, 1e-9)
        return {name: count / wall for name, count in self._by_device.items()}
