"""Alerts of a device, each raised once until its cause is gone, and the out-of-memory forecast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import Literal, NamedTuple

from anyrig.monitor.sample import DeviceSample, ThrottleReason
from anyrig.units import format_bytes, format_duration, pluralize

AlertKind = Literal["memory-trend", "memory-full", "hot", "memory-errors", "lost"]
# Clocks drop for a moment now and then, and noise may look like a trend for one sample.
_NUM_SAMPLES_TO_RAISE = 3
_NUM_SAMPLES_TO_CLEAR = 10
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
        self._num_present: Counter[AlertKind] = Counter()
        """Samples in a row that show the cause."""
        self._num_absent: Counter[AlertKind] = Counter()
        self._num_errors = 0

    def check(self, history: Sequence[DeviceSample]) -> list[DeviceAlert]:
        """Alerts that the newest sample raises."""
        newest = history[-1]
        if newest.lost:
            self._num_present.clear()
            return self._raise("lost", newest, f"device lost: {newest.lost}")
        self._active.discard("lost")
        return [
            *self._check_memory(history),
            *self._check_temperature(newest),
            *self._check_memory_errors(newest),
        ]

    def _check_memory(self, history: Sequence[DeviceSample]) -> list[DeviceAlert]:
        newest = history[-1]
        total, used = newest.memory_total_bytes, newest.memory_used_bytes
        if not total or used is None:
            return []
        if used >= _FULL * total:
            # A full memory is where the trend ends: one alert for both.
            self._active.add("memory-trend")
            free = format_bytes(max(0, total - used))
            text = f"memory is {used / total:.0%} full, {free} left"
            return self._raise("memory-full", newest, text)
        if used < _NO_LONGER_FULL * total:
            self._active.discard("memory-full")
        forecast = None
        if used >= _MIN_SHARE * total:
            points = [
                (sample.monotonic_s, float(sample.memory_used_bytes))
                for sample in history
                if sample.memory_used_bytes is not None
            ]
            forecast = predict_out_of_memory(points, float(total))
        if forecast is not None and forecast.seconds_left <= _HORIZON_S:
            return self._raise_if_steady("memory-trend", newest, forecast.text)
        return self._clear_if_steady("memory-trend")

    def _check_temperature(self, newest: DeviceSample) -> list[DeviceAlert]:
        reasons = newest.throttling or ()
        if ThrottleReason.THERMAL not in reasons:
            return self._clear_if_steady("hot")
        at = f" at {newest.temperature_c:.0f} C" if newest.temperature_c is not None else ""
        slow = " (hardware slowdown)" if ThrottleReason.HARDWARE_SLOWDOWN in reasons else ""
        return self._raise_if_steady("hot", newest, f"thermal throttling{at}{slow}")

    def _check_memory_errors(self, newest: DeviceSample) -> list[DeviceAlert]:
        count = newest.ecc_errors or 0
        if count <= self._num_errors:
            return []
        self._num_errors = count
        self._active.discard("memory-errors")
        text = f"{pluralize(count, 'uncorrectable memory error')}: results may be wrong"
        return self._raise("memory-errors", newest, text)

    def _raise_if_steady(
        self, kind: AlertKind, sample: DeviceSample, text: str
    ) -> list[DeviceAlert]:
        self._num_present[kind] += 1
        if self._num_present[kind] < _NUM_SAMPLES_TO_RAISE:
            return []
        self._num_absent[kind] = 0
        return self._raise(kind, sample, text)

    def _clear_if_steady(self, kind: AlertKind) -> list[DeviceAlert]:
        self._num_present[kind] = 0
        self._num_absent[kind] += 1
        if self._num_absent[kind] >= _NUM_SAMPLES_TO_CLEAR:
            self._active.discard(kind)
        return []

    def _raise(self, kind: AlertKind, sample: DeviceSample, text: str) -> list[DeviceAlert]:
        if kind in self._active:
            return []
        self._active.add(kind)
        return [DeviceAlert(kind, sample.device, sample.name, text, sample.wall_s)]


class MemoryForecast(NamedTuple):
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
) -> MemoryForecast | None:
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
    return MemoryForecast(max(0.0, free / rate), rate, free)


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
    pairs = zip(peaks, peaks[1:], strict=False)
    if 3 * sum(later[1] > earlier[1] for earlier, later in pairs) < len(peaks):
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
