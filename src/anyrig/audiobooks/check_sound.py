"""How a finished book sounds, measured: loudness, peaks, noise, silences, clipping, dropouts.

One pass over the samples; what stays in memory is the power of every ten milliseconds, 14 MB for
ten hours. True peaks are most of the cost: 400 times real time on one core.

What it cannot see: clipping that was made quieter and then went through a lossy format, as the
flat tops are no longer flat; and most holes that were there before Opus, which fills them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.audiobooks.listen import Finished
    from anyrig.audiobooks.listen_files import Block

    Powers = NDArray[np.float32]

Stretch = tuple[float, float]
"""From and to, in seconds from the beginning of the track."""

FRAME_S = 0.01
_QUIET = 10.0**-4.5  # of the power of loud speech: 45 dB under it nothing counts as speech
_HUSH = 10.0**-7.5  # the power of -75 dBFS
_FULL = 0.99
_FLAT = 0.25  # under this, equal samples in a row are no clipping
_FLOOR_FRAMES = 30  # the noise floor is that of the quietest 0.3 s
_DEAD = 10.0**-7.5  # a dropout is at least as quiet as this
_DROP = 0.06  # of the power of loud speech, 12 dB under it: what is cut is speech, not its end
_EDGE = 4  # frames within which the sound goes and comes; lossy formats smear it over three
_DROP_FRAMES = 3, 100  # shorter is a stop consonant, longer a pause


@dataclass(frozen=True)
class Levels:
    """What is asked of a book's sound; None asks nothing."""

    name: str = "book"
    lufs: tuple[float, float] | None = (-20.0, -18.0)
    """Integrated loudness of the whole, EBU R128."""
    true_peak_db: float | None = -3.0
    peak_db: float | None = None
    rms_db: tuple[float, float] | None = None
    noise_floor_db: float | None = None
    drift_lu: float = 3.0
    """How far a chapter's loudness may lie from the whole's."""
    by_chapter: bool = False
    """Whether each chapter must meet the levels by itself, as where each is a file of a shop."""
    longest_silence_s: float = 4.0
    most_dc: float = 0.01
    """The mean of all samples: above it, something is wrong with the recording."""
    format: tuple[str, int, int] | None = None
    """Codec, rate and least bitrate that a shop takes; told, not asked for."""


PRESETS = {
    "book": Levels(),
    "acx": Levels(
        "acx", lufs=None, true_peak_db=None, peak_db=-3.0, rms_db=(-23.0, -18.0),
        noise_floor_db=-60.0, by_chapter=True, format=("mp3", 44100, 192_000),
    ),
}  # fmt: skip
"""By name: `book` is what anyrig makes, `acx` what Audible's shop takes."""


def preset(name: str) -> Levels:
    """A preset by its name."""
    if name not in PRESETS:
        raise InvalidInputError(
            f"unknown levels: {name!r}", hint=f"Valid names: {', '.join(PRESETS)}."
        )
    return PRESETS[name]


@dataclass(frozen=True)
class Sound:
    """What was measured of a track."""

    duration_s: float
    lufs: float
    """-inf when nothing was loud enough to count."""
    true_peak_db: float
    peak_db: float
    rms_db: float
    noise_floor_db: float
    dc: float
    clipped: tuple[float, ...]
    """When each hundredth of a second is heard that is cut at the top."""
    dropouts: tuple[Stretch, ...]
    """Holes in the middle of speech."""
    quiet: tuple[Stretch, ...] = field(repr=False)
    """Every pause of a tenth of a second and more."""

    @property
    def longest_silence_s(self) -> float:
        """The longest pause."""
        return max((end - start for start, end in self.quiet), default=0.0)


def measure(book: Finished, blocks: Iterable[tuple[int, Block]]) -> tuple[list[Sound], Sound]:
    """What is measured of each track, and of the whole."""
    gauges = [Gauge(track.rate, book.channels) for track in book.tracks]
    for number, block in blocks:
        gauges[number].add(block)
    return [gauge.sound() for gauge in gauges], _whole(gauges)


class Gauge:
    """Measures a track that comes in parts."""

    def __init__(self, rate: int, channels: int) -> None:
        import numpy as np
        import pyebur128

        mode = pyebur128.MeasurementMode
        self.state = pyebur128.R128State(channels, rate, mode.MODE_I | mode.MODE_TRUE_PEAK)
        self._channels, self._size = channels, max(1, round(FRAME_S * rate))
        self._frame_s = self._size / rate
        self._rest: Block = np.zeros((0, channels), dtype=np.float32)
        self._powers: list[Powers] = []
        self._clipped: list[NDArray[np.intp]] = []
        self.rate, self.num_samples, self.total, self.squares, self.peak = rate, 0, 0.0, 0.0, 0.0

    def add(self, block: Block) -> None:
        """Hear a part."""
        import numpy as np

        if not len(block):
            return
        block = np.nan_to_num(_as_channels(block, self._channels))
        self.state.add_frames(np.ascontiguousarray(block).reshape(-1), len(block))
        self.num_samples += len(block)
        self.total += float(block.sum(dtype=np.float64)) / self._channels
        self.peak = max(self.peak, float(np.abs(block).max()))
        held = np.concatenate([self._rest, block])
        whole = len(held) // self._size * self._size
        self._rest = held[whole:]
        if whole:
            self._frames(held[:whole].reshape(-1, self._size * self._channels))

    def _frames(self, frames: NDArray[np.float32]) -> None:
        import numpy as np

        power: Powers = np.einsum("ij,ij->i", frames, frames) / np.float32(frames.shape[1])
        self.squares += float(power.sum(dtype=np.float64)) * self._size
        # A wave that lies beside the middle has silences as well.
        middle = frames.reshape(len(frames), self._size, self._channels).mean(axis=1)
        power = np.maximum(power - (middle * middle).mean(axis=1), 0.0)
        first = sum(map(len, self._powers))
        self._clipped.append(first + np.flatnonzero(_clipped(frames, self._channels)))
        self._powers.append(power)

    @property
    def powers(self) -> Powers:
        """The mean square of every hundredth of a second."""
        import numpy as np

        return np.concatenate(self._powers) if self._powers else np.zeros(0, dtype=np.float32)

    @property
    def true_peak(self) -> float:
        """The highest of all channels."""
        import pyebur128

        if not self.num_samples:
            return 0.0
        found = (pyebur128.get_true_peak(self.state, one) for one in range(self._channels))
        return max(float(peak) for peak in found)

    def sound(self) -> Sound:
        """What was measured."""
        import pyebur128

        powers, step = self.powers, self._frame_s
        speech = _speech(powers)
        return Sound(
            self.num_samples / self.rate,
            float(pyebur128.get_loudness_global(self.state)),
            _db(self.true_peak), _db(self.peak), _db(self._rms()),
            _db(math.sqrt(_floor(powers))),
            self.total / max(1, self.num_samples),
            tuple(float(at) * step for part in self._clipped for at in part),
            tuple((a * step, b * step) for a, b in _dropouts(powers, speech)),
            tuple((a * step, b * step) for a, b in _runs(powers < _threshold(speech), 10)),
        )  # fmt: skip

    def _rms(self) -> float:
        return math.sqrt(self.squares / max(1, self.num_samples))


def _whole(gauges: list[Gauge]) -> Sound:
    """All tracks as one: what lies in which place is told by the tracks."""
    import pyebur128

    num_samples = max(1, sum(one.num_samples for one in gauges))
    states = [one.state for one in gauges if one.num_samples]
    lufs = float(pyebur128.get_loudness_global_multiple(states)) if states else -math.inf
    sounds = [_floor(one.powers) for one in gauges if one.num_samples]
    return Sound(
        sum(one.num_samples / one.rate for one in gauges),
        lufs,
        _db(max(one.true_peak for one in gauges)),
        _db(max(one.peak for one in gauges)),
        _db(math.sqrt(sum(one.squares for one in gauges) / num_samples)),
        _db(math.sqrt(max(sounds, default=0.0))),
        sum(one.total for one in gauges) / num_samples,
        (), (), (),
    )  # fmt: skip


def _as_channels(block: Block, channels: int) -> Block:
    """A folder may hold a stereo file among mono ones."""
    import numpy as np

    if block.shape[1] == channels:
        return block
    return np.repeat(block.mean(axis=1, keepdims=True), channels, axis=1).astype(np.float32)


def _clipped(frames: NDArray[np.float32], channels: int) -> NDArray[np.bool_]:
    """Frames that reach full scale more than a moment, or hold a value where a wave would turn."""
    import numpy as np

    high = np.abs(frames)
    found: NDArray[np.bool_] = np.count_nonzero(high >= _FULL, axis=1) >= 3 * channels
    loud = np.flatnonzero(high.max(axis=1) > _FLAT)
    if len(loud):
        some = frames[loud].reshape(len(loud), -1, channels)
        same = (some[:, 1:] == some[:, :-1]) & (np.abs(some[:, 1:]) > _FLAT)
        held = same[:, 3:] & same[:, 2:-1] & same[:, 1:-2] & same[:, :-3]
        found[loud] |= held.any(axis=(1, 2))
    return found


def _speech(powers: Powers) -> float:
    """The power of loud speech; 0 when there is none."""
    import numpy as np

    heard = powers[powers > _HUSH]
    return float(np.percentile(heard, 95)) if len(heard) else 0.0


def _threshold(speech: float) -> float:
    return max(_HUSH, speech * _QUIET)


def _floor(powers: Powers) -> float:
    """The power of the quietest stretch."""
    import numpy as np

    if not len(powers):
        return 0.0
    size = min(_FLOOR_FRAMES, len(powers))
    sums = np.concatenate([[0.0], np.cumsum(powers, dtype=np.float64)])
    return max(0.0, float((sums[size:] - sums[:-size]).min()) / size)


def _dropouts(powers: Powers, speech: float) -> Iterator[tuple[int, int]]:
    """Holes: speech breaks off at once, nothing at all is there, and speech goes on at once."""
    loud = speech * _DROP
    for start, end in _runs(powers < _DEAD, _DROP_FRAMES[0]):
        before = powers[max(0, start - _EDGE) : start]
        after = powers[end : end + _EDGE]
        if end - start > _DROP_FRAMES[1] or not len(before) or not len(after):
            continue
        if before.max() > loud and after.max() > loud:
            yield start, end


def _runs(which: NDArray[np.bool_], least: int) -> Iterator[tuple[int, int]]:
    """Where something holds for `least` frames in a row and more."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate([[0], which.astype(np.int8), [0]])))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - start >= least:
            yield start, end


def _db(amplitude: float) -> float:
    return 20.0 * math.log10(amplitude) if amplitude > 0 else -math.inf
