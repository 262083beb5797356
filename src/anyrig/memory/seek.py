"""Which batch size to try next: a pure function of what was tried. Measures nothing.

With figures: small probes, then what they surely allow, then by steps that may fail at most once
on a curve that is nearly a line. Without figures: doubling, then halving the gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from anyrig.memory.estimate import Outlook, Point, outlook
from anyrig.units import MIB

Outcome = Literal["ran", "out of memory", "over budget", "slow"]
# How many times larger than the largest tested size a next one may be, by what that one moved of
# the budget: much, little, or nothing, which a runtime that keeps what it once took also shows.
_FAR, _NEAR, _NEXT = 32, 16, 4
_MUCH, _NOTHING_BYTES = 1 / 64, 4 * MIB
# After a prediction failed, this much of it; when it was far off, the gap is halved instead.
_BACK, _FAR_OFF = 0.95, 8
# Probes that moved this much of the budget predict well, however far off the failure was.
_SEEN = 1 / 20
_SHRINK = 4


@dataclass(frozen=True)
class Try:
    """One batch size, run for a few steps."""

    size: int
    outcome: Outcome
    num_steps: int
    """Steps that were finished."""
    seconds: float
    """The whole try."""
    step_s: float | None = None
    """The fastest step but the first, which also warms up."""
    live_bytes: int | None = None
    """The most in live tensors."""
    peak_bytes: int | None = None
    """The most taken from the device: live tensors and what the allocator keeps."""
    rest_bytes: int | None = None
    """What stayed when the steps were done."""

    @property
    def rate(self) -> float | None:
        """Items a second."""
        return self.size / self.step_s if self.step_s else None

    @property
    def steady_s(self) -> float:
        """What the try would take again, warm."""
        return (self.step_s or 0.0) * self.num_steps

    @property
    def ran(self) -> bool:
        """Whether the size works."""
        return self.outcome == "ran"


@dataclass(frozen=True)
class Rules:
    """What bounds a search."""

    budget_bytes: int | None
    most: int | None = None
    start: int = 1
    multiple: int = 1
    tolerance: float = 0.05
    """How far below the largest size that works the answer may lie."""

    def down(self, size: float) -> int:
        """The nearest multiple below, but never less than one multiple."""
        return max(self.multiple, int(size) // self.multiple * self.multiple)


def best(tries: Sequence[Try]) -> Try | None:
    """The largest size that ran; of two tries of it, the longer one."""
    ran = (one for one in tries if one.ran)
    return max(ran, key=lambda one: (one.size, one.num_steps), default=None)


def next_size(tries: Sequence[Try], rules: Rules) -> int | None:
    """The size to try next; None when the search is over, or when nothing fits at all."""
    if not tries:
        return min(rules.down(rules.start), _most(rules) or rules.down(rules.start))
    good = best(tries)
    failed = min((one.size for one in tries if not one.ran), default=None)
    if good is None:
        assert failed is not None
        return rules.down(failed / _SHRINK) if failed > rules.multiple else None
    view = forecast(tries, rules)
    upper = _upper(failed, view, rules)
    if upper is not None and _close(good.size, upper, rules):
        return None
    wished = _wish(tries, good.size, upper, view, rules)
    floor = good.size + rules.multiple
    target = max(floor, rules.down(wished))
    return target if upper is None else min(target, upper)


def forecast(tries: Sequence[Try], rules: Rules) -> Outlook | None:
    """What the tries say of the budget, where they have figures."""
    points = {
        one.size: Point(one.size, one.live_bytes or one.peak_bytes, one.peak_bytes)
        for one in tries
        if one.peak_bytes is not None and one.outcome in ("ran", "over budget")
    }
    good = best(tries)
    if rules.budget_bytes is None or good is None or good.size not in points:
        return None
    # A framework that is held to the budget cannot take more than it.
    held = not any(one.outcome == "over budget" for one in tries)
    rest = good.rest_bytes or 0
    return outlook(list(points.values()), rules.budget_bytes, rest_bytes=rest, held=held)


def _most(rules: Rules) -> int | None:
    return None if rules.most is None else rules.down(rules.most)


def _upper(failed: int | None, view: Outlook | None, rules: Rules) -> int | None:
    """The largest size that may still work; None when nothing bounds it yet."""
    ends = [failed - rules.multiple] if failed is not None else []
    most = _most(rules)
    ends += [most] if most is not None else []
    ends += [rules.down(view.bound)] if view is not None and view.bound is not None else []
    return min(ends, default=None)


def _close(size: int, upper: int, rules: Rules) -> bool:
    return upper - size < rules.multiple or size >= (1 - rules.tolerance) * upper


def _wish(
    tries: Sequence[Try], size: int, upper: int | None, view: Outlook | None, rules: Rules
) -> float:
    """Where to go from the largest size that ran."""
    last = tries[-1]
    # A batch that took too much tells where the budget ends; if that was wrong, halve the gap.
    misled = len(tries) > 1 and not tries[-2].ran
    if not last.ran and (last.outcome != "over budget" or misled):
        return _back(size, last.size, None if misled else view, rules)
    failed = min((one.size for one in tries if one.outcome in ("out of memory", "slow")), default=0)
    if view is None:
        return (size + failed) / 2 if failed else size * 2
    # No farther than where a failure would already be close enough to the answer: one is enough.
    careful = size / (1 - rules.tolerance) + rules.multiple
    if upper is not None:
        careful = min(careful, (size + upper) / 2)
    if failed and view.sure >= (1 - rules.tolerance) * failed:
        # Where a size that runs is near enough to the one that failed.
        return max(careful, math.ceil((1 - rules.tolerance) * failed))
    return max(careful, min(view.sure, size * _reach(view, rules.budget_bytes or 0)))


def _reach(view: Outlook, budget_bytes: int) -> int:
    if view.moved_bytes < _NOTHING_BYTES:
        return _NEXT
    return _FAR if view.moved_bytes >= _MUCH * budget_bytes else _NEAR


def _back(size: int, failed: int, view: Outlook | None, rules: Rules) -> float:
    """Where to go after a failure."""
    if view is None:
        return (size + failed) / 2
    seen = view.moved_bytes >= _SEEN * (rules.budget_bytes or 0)
    if failed <= size * _FAR_OFF or seen:
        # A little below a prediction that was nearly right, never below the middle.
        return max(failed * _BACK, (size + failed) / 2)
    return math.sqrt(size * failed)
