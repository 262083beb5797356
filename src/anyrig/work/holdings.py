"""What waits and who holds what: the books of a plan. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from anyrig.work.lane import Lane
from anyrig.work.pack import Item, Packer

T = TypeVar("T")


class Holdings(Generic[T]):
    """Items that wait, and those that workers hold; some are held by several."""

    def __init__(self) -> None:
        self.waiting: Packer[T] = Packer()
        self.lanes: dict[int, Lane[T]] = {}
        self._done: set[int] = set()
        """Items that are done and still held by a slower worker."""
        self._copies: dict[int, tuple[int, float]] = {}
        """By item: who does it as well, and when that is done."""
        self._holders: dict[int, list[Lane[T]]] = {}

    def add(self, item: Item[T]) -> None:
        """One more item waits."""
        self.waiting.add(item)

    def returned(self, lane: Lane[T], indices: Iterable[int], now: float) -> list[int]:
        """A worker brought items back; those that nobody brought before. Others drop theirs."""
        fresh = []
        for index in indices:
            self._let_go(lane, index)
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

    def dropped(self, lane: Lane[T], indices: Iterable[int], now: float) -> None:
        """A worker will not bring these."""
        for index in indices:
            if index == next(iter(lane.hand), None):
                lane.since = now  # it was at work on them
            self._let_go(lane, index)
            if not self.holders(index):
                self._done.discard(index)
        if not lane.hand:
            lane.alone = False

    def back(self, lane: Lane[T], indices: Iterable[int]) -> list[Item[T]]:
        """A worker gives these back undone: those that nobody has brought or holds any more."""
        undone = []
        for index in indices:
            item = self._let_go(lane, index)
            if self._copies.get(index, (None,))[0] == lane.number:
                del self._copies[index]
            if item is None or self.holders(index):
                continue
            if index not in self._done:
                undone.append(item)
            self._done.discard(index)
            self._copies.pop(index, None)
        if not lane.hand:
            lane.alone = False
        return undone

    def holders(self, index: int) -> list[Lane[T]]:
        """The workers that hold an item."""
        return [lane for lane in self._holders.get(index, ()) if index in lane.hand]

    def elsewhere(self, lane: Lane[T], indices: Iterable[int]) -> dict[int, list[int]]:
        """Which other workers hold items that are done now, and which: they may drop them."""
        found: dict[int, list[int]] = {}
        for index in indices:
            for other in self.holders(index):
                if other is not lane:
                    found.setdefault(other.number, []).append(index)
        return found

    def gone(self, lane: Lane[T]) -> list[Item[T]]:
        """A worker is no more: what it held, and nobody else holds, is still to be done."""
        self.lanes.pop(lane.number, None)
        orphans = []
        for item in list(lane.hand.values()):
            self._let_go(lane, item.index)
            if self.holders(item.index):
                continue  # and no other copy is made: one worker died of it
            if item.index not in self._done:
                orphans.append(item)
            self._done.discard(item.index)
            self._copies.pop(item.index, None)
        return orphans

    def give(self, lane: Lane[T], chosen: Sequence[Item[T]], now: float) -> None:
        """A worker has these from now on."""
        if chosen and not lane.hand:
            lane.since = now
        for item in chosen:
            lane.hand[item.index] = item
            self._holders.setdefault(item.index, []).append(lane)

    def _let_go(self, lane: Lane[T], index: int) -> Item[T] | None:
        held = self._holders.get(index)
        if held is not None:
            if lane in held:
                held.remove(lane)
            if not held:
                del self._holders[index]
        return lane.hand.pop(index, None)
