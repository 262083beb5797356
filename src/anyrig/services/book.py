"""A book, from its file to the finished audiobook: what every door calls.

    document = opened(order)
    plan = plan_of(document, terms, ...)
    made = make(order, plan, studio, store, tell=...)

What is made is kept in the store as it comes, under the order's name, so a run that was cut off is
resumed by ordering the same again.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.audiobooks.make import (
    CEILING_DBTP,
    POOR_BITS,
    POOR_DBTP,
    Lack,
    Recorded,
    Rests,
    record,
    sound,
)
from anyrig.audiobooks.progress import Progress, Tell, Whole
from anyrig.audiobooks.tags import Tags
from anyrig.audiobooks.ways import Ways
from anyrig.errors import InvalidInputError, WorkError
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.audiobooks.names import Tracks
    from anyrig.audiobooks.plan import Plan
    from anyrig.audiobooks.timeline import Timeline
    from anyrig.speech.script import Segment
    from anyrig.speech.synthesise import Studio
    from anyrig.storage.cache import Cache
    from anyrig.text.document import About, Document

Caption = Literal["srt", "vtt"]
BOOK_FORMATS = ("m4b",)
CHAPTER_FORMATS = ("mp3", "opus", "flac", "m4a", "wav")
_MOST_NAMED = 100  # --json has them all


@dataclass(frozen=True)
class Order:
    """What is wanted of a book."""

    source: Path
    output: Path
    """A file for a whole book, a folder for one file a chapter."""
    format: str = "m4b"
    """`m4b`, or what each chapter is written as: mp3, opus, flac, m4a, wav."""
    chapters: str = ""
    """Such as `3-7,9`; empty is all but covers and the like."""
    ways: Ways = field(default_factory=Ways)
    title: str = ""
    untitled: str = ""
    """What a book is called that does not say; its file's name, when empty."""
    author: str = ""
    narrator: str = ""
    language: str = ""
    cover: Path | None = None
    captions: tuple[Caption, ...] = ()
    readalong: bool = False
    target_lufs: float = -19.0
    bitrate: int | None = None
    rests: Rests = field(default_factory=Rests)
    allow_gaps: bool = False
    again: tuple[tuple[int, int], ...] = ()
    """Chapters and segments, both from 1, whose takes are made again."""
    fresh: bool = False

    @property
    def job(self) -> str:
        """What its takes are held under in the store."""
        return f"book {self.output.absolute()}"


@dataclass(frozen=True)
class Made:
    """A finished book."""

    files: tuple[Path, ...]
    beside: tuple[Path, ...]
    """Captions, the playlist, the read-along book."""
    timeline: Timeline
    recorded: Recorded
    wall_s: float
    warnings: tuple[str, ...] = ()


class UnfinishedBookError(WorkError):
    """Some passages could not be spoken, and the person has not allowed gaps."""

    def __init__(self, message: str, *, hint: str, lacks: Sequence[Lack] = ()) -> None:
        super().__init__(message, hint=hint)
        self.lacks = tuple(lacks)


def _unfinished(lacks: Sequence[Lack], plan: Plan) -> UnfinishedBookError:
    named = [
        f"{plan.parts[lack.part].number}:{lack.segment + 1} {lack.text[:60]!r}: {lack.said}"
        for lack in lacks[:_MOST_NAMED]
    ]
    more = len(lacks) - len(named)
    listed = "".join(f"\n  {line}" for line in named) + (f"\n  and {more} more" if more else "")
    return UnfinishedBookError(
        f"{pluralize(len(lacks), 'passage')} could not be spoken; all others are kept:{listed}",
        hint="Run the same command again to try only those; --allow-gaps writes the book "
        "with silence in their place.",
        lacks=lacks,
    )


def opened(order: Order) -> Document:
    """The book, its matter told apart, with what the order says of it."""
    from anyrig.audiobooks.cover import prepare
    from anyrig.text.document import Picture
    from anyrig.text.files import read
    from anyrig.text.matter import settle

    document = settle(read(order.source))
    about = document.about
    about = replace(
        about,
        title=order.title or about.title or order.untitled or order.source.stem,
        authors=(order.author,) if order.author else about.authors,
        language=order.language or about.language,
    )
    cover = document.cover
    if order.cover is not None:
        cover, said = prepare(Picture(_bytes(order.cover), _picture_type(order.cover)))
        if cover is None:
            raise InvalidInputError(f"{order.cover} is no picture that can be a cover: {said}",
                           hint="Give a JPEG or a PNG.")  # fmt: skip
    return replace(document, about=about, cover=cover)


def make(
    order: Order,
    plan: Plan,
    studio: Studio,
    store: Cache,
    *,
    tell: Tell | None = None,
) -> Made:
    """Make what is missing and write the book.

    `UnfinishedBookError` when passages could not be spoken.

    Args:
        order: what is wanted.
        plan: of the ordered book.
        studio: who speaks, with `store` behind it.
        store: where takes are kept.
        tell: is told how far it is.
    """
    began = time.monotonic()
    tell = None if tell is None else Whole(tell)
    with store.pin_for_job(order.job):
        if order.again:
            _make_again(order, plan, studio)
        recorded = record(
            plan, studio, target_lufs=order.target_lufs, rests=order.rests, anew=order.fresh,
            tell=tell,
        )  # fmt: skip
        if recorded.lacks and not order.allow_gaps:
            raise _unfinished(recorded.lacks, plan)
        files, beside, warnings = _write(order, plan, studio, recorded, tell, began)
    wall_s = time.monotonic() - began
    return Made(files, beside, recorded.timeline, recorded, wall_s, warnings)


def _make_again(order: Order, plan: Plan, studio: Studio) -> None:
    """Other takes of the segments that the person did not like."""
    wanted = [segment_at(plan, chapter, number) for chapter, number in order.again]
    for spoken in studio.again(wanted):
        failure = spoken.failure
        if failure is not None or spoken.hopeless:
            said = failure.message if failure is not None else "; ".join(spoken.problems)
            raise WorkError(
                f"{' '.join(spoken.segment.text.split())[:60]!r} could not be made again: {said}",
                hint=(failure.hint if failure else "") or "The take there was is still kept.",
            )


def segment_at(plan: Plan, chapter: int, number: int) -> Segment:
    """A segment by chapter and number, both counted from 1 as lists show them."""
    part = next((part for part in plan.parts if part.number == chapter), None)
    if part is None:
        raise InvalidInputError(
            f"there is no chapter {chapter} in what is spoken", hint="--list shows the chapters."
        )
    count = len(part.script.segments)
    if not 1 <= number <= count:
        raise InvalidInputError(
            f"chapter {chapter} has no segment {number}: it has {count}",
            hint=f"--list --chapters {chapter} shows them with their numbers.",
        )
    return part.script.segments[number - 1]


# -- writing ------------------------------------------------------------------------------------


def _write(
    order: Order,
    plan: Plan,
    studio: Studio,
    recorded: Recorded,
    tell: Tell | None,
    began: float,
) -> tuple[tuple[Path, ...], tuple[Path, ...], tuple[str, ...]]:
    from anyrig.audiobooks.write import write_book, write_chapters

    timeline, tags, cover = recorded.timeline, tags_of(order, plan), plan.document.cover
    told = _writing(plan, timeline, tell, began)
    parts = sound(plan, studio, recorded, ceiling_dbtp=ceiling_dbtp(order))
    if order.format in BOOK_FORMATS:
        written = write_book(
            order.output, parts, timeline, tags, cover, bitrate=order.bitrate, tell=told
        )
    else:
        written = write_chapters(
            order.output, parts, timeline, tags, cover, format=order.format,
            tracks=_tracks(order, plan), bitrate=order.bitrate, tell=told,
        )  # fmt: skip
    beside = [*_captions(order, timeline, written.files)]
    if written.playlist is not None:
        beside.append(written.playlist)
    if order.readalong:
        beside.append(_readalong(order, plan, studio, recorded, written.files))
    return written.files, tuple(beside), written.warnings


def _tracks(order: Order, plan: Plan) -> Tracks:
    """Chapters as they stand in the whole book, so that one of them can be written anew."""
    from anyrig.audiobooks.names import Tracks, chapter_titles
    from anyrig.audiobooks.plan import chosen, title_of
    from anyrig.audiobooks.timeline import Mark

    chapters = plan.document.chapters
    every = chosen(plan.document, "", order.ways)
    marks = [Mark(title_of(chapters[n], n + 1), 0, 0, chapters[n].level) for n in every]
    known = dict(zip(every, enumerate(chapter_titles(marks), 1), strict=True))
    found = [known.get(part.number - 1, (part.number, part.title)) for part in plan.parts]
    silent = {part.number - 1 for part in plan.silent}
    return Tracks(
        tuple(number for number, _ in found), tuple(title for _, title in found),
        len(found) if not order.chapters else len(set(every) - silent),
    )  # fmt: skip


def _captions(order: Order, timeline: Timeline, files: Sequence[Path]) -> list[Path]:
    from anyrig.audiobooks.captions import write_captions, write_chapter_captions

    if not order.captions:
        return []
    if order.format in BOOK_FORMATS:
        return list(write_captions(files[0], timeline, order.captions))
    return list(write_chapter_captions(files, timeline, order.captions))


def _readalong(
    order: Order, plan: Plan, studio: Studio, recorded: Recorded, files: Sequence[Path]
) -> Path:
    """The EPUB that is read along; its sound is a file for each chapter."""
    from anyrig.audiobooks.readalong import write_readalong
    from anyrig.audiobooks.write import write_chapters
    from anyrig.speech.sound.beside import clear_leftovers, folder_beside

    whole = order.format in BOOK_FORMATS
    path = readalong_path(order)
    clear_leftovers(path)
    with folder_beside(path) as folder:
        audio = files
        if whole or order.format not in ("mp3", "m4a"):  # what every reader of EPUB 3 plays
            audio = write_chapters(
                folder, sound(plan, studio, recorded, ceiling_dbtp=ceiling_dbtp(order)),
                recorded.timeline, tags_of(order, plan), format="m4a", bitrate=order.bitrate,
            ).files  # fmt: skip
        write_readalong(
            path, plan, recorded.timeline, audio, narrator=order.narrator,
        )  # fmt: skip
    return path


def ceiling_dbtp(order: Order) -> float:
    """What no peak may exceed before it is encoded."""
    return POOR_DBTP if order.bitrate and order.bitrate < POOR_BITS else CEILING_DBTP


def readalong_path(order: Order) -> Path:
    """Beside the book, or among the chapters."""
    if order.format in BOOK_FORMATS:
        return order.output.with_name(f"{order.output.stem}.readalong.epub")
    return order.output / f"{order.output.name}.readalong.epub"


def tags_of(order: Order, plan: Plan) -> Tags:
    """What the files say of the book."""
    about: About = plan.document.about
    return Tags(
        title=about.title, author=", ".join(about.authors), narrator=order.narrator,
        series=about.series, series_index=about.series_index, year=about.year,
        language=about.language or plan.main, description=about.description,
        publisher=about.publisher,
    )  # fmt: skip


def _writing(
    plan: Plan, timeline: Timeline, tell: Tell | None, began: float
) -> Callable[[float], None] | None:
    """Turns the encoder's share of done into progress."""
    if tell is None:
        return None
    since, ends = time.monotonic(), [mark.end for mark in timeline.marks]

    def told(done: float) -> None:
        now = time.monotonic()
        at = done * timeline.num_samples
        chapter = min(bisect_right(ends, at), len(plan.parts) - 1)
        left = (now - since) / done * (1 - done) if done else None
        speed = done * timeline.duration_s / (now - since) if now > since else None
        tell(
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
                left,
            )  # fmt: skip
        )

    return told


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"the cover {path} cannot be read: {error.strerror}", hint="Name another picture."
        ) from error


def _picture_type(path: Path) -> str:
    return "image/png" if path.suffix.lower() == ".png" else "image/jpeg"
