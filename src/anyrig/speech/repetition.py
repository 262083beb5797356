"""Whether a take says a stretch again and again, as models that sample do at times.

The sound is cut into octaves by sums and differences of neighbours, and each octave's power in
frames of 45 ms makes a feature. A stretch that comes again is a run of frames that is like the run
one period later. Frames of silence do not count, or every pause would look like every other.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anyrig.audio.samples import Samples

_REPEAT_FRAME_S = 0.045
_OCTAVES = 6
_LONGEST_S = 30.0  # a model that loops does so until its end: that is where to look
_SHORTEST_PERIOD_S = 0.28
# What must be alike: a stretch under 1.5 s three times in all, a longer one twice.
_LEAST_RUN_S, _ENOUGH_S = 2.0, 3.0
_ALIKE = 0.78  # sentences of the voices measured stay under 0.66, loops are 0.8 to 0.95
_SPOKEN_SHARE = 0.6  # the share of a run that must be speech
_QUIET = 3e-3  # of the loudest frame's power
_LONG_TWICE = 16  # letters: a second, at the pace of the fastest voices half of one
_TWICE = re.compile(r"(\w)\1{3,}|(\w{2,}?)\2{2,}|(\w{8,}?)\3")
"""Within a word: drawn out, the same syllable three times, or all of a long stretch again."""
_Floats = NDArray[np.float32]


class Repetition(NamedTuple):
    """A stretch that comes again."""

    period_s: float
    start_s: float
    alike: float
    """1 when both are the same, about 0 for two stretches of speech."""


def find_repetition(samples: Samples, rate: int, *, slowness: float = 1.0) -> Repetition | None:
    """The stretch that comes again most clearly, if any does.

    Args:
        samples: of a take.
        rate: samples per second.
        slowness: how many times as slowly as usual it is spoken.
    """
    size = max(1 << _OCTAVES, round(_REPEAT_FRAME_S * rate) >> _OCTAVES << _OCTAVES)
    frame_s = size / rate
    most = round(_LONGEST_S / frame_s)
    skipped = max(0, len(samples) // size - most)
    features, spoken = _extract_features(samples[skipped * size :], size)
    found = _find_most_alike(features, spoken, frame_s, slowness)
    if found is None or found.alike < _ALIKE:
        return None
    return found._replace(start_s=found.start_s + found.period_s + skipped * frame_s)


def _extract_features(samples: Samples, size: int) -> tuple[_Floats, _Floats]:
    """The octaves' powers of every frame, even in weight, and which frames are speech."""
    count = len(samples) // size
    low = samples[: count * size]
    whole = _sum_squares(low, count)
    powers = []
    for _ in range(_OCTAVES):
        low = low[0::2] + low[1::2]
        rest = _sum_squares(low, count)
        # What sums do not hold, differences do: |a - b|² is 2 |a|² + 2 |b|² less |a + b|².
        powers.append(np.maximum(2.0 * whole - rest, 0.0))
        whole = rest
    powers.append(whole)
    power = _smooth_powers(np.stack(powers, axis=1))
    total = power.sum(axis=1)
    loudest = max(float(total.max(initial=0.0)), 1e-12)
    features = np.log(power + 1e-4 * power.max(axis=0, initial=0.0) + 1e-12)
    spoken = (total > _QUIET * loudest).astype(np.float32)
    voiced = features[spoken > 0]
    if len(voiced):
        features = (features - voiced.mean(axis=0)) / (voiced.std(axis=0) + 1e-6)
    return features.astype(np.float32), spoken


def _smooth_powers(power: _Floats) -> _Floats:
    """Each frame with half of its neighbours: a period is no whole number of frames."""
    smooth = power.copy()
    smooth[1:] += 0.5 * power[:-1]
    smooth[:-1] += 0.5 * power[1:]
    return smooth


def _sum_squares(band: Samples, count: int) -> _Floats:
    framed = band.reshape(count, -1) if count else band.reshape(0, 1)
    power: _Floats = np.einsum("ij,ij->i", framed, framed)
    return power


def _find_most_alike(
    features: _Floats, spoken: _Floats, frame_s: float, slowness: float
) -> Repetition | None:
    """Over every period and place: the run that is most like the one a period later."""
    count = len(features)
    periods = np.arange(round(_SHORTEST_PERIOD_S / frame_s), count)
    runs = _choose_run_lengths(periods, frame_s / slowness)
    fits = periods + runs <= count
    periods, runs = periods[fits], runs[fits]
    if not len(periods):
        return None
    squares = np.einsum("ij,ij->i", features, features)
    apart = squares[:, None] + squares[None, :] - 2.0 * (features @ features.T)
    weight = np.maximum(spoken[:, None], spoken[None, :])
    apart *= weight / np.float32(2.0 * features.shape[1])
    far, heard = _sum_runs(apart, periods, runs), _sum_runs(weight, periods, runs)
    needed = _SPOKEN_SHARE * runs
    near = np.where(heard >= needed, 1.0 - far / np.maximum(heard, needed), 0.0)
    at, which = np.unravel_index(int(near.argmax()), near.shape)
    alike = float(near[at, which])
    return Repetition(float(periods[which] * frame_s), float(at * frame_s), alike)


def _choose_run_lengths(periods: NDArray[np.intp], frame_s: float) -> NDArray[np.intp]:
    """How many frames must be alike: two short periods and more, or one long one."""
    least, enough = round(_LEAST_RUN_S / frame_s), round(_ENOUGH_S / frame_s)
    runs: NDArray[np.intp] = np.maximum(np.minimum(2 * periods, enough), periods)
    return np.maximum(runs, least)


def _sum_runs(
    pairs: _Floats, periods: NDArray[np.intp], runs: NDArray[np.intp]
) -> NDArray[np.float32]:
    """By place and period: the sum over a run of what frames a period apart have.

    0 where a run would reach past the end. Such pairs lie on diagonals, so every row of `slanted`
    begins one further to the right than the row above it.
    """
    count = len(pairs)
    first, last = int(periods[0]), int(periods[-1])
    flat = np.zeros(count * (count + 1) + last, dtype=np.float32)
    flat[: count * count] = pairs.ravel()
    step = flat.itemsize
    slanted = np.lib.stride_tricks.as_strided(
        flat[first:], (count, last - first + 1), ((count + 1) * step, step), writeable=False
    )
    total = np.zeros((count + 1, slanted.shape[1]), dtype=np.float32)
    np.cumsum(slanted, axis=0, out=total[1:])
    places = np.arange(count)[:, None]
    inside = places + periods + runs <= count
    ends = np.minimum(places + runs, count)
    sums = total[ends, np.arange(len(periods))] - total[:-1]
    return np.where(inside, sums, np.float32(0.0))


def is_repetitive(text: str) -> bool:
    """Whether a text says the same thing again and again by itself: `No, no, no!`, `hahaha`.

    What is said twice counts only where it is long: two seconds of sound must be alike before a
    take is called a loop, and no `had had` or `remember` lasts as long.
    """
    words = re.findall(r"\w+", text.lower())
    for size in range(1, len(words) // 2 + 1):
        alike = 0
        for at in range(size, len(words)):
            alike = alike + 1 if words[at] == words[at - size] else 0
            if alike >= 2 * size:
                return True
            again = words[at - alike + 1 : at + 1]
            if alike == size and sum(len(word) + 1 for word in again) >= _LONG_TWICE:
                return True
    return any(_TWICE.search(word) for word in words)
