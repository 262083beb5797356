"""How far an index is, how fast it goes, and when it will be done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["embedding", "indexing", "removing", "linking"]
_FILE_WEIGHT = 4096
"""Bytes that opening a file is worth: a thousand notes are no book."""


@dataclass(frozen=True)
class Progress:
    """An index on its way."""

    stage: Stage
    done: float
    """The share of this stage that is through, by the bytes of its files."""
    file: int
    num_files: int
    num_passages: int
    """Made in this run."""
    num_failed: int
    title: str
    """The file that was done last."""
    wall_s: float
    files_per_s: float
    passages_per_s: float
    left_s: float | None
    num_read: int = 0
    """Files that were opened: those ahead of `file` wait for their vectors."""

    def plain(self) -> dict[str, object]:
        """For programs."""
        return {
            "event": "progress", "stage": self.stage, "done": round(self.done, 4),
            "file": self.file, "num_files": self.num_files, "num_passages": self.num_passages,
            "num_failed": self.num_failed, "title": self.title, "wall_s": round(self.wall_s, 2),
            "files_per_s": round(self.files_per_s, 2),
            "passages_per_s": round(self.passages_per_s, 2),
            "left_s": None if self.left_s is None else round(self.left_s, 1),
            "num_read": self.num_read,
        }  # fmt: skip


Tell = Callable[[Progress], None]


class Pace:
    """Counts files and passages as they are done."""

    def __init__(
        self, stage: Stage, sizes: list[int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stage: Stage = stage
        self._num_files = len(sizes)
        self._all = sum(size + _FILE_WEIGHT for size in sizes)
        self._clock = clock
        self._began = clock()
        self._through = self._files = self._passages = self._failed = self._read = 0
        self._title = ""

    def add(self, size: int, *, passages: int = 0, failed: bool = False, title: str = "") -> None:
        """One more is done."""
        self._through += size + _FILE_WEIGHT
        self._files += 1
        self._passages += passages
        self._failed += failed
        self._title = title

    def read(self, title: str) -> None:
        """One more is opened."""
        self._read += 1
        self._title = title

    def embedded(self, passages: int = 1) -> None:
        """Some passages of a file that is not done yet."""
        self._passages += passages

    @property
    def now(self) -> Progress:
        """Where it stands."""
        wall = max(self._clock() - self._began, 1e-9)
        done = min(1.0, self._through / self._all) if self._all else 1.0
        left = wall / done * (1 - done) if self._through else None
        return Progress(
            self._stage, done, self._files, self._num_files, self._passages, self._failed,
            self._title, wall, self._files / wall, self._passages / wall, left,
            self._read,
        )  # fmt: skip
