"""Audio files of any format as samples, through PyAV.

    with open_audio(path) as file:
        for block in file.blocks():       # one channel, 16,000 samples a second
            ...

Files are read a few seconds at a time, so ten hours of audio are never in memory. A file that is
damaged is read as far as it goes, and `warnings` says so; one without audio is an
InvalidInputError. Playlists (HLS, concat) are refused: nothing but the file itself is opened.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from anyrig.audio import SPEECH_RATE
from anyrig.audio.samples import Samples
from anyrig.audio.tags import ChapterMark
from anyrig.errors import InvalidInputError
from anyrig.units import format_bytes, format_duration

if TYPE_CHECKING:
    import av

SUFFIXES = tuple(
    ".wav .flac .mp3 .ogg .oga .opus .m4a .m4b .mp4 .aac .webm .mkv .mka .mov .wma .aif .aiff .aifc"
    " .caf .amr .3gp .au .w64 .wv .avi .mpg .mpeg .ac3 .mp2".split()
)
"""What counts as audio in a folder; a file that is named is opened anyway."""
_FORMATS = (
    "wav,w64,aiff,caf,au,flac,ogg,mp3,aac,mov,mp4,m4a,matroska,webm,asf,avi,amr,ac3,eac3,mpegts,"
    "mpeg,flv,wv,ape,tta,voc,gsm,dsf,loas,mp2"
)
_BLOCK_S = 4.0
_MAX_GAP_S = 3600.0
_MIN_SHORTFALL_S = 0.1
# Their headers count samples; others estimate by the bit rate, or by the length of the pictures.
_EXACT_FORMATS = ("flac", "aiff", "au")
_MIN_RATE, _MAX_RATE = 2_000, 768_000
# Any file may have so much audio, and more as its size allows: speech at the lowest bit rates has
# 100 bytes a second, silence in the best formats 20.
_ALWAYS_S, _MIN_BYTES_PER_S = 600.0, 20.0
_MAX_BAD_PACKETS = 1000
_HEADER_BYTES = 1 << 16


def open_audio(source: Path | BinaryIO, name: str = "") -> AudioFile:
    """Open a file, or an open file with its bytes; the caller closes it.

    Args:
        source: a path, or bytes that can be sought.
        name: what messages call it; the file's own name if empty.
    """
    if isinstance(source, Path):
        name = name or source.name
        if not source.is_file():
            problem = "is a folder" if source.is_dir() else "does not exist"
            raise InvalidInputError(f"{source} {problem}", hint="Pass an audio file.")
        if not source.stat().st_size:
            raise InvalidInputError(f"{name} is empty", hint="Pass an audio file.")
    return AudioFile(source, name or "the recording")


class AudioFile:
    """An open audio file. Channels are averaged: the library's own mix is louder than either."""

    def __init__(self, source: Path | BinaryIO, name: str) -> None:
        import av

        self.name = name
        self.warnings: list[str] = []
        """What was wrong with it, as far as it was read."""
        self._error = av.FFmpegError
        self._owned = isinstance(source, Path)
        self._file = source.open("rb") if isinstance(source, Path) else source
        self._num_bytes = self._file.seek(0, 2)
        shortfall = _find_wav_shortfall(self._file)
        if shortfall is not None:
            self._warn_truncated(*shortfall)
        self._open_container()
        self.rate = int(self._stream.rate or 0)
        try:
            _check_rate(self.rate, name)
        except InvalidInputError:
            self.close()
            raise
        self.codec = str(self._stream.codec_context.name).removesuffix("float")
        # Ogg has its tags in the stream.
        tags = {**self._container.metadata, **self._stream.metadata}
        self.title = next((str(tags[key]) for key in tags if key.lower() == "title"), "")
        length_us = self._container.duration
        self.duration_s = length_us / 1e6 if length_us and 0 < length_us < 1e15 else None
        """What the header says; None where it says nothing, or what cannot be."""
        self._max_s = _ALWAYS_S + self._num_bytes / _MIN_BYTES_PER_S
        if (self.duration_s or 0.0) > self._max_s:
            self.duration_s = None

    def _open_container(self) -> None:
        import av

        self._file.seek(0)
        self._is_fresh = True
        try:
            self._container = av.open(
                self._file, "r", options={"format_whitelist": _FORMATS}, metadata_errors="replace"
            )
        except (av.FFmpegError, OSError, ValueError) as error:
            self._close_file()
            raise _unreadable_error(self.name, "its format is not supported") from error
        if not self._container.streams.audio:
            self.close()
            raise _unreadable_error(self.name, "it has no audio stream")
        self._stream = self._container.streams.audio[0]

    @property
    def _has_index(self) -> bool:
        """Whether a sample's place in the file is known exactly."""
        return "mp4" in self._container.format.name

    @property
    def bitrate(self) -> int:
        """Bits a second of the whole file; 0 if its length is unknown."""
        return round(8 * self._num_bytes / self.duration_s) if self.duration_s else 0

    @property
    def chapters(self) -> tuple[ChapterMark, ...]:
        """In samples at `rate`."""
        return tuple(
            ChapterMark(
                str(mark["metadata"].get("title", "")),
                round(mark["start"] * (mark["time_base"] or 0) * self.rate),
                round(mark["end"] * (mark["time_base"] or 0) * self.rate),
            )
            for mark in self._container.chapters()
        )

    def blocks(self) -> Iterator[Samples]:
        """All of it at `SPEECH_RATE`, seconds at a time: finite, -1 to 1, gaps as silence."""
        pending: list[Samples] = []
        size = 0
        for part in self._read_at(SPEECH_RATE):
            pending.append(part)
            size += len(part)
            if size >= _BLOCK_S * SPEECH_RATE:
                yield _replace_invalid_samples(np.concatenate(pending))
                pending, size = [], 0
        if size:
            yield _replace_invalid_samples(np.concatenate(pending))

    def read(self, start: int = 0, end: int | None = None) -> Iterator[Samples]:
        """The samples from `start` to `end` at the file's own rate, in parts.

        mp4 is entered near `start`; other formats have no exact index and are read up to it.
        """
        base = float(self._stream.time_base or 0)
        # A second early: the decoder needs the frames before to give the right ones.
        early_s = max(0.0, start / self.rate - 1.0) if self._has_index else 0.0
        place = 0
        try:
            if self._has_index:
                self._container.seek(round(early_s / base), stream=self._stream, backward=True)
            elif not self._is_fresh:  # after a seek, Opus begins some samples late
                self._container.close()
                self._open_container()
            self._is_fresh = False
            convert = _Converter(None)
            for frame in self._container.decode(self._stream):
                for made in convert.feed(frame):
                    samples = _average_channels(made)
                    if self._has_index and frame.pts is not None:
                        place = round(frame.pts * base * self.rate)
                    if end is not None and place >= end:
                        return
                    if place + len(samples) > start:
                        stop = None if end is None else end - place
                        yield samples[max(0, start - place) : stop]
                    place += len(samples)
        except (self._error, OSError, ValueError) as error:
            raise _unreadable_error(self.name, error) from error

    def read_spans(self, spans: Sequence[tuple[int, int]]) -> Iterator[Samples]:
        """Several stretches, in order of their starts, each as a whole."""
        if self._has_index:
            for start, end in spans:
                yield np.concatenate([np.zeros(0, np.float32), *self.read(start, end)])
            return
        parts, pending, place = self.read(), np.zeros(0, np.float32), 0
        for start, end in spans:
            while place + len(pending) < end and (part := next(parts, None)) is not None:
                gone = min(max(0, start - place), len(pending))
                pending, place = np.concatenate([pending[gone:], part]), place + gone
            yield pending[max(0, start - place) : max(0, end - place)]

    def close(self) -> None:
        self._container.close()
        self._close_file()

    def __enter__(self) -> AudioFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_file(self) -> None:
        if self._owned:
            self._file.close()

    def _read_at(self, rate: int) -> Iterator[Samples]:
        convert, clock = _Converter(rate), _Clock(rate, self._container.start_time)
        try:
            for frame in self._decode_packets():
                _check_rate(frame.sample_rate, self.name)
                made = map(_average_channels, convert.feed(frame))
                for part in chain(clock.fill_gap(frame), made):
                    yield self._check(clock.count(part), clock)
            for part in map(_average_channels, convert.finish()):
                yield self._check(clock.count(part), clock)
        except (self._error, OSError, ValueError) as error:
            if not clock.num_samples:
                raise _unreadable_error(self.name, error) from error
            reason = str(error).splitlines()[0][:120]
            self.warnings.append(
                f"{self.name}: decoding stopped after {clock.seconds:.1f} s: {reason}"
            )
        if not clock.num_samples:
            raise _unreadable_error(self.name, "it has no audio data")
        exact = self._container.format.name in _EXACT_FORMATS and not self.warnings
        if exact and self.duration_s and self.duration_s - clock.seconds > _MIN_SHORTFALL_S:
            self._warn_truncated(self.duration_s, clock.seconds)

    def _check(self, part: Samples, clock: _Clock) -> Samples:
        if clock.seconds > self._max_s:
            raise InvalidInputError(
                f"{self.name} has {format_duration(clock.seconds)} of audio or more in only "
                f"{format_bytes(self._num_bytes)}",
                hint="Its header may be wrong. Convert it to wav or flac.",
            )
        return part

    def _decode_packets(self) -> Iterator[av.AudioFrame]:
        """Packets that cannot be decoded are left out and counted."""
        num_bad = 0
        for packet in self._container.demux(self._stream):
            try:
                yield from packet.decode()
            except self._error:
                num_bad += 1
                if num_bad > _MAX_BAD_PACKETS:
                    raise
        if num_bad:
            self.warnings.append(f"{self.name}: skipped {num_bad} damaged packets")

    def _warn_truncated(self, header_s: float, actual_s: float) -> None:
        self.warnings.append(
            f"{self.name} is truncated: {actual_s:.1f} s of the {header_s:.1f} s in its header"
        )


class _Converter:
    """Frames as packed floats at one rate; a stream may change its form on the way."""

    def __init__(self, rate: int | None) -> None:
        self._rate = rate
        self._resampler: av.AudioResampler | None = None
        self._kind: tuple[object, ...] = ()

    def feed(self, frame: av.AudioFrame) -> Iterator[av.AudioFrame]:
        import av

        kind = (frame.format.name, frame.layout.name, frame.sample_rate)
        if self._resampler is None or kind != self._kind:
            yield from self.finish()
            # Not planar: PyAV 18 reads past the planes of a frame of 8 channels.
            self._resampler = av.AudioResampler(
                format="flt", layout=frame.layout, rate=self._rate or frame.sample_rate
            )
            self._kind = kind
        yield from self._resampler.resample(frame)

    def finish(self) -> Iterator[av.AudioFrame]:
        if self._resampler is not None:
            yield from self._resampler.resample(None)


class _Clock:
    """Keeps samples at the times that the file gives them: gaps are filled with silence."""

    def __init__(self, rate: int, start_us: int | None) -> None:
        self._rate, self._start_s = rate, (start_us or 0) / 1e6
        self._expected_s = 0.0
        self.num_samples = 0

    @property
    def seconds(self) -> float:
        return self.num_samples / self._rate

    def fill_gap(self, frame: av.AudioFrame) -> Iterator[Samples]:
        """Silence before a frame that begins later than the one before it ended."""
        now_s = self._expected_s if frame.time is None else frame.time - self._start_s
        if 0.1 < now_s - self._expected_s < _MAX_GAP_S:
            left, block = round((now_s - self._expected_s) * self._rate), round(4 * self._rate)
            while left > 0:
                yield np.zeros(min(left, block), np.float32)
                left -= block
            self._expected_s = now_s
        self._expected_s += frame.samples / frame.sample_rate if frame.sample_rate else 0.0

    def count(self, part: Samples) -> Samples:
        self.num_samples += len(part)
        return part


def _average_channels(frame: av.AudioFrame) -> Samples:
    rows = frame.to_ndarray().reshape(frame.samples, -1)
    samples: Samples = rows.mean(axis=1, dtype=np.float32)
    return samples


def _replace_invalid_samples(samples: Samples) -> Samples:
    if not np.isfinite(samples).all():
        samples = np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0)
    return samples.clip(-1.0, 1.0)


def _check_rate(rate: int, name: str) -> None:
    if not _MIN_RATE <= rate <= _MAX_RATE:
        raise _unreadable_error(
            name, f"its sample rate is {rate:,} Hz; supported are {_MIN_RATE:,} to {_MAX_RATE:,}"
        )


def _unreadable_error(name: str, reason: object) -> InvalidInputError:
    first = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
    return InvalidInputError(
        f"{name} is not a readable audio file: {first[:200]}",
        hint="Check that it plays. Formats include wav, flac, mp3, ogg, opus, m4a, mp4 and webm.",
    )


def _find_wav_shortfall(file: BinaryIO) -> tuple[float, float] | None:
    """Seconds that the header of a truncated WAV promises, and that are there.

    Decoders take what is there for the whole: a recording of which half was copied looks complete.
    """
    with contextlib.suppress(OSError, struct.error):
        num_bytes = file.seek(0, 2)
        file.seek(0)
        kind, _, form = struct.unpack("<4sI4s", file.read(12))
        if kind not in (b"RIFF", b"RF64") or form != b"WAVE":
            return None
        rate = long_size = 0
        while (start := file.tell() + 8) < _HEADER_BYTES:
            name, size = struct.unpack("<4sI", file.read(8))
            if name == b"ds64":  # the sizes of files over 4 GiB
                long_size = struct.unpack("<QQ", file.read(16))[1]
            elif name == b"fmt ":
                rate = struct.unpack("<HHII", file.read(12))[3]
            elif name == b"data":
                promised_s, actual_s = (
                    n / max(1, rate) for n in (long_size or size, num_bytes - start)
                )
                unknown = not rate or _is_unknown_size(long_size or size)
                short = promised_s - actual_s >= _MIN_SHORTFALL_S
                return (promised_s, actual_s) if short and not unknown else None
            file.seek(start + size + size % 2)
    return None


def _is_unknown_size(size: int) -> bool:
    """Whether a program wrote it that sends audio as it records, and cannot know the size."""
    return size == 0 or 0x7FFF_F000 <= size <= 0x8000_0100 or 0xFFFF_F000 <= size <= 0xFFFF_FFFF
