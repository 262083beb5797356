"""Listening to single chapters of a book while the rest of it is made, or of a finished one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.book_recording import build_tags
from anyrig.app.books import BookRequest, PlannedBook, resolve_target
from anyrig.app.cache import open_cache
from anyrig.app.speech import place_engine
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.audiobooks.make import Recorded
    from anyrig.speech.maker import Spoken
    from anyrig.speech.script import Segment
    from anyrig.speech.shelf import Shelf
    from anyrig.speech.stage import Names
    from anyrig.speech.synthesise import Tally

FORMAT = "mp3"
"""Every browser plays it."""
CheckCancelled = Callable[[], None]


def write_cached_chapter(
    rig: Rig,
    request: BookRequest,
    book: PlannedBook,
    number: int,
    file: Path,
    check_cancelled: CheckCancelled,
) -> float:
    """Write a chapter whose takes are all cached; returns its duration in seconds.

    Args:
        rig: the machine.
        request: that makes the book: its takes are found under the same names.
        book: its plan.
        number: of the chapter, from 1.
        file: to write.
        check_cancelled: called between steps; raises if nobody waits for the file any more.
    """
    from anyrig.audiobooks.make import Rests, record, sound
    from anyrig.speech.shelf import Shelf
    from anyrig.speech.stage import Names

    parts = tuple(part for part in book.plan.parts if part.number == number)
    if not parts:
        raise InvalidInputError(
            f"chapter {number} of the book is not read", hint="See the job's chapters."
        )
    plan = replace(book.plan, parts=parts, silent=())
    target = resolve_target(rig, request)
    engine = book.engine
    size = sum(chapter.num_characters for chapter in plan.document.chapters)
    names = Names(
        engine.name, engine.found, place_engine(rig, request, engine, size), engine.options
    )
    with open_cache(rig) as cache:
        shelf = Shelf(cache, engine.found.engine)
        takes: Any = _CachedTakes(names, shelf, engine.found.sample_rate, check_cancelled)
        rests = Rests(request.rest_before, request.rest_after)
        recorded: Recorded = record(plan, takes, target_lufs=target.loudness, rests=rests)
        samples = sound(plan, takes, recorded, ceiling_dbtp=target.ceiling_dbtp)
        title = f"{build_tags(target, plan).title}: {parts[0].title}"
        _write(file, samples, takes.rate, title)
    return recorded.timeline.duration_s


class _CachedTakes:
    """Gives takes from the cache in the place of a synthesizer, and makes none."""

    def __init__(
        self, names: Names, shelf: Shelf, rate: int, check_cancelled: CheckCancelled
    ) -> None:
        self._names, self._shelf, self.rate = names, shelf, rate
        self._check_cancelled = check_cancelled

    def num_kept(self, segments: Sequence[Segment]) -> int:
        return sum(len(segment.line.text) for segment in segments)

    def takes(
        self, segments: Sequence[Segment], *, tally: Tally | None = None, anew: bool = False
    ) -> Generator[Spoken]:
        from anyrig.speech.maker import Spoken

        for index, segment in enumerate(segments):
            self._check_cancelled()
            kept = self._shelf.find(self._names.key(segment.line))
            if kept is None:
                raise InvalidInputError(
                    "the chapter is not finished", hint="Try again when the job is past it."
                )
            spoken = Spoken(index, segment, kept.take, kept.problems, kept=True)
            if tally is not None:
                tally.add(spoken)
            yield spoken


def extract_chapter(book: Path, track: int, file: Path, check_cancelled: CheckCancelled) -> float:
    """Write a chapter of a finished book to a file; returns its duration in seconds.

    Args:
        book: the m4b.
        track: of the chapter, from 0.
        file: to write.
        check_cancelled: see `write_cached_chapter`.
    """
    from anyrig.audiobooks.listen import Reader, finished

    tracks = finished(book).tracks
    if not 0 <= track < len(tracks):
        raise InvalidInputError("the book has no such chapter", hint="See the job's chapters.")
    part = tracks[track]

    def read() -> Iterator[Any]:
        for block in reader.read(part.file, part.start, part.end):
            check_cancelled()
            yield block.mean(axis=1)

    with closing(Reader()) as reader:
        _write(file, read(), part.rate, part.title)
    return part.duration_s


def _write(file: Path, parts: Iterable[Any], rate: int, title: str) -> None:
    from anyrig.speech.sound.encode import encoder

    file.parent.mkdir(parents=True, exist_ok=True)
    with encoder(file, FORMAT, rate, tags={"title": title}) as output:
        for samples in parts:
            output.write(samples)
