"""A plan becomes audio: takes are made or found, then read again at one loudness, in order.

    recording = record(plan, synthesizer)                  # makes what is missing, notes the times
    samples = stream_audio(plan, synthesizer, recording)   # the whole book, chapter after chapter

Nothing but the cache holds audio between the two, so a book of any length takes little memory, and
a run that was killed makes only what it had not made. Both go over the same takes with the same
arithmetic: what they give depends on takes and plan alone, not on how often the work was begun.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from anyrig.audiobooks.progress import BookProgress, OnProgress, Pace
from anyrig.errors import InvalidInputError, Message, OptionRef, WorkError
from anyrig.speech.voice_rates import SECONDS_PER_CHARACTER
from anyrig.speech.word_times import time_words
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.audio.loudness import Meter
    from anyrig.audio.samples import Samples
    from anyrig.audiobooks.plan import NarrationPlan
    from anyrig.speech.chunks import AudioChunk
    from anyrig.speech.engine import WordTime
    from anyrig.speech.segment import Segment
    from anyrig.speech.synthesis import SpokenSegment, SynthesisStats, Synthesizer
    from anyrig.speech.takes import TakeCache

CEILING_DBTP = -4.0
"""A lossy format may add a decibel to a peak, and shops ask for less than -3."""
LOW_BITRATE_DBTP = -6.0
"""The same for AAC of few bits, which was seen to add 1.4 dB."""
LOW_BITRATE = 48_000
_MAX_GAP_S = 3.0
_MEASURED_S = 900.0  # of a voice: after three minutes a third of them is still 0.8 LU off at worst
_MAX_LISTED = 100  # missing segments that an error lists; the event has them all


# -- what is heard when ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ChapterSpan:
    """Where a chapter lies, in samples."""

    title: str
    start: int
    end: int
    """The start of the next; of the last, the end of the book."""
    level: int = 1


@dataclass(frozen=True)
class Cue:
    """Where a segment is heard, in samples: its words, without the pauses around them."""

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
    is_gap: bool = False
    """Whether it could not be spoken, and silence stands for it."""

    def find_word_starts(self, written: Sequence[str]) -> list[float]:
        """When each word of the written text is heard, in seconds from the beginning of the book.

        Written and spoken words are aligned. Where they differ ("1984" is spoken as three words)
        the written ones share the time of the spoken ones by their length.
        """
        first, last = self.words[0], self.words[-1]
        return [
            start_s for start_s, _ in time_words(written, self.words, first.start_s, last.end_s)
        ]


@dataclass(frozen=True)
class Timeline:
    """What is heard when in a whole book."""

    rate: int
    """Samples per second."""
    chapters: tuple[ChapterSpan, ...]
    """One for each part of the plan."""
    cues: tuple[Cue, ...]
    """In order; they do not overlap."""

    @property
    def num_samples(self) -> int:
        return self.chapters[-1].end if self.chapters else 0

    @property
    def duration_s(self) -> float:
        return self.num_samples / self.rate

    def group_cues(self) -> dict[int, list[Cue]]:
        """The cues of each part, in the order in which they are heard."""
        found: dict[int, list[Cue]] = {}
        for cue in sorted(self.cues, key=lambda cue: cue.start):
            found.setdefault(cue.part, []).append(cue)
        return found


# -- recording -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChapterPauses:
    """Silence around chapters, in seconds."""

    before_s: float = 0.5
    after_s: float = 1.5

    @property
    def total_s(self) -> float:
        return self.before_s + self.after_s


@dataclass(frozen=True)
class MissingSegment:
    """A segment that could not be spoken."""

    part: int
    """Which part of the plan, from 0."""
    segment: int
    text: str
    reason: str
    hint: str = ""


@dataclass(frozen=True)
class BookRecording:
    """A book whose takes are all cached, or are known to be missing."""

    timeline: Timeline
    gains_db: Mapping[str, float]
    """What brings each voice to the target."""
    stats: SynthesisStats
    missing: tuple[MissingSegment, ...] = ()
    pauses: ChapterPauses = field(default_factory=ChapterPauses)
    loading_s: float = 0.0
    """Until the first take was made."""


class UnfinishedBookError(WorkError):
    """Some passages could not be spoken, and gaps were not allowed."""


class TakeReading(Protocol):
    """Segments with their takes, in order."""

    stats: SynthesisStats

    def __iter__(self) -> Iterator[SpokenSegment]: ...

    def close(self) -> None: ...


class TakeSource(Protocol):
    """Where a book's takes come from: a `Synthesizer`, or `CachedTakes`, which makes none."""

    @property
    def rate(self) -> int: ...

    def count_cached_characters(self, segments: Sequence[Segment]) -> int: ...

    def read(self, segments: Sequence[Segment], *, fresh: bool = False) -> TakeReading: ...


def record(
    plan: NarrationPlan,
    synthesizer: TakeSource,
    *,
    loudness_lufs: float = -19.0,
    pauses: ChapterPauses = ChapterPauses(),  # noqa: B008 - it is frozen
    fresh: bool = False,
    on_progress: OnProgress | None = None,
) -> BookRecording:
    """Make the takes that are missing, and note when everything will be heard.

    Args:
        plan: the book.
        synthesizer: with a cache.
        loudness_lufs: of each voice; 0 leaves all as they are.
        pauses: around chapters.
        fresh: make everything again.
        on_progress: called for every segment.
    """
    segments, rate = plan.segments, synthesizer.rate
    levels = _VoiceLevels(rate)
    pace = Pace(plan.num_characters, 0 if fresh else synthesizer.count_cached_characters(segments))
    cues: list[Cue] = []
    missing: list[MissingSegment] = []
    ends: dict[int, int] = {}
    with closing(synthesizer.read(segments, fresh=fresh)) as reading:
        for spoken, chunk, cue in _place_takes(plan, rate, pauses, iter(reading)):
            utterance = spoken.segment.utterance
            if cue.is_gap:
                missing.append(_describe_missing(spoken, cue))
            else:
                levels.add(utterance.voice, chunk.samples)
            cues.append(cue)
            ends[cue.part] = chunk.start + len(chunk.samples)
            pace.add(
                len(utterance.text), chunk.duration_s, cached=spoken.cached, device=spoken.device
            )
            if on_progress is not None:
                on_progress(_report_recording(plan, pace, cue.part, reading.stats))
    timeline = Timeline(rate, _build_chapter_spans(plan, ends), tuple(cues))
    gains_db = levels.compute_gains(loudness_lufs) if loudness_lufs else {}
    return BookRecording(timeline, gains_db, reading.stats, tuple(missing), pauses, pace.loading_s)


def stream_audio(
    plan: NarrationPlan,
    synthesizer: TakeSource,
    recording: BookRecording,
    *,
    ceiling_dbtp: float = CEILING_DBTP,
) -> Iterator[Samples]:
    """The whole book at its loudness, in blocks that follow on each other, as in its timeline."""
    import numpy as np

    from anyrig.audio.limiter import Limiter, db_to_amplitude

    rate = synthesizer.rate
    limiter = Limiter(rate, ceiling_dbtp)
    gains = {voice: np.float32(db_to_amplitude(db)) for voice, db in recording.gains_db.items()}
    with closing(_read_cached(plan, synthesizer, recording.missing)) as takes:
        for spoken, chunk, _ in _place_takes(plan, rate, recording.pauses, takes):
            samples = chunk.samples  # of nobody else
            samples *= gains.get(spoken.segment.utterance.voice, np.float32(1.0))
            yield limiter.apply(samples)


def retake_segments(plan: NarrationPlan, synthesizer: Synthesizer, places: Sequence[str]) -> int:
    """Make other takes of segments that somebody did not like; returns how many.

    Args:
        plan: the book.
        synthesizer: with a cache.
        places: `chapter:segment`, both from 1; several may be joined by commas.
    """
    segments = [_find_segment(plan, *place) for place in parse_places(places)]
    for spoken in synthesizer.retake(segments) if segments else ():
        failure = spoken.failure
        if failure is not None or spoken.unusable:
            text = " ".join(spoken.segment.text.split())[:60]
            reason = failure.message if failure is not None else "; ".join(spoken.problems)
            raise WorkError(
                f"{text!r} could not be made again: {reason}",
                hint=(failure.hint if failure else "") or "The previous take is kept.",
            )
    return len({id(segment) for segment in segments})


def parse_places(places: Sequence[str]) -> list[tuple[int, int]]:
    """Chapters and segments, both from 1, as in `3:17,4:2`."""
    found = []
    for text in (part.strip() for entry in places for part in entry.split(",")):
        chapter, _, segment = text.partition(":")
        if not (chapter.isdecimal() and segment.isdecimal()):
            raise InvalidInputError(
                Message(
                    "{again} must be chapter:segment, not {text!r}",
                    again=OptionRef("again"),
                    text=text,
                ),
                hint="Such as 3:17.",
            )
        found.append((int(chapter), int(segment)))
    return found


def _find_segment(plan: NarrationPlan, chapter: int, number: int) -> Segment:
    part = next((part for part in plan.parts if part.number == chapter), None)
    if part is None:
        raise InvalidInputError(
            f"chapter {chapter} is not selected",
            hint=Message("{list} shows the chapters.", list=OptionRef("list")),
        )
    count = len(part.script.segments)
    if not 1 <= number <= count:
        raise InvalidInputError(
            f"chapter {chapter} has no segment {number}; it has {count}",
            hint=f"`anyrig book FILE --list --chapters {chapter}` shows them with their numbers.",
        )
    return part.script.segments[number - 1]


def list_missing(plan: NarrationPlan, missing: Sequence[MissingSegment]) -> list[dict[str, object]]:
    """Where each is, with the numbers that a person counts by, and why it is missing."""
    return [
        {"chapter": plan.parts[one.part].number, "segment": one.segment + 1,
         "text": one.text, "reason": one.reason, "hint": one.hint} for one in missing
    ]  # fmt: skip


def build_unfinished_error(rows: Sequence[Mapping[str, object]]) -> UnfinishedBookError:
    """The error of a book whose missing segments `list_missing` listed."""
    lines = [
        f"{row['chapter']}:{row['segment']} {str(row['text'])[:60]!r}: {row['reason']}"
        for row in rows[:_MAX_LISTED]
    ]
    lines += [f"and {len(rows) - len(lines)} more"] if len(rows) > len(lines) else []
    return UnfinishedBookError(
        f"{pluralize(len(rows), 'passage')} could not be spoken; all others are cached:"
        + "".join(f"\n  {line}" for line in lines),
        hint=Message(
            "Run the same again to retry only those;"
            " {allow_gaps} writes the book with silence in their place.",
            allow_gaps=OptionRef("allow_gaps"),
        ),
    )


def _read_cached(
    plan: NarrationPlan, synthesizer: TakeSource, missing: Sequence[MissingSegment]
) -> Generator[SpokenSegment]:
    """The takes that were recorded, and none for those that are missing."""
    from anyrig.speech.synthesis import SpokenSegment

    gaps = {(one.part, one.segment) for one in missing}
    places = [
        (part, number)
        for part, each in enumerate(plan.parts)
        for number in range(len(each.script.segments))
    ]
    placed = list(zip(places, plan.segments, strict=True))
    with closing(synthesizer.read([one for place, one in placed if place not in gaps])) as reading:
        takes = iter(reading)
        for index, (place, segment) in enumerate(placed):
            yield SpokenSegment(index, segment, None) if place in gaps else next(takes)


def _place_takes(
    plan: NarrationPlan, rate: int, pauses: ChapterPauses, takes: Iterator[SpokenSegment]
) -> Iterator[tuple[SpokenSegment, AudioChunk, Cue]]:
    """Each take at its place; pauses around a chapter belong to its first and last segment."""
    from anyrig.audio.samples import count_samples
    from anyrig.speech.chunks import build_chunk

    position = 0
    for number, part in enumerate(plan.parts):
        last = len(part.script.segments) - 1
        for place, segment in enumerate(part.script.segments):
            before_s = segment.pause_before_s + (0.0 if place else pauses.before_s)
            after_s = segment.pause_after_s + (pauses.after_s if place == last else 0.0)
            framed = replace(segment, pause_before_s=before_s, pause_after_s=after_s)
            spoken = replace(next(takes), segment=framed)
            is_gap = spoken.take is None or spoken.unusable
            build = _build_silence if is_gap else build_chunk
            chunk = build(spoken, rate, position)
            end = position + len(chunk.samples)
            yield spoken, chunk, Cue(
                number, place, position + count_samples(before_s, rate),
                end - count_samples(after_s, rate), segment.text, chunk.span, chunk.words, is_gap,
            )  # fmt: skip
            position = end


def _build_silence(spoken: SpokenSegment, rate: int, position: int) -> AudioChunk:
    """In place of a segment that could not be spoken, about as long as that would be."""
    import numpy as np

    from anyrig.audio.samples import count_samples
    from anyrig.speech.chunks import AudioChunk

    segment = spoken.segment
    words_s = min(_MAX_GAP_S, len(segment.utterance.text) * SECONDS_PER_CHARACTER)
    pauses_s = (segment.pause_before_s, words_s, segment.pause_after_s)
    silence = np.zeros(sum(count_samples(seconds, rate) for seconds in pauses_s), np.float32)
    return AudioChunk(silence, rate, position, spoken.index, segment.text, segment.span)


def _build_chapter_spans(plan: NarrationPlan, ends: Mapping[int, int]) -> tuple[ChapterSpan, ...]:
    starts = [0, *(ends[number] for number in range(len(plan.parts)))]
    return tuple(
        ChapterSpan(part.title, starts[number], starts[number + 1], part.level)
        for number, part in enumerate(plan.parts)
    )


def _describe_missing(spoken: SpokenSegment, cue: Cue) -> MissingSegment:
    failure = spoken.failure
    reason = failure.message if failure else "; ".join(spoken.problems) or "nothing is heard in it"
    text = " ".join(spoken.segment.text.split())
    return MissingSegment(cue.part, cue.segment, text, reason, failure.hint if failure else "")


class _VoiceLevels:
    """How loud each voice is."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._meters: dict[str, Meter] = {}

    def add(self, voice: str, samples: Samples) -> None:
        from anyrig.audio.loudness import Meter

        if voice not in self._meters:
            self._meters[voice] = Meter(self._rate, subsample_after_s=_MEASURED_S)
        self._meters[voice].add(samples)

    def compute_gains(self, loudness_lufs: float) -> dict[str, float]:
        """What brings each voice to a loudness, in decibels."""
        from anyrig.audio.loudness import compute_gain_db

        return {
            voice: compute_gain_db(meter.integrated_lufs, loudness_lufs)
            for voice, meter in self._meters.items()
        }


def _report_recording(
    plan: NarrationPlan, pace: Pace, part: int, stats: SynthesisStats
) -> BookProgress:
    return BookProgress(
        "making", pace.done, part + 1, len(plan.parts), plan.parts[part].title,
        stats.num_segments, plan.num_segments, stats.audio_s, pace.wall_s, pace.speed,
        pace.devices, left=pace.left,
    )  # fmt: skip


# -- without a synthesizer -------------------------------------------------------------------------


@dataclass(frozen=True)
class CachedTakes:
    """Takes from the cache alone; none is made."""

    cache: TakeCache
    rate: int
    check_cancelled: Callable[[], None] = lambda: None
    """Called for every segment; raises if nobody waits any more."""
    allow_missing: bool = False

    def count_cached_characters(self, segments: Sequence[Segment]) -> int:
        return sum(len(segment.utterance.text) for segment in segments)

    def read(self, segments: Sequence[Segment], *, fresh: bool = False) -> _CachedReading:
        return _CachedReading(self, segments)


class _CachedReading:
    def __init__(self, takes: CachedTakes, segments: Sequence[Segment]) -> None:
        from anyrig.speech.synthesis import SynthesisStats

        self.stats = SynthesisStats()
        self._takes, self._segments = takes, segments

    def __iter__(self) -> Iterator[SpokenSegment]:
        from anyrig.speech.synthesis import SpokenSegment

        for index, segment in enumerate(self._segments):
            self._takes.check_cancelled()
            cached = self._takes.cache.load(self._takes.cache.make_key(segment.utterance))
            if cached is None and self._takes.allow_missing:
                yield SpokenSegment(index, segment, None)
                continue
            if cached is None:
                raise InvalidInputError(
                    "the chapter is not finished", hint="Try again when the job is past it."
                )
            spoken = SpokenSegment(index, segment, cached.take, cached.problems, cached=True)
            self.stats.add(spoken)
            yield spoken

    def close(self) -> None:
        pass
