"""A plan becomes sound: takes are made or found, then told again at one loudness, in order.

    recorded = record(plan, synthesizer)        # makes what is missing, measures, notes the times
    parts = sound(plan, synthesizer, recorded)  # the whole book as samples, chapter after chapter

Nothing but the store holds audio between the two, so a book of any length takes little memory, and
a run that was killed makes only what it had not made. Both go over the same takes with the same
arithmetic: what they give depends on takes and plan alone, not on how often the work was begun.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from anyrig.audiobooks.progress import Pace, Progress, Tell
from anyrig.audiobooks.timeline import Cue, Mark, Timeline
from anyrig.speech.chunks import build_chunk
from anyrig.speech.synthesis import SpokenSegment, SynthesisStats

if TYPE_CHECKING:
    from anyrig.audio.loudness import Meter
    from anyrig.audio.samples import Samples
    from anyrig.audiobooks.plan import Plan
    from anyrig.speech.chunks import AudioChunk
    from anyrig.speech.synthesis import Synthesizer

CEILING_DBTP = -4.0
"""A lossy format may add a decibel to a peak, and shops ask for less than -3."""
POOR_DBTP = -6.0
"""The same for AAC of few bits, which was seen to add 1.4 dB."""
POOR_BITS = 48_000
_SECONDS_PER_CHARACTER = 0.065  # of a gap, which has no take to be measured
_LONGEST_GAP_S = 3.0
_MEASURED_S = 900.0  # of a voice: after three minutes a third of them is still 0.8 LU off at worst


@dataclass(frozen=True)
class Rests:
    """Silence around chapters, in seconds."""

    before_s: float = 0.5
    after_s: float = 1.5

    @property
    def each_s(self) -> float:
        """Around one chapter."""
        return self.before_s + self.after_s


@dataclass(frozen=True)
class Lack:
    """A segment that could not be spoken."""

    part: int
    """Which part of the plan, from 0."""
    segment: int
    text: str
    said: str
    """Why."""
    hint: str = ""


@dataclass
class Recorded:
    """A book whose takes are all there, or are known to be missing."""

    timeline: Timeline
    gains_db: Mapping[str, float]
    """What brings each voice to the target."""
    stats: SynthesisStats
    lacks: list[Lack] = field(default_factory=list)
    rests: Rests = field(default_factory=Rests)
    loading_s: float = 0.0
    """Until the first take was made."""


def record(
    plan: Plan,
    synthesizer: Synthesizer,
    *,
    target_lufs: float = -19.0,
    rests: Rests | None = None,
    fresh: bool = False,
    tell: Tell | None = None,
) -> Recorded:
    """Make what is missing, and note when everything will be heard.

    Args:
        plan: the book.
        synthesizer: who speaks; it has a cache.
        target_lufs: how loud each voice should be; 0 leaves all as they are.
        rests: silence around chapters.
        fresh: make everything again.
        tell: is told of every segment.
    """
    rests = rests or Rests()
    segments = plan.segments
    levels = _Levels(synthesizer.rate)
    pace = Pace(plan.num_characters, 0 if fresh else synthesizer.count_cached_characters(segments))
    cues: list[Cue] = []
    lacks: list[Lack] = []
    ends: dict[int, int] = {}
    with closing(synthesizer.read(segments, fresh=fresh)) as reading:
        for piece in _laid(plan, synthesizer.rate, rests, iter(reading)):
            if piece.lacks:
                lacks.append(_lack(piece))
            else:
                levels.hear(piece.spoken.segment.utterance.voice, piece.chunk.samples)
            cues.append(piece.cue)
            ends[piece.part] = piece.chunk.start + len(piece.chunk.samples)
            pace.add(
                len(piece.spoken.segment.utterance.text), piece.chunk.duration_s,
                kept=piece.spoken.cached, device=piece.spoken.device,
            )  # fmt: skip
            if tell is not None:
                tell(_progress(plan, pace, piece.part, reading.stats))
    gains = levels.gains_db(target_lufs) if target_lufs else {}
    timeline = Timeline(synthesizer.rate, _marks(plan, ends), tuple(cues))
    return Recorded(timeline, gains, reading.stats, lacks, rests, pace.loading_s)


def sound(
    plan: Plan, synthesizer: Synthesizer, recorded: Recorded, *, ceiling_dbtp: float = CEILING_DBTP
) -> Iterator[Samples]:
    """The whole book at its loudness, in parts that follow on each other, as its timeline says."""
    import numpy as np

    from anyrig.audio.limiter import Limiter, amplitude

    limiter = Limiter(synthesizer.rate, ceiling_dbtp)
    gains = {voice: np.float32(amplitude(db)) for voice, db in recorded.gains_db.items()}
    with closing(_found(plan, synthesizer, recorded.lacks)) as takes:
        for piece in _laid(plan, synthesizer.rate, recorded.rests, takes):
            gain = gains.get(piece.spoken.segment.utterance.voice, np.float32(1.0))
            yield limiter.apply(piece.chunk.samples * gain)


def _found(plan: Plan, synthesizer: Synthesizer, lacks: Sequence[Lack]) -> Generator[SpokenSegment]:
    """The takes that were recorded, and nothing for those that are lacking."""
    missing = {(lack.part, lack.segment) for lack in lacks}
    places = [
        (part, number)
        for part, each in enumerate(plan.parts)
        for number in range(len(each.script.segments))
    ]
    there = [
        segment
        for place, segment in zip(places, plan.segments, strict=True)
        if place not in missing
    ]
    with closing(synthesizer.read(there)) as reading:
        takes = iter(reading)
        for index, (place, segment) in enumerate(zip(places, plan.segments, strict=True)):
            yield SpokenSegment(index, segment, None) if place in missing else next(takes)


@dataclass(frozen=True)
class _Piece:
    """A segment at its place in the book, its rests around it."""

    part: int
    segment: int
    spoken: SpokenSegment
    chunk: AudioChunk
    cue: Cue

    @property
    def lacks(self) -> bool:
        """Whether silence stands for it."""
        return self.cue.gap


def _laid(plan: Plan, rate: int, rests: Rests, takes: Iterator[SpokenSegment]) -> Iterator[_Piece]:
    """Each take at its place; the rests around chapters belong to the first and last of each."""
    position = 0
    for number, part in enumerate(plan.parts):
        last = len(part.script.segments) - 1
        for place, segment in enumerate(part.script.segments):
            framed = replace(
                segment,
                pause_before_s=segment.pause_before_s + (0.0 if place else rests.before_s),
                pause_after_s=segment.pause_after_s + (rests.after_s if place == last else 0.0),
            )
            piece = _piece(number, place, replace(next(takes), segment=framed), rate, position)
            position += len(piece.chunk.samples)
            yield piece


def _piece(part: int, place: int, spoken: SpokenSegment, rate: int, position: int) -> _Piece:
    from anyrig.audio.samples import count_samples

    gap = spoken.take is None or spoken.unusable
    segment = spoken.segment
    chunk = _silence(spoken, rate, position) if gap else build_chunk(spoken, rate, position)
    before, after = (
        count_samples(seconds, rate) for seconds in (segment.pause_before_s, segment.pause_after_s)
    )
    cue = Cue(
        part, place, position + before, position + len(chunk.samples) - after,
        segment.text, chunk.span, chunk.words, gap,
    )  # fmt: skip
    return _Piece(part, place, spoken, chunk, cue)


def _silence(spoken: SpokenSegment, rate: int, position: int) -> AudioChunk:
    """What stands for a segment that could not be spoken, about as long as that would be."""
    import numpy as np

    from anyrig.audio.samples import count_samples
    from anyrig.speech.chunks import AudioChunk

    segment = spoken.segment
    words_s = min(_LONGEST_GAP_S, len(segment.utterance.text) * _SECONDS_PER_CHARACTER)
    pauses = (segment.pause_before_s, words_s, segment.pause_after_s)
    count = sum(count_samples(seconds, rate) for seconds in pauses)
    silent = np.zeros(count, np.float32)
    return AudioChunk(silent, rate, position, spoken.index, segment.text, segment.span)


def _marks(plan: Plan, ends: Mapping[int, int]) -> tuple[Mark, ...]:
    starts = [0, *(ends[number] for number in range(len(plan.parts)))]
    return tuple(
        Mark(part.title, starts[number], starts[number + 1], part.level)
        for number, part in enumerate(plan.parts)
    )


def _lack(piece: _Piece) -> Lack:
    spoken = piece.spoken
    text = " ".join(spoken.segment.text.split())
    failure = spoken.failure
    said = failure.message if failure else "; ".join(spoken.problems) or "nothing is heard in it"
    return Lack(piece.part, piece.segment, text, said, failure.hint if failure else "")


def _progress(plan: Plan, pace: Pace, part: int, stats: SynthesisStats) -> Progress:
    return Progress(
        "making", pace.done, part + 1, len(plan.parts), plan.parts[part].title,
        stats.num_segments, plan.num_segments, stats.audio_s, pace.wall_s, pace.speed,
        pace.left_s, pace.devices, pace.left.range_s if pace.left else None,
    )  # fmt: skip


class _Levels:
    """How loud each voice is."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._meters: dict[str, Meter] = {}

    def hear(self, voice: str, samples: Samples) -> None:
        """A voice says something."""
        from anyrig.audio.loudness import Meter

        if voice not in self._meters:
            self._meters[voice] = Meter(self._rate, settled_s=_MEASURED_S)
        self._meters[voice].add(samples)

    def gains_db(self, target_lufs: float) -> dict[str, float]:
        """What brings each voice to a target."""
        from anyrig.audio.loudness import gain_db

        return {
            voice: gain_db(meter.integrated_lufs, target_lufs)
            for voice, meter in self._meters.items()
        }
