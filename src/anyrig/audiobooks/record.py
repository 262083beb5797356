"""A plan becomes audio: takes are made or found, then read again at one loudness, in order.

    recording = record(plan, synthesizer)                  # makes what is missing, notes the times
    samples = stream_audio(plan, synthesizer, recording)   # the whole book, chapter after chapter

Nothing but the cache holds audio between the two, so a book of any length takes little memory, and
a run that was killed makes only what it had not made. Both go over the same takes with the same
arithmetic: what they give depends on takes and plan alone, not on how often the work was begun.
"""

from __future__ import annotations

import json
import logging
import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.errors import AnyrigError, InvalidInputError, Message, OptionRef, WorkError
from anyrig.estimates import Rate, TimeLeft, WorkEstimate
from anyrig.events import EstimatedProgress
from anyrig.results import in_json
from anyrig.speech.word_times import time_words
from anyrig.storage.files import write_atomic
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.audio.loudness import Meter
    from anyrig.audio.samples import Samples
    from anyrig.audiobooks.plan import Plan
    from anyrig.speech.chunks import AudioChunk
    from anyrig.speech.engine import WordTime
    from anyrig.speech.segment import Segment
    from anyrig.speech.synthesis import SpokenSegment, SynthesisStats, Synthesizer

log = logging.getLogger(__name__)
CEILING_DBTP = -4.0
"""A lossy format may add a decibel to a peak, and shops ask for less than -3."""
LOW_BITRATE_DBTP = -6.0
"""The same for AAC of few bits, which was seen to add 1.4 dB."""
LOW_BITRATE = 48_000
_SECONDS_PER_CHARACTER = 0.065  # of voices in English, Spanish and French
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


def record(
    plan: Plan,
    synthesizer: Synthesizer,
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
    plan: Plan,
    synthesizer: Synthesizer,
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


def retake_segments(plan: Plan, synthesizer: Synthesizer, places: Sequence[str]) -> int:
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


def _find_segment(plan: Plan, chapter: int, number: int) -> Segment:
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


def list_missing(plan: Plan, missing: Sequence[MissingSegment]) -> list[dict[str, object]]:
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
    plan: Plan, synthesizer: Synthesizer, missing: Sequence[MissingSegment]
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
    plan: Plan, rate: int, pauses: ChapterPauses, takes: Iterator[SpokenSegment]
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
    words_s = min(_MAX_GAP_S, len(segment.utterance.text) * _SECONDS_PER_CHARACTER)
    pauses_s = (segment.pause_before_s, words_s, segment.pause_after_s)
    silence = np.zeros(sum(count_samples(seconds, rate) for seconds in pauses_s), np.float32)
    return AudioChunk(silence, rate, position, spoken.index, segment.text, segment.span)


def _build_chapter_spans(plan: Plan, ends: Mapping[int, int]) -> tuple[ChapterSpan, ...]:
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


# -- progress --------------------------------------------------------------------------------------

Stage = Literal["making", "writing", "read-along"]
MAKING_SPEED, WRITING_SPEED = 20.0, 100.0
"""Times real time, until something was measured: the default voice on two cores, and AAC on one
(75 to 150 were measured on slow cores)."""
_MIN_STAGE_S = 1.0
"""Before so long a stage of writing says nothing of how long it takes."""


@dataclass(frozen=True)
class BookProgress(EstimatedProgress):
    """How far a book is."""

    stage: Stage
    done: float = field(metadata=in_json(digits=4))
    """The share that is through, 0 to 1: of this stage; of all as `OverallProgress` reports it."""
    chapter: int
    """Which part of the plan, from 1."""
    num_chapters: int
    title: str
    segment: int
    num_segments: int
    audio_s: float = field(metadata=in_json(digits=2))
    """Of speech so far."""
    wall_s: float = field(metadata=in_json(digits=2))
    speed: float | None = field(metadata=in_json(digits=2))
    """Times real time, of what was made in this run, without loading; None before it is known."""
    devices: dict[str, float] = field(default_factory=dict, metadata=in_json(digits=1))
    """Characters a second that each device has made in this run."""


OnProgress = Callable[[BookProgress], None]


class Pace:
    """How fast takes are made, and how long the rest takes.

    Args:
        num_characters: of the whole book.
        num_cached: how many of those need not be made.
        clock: seconds that only go forward.
    """

    def __init__(
        self, num_characters: int, num_cached: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._num_characters, self._num_done = num_characters, 0
        self._clock, self._began = clock, clock()
        self._work, self._audio = WorkEstimate(num_characters - num_cached, clock), Rate(clock)
        self._made_s = self.loading_s = 0.0
        """`loading_s`: until the first take was there."""
        self._by_device: Counter[str] = Counter()

    def add(self, characters: int, audio_s: float, *, cached: bool, device: str) -> None:
        """Count one more segment."""
        self._num_done += characters
        if cached:
            return
        if not self._by_device:
            self.loading_s = self.wall_s
        self._work.add(characters)
        self._audio.add(audio_s)
        self._made_s += audio_s
        self._by_device[device or "this machine"] += characters

    @property
    def done(self) -> float:
        return self._num_done / self._num_characters if self._num_characters else 1.0

    @property
    def wall_s(self) -> float:
        return self._clock() - self._began

    @property
    def speed(self) -> float | None:
        """Times real time, of what was made, without loading; None before it is known."""
        left = self.left
        if not self._made_s or left is None or not left.is_known:
            return None
        return self._audio.per_s or self._made_s / max(self.wall_s, 1e-9)

    @property
    def left(self) -> TimeLeft | None:
        return self._work.left

    @property
    def devices(self) -> dict[str, float]:
        """Characters a second by device."""
        wall_s = max(self.wall_s, 1e-9)
        return {name: count / wall_s for name, count in self._by_device.items()}


def _report_recording(plan: Plan, pace: Pace, part: int, stats: SynthesisStats) -> BookProgress:
    return BookProgress(
        "making", pace.done, part + 1, len(plan.parts), plan.parts[part].title,
        stats.num_segments, plan.num_segments, stats.audio_s, pace.wall_s, pace.speed,
        pace.devices, left=pace.left,
    )  # fmt: skip


class OverallProgress:
    """All stages as one: a share from 0 to 1 that never goes back, and the time until the book is
    there. Each stage weighs what it takes here, as far as that is known.

    Args:
        on_progress: is called with it.
        read_along: what the stage after writing takes, as a share of writing; 0 if there is none.
    """

    def __init__(self, on_progress: OnProgress, read_along: float = 0.0) -> None:
        self._on_progress = on_progress
        self._began = time.monotonic()
        self._done = 0.0
        self._read_along = read_along
        self._writing_share = 1.0
        self._writing_s = 0.0
        self._since: dict[Stage, float] = {}
        """When each stage of writing began."""

    def __call__(self, now: BookProgress) -> None:
        done, left = self._weigh_making(now) if now.stage == "making" else self._weigh_writing(now)
        self._done = max(self._done, min(done, 1.0))
        self._on_progress(replace(now, done=self._done, left=left))

    def follow_writing(
        self, plan: Plan, timeline: Timeline, stage: Stage
    ) -> Callable[[float], None]:
        """Turns the share that an encoder reports into progress."""
        ends = [chapter.end for chapter in timeline.chapters]
        work, written = WorkEstimate(1.0), 0.0

        def on_written(done: float) -> None:
            nonlocal written
            work.add(done - written)
            written = done
            chapter = min(bisect_right(ends, done * timeline.num_samples), len(plan.parts) - 1)
            rate = work.rate.per_s if work.is_known else None
            self(BookProgress(
                stage, done, chapter + 1, len(plan.parts), plan.parts[chapter].title,
                plan.num_segments, plan.num_segments, timeline.duration_s,
                time.monotonic() - self._began,
                speed=rate and rate * timeline.duration_s,
                left=work.left,
            ))  # fmt: skip

        return on_written

    def _weigh_making(self, now: BookProgress) -> tuple[float, TimeLeft | None]:
        audio_s = now.audio_s / now.done if now.done else now.audio_s
        self._writing_s = audio_s / WRITING_SPEED
        after_s = self._writing_s * (1 + self._read_along)
        making_s = audio_s / MAKING_SPEED
        if now.left is not None:
            making_s = now.wall_s + math.sqrt(now.left.low_s * now.left.high_s)
        self._writing_share = after_s / max(after_s + making_s, 1e-9)
        left = now.left.plus(after_s) if now.left else None
        return now.done * (1 - self._writing_share), left

    def _weigh_writing(self, now: BookProgress) -> tuple[float, TimeLeft | None]:
        since = self._since.setdefault(now.stage, now.wall_s)
        is_sure = now.left_s is not None and now.wall_s - since >= _MIN_STAGE_S
        read_along_s = self._read_along * self._writing_s
        if now.stage == "writing":
            through, stage_s, later_s = now.done, self._writing_s, read_along_s
        else:
            through, stage_s, later_s = 1 + self._read_along * now.done, read_along_s, 0.0
        left_s = now.left_s if is_sure or now.done >= 1.0 else stage_s * (1 - now.done)
        left_s = (left_s or 0.0) + later_s
        share = through / (1 + self._read_along)
        return 1 - self._writing_share * (1 - share), TimeLeft.exactly(left_s)


# -- how fast voices are ---------------------------------------------------------------------------

_MIN_CHARACTERS = 2000
"""Fewer tell little of a voice."""


@dataclass(frozen=True)
class VoiceRate:
    """What every book measures of its voice; before that, a guess."""

    seconds_per_character: float = _SECONDS_PER_CHARACTER
    """Of speech, pauses included, at its own pace."""
    times_real_time: float | None = None
    """How fast it was made on this machine, the last time that enough of it was."""
    is_measured: bool = False

    def estimate_audio_s(self, num_characters: int, rate: float = 1.0) -> float:
        return num_characters * self.seconds_per_character / rate


def load_voice_rate(path: Path, engine: str, voice: str) -> VoiceRate:
    """What is known of a voice; a guess where nothing is."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))[_name_voice(engine, voice)]
        rate_s = float(found["seconds_per_character"])
        return VoiceRate(rate_s, found["times_real_time"], is_measured=True)
    except (OSError, ValueError, KeyError, TypeError):
        return VoiceRate()


def load_voice_speeds(path: Path) -> dict[str, float]:
    """How many times real time each voice was, by its engine and name; the last one comes last."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return {
            str(name): float(one["times_real_time"])
            for name, one in known.items()
            if one.get("times_real_time")
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def save_voice_rate(
    path: Path, engine: str, voice: str, rate: VoiceRate, num_characters: int
) -> None:
    """Save what a run has shown; a file that cannot be written costs the figure, not the book."""
    if num_characters < _MIN_CHARACTERS:
        return
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    saved = asdict(rate)
    del saved["is_measured"]
    if rate.times_real_time is None:
        saved["times_real_time"] = load_voice_rate(path, engine, voice).times_real_time
    try:
        write_atomic(path, json.dumps({**known, _name_voice(engine, voice): saved}, indent=1))
    except (OSError, AnyrigError) as error:
        log.info("the rate of the voice was not saved: %s", error)


def _name_voice(engine: str, voice: str) -> str:
    return f"{engine} {voice}".strip()
