"""When memory will run out, judged from samples alone. Pure functions over (seconds, bytes).

Work allocates and frees with every batch, so single samples say little. What counts is the peaks:
the highest use in each stretch of a few seconds. Memory is said to run out only when the peaks rise
through the whole window, early and late part alike (a step rises once and stays; an allocator that
warms up levels off), and when they stand higher than ever before (a slow saw-tooth has been up here
already and came down).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

from anyrig.units import format_bytes, format_duration

Point = tuple[float, float]
"""Seconds and bytes."""


class Limits(NamedTuple):
    """When to worry."""

    window_s: float = 60.0
    """How far back a trend reaches."""
    least_s: float = 24.0
    """A shorter history is no trend."""
    stretch_s: float = 4.0
    """Peaks are taken of stretches this long."""
    horizon_s: float = 180.0
    """Memory that lasts longer than this at the present rate is nobody's worry."""
    from_share: float = 0.4
    """Below this share of the memory nothing is predicted: models are being loaded."""
    full_share: float = 0.95
    """Above this share memory counts as nearly full."""
    recovered_share: float = 0.90


USUAL = Limits()
# Growth whose second half is this much slower than its first is levelling off by itself.
_LEVELLING = 0.6
# Growth over the window against how far a peak usually lies off the line.
_OVER_JUMPS = 10.0


class Outlook(NamedTuple):
    """Where the memory is heading."""

    seconds_left: float
    rate_bytes_s: float
    used_bytes: float
    total_bytes: float

    @property
    def text(self) -> str:
        """As a person wants to read it."""
        left = f"{self.seconds_left:.0f} s" if self.seconds_left < 60 else ""
        return (
            f"about {left or format_duration(self.seconds_left)} until memory runs out at this rate"
            f" ({format_bytes(round(self.rate_bytes_s))} a second,"
            f" {format_bytes(round(max(0.0, self.total_bytes - self.used_bytes)))} left)"
        )


def outlook(points: Sequence[Point], total_bytes: float, limits: Limits = USUAL) -> Outlook | None:
    """When memory runs out at the present rate, or None when it does not look like it.

    Args:
        points: used memory over time, oldest first; all that is known, not the window alone.
        total_bytes: what there is.
        limits: how far back to look.
    """
    if not points or not total_bytes or points[-1][1] < limits.from_share * total_bytes:
        return None
    since = points[-1][0] - limits.window_s
    recent = [point for point in points if point[0] >= since]
    peaks = _peaks(recent, limits.stretch_s)
    half = len(peaks) // 2
    if half < 2 or peaks[-1][0] - peaks[0][0] < limits.least_s:
        return None
    rate, early, late = slope(peaks), slope(peaks[:half]), slope(peaks[half:])
    if rate <= 0 or early < 0.25 * rate or late < _LEVELLING * early:
        return None
    if not _rises(peaks, rate) or not _record(points, peaks, total_bytes, limits.stretch_s):
        return None
    rate = min(rate, late)
    left = (total_bytes - peaks[-1][1]) / rate
    return Outlook(max(0.0, left), rate, peaks[-1][1], total_bytes)


def _rises(peaks: Sequence[Point], rate: float) -> bool:
    """Whether the peaks rise again and again (not in a step or two), and by more than they jump."""
    pairs = zip(peaks, peaks[1:], strict=False)
    if 3 * sum(later[1] > earlier[1] for earlier, later in pairs) < len(peaks):
        return False
    levels = [used - rate * when for when, used in peaks]
    middle = median(levels)
    jump = median(abs(level - middle) for level in levels)
    return rate * (peaks[-1][0] - peaks[0][0]) > _OVER_JUMPS * jump


def slope(points: Sequence[Point]) -> float:
    """The median of the slopes between all pairs (Theil-Sen): a few outliers do not move it."""
    pairs = combinations(points, 2)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs if b[0] > a[0]]
    return median(slopes) if slopes else 0.0


def _peaks(points: Sequence[Point], stretch_s: float) -> list[Point]:
    """The highest point of each stretch, counted back from the newest so that the last is whole."""
    if not points:
        return []
    end = points[-1][0]
    best: dict[int, Point] = {}
    for point in points:
        stretch = int((end - point[0]) / stretch_s)
        if stretch not in best or point[1] >= best[stretch][1]:
            best[stretch] = point
    return [best[stretch] for stretch in sorted(best, reverse=True)]


def _record(
    points: Sequence[Point], peaks: Sequence[Point], total: float, stretch_s: float
) -> bool:
    """Whether the newest peaks are higher than anything before them."""
    newest = max(point[1] for point in peaks[-2:])
    before = points[-1][0] - 2 * stretch_s
    highest = max((point[1] for point in points if point[0] < before), default=0.0)
    return newest > highest + 0.002 * total
