"""How often somebody may come: a bucket of tokens for each, filled at an even pace."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

_MOST = 4096


class Buckets:
    """Those of many, by name; the ones that were not seen for the longest are forgotten.

    They are touched on the event loop alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, per_minute: int) -> int:
        """Take a token: 0, or after how many seconds there will be one."""
        level = self._level(name, per_minute)
        if level < 1:
            return max(1, math.ceil((1 - level) * 60 / per_minute))
        self._levels[name] = (level - 1, self._clock())
        self._levels.move_to_end(name)
        if len(self._levels) > _MOST:
            self._levels.popitem(last=False)
        return 0

    def wait(self, name: str, per_minute: int) -> int:
        """As `take`, without taking."""
        level = self._level(name, per_minute)
        return 0 if level >= 1 else max(1, math.ceil((1 - level) * 60 / per_minute))

    def _level(self, name: str, per_minute: int) -> float:
        now = self._clock()
        level, then = self._levels.get(name, (float(per_minute), now))
        return min(per_minute, level + (now - then) * per_minute / 60)
