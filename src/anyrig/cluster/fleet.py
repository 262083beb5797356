"""The workers of a cluster as a crew: a studio that stands on it needs to know nothing else.

    fleet = Fleet(link, offer, precision="fp32", options=options)
    for outcome in fleet.run(lines, cost=lambda line: line.cost): ...

The plan of `work` decides who gets what: shards of a second or so by each worker's measured speed,
one ready beside the one at work, near the end nothing to whoever could not finish it in time, and
what is late given to another as well. Workers come and go meanwhile.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from anyrig.cluster.calls import Calls
from anyrig.cluster.card import Offer
from anyrig.cluster.hands import Hands
from anyrig.cluster.link import Link
from anyrig.speech.protocol import Value
from anyrig.work.dispatch import Dispatcher
from anyrig.work.outcome import ItemOutcome, RunReport
from anyrig.work.protocol import WorkerEvent, WorkerStatus
from anyrig.work.scheduler import Scheduler

if TYPE_CHECKING:
    from anyrig.cluster.review import Review

log = logging.getLogger(__name__)
T = TypeVar("T")
SLICE_S = 1.0
"""What a worker is given at once; an order and its answer cost about 10 ms."""
LOW_S = 0.2
_LEAST_AHEAD, _AHEAD = 512, 64
"""Lines that are under way at least, and for each worker: takes of as many may wait in memory."""


class Fleet:
    """Everybody who has the same engine, to the byte.

    Args:
        link: to the broker.
        offer: the engine; only workers whose own is equal are given anything.
        precision: the class of number format that takes are kept under.
        options: of the engine.
        lane: `live` where somebody listens.
        patience_s: how long nobody may be there before a run gives up.
        small: whether takes travel as FLAC.
        slice_s: how long what a worker is given at once takes it.
        review: looks at takes before they count; closed with this.
    """

    def __init__(
        self,
        link: Link,
        offer: Offer,
        *,
        precision: str = "fp32",
        options: Mapping[str, Value] | None = None,
        lane: str = "bulk",
        patience_s: float = 60.0,
        small: bool = True,
        slice_s: float = SLICE_S,
        review: Review | None = None,
    ) -> None:
        self._events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()
        self._slice_s = slice_s
        self._calls = Calls(
            link, offer, precision=precision, options=options or {}, lane=lane, small=small
        )
        self._link = link
        self._hands = Hands(self._calls, self._events, patience_s=patience_s, review=review)
        self._dispatcher = Dispatcher(self._hands, self._events, "fleet")
        self._hands.start()

    @property
    def warnings(self) -> list[str]:
        """What went wrong so far, for the person."""
        return self._hands.warnings

    @property
    def on_distrust(self) -> Callable[[str], int]:
        """Told the name of a worker whose takes are wrong; drops them, and counts."""
        return self._hands.on_distrust

    @on_distrust.setter
    def on_distrust(self, told: Callable[[str], int]) -> None:
        self._hands.on_distrust = told

    @property
    def size(self) -> int:
        """How many workers there are."""
        return self._hands.size

    def workers(self) -> tuple[WorkerStatus, ...]:
        """None of them is a process of this machine that could be looked at."""
        return ()

    def wait_ready(self) -> None:
        """Wait until somebody is there who can do it."""
        self._hands.wait()

    def run(
        self,
        payloads: Iterable[T],
        *,
        cost: Callable[[T], float],
        look_ahead: int = 0,
        report: RunReport | None = None,
        on_outcome: Callable[[ItemOutcome[Any]], None] | None = None,
        ordered: bool = True,
    ) -> Iterator[ItemOutcome[Any]]:
        """An outcome for every line; see `Pool.run`."""
        return self._dispatcher.run(
            payloads,
            cost=cost,
            look_ahead=lambda: max(look_ahead, _LEAST_AHEAD, _AHEAD * self.size),
            report=report,
            on_outcome=on_outcome,
            ordered=ordered,
            on_end=self._calls.over,
            scheduler=Scheduler(slice_s=self._slice_s, low_s=LOW_S, known_speeds=True),
        )

    def close(self) -> None:
        """Let everybody go; what is still asked for is wanted no more."""
        self._dispatcher.close()
        self._hands.close()
        self._calls.close()
        self._link.close()
