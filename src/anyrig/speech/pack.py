"""A take as bytes, for the pipe from a worker and for the store, and back.

16-bit samples under a power-of-two scale, so quiet takes keep their detail, peaks over 1.0 survive,
and packing what was unpacked gives the same bytes again. Plain samples are the default: they cost
half a per cent of the synthesis of the default voice. FLAC (`small=True`) halves the size and
costs 4 to 5 %.

What does not survive: detail under 16 bits, and samples that are not finite, which become 0
(`check` refuses such takes before).
"""

from __future__ import annotations

import io
import json
import math
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.errors import StorageError
from anyrig.speech.engine import Take, WordTime

MAGIC = b"ARTK"
VERSION = 1
_HEAD = struct.Struct("<4sBBhIQI")  # magic, version, codec, exponent, rate, samples, words
_CHECK = struct.Struct("<I")
_PLAIN, _FLAC = 0, 1
_LOWEST, _HIGHEST = -10, 64
_FULL = 32768.0
_MIN_RATE, _MAX_RATE = 4_000, 400_000
_MAX_SAMPLES = 50_000_000
"""Half an hour at 24 kHz: a segment has seconds."""


def pack(take: Take, *, small: bool = False) -> bytes:
    """A take as bytes.

    Args:
        take: what to pack.
        small: FLAC, at half the size and ten times the work.
    """
    samples = np.ascontiguousarray(take.samples, dtype=np.float32)
    peak = _peak(samples)
    if not np.isfinite(peak):
        samples = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)
        peak = _peak(samples)
    exponent = _exponent(peak)
    scaled = samples * np.float32(_FULL / 2.0**exponent)
    np.rint(scaled, out=scaled)
    whole = np.clip(scaled, -_FULL, _FULL - 1, out=scaled).astype("<i2")
    sound = _flac(whole) if small else whole.tobytes()
    words = [[word.text, word.start_s, word.end_s] for word in take.words]
    written = json.dumps(words, separators=(",", ":")).encode() if words else b""
    rest = written + sound
    codec = _FLAC if small else _PLAIN
    head = _HEAD.pack(MAGIC, VERSION, codec, exponent, take.rate, len(whole), len(written))
    return head + _CHECK.pack(zlib.crc32(rest, zlib.crc32(head))) + rest


def num_samples(packed: bytes) -> int:
    """How many samples these bytes say that they hold; 0 where they hold no header."""
    return int(_HEAD.unpack_from(packed)[5]) if len(packed) >= _HEAD.size else 0


def unpack(packed: bytes) -> Take:
    """The take in these bytes; StorageError when they are damaged."""
    start = _HEAD.size + _CHECK.size
    if len(packed) < start:
        raise _damaged("its header is incomplete")
    magic, version, codec, exponent, rate, count, num_words = _HEAD.unpack_from(packed)
    if magic != MAGIC:
        raise _damaged("its header is not valid")
    if version != VERSION or codec not in (_PLAIN, _FLAC):
        raise StorageError(
            f"a cached take has version {version}.{codec}, which this anyrig cannot read",
            hint="A newer anyrig wrote it: use that one, or delete the cached result.",
        )
    rest = memoryview(packed)[start:]
    check = zlib.crc32(rest, zlib.crc32(packed[: _HEAD.size]))
    if _CHECK.unpack_from(packed, _HEAD.size) != (check,):
        raise _damaged("its checksum does not match")
    # Anybody can compute the checksum: an entry of a shared cache may hold anything.
    if not _MIN_RATE <= rate <= _MAX_RATE:
        raise _damaged(f"its sample rate is {rate}")
    if not _LOWEST <= exponent <= _HIGHEST:
        raise _damaged(f"its scale is {exponent}")
    if count > _MAX_SAMPLES:
        raise _damaged(f"its length is {count} samples")
    words, sound = _read_words(bytes(rest[:num_words])), bytes(rest[num_words:])
    whole = _unflac(sound, count) if codec == _FLAC else np.frombuffer(sound[: 2 * count], "<i2")
    if whole.shape != (count,) or (codec == _PLAIN and len(sound) != 2 * count):
        raise _damaged(f"its length is not {count} samples")
    samples: Samples = whole.astype(np.float32)
    samples *= np.float32(2.0**exponent / _FULL)
    return Take(samples, rate, words)


def _read_words(packed: bytes) -> tuple[WordTime, ...]:
    try:
        words = [WordTime(*word) for word in json.loads(packed or b"[]")]
        for word in words:
            if not isinstance(word.text, str):
                raise TypeError("a word is not text")
            if not (math.isfinite(word.start_s) and math.isfinite(word.end_s)):
                raise ValueError("a time is not finite")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _damaged(f"its words cannot be read: {error}") from None
    return tuple(words)


def _peak(samples: Samples) -> float:
    """The largest magnitude; not finite when any sample is not."""
    return float(max(samples.max(), -samples.min())) if len(samples) else 0.0


def _exponent(peak: float) -> int:
    """The smallest power of two that holds the peak, within half a step of rounding.

    The test is on rounded values, so that a peak which rounds down onto a power of two is packed
    under that one at once, and not only when it is packed again.
    """
    if np.rint(peak * _FULL / 2.0**_LOWEST) == 0:
        return 0  # silence, as it will be read back
    exponent = min(max(int(np.frexp(peak)[1]) + 1, _LOWEST), _HIGHEST)
    while exponent > _LOWEST and _fits(peak, exponent - 1):
        exponent -= 1
    return exponent


def _fits(peak: float, exponent: int) -> bool:
    return bool(np.rint(peak * (_FULL / 2) / 2.0**exponent) <= _FULL / 2)


def _flac(whole: NDArray[np.int16]) -> bytes:
    import soundfile

    if not len(whole):
        return b""
    into = io.BytesIO()
    # The rate in FLAC's own header is of no use here, and FLAC takes only some.
    soundfile.write(into, whole, 24000, format="FLAC", subtype="PCM_16", compression_level=0.0)
    return into.getvalue()


def _unflac(sound: bytes, count: int) -> NDArray[np.int16]:
    """The samples, and one more at most: what is packed small may unpack to anything."""
    import soundfile

    if not sound:
        return np.zeros(0, dtype=np.int16)
    try:
        read: NDArray[np.int16] = soundfile.read(
            io.BytesIO(sound), frames=count + 1, dtype="int16"
        )[0]
    except (soundfile.LibsndfileError, RuntimeError, ValueError, MemoryError) as error:
        raise _damaged(str(error)) from error
    return read


def _damaged(why: str) -> StorageError:
    return StorageError(
        f"a cached take is damaged: {why}",
        hint="Delete it (`anyrig cache verify`): it is made again.",
    )
