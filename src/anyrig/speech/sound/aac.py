"""AAC in m4a, through PyAV, or through an `ffmpeg` program where PyAV is not installed.

PyAV's wheels bring GPL libraries along, so it is imported here alone, and only when m4a is asked
for.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyrig.errors import MissingPackage, StoreFailed
from anyrig.speech.audio import Samples

if TYPE_CHECKING:
    from anyrig.speech.sound.encode import Writer

_TAGS = ("title", "artist", "album", "comment", "date")


def aac_writer(part: Path, rate: int, bitrate: int, tags: Mapping[str, str]) -> Writer:
    """Whatever can write AAC here."""
    kept = {name: tags[name] for name in _TAGS if tags.get(name)}
    try:
        return Av(part, rate, bitrate, kept)
    except ImportError:
        program = shutil.which("ffmpeg")
    if program is None:
        raise MissingPackage(
            "m4a needs the package av or the program ffmpeg",
            hint="`pip install av`, or install ffmpeg, or write opus, mp3, flac or wav.",
        )
    return Ffmpeg(program, part, rate, bitrate, kept)


class Av:
    """A file of PyAV."""

    def __init__(self, part: Path, rate: int, bitrate: int, tags: Mapping[str, str]) -> None:
        import av

        self._av = av
        self._container = av.open(str(part), "w", format="mp4")
        self._container.metadata.update(tags)
        self._stream = self._container.add_stream("aac", rate=rate)
        self._stream.bit_rate = bitrate
        self._stream.codec_context.layout = "mono"
        self._rate = rate
        self._place = 0

    def write(self, samples: Samples) -> None:
        """Take samples."""
        row = np.ascontiguousarray(samples, dtype=np.float32).reshape(1, -1)
        frame = self._av.AudioFrame.from_ndarray(row, format="fltp", layout="mono")
        frame.sample_rate = self._rate
        frame.time_base = Fraction(1, self._rate)
        frame.pts = self._place
        self._place += len(samples)
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """End the file."""
        self._container.mux(self._stream.encode(None))
        self._container.close()

    def drop(self) -> None:
        """Close it; an index of nothing is an error that does not matter."""
        with contextlib.suppress(self._av.FFmpegError, OSError):
            self._container.close()


class Ffmpeg:
    """The program ffmpeg, fed through a pipe."""

    def __init__(
        self, program: str, part: Path, rate: int, bitrate: int, tags: Mapping[str, str]
    ) -> None:
        named = [word for name, text in tags.items() for word in ("-metadata", f"{name}={text}")]
        self._process = subprocess.Popen(
            [
                program, "-nostdin", "-loglevel", "error", "-y",
                "-f", "f32le", "-ar", str(rate), "-ac", "1", "-i", "pipe:0",
                "-c:a", "aac", "-b:a", str(bitrate), *named, "-f", "mp4", str(part),
            ],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def write(self, samples: Samples) -> None:
        """Take samples."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(samples.astype("<f4").tobytes())
        except BrokenPipeError:
            raise self._told() from None

    def close(self) -> None:
        """End the file."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        if self._process.wait() != 0:
            raise self._told()
        self._free()

    def drop(self) -> None:
        """Stop the program."""
        self._process.kill()
        self._process.wait()
        self._free()

    def _told(self) -> StoreFailed:
        self._process.wait()
        said = self._process.stderr.read().decode(errors="replace") if self._process.stderr else ""
        last = (said.strip().splitlines() or [f"code {self._process.returncode}"])[-1]
        return StoreFailed(
            f"ffmpeg did not write m4a: {last}", hint="Write opus or mp3, or `pip install av`."
        )

    def _free(self) -> None:
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
