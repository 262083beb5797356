"""Alerts of a device, each raised once until its cause is gone, and the out-of-memory forecast."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import median
from typing import Literal, NamedTuple

from anyrig.monitor.sample import DeviceSample, ThrottleReason
from anyrig.units import format_bytes, format_duration, pluralize

AlertKind = Literal["memory-trend", "memory-full", "hot", "memory-errors", "lost"]
# Samples in a row with the cause until an alert is raised, and without it until it may be raised
# again: clocks drop for a moment now and then, and noise may look like a trend for one sample.
_NUM_SAMPLES: dict[AlertKind, tuple[int, int]] = {
    "lost": (1, 1),
    "memory-full": (1, 1),
    "memory-trend": (3, 10),
    "hot": (3, 10),
    "memory-errors": (1, 1),
}
_FULL = 0.95
_NO_LONGER_FULL = 0.90
# Memory that lasts longer than this at the current rate needs no alert.
_HORIZON_S = 180.0

_WINDOW_S = 60.0
# A shorter history shows no trend.
_MIN_TREND_S = 24.0
# The forecast uses the peak of each interval of this length.
_PEAK_INTERVAL_S = 4.0
# Below this share of the memory nothing is predicted: models are being loaded.
_MIN_SHARE = 0.4
# Growth whose second half is this much slower than its first is levelling off.
_LEVELLING = 0.6
# Growth over the window, against the typical distance of a peak from the fitted line.
_MIN_GROWTH_OVER_NOISE = 10.0

MemoryPoint = tuple[float, float]
"""Seconds and bytes."""


class DeviceAlert(NamedTuple):
    kind: AlertKind
    device: str
    name: str
    text: str
    wall_s: float


class AlertDetector:
    """Finds what is newly wrong with one device."""

    def __init__(self) -> None:
        self._active: set[AlertKind] = set()
        self._streaks: dict[AlertKind, int] = {}
        """Samples in a row with the cause, or without it, then negative."""
        self._num_errors = 0

    def check(self, history: Sequence[DeviceSample]) -> list[DeviceAlert]:
        """Alerts that the newest sample raises."""
        newest = history[-1]
        if newest.lost:
            self._streaks.clear()
            causes: dict[AlertKind, str] = {"lost": f"device lost: {newest.lost}"}
        else:
            causes = {"lost": "", "memory-full": self._find_full_memory(newest)}
            if causes["memory-full"]:
                # A full memory is where the trend ends: one alert for both.
                self._active.add("memory-trend")
            else:
                causes["memory-trend"] = _find_trend(history)
            causes["hot"] = _find_thermal_throttling(newest)
            causes["memory-errors"] = self._find_new_errors(newest)
        return [
            DeviceAlert(kind, newest.device, newest.name, text, newest.wall_s)
            for kind, text in causes.items()
            if (text or kind in self._active or self._streaks.get(kind))
            and self._update(kind, bool(text))
        ]

    def _update(self, kind: AlertKind, present: bool) -> bool:
        """Whether to raise an alert, now that its cause is present or not."""
        active = kind in self._active
        if not present and not active:
            del self._streaks[kind]
            return False
        num_to_raise, num_to_clear = _NUM_SAMPLES[kind]
        streak = self._streaks.get(kind, 0)
        self._streaks[kind] = streak = max(streak, 0) + 1 if present else min(streak, 0) - 1
        if -streak >= num_to_clear:
            self._active.discard(kind)
        elif streak >= num_to_raise and not active:
            self._active.add(kind)
            return True
        return False

    def _find_full_memory(self, newest: DeviceSample) -> str:
        total, used = newest.memory_total_bytes, newest.memory_used_bytes
        limit = _NO_LONGER_FULL if "memory-full" in self._active else _FULL
        if not total or used is None or used < limit * total:
            return ""
        return f"memory is {used / total:.0%} full, {format_bytes(max(0, total - used))} left"

    def _find_new_errors(self, newest: DeviceSample) -> str:
        count = newest.ecc_errors or 0
        if count <= self._num_errors:
            return ""
        self._num_errors = count
        self._active.discard("memory-errors")  # raised again with every further error
        return f"{pluralize(count, 'uncorrectable memory error')}: results may be wrong"


def _find_thermal_throttling(newest: DeviceSample) -> str:
    reasons = newest.throttling or ()
    if ThrottleReason.THERMAL not in reasons:
        return ""
    at = f" at {newest.temperature_c:.0f} C" if newest.temperature_c is not None else ""
    slow = " (hardware slowdown)" if ThrottleReason.HARDWARE_SLOWDOWN in reasons else ""
    return f"thermal throttling{at}{slow}"


def _find_trend(history: Sequence[DeviceSample]) -> str:
    total, used = history[-1].memory_total_bytes, history[-1].memory_used_bytes
    if not total or used is None or used < _MIN_SHARE * total:
        return ""  # before the history is read: most samples end here
    points = [
        (one.monotonic_s, float(one.memory_used_bytes))
        for one in history
        if one.memory_used_bytes is not None
    ]
    forecast = predict_out_of_memory(points, float(total))
    return forecast.text if forecast and forecast.seconds_left <= _HORIZON_S else ""


class OutOfMemoryForecast(NamedTuple):
    seconds_left: float
    bytes_per_s: float
    free_bytes: float

    @property
    def text(self) -> str:
        seconds = self.seconds_left
        left = f"{seconds:.0f} s" if seconds < 60 else format_duration(seconds)
        return (
            f"out of memory in about {left} at the current rate"
            f" ({format_bytes(round(self.bytes_per_s))}/s,"
            f" {format_bytes(round(max(0.0, self.free_bytes)))} left)"
        )


def predict_out_of_memory(
    points: Sequence[MemoryPoint], total_bytes: float
) -> OutOfMemoryForecast | None:
    """When memory runs out at the current rate, or None when it does not look like it will.

    Work allocates and frees with every batch, so the forecast looks at the peaks: the highest use
    in each interval of a few seconds. They must rise through the whole window, early and late part
    alike (a step rises once and stays; an allocator that warms up levels off), and be higher than
    ever before (a slow saw-tooth was up here already and came down).

    Args:
        points: used memory over time, oldest first; the whole history, not only the window.
        total_bytes: the size of the memory.
    """
    if not points or not total_bytes or points[-1][1] < _MIN_SHARE * total_bytes:
        return None
    start = points[-1][0] - _WINDOW_S
    peaks = _find_peaks([point for point in points if point[0] >= start])
    half = len(peaks) // 2
    if half < 2 or peaks[-1][0] - peaks[0][0] < _MIN_TREND_S:
        return None
    slope, early, late = _fit_slope(peaks), _fit_slope(peaks[:half]), _fit_slope(peaks[half:])
    if slope <= 0 or early < 0.25 * slope or late < _LEVELLING * early:
        return None
    if not _rise_steadily(peaks, slope) or not _exceed_history(points, peaks, total_bytes):
        return None
    rate = min(slope, late)
    free = total_bytes - peaks[-1][1]
    return OutOfMemoryForecast(max(0.0, free / rate), rate, free)


def _find_peaks(points: Sequence[MemoryPoint]) -> list[MemoryPoint]:
    """The highest point of each interval, counted from the newest so that the last is complete."""
    end = points[-1][0]
    best: dict[int, MemoryPoint] = {}
    for point in points:
        interval = int((end - point[0]) / _PEAK_INTERVAL_S)
        if interval not in best or point[1] >= best[interval][1]:
            best[interval] = point
    return [best[interval] for interval in sorted(best, reverse=True)]


def _fit_slope(points: Sequence[MemoryPoint]) -> float:
    """The median slope between all pairs (Theil-Sen): a few outliers do not move it."""
    pairs = combinations(points, 2)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs if b[0] > a[0]]
    return median(slopes) if slopes else 0.0


def _rise_steadily(peaks: Sequence[MemoryPoint], slope: float) -> bool:
    """Whether the peaks rise repeatedly, not in one or two steps, and by more than their noise."""
    num_rises = sum(later[1] > earlier[1] for earlier, later in pairwise(peaks))
    if 3 * num_rises < len(peaks):
        return False
    levels = [used - slope * at_s for at_s, used in peaks]
    middle = median(levels)
    noise = median(abs(level - middle) for level in levels)
    return slope * (peaks[-1][0] - peaks[0][0]) > _MIN_GROWTH_OVER_NOISE * noise


def _exceed_history(
    points: Sequence[MemoryPoint], peaks: Sequence[MemoryPoint], total_bytes: float
) -> bool:
    newest = max(point[1] for point in peaks[-2:])
    start = points[-1][0] - 2 * _PEAK_INTERVAL_S
    highest = max((point[1] for point in points if point[0] < start), default=0.0)
    return newest > highest + 0.002 * total_bytes
