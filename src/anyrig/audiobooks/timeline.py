"""What is heard when: the chapters and the segments of a finished book, in samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.speech.engine import WordTime


@dataclass(frozen=True)
class Mark:
    """Where a chapter lies."""

    title: str
    start: int
    end: int
    """The next one's start; the last one's is the end of the book."""
    level: int = 1


@dataclass(frozen=True)
class Cue:
    """Where a segment is heard: its words, without the pauses around them."""

    part: int
    """Which part of the plan, from 0."""
    segment: int
    """Which segment of that part, from 0."""
    start: int
    end: int
    text: str
    """As it was written."""
    span: tuple[int, int]
    """Where that stands in the part's `script.source`."""
    words: tuple[WordTime, ...] = ()
    """In seconds from the beginning of the book; empty where the engine gives none."""
    gap: bool = False
    """Whether it could not be spoken, and silence stands for it."""


@dataclass(frozen=True)
class Timeline:
    """A whole book."""

    rate: int
    """Samples per second."""
    marks: tuple[Mark, ...]
    """One for each part of the plan."""
    cues: tuple[Cue, ...]
    """In order; they do not overlap."""

    @property
    def num_samples(self) -> int:
        """How long the book is."""
        return self.marks[-1].end if self.marks else 0

    @property
    def duration_s(self) -> float:
        """The same in seconds."""
        return self.num_samples / self.rate
