"""Audio as values: a take as an engine gives it, a chunk as a listener gets it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""Mono, -1 to 1."""


@dataclass(frozen=True)
class WordTime:
    """When a word is heard."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Take:
    """One line, as an engine said it."""

    samples: Samples
    rate: int
    """Samples per second."""
    words: tuple[WordTime, ...] = ()
    """Where the engine gives durations."""

    @property
    def duration_s(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class AudioChunk:
    """A stretch of finished audio, and the text behind it."""

    samples: Samples
    rate: int
    start: int
    """The position of its first sample in the whole: chunks follow on each other exactly."""
    segment: int
    """Which segment of the script it belongs to."""
    text: str
    """What is heard in it, as it was written; empty for a pause."""
    span: tuple[int, int]
    """Where that stands in the input."""
    words: tuple[WordTime, ...] = ()
    """In seconds from the beginning of the whole."""
    last: bool = True
    """Whether it is the last of its segment."""

    @property
    def start_s(self) -> float:
        """When it begins."""
        return self.start / self.rate

    @property
    def duration_s(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate
