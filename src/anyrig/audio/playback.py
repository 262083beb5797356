"""Sound to the loudspeaker, through whatever player this machine has.

The samples go to the standard input of the first player found, as they are made. Where none is
installed the package sounddevice does it, and without that a player that wants a whole file
(macOS, Windows).
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from anyrig.audio.encode import open_encoder
from anyrig.audio.samples import Samples, to_int16_bytes
from anyrig.errors import AnyrigError, Message, MissingPackageError, OptionRef
from anyrig.install import format_install


@dataclass(frozen=True)
class Player:
    """A program that plays 16-bit mono samples from its standard input."""

    program: str
    arguments: tuple[str, ...]
    """`{rate}` stands for the samples per second, `{path}` for a file of players that want one."""

    def command(self, program: str, rate: int, path: str = "") -> list[str]:
        """What is started."""
        return [program, *(word.format(rate=rate, path=path) for word in self.arguments)]


PLAYERS = (
    Player("pw-cat", ("--playback", "--raw", "--rate", "{rate}", "--channels", "1",
                      "--format", "s16", "-")),
    Player("paplay", ("--raw", "--rate={rate}", "--channels=1", "--format=s16le")),
    Player("aplay", ("-q", "-t", "raw", "-f", "S16_LE", "-c", "1", "-r", "{rate}", "-")),
    Player("ffplay", ("-loglevel", "error", "-nodisp", "-autoexit", "-f", "s16le",
                      "-ar", "{rate}", "-ch_layout", "mono", "-i", "pipe:0")),
    Player("mpv", ("--no-terminal", "--demuxer=rawaudio", "--demuxer-rawaudio-rate={rate}",
                   "--demuxer-rawaudio-channels=1", "--demuxer-rawaudio-format=s16le", "-")),
    Player("play", ("-q", "-t", "raw", "-e", "signed", "-b", "16", "-c", "1", "-r", "{rate}", "-")),
)  # fmt: skip


# These want a file: all is heard once all is made.
FILE_PLAYERS = (
    Player("afplay", ("{path}",)),
    Player("powershell", ("-NoProfile", "-Command",
                          "(New-Object Media.SoundPlayer '{path}').PlaySync()")),
)  # fmt: skip


class Speaker(Protocol):
    """Something that is playing."""

    def write(self, samples: Samples) -> None:
        """Take samples; waits when it has enough."""

    def close(self) -> None:
        """Play what it has, and end."""

    def stop(self) -> None:
        """End at once."""


def play(chunks: Iterable[Samples], rate: int) -> None:
    """Play parts as they come, to the end; Ctrl-C stops at once."""
    for _ in played(chunks, rate):
        pass


def played(chunks: Iterable[Samples], rate: int) -> Iterator[Samples]:
    """The same parts, each handed on once the player has taken it, to be written as well.

    What waits in the player is heard to its end when the parts are over.
    """
    speaker = speaker_for(rate)
    try:
        for samples in chunks:
            speaker.write(samples)
            yield samples
    except BaseException:  # Ctrl-C, and a listener that goes away
        speaker.stop()
        raise
    speaker.close()


def player() -> str:
    """The name of what would play here; MissingPackageError when nothing can."""
    found = _installed(PLAYERS)
    if found is not None:
        return found
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: it is there, PortAudio is not
        found = _installed(FILE_PLAYERS)
        if found is not None:
            return found
        raise _silent() from error
    return str(sounddevice.__name__)


def speaker_for(rate: int) -> Speaker:
    """The first way to play that this machine has."""
    name = player()
    path = shutil.which(name) or name
    for known in PLAYERS:
        if known.program == name:
            return _Program(known, path, rate)
    for known in FILE_PLAYERS:
        if known.program == name:
            return _FileProgram(known, path, rate)
    return _Sounddevice(rate)


def _installed(players: tuple[Player, ...]) -> str | None:
    return next((known.program for known in players if shutil.which(known.program)), None)


def can_play() -> None:
    """Nothing when there is a way to play; MissingPackageError with advice when there is none."""
    if any(shutil.which(player.program) for player in (*PLAYERS, *FILE_PLAYERS)):
        return
    try:
        import sounddevice  # noqa: F401
    except (ImportError, OSError) as error:
        raise _silent() from error


def _silent() -> MissingPackageError:
    return MissingPackageError(
        "no audio player found", hint=f"{_advice()} Or write a file with -o."
    )


def _advice() -> str:
    if sys.platform.startswith("linux"):
        return "Install one of pipewire-bin, pulseaudio-utils, alsa-utils, ffmpeg."
    return f"`{format_install('sounddevice')}`."


_INSTEAD = Message(
    "Without {play}, {output} writes a file.", play=OptionRef("play"), output=OptionRef("output")
)


def _stopped(program: str, said: bytes, code: int) -> AnyrigError:
    lines = said.decode(errors="replace").strip().splitlines() or [f"it ended with code {code}"]
    return AnyrigError(
        f"the player {program} stopped: {lines[-1].strip()}",
        hint=Message("Check that there is an audio device. {instead}", instead=_INSTEAD),
    )


class _Program:
    """A player program, fed through a pipe."""

    def __init__(self, player: Player, path: str, rate: int) -> None:
        self._name = player.program
        self._process = subprocess.Popen(
            player.command(path, rate),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def write(self, samples: Samples) -> None:
        try:
            self._pipe.write(to_int16_bytes(np.clip(samples, -1.0, 1.0)))
            self._pipe.flush()
        except BrokenPipeError:
            raise self._died() from None

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._pipe.close()
        try:
            code = self._process.wait()
        except BaseException:
            self.stop()
            raise
        if code != 0:
            raise self._died()
        self._free()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._free()

    def _died(self) -> AnyrigError:
        code = self._process.wait()
        said = self._process.stderr.read() if self._process.stderr else b""
        self._free()
        return _stopped(self._name, said, code)

    def _free(self) -> None:
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class _FileProgram:
    """A player that wants a file: it starts when all is made."""

    def __init__(self, player: Player, program: str, rate: int) -> None:
        self._player, self._path, self._rate = player, program, rate
        self._folder = tempfile.TemporaryDirectory(prefix="anyrig-")
        self._file = Path(self._folder.name) / "sound.wav"
        self._out = open_encoder(self._file, rate=rate)

    def write(self, samples: Samples) -> None:
        self._out.write(samples)

    def close(self) -> None:
        with self._folder:
            self._out.close()
            command = self._player.command(self._path, self._rate, str(self._file))
            ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        if ended.returncode != 0:
            raise _stopped(self._player.program, ended.stderr, ended.returncode)

    def stop(self) -> None:
        self._out.abort()
        self._folder.cleanup()


class _Sounddevice:
    """PortAudio through the package sounddevice."""

    def __init__(self, rate: int) -> None:
        import sounddevice

        try:
            self._stream = sounddevice.OutputStream(samplerate=rate, channels=1, dtype="float32")
            self._stream.start()
        except sounddevice.PortAudioError as error:
            raise AnyrigError(f"no audio device: {error}", hint=_INSTEAD) from error

    def write(self, samples: Samples) -> None:
        self._stream.write(np.ascontiguousarray(samples, dtype=np.float32))

    def close(self) -> None:
        self._stream.stop()
        self._stream.close()

    def stop(self) -> None:
        self._stream.abort()
        self._stream.close()
