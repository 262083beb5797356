"""Audiobooks: a book in, an m4b or a file for each chapter out.

What is made is cached as it comes, under the name of the output, so that a run that was interrupted
is continued by the same request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.app.cache import find_cache_file, open_shared_cache
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
    SynthesisOptions,
    build_speech_options,
    check_voices,
    describe_workers,
    open_synthesizer,
    pause_option,
)
from anyrig.audiobooks.options import (
    BOOK_FORMAT,
    CHAPTER_FORMATS,
    CONTENT_CHOICES,
    ContentOptions,
)
from anyrig.errors import InvalidInputError, Message, OptionRef, UnsupportedLanguageError
from anyrig.events import BookStartedEvent, OnEvent, ProgressEvent, WarningEvent, warn_some
from anyrig.options import Request, option
from anyrig.speech.choose import EngineChoice

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.audiobooks.casting import Casting
    from anyrig.audiobooks.make import BookResult
    from anyrig.audiobooks.plan import NarrationPlan
    from anyrig.audiobooks.record import ChapterPauses
    from anyrig.audiobooks.write import BookTarget
    from anyrig.speech.voice_rates import VoiceRate
    from anyrig.text.document import Document, Picture

_ACX_LUFS = -20.5
_PROGRAM_SOURCE = frozenset(
    ".py .pyw .js .mjs .cjs .jsx .tsx .c .h .cc .cpp .cxx .hpp .cs .java .kt .scala .go .rs .rb"
    " .php .pl .pm .sh .bash .zsh .fish .ps1 .bat .sql .swift .lua .jl .hs .vue".split()
)
"""Suffixes of files that nobody means to hear from end to end."""


def _parse_bitrate(text: str) -> str | None:
    number = text.strip().lower().removesuffix("k")
    return f"{number}000" if number.isdecimal() and text.strip().lower().endswith("k") else None


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
    depth: int = option(
        0, "levels of chapters: 1 is the highest only; default: by their length",
        ge=0, setting="book.depth", metavar="N",
    )  # fmt: skip
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
    more_files: tuple[Path, ...] = option(
        (), "further files of the same book, in order", http=False, flag=False
    )
    follow_links: bool = option(
        False, "read the pages that a web page links to, if it is an index", http=False, flag=False
    )
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

    plan: NarrationPlan


# -- making ----------------------------------------------------------------------------------------


def make_book(rig: Rig, request: BookRequest, on_event: OnEvent) -> BookResult:
    """Make an audiobook; what was made before, by any request, is taken from the cache."""
    from anyrig.audiobooks.make import make, open_book_cache, report_problems
    from anyrig.audiobooks.metadata import number_tracks
    from anyrig.audiobooks.write import check_disk_space

    target = check_book(rig, request)
    book = open_book(rig, request, on_event)
    _match_language(rig, request, book)  # before workers are started
    size = sum(chapter.num_characters for chapter in book.document.chapters)
    with (
        open_book_cache(target, lambda: open_shared_cache(rig), rig.warn) as cache,
        # The workers load while the book is planned.
        open_synthesizer(rig, request, book.engine, size, cache) as synthesizer,
    ):
        plan = build_book_plan(rig, request, book)
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
        result = make(
            plan, synthesizer, target, cache, engine=book.engine, pauses=request.chapter_pauses,
            again=request.again, fresh=request.fresh, allow_gaps=request.allow_gaps,
            tracks=number_tracks(plan, request.content, selected=bool(request.chapters)),
            on_event=on_event,
        )  # fmt: skip
        for warning in synthesizer.warnings:
            on_event(WarningEvent(warning))
    _save_rate(rig, request, result)
    report_problems(result, on_event)
    return replace(
        result, workers=describe_workers(result.stats) if find_broker(rig, request) else ""
    )


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
    for path in (request.file, *request.more_files):
        if not path.exists():
            raise InvalidInputError(f"no such file: {path}", hint="Check the path.")
    target = resolve_target(rig, request)
    check_target(target, request.file)
    if target.path.is_file():
        check_writable(target.path)
    return target


def _report_start(
    rig: Rig,
    request: BookRequest,
    target: BookTarget,
    book: OpenBook,
    plan: NarrationPlan,
    estimate: VoiceRate,
    on_event: OnEvent,
) -> None:
    from anyrig.audiobooks.make import list_left_out

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
            left_out=tuple(list_left_out(plan, chapters_chosen=bool(request.chapters))),
            faster=find_faster_voice(rig, request, book.engine, book.language),
        )
    )
    warn_some(on_event, plan.warnings, "of this kind")


def _name_narrator(rig: Rig, request: BookRequest, book: OpenBook) -> str:
    """The voice's name, for the tags."""
    name = resolve_voice(rig, request, book.engine)
    voice = next((v for v in book.engine.weights.voices if v.name == name or not name), None)
    return (voice.title or voice.name) if voice is not None else name or book.engine.name


# -- opening and planning --------------------------------------------------------------------------


def open_book(rig: Rig, request: BookRequest, on_event: OnEvent) -> OpenBook:
    """Read a book and choose the engine that reads it."""
    return choose_reader(rig, request, read_document(request, on_event))


def choose_reader(rig: Rig, request: BookRequest, document: Document) -> OpenBook:
    """The requested engine, else one with the voices of the cast, else one for the language."""
    language = document.metadata.language
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
    """Read a book, with the title, author and cover of the request, and the language it is in."""
    from anyrig.audiobooks.plan import limit_depth
    from anyrig.text.language import detect_document
    from anyrig.text.linked_pages import read_files
    from anyrig.text.matter import apply_matter

    on_event(ProgressEvent("reading", detail=request.file.name))
    paths = [request.file, *request.more_files]
    _check_prose(paths, request)
    document = apply_matter(read_files(paths, follow_links=request.follow_links))
    document = limit_depth(document, request.depth, request.content)
    about = document.metadata
    about = replace(
        about,
        title=request.title or about.title or request.untitled or request.file.stem,
        authors=(request.author,) if request.author else about.authors,
        language=request.language
        if request.language != "auto"
        else detect_document(document).language,
    )
    cover = _read_cover(request.cover) if request.cover is not None else document.cover
    for warning in document.warnings:
        on_event(WarningEvent(warning))
    return replace(document, metadata=about, cover=cover)


def _check_prose(paths: Sequence[Path], request: BookRequest) -> None:
    for path in paths:
        if path.suffix.lower() in _PROGRAM_SOURCE and request.code != "speak":
            raise InvalidInputError(
                f"{path.name} is program source, not a book",
                hint=Message("{code} reads it aloud.", code=OptionRef("code", "speak")),
            )


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
    plan = build_book_plan(rig, request, book)
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


def build_book_plan(rig: Rig, request: BookRequest, book: OpenBook) -> NarrationPlan:
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
            casting=load_casting(request, engine, main),
        )
    except UnsupportedLanguageError as error:
        raise suggest_engines(rig, error, request, engine, override=error.hint) from error
    check_voices(plan.segments, engine)
    check_no_recordings(rig, request, plan.segments)
    return plan


def load_casting(request: BookRequest, engine: EngineChoice, language: str) -> Casting | None:
    if request.cast is None:
        return None
    from anyrig.audiobooks.cast import load_cast
    from anyrig.audiobooks.casting import Casting

    cast = load_cast(request.cast)
    for voice in cast.voices:
        check_voice(voice, engine)
    spoken = {voice.name: (voice.language, *voice.also) for voice in engine.weights.voices}
    return Casting(cast, language, spoken)


def load_rate(rig: Rig, request: BookRequest, engine: EngineChoice) -> VoiceRate:
    """How fast the voice speaks, as measured; a guess before that."""
    from anyrig.speech.voice_rates import VoiceRates

    return VoiceRates(rig.folders.rates).load(engine.name, resolve_voice(rig, request, engine))


def _save_rate(rig: Rig, request: BookRequest, result: BookResult) -> None:
    """Save what this book has shown of the voice."""
    from anyrig.speech.voice_rates import VoiceRate, VoiceRates

    duration_s, characters = result.timeline.duration_s, result.plan.num_characters
    made_s = result.wall_s - result.loading_s  # which is the same for any length
    speed = duration_s / made_s if made_s > 0 and not result.stats.num_cached else None
    spoken_s = duration_s - len(result.plan.parts) * request.chapter_pauses.total_s
    rate = VoiceRate(spoken_s * request.rate / characters, speed)
    voice = resolve_voice(rig, request, result.engine)
    VoiceRates(rig.folders.rates).save(result.engine.name, voice, rate, characters)
