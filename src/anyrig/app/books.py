"""Audiobooks: a book in, an m4b or a file for each chapter out.

What is made is cached as it comes, under the name of the output, so that a run that was interrupted
is continued by the same request.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from anyrig.app.cache import find_cache_file, open_cache, open_shared_cache
from anyrig.app.cluster import check_no_recordings, find_broker
from anyrig.app.engines import (
    check_voice,
    choose_engine,
    choose_engine_with_voices,
    find_faster_voice,
    find_requested_engine,
    resolve_voice,
    suggest_engines,
)
from anyrig.app.files import check_writable, normalize_format
from anyrig.app.speech import (
    Speech,
    SynthesisOptions,
    build_speech_options,
    check_voices,
    collect_speech,
    describe_workers,
    open_synthesizer,
    pause_option,
    resolve_format,
    warn_some,
)
from anyrig.audiobooks.options import (
    BOOK_FORMAT,
    CHAPTER_FORMATS,
    CONTENT_CHOICES,
    ContentOptions,
)
from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
    StorageError,
    UnsupportedLanguageError,
)
from anyrig.events import (
    BookStartedEvent,
    BookUnfinishedEvent,
    FasterVoice,
    LeftOut,
    NoticeEvent,
    OnEvent,
    ProgressEvent,
    WarningEvent,
)
from anyrig.options import Request, option
from anyrig.results import fields_to_json, in_json
from anyrig.speech.choose import EngineChoice

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.audiobooks.cast import Casting, RoleShare, RoleSuggestion
    from anyrig.audiobooks.plan import Part, Plan
    from anyrig.audiobooks.record import (
        BookProgress,
        ChapterPauses,
        MissingSegment,
        Timeline,
        VoiceRate,
    )
    from anyrig.audiobooks.verify import Report
    from anyrig.audiobooks.write import BookTarget
    from anyrig.speech.segment import OmissionKind, Script
    from anyrig.speech.synthesis import SynthesisStats, Synthesizer
    from anyrig.storage.cache import Cache
    from anyrig.text.document import Document, Picture
    from anyrig.transcription.engines import Recording, Transcript

_LEFT_OUT: dict[OmissionKind, tuple[str, str, str]] = {
    "note": ("note", "notes", "inline"), "code": ("listing", "code", "speak"),
    "table": ("table", "tables", "speak"), "image": ("picture", "images", "speak"),
    "poem": ("poem", "poems", "lines"), "foreign": ("foreign passage", "foreign", "read"),
}  # fmt: skip
"""What may be left out: how it is called, and the option that has it read."""
_UNSAFE = re.compile(r"[^\w.+-]+")
_ACX_LUFS = -20.5
_PROGRESS_STEPS = 10_000
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min)?")


def _parse_bitrate(text: str) -> str | None:
    number = text.strip().lower().removesuffix("k")
    return f"{number}000" if number.isdecimal() and text.strip().lower().endswith("k") else None


def _parse_seconds(text: str) -> str | None:
    match = _TIME.fullmatch(text.strip().lower())
    if match is None:
        return None
    return str(float(match[1]) * (60 if (match[2] or "s").startswith("m") else 1))


def _reading(name: str, help: str) -> Any:
    return option(
        getattr(ContentOptions, name), help, choices=CONTENT_CHOICES[name], setting=f"book.{name}"
    )


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Request):
    """What is read."""

    notes: str = _reading("notes", "footnotes")
    tables: str = _reading("tables", "tables")
    images: str = _reading("images", "descriptions of pictures")
    poems: str = _reading("poems", "poems")
    code: str = _reading("code", "listings")
    pages: str = _reading("pages", "page numbers and running heads")
    titles: str = _reading("titles", "titles that only the table of contents has")
    matter: str = _reading("matter", "covers, copyright pages, tables of contents")
    foreign: str = _reading("foreign", "paragraphs in a language that the voice does not speak")
    cast: Path | None = option(None, "cast file: voices by character", upload=True, metavar="FILE")

    @property
    def content(self) -> ContentOptions:
        return ContentOptions(**{name: getattr(self, name) for name in CONTENT_CHOICES})


@dataclass(frozen=True, kw_only=True)
class BookFileOptions(Request):
    """The files."""

    title: str = option("", "title; default: from the file")
    untitled: str = option("", "title of a book that has none", http=False)
    author: str = option("", "author; default: from the file", metavar="NAME")
    narrator: str = option("", "narrator; default: name of the voice", metavar="NAME")
    genre: str = option("Audiobook", "genre tag", setting="book.genre")
    cover: Path | None = option(
        None, "cover image, JPEG or PNG; default: from the file", upload=True, metavar="FILE"
    )
    captions: tuple[Literal["srt", "vtt"], ...] = option(
        (), "write captions: srt, vtt or both", normalize=str.lower
    )
    read_along: bool = option(False, "also write an EPUB 3 that highlights spoken words")
    loudness: float | None = option(
        None, "target loudness; default -19; 0: unchanged", ge=-70, le=0, unit="LUFS",
        setting="speech.loudness", fill=False, metavar="LUFS",
    )  # fmt: skip
    bitrate: int | None = option(
        None, "bit rate, such as 96k; default of an m4b: 64k", ge=1,
        unit="bits per second, such as 64k or 96000", normalize=_parse_bitrate,
        setting="book.bitrate", metavar="N",
    )  # fmt: skip
    rest_before: float = pause_option(0.5, "silence before a chapter", "book.rest_before")
    rest_after: float = pause_option(1.5, "silence after a chapter", "book.rest_after")

    @property
    def chapter_pauses(self) -> ChapterPauses:
        from anyrig.audiobooks.record import ChapterPauses

        return ChapterPauses(self.rest_before, self.rest_after)


@dataclass(frozen=True, kw_only=True)
class BookRequest(ReadingOptions, BookFileOptions, SynthesisOptions):
    """The book."""

    file: Path = option(help="the book", positional=True, upload=True, metavar="FILE")
    output: Path | None = option(
        None, "the m4b file, or a folder for one file per chapter", short="-o", http=False
    )
    format: str | None = option(
        None, "m4b, or one file per chapter: mp3, opus, flac, m4a, wav",
        choices=(BOOK_FORMAT, *CHAPTER_FORMATS), metavar="NAME",
        normalize=normalize_format,
    )  # fmt: skip
    chapters: tuple[str, ...] = option((), "such as 3-7,9 or 5-; default: all but front matter")
    again: tuple[str, ...] = option(
        (), "make segments again, as chapter:segment, such as 3:17,4:2", http=False
    )
    allow_gaps: bool = option(False, "write the book even if passages failed, as silence")
    fresh: bool = option(False, "ignore cached results")
    levels: Literal["book", "acx"] = option("book", "loudness standard")

    def __post_init__(self) -> None:
        # Jobs and HTTP clients may name captions as one text, and chapters by number.
        if isinstance(self.captions, str):
            words = tuple(word.strip() for word in self.captions.split(",") if word.strip())
            object.__setattr__(self, "captions", words)
        if isinstance(self.chapters, list | tuple):
            given: Sequence[Any] = self.chapters
            numbers = tuple(str(one) if type(one) is int else one for one in given)
            object.__setattr__(self, "chapters", numbers)
        object.__setattr__(self, "format", self.format or None)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class SampleRequest(BookRequest):
    """Previews of a book."""

    sample: float = option(
        help="write previews of this length, such as 60s", ge=1, le=3600,
        unit="seconds, such as 60s or 2min", normalize=_parse_seconds, metavar="TIME",
    )  # fmt: skip
    voices: tuple[str, ...] = option((), "with --sample: voices to compare")


@dataclass(frozen=True, kw_only=True)
class VerifyRequest(BookRequest):
    """A finished book and its source."""

    finished: Path = option(help="the finished book, or the folder of its chapters", flag=False)
    words: Literal["none", "sample", "all"] = option(
        "sample", "with --verify: how much is transcribed"
    )


@dataclass(frozen=True)
class OpenBook:
    """A book, and the engine that reads it."""

    document: Document
    engine: EngineChoice
    language: str
    """That it is read in, as requested or detected."""


@dataclass(frozen=True)
class PlannedBook(OpenBook):
    """A book, segment by segment as it will be spoken."""

    plan: Plan


@dataclass(frozen=True)
class ChapterInfo:
    number: int
    title: str
    level: int
    role: str
    words: int
    characters: int
    estimated_s: float
    is_spoken: bool = field(metadata=in_json("spoken"))


@dataclass(frozen=True)
class ChapterList:
    """A book's chapters, and how long it will be."""

    book: OpenBook = field(metadata=in_json(omit=True))
    voice: str = field(metadata=in_json(omit=True))
    chapters: tuple[ChapterInfo, ...]
    estimated_s: float
    is_measured: bool = field(metadata=in_json("measured"))
    """Whether the estimates are from a measurement of this voice."""
    times_real_time: float | None
    """How fast the voice was made here the last time."""
    faster: FasterVoice | None = None
    """If the chosen engine takes long."""

    json_properties: ClassVar = {"to_make_s": "to_make_s"}

    @property
    def words(self) -> int:
        """That are read."""
        return sum(chapter.words for chapter in self.chapters if chapter.is_spoken)

    @property
    def to_make_s(self) -> float | None:
        """How long it takes to make; None before the voice was measured."""
        return round(self.estimated_s / self.times_real_time, 1) if self.times_real_time else None

    def to_json(self) -> dict[str, Any]:
        document = self.book.document
        about = document.metadata
        return {
            "title": about.title, "authors": list(about.authors), "language": about.language,
            "series": about.series or None, "format": document.format,
            "cover": document.cover is not None, "engine": self.book.engine.name,
            **fields_to_json(self),
        }  # fmt: skip


@dataclass(frozen=True)
class Speakers:
    """Who speaks in a book."""

    roles: tuple[RoleShare, ...]
    """Of the cast file."""
    others: tuple[RoleSuggestion, ...]
    """Whom a cast file could name."""


@dataclass(frozen=True)
class BookSample:
    file: Path
    engine: str
    voice: str
    audio_s: float = field(metadata=in_json(digits=3))


@dataclass(frozen=True)
class BookResult:
    """A finished book."""

    files: tuple[Path, ...]
    extra_files: tuple[Path, ...]
    """Captions, the playlist, the read-along EPUB."""
    target: BookTarget
    engine: EngineChoice
    plan: Plan
    timeline: Timeline
    """When each chapter, segment and word is heard."""
    stats: SynthesisStats
    gaps: tuple[MissingSegment, ...]
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
            "extra_files": [str(path) for path in self.extra_files],
            "engine": self.engine.name,
            "reason": self.engine.reason or None,
            "language": self.plan.language,
            "audio_s": round(self.timeline.duration_s, 4),
            "wall_s": round(self.wall_s, 3),
            "cached": self.stats.num_cached,
            "made_again": self.stats.num_retried,
            "devices": self.stats.devices,
            "omitted": dict(self.plan.count_omitted()),
            "chapters": [
                {"number": part.number, "title": mark.title, "level": mark.level,
                 "start_s": round(mark.start / rate, 4), "end_s": round(mark.end / rate, 4)}
                for part, mark in zip(parts, self.timeline.chapters, strict=True)
            ],
            "segments": [
                {"chapter": parts[cue.part].number, "segment": cue.segment + 1,
                 "start_s": round(cue.start / rate, 4), "end_s": round(cue.end / rate, 4),
                 "text": cue.text, "gap": cue.is_gap, "problems": doubtful.get(number, [])}
                for number, cue in enumerate(self.timeline.cues)
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class BookProgressEvent(ProgressEvent):
    """How far a book is: `done` of `total` is the share of both stages, making and writing."""

    progress: BookProgress = field(kw_only=True)

    def to_json(self) -> dict[str, Any]:
        return {"event": "progress", **self.progress.to_json()}


# -- making ----------------------------------------------------------------------------------------


def make_book(rig: Rig, request: BookRequest, on_event: OnEvent) -> BookResult:
    """Make an audiobook; what was made before, by any request, is taken from the cache."""
    from anyrig.audiobooks.write import check_disk_space

    target = check_book(rig, request)
    book = open_book(rig, request, on_event)
    _match_language(rig, request, book)  # before workers are started
    size = sum(chapter.num_characters for chapter in book.document.chapters)
    with (
        _open_book_cache(rig, target) as cache,
        # The workers load while the book is planned.
        open_synthesizer(rig, request, book.engine, size, cache) as synthesizer,
    ):
        plan = _build_plan(rig, request, book)
        target = replace(target, narrator=target.narrator or _name_narrator(rig, request, book))
        estimate = load_rate(rig, request, book.engine)
        _report_start(rig, request, target, book, plan, estimate, on_event)
        check_disk_space(
            target,
            audio_s=estimate.estimate_audio_s(plan.num_characters, request.rate),
            to_make_s=estimate.estimate_audio_s(
                plan.num_characters - synthesizer.count_cached_characters(plan.segments),
                request.rate,
            ),
            sample_rate=synthesizer.rate,
            cache_folder=find_cache_file(rig).parent,
        )
        target.path.parent.mkdir(parents=True, exist_ok=True)
        result = record_book(request, target, book.engine, plan, synthesizer, cache, on_event)
        for warning in synthesizer.warnings:
            on_event(WarningEvent(warning))
    _save_rate(rig, request, result)
    report_problems(result, on_event)
    return replace(
        result, workers=describe_workers(result.stats) if find_broker(rig, request) else ""
    )


def record_book(
    request: BookRequest,
    target: BookTarget,
    engine: EngineChoice,
    plan: Plan,
    synthesizer: Synthesizer,
    cache: Cache,
    on_event: OnEvent,
) -> BookResult:
    """Make the takes of a planned book that are missing, and write its files.

    `UnfinishedBookError` if passages could not be spoken and gaps are not allowed.
    """
    from anyrig.audiobooks.metadata import number_tracks
    from anyrig.audiobooks.record import (
        OverallProgress,
        build_unfinished_error,
        list_missing,
        record,
        retake_segments,
    )
    from anyrig.audiobooks.write import write

    def report(now: BookProgress) -> None:
        done, total = round(now.done * _PROGRESS_STEPS), _PROGRESS_STEPS
        on_event(BookProgressEvent(now.stage, done, total, now.title, now.audio_s, progress=now))

    began, progress = time.monotonic(), OverallProgress(report, target.read_along_weight)
    with cache.pin_for_job(target.job):
        if request.again and not synthesizer.info.varies_with_seed:
            name = synthesizer.engine
            on_event(
                NoticeEvent(
                    f"{name} gives the same take for every seed: its pace is changed instead"
                )
            )
        num_retaken = retake_segments(plan, synthesizer, request.again)
        recording = record(
            plan, synthesizer, loudness_lufs=target.loudness, pauses=request.chapter_pauses,
            fresh=request.fresh, on_progress=progress,
        )  # fmt: skip
        if recording.missing and not request.allow_gaps:
            rows = list_missing(plan, recording.missing)
            on_event(BookUnfinishedEvent(rows))
            raise build_unfinished_error(rows)
        tracks = number_tracks(plan, request.content, selected=bool(request.chapters))
        written = write(plan, recording, synthesizer, target, tracks=tracks, progress=progress)
    for warning in written.warnings:
        on_event(WarningEvent(warning))
    return BookResult(
        written.files, written.extra_files, target, engine, plan, recording.timeline,
        recording.stats, recording.missing, time.monotonic() - began,
        # Those that were made again were in the cache before they were recorded.
        num_cached=max(0, recording.stats.num_cached - num_retaken),
        loading_s=recording.loading_s,
    )  # fmt: skip


def parse_output(text: str, source: Path, format: str | None) -> Path:
    """A path as a person types it: one that ends with a slash is a folder for the m4b."""
    path = Path(text).expanduser()
    is_folder = text.endswith(("/", "\\")) and format not in CHAPTER_FORMATS
    return path / f"{source.stem}.{BOOK_FORMAT}" if is_folder else path


def resolve_target(rig: Rig, request: BookRequest) -> BookTarget:
    """Where the book goes, its loudness and its narrator."""
    from anyrig.audiobooks.write import BookTarget, resolve_output

    loudness = request.loudness
    if loudness is None:
        loudness = _ACX_LUFS if request.levels == "acx" else rig.settings.speech.loudness
    path, format = resolve_output(request.file, request.output, request.format)
    return BookTarget(
        path, format, loudness, request.bitrate, request.narrator, request.genre,
        request.captions, request.read_along,
    )  # fmt: skip


def check_book(rig: Rig, request: BookRequest) -> BookTarget:
    """Check what can be checked before a book is opened; returns where it will go."""
    from anyrig.audiobooks.record import parse_places
    from anyrig.audiobooks.write import check_target

    if parse_places(request.again) and request.fresh:
        raise InvalidInputError(
            Message(
                "{again} and {fresh} were both given",
                again=OptionRef("again"),
                fresh=OptionRef("fresh"),
            ),
            hint="Give one of them.",
        )
    if not request.file.exists():
        raise InvalidInputError(f"no such file: {request.file}", hint="Check the path.")
    target = resolve_target(rig, request)
    check_target(target, request.file)
    if target.path.is_file():
        check_writable(target.path)
    return target


@contextmanager
def _open_book_cache(rig: Rig, target: BookTarget) -> Iterator[Cache]:
    """The user's cache; if that cannot be opened, one beside the book until it is finished."""
    beside: Path | None = None
    try:
        cache = open_shared_cache(rig)
        cache.has({target.job})  # it is opened by its first use
    except (StorageError, OSError) as error:
        from anyrig.storage.cache import ResultCache

        reason = error.message if isinstance(error, StorageError) else str(error)
        rig.warn(f"takes are cached beside the book until it is finished: {reason}")
        beside = target.path.absolute().parent / f".{target.path.name}.anyrig"
        cache = ResultCache(beside / "takes.db")
    with cache:
        yield cache
    if beside is not None:  # a run that fails leaves it for the next
        shutil.rmtree(beside, ignore_errors=True)


def _report_start(
    rig: Rig,
    request: BookRequest,
    target: BookTarget,
    book: OpenBook,
    plan: Plan,
    estimate: VoiceRate,
    on_event: OnEvent,
) -> None:
    rests_s = len(plan.parts) * request.chapter_pauses.total_s
    on_event(
        BookStartedEvent(
            title=plan.document.metadata.title,
            chapters=tuple(part.title for part in plan.parts),
            numbers=tuple(part.number for part in plan.parts),
            num_segments=plan.num_segments,
            num_characters=plan.num_characters,
            estimated_audio_s=estimate.estimate_audio_s(plan.num_characters, request.rate)
            + rests_s,
            is_measured=estimate.is_measured,
            omitted={str(kind): count for kind, count in plan.count_omitted().items()},
            output=target.path,
            engine=book.engine.name,
            left_out=tuple(_list_left_out(request, plan)),
            faster=find_faster_voice(rig, request, book.engine, book.language),
        )
    )
    warn_some(on_event, plan.warnings, "of this kind")


def _list_left_out(request: BookRequest, plan: Plan) -> Iterator[LeftOut]:
    """What is not read although nobody chose so, and the options that have it read."""
    from anyrig.audiobooks.plan import SKIPPED_ROLES

    spoken = {part.number for part in plan.parts}
    titles = tuple(
        chapter.title or chapter.role
        for number, chapter in enumerate(plan.document.chapters, 1)
        if number not in spoken and chapter.role in SKIPPED_ROLES and chapter.num_characters
    )
    if titles and not request.chapters:
        yield LeftOut("chapters", len(titles), "matter", "speak", titles)
    counted: Counter[str] = Counter(
        block.kind for part in plan.parts for block in part.chapter.blocks
    )
    omitted = plan.count_omitted()
    for kind, (what, name, value) in _LEFT_OUT.items():
        count = len(plan.foreign) if kind == "foreign" else counted[kind]
        if omitted[kind] and count:
            yield LeftOut(what, count, name, value)


def report_problems(result: BookResult, on_event: OnEvent) -> None:
    """Warn of takes that may sound wrong, with how to make them again, and of gaps."""
    parts = result.plan.parts
    places = [
        (part.number, number)
        for part in parts
        for number in range(1, len(part.script.segments) + 1)
    ]
    gaps = {(parts[gap.part].number, gap.segment + 1): gap for gap in result.gaps}
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
    for (chapter, number), gap in gaps.items():
        message = Message(
            "gap at {chapter}:{number}, {text!r}: {reason}",
            chapter=chapter,
            number=number,
            text=gap.text[:50],
            reason=gap.reason,
        )
        on_event(WarningEvent(message))


def _name_narrator(rig: Rig, request: BookRequest, book: OpenBook) -> str:
    """The voice's name, for the tags."""
    name = resolve_voice(rig, request, book.engine)
    voice = next((v for v in book.engine.weights.voices if v.name == name or not name), None)
    return (voice.title or voice.name) if voice is not None else name or book.engine.name


# -- opening and planning --------------------------------------------------------------------------


def open_book(rig: Rig, request: BookRequest, on_event: OnEvent) -> OpenBook:
    """Read a book and choose the engine that reads it."""
    return _choose_reader(rig, request, read_document(request, on_event))


def _choose_reader(rig: Rig, request: BookRequest, document: Document) -> OpenBook:
    """The requested engine, else one with the voices of the cast, else one for the language."""
    from anyrig.audiobooks.plan import detect_book_language

    language = request.language if request.language != "auto" else detect_book_language(document)
    voices: Sequence[str] = ()
    if request.cast is not None and not (request.engine or request.voice):
        from anyrig.audiobooks.cast import load_cast

        voices = load_cast(request.cast).voices
    if voices and not find_requested_engine(rig, request):
        engine = choose_engine_with_voices(rig, request, voices)
    else:
        engine = choose_engine(rig, request, language)
    return OpenBook(document, engine, language)


def read_document(request: BookRequest, on_event: OnEvent) -> Document:
    """Read a book, with the title, author and cover of the request."""
    from anyrig.text.files import read
    from anyrig.text.matter import settle

    on_event(ProgressEvent("reading", detail=request.file.name))
    document = settle(read(request.file))
    about = document.metadata
    about = replace(
        about,
        title=request.title or about.title or request.untitled or request.file.stem,
        authors=(request.author,) if request.author else about.authors,
        language=request.language if request.language != "auto" else about.language,
    )
    cover = _read_cover(request.cover) if request.cover is not None else document.cover
    for warning in document.warnings:
        on_event(WarningEvent(warning))
    return replace(document, metadata=about, cover=cover)


def _read_cover(path: Path) -> Picture:
    from anyrig.audiobooks.metadata import prepare_cover
    from anyrig.text.document import Picture

    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"cannot read the cover {path}: {error.strerror}", hint="Name another picture."
        ) from error
    media_type = "image/png" if path.suffix.lower() == ".png" else "image/jpeg"
    cover, problem = prepare_cover(Picture(data, media_type))
    if cover is None:
        raise InvalidInputError(
            f"{path} cannot be a cover: {problem}", hint="Give a JPEG or a PNG."
        )
    return cover


def plan_book(rig: Rig, request: BookRequest, on_event: OnEvent) -> PlannedBook:
    """Read a book and decide what will be spoken, segment by segment."""
    book = open_book(rig, request, on_event)
    plan = _build_plan(rig, request, book)
    return PlannedBook(book.document, book.engine, book.language, plan)


def _match_language(rig: Rig, request: BookRequest, book: OpenBook) -> str:
    """What the engine calls the book's language."""
    from anyrig.speech.language import build_language_error, match_language

    engine = book.engine
    main = match_language(book.language, engine.weights.languages)
    if not main:
        error = build_language_error(book.language, engine.weights.languages)
        raise suggest_engines(rig, error, request, engine, text_language=book.language)
    return main


def _build_plan(rig: Rig, request: BookRequest, book: OpenBook) -> Plan:
    from anyrig.audiobooks.plan import build_plan, select_chapters

    engine = book.engine
    main = _match_language(rig, request, book)
    try:
        plan = build_plan(
            book.document,
            build_speech_options(rig, request, engine),
            language=main,
            content=request.content,
            chapters=select_chapters(book.document, ",".join(request.chapters), request.content),
            casting=_load_cast(request, engine, main),
        )
    except UnsupportedLanguageError as error:
        raise suggest_engines(rig, error, request, engine, override=error.hint) from error
    check_voices(plan.segments, engine)
    check_no_recordings(rig, request, plan.segments)
    return plan


def _load_cast(request: BookRequest, engine: EngineChoice, language: str) -> Casting | None:
    if request.cast is None:
        return None
    from anyrig.audiobooks.cast import Casting, load_cast

    cast = load_cast(request.cast)
    for voice in cast.voices:
        check_voice(voice, engine)
    spoken = {voice.name: (voice.language, *voice.also) for voice in engine.weights.voices}
    return Casting(cast, language, spoken)


def list_chapters(rig: Rig, request: BookRequest, on_event: OnEvent) -> ChapterList:
    """A book's chapters with their words and estimated durations; nothing is made."""
    from anyrig.audiobooks.plan import choose_title, count_spoken_characters, select_chapters
    from anyrig.text.language import num_words

    book = open_book(rig, request, on_event)
    document = book.document
    rate = load_rate(rig, request, book.engine)
    spoken = set(select_chapters(document, ",".join(request.chapters), request.content))
    characters = count_spoken_characters(document, request.content)
    chapters = tuple(
        ChapterInfo(
            number + 1,
            choose_title(chapter, number + 1),
            chapter.level,
            chapter.role,
            words=sum(num_words(block.text) for block in chapter.blocks),
            characters=chapter.num_characters,
            estimated_s=round(
                rate.estimate_audio_s(characters[number], request.rate)
                + request.chapter_pauses.total_s,
                1,
            ),
            is_spoken=number in spoken,
        )
        for number, chapter in enumerate(document.chapters)
    )
    estimated_s = sum(chapter.estimated_s for chapter in chapters if chapter.is_spoken)
    return ChapterList(
        book, resolve_voice(rig, request, book.engine), chapters, round(estimated_s, 1),
        rate.is_measured, rate.times_real_time,
        find_faster_voice(rig, request, book.engine, book.language),
    )  # fmt: skip


def list_speakers(rig: Rig, request: BookRequest, on_event: OnEvent) -> Speakers:
    """Who speaks in a book: the roles of its cast file, and others that it could name."""
    from anyrig.audiobooks.cast import suggest_roles

    book = open_book(rig, request, on_event)
    casting = _load_cast(request, book.engine, book.document.metadata.language)
    return Speakers(
        tuple(casting.count_words(book.document)) if casting else (),
        tuple(suggest_roles(book.document, casting.cast if casting else None)),
    )


# -- previews and checks ---------------------------------------------------------------------------


def sample_book(rig: Rig, request: SampleRequest, on_event: OnEvent) -> list[BookSample]:
    """Write a preview of the same passage in each voice, before hours of work."""
    resolve_format(request.format or "mp3")
    document = read_document(request, on_event)
    return [
        _write_sample(rig, replace(request, voice=voice), document, on_event)
        for voice in request.voices or (request.voice,)
    ]


def _write_sample(
    rig: Rig, request: SampleRequest, document: Document, on_event: OnEvent
) -> BookSample:
    target = resolve_target(rig, request)
    book = _choose_reader(rig, request, document)
    engine = book.engine
    rate = load_rate(rig, request, engine)
    num_characters = round(request.sample * request.rate / rate.seconds_per_character)
    script = _choose_passage(_build_plan(rig, request, book), num_characters)
    voices = engine.weights.voices
    voice = resolve_voice(rig, request, engine) or (voices[0].name if voices else "")
    stem = "-".join(filter(None, (target.path.stem, engine.name, voice)))
    format = request.format or "mp3"
    path = target.path.with_name(f"{_UNSAFE.sub('_', stem)[:120]}.{format}")
    check_writable(path)
    with (
        open_cache(rig) as cache,
        open_synthesizer(rig, request, engine, len(script.source), cache) as synthesizer,
        synthesizer.read(script.segments) as reading,
        Speech(engine, script, synthesizer.rate, target.loudness, reading.stats) as speech,
    ):
        for _ in collect_speech(synthesizer, reading, speech, on_event):
            pass
        speech.save(path, format)
        return BookSample(path, engine.name, voice, speech.audio_s)


def _choose_passage(plan: Plan, num_characters: int) -> Script:
    """Segments of about so many characters, from the longest chapter, as that has most prose."""
    part: Part = max(plan.parts, key=lambda part: len(part.script.source))
    segments, count = [], 0
    for segment in part.script.segments:
        if count >= num_characters:
            break
        segments.append(segment)
        count += len(segment.utterance.text)
    return replace(part.script, segments=tuple(segments))


def verify_book(rig: Rig, request: VerifyRequest, on_event: OnEvent) -> Report:
    """Check a finished book against its source: chapters, lengths, levels and words."""
    from anyrig.app.book_chapters import load_timeline
    from anyrig.app.speech import place_recogniser
    from anyrig.audiobooks.verify import format_clock, verify
    from anyrig.audiobooks.verify_audio import find_preset
    from anyrig.transcription.transcribe import transcribe_takes

    if not request.finished.exists():
        raise InvalidInputError(
            f"no such file: {request.finished}",
            hint="The finished book comes first, then its source.",
        )
    levels = find_preset(request.levels)
    book = plan_book(rig, request, on_event)
    timeline = load_timeline(rig, request, book)

    def transcribe(recordings: Iterable[Recording], language: str) -> Iterator[Transcript | None]:
        placements = place_recogniser(rig, request, len(timeline.cues))
        folder = str(rig.folders.models / "recognise")
        for outcome in transcribe_takes(
            recordings, language, placements, environment=rig.environment, folder=folder
        ):
            yield outcome.result

    def on_progress(stage: str, done_s: float, total_s: float) -> None:
        place = f"{format_clock(done_s)} of {format_clock(total_s)}"
        on_event(ProgressEvent(stage, round(done_s), round(total_s), place))

    return verify(
        request.finished, book.plan, timeline, words=request.words, levels=levels,
        transcribe=transcribe, on_progress=on_progress,
    )  # fmt: skip


# -- how fast voices are ---------------------------------------------------------------------------


def load_book_speeds(rig: Rig) -> dict[str, float]:
    """How many times real time books were made on this machine, by engine and voice."""
    from anyrig.audiobooks.record import load_voice_speeds

    return load_voice_speeds(rig.folders.rates)


def load_rate(rig: Rig, request: BookRequest, engine: EngineChoice) -> VoiceRate:
    """How fast the voice speaks, as measured; a guess before that."""
    from anyrig.audiobooks.record import load_voice_rate

    return load_voice_rate(rig.folders.rates, engine.name, resolve_voice(rig, request, engine))


def _save_rate(rig: Rig, request: BookRequest, result: BookResult) -> None:
    """Save what this book has shown of the voice."""
    from anyrig.audiobooks.record import VoiceRate, save_voice_rate

    duration_s, characters = result.timeline.duration_s, result.plan.num_characters
    made_s = result.wall_s - result.loading_s  # which is the same for any length
    speed = duration_s / made_s if made_s > 0 and not result.stats.num_cached else None
    spoken_s = duration_s - len(result.plan.parts) * request.chapter_pauses.total_s
    rate = VoiceRate(spoken_s * request.rate / characters, speed)
    voice = resolve_voice(rig, request, result.engine)
    save_voice_rate(rig.folders.rates, result.engine.name, voice, rate, characters)
