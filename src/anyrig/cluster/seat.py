"""A worker of a cluster as a shift sees it: what it was sent, and what came of that."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from anyrig.cluster.calls import Calls, new_id
from anyrig.cluster.card import Card
from anyrig.cluster.link import LONGEST_S
from anyrig.work.outcome import BatchStats
from anyrig.work.protocol import (
    BatchDone,
    Draining,
    EngineReady,
    ItemsReturned,
    ItemsStarted,
    WorkerEvent,
    WorkerExited,
)

if TYPE_CHECKING:
    from anyrig.cluster.shard import Answer
    from anyrig.work.batching import WorkItem
    from anyrig.work.protocol import WorkerSource

AGAIN = "takes its seat again"
"""In the place of how a worker ended: it did not, and nobody is to blame."""


@dataclass
class _Shard:
    indices: tuple[int, ...]
    open: set[int]
    """Those that nobody else has brought meanwhile."""
    dropped_at: float | None = None
    """Since when nobody wants it; its worker has not said yet that it knows."""


@dataclass(eq=False)
class Seat:
    """One worker. The shift gives and drops, the listening thread hears: both under one lock."""

    source: WorkerSource
    number: int
    card: Card
    calls: Calls
    events: queue.SimpleQueue[Any]
    confirm_errors: ClassVar[bool] = True
    """A machine may be at fault where an item seems to be: its disk is full, say."""
    missing_since: float | None = None
    """When the broker had no sign of it for the first time."""
    closed: bool = False
    leaving: bool = False
    """Whether it finishes what it has, and is given nothing new."""
    _shards: dict[str, _Shard] = field(default_factory=dict)
    """What it was sent and has not answered, in the order it was sent."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def device(self) -> str:
        """Deaths are counted by the worker's name."""
        return self.card.name

    @property
    def title(self) -> str:
        """The worker, with what it computes on."""
        return f"{self.card.name} ({self.card.device})"

    @property
    def idle(self) -> bool:
        """Whether it has nothing."""
        with self._lock:
            return not self._shards

    @property
    def at_it(self) -> bool:
        """Whether it says itself that it has a shard, and no shard takes too long."""
        with self._lock:
            since = [self.calls.sent_at(id) for id in self._shards if id in self.card.holds]
        return bool(since) and time.monotonic() - min(since) < 2 * LONGEST_S

    @property
    def last_heartbeat(self) -> float | None:
        """Now, where it says itself that it is at work; None where it has not said so."""
        return time.monotonic() if self.at_it else None

    def knows(self, id: str) -> bool:
        """Whether a shard was sent there and not answered."""
        return id in self._shards

    def take(self) -> None:
        """The seat is taken: from now on it can be given something."""
        self._say(EngineReady(0.0))

    # -- the shift's side ------------------------------------------------------------------------

    def send_items(self, items: Sequence[WorkItem[Any]]) -> list[tuple[int, str]]:
        """Send a shard."""
        indices = tuple(item.index for item in items)
        with self._lock:
            if self.closed or self.leaving:  # it is about to be told to the shift
                self._say(ItemsReturned(indices))
                return []
            if not self._shards:
                self._say(ItemsStarted(indices))
            id = new_id()
            self._shards[id] = _Shard(indices, set(indices))
            self.calls.send(id, self.number, self.card, items)
        return []

    def cancel_items(self, indices: Sequence[int]) -> None:
        """What is done elsewhere; a shard of which nothing is left is taken back.

        Its worker is busy with it until it says otherwise: a line that is at work is finished.
        """
        with self._lock:
            for id, shard in self._shards.items():
                shard.open.difference_update(indices)
                if not shard.open and shard.dropped_at is None:
                    shard.dropped_at = time.monotonic()
                    self.calls.forget(id)

    def leave(self) -> None:
        """From now on it is given nothing new."""
        with self._lock:
            if not self.leaving:
                self.leaving = True
                self._say(Draining())

    def stop(self) -> None:
        """Take everything back; the worker itself goes on for others."""
        self.end("did not get anything done")

    def end(self, said: str) -> bool:
        """Give the seat up; whether it was not before."""
        with self._lock:
            if self.closed:
                return False
            self.closed = True
            for id in self._shards:
                self.calls.forget(id)
            if said == AGAIN:
                for shard in self._shards.values():
                    self._say(ItemsReturned(shard.indices))
                self._say(ItemsStarted(()))
            self.calls.withdraw(self.card.queue, list(self._shards))
            self._shards.clear()
            self._say(WorkerExited(said, crashed=said != AGAIN))
            return True

    # -- the listening side ----------------------------------------------------------------------

    def answered(self, id: str, answer: Answer | None) -> bool:
        """What came of a shard; whether anything did. None, or what is left of it, is given again.

        Said under the lock, so that what the worker turns to next is told in the right order.
        """
        with self._lock:
            shard = self._shards.pop(id, None)
            if shard is None:
                return False
            brought: set[int] = set()
            if answer is not None:
                brought = {*answer.recordings, *answer.failures}.intersection(shard.indices)
            if answer is not None and brought:
                self._say(_done(answer, brought, self._at_work))
            if left := tuple(one for one in shard.indices if one not in brought):
                self._say(ItemsReturned(left))
                self._say(ItemsStarted(self._at_work))
            return bool(brought)

    def unheard(self, now: float, after_s: float) -> list[str]:
        """Shards that must have been with the worker for so long, and that it does not know."""
        with self._lock:
            found = []
            for id, shard in self._shards.items():
                since = shard.dropped_at if shard.dropped_at is not None else self.calls.sent_at(id)
                if now - since > after_s and id not in self.card.holds:
                    found.append(id)
            return found

    @property
    def _at_work(self) -> tuple[int, ...]:
        """What it computes now: the first shard that it was sent."""
        return next((shard.indices for shard in self._shards.values()), ())

    def _say(self, message: Any) -> None:
        self.events.put(WorkerEvent(self, message))


def _done(answer: Answer, brought: set[int], begun: tuple[int, ...]) -> BatchDone:
    results = tuple((n, one) for n, one in answer.recordings.items() if n in brought)
    failures = tuple((n, one) for n, one in answer.failures.items() if n in brought)
    stats = BatchStats(
        answer.num_batches, answer.cost, answer.cost, answer.seconds, answer.num_out_of_memory
    )
    return BatchDone(results, failures, begun, stats)
