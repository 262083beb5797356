"""Who does what next: a pure plan over unequal workers, given the time. No process is touched here.

While there is plenty to do, a worker gets the oldest items and their neighbours in length. When the
end is in sight each item goes to the worker that would finish it first, the dearest first; a worker
that would end after the others is given nothing. What a slow one still holds then is given to an
idle faster one as well, and the first result counts.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from anyrig.work.pack import Budget, Item, Packer

T = TypeVar("T")
SLICE_S = 0.1
"""What a worker is given at once, unless one call or one item is longer."""
LOW_S = 0.02
"""Near the end a worker is given more only when it has so little left; an answer takes 1 ms."""
AMPLE = 5.0
"""There is plenty while what is left takes so many times as long as a hand or the dearest item."""
_SIMULATED = 512
_RECENT = 8
_OVERDUE = 0.25


@dataclass
class Lane(Generic[T]):
    """One worker, as the plan sees it."""

    number: int
    prior: float | None = None
    """A measured speed of its device, in any unit that all lanes share."""
    budget: Budget = field(default_factory=lambda: Budget(0.0, 1))
    """What one call of its engine may hold, as the worker last said."""
    hand: dict[int, Item[T]] = field(default_factory=dict)
    """What it was given and has not brought back."""
    alone: bool = False
    """Whether the hand is a suspect that must not have company."""
    since: float = 0.0
    """When it began with the first of its hand."""
    _recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    _num_calls: int = 0

    @property
    def rate(self) -> float | None:
        """Cost a second; None before the first result."""
        recent = list(self._recent)
        if 1 < self._num_calls <= _RECENT:
            recent = recent[1:]  # the first call also loads kernels
        seconds = sum(took for _, took in recent)
        return sum(cost for cost, _ in recent) / seconds if seconds > 0 else None

    @property
    def held(self) -> float:
        """The cost of its hand."""
        return sum(item.cost for item in self.hand.values())

    def learn(self, cost: float, seconds: float) -> None:
        """A call of this real cost took so long."""
        self._recent.append((cost, max(seconds, 1e-9)))
        self._num_calls += 1

    def left_s(self, now: float, rate: float) -> float:
        """How long it will be busy; one that is late is taken to be late by a while more."""
        if not self.hand:
            return 0.0
        elapsed = now - self.since
        return max(self.held / rate - elapsed, _OVERDUE * elapsed if elapsed * rate > self.held
                   else 0.0)  # fmt: skip


class Plan(Generic[T]):
    """What waits, who holds what, and what comes next.

    Args:
        slice_s: what a worker is given at once takes so long, unless a call or an item is longer.
        low_s: near the end a worker is given more only when it has so little left.
        known: whether a lane's prior is its speed in cost a second, and not only a share of it.
    """

    def __init__(
        self, *, slice_s: float = SLICE_S, low_s: float = LOW_S, known: bool = False
    ) -> None:
        self._slice_s, self._low_s, self._known = slice_s, low_s, known
        self.waiting: Packer[T] = Packer()
        self.lanes: dict[int, Lane[T]] = {}
        self.ended = False
        """Whether no more items will come."""
        self._done: set[int] = set()
        """Items that are done and still held by a slower worker."""
        self._copies: dict[int, int] = {}

    # -- what happens ---------------------------------------------------------------------------

    def add(self, item: Item[T]) -> None:
        """One more item waits."""
        self.waiting.add(item)

    def returned(self, lane: Lane[T], indices: Iterable[int], now: float) -> list[int]:
        """A worker brought items back; those that nobody brought before. Others drop theirs."""
        fresh = []
        for index in indices:
            lane.hand.pop(index, None)
            held = self.holders(index)
            if index not in self._done:
                fresh.append(index)
                self._copies.pop(index, None)
                if held:
                    self._done.add(index)
            elif not held:
                self._done.discard(index)  # nobody can bring it any more
        lane.since = now
        lane.alone = False
        return fresh

    def dropped(self, lane: Lane[T], indices: Iterable[int]) -> None:
        """A worker will not bring these."""
        for index in indices:
            lane.hand.pop(index, None)
            if not self.holders(index):
                self._done.discard(index)
        if not lane.hand:
            lane.alone = False

    def holders(self, index: int) -> list[Lane[T]]:
        """The workers that hold an item."""
        return [lane for lane in self.lanes.values() if index in lane.hand]

    def elsewhere(self, lane: Lane[T], indices: Iterable[int]) -> dict[int, list[int]]:
        """Which other workers hold items that are done now, and which: they may drop them."""
        found: dict[int, list[int]] = {}
        for index in indices:
            for other in self.lanes.values():
                if other is not lane and index in other.hand:
                    found.setdefault(other.number, []).append(index)
        return found

    def gone(self, lane: Lane[T]) -> list[Item[T]]:
        """A worker is no more: what it held, and nobody else holds, is still to be done."""
        self.lanes.pop(lane.number, None)
        orphans = []
        for item in lane.hand.values():
            if self.holders(item.index):
                continue  # and no other copy is made: one worker died of it
            if item.index not in self._done:
                orphans.append(item)
            self._done.discard(item.index)
            self._copies.pop(item.index, None)
        lane.hand = {}
        return orphans

    # -- what comes next ------------------------------------------------------------------------

    def next_for(self, lane: Lane[T], now: float) -> list[Item[T]]:
        """What a worker gets now; nothing when it should wait or has enough."""
        rate = self._rate(lane)
        if lane.alone or (lane.hand and (rate is None or not self._low(lane, rate, now))):
            return []
        if not len(self.waiting):
            return self._copies_for(lane, rate, now) if not lane.hand else []
        if rate is None:
            chosen = [self.waiting.remove(self.waiting.cheapest().index)]  # learn cheaply
        else:
            chosen = self._share(lane, rate, now)
        if not chosen and not lane.hand:
            return self._copies_for(lane, rate, now)
        self._give(lane, chosen, now)
        return chosen

    def _give(self, lane: Lane[T], chosen: Sequence[Item[T]], now: float) -> None:
        if chosen and not lane.hand:
            lane.since = now
        lane.hand.update((item.index, item) for item in chosen)

    def _rate(self, lane: Lane[T]) -> float | None:
        """The measured rate, else one scaled from the device's measured speed."""
        if lane.rate is not None:
            return lane.rate
        if self._known and lane.prior:
            return lane.prior
        known = [
            other.rate / other.prior
            for other in self.lanes.values()
            if other.rate is not None and other.prior
        ]
        return lane.prior * statistics.median(known) if lane.prior and known else None

    def _low(self, lane: Lane[T], rate: float, now: float) -> bool:
        """Whether a worker would soon wait for more. One item is kept ready beside the present."""
        soon = max(self._slice_s / 2, lane.budget.cost / rate)
        return len(lane.hand) == 1 or lane.left_s(now, rate) < soon

    def _share(self, lane: Lane[T], rate: float, now: float) -> list[Item[T]]:
        rates = {n: r for n, other in self.lanes.items() if (r := self._rate(other)) is not None}
        target = max(rate * self._slice_s, 2 * lane.budget.cost)
        oldest = self.waiting.oldest()
        left = lane.left_s(now, rate)
        if len(rates) == 1 or self._plenty(left + max(target, oldest.cost) / rate, rates, now):
            target, budget = self._fair(lane, rates, target)
            return self._hand(oldest, target, budget) if target > 0 or not lane.hand else []
        if left > self._low_s:
            return []  # near the end nobody takes more than he works on
        if len(self.waiting) > _SIMULATED:
            return self._within(lane, rate, rates, now)
        return self._planned(lane, rates, now)

    def _fair(self, lane: Lane[T], rates: dict[int, float], target: float) -> tuple[float, Budget]:
        """What one worker is given at once, and in what calls, where more may come at any time.

        Where little waits, one that took it all would leave the others to do the same once more.
        """
        there = self.waiting.total_cost + sum(other.held for other in self.lanes.values())
        share = there * rates[lane.number] / sum(rates.values()) - lane.held
        if self.ended or len(rates) == 1 or share >= target:
            return target, lane.budget
        # Half of it is enough: a group may hold twice what a call does, and is given whole.
        return share / 2, replace(lane.budget, cost=min(lane.budget.cost, max(0.0, share / 2)))

    def _plenty(self, seconds: float, rates: dict[int, float], now: float) -> bool:
        if not self.ended:
            return True
        dearest = self.waiting.dearest()
        assert dearest is not None
        seconds = max(seconds, dearest.cost / max(rates.values()))
        return seconds * AMPLE < self._end(rates, now, self.waiting.total_cost) - now

    def _hand(self, first: Item[T], target: float, budget: Budget) -> list[Item[T]]:
        """Groups of like items, from an item and the oldest ones after it, up to a cost.

        A group is enough for two calls, so that a worker can try a batch of twice the size.
        """
        chosen: list[Item[T]] = []
        total = 0.0
        group = replace(budget, cost=2 * budget.cost, items=2 * budget.items)
        while True:
            batch = self.waiting.take(first, group)
            chosen += batch.items
            total += batch.real_cost
            if total >= target or not len(self.waiting):
                return chosen
            first = self.waiting.oldest()

    def _within(
        self, lane: Lane[T], rate: float, rates: dict[int, float], now: float
    ) -> list[Item[T]]:
        """One call that ends before the others would have done everything, from the dearest item
        that does.
        """
        others = {number: r for number, r in rates.items() if number != lane.number}
        room = (self._end(others, now, self.waiting.total_cost) - now) * rate
        item = self.waiting.dearest(room)
        if item is None:
            return []
        call = replace(lane.budget, cost=min(lane.budget.cost, room))
        return list(self.waiting.take(item, call).items)

    def _planned(self, lane: Lane[T], rates: dict[int, float], now: float) -> list[Item[T]]:
        """What this worker gets when every item goes where it is done first, the dearest first."""
        free = {n: now + self.lanes[n].left_s(now, rate) for n, rate in rates.items()}
        target = max(rates[lane.number] * self._slice_s, lane.budget.cost)
        mine: list[int] = []
        total = 0.0
        for cost, index in reversed(self.waiting.sorted()):
            best = min(free, key=lambda n: free[n] + cost / rates[n])
            free[best] += cost / rates[best]
            if best == lane.number:
                mine.append(index)
                total += cost
                if total >= target or (
                    lane.budget.cost == 0.0 and cost / rates[best] > self._low_s
                ):
                    break
        return [self.waiting.remove(index) for index in mine]

    def _end(self, rates: dict[int, float], now: float, cost: float) -> float:
        """When these workers would have done so much more, shared without loss."""
        starts = sorted((now + self.lanes[n].left_s(now, rate), rate) for n, rate in rates.items())
        total, moment = 0.0, now
        for place, (start, rate) in enumerate(starts):
            total += rate
            following = starts[place + 1][0] if place + 1 < len(starts) else math.inf
            room = total * (following - start)
            if room >= cost:
                return start + cost / total
            cost -= room
            moment = following
        return moment

    # -- late items -----------------------------------------------------------------------------

    def _copies_for(self, lane: Lane[T], rate: float | None, now: float) -> list[Item[T]]:
        """Items that another worker holds and this idle one would bring sooner."""
        if rate is None or lane.hand:
            return []
        late = [
            (finish, other)
            for other in self.lanes.values()
            if other is not lane and other.hand
            and (finish := now + other.left_s(now, self._rate(other) or rate)) > now
        ]  # fmt: skip
        for finish, other in sorted(late, key=lambda pair: -pair[0]):
            chosen = self._sooner(lane, other, rate, finish, now)
            if chosen:
                self._give(lane, chosen, now)
                return chosen
        return []

    def _sooner(
        self, lane: Lane[T], other: Lane[T], rate: float, finish: float, now: float
    ) -> list[Item[T]]:
        chosen: list[Item[T]] = []
        moment, most = now, max(rate * self._slice_s, lane.budget.cost)
        for item in sorted(other.hand.values(), key=lambda held: -held.cost):
            if self._copies.get(item.index) or item.index in self._done or other.alone:
                continue
            moment += item.cost / rate
            if moment >= finish or (chosen and (moment - now) * rate > most):
                break
            chosen.append(item)
        for item in chosen:
            self._copies[item.index] = lane.number
        return chosen
