"""Everything that waits, laid out over unequal workers at once: who does what, and when it ends.

A moment is guessed, and every worker filled up to it with the dearest items that still fit, the
slowest worker first: its room is the hardest to fill, and the fastest takes what is left over with
the least harm. The earliest moment by which everything found its place is the end. A slow one gets
small items only, where that costs little: what it does not bring in time, a fast one does again.
Where there is little to lay out, the usual list (the dearest first, each where it is done first)
is tried as well.

`best` never ends later for one more worker: it takes the best of the layouts for the first of them,
the first two, and so on. Those that could not be better by all work over all speed are left out.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from anyrig.work.lane import Lane

_LISTED = 20_000
"""Items times workers up to which the list is tried as well."""
_STEPS = (1e-12, 0.0002, 0.001, 0.004, 0.015, 0.06, 0.25, 1.0, 4.0)
"""How much later than the bound the end is guessed to be, in turn."""
_HALVINGS = 3
_PIECES, _NEAR = 8.0, 0.01
"""A slow worker gets at least so many items, unless all would end later by more than this."""
_EVEN = 1 - 1e-9
"""Sums of the same numbers in another order differ by less."""
MOST_PLACED = 400_000
"""So many items are laid out in all when the best is looked for: about half a second."""

OFF = 0.02
"""A worker's speed is as it was known when it differs by no more."""


class Seat(NamedTuple):
    """A worker: when it is free, from now on, and its speed in cost a second."""

    number: int
    free_s: float
    rate: float


@dataclass(frozen=True)
class Layout:
    """Who does what."""

    end_s: float
    """When the last is done, from now on."""
    places: dict[int, list[int]]
    """By worker: places in the list of costs, the dearest first."""
    exact: bool = True
    """Whether no layout for fewer workers was left out that might have been better."""


@dataclass
class Look:
    """All workers with a known speed, as they were a moment ago."""

    at: float
    count: int
    seats: list[Seat]
    rates: dict[int, float]
    speed: float
    fastest: float
    held: float
    end: float
    """When everything would be done, shared without loss."""


def bound_s(seats: Sequence[Seat], cost: float) -> float:
    """When they would have done so much, shared without loss."""
    starts = sorted((seat.free_s, seat.rate) for seat in seats)
    total, moment = 0.0, 0.0
    for place, (start, rate) in enumerate(starts):
        total += rate
        following = starts[place + 1][0] if place + 1 < len(starts) else math.inf
        moment = max(start, 0.0)
        room = total * (following - start)
        if room >= cost:
            return moment + cost / total
        cost -= room
    return moment


def layout(costs: Sequence[float], seats: Sequence[Seat], *, margin: float = 0.0) -> Layout:
    """One that ends early.

    Args:
        costs: of all items, the cheapest first.
        seats: at least one.
        margin: a worker leaves so much free of what its dearest item takes, which may take longer.
    """
    total = sum(costs)
    slowest_first = sorted(seats, key=lambda seat: (seat.rate, seat.number))
    found = _searched(costs, slowest_first, total, _PIECES, margin)
    near = 1.0 + _NEAR + margin / 5
    if found is None or found.end_s > near * _at_least_s(costs, seats, total):
        plain = _searched(costs, slowest_first, total, 0.0, margin)
        if found is None or (plain is not None and found.end_s > near * plain.end_s):
            found = plain
    if len(costs) * len(seats) <= _LISTED:
        listed = _listed(costs, seats)
        if found is None or listed.end_s < found.end_s:
            return listed
    assert found is not None
    return found


def best(costs: Sequence[float], seats: Sequence[Seat], *, least: int = 1) -> Layout:
    """The best for the first of the workers, the first two, and so on: never later for one more.

    Args:
        costs: of all items, the cheapest first.
        seats: in the order in which they came.
        least: how many of them are always laid out for.
    """
    total, left = sum(costs), float(MOST_PLACED)
    found: Layout | None = None
    for count in range(len(seats), least - 1, -1):
        some = seats[:count]
        if found is not None and _at_least_s(costs, some, total) >= found.end_s * _EVEN:
            break
        if found is not None and left < 0:
            return Layout(found.end_s, found.places, exact=False)
        tried = layout(costs, some)
        left -= 5 * (len(costs) + count)
        if found is None or tried.end_s < found.end_s:
            found = tried
    assert found is not None
    return found


def _at_least_s(costs: Sequence[float], seats: Sequence[Seat], total: float) -> float:
    soonest = min(seat.free_s + costs[-1] / seat.rate for seat in seats) if costs else 0.0
    return max(bound_s(seats, total), soonest)


def _searched(
    costs: Sequence[float], seats: Sequence[Seat], total: float, pieces: float, margin: float
) -> Layout | None:
    """The earliest end that is found by guesses, later and later and then between the last two."""
    low = _at_least_s(costs, seats, total)
    found: Layout | None = None
    before = low
    for step in (*_STEPS, *(16.0 * 4**n for n in range(20))):
        guess = low * (1 + step)
        found = _filled(costs, seats, guess, total, pieces, margin)
        if found is not None:
            break
        before = guess
    if found is None:
        return None
    for _ in range(_HALVINGS):
        guess = (before + found.end_s) / 2
        tried = _filled(costs, seats, guess, total, pieces, margin)
        if tried is None or tried.end_s >= found.end_s:
            before = guess
        else:
            found = tried
    return found


def _filled(
    costs: Sequence[float], seats: Sequence[Seat], end_s: float, total: float, pieces: float,
    margin: float,
) -> Layout | None:  # fmt: skip
    """Every worker, one after the other, full up to a moment; None where not all find a place.

    With `pieces`, a slower one gets nothing dearer than such a part of its room: what it does not
    bring in time must be done again by a fast one.
    """
    fast = seats[-1].rate / 2 if pieces else 0.0
    typical = costs[len(costs) // 4]
    spare = sum(seat.rate * (end_s - seat.free_s) for seat in seats if seat.free_s < end_s) - total
    tiny = 1e-9 * total
    below = list(range(len(costs) + 1))
    """The nearest place at or below one that is not taken, counted from 1; 0 is none."""
    places: dict[int, list[int]] = {}
    latest, count = 0.0, 0
    for number, free_s, rate in seats:
        if free_s >= end_s:
            continue
        full = room = rate * (end_s - free_s)
        mine: list[int] = []
        most = room if rate >= fast else min(room, max(full / pieces, typical))
        first = 1 + margin  # the dearest comes first
        place = bisect_right(costs, min(most, room / first))
        while place:
            root = place
            while below[root] != root:
                root = below[root]
            while below[place] != root:
                below[place], place = root, below[place]
            if not root:
                break
            room -= first * costs[root - 1]
            first = 1.0
            mine.append(root - 1)
            below[root] = place = root - 1
            if place and costs[place - 1] > room:
                place = bisect_right(costs, room, 0, place)
        unused = room + (margin * costs[mine[0]] if mine else 0.0)
        spare -= unused
        if spare < -tiny:
            return None
        if mine:
            places[number] = mine
            count += len(mine)
            latest = max(latest, free_s + (full - unused) / rate)
    return Layout(latest, places) if count == len(costs) else None


def _listed(costs: Sequence[float], seats: Sequence[Seat]) -> Layout:
    """The dearest first, each where it is done first."""
    free = {seat.number: seat.free_s for seat in seats}
    rates = [(seat.number, seat.rate) for seat in seats]
    places: dict[int, list[int]] = {}
    latest = 0.0
    for place in range(len(costs) - 1, -1, -1):
        cost = costs[place]
        done, number = min((free[number] + cost / rate, number) for number, rate in rates)
        free[number] = done
        places.setdefault(number, []).append(place)
        latest = max(latest, done)
    return Layout(latest, places)


def differ(rate: float, known: float) -> bool:
    """Whether a speed is another one than was known."""
    return abs(rate - known) > OFF * known


@dataclass
class Drawn:
    """A layout that is followed."""

    at: float
    end: float
    lists: dict[int, list[int]]
    """By worker: the items it is to do, the next one last."""
    rates: dict[int, float]
    costs: dict[int, float]
    rest: dict[int, float]
    """By worker: the cost of what it is still to be given."""
    again: float = 0.0
    """When it is asked again whether newcomers would help."""
    looked: float = 0.0
    """When it was last asked whether all are in time."""

    @staticmethod
    def of(
        found: Layout, seats: Sequence[Seat], waiting: Sequence[tuple[float, int]], now: float,
        *, by_age: bool,
    ) -> Drawn:  # fmt: skip
        """Of a layout for these; each worker's oldest item first, or its dearest."""
        lists = {number: [waiting[place][1] for place in places]
                 for number, places in found.places.items()}  # fmt: skip
        for mine in lists.values():
            mine.sort(reverse=True) if by_age else mine.reverse()
        rest = {number: sum(waiting[place][0] for place in places)
                for number, places in found.places.items()}  # fmt: skip
        costs = {index: cost for cost, index in waiting}
        rates = {seat.number: seat.rate for seat in seats}
        return Drawn(now, now + found.end_s, lists, rates, costs, rest)

    def next(self, number: int) -> int | None:
        """What a worker is to do next."""
        mine = self.lists.get(number)
        if not mine:
            return None
        index = mine.pop()
        self.rest[number] -= self.costs[index]
        return index

    def off(self, lane: Lane[Any], rate: float, now: float, by_s: float) -> bool:
        """Whether a worker has another speed than was known, or will end later by so much."""
        known = self.rates.get(lane.number)
        if known is None:
            return False
        rest = self.rest.get(lane.number, 0.0)
        late = now + lane.left_s(now, rate) + rest / rate > self.end + by_s
        return differ(rate, known) or (late and (rest > 0 or bool(lane.hand)))
