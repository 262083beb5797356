"""Single chapters of a book as audio files: of one that is being made, and of a finished one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app.cache import open_cache
from anyrig.app.speech import place_engine
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.app.books import BookRequest, PlannedBook
    from anyrig.app.rig import Rig
    from anyrig.audio.samples import Samples
    from anyrig.audiobooks.record import CachedTakes, Timeline
    from anyrig.storage.cache import Cache

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
    from anyrig.app.books import resolve_target
    from anyrig.audiobooks.metadata import build_tags
    from anyrig.audiobooks.record import record, stream_audio

    parts = tuple(part for part in book.plan.parts if part.number == number)
    if not parts:
        raise InvalidInputError(
            f"chapter {number} of the book is not read", hint="See the job's chapters."
        )
    plan = replace(book.plan, parts=parts, silent=())
    target = resolve_target(rig, request)
    with open_cache(rig) as cache:
        takes = _find_takes(rig, request, book, cache, check_cancelled)
        recording = record(
            plan, takes, loudness_lufs=target.loudness, pauses=request.chapter_pauses
        )
        samples = stream_audio(plan, takes, recording, ceiling_dbtp=target.ceiling_dbtp)
        title = f"{build_tags(plan).title}: {parts[0].title}"
        _write_chapter(file, samples, takes.rate, title)
    return recording.timeline.duration_s


def load_timeline(rig: Rig, request: BookRequest, book: PlannedBook) -> Timeline:
    """When each segment of a finished book is heard, by its cached takes; those that are missing
    are gaps. The request must be the one that made the book.
    """
    from anyrig.audiobooks.record import record

    with open_cache(rig) as cache:
        takes = _find_takes(rig, request, book, cache, lambda: None, allow_missing=True)
        recording = record(book.plan, takes, loudness_lufs=0.0, pauses=request.chapter_pauses)
    if len(recording.missing) == book.plan.num_segments:
        raise InvalidInputError(
            "no take of this book is cached on this machine",
            hint="Pass the options that it was made with, or make it again: then its takes are"
            " cached. Books of other programs cannot be verified.",
        )
    return recording.timeline


def _find_takes(
    rig: Rig,
    request: BookRequest,
    book: PlannedBook,
    cache: Cache | None,
    check_cancelled: CheckCancelled,
    *,
    allow_missing: bool = False,
) -> CachedTakes:
    from anyrig.audiobooks.record import CachedTakes
    from anyrig.speech.engine import resolve_options
    from anyrig.speech.takes import TakeCache, precision_class

    info, found = book.engine.info, book.engine.weights
    size = sum(chapter.num_characters for chapter in book.plan.document.chapters)
    precision = precision_class(place_engine(rig, request, book.engine, size).placements)
    options = resolve_options(info, book.engine.options)
    takes = TakeCache(info, found, precision, options, cache)
    return CachedTakes(takes, found.sample_rate, check_cancelled, allow_missing)


def extract_chapter(book: Path, track: int, file: Path, check_cancelled: CheckCancelled) -> float:
    """Write a chapter (from 0) of a finished m4b to a file; returns its duration in seconds."""
    from anyrig.audio.decode import open_audio

    with open_audio(book) as audio:
        marks = audio.chapters
        if not 0 <= track < len(marks):
            raise InvalidInputError("the book has no such chapter", hint="See the job's chapters.")
        mark = marks[track]

        def read() -> Iterator[Samples]:
            for samples in audio.read(mark.start, mark.end):
                check_cancelled()
                yield samples

        _write_chapter(file, read(), audio.rate, mark.title)
        return (mark.end - mark.start) / audio.rate


def _write_chapter(file: Path, parts: Iterable[Samples], rate: int, title: str) -> None:
    from anyrig.audio.encode import open_encoder

    file.parent.mkdir(parents=True, exist_ok=True)
    with open_encoder(file, CHAPTER_FORMAT, rate, tags={"title": title}) as output:
        for samples in parts:
            output.write(samples)
