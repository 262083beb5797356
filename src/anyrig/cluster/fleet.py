"""The workers of a cluster as a crew: a studio that stands on it needs to know nothing else.

    fleet = Fleet(link, offer, precision="fp32", options=options)
    for outcome in fleet.run(lines, cost=lambda line: line.cost): ...

The plan of `work` decides who gets what: shards of a second or so by each worker's measured speed,
one ready beside the one at work, near the end nothing to whoever could not finish it in time, and
what is late given to another as well. Workers come and go meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from anyrig.cluster.calls import Calls
from anyrig.cluster.card import Offer
from anyrig.cluster.hands import Hands
from anyrig.cluster.link import Link
from anyrig.speech.protocol import Value
from anyrig.work.pool import WorkerPool
from anyrig.work.scheduler import Scheduler

if TYPE_CHECKING:
    from anyrig.cluster.review import Review

SLICE_S = 1.0
"""What a worker is given at once; an order and its answer cost about 10 ms."""
LOW_S = 0.2


class Fleet(WorkerPool):
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
        self._calls = Calls(
            link, offer, precision=precision, options=options or {}, lane=lane, small=small
        )
        self._link = link
        self._hands = Hands(self._calls, patience_s=patience_s, review=review)
        super().__init__(
            self._hands,
            scheduler=partial(Scheduler, slice_s=slice_s, low_s=LOW_S, known_speeds=True),
        )

    @property
    def on_distrust(self) -> Callable[[str], int]:
        """Told the name of a worker whose takes are wrong; drops them, and counts."""
        return self._hands.on_distrust

    @on_distrust.setter
    def on_distrust(self, told: Callable[[str], int]) -> None:
        self._hands.on_distrust = told

    def close(self) -> None:
        """Let everybody go; what is still asked for is wanted no more."""
        super().close()
        self._calls.close()
        self._link.close()
