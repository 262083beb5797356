"""AAC that can be sent while it is made: bare frames, each with a header of its own (ADTS).

Through PyAV's encoder alone: its container would hold back seconds of sound in its buffer.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from anyrig.audio.aac import coder_options
from anyrig.audio.samples import Samples
from anyrig.errors import MissingPackageError
from anyrig.install import format_install

if TYPE_CHECKING:
    from collections.abc import Iterable

    from av.packet import Packet

    from anyrig.audio.encode import Sink

_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000)
_BLOCK = 24000
_HEAD_BYTES = 7


class Adts:
    """Frames of AAC-LC, one channel."""

    def __init__(self, sink: Sink, rate: int, bitrate: int) -> None:
        try:
            import av
        except ImportError:
            raise MissingPackageError(
                "aac needs the package av",
                hint=f"`{format_install('av')}`, or take opus, mp3 or flac.",
            ) from None
        self._av, self._sink, self._rate = av, sink, rate
        self._place = 0
        self._coder = av.AudioCodecContext.create("aac", "w")
        self._coder.sample_rate, self._coder.bit_rate = rate, bitrate
        self._coder.format, self._coder.layout = "fltp", "mono"
        self._coder.time_base = Fraction(1, rate)
        self._coder.options = coder_options(bitrate)
        self._coder.open()

    def write(self, samples: Samples) -> None:
        """Take samples."""
        for start in range(0, len(samples), _BLOCK):
            row = samples[start : start + _BLOCK].astype(np.float32, copy=False).reshape(1, -1)
            frame = self._av.AudioFrame.from_ndarray(row, format="fltp", layout="mono")
            frame.sample_rate, frame.time_base = self._rate, Fraction(1, self._rate)
            frame.pts = self._place
            self._place += row.shape[1]
            self._send(self._coder.encode(frame))

    def close(self) -> None:
        """Send what the encoder still holds."""
        self._send(self._coder.encode(None))

    def drop(self) -> None:
        """Nothing is held that would matter."""

    def _send(self, packets: Iterable[Packet[Any]]) -> None:
        for packet in packets:
            data = bytes(packet)
            self._sink.write(_head(self._rate, len(data)) + data)


def _head(rate: int, length: int) -> bytes:
    """Of a frame: AAC-LC, mono, no checksum (ISO/IEC 13818-7, 6.2)."""
    whole = length + _HEAD_BYTES
    bits = 0xFFF1 << 40
    bits |= 1 << 38 | _RATES.index(rate) << 34 | 1 << 30  # profile LC, rate, one channel
    bits |= whole << 13 | 0x7FF << 2  # buffer fullness: not told
    return bits.to_bytes(_HEAD_BYTES, "big")
