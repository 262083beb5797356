"""Turns of clients: in a queue, and for threads that compute."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")
_MAX_REMEMBERED = 1000
"""Clients without waiting items whose service is remembered before old ones are forgotten."""


class FairQueue(Generic[T]):
    """Items of several clients. The next one is of the client that was served least since it has
    had items, by cost; of this client it is the one with the lowest priority, then the oldest.

    It is start-time fair queueing: a client that comes later starts at the present level, so that
    nobody saves up turns, and nobody waits for more than one item of each other client.
    """

    def __init__(self) -> None:
        self._items: dict[str, list[tuple[float, int, float, T]]] = {}
        """By client, a heap of priority, number, cost and item; none of them is empty."""
        self._served: dict[str, float] = {}
        """By client: cost of what was taken, counted from the level at which it came."""
        self._level = 0.0
        self._number = 0

    def push(self, item: T, *, client: str = "", priority: float = 0.0, cost: float = 1.0) -> None:
        if client not in self._items:
            self._items[client] = []
            self._served[client] = max(self._level, self._served.get(client, 0.0))
        heapq.heappush(self._items[client], (priority, self._number, cost, item))
        self._number += 1

    def pop(self) -> T:
        """Take the next item; `IndexError` if there is none."""
        if not self._items:
            raise IndexError("the queue is empty")
        client = min(self._items, key=lambda one: (self._served[one], self._items[one][0][1]))
        _, _, cost, item = heapq.heappop(self._items[client])
        self._level = self._served[client]
        self._served[client] += cost
        self._drop_empty()
        return item

    def refund(self, client: str, cost: float) -> None:
        """Do not count an item that was taken and not needed."""
        if client in self._served:
            self._served[client] -= cost

    def remove(self, items: Collection[T]) -> None:
        for heap in self._items.values():
            heap[:] = [entry for entry in heap if entry[3] not in items]
            heapq.heapify(heap)
        self._drop_empty()

    def clear(self) -> None:
        self._items.clear()

    def __len__(self) -> int:
        return sum(map(len, self._items.values()))

    def __iter__(self) -> Iterator[T]:
        return (entry[3] for heap in self._items.values() for entry in heap)

    def _drop_empty(self) -> None:
        self._items = {client: heap for client, heap in self._items.items() if heap}
        if len(self._served) > len(self._items) + _MAX_REMEMBERED:
            self._served = {
                client: served
                for client, served in self._served.items()
                if client in self._items or served > self._level
            }


class FairSlots:
    """A number of slots for threads that compute: clients take turns, and whoever holds a slot for
    long gives way to others at each of its steps.
    """

    def __init__(self, num_slots: int) -> None:
        self._lock = threading.Lock()
        self._num_free = num_slots
        self._waiting: FairQueue[threading.Event] = FairQueue()

    @contextmanager
    def hold(self, client: str = "", priority: float = 0.0) -> Iterator[Callable[[], None]]:
        """Hold a slot; call what it yields at each step: it may wait for others.

        Args:
            client: for whom it is.
            priority: lower ones of a client come first.
        """

        def give_way() -> None:
            with self._lock:
                if not self._waiting:
                    return
                turn = threading.Event()
                self._waiting.push(turn, client=client, priority=priority)
                self._waiting.pop().set()  # may be the same
            turn.wait()

        turn = threading.Event()
        with self._lock:
            self._waiting.push(turn, client=client, priority=priority)
            if self._num_free:
                self._num_free -= 1
                self._waiting.pop().set()
        turn.wait()
        try:
            yield give_way
        finally:
            with self._lock:
                if self._waiting:
                    self._waiting.pop().set()
                else:
                    self._num_free += 1
