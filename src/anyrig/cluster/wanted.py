"""Whether a shard is still wanted, by what its run says in the broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.cluster.link import Link
    from anyrig.cluster.shard import Order

LOOK_S = 1.0
"""How often it is asked whether a shard is still wanted."""
_UNSURE_S = 30.0
"""A run whose keys are gone is believed to be over after this: the broker may have forgotten."""


class Wanted:
    """Whether a shard is still wanted; asked often, answered from memory for a second."""

    def __init__(self, link: Link, order: Order) -> None:
        self._link, self._order = link, order
        self._next, self._last = 0.0, True
        self._missing_since: float | None = None

    def now(self) -> bool:
        """By the broker; where that is away or has forgotten the run, yes for a while."""
        moment = time.monotonic()
        if moment < self._next:
            return self._last
        self._next = moment + LOOK_S
        try:
            self._last = self._asked(moment)
        except Exception:  # noqa: BLE001 - the broker is away: go on with what is at hand
            self._last = True
        return self._last

    def _asked(self, moment: float) -> bool:
        run, redis = self._order.run, self._link.redis
        pipe = redis.pipeline(transaction=False)
        pipe.exists(self._link.name("run", run, "over"))
        pipe.exists(self._link.name("run", run))
        pipe.sismember(self._link.name("run", run, "open"), self._order.id)
        over, alive, open = pipe.execute()
        if over:
            return False
        if alive:
            self._missing_since = None
            return bool(open)
        if self._missing_since is None:
            self._missing_since = moment
        return moment - self._missing_since < _UNSURE_S
