"""Whether a shard is still wanted, by what its run says in the broker."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.cluster.link import Link
    from anyrig.cluster.shard import Order

LOOK_S = 1.0
"""How often it is asked whether a shard is still wanted."""
_UNSURE_S = 30.0
"""A run whose keys are gone while its shard is at work is believed to be over after this."""
_GRACE_S = 3.0
"""The same before its shard has begun: a broker that was away has heard from its runs by then."""
_MOST_GONE = 256


class Wanted:
    """Whether a shard is still wanted; asked often, answered from memory for a second."""

    def __init__(self, link: Link, order: Order, gone: OrderedDict[str, None]) -> None:
        """Of one shard.

        Args:
            link: to the broker.
            order: the shard.
            gone: runs that are over; shared by all shards of a worker, as old messages of one run
                come together.
        """
        self._link, self._order, self._gone = link, order, gone
        self._next, self._last = 0.0, True
        self._missing_since: float | None = None

    def at_first(self) -> bool:
        """Before it is begun: a run that the broker does not know is given a moment, once."""
        end = time.monotonic() + (0.0 if self._order.run in self._gone else _GRACE_S)
        while (found := self.now(anew=True)) and self._missing_since is not None:
            if time.monotonic() >= end:
                self._gone[self._order.run] = None
                while len(self._gone) > _MOST_GONE:
                    self._gone.popitem(last=False)
                return False
            time.sleep(LOOK_S / 4)
        self._gone.pop(self._order.run, None)
        return found

    def now(self, *, anew: bool = False) -> bool:
        """By the broker; where that is away or has forgotten the run, yes for a while.

        Args:
            anew: ask, however short ago it was asked.
        """
        moment = time.monotonic()
        if moment < self._next and not anew:
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
