"""Takes in the result cache: under a key of everything that shapes them, as checked bytes."""

from __future__ import annotations

import io
import json
import logging
import math
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import StorageError
from anyrig.speech.engine import EngineInfo, EngineWeights, OptionValue, Take, Utterance, WordTime
from anyrig.speech.voices import is_recording
from anyrig.storage.keys import CacheKey, JsonValue

# NumPy is imported late: it loads while a worker starts.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.audio.samples import Samples
    from anyrig.placement import Placement
    from anyrig.speech.quality import CheckedTake
    from anyrig.storage.cache import Cache

log = logging.getLogger(__name__)
KIND = "speech"
"""What its results are called in the cache."""
WORKER = "from"
"""In a result's metadata: the worker of a cluster that made it."""
_AGAIN = "again"


class CachedTake(NamedTuple):
    take: Take
    problems: tuple[str, ...]
    """What its checks found."""


class TakeCache:
    """Takes of one engine; without a cache behind it, it is always empty.

    Args:
        info: of the engine.
        weights: of the engine.
        precision: a precision class, of `precision_class`.
        options: of the engine, complete.
        cache: where takes are stored.
    """

    def __init__(
        self,
        info: EngineInfo,
        weights: EngineWeights,
        precision: str,
        options: Mapping[str, OptionValue],
        cache: Cache | None = None,
    ) -> None:
        self._info, self._weights, self._precision = info, weights, precision
        self._options, self._cache = options, cache

    def make_key(self, utterance: Utterance) -> str:
        """Everything that shapes a take, and not the device that makes it."""
        weights, varies = self._weights, self._info.varies_with_seed
        return CacheKey(
            KIND, utterance.text, weights.engine, weights.version, weights.fingerprint,
            utterance.voice, self._precision, utterance.seed if varies else None,
            {"language": utterance.language, "rate": utterance.rate, **self._options,
             **dict(utterance.options), **self._identify_recording(utterance)},
        ).digest  # fmt: skip

    def _identify_recording(self, utterance: Utterance) -> dict[str, OptionValue]:
        """The recording behind a voice: another one under the same name is another voice."""
        from anyrig.speech.engines.installed import compute_sha256

        voice = utterance.voice
        for one in self._weights.voices:
            if one.digest and voice in (one.name, ""):
                return {"recording": one.digest}
        if is_recording(voice) and (path := Path(voice)).is_file():
            return {"recording": compute_sha256(path)}
        return {}

    def find_existing(self, keys: Collection[str]) -> set[str]:
        """Those of these keys that are cached."""
        return self._cache.has(set(keys)) if self._cache is not None else set()

    def load(self, key: str) -> CachedTake | None:
        """None if it is not cached, or damaged; then it is deleted."""
        if self._cache is None:
            return None
        result = self._cache.get(key)
        if result is None:
            return None
        try:
            return CachedTake(decode_take(result.data), _read_problems(result.metadata))
        except StorageError as error:
            log.warning("making a cached take again: %s", error.message)
        try:
            self._cache.delete(key)
        except StorageError as error:  # a shared cache may be read-only
            log.warning("cannot delete a damaged take from the cache: %s", error.message)
        return None

    def count_retakes(self, key: str) -> int:
        """How often another take was requested in the place of the first."""
        result = self._cache.get(key) if self._cache is not None else None
        count = result.metadata.get(_AGAIN) if result is not None else 0
        return count if isinstance(count, int) else 0

    def store(
        self, key: str, checked: CheckedTake, *, replace: bool = False, num_retakes: int = 0
    ) -> None:
        """Store a take, unless it is not worth it: then the next run tries again.

        Args:
            replace: the one that is cached already.
            num_retakes: what `count_retakes` returns from now on.
        """
        if self._cache is None or not checked.is_cacheable:
            return
        metadata: dict[str, JsonValue] = {
            "engine": self._weights.engine, "problems": checked.problems,
            "tries": checked.tries,
        }  # fmt: skip
        if checked.worker:
            metadata[WORKER] = checked.worker
        if num_retakes:
            metadata[_AGAIN] = num_retakes
        put = self._cache.replace if replace else self._cache.put
        put(key, checked.data, kind=KIND, metadata=metadata)


def precision_class(placements: Sequence[Placement]) -> str:
    """The precision class under which takes of some workers are cached."""
    precision = placements[0].precision if placements else "fp32"
    return "half" if precision in ("fp16", "bf16") else precision.replace("tf32", "fp32")


def _read_problems(metadata: Mapping[str, JsonValue]) -> tuple[str, ...]:
    problems = metadata.get("problems", ())
    if isinstance(problems, (list, tuple)) and all(isinstance(one, str) for one in problems):
        return tuple(map(str, problems))
    raise StorageError(
        "a cached take is damaged: its problems are not a list of strings",
        hint="`anyrig cache verify` deletes it; it is then made again.",
    )


# -- a take as bytes ------------------------------------------------------------------------------

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


def encode_take(take: Take, *, flac: bool = False) -> bytes:
    """A take as bytes, for the cache and for the pipe from a worker.

    16-bit samples under a power-of-two scale, so that quiet takes keep their detail, peaks over 1.0
    survive, and encoding what was decoded gives the same bytes again. Plain samples are the
    default: they cost half a per cent of the synthesis of the default voice. FLAC halves the size
    and costs 4 to 5 %. Samples that are not finite become 0.
    """
    import numpy as np

    samples = np.ascontiguousarray(take.samples, dtype=np.float32)
    peak = _find_peak(samples)
    if not np.isfinite(peak):
        samples = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)
        peak = _find_peak(samples)
    exponent = _choose_exponent(peak)
    scaled = samples * np.float32(_FULL / 2.0**exponent)
    np.rint(scaled, out=scaled)
    whole = np.clip(scaled, -_FULL, _FULL - 1, out=scaled).astype("<i2")
    sound = memoryview(_encode_flac(whole) if flac else whole.data)
    words = [[word.text, word.start_s, word.end_s] for word in take.words]
    written = json.dumps(words, separators=(",", ":")).encode() if words else b""
    codec = _FLAC if flac else _PLAIN
    head = _HEAD.pack(MAGIC, VERSION, codec, exponent, take.rate, len(whole), len(written))
    check = zlib.crc32(sound, zlib.crc32(written, zlib.crc32(head)))
    return b"".join((head, _CHECK.pack(check), written, sound))


def count_take_samples(data: bytes) -> int:
    """The number of samples that the header of a take states; 0 if there is none."""
    return int(_HEAD.unpack_from(data)[5]) if len(data) >= _HEAD.size else 0


def decode_take(data: bytes) -> Take:
    """Raises `StorageError` if the bytes are damaged."""
    import numpy as np

    start = _HEAD.size + _CHECK.size
    if len(data) < start:
        raise _damage_error("its header is incomplete")
    magic, version, codec, exponent, rate, count, num_words = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise _damage_error("its header is not valid")
    if version != VERSION or codec not in (_PLAIN, _FLAC):
        raise StorageError(
            f"a cached take has version {version}.{codec}, which this anyrig cannot read",
            hint="A newer anyrig wrote it: use that one, or delete the cached result.",
        )
    rest = memoryview(data)[start:]
    check = zlib.crc32(rest, zlib.crc32(data[: _HEAD.size]))
    if _CHECK.unpack_from(data, _HEAD.size) != (check,):
        raise _damage_error("its checksum does not match")
    # Anybody can compute the checksum: an entry of a shared cache may hold anything.
    if not _MIN_RATE <= rate <= _MAX_RATE:
        raise _damage_error(f"its sample rate is {rate}")
    if not _LOWEST <= exponent <= _HIGHEST:
        raise _damage_error(f"its scale is {exponent}")
    if count > _MAX_SAMPLES:
        raise _damage_error(f"its length is {count} samples")
    words, sound = _read_words(bytes(rest[:num_words])), rest[num_words:]
    if codec == _PLAIN and len(sound) != 2 * count:
        raise _damage_error(f"its length is not {count} samples")
    whole = _decode_flac(bytes(sound), count) if codec == _FLAC else np.frombuffer(sound, "<i2")
    if whole.shape != (count,):
        raise _damage_error(f"its length is not {count} samples")
    scale = np.float32(2.0**exponent / _FULL)
    samples: Samples = np.multiply(whole, scale, dtype=np.float32)
    return Take(samples, rate, words)


def _read_words(data: bytes) -> tuple[WordTime, ...]:
    try:
        words = [WordTime(*word) for word in json.loads(data or b"[]")]
        for word in words:
            if not isinstance(word.text, str):
                raise TypeError("a word is not text")
            if not (math.isfinite(word.start_s) and math.isfinite(word.end_s)):
                raise ValueError("a time is not finite")
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _damage_error(f"its words cannot be read: {error}") from None
    return tuple(words)


def _find_peak(samples: Samples) -> float:
    """The largest magnitude; not finite when any sample is not."""
    return float(max(samples.max(), -samples.min())) if len(samples) else 0.0


def _choose_exponent(peak: float) -> int:
    """The smallest power of two that holds the peak, within half a step of rounding.

    The test is on rounded values, so that a peak which rounds down onto a power of two is stored
    under that one the first time, and not only when the decoded take is stored again.
    """
    import numpy as np

    if np.rint(peak * _FULL / 2.0**_LOWEST) == 0:
        return 0  # silence, as it will be read back
    exponent = min(max(int(np.frexp(peak)[1]) + 1, _LOWEST), _HIGHEST)
    while exponent > _LOWEST and _fits(peak, exponent - 1):
        exponent -= 1
    return exponent


def _fits(peak: float, exponent: int) -> bool:
    import numpy as np

    return bool(np.rint(peak * (_FULL / 2) / 2.0**exponent) <= _FULL / 2)


def _encode_flac(whole: NDArray[np.int16]) -> bytes:
    import soundfile

    if not len(whole):
        return b""
    into = io.BytesIO()
    # The rate in FLAC's own header is of no use here, and FLAC takes only some.
    soundfile.write(into, whole, 24000, format="FLAC", subtype="PCM_16", compression_level=0.0)
    return into.getvalue()


def _decode_flac(sound: bytes, count: int) -> NDArray[np.int16]:
    """The samples, and one more at most: a few bytes may unpack to any length."""
    import numpy as np
    import soundfile

    if not sound:
        return np.zeros(0, dtype=np.int16)
    try:
        read: NDArray[np.int16] = soundfile.read(
            io.BytesIO(sound), frames=count + 1, dtype="int16"
        )[0]
    except (soundfile.LibsndfileError, RuntimeError, ValueError, MemoryError) as error:
        raise _damage_error(str(error)) from error
    return read


def _damage_error(reason: str) -> StorageError:
    return StorageError(
        f"a cached take is damaged: {reason}",
        hint="`anyrig cache verify` deletes it; it is then made again.",
    )
