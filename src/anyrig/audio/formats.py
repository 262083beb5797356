"""The formats in which audio is written, and the suffixes of their files.

Apart from the encoders, so that a command can check its target before it loads NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anyrig.errors import InvalidInputError

_MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
_AAC_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 64000, 88200, 96000)


@dataclass(frozen=True)
class Format:
    """A way to write audio."""

    name: str
    extensions: tuple[str, ...]
    rates: tuple[int, ...] = ()
    """What it takes; any when empty. Others are resampled to the next higher."""
    bitrate: int = 0
    """In bits a second, unless another is requested; 0 when it has none."""
    min_bitrate: int = 0
    max_bitrate: int = 0
    streams: bool = True
    """Whether it can be sent while it is made."""
    holds_cover: bool = False


FORMATS = {
    format.name: format
    for format in (
        Format("wav", (".wav",)),
        Format("flac", (".flac",)),
        Format("mp3", (".mp3",), _MP3_RATES, 64_000, 8_000, 320_000, holds_cover=True),
        Format("opus", (".opus", ".ogg"), _OPUS_RATES, 32_000, 6_000, 256_000),
        Format("m4a", (".m4a", ".m4b", ".mp4"), _AAC_RATES, 64_000, 32_000, 320_000,
               streams=False, holds_cover=True),
        Format("aac", (".aac",), _AAC_RATES, 64_000, 32_000, 320_000),
        Format("pcm", (".pcm", ".raw")),
    )
}  # fmt: skip


def find_format(path: str | Path) -> str:
    """The format that a file's suffix names."""
    suffix = Path(path).suffix.lower()
    for format in FORMATS.values():
        if suffix in format.extensions:
            return format.name
    problem = f"unknown audio format {suffix}" if suffix else f"{path} has no suffix"
    listed = ", ".join(format.extensions[0] for format in FORMATS.values())
    raise InvalidInputError(problem, hint=f"Use one of these suffixes: {listed}.")
