"""AAC in m4a and m4b, through PyAV, or through an `ffmpeg` program where PyAV is not installed.

PyAV's wheels bring GPL libraries along, so it is imported here alone, and only when m4a is asked
for. Chapters are exact: the file's clock (`movie_timescale`) runs at the rate of the samples, and
the edit list takes the encoder's delay away.

The coder is FFmpeg's `fast` one, without noise shaping in time. On three minutes of the default
voice at 24 kHz and 64 kbit/s it took 12 s of CPU for an hour of sound where the usual `twoloop`
took 55, at a higher signal-to-noise ratio (25.8 against 23.2 dB), the same distance of spectra
(4.6 dB) and the same words recognised. At 32 kbit/s it leaves holes in the spectrum (15 dB against
8, and three words wrong where there was one), so lower rates than 48 go to `twoloop`.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyrig.audio.samples import Samples
from anyrig.audio.tags import Labels
from anyrig.errors import MissingPackageError, StorageError
from anyrig.install import format_install

if TYPE_CHECKING:
    from av.container import OutputContainer

    from anyrig.audio.encode import Writer

_NAMES = (
    "title", "artist", "album", "album_artist", "composer", "genre", "date", "track", "comment",
    "description", "synopsis", "grouping", "media_type",
)  # fmt: skip
_FAST = {"aac_coder": "fast", "aac_tns": "0"}
_CAREFUL = {"aac_coder": "twoloop"}
_LOWEST_FAST = 48_000
_BLOCK = 24000  # samples handed over at once: 1,024 at a time cost two thirds more
_CODECS = {"image/jpeg": ("mjpeg", "yuvj420p"), "image/png": ("png", "rgb24")}
_AUDIOBOOK = "2"  # iTunes' media type


def aac_writer(part: Path, rate: int, bitrate: int, labels: Labels) -> Writer:
    """Whatever can write AAC here."""
    try:
        return Av(part, rate, bitrate, labels)
    except ImportError:
        program = shutil.which("ffmpeg")
    if program is None:
        raise MissingPackageError(
            "m4a needs the package av or the program ffmpeg",
            hint=f"`{format_install('av')}`, or install ffmpeg, or write opus, mp3, flac or wav.",
        )
    return Ffmpeg(program, part, rate, bitrate, labels)


def mp4_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags by FFmpeg's names; mp4 has a show and an episode where books have a series."""
    named = {name: tags[name] for name in _NAMES if name in tags}
    if "series" in tags:
        named["show"] = tags["series"]
    if "series_part" in tags:
        named["episode_id"] = tags["series_part"]
    return named


def _brand(tags: Mapping[str, str]) -> str:
    return "M4B " if tags.get("media_type") == _AUDIOBOOK else "M4A "


def coder_options(bitrate: int) -> dict[str, str]:
    """How the encoder is best set for a bitrate."""
    return _FAST if bitrate >= _LOWEST_FAST else _CAREFUL


class Av:
    """A file of PyAV."""

    def __init__(self, part: Path, rate: int, bitrate: int, labels: Labels) -> None:
        import av

        self._av = av
        self._rate = rate
        self._place = 0
        self._held: list[Samples] = []
        self._num_held = 0
        options = {"movie_timescale": str(rate), "brand": _brand(labels.tags)}
        self._container = av.open(str(part), "w", format="mp4", container_options=options)
        self._container.metadata.update(mp4_tags(labels.tags))
        self._stream = self._container.add_stream("aac", rate=rate, options=coder_options(bitrate))
        self._stream.bit_rate = bitrate
        self._stream.codec_context.layout = "mono"
        if "language" in labels.tags:
            self._stream.metadata["language"] = labels.tags["language"]
        self._container.set_chapters([
            {
                "id": number, "start": mark.start, "end": mark.end,
                "time_base": Fraction(1, rate), "metadata": {"title": mark.title},
            }
            for number, mark in enumerate(labels.chapters)
        ])  # fmt: skip
        if labels.picture is not None and labels.picture.media_type in _CODECS:
            _add_picture(self._container, labels.picture.data, labels.picture.media_type)

    def write(self, samples: Samples) -> None:
        """Take samples; the encoder gets them in blocks, which is faster."""
        self._held.append(samples)
        self._num_held += len(samples)
        if self._num_held >= _BLOCK:
            self._send()

    def close(self) -> None:
        """End the file."""
        self._send()
        self._container.mux(self._stream.encode(None))
        self._container.close()

    def drop(self) -> None:
        """Close it; an index of nothing is an error that does not matter."""
        with contextlib.suppress(self._av.FFmpegError, OSError):
            self._container.close()

    def _send(self) -> None:
        if not self._num_held:
            return
        joined = np.concatenate(self._held).astype(np.float32, copy=False)
        self._held, self._num_held = [], 0
        for start in range(0, len(joined), _BLOCK):
            row = joined[start : start + _BLOCK].reshape(1, -1)
            frame = self._av.AudioFrame.from_ndarray(row, format="fltp", layout="mono")
            frame.sample_rate = self._rate
            frame.time_base = Fraction(1, self._rate)
            frame.pts = self._place
            self._place += row.shape[1]
            self._container.mux(self._stream.encode(frame))


def _add_picture(container: OutputContainer, data: bytes, media_type: str) -> None:
    """A cover is a stream of one packet; it is not encoded, so its measures say nothing."""
    import av
    from av.stream import Disposition
    from av.video.stream import VideoStream

    codec, pixels = _CODECS[media_type]
    stream = container.add_stream(codec, rate=1)
    assert isinstance(stream, VideoStream)
    stream.width = stream.height = 16
    stream.pix_fmt = pixels
    stream.disposition = Disposition.attached_pic
    packet = av.Packet(data)
    packet.stream = stream
    packet.pts = packet.dts = 0
    container.start_encoding()
    container.mux(packet)


class Ffmpeg:
    """The program ffmpeg, fed through a pipe; what it needs beside it lies in a folder."""

    def __init__(self, program: str, part: Path, rate: int, bitrate: int, labels: Labels) -> None:
        coder = [word for name, how in coder_options(bitrate).items() for word in (f"-{name}", how)]
        self._folder = tempfile.TemporaryDirectory(prefix="anyrig-")
        # The rate of the mp4's own clock is left alone: old programs have no option for it, and
        # its milliseconds are fine enough.
        self._process = subprocess.Popen(
            [
                program, "-nostdin", "-loglevel", "error", "-y",
                "-f", "f32le", "-ar", str(rate), "-ac", "1", "-i", "pipe:0",
                *_beside(Path(self._folder.name), labels, rate),
                "-c:a", "aac", "-b:a", str(bitrate), *coder,
                "-brand", _brand(labels.tags), "-f", "mp4", str(part),
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

    def _told(self) -> StorageError:
        self._process.wait()
        said = self._process.stderr.read().decode(errors="replace") if self._process.stderr else ""
        last = (said.strip().splitlines() or [f"code {self._process.returncode}"])[-1]
        if "No space left" in said:
            return StorageError(
                "the disk is full", hint="Free disk space, or write to another disk."
            )
        return StorageError(
            f"ffmpeg did not write m4a: {last}",
            hint=f"Write opus or mp3, or `{format_install('av')}`.",
        )

    def _free(self) -> None:
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._folder.cleanup()


def _beside(folder: Path, labels: Labels, rate: int) -> list[str]:
    """The inputs beside the sound and what is taken from each."""
    (folder / "about.txt").write_text(ffmetadata(labels, rate), encoding="utf-8", newline="\n")
    words = ["-f", "ffmetadata", "-i", str(folder / "about.txt")]
    picture = labels.picture
    shown = picture is not None and picture.media_type in _CODECS
    if picture is not None and shown:
        (folder / "cover").write_bytes(picture.data)
        demuxer = "mjpeg" if picture.media_type == "image/jpeg" else "png_pipe"
        words += ["-f", demuxer, "-i", str(folder / "cover")]
    words += ["-map", "0:a", "-map_metadata", "1", "-map_chapters", "1"]
    if shown:
        words += ["-map", "2:v", "-c:v", "copy", "-disposition:v:0", "attached_pic"]
    if "language" in labels.tags:
        words += ["-metadata:s:a:0", f"language={labels.tags['language']}"]
    return words


def ffmetadata(labels: Labels, rate: int) -> str:
    """Tags and chapters in the text form that FFmpeg reads."""
    lines = [";FFMETADATA1"]
    lines += [f"{name}={_escaped(text)}" for name, text in mp4_tags(labels.tags).items()]
    for mark in labels.chapters:
        lines += ["[CHAPTER]", f"TIMEBASE=1/{rate}", f"START={mark.start}", f"END={mark.end}"]
        lines.append(f"title={_escaped(mark.title)}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "=;#\\\n" else sign for sign in text)
