"""What a run has told so far, in bounded memory: the newest whole, older ones thinned out."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

T = TypeVar("T")
_EVENTS = 2000


class Thinned(list[T]):
    """A list that stays below a length: older entries are halved, the newest quarter is whole.

    Args:
        most: how many it holds at most.
    """

    def __init__(self, most: int = 4096) -> None:
        super().__init__()
        self._most = max(8, most)

    def add(self, entry: T) -> None:
        """One more at the end. The very first always stays."""
        self.append(entry)
        if len(self) > self._most:
            old = len(self) - self._most // 4
            self[:old] = self[:old:2]


def newest(most: int = _EVENTS) -> deque[T]:
    """The newest so many."""
    return deque(maxlen=most)
