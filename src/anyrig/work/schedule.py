"""Who does what next: a pure plan over unequal workers, given the time. No process is touched here.

While there is plenty to do, a worker gets the oldest items and their neighbours in length. When the
end is in sight each item goes to the worker that would finish it first, the dearest first; a worker
that would end after the others is given nothing. What a slow one still holds then is given to an
idle faster one as well, and the first result counts.

Where every worker's speed is known and no more items will come, everything is laid out at once and
done as laid out (`draft.best`): one more worker then never makes it longer. That lasts until a
worker is off by more than a little; from then on the above holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from anyrig.work.draft import Drawn, Look, Seat, best, bound_s, differ, layout
from anyrig.work.lane import Lane as Lane
from anyrig.work.late import FEW as FEW
from anyrig.work.late import Late
from anyrig.work.pack import Budget, Item

T = TypeVar("T")
SLICE_S = 0.1
"""What a worker is given at once, unless one call or one item is longer."""
LOW_S = 0.02
"""Near the end a worker is given more only when it has so little left; an answer takes 1 ms."""
AMPLE = 5.0
"""There is plenty while what is left takes so many times as long as a hand or the dearest item."""
_DEARER = 4.0
"""Beside the item that was thought of, no other is given that is so many times dearer."""
_LISTED = 4096
"""Items times workers up to which the end is thought through anew for every decision."""
_DRAWN = 200_000
"""So many items are laid out for good; it takes half a second."""
_DRAWN_ITEM_S = 5e-5
"""A layout is kept at least so long for each of its items: twenty times as long as it takes."""
_MARGIN = 0.3
"""Near the end, where speeds are only measured, a worker leaves so much free of what its dearest
item takes: that may take longer, and its speed may have been measured at a good moment."""


class Plan(Late[T]):
    """What waits, who holds what, and what comes next.

    Args:
        slice_s: what a worker is given at once takes so long, unless a call or an item is longer.
        low_s: near the end a worker is given more only when it has so little left.
        known: whether a lane's prior is its speed in cost a second, and not only a share of it.
        ready_s: before, it is given more when it has so little left; a whole slice where speeds
            are known, so that one lies ready beside the one at work, and half a slice elsewhere.
    """

    def __init__(
        self,
        *,
        slice_s: float = SLICE_S,
        low_s: float = LOW_S,
        known: bool = False,
        ready_s: float | None = None,
    ) -> None:
        super().__init__(slice_s, low_s, known=known)
        self._ready_s = ready_s if ready_s is not None else slice_s if known else slice_s / 2
        self._seen: Look | None = None
        self._drawn: Drawn | None = None
        self._unasked = False
        """Whether a worker gets nothing only because it is not laid out anew yet."""
        self.sure = known
        """Whether all has gone as laid out, so far."""

    # -- what happens ---------------------------------------------------------------------------

    def add(self, item: Item[T]) -> None:
        """One more item waits."""
        super().add(item)
        self._astray()
        if self._seen is not None:
            self._seen.end += item.cost / self._seen.speed

    def gone(self, lane: Lane[T]) -> list[Item[T]]:
        """A worker is no more: what it held, and nobody else holds, is still to be done."""
        self._astray()
        return super().gone(lane)

    def leave(self, lane: Lane[T]) -> None:
        """A worker takes nothing new: what was laid out for it is for others."""
        lane.leaving, self._seen = True, None
        self._astray()

    def give(self, lane: Lane[T], chosen: Sequence[Item[T]], now: float) -> None:
        """A worker has these from now on."""
        super().give(lane, chosen, now)
        if self._seen is not None:
            self._seen.held += sum(item.cost for item in chosen)

    def _astray(self) -> None:
        """Something was not foreseen: what was laid out holds no more."""
        if self._drawn is not None or not self.ended:
            self._drawn = None
            self.sure = self.sure and not self.ended
        self._seen = self._seen if len(self.lanes) > FEW else None

    # -- what comes next ------------------------------------------------------------------------

    def next_for(self, lane: Lane[T], now: float) -> list[Item[T]]:
        """What a worker gets now; nothing when it should wait or has enough."""
        rate = self.rate_of(lane)
        if (
            lane.alone
            or lane.leaving
            or (lane.hand and (rate is None or not self._low(lane, rate, now)))
        ):
            return []
        if not len(self.waiting):
            return self._late_for(lane, rate, now)
        if rate is None:
            chosen = [self.waiting.remove(self.waiting.cheapest().index)]  # learn cheaply
        else:
            self._unasked = False
            chosen = self._share(lane, rate, now)
        if not chosen and not lane.hand and not self._unasked:
            return self._late_for(lane, rate, now)
        self.give(lane, chosen, now)
        return chosen

    def _late_for(self, lane: Lane[T], rate: float | None, now: float) -> list[Item[T]]:
        # Where all goes as laid out, only what is late is done twice.
        after = now if self._drawn is None or not self.sure else self._drawn.end + self.low_s
        return self._copies_for(lane, rate, now, after)

    def _low(self, lane: Lane[T], rate: float, now: float) -> bool:
        """Whether a worker would soon wait for more. One item is kept ready beside the present."""
        soon = max(self._ready_s * (1 + 1e-9), lane.budget.cost / rate)
        return len(lane.hand) == 1 or lane.left_s(now, rate) < soon

    def _share(self, lane: Lane[T], rate: float, now: float) -> list[Item[T]]:
        drawn = self._as_laid_out(lane, rate, now)
        if drawn is not None:
            return self._from(drawn, lane, rate * self._slice_s, math.inf)
        look = self._look(lane, now)
        target = max(rate * self._slice_s, 2 * lane.budget.cost)
        oldest = self.waiting.oldest()
        left = lane.left_s(now, rate)
        if not self.ended and left + oldest.cost * (1 / rate - 1 / look.fastest) > look.end - now:
            return []  # others are through with all there is, and with this, before
        if len(look.rates) == 1 or self._plenty(left + max(target, oldest.cost) / rate, look, now):
            target, budget = self._fair(lane, look, target)
            return self._hand(oldest, target, budget) if target > 0 or not lane.hand else []
        if left > self.low_s:
            return []  # near the end nobody takes more than he works on
        if len(self.lanes) <= FEW and len(self.waiting) * len(look.rates) <= _LISTED:
            return self._planned(lane, look, now)
        return self._for_now(lane, rate, now)

    def _look(self, lane: Lane[T], now: float) -> Look:
        seen, count = self._seen, len(self.lanes)
        # One may have gone and this one come since: as many as before, and not the same.
        kept = (
            seen is not None and count > FEW and seen.count == count and lane.number in seen.rates
        )
        if seen is not None and kept and now - seen.at < self._slice_s / 4:
            return seen
        seats = self._seats(now)
        rates = {seat.number: seat.rate for seat in seats}
        self._seen = Look(
            now, count, seats, rates, sum(rates.values()), max(rates.values()),
            sum(other.held for other in self.lanes.values()),
            now + bound_s(seats, self.waiting.total_cost),
        )  # fmt: skip
        return self._seen

    def _seats(self, now: float) -> list[Seat]:
        return [
            Seat(number, lane.left_s(now, rate), rate)
            for number, lane in self.lanes.items()
            if not lane.leaving and (rate := self.rate_of(lane)) is not None
        ]

    def _fair(self, lane: Lane[T], look: Look, target: float) -> tuple[float, Budget]:
        """What one worker is given at once, and in what calls, where more may come at any time.

        Where little waits, one that took it all would leave the others to do the same once more.
        """
        if self.ended or len(look.rates) == 1:
            return target, lane.budget
        there = self.waiting.total_cost + look.held
        share = there * look.rates[lane.number] / look.speed - lane.held
        if share >= target:
            return target, lane.budget
        # Half of it is enough: a group may hold twice what a call does, and is given whole.
        return share / 2, replace(lane.budget, cost=min(lane.budget.cost, max(0.0, share / 2)))

    def _plenty(self, seconds: float, look: Look, now: float) -> bool:
        if not self.ended:
            return True
        dearest = self.waiting.dearest()
        assert dearest is not None
        return max(seconds, dearest.cost / look.fastest) * AMPLE < look.end - now

    def _hand(self, first: Item[T], target: float, budget: Budget) -> list[Item[T]]:
        """Groups of like items, from an item and the oldest ones after it, up to a cost.

        A group is enough for two calls, so that a worker can try a batch of twice the size.
        """
        chosen: list[Item[T]] = []
        total, most = 0.0, _DEARER * max(target, first.cost)
        group = replace(budget, cost=2 * budget.cost, items=2 * budget.items)
        while True:
            batch = self.waiting.take(first, group)
            chosen += batch.items
            total += batch.real_cost
            if total >= target or not len(self.waiting):
                return chosen
            first = self.waiting.oldest()
            if first.cost > most:
                return chosen  # whether it may do that one is another question

    def _planned(self, lane: Lane[T], look: Look, now: float) -> list[Item[T]]:
        """What this worker gets when every item goes where it is done first, the dearest first."""
        rates = look.rates
        free = {seat.number: seat.free_s for seat in look.seats}
        target = max(rates[lane.number] * self._slice_s, lane.budget.cost)
        alone_from = self._alone_from(lane)
        mine: list[int] = []
        total = 0.0
        for cost, index in reversed(self.waiting.sorted()):
            best = min(free, key=lambda n: free[n] + cost / rates[n])
            free[best] += cost / rates[best]
            if best == lane.number:
                mine.append(index)
                total += cost
                if total >= target or cost > alone_from * rates[best]:
                    break
        return [self.waiting.remove(index) for index in mine]

    def _alone_from(self, lane: Lane[T]) -> float:
        """An item that takes so long goes by itself near the end, where calls hold one item."""
        return self.low_s if lane.budget.cost == 0.0 else math.inf

    # -- as laid out ----------------------------------------------------------------------------

    def _from(self, drawn: Drawn, lane: Lane[T], target: float, alone_from: float) -> list[Item[T]]:
        """The next of what a worker is to do, up to a cost."""
        chosen: list[Item[T]] = []
        total, rate = 0.0, drawn.rates.get(lane.number, 1.0)
        while total < target and (index := drawn.next(lane.number)) is not None:
            if index not in self.waiting:
                continue  # somebody took it to learn his speed
            item = self.waiting.remove(index)
            chosen.append(item)
            total += item.cost
            if item.cost > alone_from * rate:
                break
        return chosen

    def _as_laid_out(self, lane: Lane[T], rate: float, now: float) -> Drawn | None:
        """What is laid out for good; None where speeds are not known or something came between."""
        if not (self.sure and self.ended) or len(self.waiting) > _DRAWN:
            return None
        drawn = self._drawn
        if drawn is None:
            drawn = self._for_good(now)
        elif lane.number not in drawn.rates and now >= drawn.again:
            drawn = self._widened(drawn, now)
        if drawn is not None and not drawn.off(lane, rate, now, self.low_s):
            idle = not lane.hand and not drawn.lists.get(lane.number)
            if not idle or not self._anyone_late(drawn, now):
                self._drawn = drawn
                return drawn
        self.sure, self._drawn = False, None
        return None

    def _for_good(self, now: float) -> Drawn | None:
        staying = [lane for lane in self.lanes.values() if not lane.leaving]
        if any(not one.prior or differ(one.rate or one.prior, one.prior) for one in staying):
            return None
        seats = sorted(self._seats(now))
        found = best([cost for cost, _ in self.waiting.sorted()], seats)
        return Drawn.of(found, seats, self.waiting.sorted(), now, by_age=True)

    def _widened(self, drawn: Drawn, now: float) -> Drawn:
        """With those that have come since, where all would then end earlier; else as it is."""
        seats = self._seats(now)
        there = sorted(seat for seat in seats if seat.number in drawn.rates)
        come = sorted(seat for seat in seats if seat.number not in drawn.rates)
        costs = [cost for cost, _ in self.waiting.sorted()]
        found = best(costs, there + come, least=len(there) + 1)
        if now + found.end_s < drawn.end - self.low_s:
            return Drawn.of(found, seats, self.waiting.sorted(), now, by_age=True)
        drawn.again = now + max(self._slice_s, 4 * _DRAWN_ITEM_S * len(costs))
        return drawn

    def _anyone_late(self, drawn: Drawn, now: float) -> bool:
        """Whether somebody else has stopped, who would not come to say so."""
        if now - drawn.looked < self._slice_s / 4:
            return False
        drawn.looked = now
        return any(
            drawn.off(lane, rate, now, self.low_s)
            for lane in self.lanes.values()
            if (rate := self.rate_of(lane)) is not None
        )

    def _for_now(self, lane: Lane[T], rate: float, now: float) -> list[Item[T]]:
        """What is laid out for now, and again after a while when it does not come true."""
        drawn, target = self._drawn, max(rate * self._slice_s, lane.budget.cost)
        if drawn is None or self._may_redraw(drawn, lane, rate, now):
            seats = self._seats(now)
            found = layout([cost for cost, _ in self.waiting.sorted()], seats, margin=_MARGIN)
            drawn = Drawn.of(found, seats, self.waiting.sorted(), now, by_age=False)
            self._drawn = drawn
        chosen = self._from(drawn, lane, target, self._alone_from(lane))
        if chosen or drawn.at == now:
            return chosen
        # It ended early, or has come since: until all is laid out again it does what is short.
        self._unasked = True
        oldest = self.waiting.oldest() if len(self.waiting) else None
        if oldest is not None and oldest.cost / rate * AMPLE < drawn.end - now:
            return self._hand(oldest, 0.0, lane.budget)
        return []

    def _may_redraw(self, drawn: Drawn, lane: Lane[T], rate: float, now: float) -> bool:
        if now - drawn.at <= max(self.low_s, _DRAWN_ITEM_S * len(self.waiting)):
            return False
        return not drawn.lists.get(lane.number) or drawn.off(lane, rate, now, self.low_s)
