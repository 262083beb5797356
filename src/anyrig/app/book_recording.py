"""A planned book becomes audio files: where they go, recording the takes, and writing them."""

from __future__ import annotations

import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.cache import open_cache
from anyrig.app.events import BookUnfinishedEvent, NoticeEvent, OnEvent, ProgressEvent, WarningEvent
from anyrig.app.files import check_writable
from anyrig.app.speech import place_engine, warn_some
from anyrig.errors import InvalidInputError, Message, OptionRef, StorageError, WorkError
from anyrig.results import fields_to_json
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.app.books import BookRequest, PlannedBook
    from anyrig.app.rig import Rig
    from anyrig.audio.encode import Format
    from anyrig.audio.samples import Samples
    from anyrig.audiobooks.make import Lack, Recorded
    from anyrig.audiobooks.metadata import BookTags, Tracks
    from anyrig.audiobooks.plan import Plan
    from anyrig.audiobooks.progress import Progress, Stage, Tell
    from anyrig.audiobooks.timeline import Timeline
    from anyrig.audiobooks.write import Written
    from anyrig.speech.choose import EngineChoice
    from anyrig.speech.segment import Segment
    from anyrig.speech.synthesis import SpokenSegment, SynthesisStats, Synthesizer
    from anyrig.speech.takes import TakeCache
    from anyrig.storage.cache import Cache

BOOK_FORMAT = "m4b"
CHAPTER_FORMATS = ("mp3", "opus", "flac", "m4a", "wav")
_ACX_LUFS = -20.5
_CACHE_BYTES_PER_SAMPLE = 2  # takes are cached as 16-bit samples
_SPARE_BYTES = 64 << 20
_MAX_PASSAGES = 100  # named in an error; the event has them all
_PROGRESS_STEPS = 10_000
_PACKING_FROM = 0.95
"""The share of the read-along file that is done when its audio is written."""


@dataclass(frozen=True)
class BookTarget:
    """Where a book goes, and as what."""

    path: Path
    """A file for a whole book, a folder for a file for each chapter."""
    format: str = BOOK_FORMAT
    """`m4b`, or what each chapter is written as."""
    loudness: float = -19.0
    bitrate: int | None = None
    narrator: str = ""
    genre: str = "Audiobook"

    @property
    def is_whole(self) -> bool:
        return self.format == BOOK_FORMAT

    @property
    def job(self) -> str:
        """The name under which its takes are held in the cache while it is made."""
        return f"book {self.path.absolute()}"

    @property
    def read_along_path(self) -> Path:
        if self.is_whole:
            return self.path.with_name(f"{self.path.stem}.readalong.epub")
        return self.path / f"{self.path.name}.readalong.epub"

    @property
    def encoding(self) -> Format:
        from anyrig.audio.encode import FORMATS

        return FORMATS["m4a" if self.is_whole else self.format]

    @property
    def ceiling_dbtp(self) -> float:
        """What no peak may exceed before it is encoded."""
        from anyrig.audiobooks.make import CEILING_DBTP, POOR_BITS, POOR_DBTP

        return POOR_DBTP if self.bitrate and self.bitrate < POOR_BITS else CEILING_DBTP


@dataclass(frozen=True)
class BookResult:
    """A finished book."""

    files: tuple[Path, ...]
    beside: tuple[Path, ...]
    """Captions, the playlist, the read-along EPUB."""
    target: BookTarget
    engine: EngineChoice
    plan: Plan
    timeline: Timeline
    """When each chapter, segment and word is heard."""
    stats: SynthesisStats
    gaps: tuple[Lack, ...]
    """Passages with silence in their place."""
    wall_s: float
    num_cached: int
    """Segments that existed before."""
    workers: str = ""
    """How many segments each worker of a cluster made; empty without a cluster."""
    loading_s: float = 0.0
    """Of `wall_s`: until the first take was made."""

    def to_json(self) -> dict[str, Any]:
        """Files, times of chapters and segments, and what may sound wrong."""
        rate, parts = self.timeline.rate, self.plan.parts
        doubtful = {one.index: list(one.problems) for one in self.stats.doubtful}
        return {
            "files": [str(path) for path in self.files],
            "extra_files": [str(path) for path in self.beside],
            "engine": self.engine.name,
            "reason": self.engine.reason or None,
            "language": self.plan.language,
            "audio_s": round(self.timeline.duration_s, 4),
            "wall_s": round(self.wall_s, 3),
            "cached": self.stats.num_cached,
            "made_again": self.stats.num_retried,
            "devices": self.stats.devices,
            "omitted": dict(self.plan.omitted()),
            "chapters": [
                {"number": part.number, "title": mark.title, "level": mark.level,
                 "start_s": round(mark.start / rate, 4), "end_s": round(mark.end / rate, 4)}
                for part, mark in zip(parts, self.timeline.marks, strict=True)
            ],
            "segments": [
                {"chapter": parts[cue.part].number, "segment": cue.segment + 1,
                 "start_s": round(cue.start / rate, 4), "end_s": round(cue.end / rate, 4),
                 "text": cue.text, "gap": cue.gap, "problems": doubtful.get(number, [])}
                for number, cue in enumerate(self.timeline.cues)
            ],
        }  # fmt: skip


class UnfinishedBookError(WorkError):
    """Some passages could not be spoken, and gaps were not allowed."""


# -- before the work -------------------------------------------------------------------------------


def parse_output(text: str, source: Path, format: str | None) -> Path:
    """A path as a person types it: one that ends with a slash is a folder for the m4b."""
    path = Path(text).expanduser()
    is_folder = text.endswith(("/", "\\")) and format not in CHAPTER_FORMATS
    return path / f"{source.stem}.{BOOK_FORMAT}" if is_folder else path


def resolve_target(rig: Rig, request: BookRequest) -> BookTarget:
    """Where the book goes, its loudness and its narrator."""
    loudness = request.loudness
    if loudness is None:
        loudness = _ACX_LUFS if request.levels == "acx" else rig.settings.speech.loudness
    path, format = _resolve_output(request)
    return BookTarget(path, format, loudness, request.bitrate, request.narrator, request.genre)


def _resolve_output(request: BookRequest) -> tuple[Path, str]:
    """The file or folder that a book is written to, and its format."""
    from anyrig.audiobooks.write import BOOK_ENDINGS

    source, output, format = request.file, request.output, request.format
    suffix = output.suffix.lower().lstrip(".") if output is not None else ""
    if output is not None and format is None and suffix in CHAPTER_FORMATS:
        chapters = Message(
            "{output} {format}",
            output=OptionRef("output", output.stem),
            format=OptionRef("format", suffix),
        )
        raise InvalidInputError(
            f"a book in one file is an m4b, not {output.name}",
            hint=Message(
                "{output}, or {chapters} for a file for each chapter.",
                output=OptionRef("output", f"{output.stem}.m4b"),
                chapters=chapters,
            ),
        )
    format = format or BOOK_FORMAT
    if format in CHAPTER_FORMATS:
        if suffix == BOOK_FORMAT:
            raise InvalidInputError(
                f"{output} is the name of a file, and {format} is a file for each chapter",
                hint=Message(
                    "Name a folder with {output}, or leave {format} out.",
                    output=OptionRef("output"),
                    format=OptionRef("format"),
                ),
            )
        return output or Path(source.stem), format
    if output is None or output.is_dir():
        return (output or Path()) / f"{source.stem}.m4b", format
    if output.suffix.lower() in BOOK_ENDINGS:
        return output, format
    return output.with_name(f"{output.name}.m4b"), format  # `Vol. 2` has no suffix


def check_target(request: BookRequest, target: BookTarget) -> None:
    """Check that the book can be written as requested, before hours of work."""
    from anyrig.audio.encode import check_bitrate

    if target.bitrate is not None and target.encoding.bitrate:
        check_bitrate(target.encoding, target.bitrate)
    for path in (target.path, target.read_along_path):
        if path.exists() and path.samefile(request.file):
            raise InvalidInputError(
                f"{path} is the book itself",
                hint=Message("Name another file with {output}.", output=OptionRef("output")),
            )
    folder = _find_existing((target.path.parent if target.is_whole else target.path).absolute())
    if not folder.is_dir():
        raise InvalidInputError(
            f"{folder} is a file", hint="Name a folder there, or another place."
        )
    if target.is_whole:
        beside = [target.path.with_suffix(f".{kind}") for kind in request.captions]
        for path in (target.path, *beside):
            if path.is_dir():
                raise InvalidInputError(
                    f"cannot write {path}: it is a folder", hint="Name another file."
                )
    if target.path.is_file():
        check_writable(target.path)
    elif not os.access(folder, os.W_OK):
        raise InvalidInputError(
            f"cannot write into {folder}: permission denied", hint="Name another folder."
        )


def check_disk_space(
    request: BookRequest,
    target: BookTarget,
    *,
    audio_s: float,
    to_make_s: float,
    sample_rate: int,
    cache_folder: Path,
) -> None:
    """Check that the disks hold a book of about `audio_s`, of which `to_make_s` are not cached."""
    per_second = (target.bitrate or target.encoding.bitrate) / 8 or sample_rate * 2
    copies = 3 if request.read_along else 1  # the book, the EPUB, and what that is made from
    output = _find_existing(target.path.absolute().parent)
    cache = _find_existing(cache_folder)
    if cache.stat().st_dev == output.stat().st_dev:
        cache = output
    needs = {output: audio_s * per_second * copies + _SPARE_BYTES}
    needs[cache] = needs.get(cache, 0.0) + to_make_s * sample_rate * _CACHE_BYTES_PER_SAMPLE
    for folder, need in needs.items():
        free = shutil.disk_usage(folder).free
        if need > free:
            raise StorageError(
                f"{folder} has {format_bytes(free)} free; a book of about"
                f" {format_duration(audio_s)} needs {format_bytes(int(need))}",
                hint=Message(
                    "Free some space, name another place with {output}, or make some"
                    " {chapters} first.",
                    output=OptionRef("output"),
                    chapters=OptionRef("chapters"),
                ),
            )


def _find_existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def list_again(request: BookRequest) -> list[tuple[int, int]]:
    """The chapters and segments to make again, both from 1."""
    found = []
    for text in (part.strip() for entry in request.again for part in entry.split(",")):
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
    if found and request.fresh:
        raise InvalidInputError(
            Message(
                "{again} and {fresh} were both given",
                again=OptionRef("again"),
                fresh=OptionRef("fresh"),
            ),
            hint="Give one of them.",
        )
    return found


# -- recording -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BookProgressEvent(ProgressEvent):
    """How far a book is: `done` of `total` is the share of both stages, making and writing."""

    progress: Progress = field(kw_only=True)

    def to_json(self) -> dict[str, Any]:
        return {"event": "progress", **fields_to_json(self.progress)}


@dataclass(frozen=True)
class BookRecorder:
    """Makes the takes of a planned book that are missing, and writes its files."""

    request: BookRequest
    target: BookTarget
    engine: EngineChoice
    plan: Plan
    synthesizer: Synthesizer
    cache: Cache
    """Of the synthesizer."""
    on_event: OnEvent

    def run(self) -> BookResult:
        """`UnfinishedBookError` if passages could not be spoken and gaps are not allowed."""
        from anyrig.audiobooks.make import record
        from anyrig.audiobooks.progress import Whole

        began, on_progress = time.monotonic(), Whole(self._report, self._weigh_read_along())
        again = list_again(self.request)
        with self.cache.pin_for_job(self.target.job):
            self._make_again([self._find_segment(*place) for place in again])
            recorded = record(
                self.plan, self.synthesizer, target_lufs=self.target.loudness,
                rests=self.request.rests, fresh=self.request.fresh, tell=on_progress,
            )  # fmt: skip
            if recorded.lacks and not self.request.allow_gaps:
                raise self._build_error(recorded.lacks)
            follow = partial(self._follow_writing, recorded.timeline, on_progress, began)
            written = self._write_audio(recorded, follow("writing"))
            beside = self._write_beside(recorded, written, follow("read-along"))
        for warning in written.warnings:
            self.on_event(WarningEvent(warning))
        return BookResult(
            written.files, beside, self.target, self.engine, self.plan, recorded.timeline,
            recorded.stats, tuple(recorded.lacks), time.monotonic() - began,
            # Those that were made again were in the cache before they were recorded.
            num_cached=max(0, recorded.stats.num_cached - len(set(again))),
            loading_s=recorded.loading_s,
        )  # fmt: skip

    def _report(self, now: Progress) -> None:
        done, total = round(now.done * _PROGRESS_STEPS), _PROGRESS_STEPS
        self.on_event(
            BookProgressEvent(now.stage, done, total, now.title, now.audio_s, progress=now)
        )

    def _find_segment(self, chapter: int, number: int) -> Segment:
        part = next((part for part in self.plan.parts if part.number == chapter), None)
        if part is None:
            raise InvalidInputError(
                f"chapter {chapter} is not one of those that are read",
                hint=Message("{list} shows the chapters.", list=OptionRef("list")),
            )
        count = len(part.script.segments)
        if not 1 <= number <= count:
            raise InvalidInputError(
                f"chapter {chapter} has no segment {number}; it has {count}",
                hint=f"`anyrig book FILE --list --chapters {chapter}` shows them with their"
                " numbers.",
            )
        return part.script.segments[number - 1]

    def _make_again(self, segments: list[Segment]) -> None:
        """Make other takes of segments that somebody did not like."""
        if segments and not self.synthesizer.info.varies_with_seed:
            name = self.synthesizer.engine
            self.on_event(NoticeEvent(f"{name} repeats itself exactly: the pace is changed"))
        for spoken in self.synthesizer.retake(segments) if segments else ():
            failure = spoken.failure
            if failure is not None or spoken.unusable:
                text = " ".join(spoken.segment.text.split())[:60]
                reason = failure.message if failure is not None else "; ".join(spoken.problems)
                raise WorkError(
                    f"{text!r} could not be made again: {reason}",
                    hint=(failure.hint if failure else "") or "The previous take is kept.",
                )

    def _build_error(self, lacks: Sequence[Lack]) -> UnfinishedBookError:
        rows = [
            {"chapter": self.plan.parts[lack.part].number, "segment": lack.segment + 1,
             "text": lack.text, "said": lack.said, "hint": lack.hint} for lack in lacks
        ]  # fmt: skip
        self.on_event(BookUnfinishedEvent(rows))
        lines = [
            f"{row['chapter']}:{row['segment']} {str(row['text'])[:60]!r}: {row['said']}"
            for row in rows[:_MAX_PASSAGES]
        ]
        lines += [f"and {len(rows) - len(lines)} more"] if len(rows) > len(lines) else []
        return UnfinishedBookError(
            f"{pluralize(len(lacks), 'passage')} could not be spoken; all others are cached:"
            + "".join(f"\n  {line}" for line in lines),
            hint=Message(
                "Run the same again to retry only those;"
                " {allow_gaps} writes the book with silence in their place.",
                allow_gaps=OptionRef("allow_gaps"),
            ),
        )

    # -- writing -----------------------------------------------------------------------------------

    def _write_audio(self, recorded: Recorded, on_written: Callable[[float], None]) -> Written:
        from anyrig.audiobooks.write import write_book, write_chapters

        target, parts, timeline = self.target, self._sound(recorded), recorded.timeline
        tags, cover = build_tags(target, self.plan), self.plan.document.cover
        if target.is_whole:
            return write_book(
                target.path, parts, timeline, tags, cover, bitrate=target.bitrate, tell=on_written
            )
        return write_chapters(
            target.path, parts, timeline, tags, cover, format=target.format,
            tracks=self._number_tracks(), bitrate=target.bitrate, tell=on_written,
        )  # fmt: skip

    def _sound(self, recorded: Recorded) -> Iterator[Samples]:
        from anyrig.audiobooks.make import sound

        return sound(self.plan, self.synthesizer, recorded, ceiling_dbtp=self.target.ceiling_dbtp)

    def _follow_writing(
        self, timeline: Timeline, on_progress: Tell, began: float, stage: Stage
    ) -> Callable[[float], None]:
        """Turn the share that the encoder reports into progress."""
        from anyrig.audiobooks.progress import Progress
        from anyrig.estimates import WorkEstimate

        plan, ends = self.plan, [mark.end for mark in timeline.marks]
        work, written = WorkEstimate(1.0), 0.0

        def on_written(done: float) -> None:
            nonlocal written
            work.add(done - written)
            written = done
            chapter = min(bisect_right(ends, done * timeline.num_samples), len(plan.parts) - 1)
            rate = work.rate.per_s if work.is_known else None
            on_progress(Progress(
                stage, done, chapter + 1, len(plan.parts), plan.parts[chapter].title,
                plan.num_segments, plan.num_segments, timeline.duration_s,
                time.monotonic() - began,
                speed=rate and rate * timeline.duration_s,
                left_s=work.left.known_s if work.left else None,
            ))  # fmt: skip

        return on_written

    def _weigh_read_along(self) -> float:
        """What the read-along file takes, as a share of what writing the book takes."""
        if not self.request.read_along:
            return 0.0
        return 0.1 if self._has_read_along_audio else 1.0

    @property
    def _has_read_along_audio(self) -> bool:
        """Whether the book's own files are what every reader of EPUB 3 plays."""
        return self.target.format in ("mp3", "m4a")

    def _number_tracks(self) -> Tracks:
        """Number and name chapters as in the whole book, so that one can be written again."""
        from anyrig.audiobooks.metadata import Tracks, build_chapter_titles
        from anyrig.audiobooks.plan import choose_title, select_chapters
        from anyrig.audiobooks.timeline import Mark

        plan, chapters = self.plan, self.plan.document.chapters
        every = select_chapters(plan.document, "", self.request.content)
        marks = [Mark(choose_title(chapters[n], n + 1), 0, 0, chapters[n].level) for n in every]
        known = dict(zip(every, enumerate(build_chapter_titles(marks), 1), strict=True))
        found = [known.get(part.number - 1, (part.number, part.title)) for part in plan.parts]
        silent = {part.number - 1 for part in plan.silent}
        return Tracks(
            tuple(number for number, _ in found), tuple(title for _, title in found),
            len(found) if not self.request.chapters else len(set(every) - silent),
        )  # fmt: skip

    def _write_beside(
        self, recorded: Recorded, written: Written, on_read_along: Callable[[float], None]
    ) -> tuple[Path, ...]:
        """Write captions and the EPUB that is read along, as requested."""
        from anyrig.audiobooks.captions import write_captions, write_chapter_captions

        timeline, kinds = recorded.timeline, self.request.captions
        beside: list[Path] = []
        if kinds and self.target.is_whole:
            beside += write_captions(written.files[0], timeline, kinds)
        elif kinds:
            beside += write_chapter_captions(written.files, timeline, kinds)
        if written.playlist is not None:
            beside.append(written.playlist)
        if self.request.read_along:
            self._write_read_along(recorded, written.files, on_read_along)
            beside.append(self.target.read_along_path)
        return tuple(beside)

    def _write_read_along(
        self, recorded: Recorded, audio: Sequence[Path], on_written: Callable[[float], None]
    ) -> None:
        """Write the EPUB that is read along; its audio is a file for each chapter."""
        from anyrig.audiobooks.readalong import write_readalong
        from anyrig.audiobooks.write import write_chapters
        from anyrig.storage.atomic_file import clear_leftovers, part_folder

        target, plan, path = self.target, self.plan, self.target.read_along_path
        clear_leftovers(path)
        on_written(0.0)
        with part_folder(path) as folder:
            if not self._has_read_along_audio:
                audio = write_chapters(
                    folder, self._sound(recorded), recorded.timeline, build_tags(target, plan),
                    format="m4a", bitrate=target.bitrate,
                    tell=lambda done: on_written(_PACKING_FROM * done),
                ).files  # fmt: skip
            write_readalong(path, plan, recorded.timeline, audio, narrator=target.narrator)
        on_written(1.0)


def build_tags(target: BookTarget, plan: Plan) -> BookTags:
    from anyrig.audiobooks.metadata import BookTags

    about = plan.document.metadata
    return BookTags(
        title=about.title, author=", ".join(about.authors), narrator=target.narrator,
        series=about.series, series_index=about.series_index, year=about.year,
        language=about.language or plan.language, description=about.description,
        publisher=about.publisher, genre=target.genre,
    )  # fmt: skip


def report_problems(result: BookResult, on_event: OnEvent) -> None:
    """Warn of takes that may sound wrong, with how to make them again, and of gaps."""
    parts = result.plan.parts
    places = [
        (part.number, number)
        for part in parts
        for number in range(1, len(part.script.segments) + 1)
    ]
    gaps = {(parts[lack.part].number, lack.segment + 1): lack for lack in result.gaps}
    doubtful = []
    for spoken in result.stats.doubtful:
        chapter, number = places[spoken.index]
        if (chapter, number) not in gaps:
            text = " ".join(spoken.segment.text.split())[:50]
            doubtful.append(Message(
                "{problems}: {text!r} ({again} makes it again)",
                problems="; ".join(spoken.problems), text=text,
                again=OptionRef("again", f"{chapter}:{number}"),
            ))  # fmt: skip
    warn_some(
        on_event,
        doubtful,
        Message("may sound wrong; {json} lists them all", json=OptionRef("json")),
    )
    for (chapter, number), lack in gaps.items():
        message = Message(
            "gap at {chapter}:{number}, {text!r}: {said}",
            chapter=chapter,
            number=number,
            text=lack.text[:50],
            said=lack.said,
        )
        on_event(WarningEvent(message))


# -- single chapters -------------------------------------------------------------------------------


CHAPTER_FORMAT = "mp3"
"""Every browser plays it."""
CheckCancelled = Callable[[], None]
"""Called between steps; raises if nobody waits for the file any more."""


def write_cached_chapter(
    rig: Rig,
    request: BookRequest,
    book: PlannedBook,
    number: int,
    file: Path,
    check_cancelled: CheckCancelled,
) -> float:
    """Write a chapter (from 1) whose takes are all cached; returns its duration in seconds.

    The request must be the one that makes the book: its takes are found under the same names.
    """
    from anyrig.audiobooks.make import record, sound
    from anyrig.speech.engine import resolve_options
    from anyrig.speech.takes import TakeCache, precision_class

    parts = tuple(part for part in book.plan.parts if part.number == number)
    if not parts:
        raise InvalidInputError(
            f"chapter {number} of the book is not read", hint="See the job's chapters."
        )
    plan = replace(book.plan, parts=parts, silent=())
    target, engine = resolve_target(rig, request), book.engine
    size = sum(chapter.num_characters for chapter in plan.document.chapters)
    placed = place_engine(rig, request, engine, size)
    with open_cache(rig) as cache:
        info, found = engine.info, engine.found
        options = resolve_options(info, engine.options)
        precision = precision_class(placed.placements)
        takes: Any = _CachedTakes(
            TakeCache(info, found, precision, options, cache), found.sample_rate, check_cancelled
        )
        recorded = record(plan, takes, target_lufs=target.loudness, rests=request.rests)
        samples = sound(plan, takes, recorded, ceiling_dbtp=target.ceiling_dbtp)
        title = f"{build_tags(target, plan).title}: {parts[0].title}"
        _write_chapter(file, samples, found.sample_rate, title)
    return recorded.timeline.duration_s


@dataclass(frozen=True)
class _CachedTakes:
    """Gives takes from the cache in the place of a synthesizer, and makes none."""

    cache: TakeCache
    rate: int
    check_cancelled: CheckCancelled

    def count_cached_characters(self, segments: Sequence[Segment]) -> int:
        return sum(len(segment.utterance.text) for segment in segments)

    def read(self, segments: Sequence[Segment], *, fresh: bool = False) -> _CachedReading:
        return _CachedReading(self, segments)


class _CachedReading:
    def __init__(self, takes: _CachedTakes, segments: Sequence[Segment]) -> None:
        from anyrig.speech.synthesis import SynthesisStats

        self.stats = SynthesisStats()
        self._takes, self._segments = takes, segments

    def __iter__(self) -> Iterator[SpokenSegment]:
        from anyrig.speech.synthesis import SpokenSegment

        for index, segment in enumerate(self._segments):
            self._takes.check_cancelled()
            cached = self._takes.cache.load(self._takes.cache.make_key(segment.utterance))
            if cached is None:
                raise InvalidInputError(
                    "the chapter is not finished", hint="Try again when the job is past it."
                )
            spoken = SpokenSegment(index, segment, cached.take, cached.problems, cached=True)
            self.stats.add(spoken)
            yield spoken

    def close(self) -> None:
        pass


def extract_chapter(book: Path, track: int, file: Path, check_cancelled: CheckCancelled) -> float:
    """Write a chapter (from 0) of a finished m4b to a file; returns its duration in seconds."""
    from anyrig.audiobooks.listen import Reader, finished

    tracks = finished(book).tracks
    if not 0 <= track < len(tracks):
        raise InvalidInputError("the book has no such chapter", hint="See the job's chapters.")
    part = tracks[track]

    def read() -> Iterator[Samples]:
        for block in reader.read(part.file, part.start, part.end):
            check_cancelled()
            yield block.mean(axis=1)

    with closing(Reader()) as reader:
        _write_chapter(file, read(), part.rate, part.title)
    return part.duration_s


def _write_chapter(file: Path, parts: Iterable[Samples], rate: int, title: str) -> None:
    from anyrig.audio.encode import open_encoder

    file.parent.mkdir(parents=True, exist_ok=True)
    with open_encoder(file, CHAPTER_FORMAT, rate, tags={"title": title}) as output:
        for samples in parts:
            output.write(samples)
