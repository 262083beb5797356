"""A planned book becomes audio files: where they go, recording the takes, and writing them."""

from __future__ import annotations

import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.events import BookProgressEvent, BookUnfinishedEvent, OnEvent, WarningEvent
from anyrig.app.files import check_writable
from anyrig.errors import InvalidInputError, StorageError, WorkError, mention
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.app.books import BookRequest
    from anyrig.app.engines import EngineChoice
    from anyrig.audiobooks.make import Lack, Recorded
    from anyrig.audiobooks.names import Tracks
    from anyrig.audiobooks.plan import Plan
    from anyrig.audiobooks.progress import Progress, Tell
    from anyrig.audiobooks.tags import Tags
    from anyrig.audiobooks.timeline import Timeline
    from anyrig.speech.script import Segment
    from anyrig.speech.synthesise import Studio, Tally
    from anyrig.storage.cache import Cache

BOOK_FORMAT = "m4b"
CHAPTER_FORMATS = ("mp3", "opus", "flac", "m4a", "wav")
_CACHE_BYTES_PER_SAMPLE = 2  # takes are cached as 16-bit samples
_SPARE_BYTES = 64 << 20
_MAX_WARNINGS = 8
_MAX_PASSAGES = 100  # named in an error; the event has them all
_PROGRESS_STEPS = 10_000


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
    def ceiling_dbtp(self) -> float:
        """What no peak may exceed before it is encoded."""
        from anyrig.audiobooks.make import CEILING_DBTP, POOR_BITS, POOR_DBTP

        return POOR_DBTP if self.bitrate and self.bitrate < POOR_BITS else CEILING_DBTP


@dataclass(frozen=True)
class _WrittenBook:
    files: tuple[Path, ...]
    beside: tuple[Path, ...]
    """Captions, the playlist, the read-along EPUB."""
    warnings: tuple[str, ...]


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
    tally: Tally
    gaps: tuple[Lack, ...]
    """Passages with silence in their place."""
    wall_s: float
    num_cached: int
    """Segments that existed before."""
    workers: str = ""
    """How many segments each worker of a cluster made; empty without a cluster."""

    def to_json(self) -> dict[str, Any]:
        """Files, times of chapters and segments, and what may sound wrong."""
        rate, parts = self.timeline.rate, self.plan.parts
        doubtful = {one.index: list(one.problems) for one in self.tally.doubtful}
        return {
            "files": [str(path) for path in self.files],
            "beside": [str(path) for path in self.beside],
            "engine": self.engine.name,
            "why": self.engine.reason or None,
            "language": self.plan.main,
            "audio_s": round(self.timeline.duration_s, 4),
            "wall_s": round(self.wall_s, 3),
            "kept": self.tally.num_kept,
            "made_again": self.tally.num_again,
            "devices": self.tally.devices,
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


def resolve_output(request: BookRequest) -> tuple[Path, str]:
    """The file or folder that a book is written to, and its format."""
    from anyrig.audiobooks.write import BOOK_ENDINGS

    source, output, format = request.file, request.output, request.format
    suffix = output.suffix.lower().lstrip(".") if output is not None else ""
    if output is not None and format is None and suffix in CHAPTER_FORMATS:
        chapters = f"{mention('output', output.stem)} {mention('format', suffix)}"
        raise InvalidInputError(
            f"a book in one file is an m4b, not {output.name}",
            hint=f"{mention('output', f'{output.stem}.m4b')}, or {chapters} for a file for each"
            " chapter.",
        )
    format = format or BOOK_FORMAT
    if format in CHAPTER_FORMATS:
        if suffix == BOOK_FORMAT:
            raise InvalidInputError(
                f"{output} is the name of a file, and {format} is a file for each chapter",
                hint=f"Name a folder with {mention('output')}, or leave {mention('format')} out.",
            )
        return output or Path(source.stem), format
    if output is None:
        return Path(f"{source.stem}.m4b"), format
    if output.is_dir():
        return output / f"{source.stem}.m4b", format
    if output.suffix.lower() in BOOK_ENDINGS:
        return output, format
    return output.with_name(f"{output.name}.m4b"), format  # `Vol. 2` has no suffix


def check_target(request: BookRequest, target: BookTarget) -> None:
    """Check that the book can be written as requested, before hours of work."""
    from anyrig.speech.sound.encode import FORMATS, check_bitrate

    encoding = FORMATS["m4a" if target.is_whole else target.format]
    if target.bitrate is not None and encoding.bitrate:
        check_bitrate(encoding, target.bitrate)
    for path in (target.path, target.read_along_path):
        if path.exists() and path.samefile(request.file):
            raise InvalidInputError(
                f"{path} is the book itself", hint=f"Name another file with {mention('output')}."
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
    """Check that the disks hold what will be written; the error names the one that does not.

    Args:
        request: the book.
        target: its files.
        audio_s: about how long it will be.
        to_make_s: how much of that is not cached.
        sample_rate: of the takes.
        cache_folder: where takes are cached.
    """
    from anyrig.speech.sound.encode import FORMATS

    encoding = FORMATS["m4a" if target.is_whole else target.format]
    per_second = (target.bitrate or encoding.bitrate) / 8 or sample_rate * 2
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
                hint=f"Free some space, name another place with {mention('output')}, or make some"
                f" {mention('chapters')} first.",
            )


def _find_existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


# -- recording -----------------------------------------------------------------------------------


def record_book(
    request: BookRequest,
    target: BookTarget,
    engine: EngineChoice,
    plan: Plan,
    studio: Studio,
    cache: Cache,
    on_event: OnEvent,
) -> BookResult:
    """Make the takes that are missing and write the files.

    Args:
        request: the book.
        target: its files.
        engine: that reads it.
        plan: what is spoken.
        studio: makes takes, with `cache` behind it.
        cache: where takes are cached.
        on_event: receives progress.

    Raises:
        UnfinishedBookError: passages could not be spoken, and the request does not allow gaps.
    """
    from anyrig.audiobooks.make import Rests, record
    from anyrig.audiobooks.progress import Whole

    began = time.monotonic()
    on_progress = Whole(lambda progress: on_event(_to_event(progress)))
    with cache.pin_for_job(target.job):
        again = [_find_segment(plan, chapter, number) for chapter, number in _list_again(request)]
        _make_again(studio, again)
        recorded = record(
            plan, studio, target_lufs=target.loudness,
            rests=Rests(request.rest_before, request.rest_after), anew=request.fresh,
            tell=on_progress,
        )  # fmt: skip
        if recorded.lacks and not request.allow_gaps:
            raise _unfinished(recorded.lacks, plan, on_event)
        written = _write_files(request, target, plan, studio, recorded, on_progress, began)
    for warning in written.warnings:
        on_event(WarningEvent(warning))
    return BookResult(
        written.files, written.beside, target, engine, plan, recorded.timeline, recorded.tally,
        tuple(recorded.lacks), time.monotonic() - began,
        # Those that were made again were in the cache before they were recorded.
        num_cached=max(0, recorded.tally.num_kept - len(set(_list_again(request)))),
    )  # fmt: skip


def _to_event(progress: Progress) -> BookProgressEvent:
    return BookProgressEvent(
        progress.stage, round(progress.done * _PROGRESS_STEPS), _PROGRESS_STEPS, progress.title,
        progress.audio_s, chapter=progress.chapter, num_chapters=progress.num_chapters,
        segment=progress.segment, num_segments=progress.num_segments, wall_s=progress.wall_s,
        speed=progress.speed, left_s=progress.left_s, devices=progress.devices,
    )  # fmt: skip


def check_again(request: BookRequest) -> None:
    _list_again(request)
    if request.again and request.fresh:
        raise InvalidInputError(
            f"{mention('again')} and {mention('fresh')} were both given",
            hint="Give one of them.",
        )


def _list_again(request: BookRequest) -> list[tuple[int, int]]:
    """The chapters and segments to make again, both from 1."""
    found = []
    for text in (part.strip() for entry in request.again for part in entry.split(",")):
        chapter, _, segment = text.partition(":")
        if not (chapter.isdecimal() and segment.isdecimal()):
            raise InvalidInputError(
                f"{mention('again')} must be chapter:segment, not {text!r}", hint="Such as 3:17."
            )
        found.append((int(chapter), int(segment)))
    return found


def _find_segment(plan: Plan, chapter: int, number: int) -> Segment:
    part = next((part for part in plan.parts if part.number == chapter), None)
    if part is None:
        raise InvalidInputError(
            f"chapter {chapter} is not one of those that are read",
            hint=f"{mention('list')} shows the chapters.",
        )
    count = len(part.script.segments)
    if not 1 <= number <= count:
        raise InvalidInputError(
            f"chapter {chapter} has no segment {number}; it has {count}",
            hint=f"`anyrig book FILE --list --chapters {chapter}` shows them with their numbers.",
        )
    return part.script.segments[number - 1]


def _make_again(studio: Studio, segments: Sequence[Segment]) -> None:
    """Make other takes of segments that somebody did not like."""
    for spoken in studio.again(list(segments)) if segments else ():
        failure = spoken.failure
        if failure is not None or spoken.hopeless:
            reason = failure.message if failure is not None else "; ".join(spoken.problems)
            raise WorkError(
                f"{' '.join(spoken.segment.text.split())[:60]!r} could not be made again: {reason}",
                hint=(failure.hint if failure else "") or "The previous take is kept.",
            )


def _unfinished(lacks: Sequence[Lack], plan: Plan, on_event: OnEvent) -> UnfinishedBookError:
    places = [(plan.parts[lack.part].number, lack.segment + 1) for lack in lacks]
    on_event(
        BookUnfinishedEvent([
            {"chapter": chapter, "segment": segment, "text": lack.text, "said": lack.said,
             "hint": lack.hint}
            for (chapter, segment), lack in zip(places, lacks, strict=True)
        ])
    )  # fmt: skip
    named = [
        f"\n  {chapter}:{segment} {lack.text[:60]!r}: {lack.said}"
        for (chapter, segment), lack in zip(places, lacks[:_MAX_PASSAGES], strict=False)
    ]
    more = f"\n  and {len(lacks) - len(named)} more" if len(lacks) > len(named) else ""
    return UnfinishedBookError(
        f"{pluralize(len(lacks), 'passage')} could not be spoken; all others are cached:"
        f"{''.join(named)}{more}",
        hint="Run the same again to retry only those;"
        f" {mention('allow_gaps')} writes the book with silence in their place.",
    )


def list_problems(result: BookResult) -> Iterator[str]:
    """Takes that may sound wrong, with how to make them again, and gaps."""
    parts = result.plan.parts
    places = [
        (part.number, number)
        for part in parts
        for number in range(1, len(part.script.segments) + 1)
    ]
    gaps = {(parts[lack.part].number, lack.segment + 1): lack for lack in result.gaps}
    doubtful = [one for one in result.tally.doubtful if places[one.index] not in gaps]
    for spoken in doubtful[:_MAX_WARNINGS]:
        chapter, number = places[spoken.index]
        text = " ".join(spoken.segment.text.split())[:50]
        again = mention("again", f"{chapter}:{number}")
        yield f"{'; '.join(spoken.problems)}: {text!r} ({again} makes it again)"
    if len(doubtful) > _MAX_WARNINGS:
        more = pluralize(len(doubtful) - _MAX_WARNINGS, "more segment")
        yield f"{more} may sound wrong; {mention('json')} lists them all"
    for (chapter, number), lack in gaps.items():
        yield f"gap at {chapter}:{number}, {lack.text[:50]!r}: {lack.said}"


# -- writing ---------------------------------------------------------------------------------------


def _write_files(
    request: BookRequest,
    target: BookTarget,
    plan: Plan,
    studio: Studio,
    recorded: Recorded,
    on_progress: Tell,
    began: float,
) -> _WrittenBook:
    """Write the book, and what was requested beside it.

    Args:
        request: the book.
        target: its files.
        plan: what is spoken.
        studio: where the takes come from.
        recorded: the times and gains of all takes.
        on_progress: receives how far the writing is.
        began: when the work began, by `time.monotonic`.
    """
    from anyrig.audiobooks.make import sound
    from anyrig.audiobooks.write import write_book, write_chapters

    timeline, tags, cover = recorded.timeline, build_tags(target, plan), plan.document.cover
    on_written = _follow_writing(plan, timeline, on_progress, began)
    parts = sound(plan, studio, recorded, ceiling_dbtp=target.ceiling_dbtp)
    if target.is_whole:
        written = write_book(
            target.path, parts, timeline, tags, cover, bitrate=target.bitrate, tell=on_written
        )
    else:
        written = write_chapters(
            target.path, parts, timeline, tags, cover, format=target.format,
            tracks=_number_tracks(request, plan), bitrate=target.bitrate, tell=on_written,
        )  # fmt: skip
    beside = _write_captions(request, target, timeline, written.files)
    if written.playlist is not None:
        beside.append(written.playlist)
    if request.read_along:
        beside.append(_write_read_along(target, plan, studio, recorded, written.files))
    return _WrittenBook(written.files, tuple(beside), written.warnings)


def build_tags(target: BookTarget, plan: Plan) -> Tags:
    from anyrig.audiobooks.tags import Tags

    about = plan.document.about
    return Tags(
        title=about.title, author=", ".join(about.authors), narrator=target.narrator,
        series=about.series, series_index=about.series_index, year=about.year,
        language=about.language or plan.main, description=about.description,
        publisher=about.publisher,
    )  # fmt: skip


def _number_tracks(request: BookRequest, plan: Plan) -> Tracks:
    """Number and name chapters as in the whole book, so that one of them can be written again."""
    from anyrig.audiobooks.names import Tracks, chapter_titles
    from anyrig.audiobooks.plan import chosen, title_of
    from anyrig.audiobooks.timeline import Mark

    chapters = plan.document.chapters
    every = chosen(plan.document, "", request.ways)
    marks = [Mark(title_of(chapters[n], n + 1), 0, 0, chapters[n].level) for n in every]
    known = dict(zip(every, enumerate(chapter_titles(marks), 1), strict=True))
    found = [known.get(part.number - 1, (part.number, part.title)) for part in plan.parts]
    silent = {part.number - 1 for part in plan.silent}
    return Tracks(
        tuple(number for number, _ in found), tuple(title for _, title in found),
        len(found) if not request.chapters else len(set(every) - silent),
    )  # fmt: skip


def _write_captions(
    request: BookRequest, target: BookTarget, timeline: Timeline, files: Sequence[Path]
) -> list[Path]:
    from anyrig.audiobooks.captions import write_captions, write_chapter_captions

    if not request.captions:
        return []
    if target.is_whole:
        return list(write_captions(files[0], timeline, request.captions))
    return list(write_chapter_captions(files, timeline, request.captions))


def _write_read_along(
    target: BookTarget, plan: Plan, studio: Studio, recorded: Recorded, files: Sequence[Path]
) -> Path:
    """Write the EPUB that is read along; its audio is a file for each chapter."""
    from anyrig.audiobooks.make import sound
    from anyrig.audiobooks.readalong import write_readalong
    from anyrig.audiobooks.write import write_chapters
    from anyrig.speech.sound.beside import clear_leftovers, folder_beside

    path = target.read_along_path
    clear_leftovers(path)
    with folder_beside(path) as folder:
        audio = files
        if target.format not in ("mp3", "m4a"):  # what every reader of EPUB 3 plays
            audio = write_chapters(
                folder, sound(plan, studio, recorded, ceiling_dbtp=target.ceiling_dbtp),
                recorded.timeline, build_tags(target, plan), format="m4a", bitrate=target.bitrate,
            ).files  # fmt: skip
        write_readalong(path, plan, recorded.timeline, audio, narrator=target.narrator)
    return path


def _follow_writing(
    plan: Plan, timeline: Timeline, on_progress: Tell, began: float
) -> Callable[[float], None]:
    """Turn the share that the encoder reports into progress."""
    from anyrig.audiobooks.progress import Progress

    since, ends = time.monotonic(), [mark.end for mark in timeline.marks]

    def on_written(done: float) -> None:
        now = time.monotonic()
        chapter = min(bisect_right(ends, done * timeline.num_samples), len(plan.parts) - 1)
        left_s = (now - since) / done * (1 - done) if done else None
        speed = done * timeline.duration_s / (now - since) if now > since else None
        on_progress(
            Progress(
                "writing",
                done,
                chapter + 1,
                len(plan.parts),
                plan.parts[chapter].title,
                plan.num_segments,
                plan.num_segments,
                timeline.duration_s,
                now - began,
                speed,
                left_s,
            )  # fmt: skip
        )

    return on_written
