"""Which batch size to try next: pure functions of the trials so far.

Peak memory is nearly `fixed + slope x batch size`. Nearly: an allocator rounds (torch takes blocks
of 2 MiB and 20 MiB), a kernel's workspace jumps, freed blocks do not fit the next tensor, and with
small batches the optimizer's own peak hides the slope. So a forecast is a range, between the
steepest and the flattest reading of the trials. Without memory figures sizes double, then bisect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from anyrig.units import MIB

if TYPE_CHECKING:
    from anyrig.memory.batch_size import BatchTrial

# How far below the largest possible size the answer may lie.
_TOLERANCE = 0.05
# The flattest slope is taken this much flatter still; with a single measurement it is a guess.
_FLATTER, _FLATTER_ALONE = 0.95, 0.6
# A peak this close to the budget was limited by the allocator: it says nothing about the slope.
_FULL_SHARE = 0.98
# How many times larger than the largest tested size the next may be, by what that one added to the
# memory: much, little, or nothing, as with a runtime that never releases what it once took.
_GROWTH_MUCH, _GROWTH_LITTLE, _GROWTH_NOTHING = 32, 16, 4
_MUCH_SHARE, _NOTHING_BYTES = 1 / 64, 4 * MIB
# After a failed prediction: this much of it; if it was this many times off, the geometric mean.
_BACK_OFF, _FAR_OFF = 0.95, 8
# Trials that added this much of the budget predict well, however far off the failure was.
_TRUSTED_SHARE = 1 / 20
_SHRINK = 4


class SearchBounds(NamedTuple):
    budget_bytes: int | None
    max_step_s: float
    max_size: int | None = None
    start: int = 1
    multiple: int = 1

    def round_down(self, size: float) -> int:
        """The next lower multiple, but at least one."""
        return max(self.multiple, int(size) // self.multiple * self.multiple)


class SizeForecast(NamedTuple):
    """Which batch sizes fit a budget, as far as the trials tell."""

    safe_size: int
    """The largest size within the budget by the steepest reading."""
    max_size: int | None
    """The largest size that is possible by the flattest reading; None if nothing bounds it."""
    batch_bytes: int
    """What the largest working batch added to idle memory: a small one predicts little."""


def largest_working(trials: Sequence[BatchTrial]) -> BatchTrial | None:
    """The trial of the largest size that ran; of two trials of it, the longer one."""
    ran = (one for one in trials if one.ran)
    return max(ran, key=lambda one: (one.size, one.num_steps), default=None)


def next_size(trials: Sequence[BatchTrial], bounds: SearchBounds) -> int | None:
    """The size to try next; None if the search is over, or if nothing fits at all.

    No larger than the largest working size if a larger one would take too long.
    """
    largest = None if bounds.max_size is None else bounds.round_down(bounds.max_size)
    if not trials:
        first = bounds.round_down(bounds.start)
        return first if largest is None else min(first, largest)
    working = largest_working(trials)
    failed = min((one.size for one in trials if not one.ran), default=None)
    if working is None:
        assert failed is not None
        return bounds.round_down(failed / _SHRINK) if failed > bounds.multiple else None
    size, forecast = working.size, forecast_sizes(trials, bounds.budget_bytes)
    ends = [largest] if largest is not None else []
    if failed is not None:
        ends.append(failed - bounds.multiple)
    if forecast is not None and forecast.max_size is not None:
        ends.append(bounds.round_down(forecast.max_size))
    upper = min(ends, default=None)
    if upper is not None and (upper - size < bounds.multiple or size >= (1 - _TOLERANCE) * upper):
        return None
    target = bounds.round_down(_target(trials, size, upper, forecast, bounds))
    target = max(size + bounds.multiple, target)
    if working.step_s:
        target = min(target, bounds.round_down(size * bounds.max_step_s / working.step_s))
    return target if upper is None else min(target, upper)


def forecast_sizes(trials: Sequence[BatchTrial], budget_bytes: int | None) -> SizeForecast | None:
    """Forecast which sizes fit a budget; None without memory figures or a working size."""
    base = largest_working(trials)
    if budget_bytes is None or base is None or base.peak_bytes is None:
        return None
    smaller = [one for one in trials if one.ran and one.size < base.size]
    larger = [one for one in trials if _shows_excess(one, budget_bytes) and one.size > base.size]
    near = [max(smaller, key=lambda one: one.size)] if smaller else []
    near += [min(larger, key=lambda one: one.size)] if larger else []
    batch_bytes = base.peak_bytes - (base.rest_bytes or 0)
    slopes = [batch_bytes / base.size]
    slopes += [(base.peak_bytes - (one.peak_bytes or 0)) / (base.size - one.size) for one in near]
    left = budget_bytes - base.peak_bytes
    full = base.peak_bytes > budget_bytes * _FULL_SHARE
    safe = base.size if full else base.size + _count_more(left, max(slopes))
    flattest = min(slopes) * (_FLATTER if near else _FLATTER_ALONE)
    largest = base.size + _count_more(left, flattest) if flattest > 0 else None
    return SizeForecast(safe, largest, max(0, batch_bytes))


def _shows_excess(trial: BatchTrial, budget_bytes: int | None) -> bool:
    """Whether a trial over the budget shows by how much: an allocator with a limit cannot."""
    return trial.outcome == "over budget" and (trial.peak_bytes or 0) > (budget_bytes or 0)


def _count_more(left: float, slope: float) -> int:
    """How many more items fit; a huge number if an item takes nothing."""
    return int(left / slope) if slope > 0 else 1 << 40


def _target(
    trials: Sequence[BatchTrial],
    size: int,
    upper: int | None,
    forecast: SizeForecast | None,
    bounds: SearchBounds,
) -> float:
    """Where to go from the largest working size."""
    last, budget = trials[-1], bounds.budget_bytes or 0
    misled = len(trials) > 1 and not trials[-2].ran
    # A trial over the budget shows where it ends; if that was wrong, bisect.
    if not last.ran and (misled or not _shows_excess(last, budget)):
        if forecast is None or misled:
            return (size + last.size) / 2
        if last.size <= size * _FAR_OFF or forecast.batch_bytes >= _TRUSTED_SHARE * budget:
            # A little below a prediction that was nearly right, never below the middle.
            return max(last.size * _BACK_OFF, (size + last.size) / 2)
        return math.sqrt(size * last.size)
    failures = (one.size for one in trials if not one.ran and not _shows_excess(one, budget))
    failed = min(failures, default=0)
    if forecast is None:
        return (size + failed) / 2 if failed else size * 2
    # No further than where a failure would already be close enough to the answer: one is enough.
    careful = size / (1 - _TOLERANCE) + bounds.multiple
    if upper is not None:
        careful = min(careful, (size + upper) / 2)
    if failed and forecast.safe_size >= (1 - _TOLERANCE) * failed:
        # Where a working size is close enough to the one that failed.
        return max(careful, math.ceil((1 - _TOLERANCE) * failed))
    growth = _GROWTH_NOTHING
    if forecast.batch_bytes >= _NOTHING_BYTES:
        much = forecast.batch_bytes >= _MUCH_SHARE * budget
        growth = _GROWTH_MUCH if much else _GROWTH_LITTLE
    return max(careful, min(forecast.safe_size, size * growth))
