"""How far an index is, how fast it goes, and when it will be done.

What is left is told by what this run has taken so far: seconds to read a file, by its kind, and
seconds to embed a passage. Before a little of both is known there is no time left to tell.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from anyrig.estimates import TimeLeft
from anyrig.events import EstimatedProgress
from anyrig.results import in_json

if TYPE_CHECKING:
    from anyrig.documents.index.rows import Stamp

Stage = Literal["embedding", "indexing", "removing", "linking"]
Clock = Callable[[], float]
_ENOUGH_S, _ENOUGH_FILES = 2.0, 3
"""What a run has to have taken and read before its end is guessed."""
_MOSTLY = 0.8
_GAP_S, _BURST_S = 0.1, 0.5
_SMALL_BYTES = 4096


@dataclass(frozen=True)
class Progress(EstimatedProgress):
    """An index on its way."""

    stage: Stage
    done: float = field(metadata=in_json(digits=4))
    """The share of this stage that is through, by the time it takes."""
    file: int
    """Files that are written."""
    num_files: int
    num_passages: int
    """Made in this run."""
    num_failed: int
    title: str
    """The file that was opened or done last."""
    wall_s: float = field(metadata=in_json(digits=2))
    files_per_s: float = field(metadata=in_json(digits=2))
    """Read."""
    passages_per_s: float = field(metadata=in_json(digits=2))
    num_read: int = 0
    """Files that were opened: those ahead of `file` wait for their vectors."""
    num_asked: int = 0
    """Passages of the files that were opened, for which the model is asked."""


Tell = Callable[[Progress], None]


class Pace:
    """Counts things that take about as long as each other: texts, links, files that are gone."""

    def __init__(self, stage: Stage, total: int, clock: Clock = time.monotonic) -> None:
        self._stage: Stage = stage
        self._total, self._clock = total, clock
        self._began = clock()
        self._num_done = self._passages = 0
        self._title = ""

    def add(self, *, passages: int = 0, title: str = "") -> None:
        """One more is done."""
        self._num_done += 1
        self._passages += passages
        self._title = title

    @property
    def now(self) -> Progress:
        """Where it stands."""
        wall = max(self._clock() - self._began, 1e-9)
        done = min(1.0, self._num_done / self._total) if self._total else 1.0
        left = None
        if done == 1 or (done and wall >= _ENOUGH_S):
            left = wall / done * (1 - done)
        return Progress(
            self._stage, done, self._num_done, self._total, self._passages, 0, self._title, wall,
            self._num_done / wall, self._passages / wall,
            left=None if left is None else TimeLeft.exactly(left),
        )  # fmt: skip


class _Each:
    """Seconds that a vector takes, learned from vectors that come in bursts.

    When the first of a burst is here the time of all of them has passed, so within a burst the
    rate before it holds. The first burst has the loading of the model in it, and is left out as
    soon as there is another.
    """

    def __init__(self) -> None:
        self.count = 0
        self._spent = 0.0
        self._first = (0.0, 0)  # seconds and number when the first burst was over
        self._last = self._burst = -math.inf
        self._num_bursts = 0
        self._before: float | None = None

    def add(self, now: float, spent: float) -> None:
        """One more, when so many seconds were spent on all."""
        if now - self._last > _GAP_S:
            self._before = self._rate() if self.count else None
            if self._num_bursts == 1:
                self._first = self._spent, self.count
            self._num_bursts += 1
            self._burst = now
        self._last, self._spent = now, spent
        self.count += 1

    def now(self, now: float) -> float | None:
        """Seconds; None before the first burst is over."""
        if not self.count or now - self._burst < _BURST_S:
            return self._before
        return self._rate()

    def _rate(self) -> float:
        spent, count = self._first
        return (self._spent - spent) / (self.count - count)


class FilesPace:
    """Counts files as they are opened, their passages as they are embedded, files as written.

    Reading and embedding may go on at once. What embedding is held to take is what the run took
    beyond waiting for files, so the two add up to what passes on the clock.
    """

    def __init__(self, stamps: Sequence[Stamp], clock: Clock = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self._waiting = {stamp.path: _kind(stamp) for stamp in stamps}
        # By kind of file: weight and number of those that are not opened yet.
        self._ahead: dict[str, float] = defaultdict(float)
        self._num_ahead = Counter(kind for kind, _ in self._waiting.values())
        for kind, weight in self._waiting.values():
            self._ahead[kind] += weight
        self._num_files = len(stamps)
        self._num_read = self._num_written = self._num_failed = 0
        self._each, self._num_asked = _Each(), 0
        self._read_s = self._done = 0.0
        self._title = ""
        # By kind of file: what was opened, in weight, in seconds and in passages.
        self._weight: dict[str, float] = defaultdict(float)
        self._seconds: dict[str, float] = defaultdict(float)
        self._passages: dict[str, int] = defaultdict(int)

    def read(self, stamp: Stamp, seconds: float, passages: int) -> None:
        """One more is opened: how long it was waited for, how many passages have to be embedded."""
        kind, weight = self._opened(stamp) or _kind(stamp)
        self._weight[kind] += weight
        self._seconds[kind] += seconds
        self._passages[kind] += passages
        self._read_s += seconds
        self._num_asked += passages
        self._num_read += 1
        self._title = stamp.file.name

    def embedded(self) -> None:
        """One more passage has its vector."""
        now = self._clock()
        self._each.add(now, max(0.0, now - self._began - self._read_s))

    def written(self, stamp: Stamp, *, failed: bool = False) -> None:
        """One more is done."""
        if self._opened(stamp):  # it had not to be opened, or could not be
            self._num_read += 1
        self._num_written = min(self._num_written + 1, self._num_files)
        self._num_failed += failed
        self._title = stamp.file.name

    def _opened(self, stamp: Stamp) -> tuple[str, float] | None:
        found = self._waiting.pop(stamp.path, None)
        if found:
            self._ahead[found[0]] -= found[1]
            self._num_ahead[found[0]] -= 1
        return found

    @property
    def now(self) -> Progress:
        """Where it stands."""
        wall = max(self._clock() - self._began, 1e-9)
        over = self._num_written >= self._num_files
        left = 0.0 if over else self._left(wall)
        share = wall / (wall + left) if left is not None else 0.0
        self._done = 1.0 if over else max(self._done, min(share, 0.99))  # it never goes back
        return Progress(
            "indexing", self._done, self._num_written, self._num_files, self._each.count,
            self._num_failed, self._title, wall, self._num_read / wall, self._each.count / wall,
            self._num_read, self._num_asked, left=None if left is None else TimeLeft.exactly(left),
        )  # fmt: skip

    def _left(self, wall: float) -> float | None:
        """Seconds, or None where too little is known."""
        few = self._num_read < min(_ENOUGH_FILES, self._num_files)
        if few or wall < _ENOUGH_S:
            return None
        each = self._each.now(self._clock()) if self._num_asked else 0.0
        if each is None:
            if not self._reads_mostly(wall):
                return None
            each = 0.0
        seconds, passages = self._to_read()
        return seconds + (passages + self._num_asked - self._each.count) * each

    def _reads_mostly(self, wall: float) -> bool:
        """Whether files are so slow, as scans are, that passages will hardly count."""
        return bool(self._waiting) and self._read_s >= _MOSTLY * wall

    def _to_read(self) -> tuple[float, float]:
        """Seconds and passages of the files that are not opened yet, as their like had."""
        seconds = passages = 0.0
        opened = max(1, self._num_read)
        for kind, weight in self._ahead.items():
            if here := self._weight.get(kind):
                seconds += self._seconds[kind] / here * weight
                passages += self._passages[kind] / here * weight
            else:  # none of its kind was opened yet: as the others, whatever its size
                seconds += self._read_s / opened * self._num_ahead[kind]
                passages += self._num_asked / opened * self._num_ahead[kind]
        return seconds, passages


def _kind(stamp: Stamp) -> tuple[str, float]:
    """What a file is by the end of its name, and its weight among its like.

    Not its bytes: ten times as many are more to read, but seldom ten times as much.
    """
    ending = os.path.splitext(os.fsdecode(stamp.path))[1].lower()
    return ending, math.sqrt(max(stamp.size, _SMALL_BYTES))
