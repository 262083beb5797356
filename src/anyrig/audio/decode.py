"""Any file of sound as a stream: one channel, 16,000 samples a second, a few seconds at a time.

PyAV opens nearly everything and changes the rate as well; libsndfile stands in for the plain
formats where it is not installed, and an `ffmpeg` program for the others. Ten hours of sound are
never in memory. A file that is damaged on its way is heard as far as it goes, and that is told.
Lists of other files (HLS, concat) are refused: nothing but the file itself is opened.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Protocol

from anyrig.audio.riff import cut_short
from anyrig.errors import InvalidInputError, MissingPackageError
from anyrig.install import format_install
from anyrig.units import format_bytes, format_duration

if TYPE_CHECKING:
    import av

    from anyrig.audio.samples import Samples

RATE = 16_000
"""Of what is decoded: speech recognition needs no more."""
ENDINGS = tuple(
    ".wav .flac .mp3 .ogg .oga .opus .m4a .m4b .mp4 .aac .webm .mkv .mka .mov .wma .aif .aiff .aifc"
    " .caf .amr .3gp .au .w64 .wv .avi .mpg .mpeg .ac3 .mp2".split()
)
"""What is taken for sound when a folder is given; a file that is named is opened anyway."""
_FORMATS = (
    "wav,w64,aiff,caf,au,flac,ogg,mp3,aac,mov,mp4,m4a,matroska,webm,asf,avi,amr,ac3,eac3,mpegts,"
    "mpeg,flv,wv,ape,tta,voc,gsm,dsf,loas,mp2"
)
_BLOCK = 4 * RATE
_LONGEST_GAP_S = 3600.0
# Their headers count samples; others guess by the bit rate, or tell how long the pictures last.
_EXACT = ("flac", "aiff", "au")
_WORTH_A_WORD_S = 0.1
_RATES = (2_000, 768_000)
"""Samples a second that a recording may have: a header can say anything."""
_ALWAYS_S, _LEAST_BYTES_A_SECOND = 600.0, 20.0
"""So much sound any file may have, and as much more as its size allows: speech at the lowest bit
rates has 100 bytes a second, silence in the best formats 20."""
_MOST_BAD = 1000


class _Decoder(Protocol):
    duration_s: float | None
    warnings: list[str]

    def parts(self) -> Iterator[Samples]: ...

    def close(self) -> None: ...


class Sound:
    """A file of sound that is open; its samples can be taken once."""

    def __init__(self, decoder: _Decoder, name: str, num_bytes: int) -> None:
        self.name = name
        self._decoder = decoder
        self._num_bytes = num_bytes
        self._most_s = _ALWAYS_S + num_bytes / _LEAST_BYTES_A_SECOND
        self.duration_s = decoder.duration_s
        """What the file says of itself; None where it says nothing, or what cannot be."""
        if (decoder.duration_s or 0.0) > self._most_s:
            self.duration_s = None

    @property
    def warnings(self) -> list[str]:
        """What was wrong with it so far."""
        return self._decoder.warnings

    def blocks(self) -> Iterator[Samples]:
        """All of it, in blocks of a few seconds; finite, and within -1 and 1."""
        import numpy as np

        held: list[Samples] = []
        size = total = 0
        for part in self._decoder.parts():
            held.append(part)
            size += len(part)
            total += len(part)
            self._check(total / RATE)
            if size >= _BLOCK:
                yield _sane(np.concatenate(held))
                held, size = [], 0
        if size:
            yield _sane(np.concatenate(held))

    def _check(self, seconds: float) -> None:
        if seconds > self._most_s:
            raise InvalidInputError(
                f"{self.name} has {format_duration(seconds)} of audio or more in only "
                f"{format_bytes(self._num_bytes)}",
                hint="Its header may be wrong. Convert it to wav or flac.",
            )

    def close(self) -> None:
        """Let it go."""
        self._decoder.close()

    def __enter__(self) -> Sound:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def opened(source: Path | BinaryIO, name: str = "") -> Sound:
    """A file of sound, or its bytes as an open file.

    InvalidInputError when there is no sound in it.
    """
    if isinstance(source, Path):
        name = name or source.name
        if not source.is_file():
            what = "is a folder" if source.is_dir() else "does not exist"
            raise InvalidInputError(f"{source} {what}", hint="Pass an audio file.")
        if not source.stat().st_size:
            raise InvalidInputError(f"{name} is empty", hint="Pass an audio file.")
    name = name or "the sound"
    num_bytes = source.stat().st_size if isinstance(source, Path) else source.seek(0, 2)
    if not isinstance(source, Path):
        source.seek(0)
    short = cut_short(source)  # now: a decoder reads on from where the file stands
    refusals = []
    for kind in (_Av, _Libsndfile, _Program):
        try:
            sound = Sound(kind(source, name), name, num_bytes)
        except (InvalidInputError, MissingPackageError) as error:
            refusals.append(error)
        else:
            sound.warnings.extend([_short(name, *short)] if short else [])
            return sound
        if not isinstance(source, Path):
            source.seek(0)
    raise next((e for e in refusals if isinstance(e, InvalidInputError)), refusals[0])


def _short(name: str, said_s: float, there_s: float) -> str:
    return f"{name} is truncated: {there_s:.1f} s of the {said_s:.1f} s in its header"


def _sane(samples: Samples) -> Samples:
    import numpy as np

    if not np.isfinite(samples).all():
        samples = np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0)
    return samples.clip(-1.0, 1.0)


def _check_rate(rate: int, name: str) -> None:
    least, most = _RATES
    if not least <= rate <= most:
        raise _unreadable(
            name, f"its sample rate is {rate:,} Hz; supported are {least:,} to {most:,}"
        )


def _unreadable(name: str, why: object) -> InvalidInputError:
    said = str(why).splitlines()[0] if str(why) else type(why).__name__
    return InvalidInputError(
        f"{name} is not a readable audio file: {said[:200]}",
        hint="Check that it plays. Formats include wav, flac, mp3, ogg, opus, m4a, mp4 and webm.",
    )


class _Av:
    """Through PyAV."""

    def __init__(self, source: Path | BinaryIO, name: str) -> None:
        try:
            import av
        except ImportError as error:
            raise MissingPackageError(
                f"{name} needs the package av", hint=format_install("av")
            ) from error
        self._name, self._error = name, av.FFmpegError
        self.warnings: list[str] = []
        self._file = source.open("rb") if isinstance(source, Path) else source
        self._owned = isinstance(source, Path)
        try:
            self._container = av.open(
                self._file, "r", options={"format_whitelist": _FORMATS}, metadata_errors="replace"
            )
        except (av.FFmpegError, OSError, ValueError) as error:
            self._let_go()
            raise _unreadable(name, "its format is not supported") from error
        if not self._container.streams.audio:
            self.close()
            raise _unreadable(name, "it has no audio stream")
        self._stream = self._container.streams.audio[0]
        try:
            _check_rate(self._stream.rate or 0, name)
        except InvalidInputError:
            self.close()
            raise
        length = self._container.duration  # in microseconds
        self.duration_s = length / 1e6 if length and 0 < length < 1e15 else None

    def parts(self) -> Iterator[Samples]:
        change = _Change()
        clock = _Clock(self._container.start_time)
        try:
            for frame in self._frames():
                _check_rate(frame.sample_rate, self._name)
                yield from clock.gap(frame)
                for made in change.fed(frame):
                    yield clock.counted(made)
            for made in change.finished():
                yield clock.counted(made)
        except (self._error, OSError, ValueError) as error:
            self._broken(error, clock.given)
        if not clock.given:
            raise _unreadable(self._name, "it has no audio data")
        self._compare(clock.given / RATE)

    def _compare(self, there_s: float) -> None:
        exact = self._container.format.name in _EXACT and not self.warnings
        if exact and self.duration_s and self.duration_s - there_s > _WORTH_A_WORD_S:
            self.warnings.append(_short(self._name, self.duration_s, there_s))

    def _frames(self) -> Iterator[av.AudioFrame]:
        """Packets that cannot be decoded are left out and counted."""
        bad = 0
        for packet in self._container.demux(self._stream):
            try:
                yield from packet.decode()
            except self._error:
                bad += 1
                if bad > _MOST_BAD:
                    raise
        if bad:
            self.warnings.append(f"{self._name}: skipped {bad} damaged packets")

    def _broken(self, error: Exception, given: int) -> None:
        if not given:
            raise _unreadable(self._name, error) from error
        said = str(error).splitlines()[0][:120]
        self.warnings.append(f"{self._name}: decoding stopped after {given / RATE:.1f} s: {said}")

    def close(self) -> None:
        self._container.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._owned:
            self._file.close()


class _Change:
    """To our rate; the channels are averaged by us, as the library's mix is louder than either."""

    def __init__(self) -> None:
        self._made: av.AudioResampler | None = None
        self._kind: tuple[object, ...] = ()

    def fed(self, frame: av.AudioFrame) -> Iterator[av.AudioFrame]:
        """What can be told so far; a stream may change its form on the way."""
        import av

        kind = (frame.format.name, frame.layout.name, frame.sample_rate)
        if self._made is None or kind != self._kind:
            yield from self.finished()
            self._made = av.AudioResampler(format="flt", layout=frame.layout, rate=RATE)
            self._kind = kind
        yield from self._made.resample(frame)

    def finished(self) -> Iterator[av.AudioFrame]:
        """The rest."""
        if self._made is not None:
            yield from self._made.resample(None)


class _Clock:
    """Keeps samples at the times that the file gives them: holes are filled with silence."""

    def __init__(self, begin: int | None) -> None:
        self._begin_s = (begin or 0) / 1e6
        self.given = 0
        self._fed_s: float | None = None

    def gap(self, frame: av.AudioFrame) -> Iterator[Samples]:
        """The silence before a frame that comes later than the one before it ended."""
        import numpy as np

        lasts = frame.samples / frame.sample_rate if frame.sample_rate else 0.0
        expected = self._fed_s if self._fed_s is not None else 0.0
        now = frame.time - self._begin_s if frame.time is not None else expected
        if 0.1 < now - expected < _LONGEST_GAP_S:
            hole = np.zeros(round((now - expected) * RATE), np.float32)
            for at in range(0, len(hole), _BLOCK):
                self.given += len(hole[at : at + _BLOCK])
                yield hole[at : at + _BLOCK]
            expected = now
        self._fed_s = expected + lasts

    def counted(self, frame: av.AudioFrame) -> Samples:
        """A frame's samples."""
        import numpy as np

        # Not planar: PyAV 18 reads past the planes of a frame of 8 channels.
        rows = frame.to_ndarray().reshape(frame.samples, -1)
        samples: Samples = rows.mean(axis=1, dtype=np.float32)
        self.given += len(samples)
        return samples


class _Libsndfile:
    """Through soundfile: wav, flac, ogg and what else libsndfile knows."""

    def __init__(self, source: Path | BinaryIO, name: str) -> None:
        try:
            import soundfile
        except ImportError as error:
            raise MissingPackageError(
                f"{name} needs the package soundfile", hint=format_install("soundfile")
            ) from error
        self._name, self._error = name, soundfile.LibsndfileError
        self.warnings: list[str] = []
        try:
            self._sound = soundfile.SoundFile(source)
        except (soundfile.LibsndfileError, OSError, TypeError, ValueError) as error:
            raise _unreadable(name, error) from error
        self._rate = int(self._sound.samplerate)
        try:
            _check_rate(self._rate, name)
        except InvalidInputError:
            self._sound.close()
            raise
        frames = int(self._sound.frames)
        self.duration_s = frames / self._rate if 0 < frames < 1 << 48 else None

    def parts(self) -> Iterator[Samples]:
        import numpy as np

        from anyrig.audio.resample import Resampler

        change = Resampler(self._rate, RATE) if self._rate != RATE else None
        given = 0
        try:
            while len(block := self._sound.read(4 * self._rate, dtype="float32", always_2d=True)):
                mono = np.ascontiguousarray(block.mean(axis=1, dtype=np.float32))
                given += len(mono)
                yield change.feed(mono) if change else mono
        except self._error as error:
            if not given:
                raise _unreadable(self._name, error) from error
            self.warnings.append(f"{self._name}: decoding stopped after {given / self._rate:.1f} s")
        if not given:
            raise _unreadable(self._name, "it has no audio data")
        if change:
            yield change.finish()

    def close(self) -> None:
        self._sound.close()


class _Program:
    """Through an ffmpeg program, where PyAV is not installed."""

    def __init__(self, source: Path | BinaryIO, name: str) -> None:
        program = shutil.which("ffmpeg")
        if program is None:
            raise MissingPackageError(
                f"{name} needs the package av, or an ffmpeg program", hint=format_install("av")
            )
        if not isinstance(source, Path):
            raise _unreadable(name, "PyAV is needed to read audio from memory")
        self._name = name
        self.duration_s: float | None = None
        self.warnings: list[str] = []
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            [program, "-v", "error", "-nostdin", "-protocol_whitelist", "file",
             "-format_whitelist", _FORMATS, "-i", f"file:{source.absolute()}", "-map", "0:a:0",
             "-ac", "1", "-ar", str(RATE), "-f", "f32le", "pipe:1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._said,
        )  # fmt: skip

    def parts(self) -> Iterator[Samples]:
        import numpy as np

        assert self._process.stdout is not None
        given = 0
        while data := self._process.stdout.read(4 * RATE * 4):
            whole: Samples = np.frombuffer(data[: len(data) // 4 * 4], "<f4").astype(np.float32)
            given += len(whole)
            yield whole
        code = self._process.wait()
        if code or not given:
            self._said.seek(0)
            why = self._said.read(2000).decode("utf-8", "replace").strip() or "it has no audio data"
            if not given:
                raise _unreadable(self._name, why.splitlines()[-1])
            self.warnings.append(f"{self._name}: decoding stopped after {given / RATE:.1f} s")

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdout.close()
        self._said.close()
