"""How long work will take: one estimate for the command line, jobs and the web page.

An estimate is a range until enough was done to tell, and then one figure that moves slowly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Clock = Callable[[], float]
_WINDOW_S = 60.0
"""A rate is the mean of what was done so far; after so long it is smoothed exponentially."""
_MIN_RANGE_S, _MIN_SURE_S, _MIN_SURE_UNITS = 1.0, 2.0, 4
"""Before so much was seen a rate is no rate: the first results of several workers come together."""
_SURE_SHARE, _LONG_S = 0.2, 20.0
"""And so much of all there is, or for so long: results that are ready wait for slower ones before
them, so that short work is done in leaps."""
_WIDEST, _NARROWEST = 3.0, 1.5
"""The ends of a range are the estimate divided and multiplied by this."""


class TimeLeft(NamedTuple):
    """Seconds until some work is done: at least and at most; both are the same once it is known."""

    low_s: float
    high_s: float

    @property
    def is_known(self) -> bool:
        return self.low_s == self.high_s

    @property
    def known_s(self) -> float | None:
        return self.low_s if self.is_known else None

    @classmethod
    def exactly(cls, seconds: float) -> TimeLeft:
        return cls(seconds, seconds)

    def plus(self, seconds: float) -> TimeLeft:
        return TimeLeft(self.low_s + seconds, self.high_s + seconds)

    def to_json(self) -> dict[str, Any]:
        low_s, high_s = round(self.low_s, 1), round(self.high_s, 1)
        if self.is_known:
            return {"left_s": low_s}
        return {"left_s": None, "left_range_s": [low_s, high_s]}


def read_time_left(progress: Mapping[str, Any]) -> TimeLeft | None:
    """The estimate in the progress of a job, as `TimeLeft.to_json` wrote it."""
    left_s, ends = progress.get("left_s"), progress.get("left_range_s")
    if isinstance(left_s, int | float):
        return TimeLeft.exactly(left_s)
    if isinstance(ends, Sequence) and len(ends) == 2:
        return TimeLeft(float(ends[0]), float(ends[1]))
    return None


class SmoothedRate:
    """Units a second, smoothed. What came before the first unit was loading, and does not count."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._first = self._last = 0.0
        self._units = self._seconds = 0.0
        self.num_added = -1
        """After the first."""
        self.total = 0.0
        """Of all units after the first, not smoothed."""

    def add(self, units: float) -> None:
        now = self._clock()
        self.num_added += 1
        if self.num_added == 0:
            self._first = self._last = now
            return
        self._seconds += now - self._last
        self._last = now
        self._units += units
        self.total += units
        if self._seconds > _WINDOW_S:
            self._units *= _WINDOW_S / self._seconds
            self._seconds = _WINDOW_S

    @property
    def spent_s(self) -> float:
        """Since the first unit."""
        return self._clock() - self._first if self.num_added >= 0 else 0.0

    @property
    def per_s(self) -> float | None:
        """None before a second unit came."""
        seconds = self._seconds + self._clock() - self._last
        return self._units / seconds if self._units and seconds > 0 else None


class WorkEstimate:
    """Counts work as it is done, and says how long the rest takes.

    Args:
        total: units of work, such as characters or files, without those that a cache has.
        clock: seconds that only go forward.
    """

    def __init__(self, total: float, clock: Clock = time.monotonic) -> None:
        self.total, self._done = total, 0.0
        self.rate = SmoothedRate(clock)

    def add(self, units: float) -> None:
        self._done += units
        self.rate.add(units)

    @property
    def is_known(self) -> bool:
        """Whether enough was done to tell how fast it goes."""
        rate = self.rate
        seen = rate.total >= _SURE_SHARE * self.total or rate.spent_s >= _LONG_S
        return seen and rate.num_added >= _MIN_SURE_UNITS and rate.spent_s >= _MIN_SURE_S

    @property
    def left(self) -> TimeLeft | None:
        """None while nothing can be said."""
        to_do, rate = self.total - self._done, self.rate
        if to_do <= 0:
            return TimeLeft.exactly(0.0)
        per_s = rate.per_s
        if per_s is None:
            return None
        left_s = to_do / per_s
        if self.is_known:
            return TimeLeft.exactly(left_s)
        if rate.spent_s < _MIN_RANGE_S:
            return None
        share = rate.total / max(self.total, 1e-9) / _SURE_SHARE
        return widen(left_s, max(share, rate.spent_s / _LONG_S))


def widen(left_s: float, evidence: float) -> TimeLeft:
    """A range around an estimate.

    Args:
        evidence: from 0 to 1, how much of what it takes to know was seen.
    """
    factor = _WIDEST - (_WIDEST - _NARROWEST) * min(1.0, max(0.0, evidence))
    return TimeLeft(left_s / factor, left_s * factor)


class SteadyEstimate:
    """Makes estimates that somebody else computes steady: a range at first, then smoothed.

    Args:
        clock: seconds that only go forward.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._last = self._end = 0.0

    def update(self, left_s: float | None) -> TimeLeft | None:
        """What to show for an estimate of now."""
        now = self._clock()
        if left_s is None:
            return None
        if left_s <= 0:
            return TimeLeft.exactly(0.0)
        if self._since is None:
            self._since = self._last = now
            self._end = now + left_s
        # The end that was expected moves to the one that is expected now.
        weight = 1 - math.exp(-(now - self._last) / min(_WINDOW_S / 4, max(2.0, left_s / 4)))
        self._end += (now + left_s - self._end) * weight
        self._last = now
        left_s = max(self._end - now, 0.1)
        spent_s = now - self._since
        sure = spent_s >= min(_LONG_S, max(_MIN_SURE_S, _SURE_SHARE * left_s))
        return TimeLeft.exactly(left_s) if sure else widen(left_s, spent_s / _LONG_S)


class StageEstimate:
    """The time left and the speed of work in stages, each with items that are counted.

    Args:
        clock: seconds that only go forward.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._start("")

    def _start(self, stage: str) -> None:
        self._stage = stage
        self._done = self._audio_s = 0.0
        self._work, self._audio = WorkEstimate(0.0, self._clock), SmoothedRate(self._clock)

    def update(
        self, stage: str, done: float, total: float, audio_s: float | None = None
    ) -> tuple[TimeLeft | None, float | None]:
        """The time left, and seconds of audio a second; None what cannot be said yet.

        Args:
            stage: another one starts anew.
            done: units so far; what a cache had is not among them.
            total: units of all; 0 while it is not known.
            audio_s: so far, with what a cache had.
        """
        if stage != self._stage or done < self._done:
            self._start(stage)
        self._work.total = total
        if done > self._done:
            self._work.add(done - self._done)
            if audio_s is not None:
                self._audio.add(audio_s - self._audio_s)
        self._done, self._audio_s = done, audio_s or 0.0
        left = self._work.left if total else None
        is_known = left is not None and left.is_known
        return left, self._audio.per_s if is_known else None
