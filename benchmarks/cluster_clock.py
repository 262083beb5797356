"""The clock of a simulated room: events in order, and what a shift waits for and takes from."""

from __future__ import annotations

import heapq
import itertools
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anyrig.work.batching import WorkItem
from anyrig.work.protocol import WorkerEvent


class Timeline:
    """Events in the order of their moments; nothing waits for real."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._ticket = itertools.count()
        self.num_events = 0

    def at(self, moment: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (max(moment, self.now), next(self._ticket), what))

    def step(self, until: float) -> bool:
        """The next event up to a moment; whether there was one."""
        if not self._heap or self._heap[0][0] > until:
            self.now = until
            return False
        self.now, _, what = heapq.heappop(self._heap)
        self.num_events += 1
        what()
        return True


class Events:
    """Where the shift waits: the clock goes on until something is said."""

    def __init__(self, line: Timeline, give_up_s: float) -> None:
        self._line, self._said, self._give_up_s = line, list[WorkerEvent](), give_up_s

    def put(self, said: WorkerEvent) -> None:
        self._said.append(said)

    def get(self, timeout: float) -> WorkerEvent:
        until = self._line.now + timeout
        while not self._said:
            if not self._line.step(until):
                assert self._line.now < self._give_up_s, "this does not come to an end"
                raise queue.Empty
        return self._said.pop(0)

    def get_nowait(self) -> WorkerEvent:
        if not self._said:
            raise queue.Empty
        return self._said.pop(0)


class Stream:
    """Items that come at their moments, in the place of a source."""

    def __init__(self, line: Timeline, costs: Sequence[float], comes: Sequence[float]) -> None:
        self._line, self.first, self.error = line, 0, None
        self._left = [(when, WorkItem(n, None, cost))
                      for n, (when, cost) in enumerate(zip(comes, costs, strict=True))]  # fmt: skip
        self._left.reverse()

    @property
    def ended(self) -> bool:
        return not self._left

    def take(self, *, wait: bool) -> Iterator[WorkItem[Any]]:
        while self._left and self._left[-1][0] <= self._line.now:
            yield self._left.pop()[1]
