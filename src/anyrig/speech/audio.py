"""A chunk of audio as a listener gets it."""

from __future__ import annotations

from dataclasses import dataclass

from anyrig.audio.samples import KEEP_S, THRESHOLD_DB, Samples, find_sound
from anyrig.speech.engine import Take, WordTime


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


def trim(take: Take, *, threshold_db: float = THRESHOLD_DB, keep_s: float = KEEP_S) -> Take:
    """A take without the silence at its ends, but for a margin; its words' times move with it.

    A take in which nothing is heard becomes empty.
    """
    rate = take.rate
    first, last = find_sound(take.samples, rate, threshold_db=threshold_db, keep_s=keep_s)
    if first == last:
        return Take(take.samples[:0], rate)
    start_s, end_s = first / rate, last / rate
    words = tuple(
        WordTime(
            word.text,
            min(max(word.start_s, start_s), end_s) - start_s,
            min(max(word.end_s, start_s), end_s) - start_s,
        )
        for word in take.words
    )
    return Take(take.samples[first:last], rate, words)
