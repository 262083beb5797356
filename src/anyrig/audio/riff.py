"""What the header of a WAV promises, beside what the file holds.

Whoever reads a WAV takes what is there and calls it the whole: a recording of which half was copied
looks complete. Only its header still knows.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

_FIRST_BYTES = 1 << 16
"""Where the header is looked for: cover pictures and notes may stand before the sound."""
_MOST_CHUNKS = 64
_WORTH_A_WORD_S = 0.1


class CutShort(NamedTuple):
    """A WAV that ends before its header says."""

    said_s: float
    there_s: float


def cut_short(source: Path | BinaryIO) -> CutShort | None:
    """What lacks; None for a file that is whole, that does not say, or that is no WAV."""
    with contextlib.suppress(OSError, struct.error):
        if isinstance(source, Path):
            with source.open("rb") as file:
                return _looked(file)
        try:
            return _looked(source)
        finally:
            source.seek(0)
    return None


def _looked(file: BinaryIO) -> CutShort | None:
    file.seek(0)
    kind, _, form = struct.unpack("<4sI4s", file.read(12))
    if kind not in (b"RIFF", b"RF64") or form != b"WAVE":
        return None
    rate = long_size = 0
    for _ in range(_MOST_CHUNKS):
        name, size = struct.unpack("<4sI", file.read(8))
        begin = file.tell()
        if name == b"data":
            return _compared(file, begin, long_size or size, rate)
        if name == b"ds64":  # the size of files over 4 GiB
            long_size = struct.unpack("<QQ", file.read(16))[1]
        if name == b"fmt ":
            rate = struct.unpack("<HHII", file.read(12))[3]
        if begin + size > _FIRST_BYTES:
            break
        file.seek(begin + size + size % 2)
    return None


def _compared(file: BinaryIO, begin: int, size: int, bytes_a_second: int) -> CutShort | None:
    there = file.seek(0, 2) - begin
    said_s, there_s = (n / max(1, bytes_a_second) for n in (size, there))
    if not bytes_a_second or _untold(size) or said_s - there_s < _WORTH_A_WORD_S:
        return None
    return CutShort(said_s, there_s)


def _untold(size: int) -> bool:
    """Whether a size is what programs write that cannot know it: they send as they record."""
    return size == 0 or 0x7FFF_F000 <= size <= 0x8000_0100 or 0xFFFF_F000 <= size <= 0xFFFF_FFFF
