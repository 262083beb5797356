"""Items with a cost into batches under a budget: sorted by length, so that little is padded.

A batch is computed as a rectangle: every item is padded to the longest one, so it costs the number
of its items times the cost of the longest. A batch is closed before it is full when padding would
cost more than another call does (`Budget.call_cost`). Items may arrive as a stream: a bounded
number of them waits, and the next batch is the oldest item with its neighbours in length, so that
nothing waits for ever.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from anyrig.errors import InvalidInputError

T = TypeVar("T")
LOOK_AHEAD = 4096
"""How many items of a stream may wait. Texts of a megabyte in all; a second of tokenising."""
PADDING = 0.04
"""The share of padding that is always allowed; calls are never free."""


@dataclass(frozen=True)
class Item(Generic[T]):
    """One piece of work: what it is, where it stood in the input, what it costs."""

    index: int
    payload: T
    cost: float
    """In the engine's own unit: tokens, characters, pixels."""


@dataclass(frozen=True)
class Budget:
    """How much may go into one batch."""

    cost: float
    """Of the padded rectangle. An item that costs more goes alone."""
    items: int = 1 << 30
    call_cost: float = 0.0
    """What one more call costs, in the items' unit: measured, see `Pace`."""
    pads: bool = True
    """Whether the engine pads; one that takes items as they are pays the sum."""


@dataclass(frozen=True)
class Batch(Generic[T]):
    """Items that are computed in one call."""

    items: tuple[Item[T], ...]
    pads: bool = True

    @property
    def indices(self) -> tuple[int, ...]:
        """Which items they are."""
        return tuple(item.index for item in self.items)

    @property
    def real_cost(self) -> float:
        """The sum of the items' own costs."""
        return sum(item.cost for item in self.items)

    @property
    def cost(self) -> float:
        """What is computed, padding included."""
        if not self.pads:
            return self.real_cost
        return len(self.items) * max(item.cost for item in self.items)

    def halves(self) -> tuple[Batch[T], Batch[T]]:
        """Two batches of half the items, the shorter items first."""
        ordered = tuple(sorted(self.items, key=lambda item: item.cost))
        middle = (len(ordered) + 1) // 2
        return Batch(ordered[:middle], self.pads), Batch(ordered[middle:], self.pads)


def numbered(
    payloads: Iterable[T], cost: Callable[[T], float], first: int = 0
) -> Iterator[Item[T]]:
    """Items in the order of the input, each with its cost, which must be a positive number."""
    for index, payload in enumerate(payloads, first):
        value = float(cost(payload))
        if not 0 <= value < float("inf"):
            raise InvalidInputError(
                f"item {index - first} has the cost {value}", hint="A cost is a number from 0 up."
            )
        yield Item(index, payload, max(value, 1e-9))


class Packer(Generic[T]):
    """Items that wait, in order of cost and in order of age."""

    def __init__(self) -> None:
        self._sorted: list[tuple[float, int]] = []
        self._waiting: dict[int, Item[T]] = {}  # in order of age
        self._total = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, index: int) -> bool:
        return index in self._waiting

    @property
    def total_cost(self) -> float:
        """The sum of what waits."""
        return self._total

    def sorted(self) -> list[tuple[float, int]]:
        """Cost and index of what waits, the cheapest first."""
        return self._sorted

    def add(self, item: Item[T]) -> None:
        """One more item waits."""
        bisect.insort(self._sorted, (item.cost, item.index))
        self._waiting[item.index] = item
        self._total += item.cost

    def oldest(self) -> Item[T]:
        """The item that has waited longest."""
        return next(iter(self._waiting.values()))

    def dearest(self, at_most: float = float("inf")) -> Item[T] | None:
        """The dearest item that costs no more than `at_most`."""
        place = bisect.bisect_right(self._sorted, (at_most, 1 << 62))
        return self._waiting[self._sorted[place - 1][1]] if place else None

    def cheapest(self) -> Item[T]:
        """The item that costs least."""
        return self._waiting[self._sorted[0][1]]

    def take(self, first: Item[T], budget: Budget) -> Batch[T]:
        """A batch of an item and its neighbours in cost; they wait no more."""
        low, high = self._reach(first, budget)
        chosen = [self._waiting.pop(index) for _, index in self._sorted[low:high]]
        del self._sorted[low:high]
        self._total -= sum(item.cost for item in chosen)
        return Batch(tuple(chosen), budget.pads)

    def remove(self, index: int) -> Item[T]:
        """One item waits no more."""
        item = self._waiting.pop(index)
        del self._sorted[bisect.bisect_left(self._sorted, (item.cost, index))]
        self._total -= item.cost
        return item

    def _reach(self, first: Item[T], budget: Budget) -> tuple[int, int]:
        """The stretch of neighbours that belong into one batch with an item.

        It grows on the side where the next item is nearer in cost, until the budget is full or
        padding has grown dearer than a call.
        """
        low = bisect.bisect_left(self._sorted, (first.cost, first.index))
        high, real, longest = low + 1, first.cost, first.cost
        while high - low < budget.items:
            below = self._sorted[low - 1][0] if low else None
            above = self._sorted[high][0] if high < len(self._sorted) else None
            if below is None and above is None:
                break
            up = below is None or (above is not None and above - longest <= first.cost - below)
            added = above if up else below
            assert added is not None
            top = max(longest, added)
            if not _fits(high - low + 1, top, real + added, budget):
                break
            real, longest = real + added, top
            low, high = (low, high + 1) if up else (low - 1, high)
        return low, high


def _fits(count: int, longest: float, real: float, budget: Budget) -> bool:
    if not budget.pads:
        return real <= budget.cost
    padded = count * longest
    allowed = max(budget.call_cost, PADDING * real)
    return padded <= budget.cost and padded - real <= allowed


def pack(
    items: Iterable[Item[T]], budget: Budget, *, look_ahead: int = LOOK_AHEAD
) -> Iterator[Batch[T]]:
    """Batches of a stream, each around the item that has waited longest.

    Args:
        items: as they come; no more than `look_ahead` of them wait.
        budget: how much goes into one batch.
        look_ahead: more pads less and answers later.
    """
    packer: Packer[T] = Packer()
    for item in items:
        packer.add(item)
        if len(packer) >= look_ahead:
            yield packer.take(packer.oldest(), budget)
    while len(packer):
        yield packer.take(packer.oldest(), budget)
