"""All items assigned to workers of unequal speed at once, so that the last one ends early.

An end is guessed, and every worker filled up to it with the most expensive items that still fit,
the slowest worker first: its capacity is the hardest to fill; the fastest takes what is left over
with the least harm. The earliest end by which everything found its place counts. A slow worker
gets small items only, where that costs little: what it does not finish in time, a fast one does
again. Where there is little to assign, the usual list (the most expensive first, each where it is
finished first) is tried as well.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

_MAX_LISTED = 20_000
"""Items times workers up to which the list is tried as well."""
_GUESSES = (1e-12, 0.0002, 0.001, 0.004, 0.015, 0.06, 0.25, 1.0, 4.0)
"""How much later than the lower bound the end is guessed to be, in turn."""
_HALVINGS = 3
_MIN_PIECES, _PIECES_COST = 8.0, 0.01
"""A slow worker gets at least so many items, unless that costs more than this share."""
_ROUNDING = 1 - 1e-9
"""Sums of the same numbers in another order differ by less."""
_MAX_ASSIGNED = 400_000
"""So many items are assigned in all while the best is searched: about half a second."""


class Slot(NamedTuple):
    """A worker, as far as an assignment needs to know it."""

    number: int
    free_s: float
    """When it is free, from now on."""
    rate: float
    """Cost per second."""


class Assignment(NamedTuple):
    end_s: float
    """When the last item is finished, from now on."""
    positions: dict[int, list[int]]
    """By worker: positions in the list of costs, the most expensive first."""


def lower_bound_s(slots: Sequence[Slot], cost: float) -> float:
    """When they would have finished so much, shared without loss."""
    starts = sorted((slot.free_s, slot.rate) for slot in slots)
    total, moment = 0.0, 0.0
    for position, (start, rate) in enumerate(starts):
        total += rate
        following = starts[position + 1][0] if position + 1 < len(starts) else math.inf
        moment = max(start, 0.0)
        capacity = total * (following - start)
        if capacity >= cost:
            return moment + cost / total
        cost -= capacity
    return moment


def assign_items(
    costs: Sequence[float], slots: Sequence[Slot], *, margin: float = 0.0
) -> Assignment:
    """An assignment that ends early.

    Args:
        costs: of all items, the cheapest first.
        slots: at least one.
        margin: share of its most expensive item's time that a worker keeps free.
    """
    total = sum(costs)
    slowest_first = sorted(slots, key=lambda slot: (slot.rate, slot.number))
    found = _search(costs, slowest_first, total, _MIN_PIECES, margin)
    near = 1.0 + _PIECES_COST + margin / 5
    if found is None or found.end_s > near * _minimum_s(costs, slots, total):
        plain = _search(costs, slowest_first, total, 0.0, margin)
        if found is None or (plain is not None and found.end_s > near * plain.end_s):
            found = plain
    if len(costs) * len(slots) <= _MAX_LISTED:
        greedy = assign_greedily(costs, slots)
        if found is None or greedy.end_s < found.end_s:
            return greedy
    assert found is not None
    return found


def assign_best(costs: Sequence[float], slots: Sequence[Slot], *, at_least: int = 1) -> Assignment:
    """The best for the first worker, the first two, and so on: never later for one more.

    Args:
        costs: of all items, the cheapest first.
        slots: in the order in which they came.
        at_least: how many of them are always included.
    """
    total, left = sum(costs), float(_MAX_ASSIGNED)
    found: Assignment | None = None
    for count in range(len(slots), at_least - 1, -1):
        some = slots[:count]
        if found is not None and (
            left < 0 or _minimum_s(costs, some, total) >= found.end_s * _ROUNDING
        ):
            break
        tried = assign_items(costs, some)
        left -= 5 * (len(costs) + count)
        if found is None or tried.end_s < found.end_s:
            found = tried
    assert found is not None
    return found


def _minimum_s(costs: Sequence[float], slots: Sequence[Slot], total: float) -> float:
    soonest = min(slot.free_s + costs[-1] / slot.rate for slot in slots) if costs else 0.0
    return max(lower_bound_s(slots, total), soonest)


def _search(
    costs: Sequence[float], slots: Sequence[Slot], total: float, pieces: float, margin: float
) -> Assignment | None:
    """The earliest end that is found by guesses, later and later and then between the last two."""
    low = _minimum_s(costs, slots, total)
    found: Assignment | None = None
    before = low
    for step in (*_GUESSES, *(16.0 * 4**n for n in range(20))):
        guess = low * (1 + step)
        found = _fill(costs, slots, guess, total, pieces, margin)
        if found is not None:
            break
        before = guess
    if found is None:
        return None
    for _ in range(_HALVINGS):
        guess = (before + found.end_s) / 2
        tried = _fill(costs, slots, guess, total, pieces, margin)
        if tried is None or tried.end_s >= found.end_s:
            before = guess
        else:
            found = tried
    return found


def _fill(
    costs: Sequence[float],
    slots: Sequence[Slot],
    end_s: float,
    total: float,
    pieces: float,
    margin: float,
) -> Assignment | None:
    """Fill every worker, one after the other, up to a moment; None if not all items fit.

    With `pieces`, a slower worker gets nothing that costs more than such a part of its capacity.
    """
    fast = slots[-1].rate / 2 if pieces else 0.0
    typical = costs[len(costs) // 4]
    spare = sum(slot.rate * (end_s - slot.free_s) for slot in slots if slot.free_s < end_s) - total
    tiny = 1e-9 * total
    below = list(range(len(costs) + 1))
    """The nearest free position at or below one, counted from 1; 0 is none (union-find)."""
    positions: dict[int, list[int]] = {}
    latest, count = 0.0, 0
    for number, free_s, rate in slots:
        if free_s >= end_s:
            continue
        full = capacity = rate * (end_s - free_s)
        mine: list[int] = []
        most = capacity if rate >= fast else min(capacity, max(full / pieces, typical))
        first = 1 + margin  # the most expensive comes first
        position = bisect_right(costs, min(most, capacity / first))
        while position:
            root = position
            while below[root] != root:
                root = below[root]
            while below[position] != root:
                below[position], position = root, below[position]
            if not root:
                break
            capacity -= first * costs[root - 1]
            first = 1.0
            mine.append(root - 1)
            below[root] = position = root - 1
            if position and costs[position - 1] > capacity:
                position = bisect_right(costs, capacity, 0, position)
        unused = capacity + (margin * costs[mine[0]] if mine else 0.0)
        spare -= unused
        if spare < -tiny:
            return None
        if mine:
            positions[number] = mine
            count += len(mine)
            latest = max(latest, free_s + (full - unused) / rate)
    return Assignment(latest, positions) if count == len(costs) else None


def assign_greedily(costs: Sequence[float], slots: Sequence[Slot]) -> Assignment:
    """The most expensive first, each where it is finished first."""
    free = {slot.number: slot.free_s for slot in slots}
    rates = [(slot.number, slot.rate) for slot in slots]
    positions: dict[int, list[int]] = {}
    latest = 0.0
    for position in range(len(costs) - 1, -1, -1):
        cost = costs[position]
        done, number = min((free[number] + cost / rate, number) for number, rate in rates)
        free[number] = done
        positions.setdefault(number, []).append(position)
        latest = max(latest, done)
    return Assignment(latest, positions)
