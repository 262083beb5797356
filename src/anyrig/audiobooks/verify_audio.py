"""Levels of a finished book: loudness, peaks, noise, silences, clipping, dropouts, DC offset.

One pass over the samples; what stays in memory is the power of every ten milliseconds, 14 MB for
ten hours. True peaks are most of the cost: 400 times real time on one core.

Not seen: clipping that was made quieter and then went through a lossy format, as the flat tops are
no longer flat; and most holes that were there before Opus, which fills them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.units import pluralize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.audio.samples import Samples

    Powers = NDArray[np.float32]

AudioProblemKind = Literal["silence", "clipping", "dc", "dropout", "loudness", "peak", "noise"]
Stretch = tuple[float, float]
"""From and to, in seconds from the beginning of the chapter."""

FRAME_S = 0.01
_QUIET = 10.0**-4.5  # of the power of loud speech: 45 dB under it nothing counts as speech
_INAUDIBLE = 10.0**-7.5  # the power of -75 dBFS
_FULL = 0.99
_FLAT = 0.25  # under this, equal samples in a row are no clipping
_FLOOR_FRAMES = 30  # the noise floor is that of the quietest 0.3 s
_DROP = 0.06  # of the power of loud speech, 12 dB under it: what is cut is speech, not its end
_EDGE = 4  # frames within which the sound goes and comes; lossy formats smear it over three
_MIN_DROP, _MAX_DROP = 3, 100  # frames: shorter is a stop consonant, longer a pause
_MAX_LISTED = 20
_LONG_S = 30.0  # shorter chapters have a loudness of their own
_MARGIN_S = 1.0  # beside the pauses that were planned


@dataclass(frozen=True)
class Levels:
    """What is required of a book's audio; None requires nothing."""

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
    max_dc: float = 0.01
    """The mean of all samples: above it, something is wrong with the recording."""
    format: tuple[str, int, int] | None = None
    """Codec, rate and least bitrate that a shop takes; mentioned, not required."""


PRESETS = {
    "book": Levels(),
    "acx": Levels(
        "acx", lufs=None, true_peak_db=None, peak_db=-3.0, rms_db=(-23.0, -18.0),
        noise_floor_db=-60.0, by_chapter=True, format=("mp3", 44100, 192_000),
    ),
}  # fmt: skip
"""By name: `book` is what anyrig makes, `acx` what Audible's shop takes."""


def find_preset(name: str) -> Levels:
    if name not in PRESETS:
        raise InvalidInputError(
            f"unknown levels: {name!r}", hint=f"Valid names: {', '.join(PRESETS)}."
        )
    return PRESETS[name]


@dataclass(frozen=True)
class AudioFigures:
    """What was measured of a chapter, or of the whole."""

    duration_s: float
    lufs: float
    """-inf when nothing was loud enough to count."""
    true_peak_db: float
    peak_db: float
    rms_db: float
    noise_floor_db: float
    dc: float
    clipped: tuple[float, ...] = ()
    """When each hundredth of a second is heard that is cut at the top."""
    dropouts: tuple[Stretch, ...] = ()
    """Holes in the middle of speech."""
    pauses: tuple[Stretch, ...] = field(default=(), repr=False)
    """Every pause of a tenth of a second and more."""

    @property
    def longest_silence_s(self) -> float:
        return max((end - start for start, end in self.pauses), default=0.0)


class AudioMeter:
    """Measures a chapter that comes in parts."""

    def __init__(self, rate: int) -> None:
        import numpy as np
        import pyebur128

        mode = pyebur128.MeasurementMode
        self._state = pyebur128.R128State(1, rate, mode.MODE_I | mode.MODE_TRUE_PEAK)
        self._rate, self._size = rate, max(1, round(FRAME_S * rate))
        self._rest: Samples = np.zeros(0, dtype=np.float32)
        self._powers: list[Powers] = []
        self._clipped: list[NDArray[np.intp]] = []
        self._num_frames = 0
        self.num_samples, self._total, self._squares, self._peak = 0, 0.0, 0.0, 0.0

    def add(self, samples: Samples) -> None:
        import numpy as np

        from anyrig.audio.samples import frame_power

        if not len(samples):
            return
        samples = np.ascontiguousarray(np.nan_to_num(samples), dtype=np.float32)
        self._state.add_frames(samples, len(samples))
        self.num_samples += len(samples)
        self._total += float(samples.sum(dtype=np.float64))
        self._peak = max(self._peak, float(np.abs(samples).max()))
        samples_left = np.concatenate([self._rest, samples])
        whole = len(samples_left) // self._size * self._size
        self._rest = samples_left[whole:]
        if not whole:
            return
        frames = samples_left[:whole].reshape(-1, self._size)
        power = frame_power(samples_left[:whole], self._size)
        self._squares += float(power.sum(dtype=np.float64)) * self._size
        middle = frames.mean(axis=1)  # with a DC offset there are silences as well
        self._clipped.append(self._num_frames + np.flatnonzero(_find_clipped(frames)))
        self._powers.append(np.maximum(power - middle * middle, 0.0))
        self._num_frames += len(frames)

    def measure(self) -> AudioFigures:
        import numpy as np
        import pyebur128

        powers = np.concatenate(self._powers) if self._powers else np.zeros(0, np.float32)
        step, speech = self._size / self._rate, _find_speech_power(powers)
        quiet = powers < max(_INAUDIBLE, speech * _QUIET)
        peak = float(pyebur128.get_true_peak(self._state, 0)) if self.num_samples else 0.0
        return AudioFigures(
            self.num_samples / self._rate,
            float(pyebur128.get_loudness_global(self._state)),
            _to_db(peak), _to_db(self._peak),
            _to_db(math.sqrt(self._squares / max(1, self.num_samples))),
            _to_db(math.sqrt(_find_floor(powers))),
            self._total / max(1, self.num_samples),
            tuple(float(at) * step for part in self._clipped for at in part),
            tuple((a * step, b * step) for a, b in _find_dropouts(powers, speech)),
            tuple((a * step, b * step) for a, b in _find_runs(quiet, 10)),
        )  # fmt: skip

    @staticmethod
    def measure_all(meters: Sequence[AudioMeter]) -> AudioFigures:
        """The chapters as one; places are in the figures of each."""
        import pyebur128

        each = [meter.measure() for meter in meters if meter.num_samples]
        states = [meter._state for meter in meters if meter.num_samples]
        num_samples = max(1, sum(meter.num_samples for meter in meters))
        squares = sum(meter._squares for meter in meters)
        return AudioFigures(
            sum(one.duration_s for one in each),
            float(pyebur128.get_loudness_global_multiple(states)) if states else -math.inf,
            max((one.true_peak_db for one in each), default=-math.inf),
            max((one.peak_db for one in each), default=-math.inf),
            _to_db(math.sqrt(squares / num_samples)),
            max((one.noise_floor_db for one in each), default=-math.inf),
            sum(meter._total for meter in meters) / num_samples,
        )


class AudioProblem(NamedTuple):
    """Something that is wrong with the audio of a chapter, or of the whole."""

    kind: AudioProblemKind
    message: str
    start_s: float | None = None
    """From the beginning of the chapter."""
    end_s: float | None = None


def find_whole_problems(whole: AudioFigures, levels: Levels) -> Iterator[AudioProblem]:
    if not levels.by_chapter:
        yield from _check_loudness(whole, levels)


def find_chapter_problems(
    figures: AudioFigures, whole: AudioFigures, levels: Levels, planned_pauses_s: Iterable[float]
) -> Iterator[AudioProblem]:
    """What is wrong with a chapter; a pause may be a second longer than the longest planned."""
    if not math.isfinite(figures.lufs) and figures.duration_s > 1.0:
        yield AudioProblem("silence", "nothing is heard in it", 0.0, figures.duration_s)
    else:
        longest_s = max(levels.longest_silence_s, max(planned_pauses_s, default=0.0) + _MARGIN_S)
        for start, end in figures.pauses:
            if end - start > longest_s:
                yield AudioProblem("silence", f"{end - start:.1f} s of silence", start, end)
    yield from _find_defects(figures, levels)
    maxima: tuple[tuple[AudioProblemKind, str, float, float | None, str], ...] = (
        ("peak", "true peak", figures.true_peak_db, levels.true_peak_db, "dBTP"),
        ("peak", "peak", figures.peak_db, levels.peak_db, "dB"),
        ("noise", "noise floor", figures.noise_floor_db, levels.noise_floor_db, "dB RMS"),
    )
    for kind, what, value, highest, unit in maxima:
        if highest is not None and round(value, 1) > highest:
            yield AudioProblem(kind, f"its {what} is {value:.1f} {unit}, above {highest:g}")
    if levels.by_chapter:
        yield from _check_loudness(figures, levels)
    drift = figures.lufs - whole.lufs
    if figures.duration_s >= _LONG_S and math.isfinite(drift) and abs(drift) > levels.drift_lu:
        comparison = "louder" if drift > 0 else "softer"
        yield AudioProblem("loudness", f"it is {abs(drift):.1f} LU {comparison} than the book")


def _check_loudness(figures: AudioFigures, levels: Levels) -> Iterator[AudioProblem]:
    for what, value, limits, unit in (
        ("loudness", figures.lufs, levels.lufs, "LUFS"),
        ("RMS", figures.rms_db, levels.rms_db, "dB"),
    ):
        # Meters differ by a tenth.
        if limits is not None and not limits[0] <= round(value, 1) <= limits[1]:
            message = f"its {what} is {value:.1f} {unit}, not {limits[0]:g} to {limits[1]:g}"
            yield AudioProblem("loudness", message)


def _find_defects(figures: AudioFigures, levels: Levels) -> Iterator[AudioProblem]:
    if len(figures.clipped) >= 3:
        seconds = len(figures.clipped) * FRAME_S
        message = f"{seconds:.2f} s are clipped, first here"
        yield AudioProblem("clipping", message, figures.clipped[0])
    if abs(figures.dc) > levels.max_dc:
        yield AudioProblem("dc", f"DC offset {figures.dc:+.3f}")
    for start, end in figures.dropouts[:_MAX_LISTED]:
        message = f"a dropout of {1000 * (end - start):.0f} ms in the middle of speech"
        yield AudioProblem("dropout", message, start, end)
    more = len(figures.dropouts) - _MAX_LISTED
    if more > 0:
        yield AudioProblem("dropout", pluralize(more, "more dropout"))


def _find_clipped(frames: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Frames that reach full scale more than a moment, or hold a value where a wave would turn."""
    import numpy as np

    high = np.abs(frames)
    found: NDArray[np.bool_] = np.count_nonzero(high >= _FULL, axis=1) >= 3
    loud = np.flatnonzero(high.max(axis=1) > _FLAT)
    if len(loud):
        some = frames[loud]
        same = (some[:, 1:] == some[:, :-1]) & (np.abs(some[:, 1:]) > _FLAT)
        is_flat = same[:, 3:] & same[:, 2:-1] & same[:, 1:-2] & same[:, :-3]
        found[loud] |= is_flat.any(axis=1)
    return found


def _find_speech_power(powers: Powers) -> float:
    """The power of loud speech; 0 when there is none."""
    import numpy as np

    heard = powers[powers > _INAUDIBLE]
    return float(np.percentile(heard, 95)) if len(heard) else 0.0


def _find_floor(powers: Powers) -> float:
    """The power of the quietest stretch."""
    import numpy as np

    if not len(powers):
        return 0.0
    size = min(_FLOOR_FRAMES, len(powers))
    sums = np.concatenate([[0.0], np.cumsum(powers, dtype=np.float64)])
    return max(0.0, float((sums[size:] - sums[:-size]).min()) / size)


def _find_dropouts(powers: Powers, speech: float) -> Iterator[tuple[int, int]]:
    """Holes: speech breaks off at once, nothing at all is there, and speech goes on at once."""
    loud = speech * _DROP
    for start, end in _find_runs(powers < _INAUDIBLE, _MIN_DROP):
        before = powers[max(0, start - _EDGE) : start]
        after = powers[end : end + _EDGE]
        if end - start > _MAX_DROP or not len(before) or not len(after):
            continue
        if before.max() > loud and after.max() > loud:
            yield start, end


def _find_runs(which: NDArray[np.bool_], shortest: int) -> Iterator[tuple[int, int]]:
    """Where something holds for `shortest` frames in a row and more."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate([[0], which.astype(np.int8), [0]])))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - start >= shortest:
            yield start, end


def _to_db(amplitude: float) -> float:
    return 20.0 * math.log10(amplitude) if amplitude > 0 else -math.inf
