"""Single chapters of a book as audio files: of one that is being made, and of a finished one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.cache import open_cache
from anyrig.app.speech import place_engine
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.app.books import BookRequest, PlannedBook
    from anyrig.app.rig import Rig
    from anyrig.audio.samples import Samples
    from anyrig.speech.segment import Segment
    from anyrig.speech.synthesis import SpokenSegment
    from anyrig.speech.takes import TakeCache

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
        recording = record(
            plan, takes, loudness_lufs=target.loudness, pauses=request.chapter_pauses
        )
        samples = stream_audio(plan, takes, recording, ceiling_dbtp=target.ceiling_dbtp)
        title = f"{build_tags(plan).title}: {parts[0].title}"
        _write_chapter(file, samples, found.sample_rate, title)
    return recording.timeline.duration_s


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
