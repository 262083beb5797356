"""A finished book as sound: its chapters, and its samples in parts that never fill the memory.

m4b, m4a and mp4 are opened by PyAV, which honours the edit list, so that sample 0 is the first one
a listener hears. So are mp3s: libsndfile reads them too, but complains on the terminal about frames
that its own encoder wrote. wav, flac and Ogg go through libsndfile. A folder is a book of one file
per chapter.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from anyrig.errors import BadInput, MissingPackage

if TYPE_CHECKING:
    import numpy as np
    from av import AudioFrame
    from numpy.typing import NDArray

    from anyrig.speech.audio import Samples

    Block = NDArray[np.float32]
    """Samples by channels, -1 to 1; what a lossy format overshoots is kept."""

ENDINGS = (".m4b", ".m4a", ".mp4", ".mp3", ".opus", ".ogg", ".flac", ".wav")
_AV = (".m4b", ".m4a", ".mp4")
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


@dataclass(frozen=True)
class About:
    """What one file of sound says of itself."""

    codec: str
    rate: int
    channels: int
    num_samples: int
    title: str = ""
    marks: tuple[tuple[str, float], ...] = ()
    """Title of each chapter, and when it begins in seconds."""


class Opened(Protocol):
    """One file of sound that is open."""

    def about(self) -> About:
        """What it says of itself, and how long it really is."""

    def read(self, start: int, end: int) -> Iterator[Block]:
        """The samples from `start` to `end`, in parts."""

    def close(self) -> None:
        """Let it go."""


def finished(path: Path) -> Finished:
    """What a finished book holds; BadInput when it is no sound that can be read."""
    path = Path(path)
    files = _files(path)
    tracks: list[Track] = []
    offset_s, size = 0.0, 0
    first: About | None = None
    for file in files:
        with contextlib.closing(_open(file)) as opened:
            about = opened.about()
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
            self._open, self._file = _open(file), file
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
        raise BadInput(f"there is no {path}", hint="Name a finished book, or a folder of them.")
    if not path.is_dir():
        return [path]
    listed = [one for one in path.iterdir() if one.is_file() and not one.name.startswith(".")]
    kinds = {one.suffix.lower() for one in listed if one.suffix.lower() in ENDINGS}
    if not kinds:
        raise BadInput(f"{path} holds no sound", hint=f"Chapters end in {', '.join(ENDINGS)}.")
    if len(kinds) > 1:
        raise BadInput(
            f"{path} holds sound of several kinds: {', '.join(sorted(kinds))}",
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


def _open(file: Path) -> Opened:
    ending = file.suffix.lower()
    if ending == ".mp3":
        return _Mp3(file)
    return _Av(file) if ending in _AV else _Libsndfile(file)


def _unreadable(file: Path, why: object) -> BadInput:
    return BadInput(
        f"{file.name} cannot be read as sound: {why}",
        hint="Play it to see whether it is whole; if not, make it again.",
    )


class _Libsndfile:
    """wav, flac, Ogg Opus."""

    def __init__(self, file: Path) -> None:
        import soundfile

        try:
            self._sound = soundfile.SoundFile(file)
        except (soundfile.LibsndfileError, OSError) as error:
            raise _unreadable(file, error) from error
        self._file = file
        sound = self._sound
        codec = (sound.subtype if sound.subtype in ("OPUS", "VORBIS") else sound.format).lower()
        self._about = About(
            codec, sound.samplerate, sound.channels, sound.frames, sound.title or ""
        )

    def about(self) -> About:
        if not self._about.num_samples:
            raise _unreadable(self._file, "there is nothing in it")
        return self._about

    def read(self, start: int, end: int) -> Iterator[Block]:
        import soundfile

        size = round(_BLOCK_S * self._about.rate)
        try:
            self._sound.seek(start)
            while start < end:
                block = self._sound.read(min(size, end - start), dtype="float32", always_2d=True)
                if not len(block):
                    raise _unreadable(self._file, f"it ends after {start} samples of {end}")
                start += len(block)
                yield block
        except soundfile.LibsndfileError as error:
            raise _unreadable(self._file, error) from error

    def close(self) -> None:
        self._sound.close()


class _Av:
    """AAC in mp4, whose index leads to any sample."""

    def __init__(self, file: Path) -> None:
        try:
            import av
        except ImportError as error:
            raise MissingPackage(
                f"{file.name} needs the package av to be read", hint="pip install av"
            ) from error
        self._av, self._file = av, file
        try:
            self._container = av.open(str(file))
        except (av.FFmpegError, OSError) as error:
            raise _unreadable(file, error) from error
        streams = self._container.streams.audio
        if not streams:
            self._container.close()
            raise _unreadable(file, "there is no sound in it")
        self._stream = streams[0]
        self._rate = int(self._stream.codec_context.sample_rate)

    def about(self) -> About:
        marks = tuple(
            (str(mark["metadata"].get("title", "")), mark["start"] * float(mark["time_base"] or 0))
            for mark in self._container.chapters()
        )
        whole = self._count()
        if not whole:
            raise _unreadable(self._file, "there is nothing in it")
        context = self._stream.codec_context
        title = str(self._container.metadata.get("title", ""))
        return About(
            context.name.removesuffix("float"),
            self._rate,
            int(context.channels),
            whole,
            title,
            marks,
        )

    def _count(self) -> int:
        """How many samples there are: counted, as a file that was cut says that it is longer."""
        base, last = float(self._stream.time_base or 0), 0
        try:
            for packet in self._container.demux(self._stream):
                if packet.pts is not None:
                    last = max(last, packet.pts + (packet.duration or 0))
        except (self._av.FFmpegError, OSError) as error:
            raise _unreadable(self._file, error) from error
        return round(last * base * self._rate)

    def read(self, start: int, end: int) -> Iterator[Block]:
        rate = self._rate
        base = self._stream.time_base
        assert base is not None
        # A second early: the decoder needs the frames before to give the right ones.
        early = max(0, start - rate)
        try:
            self._container.seek(int(early / rate / base), stream=self._stream, backward=True)
            for frame in self._container.decode(self._stream):
                if frame.pts is None:
                    continue
                first = round(frame.pts * float(base) * rate)
                if first >= end:
                    return
                if first + frame.samples <= start:
                    continue
                yield _rows(frame.to_ndarray(), frame)[max(0, start - first) : end - first]
        except (self._av.FFmpegError, OSError) as error:
            raise _unreadable(self._file, error) from error

    def close(self) -> None:
        self._container.close()


class _Mp3(_Av):
    """An mp3 has no index that is exact, so it is read from its beginning, forwards."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._place = 0
        self._held: Block | None = None
        self._stretch = self._frames()

    def _count(self) -> int:
        whole = sum(frame.samples for frame in self._frames())
        self._again()
        return whole

    def read(self, start: int, end: int) -> Iterator[Block]:
        if start < self._place:
            self._again()
        while self._place < end:
            block = self._next()
            if block is None:
                return
            first, last = self._place, self._place + len(block)
            if last > end:  # the next stretch may begin within it
                self._held, self._place = block[end - first :], end
            else:
                self._place = last
            if last > start:
                yield block[max(0, start - first) : end - first]

    def _next(self) -> Block | None:
        held, self._held = self._held, None
        if held is not None:
            return held
        frame = next(self._stretch, None)
        return None if frame is None else _rows(frame.to_ndarray(), frame)

    def _frames(self) -> Iterator[AudioFrame]:
        try:
            yield from self._container.decode(self._stream)
        except (self._av.FFmpegError, OSError) as error:
            raise _unreadable(self._file, error) from error

    def _again(self) -> None:
        self._container.close()
        super().__init__(self._file)
        self._place, self._held = 0, None
        self._stretch = self._frames()


def _rows(samples: NDArray[Any], frame: AudioFrame) -> Block:
    """A decoded frame as samples by channels between -1 and 1."""
    import numpy as np

    if not frame.format.is_planar:
        samples = samples.reshape(-1, len(frame.layout.channels))
    else:
        samples = samples.T
    if samples.dtype.kind == "f":
        return samples.astype(np.float32, copy=False)
    return (samples / np.iinfo(str(samples.dtype)).max).astype(np.float32)
