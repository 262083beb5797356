"""16-bit samples, plain or as WAV: of any length (RF64 beyond 4 GB), and for pipes.

The standard `wave` module neither streams nor goes beyond 4 GB, and libsndfile does not write WAV
to a pipe.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from anyrig.audio.samples import Samples

if TYPE_CHECKING:
    from anyrig.audio.encode import Sink

_UNKNOWN = 0xFFFFFFFF
_INFO = {
    "title": b"INAM", "artist": b"IART", "album": b"IPRD", "comment": b"ICMT", "date": b"ICRD",
    "genre": b"IGNR", "track": b"ITRK", "language": b"ILNG",
}  # fmt: skip


def whole_samples(samples: Samples) -> bytes:
    """Samples of -1 to 1 as 16-bit little-endian ones."""
    scaled = samples * np.float32(32767.0)
    np.rint(scaled, out=scaled)
    return scaled.astype("<i2").tobytes()


class Pcm:
    """Samples and nothing else."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, samples: Samples) -> None:
        """Take samples."""
        self._sink.write(whole_samples(samples))

    def close(self) -> None:
        """There is no end to write."""

    def drop(self) -> None:
        """Nothing is held."""


class Wave:
    """A WAV file; its sizes are filled in at the end, and stay `unknown` on a pipe."""

    largest = _UNKNOWN - 1
    """The most bytes that WAV's 32-bit sizes can tell."""

    def __init__(self, sink: Sink, rate: int, tags: Mapping[str, str]) -> None:
        self._sink = sink
        self._rate = rate
        self._info = _info(tags)
        self._bytes = 0
        sink.write(self._head(_UNKNOWN, _UNKNOWN))

    def write(self, samples: Samples) -> None:
        """Take samples."""
        data = whole_samples(samples)
        self._bytes += len(data)
        self._sink.write(data)

    def close(self) -> None:
        """Fill in the sizes."""
        if not self._sink.seekable:
            return
        head = len(self._head(0, 0))
        whole = head - 8 + self._bytes
        self._sink.seek(0)
        if whole <= self.largest:
            self._sink.write(self._head(whole, self._bytes))
        else:
            self._sink.write(self._head(whole, self._bytes, long=True))
        self._sink.seek(0, 2)

    def drop(self) -> None:
        """Nothing is held."""

    def _head(self, whole: int, data: int, *, long: bool = False) -> bytes:
        """The header; the room for 64-bit sizes is always kept, as a chunk that readers skip."""
        if long:
            sizes = struct.pack("<QQQI", whole, data, data // 2, 0)
            name, room = b"RF64", b"ds64" + struct.pack("<I", len(sizes)) + sizes
            whole = data = _UNKNOWN
        else:
            name, room = b"RIFF", b"JUNK" + struct.pack("<I", 28) + bytes(28)
        shape = struct.pack("<HHIIHH", 1, 1, self._rate, 2 * self._rate, 2, 16)
        return b"".join([
            name, struct.pack("<I", whole), b"WAVE", room,
            b"fmt ", struct.pack("<I", len(shape)), shape, self._info,
            b"data", struct.pack("<I", data),
        ])  # fmt: skip


def _info(tags: Mapping[str, str]) -> bytes:
    parts = b""
    for name, code in _INFO.items():
        if tags.get(name):
            text = tags[name].encode("utf-8") + b"\0"
            parts += code + struct.pack("<I", len(text)) + text + b"\0" * (len(text) % 2)
    return b"LIST" + struct.pack("<I", 4 + len(parts)) + b"INFO" + parts if parts else b""
