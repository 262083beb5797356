"""One file of sound, opened: what it says of itself, and any stretch of its samples.

m4b, m4a and mp4 are opened by PyAV, which honours the edit list, so that sample 0 is the first one
a listener hears. So are mp3s: libsndfile reads them too, but complains on the terminal about frames
that its own encoder wrote. wav, flac and Ogg go through libsndfile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from anyrig.errors import InvalidInputError, MissingPackageError
from anyrig.install import format_install

if TYPE_CHECKING:
    import numpy as np
    from av import AudioFrame
    from numpy.typing import NDArray

    Block = NDArray[np.float32]
    """Samples by channels, -1 to 1; what a lossy format overshoots is kept."""

_AV = (".m4b", ".m4a", ".mp4")
_BLOCK_S = 4.0


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


def opened(file: Path) -> Opened:
    """A file, by the ending of its name."""
    ending = file.suffix.lower()
    if ending == ".mp3":
        return _Mp3(file)
    return _Av(file) if ending in _AV else _Libsndfile(file)


def _unreadable(file: Path, why: object) -> InvalidInputError:
    return InvalidInputError(
        f"{file.name} is not a readable audio file: {why}",
        hint="Check that it plays; if not, make it again.",
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
            raise _unreadable(self._file, "it has no audio data")
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
            raise MissingPackageError(
                f"{file.name} needs the package av to be read", hint=format_install("av")
            ) from error
        self._av, self._file = av, file
        try:
            self._container = av.open(str(file))
        except (av.FFmpegError, OSError) as error:
            raise _unreadable(file, error) from error
        streams = self._container.streams.audio
        if not streams:
            self._container.close()
            raise _unreadable(file, "it has no audio stream")
        self._stream = streams[0]
        self._rate = int(self._stream.codec_context.sample_rate)

    def about(self) -> About:
        marks = tuple(
            (str(mark["metadata"].get("title", "")), mark["start"] * float(mark["time_base"] or 0))
            for mark in self._container.chapters()
        )
        whole = self._count()
        if not whole:
            raise _unreadable(self._file, "it has no audio data")
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
