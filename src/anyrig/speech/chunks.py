"""Takes to audio: trimmed, faded, with pauses, in chunks that follow on each other exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyrig.audio.samples import (
    Samples,
    Trimmer,
    count_samples,
    fade,
    fade_in_place,
    find_sound,
    silence,
)
from anyrig.speech.engine import Take, WordTime

if TYPE_CHECKING:
    from anyrig.speech.segment import Segment
    from anyrig.speech.synthesis import SegmentPart, SpokenSegment


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
    """In seconds from the beginning of the whole; of a segment in parts, with the last."""
    last: bool = True
    """Whether it is the last of its segment."""
    take: tuple[int, int] = (0, 0)
    """From where to where its take is heard in the whole, without the pauses around it; of a
    segment in parts, with the last."""

    @property
    def start_s(self) -> float:
        return self.start / self.rate

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate


class ChunkBuilder:
    """Finishes the audio of a reading: trimmed, faded, with its pauses.

    A take that comes in parts loses the silence before its first sound with the first part; silence
    at the end of a part waits for the next, and is cut if there is none.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.num_samples = 0
        """Given so far."""
        self._trimmer: Trimmer | None = None
        """Of a take that comes in parts."""
        self._take_start, self._num_fed, self._num_given = 0, 0, 0

    def add(self, part: SegmentPart, spoken: SpokenSegment | None = None) -> AudioChunk:
        """The audio that a part adds; perhaps none.

        Args:
            spoken: the decoded take, of a last part.
        """
        if not part.is_last:
            chunk = self._add_samples(part)
        else:
            spoken = spoken if spoken is not None else part.decode()
            chunk = (
                build_chunk(spoken, self.rate, self.num_samples)
                if self._trimmer is None
                else self._add_rest(spoken)
            )
        self.num_samples += len(chunk.samples)
        return chunk

    def _add_samples(self, part: SegmentPart) -> AudioChunk:
        assert part.samples is not None
        if self._trimmer is None:
            self._trimmer, self._num_fed, self._num_given = Trimmer(self.rate), 0, 0
            self._take_start = self.num_samples + count_samples(
                part.segment.pause_before_s, self.rate
            )
        samples = self._trimmer.feed(part.samples)
        self._num_fed += len(part.samples)
        if len(samples) and not self._num_given:
            before = silence(part.segment.pause_before_s, self.rate)
            first = fade(samples, self.rate, end=False)
            self._num_given += len(samples)
            return self._build(part.index, part.segment, np.concatenate([before, first]))
        self._num_given += len(samples)
        return self._build(part.index, part.segment, samples)

    def _add_rest(self, spoken: SpokenSegment) -> AudioChunk:
        assert spoken.take is not None
        assert self._trimmer is not None
        trimmer, self._trimmer = self._trimmer, None
        segment, take = spoken.segment, spoken.take
        rest = [trimmer.feed(take.samples[self._num_fed :]), trimmer.finish()]
        before = [] if self._num_given else [silence(segment.pause_before_s, self.rate)]
        after = silence(segment.pause_after_s, self.rate)
        last = fade(np.concatenate(rest), self.rate, start=not self._num_given)
        offset_s = (self._take_start - trimmer.dropped) / self.rate
        words = tuple(
            WordTime(one.text, max(0.0, one.start_s + offset_s), max(0.0, one.end_s + offset_s))
            for one in take.words
        )
        samples = np.concatenate([*before, last, after])
        end = self.num_samples + len(samples) - len(after)
        chunk = self._build(spoken.index, segment, samples)
        return replace(chunk, words=words, last=True, take=(self._take_start, end))

    def _build(self, index: int, segment: Segment, samples: Samples) -> AudioChunk:
        return AudioChunk(
            samples, self.rate, self.num_samples, index, segment.text, segment.span, last=False
        )


def build_chunk(spoken: SpokenSegment, rate: int, start: int) -> AudioChunk:
    """The audio of a whole take: trimmed, faded, with its pauses.

    Args:
        rate: of the chunk.
        start: the position of its first sample in the whole.
    """
    assert spoken.take is not None
    segment, take = spoken.segment, trim(spoken.take)
    samples = take.samples
    if take.rate != rate:
        from anyrig.audio.resample import resample

        samples = resample(samples, take.rate, rate)
    before, after = (
        count_samples(pause_s, rate) for pause_s in (segment.pause_before_s, segment.pause_after_s)
    )
    audio = np.zeros(before + len(samples) + after, np.float32)
    spoken_audio = audio[before : before + len(samples)]
    spoken_audio[:] = samples
    fade_in_place(spoken_audio, rate)
    offset_s = (start + before) / rate
    words = tuple(
        WordTime(word.text, word.start_s + offset_s, word.end_s + offset_s) for word in take.words
    )
    heard = start + before, start + before + len(samples)
    return AudioChunk(
        audio, rate, start, spoken.index, segment.text, segment.span, words, take=heard
    )


def trim(take: Take) -> Take:
    """A take without the silence at its ends, but for a margin; its words' times move with it.

    A take in which nothing is heard becomes empty.
    """
    rate = take.rate
    first, last = find_sound(take.samples, rate)
    if first == last:
        return Take(take.samples[:0], rate)
    start_s, end_s = first / rate, last / rate

    def move(time_s: float) -> float:
        return min(max(time_s, start_s), end_s) - start_s

    words = tuple(WordTime(one.text, move(one.start_s), move(one.end_s)) for one in take.words)
    return Take(take.samples[first:last], rate, words)


def write_takes(path: Path, takes: Sequence[SpokenSegment], rate: int, loudness: float) -> float:
    """Write takes one after another, in the format of the file's name; its duration in seconds."""
    from anyrig.audio.encode import open_encoder
    from anyrig.audio.loudness import level_whole

    audio = np.concatenate([build_chunk(take, rate, 0).samples for take in takes])
    if loudness:
        audio = level_whole(audio, rate, target_lufs=loudness)
    with open_encoder(path, format=path.suffix[1:], rate=rate) as output:
        output.write(audio)
    return len(audio) / rate
