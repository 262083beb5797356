"""How far an index is, how fast it goes, and when it will be done.

What is left is estimated by the passages of files that were read, by the kind of file, and by how
many passages this run has embedded a second so far, reading included: both go on at once.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from anyrig.estimates import TimeLeft
from anyrig.events import EstimatedProgress
from anyrig.results import in_json

if TYPE_CHECKING:
    from anyrig.documents.index.db import Stamp

Stage = Literal["embedding", "indexing", "removing"]
Clock = Callable[[], float]
_MIN_WALL_S, _MIN_FILES = 2.0, 3
"""What a run has to have taken and read before its end is estimated."""
_SMALL_BYTES = 4096


@dataclass(frozen=True)
class IndexProgress(EstimatedProgress):
    """An index on its way."""

    stage: Stage
    done: float = field(metadata=in_json(digits=4))
    """The share of this stage that is through, by the time it takes."""
    file: int
    """Files that are written."""
    num_files: int
    num_passages: int
    """Embedded in this run."""
    num_failed: int
    title: str
    """The file that was read or written last."""
    wall_s: float = field(metadata=in_json(digits=2))
    files_per_s: float = field(metadata=in_json(digits=2))
    """Read."""
    passages_per_s: float = field(metadata=in_json(digits=2))
    num_read: int = 0
    """Files that were read: those ahead of `file` wait for their vectors."""
    num_asked: int = 0
    """Passages of the files that were read, for which the model is asked."""


OnProgress = Callable[[IndexProgress], None]


class StepCounter:
    """Counts things that take about as long as each other: texts, files that are gone."""

    def __init__(self, stage: Stage, total: int) -> None:
        self._stage: Stage = stage
        self._total, self._start = total, time.monotonic()
        self._num_done = self._num_passages = 0

    def add(self, count: int = 1, *, passages: int = 0, title: str = "") -> IndexProgress:
        """So many more are done."""
        self._num_done += count
        self._num_passages += passages
        wall = max(time.monotonic() - self._start, 1e-9)
        done = min(1.0, self._num_done / self._total) if self._total else 1.0
        left = wall / done * (1 - done) if done == 1 or (done and wall >= _MIN_WALL_S) else None
        return IndexProgress(
            self._stage, done, self._num_done, self._total, self._num_passages, 0, title, wall,
            self._num_done / wall, self._num_passages / wall,
            left=None if left is None else TimeLeft.exactly(left),
        )  # fmt: skip


@dataclass
class _Kind:
    """Files whose names end alike."""

    num_unread: int = 0
    unread: float = 0.0
    """What they weigh together."""
    read: float = 0.0
    num_passages: int = 0
    """Of those that were read."""


class FileCounter:
    """Counts files as they are read and written, and passages as they are embedded.

    One thread reads ahead while another asks for `now`, which goes through nothing that shrinks or
    grows meanwhile.
    """

    def __init__(self, stamps: Sequence[Stamp], clock: Clock = time.monotonic) -> None:
        self._clock, self._start = clock, clock()
        self._unread = {stamp.path: _weigh(stamp) for stamp in stamps}
        self._kinds: dict[str, _Kind] = {}
        for kind, weight in self._unread.values():
            of_kind = self._kinds.setdefault(kind, _Kind())
            of_kind.num_unread += 1
            of_kind.unread += weight
        self._num_files = len(stamps)
        self.num_embedded = 0
        self._num_read = self._num_written = self._num_failed = self._num_asked = 0
        self._share, self._title = 0.0, ""

    def read(self, stamp: Stamp, passages: int) -> None:
        """One more is read, with so many passages to embed."""
        if found := self._unread.pop(stamp.path, None):
            kind, weight = self._kinds[found[0]], found[1]
            kind.num_unread -= 1
            kind.unread -= weight
            kind.read += weight
            kind.num_passages += passages
            self._num_read += 1
        self._num_asked += passages
        self._title = stamp.file.name

    def add_written(self, stamp: Stamp, *, failed: bool = False) -> None:
        self._num_written = min(self._num_written + 1, self._num_files)
        self._num_failed += failed
        self._title = stamp.file.name

    @property
    def now(self) -> IndexProgress:
        wall = max(self._clock() - self._start, 1e-9)
        rate = self.num_embedded / wall
        over = self._num_written >= self._num_files
        left = 0.0 if over else self._estimate_left(wall)
        share = wall / (wall + left) if left is not None else 0.0
        self._share = 1.0 if over else max(self._share, min(share, 0.99))  # it never goes back
        return IndexProgress(
            "indexing", self._share, self._num_written, self._num_files, self.num_embedded,
            self._num_failed, self._title, wall, self._num_read / wall, rate, self._num_read,
            self._num_asked, left=None if left is None else TimeLeft.exactly(left),
        )  # fmt: skip

    def _estimate_left(self, wall: float) -> float | None:
        """Seconds, or None where too little is known."""
        if self._num_read < min(_MIN_FILES, self._num_files) or wall < _MIN_WALL_S:
            return None
        if not self._num_asked:  # nothing new in any of them
            return wall / self._num_read * len(self._unread)
        if not self.num_embedded:
            return None
        passages = float(self._num_asked - self.num_embedded)
        for kind in self._kinds.values():
            if kind.read:
                passages += kind.num_passages / kind.read * kind.unread
            else:  # none was read yet: as files of other kinds, whatever their size
                passages += self._num_asked / self._num_read * kind.num_unread
        return passages * wall / self.num_embedded


def _weigh(stamp: Stamp) -> tuple[str, float]:
    """What a file is by the end of its name, and its weight among its like.

    Not its bytes: ten times as many are more to read, but seldom ten times as much.
    """
    suffix = os.path.splitext(os.fsdecode(stamp.path))[1].lower()
    return suffix, math.sqrt(max(stamp.size, _SMALL_BYTES))
