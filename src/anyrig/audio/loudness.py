"""How loud speech is and how loud it should be: EBU R128, and a ceiling for true peaks.

The target is -19 LUFS: what podcasts ask of a mono file (-16 for stereo), and inside what audiobook
shops take (-23 to -18 dB RMS). True peaks stay under -1.5 dBTP, so lossy formats do not clip.

Two ways to the target. `level_parts` goes over the whole audio twice and applies one gain. A
`Leveller` without a gain serves audio that is heard while it is made: it takes the gain from the
first part and then follows the integrated loudness of all parts so far, by half a decibel a second
at most. The integrated loudness hardly changes after a few sentences, so the gain does not pump.
The loudness of a book's voices is measured while it is recorded (`audiobooks/record.py`).

Measuring costs 3 % of the synthesis of the default voice, so of long audio a third is measured;
true peaks of everything would cost 25 % more and are sought only near samples that come close to
the ceiling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyebur128

from anyrig.audio.limiter import Limiter, db_to_amplitude
from anyrig.audio.samples import Samples

TARGET_LUFS = -19.0
CEILING_DBTP = -1.5
MAX_GAIN_DB = 24.0
"""No gain is larger: noise would become speech."""
_CYCLE_S, _MEASURED_S = 3.0, 1.0  # of long audio, one second in three is measured
_RUNNING_S, _WHOLE_S = 30.0, 60.0  # measured completely
_SLEW_DB_PER_S = 0.5
_HEAVY_DB = 6.0  # less limiting than this takes under 0.1 LU off speech
_Mode = pyebur128.MeasurementMode


class Meter:
    """Integrated loudness of what it is given, in parts.

    Args:
        rate: samples per second.
        subsample_after_s: after so long one second in three is measured: on minutes of a voice that
            moves the result by 0.1 LU. None measures all.
    """

    def __init__(self, rate: int, *, subsample_after_s: float | None = None) -> None:
        self._state = pyebur128.R128State(1, rate, _Mode.MODE_I)
        # From the beginning, so that the first seconds weigh no more than the others.
        self._subsampled = pyebur128.R128State(1, rate, _Mode.MODE_I)
        self._subsample_after = (
            None if subsample_after_s is None else round(subsample_after_s * rate)
        )
        self._cycle, self._measured = round(_CYCLE_S * rate), round(_MEASURED_S * rate)
        self._place = 0

    def add(self, samples: Samples) -> None:
        """Measure one more part."""
        heard = np.ascontiguousarray(samples, dtype=np.float32)
        if self._subsample_after is not None:
            for stretch in self._select_measured(heard):
                self._subsampled.add_frames(stretch, len(stretch))
        if len(heard) and not self._is_subsampling:
            self._state.add_frames(heard, len(heard))
        self._place += len(heard)

    @property
    def integrated_lufs(self) -> float:
        """Of all parts; -inf when nothing was loud enough to count."""
        state = self._subsampled if self._is_subsampling else self._state
        return float(pyebur128.get_loudness_global(state))

    @property
    def _is_subsampling(self) -> bool:
        return self._subsample_after is not None and self._place >= self._subsample_after

    def _select_measured(self, samples: Samples) -> Iterator[Samples]:
        """What is measured of a part of long audio."""
        at = 0
        while at < len(samples):
            phase = (self._place + at) % self._cycle
            if phase < self._measured:
                stretch = samples[at : at + self._measured - phase]
                yield stretch
                at += len(stretch)
            else:
                at += self._cycle - phase


def compute_gain_db(integrated_lufs: float, target_lufs: float = TARGET_LUFS) -> float:
    """The gain that brings a loudness to the target; 0 for silence."""
    if not math.isfinite(integrated_lufs):
        return 0.0
    return min(target_lufs - integrated_lufs, MAX_GAIN_DB)


class Leveller:
    """Parts in, as many samples out at the target loudness and under the ceiling.

    Args:
        rate: samples per second.
        target_lufs: how loud it should be.
        gain_db: one gain for all parts; None decides while it runs.
    """

    def __init__(
        self,
        rate: int,
        *,
        target_lufs: float = TARGET_LUFS,
        gain_db: float | None = None,
    ) -> None:
        self._rate = rate
        self._target = target_lufs
        self._fixed = gain_db
        self._now: float | None = gain_db
        self._meter = Meter(rate, subsample_after_s=_RUNNING_S)
        self._limiter = Limiter(rate, CEILING_DBTP)

    def apply(self, samples: Samples) -> Samples:
        """A part, levelled: the same number of samples."""
        if not len(samples):
            return samples
        if self._fixed is not None:
            return self._limiter.apply(samples * np.float32(db_to_amplitude(self._fixed)))
        before, after = self._next_gains(samples)
        if abs(after - before) < 1e-3:
            return self._limiter.apply(samples * np.float32(db_to_amplitude(after)))
        ramp = np.linspace(
            db_to_amplitude(before), db_to_amplitude(after), len(samples), dtype=np.float32
        )
        return self._limiter.apply(samples * ramp)

    def _next_gains(self, samples: Samples) -> tuple[float, float]:
        """The gain at the beginning and at the end of a part."""
        self._meter.add(samples)
        heard = self._meter.integrated_lufs
        if self._now is None:
            if not math.isfinite(heard):
                return 0.0, 0.0  # silence at the start: no gain before there is a voice
            self._now = compute_gain_db(heard, self._target)
            return self._now, self._now
        before = self._now
        most = _SLEW_DB_PER_S * len(samples) / self._rate
        target = compute_gain_db(heard, self._target) if math.isfinite(heard) else before
        self._now = before + min(max(target - before, -most), most)
        return before, self._now


def level_parts(
    parts: Callable[[], Iterable[Samples]],
    rate: int,
    *,
    target_lufs: float = TARGET_LUFS,
) -> Iterator[Samples]:
    """Parts whose whole is at the target: measured first, then given with one gain.

    Args:
        parts: gives the same parts each time it is called.
        rate: samples per second.
        target_lufs: how loud the whole should be.
    """
    meter, peak = Meter(rate, subsample_after_s=_WHOLE_S), 0.0
    for part in parts():
        meter.add(part)
        peak = max(peak, float(part.max(initial=0.0)), -float(part.min(initial=0.0)))
    gain = compute_gain_db(meter.integrated_lufs, target_lufs)
    if peak * db_to_amplitude(gain) > db_to_amplitude(CEILING_DBTP + _HEAVY_DB):
        gain += _measure_limiting_loss(parts(), rate, gain, target_lufs)
    leveller = Leveller(rate, gain_db=gain)
    for part in parts():
        yield leveller.apply(part)


def level_whole(
    samples: Samples,
    rate: int,
    *,
    target_lufs: float = TARGET_LUFS,
) -> Samples:
    """A whole sound at the target."""
    return next(level_parts(lambda: [samples], rate, target_lufs=target_lufs))


def _measure_limiting_loss(
    parts: Iterable[Samples], rate: int, gain: float, target_lufs: float
) -> float:
    """How much loudness heavy limiting costs, to be added to the gain once."""
    leveller = Leveller(rate, gain_db=gain)
    meter = Meter(rate, subsample_after_s=_WHOLE_S)
    for part in parts:
        meter.add(leveller.apply(part))
    if not math.isfinite(meter.integrated_lufs):
        return 0.0
    return min(max(target_lufs - meter.integrated_lufs, 0.0), 3.0)
