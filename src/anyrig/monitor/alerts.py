"""What deserves a warning, said once: again only after it had passed.

Pure but for the memory of what was said already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from anyrig.monitor.sample import HOT, SLOWDOWN, Sample
from anyrig.monitor.trend import USUAL, Limits, outlook
from anyrig.units import format_bytes, pluralize

Kind = Literal["memory-trend", "memory-full", "hot", "memory-errors", "lost"]
# A clock is held down for a moment now and then; this many samples in a row are worth a word.
_HOT_SAMPLES = 3
# Noise may look like a trend for a sample; a trend still looks like one in the next.
_TREND_SAMPLES = 3
# So many samples without the reason, and it counts as passed.
_PASSED_SAMPLES = 10


class Alert(NamedTuple):
    """One warning."""

    kind: Kind
    device: str
    name: str
    text: str
    wall_s: float


class Watchdog:
    """The warnings of one device."""

    def __init__(self, limits: Limits = USUAL) -> None:
        self._limits = limits
        self._raised: set[Kind] = set()
        self._quiet: dict[Kind, int] = {}
        self._errors = 0
        self._heading = 0

    def check(self, history: Sequence[Sample]) -> list[Alert]:
        """What is new and wrong in the newest of these samples."""
        if not history:
            return []
        newest = history[-1]
        if newest.lost:
            return self._raise("lost", newest, f"lost: {newest.lost}")
        self._raised.discard("lost")
        found = self._memory(history)
        found += self._heat(history)
        found += self._memory_errors(newest)
        return found

    def _memory(self, history: Sequence[Sample]) -> list[Alert]:
        newest, limits = history[-1], self._limits
        total, used = newest.memory_total_bytes, newest.memory_used_bytes
        if not total or used is None:
            return []
        share = used / total
        if share >= limits.full_share:
            free = format_bytes(max(0, total - used))
            # Nearly full is the end of the trend: one word for both.
            self._raised.add("memory-trend")
            return self._raise("memory-full", newest, f"memory is {share:.0%} full, {free} left")
        if share < limits.recovered_share:
            self._raised.discard("memory-full")
        ahead = None
        if share >= limits.from_share:
            points = [
                (sample.monotonic_s, float(sample.memory_used_bytes))
                for sample in history
                if sample.memory_used_bytes is not None
            ]
            ahead = outlook(points, float(total), limits)
        if ahead is None or ahead.seconds_left > limits.horizon_s:
            self._heading = 0
            self._pass("memory-trend")
            return []
        self._heading += 1
        if self._heading < _TREND_SAMPLES:
            return []
        return self._raise("memory-trend", newest, ahead.text)

    def _heat(self, history: Sequence[Sample]) -> list[Alert]:
        newest = history[-1]
        hot = [HOT in (sample.throttling or ()) for sample in history[-_HOT_SAMPLES:]]
        if len(hot) == _HOT_SAMPLES and all(hot):
            at = f" at {newest.temperature_c:.0f} C" if newest.temperature_c is not None else ""
            slow = " (hardware slowdown)" if SLOWDOWN in (newest.throttling or ()) else ""
            return self._raise("hot", newest, f"too hot{at}: clocks are held down{slow}")
        if not hot[-1]:
            self._pass("hot")
        return []

    def _memory_errors(self, newest: Sample) -> list[Alert]:
        count = newest.ecc_errors or 0
        if count <= self._errors:
            return []
        self._errors = count
        self._raised.discard("memory-errors")
        text = (
            f"{pluralize(count, 'memory error')} that could not be corrected: results may be wrong"
        )
        return self._raise("memory-errors", newest, text)

    def _raise(self, kind: Kind, sample: Sample, text: str) -> list[Alert]:
        self._quiet[kind] = 0
        if kind in self._raised:
            return []
        self._raised.add(kind)
        return [Alert(kind, sample.device, sample.name, text, sample.wall_s)]

    def _pass(self, kind: Kind) -> None:
        """One more sample without it; after a few it may be said again."""
        self._quiet[kind] = self._quiet.get(kind, 0) + 1
        if self._quiet[kind] >= _PASSED_SAMPLES:
            self._raised.discard(kind)
