"""Samples to a file or a pipe: wav, flac, mp3, Ogg Opus, m4a, bare aac and raw samples.

A file is written beside its place and moved there when it is whole, so nobody ever finds half of
one. What goes to a pipe is sent as it is made; m4a cannot, as its index comes last.

    with encoder("out.mp3", rate=24000, tags={"title": "A tale"}) as out:
        for chunk in chunks:
            out.write(chunk.samples)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol

import numpy as np

from anyrig.audio.resample import Resampler
from anyrig.audio.samples import Samples
from anyrig.audio.tags import ChapterMark, Labels, cleaned
from anyrig.errors import InvalidInputError
from anyrig.storage.atomic_file import failed, open_beside
from anyrig.text.document import Picture

_MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
_AAC_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000)


@dataclass(frozen=True)
class Format:
    """A way to write sound."""

    name: str
    extensions: tuple[str, ...]
    rates: tuple[int, ...] = ()
    """What it takes; any when empty. Others are changed to the next higher."""
    bitrate: int = 0
    """In bits a second, unless another is asked for; 0 when it has none."""
    lowest: int = 0
    highest: int = 0
    pipe: bool = True
    """Whether it can be sent while it is made."""
    tags: bool = True


FORMATS = {
    made.name: made
    for made in (
        Format("wav", (".wav",)),
        Format("flac", (".flac",)),
        Format("mp3", (".mp3",), _MP3_RATES, 64_000, 8_000, 320_000),
        Format("opus", (".opus", ".ogg"), _OPUS_RATES, 32_000, 6_000, 256_000),
        Format("m4a", (".m4a", ".m4b", ".mp4"), _AAC_RATES, 64_000, 32_000, 320_000, pipe=False),
        Format("aac", (".aac",), _AAC_RATES, 64_000, 32_000, 320_000, tags=False),
        Format("pcm", (".pcm", ".raw"), tags=False),
    )
}


class Writer(Protocol):
    """What a format does with samples at its rate."""

    def write(self, samples: Samples) -> None:
        """Take samples."""

    def close(self) -> None:
        """End the file; the sink is not closed."""

    def drop(self) -> None:
        """Give up: free what is held; what was written is of no use."""


def format_of(path: str | Path) -> str:
    """The format that a file's name asks for."""
    ending = Path(path).suffix.lower()
    for made in FORMATS.values():
        if ending in made.extensions:
            return made.name
    what = f"unknown audio format {ending}" if ending else f"{path} has no suffix"
    listed = ", ".join(made.extensions[0] for made in FORMATS.values())
    raise InvalidInputError(f"{what}", hint=f"Use one of these suffixes: {listed}.")


def encoder(
    target: str | Path | BinaryIO,
    format: str | None = None,
    rate: int = 24000,
    *,
    bitrate: int | None = None,
    tags: Mapping[str, str] | None = None,
    picture: Picture | None = None,
    chapters: Sequence[ChapterMark] = (),
) -> Encoder:
    """A file or a pipe that takes samples.

    Args:
        target: a path, or something to write bytes to, which is not closed.
        format: of `FORMATS`; the path's ending tells it when None.
        rate: of the samples that will be given.
        bitrate: bits a second, for formats that have one.
        tags: of `labels.NAMES`: `title`, `artist` ... where the format has a place for it.
        picture: a JPEG or PNG; wav and pcm have no place for one.
        chapters: in samples at `rate`; m4a alone has a place for them.
    """
    if format is None:
        if not isinstance(target, (str, Path)):
            raise InvalidInputError("a pipe needs a format", hint=f"Formats: {', '.join(FORMATS)}.")
        format = format_of(target)
    if format not in FORMATS:
        raise InvalidInputError(f"no format {format!r}", hint=f"Valid names: {', '.join(FORMATS)}.")
    made = FORMATS[format]
    if bitrate is not None:
        check_bitrate(made, bitrate)
    if not 1000 <= rate <= 192_000:
        raise InvalidInputError(
            f"the sample rate must be between 1,000 and 192,000, not {rate}", hint="Resample it."
        )
    labels = Labels(cleaned(tags or {}), picture, tuple(chapters))
    return Encoder(target, made, rate, bitrate or made.bitrate, labels)


def check_bitrate(made: Format, bitrate: int) -> None:
    """That a format can be written so; `InvalidInputError` when not."""
    if not made.bitrate:
        lossy = ", ".join(other.name for other in FORMATS.values() if other.bitrate)
        raise InvalidInputError(f"{made.name} has no bitrate", hint=f"These have one: {lossy}.")
    if not made.lowest <= bitrate <= made.highest:
        low, high = made.lowest // 1000, made.highest // 1000
        raise InvalidInputError(
            f"{made.name} cannot have {bitrate:,} bits a second",
            hint=f"It goes from {low}k to {high}k.",
        )


class Encoder:
    """Takes samples; `close` puts the file in its place, `abort` leaves nothing behind."""

    def __init__(
        self,
        target: str | Path | BinaryIO,
        made: Format,
        rate: int,
        bitrate: int,
        labels: Labels,
    ) -> None:
        self.format = made
        self.num_samples = 0
        """How many it was given."""
        self._path, self._part, raw = _opened(target, made)
        self._raw = raw
        self._done = False
        written_rate = _rate(made, rate)
        self._change = Resampler(rate, written_rate) if written_rate != rate else None
        self.rate = written_rate
        """Of what is written."""
        self._sink = Sink(raw, seekable=self._part is not None)
        labels = _at_rate(labels, rate, written_rate)
        try:
            self._writer = _writer(made.name, self._sink, self._part, written_rate, bitrate, labels)
        except BaseException:
            self.abort()
            raise

    def write(self, samples: Samples) -> None:
        """Take samples: mono, -1 to 1; what is beyond is cut."""
        self.num_samples += len(samples)
        ready = np.asarray(samples, dtype=np.float32)
        self._put(self._change.feed(ready) if self._change else ready)

    def _put(self, samples: Samples) -> None:
        try:
            if len(samples):
                self._writer.write(np.clip(samples, -1.0, 1.0))
            self._sink.check()
            if self._part is None:
                self._raw.flush()  # somebody listens
        except OSError as error:
            self.abort()
            raise failed(error, self._path) from error
        except BaseException:
            self.abort()
            raise

    def close(self) -> None:
        """End it: the file is in its place, whole."""
        if self._done:
            return
        if self._change:
            self._put(self._change.finish())
        try:
            self._writer.close()
            self._sink.check()
            self._raw.flush()
            if self._path is not None:
                if self._part is not None:
                    os.fsync(self._raw.fileno())  # on the disk before it has the name
                self._raw.close()
                if self._part is not None:
                    os.replace(self._part, self._path)
        except OSError as error:
            self.abort()
            raise failed(error, self._path) from error
        except BaseException:
            self.abort()
            raise
        self._done = True

    def abort(self) -> None:
        """Give up: what was in the file's place before is still there, and nothing else."""
        if self._done:
            return
        self._done = True
        self._sink.dead = True
        writer: Writer | None = getattr(self, "_writer", None)
        if writer is not None:
            writer.drop()
        if self._path is not None:
            with contextlib.suppress(OSError):  # what was buffered for a full disk
                self._raw.close()
        if self._part is not None:
            self._part.unlink(missing_ok=True)

    def __enter__(self) -> Encoder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class Sink:
    """Where a writer's bytes go. Errors wait here, as libsndfile's callbacks would lose them.

    On a pipe, what a writer goes back to mend is dropped: the formats that are allowed there can
    be read without it.
    """

    def __init__(self, raw: BinaryIO, *, seekable: bool) -> None:
        self._raw = raw
        self.seekable = seekable
        self.dead = False
        self._place = self._end = self._front = 0
        self._error: OSError | None = None

    def begin(self, front: bytes) -> None:
        """Put something in front of all that the writer writes, which does not count it."""
        self.write(front)
        self._front = self._place
        self._place = self._end = 0

    def write(self, data: bytes) -> int:
        """All of it, or as though: `check` tells."""
        if self.dead or self._error is not None:
            return len(data)
        sent = bytes(data)
        if not self.seekable:
            sent = sent[max(0, self._end - self._place) :]
        try:
            while sent:  # a raw pipe may take a part of it
                sent = sent[self._raw.write(sent) or 0 :]
        except OSError as error:
            self._error = error
        self._place += len(data)
        self._end = max(self._end, self._place)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """As a file does."""
        base = (0, self._place, self._end)[whence]
        self._place = base + offset
        if self.seekable and not self.dead:
            self._raw.seek(self._front + self._place)
        return self._place

    def tell(self) -> int:
        """As a file does."""
        return self._place

    def read(self, count: int = -1) -> bytes:
        """Nothing: libsndfile asks for the method, and does not call it."""
        return b""

    def check(self) -> None:
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error


def _opened(
    target: str | Path | BinaryIO, made: Format
) -> tuple[Path | None, Path | None, BinaryIO]:
    """The path, the file beside it that is written first (None for a pipe), and what is open."""
    if not isinstance(target, (str, Path)):
        _needs_pipe(made)
        return None, None, target
    path = Path(os.path.realpath(target))
    try:
        if path.exists() and not path.is_file():
            if path.is_dir():
                raise InvalidInputError(f"{path} is a folder", hint="Name a file in it.")
            _needs_pipe(made)
            return path, None, open(path, "wb", buffering=0)
        return path, *open_beside(path)
    except OSError as error:
        raise failed(error, path) from error


def _needs_pipe(made: Format) -> None:
    if not made.pipe:
        able = ", ".join(other.name for other in FORMATS.values() if other.pipe)
        raise InvalidInputError(
            f"{made.name} cannot be written to a pipe: its index is at the end",
            hint=f"Write it to a file, or send one of: {able}.",
        )


def _rate(made: Format, rate: int) -> int:
    """The rate that is written: the next that the format takes."""
    if not made.rates or rate in made.rates:
        return rate
    higher = [known for known in made.rates if known > rate]
    return higher[0] if higher else made.rates[-1]


def _at_rate(labels: Labels, rate: int, written: int) -> Labels:
    """Chapters in samples of what is written, each rounded by itself, so that none drifts."""
    if rate == written or not labels.chapters:
        return labels
    moved = [
        ChapterMark(mark.title, *(round(place * written / rate) for place in mark[1:]))
        for mark in labels.chapters
    ]
    return replace(labels, chapters=tuple(moved))


def _writer(
    name: str,
    sink: Sink,
    part: Path | None,
    rate: int,
    bitrate: int,
    labels: Labels,
) -> Writer:
    if name == "m4a":
        from anyrig.audio.aac import aac_writer

        assert part is not None
        return aac_writer(part, rate, bitrate, labels)
    if name == "aac":
        from anyrig.audio.adts import Adts

        return Adts(sink, rate, bitrate)
    if name in ("wav", "pcm"):
        from anyrig.audio.wave import Pcm, Wave

        return Wave(sink, rate, labels.tags) if name == "wav" else Pcm(sink)
    from anyrig.audio.libsndfile import Libsndfile

    return Libsndfile(sink, name, rate, bitrate, labels)
