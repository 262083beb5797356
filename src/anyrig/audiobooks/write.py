"""A recorded book to files: one m4b with chapters, or a file for each chapter with a playlist.

    written = write(plan, recording, synthesizer, BookTarget(Path("book.m4b")))

Samples come in order, as many as the timeline says, and are never held: an hour's chapter costs no
more memory than a minute's. Each file is written beside its place and moved there when it is
whole; whatever goes wrong, what was there before is still there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.audio.encode import check_bitrate, open_encoder
from anyrig.audio.formats import FORMATS
from anyrig.audio.tags import ChapterMark
from anyrig.audiobooks.captions import write_captions, write_chapter_captions
from anyrig.audiobooks.metadata import (
    BookTags,
    Tracks,
    build_chapter_titles,
    build_file_names,
    build_tags,
    encode_tags,
    make_file_name,
    number_all_tracks,
    prepare_cover,
)
from anyrig.audiobooks.options import BOOK_FORMAT, CHAPTER_FORMATS
from anyrig.audiobooks.readalong import write_readalong
from anyrig.audiobooks.record import CEILING_DBTP, LOW_BITRATE, LOW_BITRATE_DBTP, stream_audio
from anyrig.errors import InvalidInputError, Message, OptionRef, StorageError, WorkError
from anyrig.storage.atomic_file import clear_leftovers, part_folder, write_file
from anyrig.units import format_bytes, format_duration

if TYPE_CHECKING:
    from anyrig.audio.formats import Format
    from anyrig.audio.samples import Samples
    from anyrig.audiobooks.plan import NarrationPlan
    from anyrig.audiobooks.progress import OverallProgress
    from anyrig.audiobooks.record import BookRecording, ChapterSpan, Timeline
    from anyrig.speech.synthesis import Synthesizer
    from anyrig.text.document import Picture

BOOK_ENDINGS = (".m4b", ".m4a", ".mp4")

OnWritten = Callable[[float], None]
"""Called with the share that is written, from 0 to 1."""
_CACHE_BYTES_PER_SAMPLE = 2  # takes are cached as 16-bit samples
_SPARE_BYTES = 64 << 20
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
    captions: tuple[Literal["srt", "vtt"], ...] = ()
    read_along: bool = False

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
        return FORMATS["m4a" if self.is_whole else self.format]

    @property
    def ceiling_dbtp(self) -> float:
        """What no peak may exceed before it is encoded."""
        is_low = self.bitrate and self.bitrate < LOW_BITRATE
        return LOW_BITRATE_DBTP if is_low else CEILING_DBTP

    @property
    def has_read_along_audio(self) -> bool:
        """Whether the book's own files are what every reader of EPUB 3 plays."""
        return self.format in ("mp3", "m4a")

    @property
    def read_along_weight(self) -> float:
        """What the read-along file takes, as a share of what writing the book takes."""
        if not self.read_along:
            return 0.0
        return 0.1 if self.has_read_along_audio else 1.0


# -- before the work -------------------------------------------------------------------------------


def resolve_output(source: Path, output: Path | None, format: str | None) -> tuple[Path, str]:
    """The file or folder that a book is written to, and its format."""
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


def check_target(target: BookTarget, source: Path) -> None:
    """Check that a book can be written as requested, before hours of work."""
    if target.bitrate is not None and target.encoding.bitrate:
        check_bitrate(target.encoding, target.bitrate)
    for path in (target.path, target.read_along_path):
        if path.exists() and path.samefile(source):
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
        beside = [target.path.with_suffix(f".{kind}") for kind in target.captions]
        for path in (target.path, *beside):
            if path.is_dir():
                raise InvalidInputError(
                    f"cannot write {path}: it is a folder", hint="Name another file."
                )
    if not target.path.is_file() and not os.access(folder, os.W_OK):
        raise InvalidInputError(
            f"cannot write into {folder}: permission denied", hint="Name another folder."
        )


def check_disk_space(
    target: BookTarget,
    *,
    audio_s: float,
    to_make_s: float,
    sample_rate: int,
    cache_folder: Path,
) -> None:
    """Check that the disks hold a book of about `audio_s`, of which `to_make_s` are not cached."""
    per_second = (target.bitrate or target.encoding.bitrate) / 8 or sample_rate * 2
    copies = 3 if target.read_along else 1  # the book, the EPUB, and what that is made from
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


# -- writing ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenBook:
    """The files of a book."""

    files: tuple[Path, ...]
    """The book, or its chapters in order."""
    extra_files: tuple[Path, ...] = ()
    """Captions, the playlist, the read-along EPUB."""
    warnings: tuple[str, ...] = ()


def write(
    plan: NarrationPlan,
    recording: BookRecording,
    synthesizer: Synthesizer,
    target: BookTarget,
    *,
    tracks: Tracks | None = None,
    progress: OverallProgress | None = None,
) -> WrittenBook:
    """Write a recorded book, with captions and the read-along EPUB where those are wanted.

    Args:
        plan: the book.
        recording: of it.
        synthesizer: that recorded it; its takes are read from the cache.
        target: where the book goes.
        tracks: which chapters of the whole book a file for each chapter has; all when None.
        progress: told how much is written.
    """
    timeline, tags = recording.timeline, build_tags(plan, target.narrator, target.genre)

    def stream() -> Iterator[Samples]:
        return stream_audio(plan, synthesizer, recording, ceiling_dbtp=target.ceiling_dbtp)

    def follow(stage: Literal["writing", "read-along"]) -> OnWritten | None:
        return progress.follow_writing(plan, timeline, stage) if progress is not None else None

    if target.is_whole:
        written = write_book(
            target.path, stream(), timeline, tags, plan.document.cover, bitrate=target.bitrate,
            on_written=follow("writing"),
        )  # fmt: skip
    else:
        written = write_chapters(
            target.path, stream(), timeline, tags, plan.document.cover, format=target.format,
            tracks=tracks, bitrate=target.bitrate, on_written=follow("writing"),
        )  # fmt: skip
    extra_files: list[Path] = []
    if target.captions and target.is_whole:
        extra_files += write_captions(written.files[0], timeline, target.captions)
    elif target.captions:
        extra_files += write_chapter_captions(written.files, timeline, target.captions)
    extra_files += written.extra_files
    if target.read_along:
        audio = written.files if target.has_read_along_audio else None
        _write_read_along(plan, timeline, target, tags, audio, stream, follow("read-along"))
        extra_files.append(target.read_along_path)
    return replace(written, extra_files=tuple(extra_files))


def _write_read_along(
    plan: NarrationPlan,
    timeline: Timeline,
    target: BookTarget,
    tags: BookTags,
    audio: Sequence[Path] | None,
    stream: Callable[[], Iterator[Samples]],
    on_written: OnWritten | None,
) -> None:
    """Write the EPUB that is read along; its audio is a file for each chapter."""
    path, report = target.read_along_path, on_written or (lambda done: None)
    clear_leftovers(path)
    report(0.0)
    with part_folder(path) as folder:
        if audio is None:
            audio = write_chapters(
                folder, stream(), timeline, tags, format="m4a", bitrate=target.bitrate,
                on_written=lambda done: report(_PACKING_FROM * done),
            ).files  # fmt: skip
        write_readalong(path, plan, timeline, audio, narrator=target.narrator)
    report(1.0)


def write_book(
    path: str | Path,
    parts: Iterable[Samples],
    timeline: Timeline,
    tags: BookTags,
    cover: Picture | None = None,
    *,
    bitrate: int | None = None,
    on_written: OnWritten | None = None,
) -> WrittenBook:
    """The whole book in one file, with marks that lie on the very sample.

    The path ends in `.m4b` (or `.m4a`, `.mp4`). The parts are the samples in order, at the
    timeline's rate and at the loudness they shall have; 64,000 bits a second unless told.
    """
    target = Path(path)
    if target.suffix.lower() not in BOOK_ENDINGS:
        raise InvalidInputError(
            f"{target.name} is not an m4b file", hint="Use a name that ends in .m4b."
        )
    clear_leftovers(target)
    picture, warning = prepare_cover(cover)
    with open_encoder(
        target, "m4a", timeline.rate,
        bitrate=bitrate, tags=encode_tags(tags), picture=picture, chapters=_build_marks(timeline),
    ) as out:  # fmt: skip
        for samples in _check_length(parts, timeline.num_samples, on_written):
            out.write(samples)
    return WrittenBook((target,), (), (warning,) if warning else ())


def write_chapters(
    folder: str | Path,
    parts: Iterable[Samples],
    timeline: Timeline,
    tags: BookTags,
    cover: Picture | None = None,
    *,
    format: str = "mp3",
    tracks: Tracks | None = None,
    bitrate: int | None = None,
    on_written: OnWritten | None = None,
) -> WrittenBook:
    """A file for each chapter; beside them, where they are all of the book, a playlist.

    The cover is a file of its own where the format cannot hold one.

    The folder is made if it is not there; files of the same names are replaced, others stay.
    The format is of `CHAPTER_FORMATS`. `tracks` says which chapters of the book these are; all of
    them when None.
    """
    if format not in CHAPTER_FORMATS:
        raise InvalidInputError(
            f"chapters cannot be written as {format!r}",
            hint=f"Valid formats: {', '.join(CHAPTER_FORMATS)}.",
        )
    tracks = tracks or number_all_tracks(timeline.chapters)
    paths = build_chapter_paths(folder, tracks, format)
    picture, warning = prepare_cover(cover)
    playlist = _make_folder(Path(folder)) / f"{make_file_name(tags.title or 'book')}.m3u8"
    clear_leftovers(playlist, *paths)
    stream = _ChapterSplitter(_check_length(parts, timeline.num_samples, on_written))
    rows = zip(paths, tracks.numbers, tracks.titles, timeline.chapters, strict=True)
    for path, number, title, mark in rows:
        labels = encode_tags(tags.for_chapter(title, number, tracks.num_all))
        with open_encoder(
            path, format, timeline.rate, tags=labels, picture=picture,
            bitrate=bitrate if FORMATS[format].bitrate else None,
        ) as out:  # fmt: skip
            for samples in stream.read_until(mark.end):
                out.write(samples)
            if not out.num_samples:
                out.write(_build_silence(timeline.rate))
    stream.finish()
    if picture is not None and not FORMATS[format].holds_cover:
        suffix = "png" if picture.media_type == "image/png" else "jpg"
        write_file(Path(folder) / f"cover.{suffix}", picture.data)
    if tracks.is_whole:
        write_file(playlist, _build_playlist(paths, tracks.titles, timeline))
    extra_files = (playlist,) if tracks.is_whole else ()
    return WrittenBook(tuple(paths), extra_files, (warning,) if warning else ())


def build_chapter_paths(folder: str | Path, tracks: Tracks, format: str) -> list[Path]:
    """Where each chapter's file goes: the same in every run with the same titles."""
    return [Path(folder) / f"{name}.{format}" for name in build_file_names(tracks)]


def _build_marks(timeline: Timeline) -> list[ChapterMark]:
    """The chapters that can be heard; the first begins with the book, as mp4 has it anyway."""
    titles = build_chapter_titles(timeline.chapters)
    found = [
        ChapterMark(title, mark.start, mark.end)
        for title, mark in zip(titles, timeline.chapters, strict=True)
        if mark.end > mark.start
    ]
    return [found[0]._replace(start=0), *found[1:]] if found else []


def _check_length(
    parts: Iterable[Samples], expected: int, on_written: OnWritten | None
) -> Iterator[Samples]:
    """The parts; a book that is not as long as its timeline would have its marks elsewhere."""
    given = 0
    for samples in parts:
        given += len(samples)
        if given > expected:
            break
        yield samples
        if on_written is not None:
            on_written(given / expected)
    if given != expected:
        raise WorkError(
            f"the book has {given:,} samples where its timeline has {expected:,}",
            hint="Run the command again; if it happens again, please report it.",
        )


class _ChapterSplitter:
    """Parts that are cut where a chapter ends."""

    def __init__(self, parts: Iterator[Samples]) -> None:
        self._parts = parts
        self._rest: Samples | None = None
        self._place = 0

    def read_until(self, end: int) -> Iterator[Samples]:
        """What lies before that sample."""
        while self._place < end:
            samples = self._rest if self._rest is not None else next(self._parts, None)
            if samples is None:
                return
            left = end - self._place
            self._rest = samples[left:] if len(samples) > left else None
            self._place += min(left, len(samples))
            yield samples[:left]

    def finish(self) -> None:
        """Nothing may be left."""
        for _ in self._parts:
            pass


def _build_silence(rate: int) -> Samples:
    """A tenth of a second of silence: players refuse a file of nothing, and a chapter has one."""
    import numpy as np

    return np.zeros(rate // 10, dtype=np.float32)


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"cannot create {folder}: {error}", hint="Name another folder."
        ) from error
    return folder


def _build_playlist(paths: Sequence[Path], titles: Sequence[str], timeline: Timeline) -> str:
    """Extended M3U in UTF-8, names without folders, so that it may be moved with its files."""
    lines = ["#EXTM3U"]
    start = 0
    for path, title, mark in zip(paths, titles, timeline.chapters, strict=True):
        lines.append(f"#EXTINF:{_count_seconds(start, mark, timeline.rate)},{title}")
        lines.append(path.name)
        start = mark.end
    return "\n".join(lines) + "\n"


def _count_seconds(start: int, mark: ChapterSpan, rate: int) -> int:
    return round((mark.end - start) / rate)
