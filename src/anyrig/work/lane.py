"""One worker, as a plan sees it: what it holds, how fast it is, how long it will be busy."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from anyrig.work.pack import Budget, Item

T = TypeVar("T")
_RECENT = 8
_LATER, _OVERDUE = 5.0, 0.25
"""One that is late will need so many times as long again, up to a share of the whole."""


@dataclass(eq=False)
class Lane(Generic[T]):
    """One worker, as the plan sees it."""

    number: int
    prior: float | None = None
    """A measured speed of its device, in any unit that all lanes share."""
    budget: Budget = field(default_factory=lambda: Budget(0.0, 1))
    """What one call of its engine may hold, as the worker last said."""
    hand: dict[int, Item[T]] = field(default_factory=dict)
    """What it was given and has not brought back."""
    alone: bool = False
    """Whether the hand is a suspect that must not have company."""
    leaving: bool = False
    """Whether it finishes what it has and takes nothing new."""
    since: float = 0.0
    """When it began with the first of its hand."""
    rate: float | None = None
    """Cost a second; None before the first result."""
    _recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    _num_calls: int = 0

    @property
    def held(self) -> float:
        """The cost of its hand."""
        return sum(item.cost for item in self.hand.values())

    def learn(self, cost: float, seconds: float) -> None:
        """A call of this real cost took so long."""
        if not cost > 0:
            return
        self._recent.append((cost, max(seconds, 1e-9)))
        self._num_calls += 1
        recent = list(self._recent)
        if 1 < self._num_calls <= _RECENT:
            recent = recent[1:]  # the first call also loads kernels
        self.rate = sum(cost for cost, _ in recent) / sum(took for _, took in recent)

    def left_s(self, now: float, rate: float) -> float:
        """How long it will be busy; one that is late is taken to be late by a while more."""
        if not self.hand:
            return 0.0
        elapsed = now - self.since
        left = self.held / rate - elapsed
        return left if left >= 0 else min(_LATER * -left, _OVERDUE * elapsed)
