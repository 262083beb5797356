"""How often somebody may do something, and the response to whoever does it more often."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from anyrig.server.errors import Problem

_MAX_BUCKETS = 4096


class RateLimiter:
    """Token buckets by name, refilled evenly; the ones unused for longest are dropped.

    Used on the event loop only.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, per_minute: int) -> int:
        """Take a token: 0, or the number of seconds until there is one."""
        level = self._find_level(name, per_minute)
        if level < 1:
            return max(1, math.ceil((1 - level) * 60 / per_minute))
        self._buckets[name] = (level - 1, self._clock())
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return 0

    def wait(self, name: str, per_minute: int) -> int:
        """What `take` would answer, without taking."""
        level = self._find_level(name, per_minute)
        return 0 if level >= 1 else max(1, math.ceil((1 - level) * 60 / per_minute))

    def _find_level(self, name: str, per_minute: int) -> float:
        now = self._clock()
        level, then = self._buckets.get(name, (float(per_minute), now))
        return min(per_minute, level + (now - then) * per_minute / 60)


def too_many_requests(title: str, wait_s: int) -> Problem:
    headers = {"Retry-After": str(wait_s)}
    return Problem(429, title, hint=f"Try again in {wait_s} s.", headers=headers)
