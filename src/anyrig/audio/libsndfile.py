"""flac, mp3 and Ogg Opus through libsndfile, which the soundfile package brings along."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import soundfile

from anyrig.audio.id3 import id3_block
from anyrig.audio.samples import Samples
from anyrig.audio.tags import Labels
from anyrig.audio.vorbis import FlacTags, OpusTags
from anyrig.errors import StorageError
from anyrig.install import format_install

if TYPE_CHECKING:
    from anyrig.audio.encode import Sink

_KINDS = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}
_BLOCK = 24000  # libsndfile's Opus keeps a whole call on its stack


class Libsndfile:
    """A file of libsndfile over a sink."""

    def __init__(self, sink: Sink, name: str, rate: int, bitrate: int, labels: Labels) -> None:
        kind, subtype = _KINDS[name]
        level = _level(name, rate, bitrate) if bitrate else None
        mode = "CONSTANT" if name == "mp3" else None
        try:
            self._file = soundfile.SoundFile(
                _labelled(sink, name, labels), "w", rate, 1, subtype,
                format=kind, compression_level=level, bitrate_mode=mode,
            )  # fmt: skip
        except soundfile.LibsndfileError as error:
            raise StorageError(
                f"{name} cannot be written here: {error}",
                hint=f"Install a newer soundfile (`{format_install('soundfile', options='-U')}`), "
                "or write wav.",
            ) from error

    def write(self, samples: Samples) -> None:
        """Take samples."""
        for start in range(0, len(samples), _BLOCK):
            self._file.write(samples[start : start + _BLOCK])

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def drop(self) -> None:
        """Close it; the sink is dead."""
        with contextlib.suppress(soundfile.LibsndfileError, RuntimeError):
            self._file.close()


def _labelled(sink: Sink, name: str, labels: Labels) -> Sink | FlacTags | OpusTags:
    """A sink that brings the tags along, where there are any."""
    if not labels:
        return sink
    if name == "mp3":
        sink.begin(id3_block(labels))
        return sink
    return FlacTags(sink, labels) if name == "flac" else OpusTags(sink, labels)


def _level(name: str, rate: int, bitrate: int) -> float:
    """libsndfile knows no bitrates, only a level from 0 (most bits) to 1 (fewest)."""
    if name == "opus":
        highest, lowest = 256_000, 6_000
    elif rate >= 32000:
        highest, lowest = 320_000, 32_000
    else:
        highest, lowest = 160_000, 8_000
    return min(1.0, max(0.0, (highest - bitrate) / (highest - lowest)))
