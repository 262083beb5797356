"""Plays audio through whatever player this machine has.

The samples go to the standard input of the first player found, as they are made. Where none is
installed the package sounddevice does it, and without that a player that needs a whole
file (macOS, Windows).
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
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
    """`{rate}` stands for the samples per second, `{path}` for a file of players that need one."""

    def command(self, program: str, rate: int, path: str = "") -> list[str]:
        """Its command line."""
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


# These need a file, so they start when all audio exists.
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
    """Play chunks as they come, to the end; Ctrl-C stops at once."""
    speaker = open_speaker(rate)
    try:
        for samples in chunks:
            speaker.write(samples)
    except BaseException:  # Ctrl-C too
        speaker.stop()
        raise
    speaker.close()


def find_player() -> str:
    """The name of the player to use; MissingPackageError if there is none."""
    found = _find_installed(PLAYERS)
    if found is not None:
        return found
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: PortAudio is missing
        found = _find_installed(FILE_PLAYERS)
        if found is not None:
            return found
        raise _no_player_error() from error
    return str(sounddevice.__name__)


def open_speaker(rate: int) -> Speaker:
    """Start the first player that this machine has."""
    name = find_player()
    path = shutil.which(name) or name
    for known in PLAYERS:
        if known.program == name:
            return _PlayerProcess(known, path, rate)
    for known in FILE_PLAYERS:
        if known.program == name:
            return _FileProgram(known, path, rate)
    return _Sounddevice(rate)


def _find_installed(players: tuple[Player, ...]) -> str | None:
    return next((known.program for known in players if shutil.which(known.program)), None)


def _no_player_error() -> MissingPackageError:
    return MissingPackageError(
        "no audio player found", hint=f"{_install_hint()} Or write a file with -o."
    )


def _install_hint() -> str:
    if sys.platform.startswith("linux"):
        return "Install one of pipewire-bin, pulseaudio-utils, alsa-utils, ffmpeg."
    return f"`{format_install('sounddevice')}`."


_WRITE_A_FILE = Message(
    "Without {play}, {output} writes a file.", play=OptionRef("play"), output=OptionRef("output")
)


def _player_error(program: str, messages: bytes, code: int) -> AnyrigError:
    lines = messages.decode(errors="replace").strip().splitlines() or [f"it ended with code {code}"]
    return AnyrigError(
        f"the player {program} stopped: {lines[-1].strip()}",
        hint=Message("Check that there is an audio device. {instead}", instead=_WRITE_A_FILE),
    )


class _PlayerProcess:
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
            raise self._exit_error() from None

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._pipe.close()
        try:
            code = self._process.wait()
        except BaseException:
            self.stop()
            raise
        if code != 0:
            raise self._exit_error()
        self._close_pipes()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close_pipes()

    def _exit_error(self) -> AnyrigError:
        code = self._process.wait()
        messages = self._process.stderr.read() if self._process.stderr else b""
        self._close_pipes()
        return _player_error(self._name, messages, code)

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class _FileProgram:
    """A player that needs a file: it starts when all audio exists."""

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
            raise _player_error(self._player.program, ended.stderr, ended.returncode)

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
            raise AnyrigError(f"no audio device: {error}", hint=_WRITE_A_FILE) from error

    def write(self, samples: Samples) -> None:
        self._stream.write(np.ascontiguousarray(samples, dtype=np.float32))

    def close(self) -> None:
        self._stream.stop()
        self._stream.close()

    def stop(self) -> None:
        self._stream.abort()
        self._stream.close()
