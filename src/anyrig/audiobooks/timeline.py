"""What is heard when: the chapters and the segments of a finished book, in samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
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

    def find_word_starts(self, written: Sequence[str]) -> list[float]:
        """When each word of the written text is heard, in seconds from the beginning of the book.

        Written and spoken words are aligned. Where they differ ("1984" is spoken as four words)
        the written ones share the time of the spoken ones by their length.
        """
        wanted = [_fold(word) for word in written]
        spoken = [_fold(word.text) for word in self.words]
        if wanted == spoken:
            return [word.start_s for word in self.words]
        starts: list[float] = []
        before = (0, 0)
        blocks = SequenceMatcher(None, wanted, spoken, autojunk=False).get_matching_blocks()
        for first, second, length in blocks:
            between = self.words[before[1] : second]
            start_s = between[0].start_s if between else self._start_s(second)
            end_s = between[-1].end_s if between else start_s
            starts += _share(wanted[before[0] : first], start_s, end_s)
            starts += [word.start_s for word in self.words[second : second + length]]
            before = (first + length, second + length)
        return starts

    def _start_s(self, word: int) -> float:
        return self.words[word].start_s if word < len(self.words) else self.words[-1].end_s


def _fold(word: str) -> str:
    return "".join(filter(str.isalnum, word.casefold()))


def _share(words: Sequence[str], start_s: float, end_s: float) -> Iterator[float]:
    whole, before = sum(max(1, len(word)) for word in words), 0
    for word in words:
        yield start_s + (end_s - start_s) * before / whole
        before += max(1, len(word))


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
