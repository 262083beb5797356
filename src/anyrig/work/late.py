"""What is late: items that one worker holds, and an idle one would bring sooner.

They are given to both, and the first result counts. A worker of unknown speed is taken to be slow.
When nothing more will come, what it holds is done by an idle one at once: that keeps nobody from
anything. Were its result waited for, one more worker could make it all longer by more than the
item that it took.
"""

from __future__ import annotations

import statistics
from typing import TypeVar

from anyrig.work.holdings import Holdings
from anyrig.work.lane import Lane
from anyrig.work.pack import Item

T = TypeVar("T")
FEW = 16
"""So many workers are looked at anew for every decision; of more, a look is kept for a while."""
_UNKNOWN = 7.0
"""One of unknown speed is taken to be so many times slower than the fastest: the middle, as ratios
go, between as fast and fifty times slower."""
_THIRD = 0.75
"""A third does the same only in such a part of the time that the second still needs."""
_LATEST = 8
"""An idle worker looks at so many late ones for something to do as well."""


class Late(Holdings[T]):
    """Who holds what, how fast each is, and what should be done twice."""

    def __init__(self, slice_s: float, low_s: float, *, known: bool) -> None:
        super().__init__()
        self._slice_s, self.low_s, self._known = slice_s, low_s, known
        self.ended = False
        """Whether no more items will come."""
        self._late: tuple[float, list[tuple[float, Lane[T]]]] | None = None

    def rate_of(self, lane: Lane[T]) -> float | None:
        """The measured rate, else one scaled from the device's measured speed."""
        if lane.rate is not None:
            return lane.rate
        if self._known or not lane.prior:
            return lane.prior or None
        known = [
            other.rate / other.prior
            for other in self.lanes.values()
            if other.rate is not None and other.prior
        ]
        return lane.prior * statistics.median(known) if known else None

    def _copies_for(
        self, lane: Lane[T], rate: float | None, now: float, after: float
    ) -> list[Item[T]]:
        """Items that another worker holds until after a moment, and this idle one brings sooner."""
        if rate is None or lane.hand:
            return []
        tries = 0
        for finish, other in self._latest(now, after):
            chosen = self._sooner(lane, other, rate, finish, now) if other is not lane else []
            if chosen:
                self.give(lane, chosen, now)
                return chosen
            tries += next(iter(other.hand), None) not in self._copies
            if tries > _LATEST:
                break
        return []

    def _latest(self, now: float, after: float) -> list[tuple[float, Lane[T]]]:
        """Those that hold something which might be done sooner, the last to end first."""
        many = len(self.lanes) > FEW
        if many and self._late is not None and now - self._late[0] < self.low_s / 4:
            return self._late[1]
        fastest = max(known for one in self.lanes.values() if (known := self.rate_of(one)))
        found = [
            (max(self._due(index, finish, now) for index in other.hand), finish, other)
            for other in self.lanes.values()
            if other.hand and not other.alone
            and (finish := now + self._left_s(other, fastest, now)) > after
        ]  # fmt: skip
        # Of what is done twice already the second is likely to come first.
        found.sort(key=lambda one: (-one[0], -one[2].number))
        late = [(finish, other) for due, finish, other in found if due > now]
        self._late = (now, late)
        return late

    def _left_s(self, other: Lane[T], fastest: float, now: float) -> float:
        """How long it will be busy; one of unknown speed is likely to be slow."""
        known = self.rate_of(other)
        if known is not None:
            return other.left_s(now, known)
        if not self.ended:  # whoever asks had better be idle when more comes
            return max(other.left_s(now, fastest), now - other.since)
        return _UNKNOWN * other.held / fastest + now - other.since

    def _due(self, index: int, finish: float, now: float) -> float:
        """Before when it must be done to be worth doing as well; a third does it in much less time
        than the second still needs.
        """
        if index in self._done:
            return now
        if index not in self._copies:
            return finish
        return min(finish, now + _THIRD * (self._copies[index][1] - now))

    def _sooner(
        self, lane: Lane[T], other: Lane[T], rate: float, finish: float, now: float
    ) -> list[Item[T]]:
        chosen: list[Item[T]] = []
        moment, most = now, max(rate * self._slice_s, lane.budget.cost)
        # The dearest first, and what it is at work on last: that it will bring first.
        at_work = next(iter(other.hand), None)
        for item in sorted(other.hand.values(), key=lambda one: (one.index == at_work, -one.cost)):
            due = self._due(item.index, finish, now)
            if due <= now:
                continue
            done = moment + item.cost / rate
            if done >= due:
                continue  # a shorter one that lies ready behind it may be done sooner
            if chosen and (done - now) * rate > most:
                break
            moment = done
            chosen.append(item)
            self._copies[item.index] = (lane.number, moment)
        return chosen
