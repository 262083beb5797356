"""A finished book as sound: its chapters, and its samples in parts that never fill the memory.

A folder is a book of one file per chapter; how a file is opened is in `listen_files.py`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.audiobooks.listen_files import About, Opened, opened
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.audiobooks.listen_files import Block

ENDINGS = (".m4b", ".m4a", ".mp4", ".mp3", ".opus", ".ogg", ".flac", ".wav")
_BLOCK_S = 4.0


@dataclass(frozen=True)
class Track:
    """A chapter, as the file has it."""

    title: str
    file: Path
    start: int
    """In samples of that file."""
    end: int
    offset_s: float
    """When it begins in the whole book."""
    rate: int

    @property
    def duration_s(self) -> float:
        """How long it is."""
        return (self.end - self.start) / self.rate


@dataclass(frozen=True)
class Finished:
    """A finished book: a file with chapters, or a folder of files."""

    path: Path
    tracks: tuple[Track, ...]
    """At least one; a file without chapters is one of its own."""
    marked: bool
    """Whether the chapters were marked, by the file or by being files."""
    codec: str
    rate: int
    channels: int
    bitrate: int
    """Bits a second; 0 where it says nothing of the sound."""

    @property
    def duration_s(self) -> float:
        """Of the whole."""
        return self.tracks[-1].offset_s + self.tracks[-1].duration_s


def finished(path: Path) -> Finished:
    """What a finished book holds; InvalidInputError when it is no sound that can be read."""
    path = Path(path)
    files = _files(path)
    tracks: list[Track] = []
    offset_s, size = 0.0, 0
    first: About | None = None
    for file in files:
        with contextlib.closing(opened(file)) as sound:
            about = sound.about()
        first = first or about
        found = _tracks(file, about, offset_s, alone=len(files) > 1 or path.is_dir())
        offset_s += about.num_samples / about.rate
        size += file.stat().st_size
        tracks += found
    assert first is not None
    bitrate = round(8 * size / offset_s) if offset_s else 0
    marked = path.is_dir() or bool(first.marks)
    return Finished(path, tuple(tracks), marked, first.codec, first.rate, first.channels, bitrate)


def blocks(book: Finished) -> Iterator[tuple[int, Block]]:
    """All of it from beginning to end, each block with the number of its track from 0."""
    with contextlib.closing(Reader()) as reader:
        for number, track in enumerate(book.tracks):
            size = round(_BLOCK_S * track.rate)
            for block in _together(reader.read(track.file, track.start, track.end), size):
                yield number, block


def _together(parts: Iterator[Block], size: int) -> Iterator[Block]:
    """Parts joined to blocks of `size` samples and more: frames of a codec are very short."""
    import numpy as np

    held: list[Block] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= size:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


class Reader:
    """Reads stretches of files; the file that was read last stays open."""

    def __init__(self) -> None:
        self._open: Opened | None = None
        self._file: Path | None = None

    def read(self, file: Path, start: int, end: int) -> Iterator[Block]:
        """The samples of a file from `start` to `end`, in parts."""
        if self._open is None or self._file != file:
            self.close()
            self._open, self._file = opened(file), file
        yield from self._open.read(start, end)

    def mono(self, track: Track, start_s: float, end_s: float) -> Samples:
        """A stretch of a track, in seconds from its beginning, as one channel."""
        import numpy as np

        start = track.start + max(0, round(start_s * track.rate))
        end = min(track.end, track.start + round(end_s * track.rate))
        parts = [block.mean(axis=1) for block in self.read(track.file, start, end)]
        made: Samples = np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)
        return made.astype(np.float32, copy=False)

    def close(self) -> None:
        """Close what is open."""
        if self._open is not None:
            self._open.close()
        self._open = self._file = None


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise InvalidInputError(
            f"there is no {path}", hint="Name a finished book, or a folder of them."
        )
    if not path.is_dir():
        return [path]
    listed = [one for one in path.iterdir() if one.is_file() and not one.name.startswith(".")]
    kinds = {one.suffix.lower() for one in listed if one.suffix.lower() in ENDINGS}
    if not kinds:
        raise InvalidInputError(
            f"{path} contains no audio", hint=f"Chapters end in {', '.join(ENDINGS)}."
        )
    if len(kinds) > 1:
        raise InvalidInputError(
            f"{path} contains audio of several kinds: {', '.join(sorted(kinds))}",
            hint="Put the chapters of one book into a folder of their own.",
        )
    return sorted((one for one in listed if one.suffix.lower() in kinds), key=_natural)


def _natural(path: Path) -> tuple[tuple[int, str], ...]:
    """`chapter 2` before `chapter 10`."""
    pieces = re.findall(r"\d+|\D+", path.stem.lower())
    return tuple((int(one), "") if one.isdecimal() else (1 << 60, one) for one in pieces)


def _tracks(file: Path, about: About, offset_s: float, *, alone: bool) -> list[Track]:
    """Args: alone: the file is one chapter of a book of files, whatever marks it has."""
    rate, whole = about.rate, about.num_samples
    if alone or not about.marks:
        title = about.title if alone and about.title else _from_name(file)
        return [Track(title, file, 0, whole, offset_s, rate)]
    made = []
    for at, (title, start_s) in enumerate(about.marks):
        # What lies before the first mark and after the last belongs to them, so nothing is unheard.
        start = 0 if at == 0 else min(whole, round(start_s * rate))
        following = about.marks[at + 1][1] if at + 1 < len(about.marks) else None
        end = whole if following is None else min(whole, round(following * rate))
        made.append(Track(title, file, start, max(start, end), offset_s + start / rate, rate))
    return made


def _from_name(file: Path) -> str:
    """`03 - The Pool of Tears` is called `The Pool of Tears`."""
    return re.sub(r"^\d+\s*[-_. ]\s*", "", file.stem).strip() or file.stem
