"""What is usual: the median of the newest values, kept sorted so that asking costs nothing."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque


class Usual:
    """The newest so many finite values."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._newest: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, value: float) -> None:
        """One more; the oldest goes."""
        self._newest.append(value)
        insort(self._sorted, value)
        if len(self._sorted) > self._size:
            del self._sorted[bisect_left(self._sorted, self._newest.popleft())]

    def median(self) -> float:
        """The middle one; 0 of nothing."""
        return _middle(self._sorted)

    def spread(self) -> float:
        """A standard deviation that outliers do not move: from the median distance."""
        middle = self.median()
        return 1.4826 * _middle(sorted(abs(value - middle) for value in self._sorted))


def _middle(ordered: list[float]) -> float:
    half = len(ordered) // 2
    if not ordered:
        return 0.0
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
