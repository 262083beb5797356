"""Finished sound to files: one m4b with chapters, or a file for each chapter with a playlist.

Samples come in order, as many as the timeline says, and are never held: an hour's chapter costs no
more memory than a minute's. Each file is written beside its place and moved there when it is
whole; whatever goes wrong, what was there before is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.audio.tags import ChapterMark
from anyrig.audiobooks.metadata import (
    FILE_PATTERN,
    BookTags,
    Tracks,
    build_chapter_titles,
    build_file_names,
    encode_tags,
    make_file_name,
    number_all_tracks,
    prepare_cover,
)
from anyrig.errors import InvalidInputError, WorkError
from anyrig.storage.atomic_file import clear_leftovers, explain_write_error
from anyrig.storage.files import write_atomic

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.audiobooks.timeline import Mark, Timeline
    from anyrig.text.document import Picture

CHAPTER_FORMATS = ("mp3", "opus", "flac", "m4a", "wav")
BOOK_ENDINGS = (".m4b", ".m4a", ".mp4")

Tell = Callable[[float], None]
"""Is told how much is done, from 0 to 1."""


@dataclass(frozen=True)
class Written:
    """What was written."""

    files: tuple[Path, ...]
    """The book, or its chapters in order."""
    playlist: Path | None = None
    warnings: tuple[str, ...] = ()

    @property
    def num_bytes(self) -> int:
        """Of all files together."""
        return sum(path.stat().st_size for path in self.files)


def write_book(
    path: str | Path,
    parts: Iterable[Samples],
    timeline: Timeline,
    tags: BookTags,
    cover: Picture | None = None,
    *,
    bitrate: int | None = None,
    tell: Tell | None = None,
) -> Written:
    """The whole book in one file, with marks that lie on the very sample.

    The path ends in `.m4b` (or `.m4a`, `.mp4`). The parts are the samples in order, at the
    timeline's rate and at the loudness they shall have; 64,000 bits a second unless told.
    """
    from anyrig.audio.encode import open_encoder

    target = Path(path)
    if target.suffix.lower() not in BOOK_ENDINGS:
        raise InvalidInputError(
            f"{target.name} is not an m4b file", hint="Use a name that ends in .m4b."
        )
    clear_leftovers(target)
    picture, warning = prepare_cover(cover)
    with open_encoder(
        target, "m4a", timeline.rate,
        bitrate=bitrate, tags=encode_tags(tags), picture=picture, chapters=_marks(timeline),
    ) as out:  # fmt: skip
        for samples in _watched(parts, timeline.num_samples, tell):
            out.write(samples)
    return Written((target,), None, (warning,) if warning else ())


def write_chapters(
    folder: str | Path,
    parts: Iterable[Samples],
    timeline: Timeline,
    tags: BookTags,
    cover: Picture | None = None,
    *,
    format: str = "mp3",
    pattern: str = FILE_PATTERN,
    tracks: Tracks | None = None,
    bitrate: int | None = None,
    tell: Tell | None = None,
) -> Written:
    """A file for each chapter; beside them, where they are all of the book, a playlist.

    The cover is a file of its own where the format cannot hold one.

    The folder is made if it is not there; files of the same names are replaced, others stay.
    The format is of `CHAPTER_FORMATS`; `names.file_names` says what a pattern may hold. `tracks`
    says which chapters of the book these are; all of them when None.
    """
    from anyrig.audio.encode import FORMATS, open_encoder

    if format not in CHAPTER_FORMATS:
        raise InvalidInputError(
            f"chapters cannot be written as {format!r}",
            hint=f"Valid formats: {', '.join(CHAPTER_FORMATS)}.",
        )
    tracks = tracks or number_all_tracks(timeline.marks)
    paths = chapter_paths(folder, tracks, tags, format=format, pattern=pattern)
    picture, warning = prepare_cover(cover)
    playlist = _folder(Path(folder)) / f"{make_file_name(tags.title or 'book')}.m3u8"
    clear_leftovers(playlist, *paths)
    stream = _Stream(_watched(parts, timeline.num_samples, tell))
    rows = zip(paths, tracks.numbers, tracks.titles, timeline.marks, strict=True)
    for path, number, title, mark in rows:
        labels = encode_tags(tags.for_chapter(title, number, tracks.num_all))
        with open_encoder(
            path, format, timeline.rate, tags=labels, picture=picture,
            bitrate=bitrate if FORMATS[format].bitrate else None,
        ) as out:  # fmt: skip
            for samples in stream.upto(mark.end):
                out.write(samples)
            if not out.num_samples:
                out.write(_moment(timeline.rate))
    stream.finish()
    if picture is not None and not FORMATS[format].holds_cover:
        suffix = "png" if picture.media_type == "image/png" else "jpg"
        _put(Path(folder) / f"cover.{suffix}", picture.data)
    if tracks.is_whole:
        _put(playlist, _playlist(paths, tracks.titles, timeline))
    warnings = (warning,) if warning else ()
    return Written(tuple(paths), playlist if tracks.is_whole else None, warnings)


def chapter_paths(
    folder: str | Path, tracks: Tracks, tags: BookTags, *, format: str, pattern: str = FILE_PATTERN
) -> list[Path]:
    """Where each chapter's file goes: the same in every run with the same titles."""
    about = {"book": tags.title, "author": tags.author}
    names = build_file_names(tracks, pattern, about)
    return [Path(folder) / f"{name}.{format}" for name in names]


def _marks(timeline: Timeline) -> list[ChapterMark]:
    """The chapters that can be heard; the first begins with the book, as mp4 has it anyway."""
    titles = build_chapter_titles(timeline.marks)
    found = [
        ChapterMark(title, mark.start, mark.end)
        for title, mark in zip(titles, timeline.marks, strict=True)
        if mark.end > mark.start
    ]
    return [found[0]._replace(start=0), *found[1:]] if found else []


def _watched(parts: Iterable[Samples], expected: int, tell: Tell | None) -> Iterator[Samples]:
    """The parts; a book that is not as long as its timeline would have its marks elsewhere."""
    given = 0
    for samples in parts:
        given += len(samples)
        if given > expected:
            break
        yield samples
        if tell is not None:
            tell(given / expected)
    if given != expected:
        raise WorkError(
            f"the book has {given:,} samples where its timeline has {expected:,}",
            hint="Run the command again; if it stays so, please report it with the book's name.",
        )


class _Stream:
    """Parts that are cut where a chapter ends."""

    def __init__(self, parts: Iterator[Samples]) -> None:
        self._parts = parts
        self._rest: Samples | None = None
        self._place = 0

    def upto(self, end: int) -> Iterator[Samples]:
        """What lies before that sample."""
        while self._place < end:
            samples = self._rest if self._rest is not None else next(self._parts, None)
            if samples is None:
                return
            room = end - self._place
            self._rest = samples[room:] if len(samples) > room else None
            self._place += min(room, len(samples))
            yield samples[:room]

    def finish(self) -> None:
        """Nothing may be left."""
        for _ in self._parts:
            pass


def _moment(rate: int) -> Samples:
    """A tenth of a second of silence: players refuse a file of nothing, and a chapter has one."""
    import numpy as np

    return np.zeros(rate // 10, dtype=np.float32)


def _folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"{folder} cannot be made: {error}", hint="Name another folder."
        ) from error
    return folder


def _playlist(paths: Sequence[Path], titles: Sequence[str], timeline: Timeline) -> str:
    """Extended M3U in UTF-8, names without folders, so that it may be moved with its files."""
    lines = ["#EXTM3U"]
    start = 0
    for path, title, mark in zip(paths, titles, timeline.marks, strict=True):
        lines.append(f"#EXTINF:{_seconds(start, mark, timeline.rate)},{title}")
        lines.append(path.name)
        start = mark.end
    return "\n".join(lines) + "\n"


def _seconds(start: int, mark: Mark, rate: int) -> int:
    return round((mark.end - start) / rate)


def _put(path: Path, content: str | bytes) -> None:
    try:
        write_atomic(path, content)
    except OSError as error:
        raise explain_write_error(error, path) from error
