"""Audio to where it was asked for: a player, a file, the standard output; and what is told."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from anyrig.cli.devices import writable
from anyrig.cli.show import Progress
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.speech.audio import AudioChunk, Samples
    from anyrig.speech.script import Script, Segment
    from anyrig.speech.synthesise import Studio, Tally

_PART = 1 << 18  # samples read back at a time


@dataclass(frozen=True)
class Target:
    """Where the audio goes."""

    path: Path | None
    """None when it is only played, or goes to the standard output."""
    format: str
    play: bool
    stdout: bool = False

    @classmethod
    def of(cls, output: str | None, format: str | None, play: bool) -> Target:
        """What was asked for; where nothing was, a player, and a file where there is none."""
        from anyrig.speech.sound.play import can_play

        if output == "-":
            if play:
                raise InvalidInputError("-o - and --play were both given", hint="Give one of them.")
            return cls(None, checked_format(None, format or "wav"), False, stdout=True)
        if output is not None:
            path = Path(output).expanduser()
            writable(path)
            return cls(path, checked_format(path, format), play)
        if play:
            can_play()  # says what is missing, before anything is computed
            return cls(None, "wav", True)
        if sys.stdout is not None and sys.stdout.isatty() and _plays():
            return cls(None, "wav", True)
        name = checked_format(None, format or "wav")
        path = _unused(Path(f"speech.{name}"))
        writable(path)
        return cls(path, name, False)


def checked_format(path: Path | None, format: str | None) -> str:
    """The format that was named, or that the file's name says."""
    from anyrig.speech.sound.encode import FORMATS, format_of

    if format is None:
        assert path is not None
        return format_of(path)
    if format.lower() not in FORMATS:
        raise InvalidInputError(f"no format {format!r}", hint=f"There are: {', '.join(FORMATS)}.")
    return format.lower()


def _plays() -> bool:
    from anyrig.errors import MissingPackageError
    from anyrig.speech.sound.play import can_play

    try:
        can_play()
    except MissingPackageError:
        return False
    return True


def _unused(path: Path) -> Path:
    """The name, or the first numbered one that is free: nothing is written over unasked."""
    number = 1
    found = path
    while found.exists():
        number += 1
        found = path.with_stem(f"{path.stem}-{number}")
    return found


@dataclass
class Delivered:
    """What came out."""

    tally: Tally
    rate: int
    num_samples: int = 0
    path: Path | None = None
    chunks: list[dict[str, Any]] = field(default_factory=list)
    """Each segment's text and times, as JSON has them."""

    @property
    def audio_s(self) -> float:
        """How long it is, pauses included."""
        return self.num_samples / self.rate


class Spool:
    """Audio on disk between the first pass, which measures it, and the second, which writes it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, samples: Samples) -> None:
        """Add to its end."""
        self._file.write(samples.tobytes())

    def parts(self, start: int = 0, stop: int | None = None) -> Iterator[Samples]:
        """What was written, from one sample to another, in order."""
        import numpy as np

        self._file.flush()
        position = start
        while stop is None or position < stop:
            self._file.seek(position * 4)
            count = _PART if stop is None else min(_PART, stop - position)
            part = np.frombuffer(self._file.read(count * 4), np.float32)
            if not len(part):
                return
            yield part
            position += len(part)


def deliver(
    studio: Studio,
    script: Script,
    target: Target,
    *,
    loudness: float,
    fresh: bool = False,
    spool: Spool | None = None,
) -> Delivered:
    """Speak a script to its target, with progress.

    Args:
        studio: who speaks.
        script: what.
        target: where to.
        loudness: in LUFS; 0 leaves it alone.
        fresh: make again what is kept.
        spool: where the audio is held as well, to be listened to afterwards.
    """
    from anyrig.speech.synthesise import Tally

    delivered = Delivered(Tally(), studio.rate, path=target.path)
    with ExitStack() as stack:
        if spool is None:
            spool = Spool(stack.enter_context(tempfile.TemporaryFile(prefix="anyrig-")))
        progress = stack.enter_context(Progress(len(script.segments), "segment"))
        chunks = _followed(
            studio.speak(script, tally=delivered.tally, anew=fresh, early=target.path is None),
            delivered,
            script,
            progress,
        )
        if target.play or target.stdout:
            _stream(chunks, target, studio.rate, loudness, spool)
        else:
            for chunk in chunks:
                spool.write(chunk.samples)
        if target.path is not None:
            progress.step("writing the file")
            _write(spool, target, studio.rate, loudness)
    return delivered


def _followed(
    chunks: Iterator[AudioChunk], delivered: Delivered, script: Script, progress: Progress
) -> Iterator[AudioChunk]:
    progress.step("loading the voice")
    began = time.monotonic()
    for chunk in chunks:
        delivered.num_samples = chunk.start + len(chunk.samples)
        delivered.chunks.append(_told(chunk, script.segments[chunk.segment]))
        progress.done()
        speed = delivered.audio_s / max(1e-3, time.monotonic() - began)
        progress.step(f"{speed:.3g} times real time, {' '.join(chunk.text.split())[:40]}")
        yield chunk


def _told(chunk: AudioChunk, segment: Segment) -> dict[str, Any]:
    return {
        "text": chunk.text,
        "spoken": segment.line.text,
        "span": list(chunk.span),
        "start_s": round(chunk.start_s, 4),
        "end_s": round(chunk.start_s + chunk.duration_s, 4),
        "words": [[w.text, round(w.start_s, 3), round(w.end_s, 3)] for w in chunk.words],
    }


def _stream(
    chunks: Iterator[AudioChunk], target: Target, rate: int, loudness: float, spool: Spool
) -> None:
    """To ears or a pipe while it is made; the loudness follows as it goes."""
    from anyrig.speech.sound.loudness import Leveller
    from anyrig.speech.sound.play import play

    leveller = Leveller(rate, target_lufs=loudness) if loudness else None

    def parts() -> Iterator[Samples]:
        for chunk in chunks:
            spool.write(chunk.samples)
            yield leveller.apply(chunk.samples) if leveller else chunk.samples

    if target.play:
        play(parts(), rate)
        return
    _encode(parts(), sys.stdout.buffer, target.format, rate)


def write_samples(
    path: Path, format: str, rate: int, parts: Sequence[Samples], *, loudness: float
) -> int:
    """A file of some audio that is at hand; how many samples it has."""
    import numpy as np

    from anyrig.speech.sound.loudness import level

    audio = np.concatenate(parts)
    if loudness:
        audio = level(audio, rate, target_lufs=loudness)
    _encode(iter([audio]), path, format, rate)
    return len(audio)


def _write(spool: Spool, target: Target, rate: int, loudness: float) -> None:
    from anyrig.speech.sound.loudness import exact

    parts = exact(spool.parts, rate, target_lufs=loudness) if loudness else spool.parts()
    assert target.path is not None
    _encode(parts, target.path, target.format, rate)


def _encode(parts: Iterator[Samples], place: Path | BinaryIO, format: str, rate: int) -> None:
    from anyrig.speech.sound.encode import encoder

    written = encoder(place, format=format, rate=rate)
    try:
        for part in parts:
            written.write(part)
    except BaseException:
        written.abort()
        raise
    written.close()
