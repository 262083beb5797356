"""How much goes into one batch: found by measuring, held under what memory allows.

The batch grows from one item, doubling for as long as a larger one computes more a second: on a
GPU to where it is full, on a CPU seldom beyond a few items. Memory sets a limit from above: half of
what failed, or the largest that worked; after many good batches it is raised a little, and more
seldom each time that fails.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from anyrig.work.pack import Budget

WORTH = 1.05
"""A larger batch must compute so much more a second to be kept."""
_TRIES = 2  # the first call of a new shape also loads kernels
_LOOKS = 6
_AGAIN = 64  # batches after which a settled size is questioned; doubles each time
_PATIENCE = 32  # good batches at the limit before more is tried; doubles with each failure
_RAISE = 1.15
_NEAR = 0.7
_KEPT = 64
_FELT_S = 0.001  # a call that costs less than this is not worth any padding
_RECENT = 8


@dataclass
class Rung:
    """One size of batch, a power of two, and what it gave."""

    tries: int = 0
    rate: float = 0.0
    """The best cost a second."""


class Pace:
    """The budget of the next batch, from what the last ones cost and took."""

    def __init__(
        self,
        *,
        start: float = 0.0,
        failed: float | None = None,
        most: float = math.inf,
        items: int = 1 << 30,
        pads: bool = True,
        grows: bool = True,
        keep: float = 1 / WORTH,
    ) -> None:
        """Begin.

        Args:
            start: a cost that was good here before; 0 begins with one item.
            failed: a cost that ran out of memory here before.
            most: a cost never to go beyond.
            items: a number of items never to go beyond.
            pads: whether the engine pads its batches.
            grows: False keeps to one item a batch, so that a result never depends on its company.
            keep: of all sizes the smallest is taken that keeps this share of the best speed.
        """
        self._keep = keep
        self.worked_at = 0.0
        """The largest cost that worked."""
        self.failed_at: float | None = None
        """The last cost that ran out of memory."""
        self.num_failures = 0
        self._settled = False
        self._good = 0
        self._most = self._limit = most
        self._items, self._pads, self._grows = items, pads, grows
        # One rung lower, so that there is something to compare the old size with.
        self._level: int | None = _level(start) - 1 if start else None
        if failed is not None:
            self.worked_at = start if start < failed else 0.0
            self.ran_out(failed)
        self._rungs: dict[int, Rung] = {}
        self._unreached = 0
        self._num_settled = self._since_settled = 0
        self._num_calls = 0
        self._call_cost = 0.0
        self._seen: deque[tuple[float, float]] = deque(maxlen=_KEPT)

    @property
    def budget(self) -> Budget:
        """What the next batch may hold."""
        if not self._grows:
            return Budget(0.0, 1, pads=self._pads)
        return Budget(min(self.size, self._limit), self._items, self._call_cost, self._pads)

    @property
    def size(self) -> float:
        """The cost that computes most a second, as far as was measured."""
        return 0.0 if self._level is None else 2.0**self._level

    @property
    def good(self) -> float:
        """The smallest size that was measured to give nearly the best rate; 0 before."""
        tried = {level: r.rate for level, r in self._rungs.items() if r.tries >= _TRIES}
        if not tried:
            return 0.0
        best = max(tried.values())
        level = min(level for level, rate in tried.items() if rate >= self._keep * best)
        return min(2.0**level, self._limit)

    @property
    def limit(self) -> float:
        """The most that memory allows, as far as was found out."""
        return self._limit

    @property
    def rate(self) -> float | None:
        """Cost a second over the recent batches; None before the first."""
        recent = list(self._seen)[-_RECENT:]
        if 1 < len(self._seen) <= _RECENT:
            recent = recent[1:]  # the first call also loads kernels
        seconds = sum(took for _, took in recent)
        return sum(cost for cost, _ in recent) / seconds if seconds > 0 else None

    def worked(self, cost: float, seconds: float) -> None:
        """A batch of this padded cost took so long."""
        seconds = max(seconds, 1e-9)
        self._seen.append((cost, seconds))
        self.worked_at = max(self.worked_at, cost)
        if self.failed_at is not None and cost >= self.failed_at:
            self.failed_at = None  # less memory was free when it failed
        self._raise_limit(cost)
        self._num_calls += 1
        if self._pads and self._num_calls % 4 == 0:
            self._call_cost = call_cost(self._seen)
        rung = self._rungs.setdefault(_level(cost), Rung())
        rung.tries += 1
        rung.rate = max(rung.rate, cost / seconds)
        if self._level is None:
            self._level = _level(cost)
        if self._settled:
            self._look_again()
        else:
            self._climb()

    def ran_out(self, cost: float) -> None:
        """A batch of this padded cost did not fit into memory."""
        self.failed_at = cost
        self.num_failures += 1
        self._good = 0
        if cost <= self.worked_at:  # it did fit once: somebody else holds the memory now
            self.worked_at = cost / 2
        self._limit = min(self._most, max(self.worked_at, cost / 2))
        if self._level is not None and self.size > self._limit:
            self._settled = True

    def _raise_limit(self, cost: float) -> None:
        """After many good batches close to the limit, allow a little more."""
        if self._limit >= self._most or cost < _NEAR * min(self.size, self._limit):
            return
        self._good += 1
        if self._good >= _PATIENCE << min(self.num_failures - 1, 8):
            self._good = 0
            self._limit = min(self._most, self._limit * _RAISE)

    def _climb(self) -> None:
        """Double while it pays. Input whose items are dearer than the rung moves up to them.

        One good look is enough to go on; a rung is given up only after several poor ones, since
        the first calls of a new shape load kernels and take memory from the driver.
        """
        assert self._level is not None
        tried = [level for level, rung in self._rungs.items() if rung.tries >= _TRIES]
        level = max((other for other in tried if other >= self._level), default=None)
        if level is None:
            self._stretch()
            return
        rung = self._rungs[level]
        below = [other.rate for at, other in self._rungs.items() if at < level]
        if below and rung.rate < WORTH * max(below):
            if rung.tries >= _LOOKS:
                self._settle()
        elif 2.0 ** (level + 1) > self._limit:
            self._level, self._settled = level + 1, True  # memory ends it: `budget` holds it down
        else:
            self._level = level + 1

    def _look_again(self) -> None:
        """Long after it settled, one rung up is tried anew: the device may be free now."""
        self._since_settled += 1
        if self._since_settled < _AGAIN << min(self._num_settled, 6) or self._level is None:
            return
        above = self._level + 1
        if 2.0**above <= self._limit and self._items > 1:
            self._rungs.pop(above, None)
            self._level, self._settled = above, False

    def _stretch(self) -> None:
        """Whole items may not add up to the rung, so that no batch ever reaches it: leave it out.

        Not beyond the double of two such steps: an engine may take one item at a time.
        """
        assert self._level is not None
        self._unreached += 1
        if self._unreached > _TRIES and self._level < max(self._rungs) + 2:
            self._unreached = 0
            self._level += 1

    def _settle(self) -> None:
        """The smallest size that gives nearly the best rate."""
        best = max(rung.rate for rung in self._rungs.values())
        self._level = min(level for level, r in self._rungs.items() if r.rate >= self._keep * best)
        self._settled = True
        self._num_settled += 1
        self._since_settled = 0


def _level(cost: float) -> int:
    """The nearest power of two."""
    return round(math.log2(max(cost, 1e-9)))


def call_cost(seen: Sequence[tuple[float, float]]) -> float:
    """What a call costs beside its items, in their unit: a line through costs and seconds."""
    costs, times = [cost for cost, _ in seen], [seconds for _, seconds in seen]
    middle = statistics.median(costs)
    if max(costs) - min(costs) < 0.1 * middle:
        return 0.0
    slope, base = statistics.linear_regression(costs, times)
    if base < _FELT_S:
        return 0.0
    # A line is a crude model: it may not claim more than the batches that were really seen.
    return middle if slope <= 0 else max(0.0, min(base / slope, middle))
