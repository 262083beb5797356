"""How much work of many texts goes into one slice, so that a single text need not wait long.

A slice that runs is not interrupted: a single text waits for one slice at most. While none came
for a while, slices take a quarter of a second, long enough for a device to be used well. Once one
came, they take no longer than one single text does, so that the next is answered within about twice
its time. Both are found by trying: a slice that took too long is followed by a smaller one.
"""

from __future__ import annotations

from typing import Literal

Lane = Literal["single", "bulk"]
"""Who waits: a person, or a job of many texts."""
CALM_S = 0.25
ALERT_FOR_S = 30.0
MOST_SINGLES = 64
"""Singles that are answered together at most."""
SINGLES_IN_A_ROW = 8
"""After so many slices of singles, those that wait in bulk get one."""
_EACH = 32
"""What a text costs beside its characters."""
_FIRST_CALM, _FIRST_ALERT, _MOST = 8_192.0, 512.0, 8_000_000.0
_LEAST_CALM = 4_096.0
"""A dozen short texts, however slow the device: one by one they would take far longer still."""


def cost(text: str) -> int:
    """About how much work a text is."""
    return len(text) + _EACH


class Pace:
    """What may go into a slice. Not for several threads at once.

    Args:
        calm_s: how long a slice may take while no single text comes.
        alert_for_s: how long after a single text the next one is expected.
        full: a slice of this cost is made hardly slower than a smaller one: none of many texts is
            smaller, and those of single texts are filled up to it with what waits in bulk.
    """

    def __init__(
        self, calm_s: float = CALM_S, alert_for_s: float = ALERT_FOR_S, full: float = 0.0
    ) -> None:
        self.full = full
        self._calm_s, self._alert_for_s = calm_s, alert_for_s
        self._calm, self._alert = max(_FIRST_CALM, full), max(_FIRST_ALERT, full)
        self._single_s: float | None = None
        self._alert_until = float("-inf")

    def budget(self, lane: Lane, now: float) -> float:
        """The cost of the next slice."""
        if lane == "single" or now >= self._alert_until:
            return self._calm
        return min(self._alert, self._calm)

    def came(self, now: float) -> None:
        """A single text came."""
        self._alert_until = now + self._alert_for_s

    def took(self, lane: Lane, size: float, seconds: float, now: float) -> None:
        """A slice of this cost took so long."""
        if lane == "single":
            old = seconds if self._single_s is None else self._single_s
            self._single_s = old + (seconds - old) * 0.2
        elif now >= self._alert_until:
            self._calm = max(_LEAST_CALM, self.full, _next(self._calm, size, seconds, self._calm_s))
        else:
            wanted = min(self._single_s or self._calm_s / 10, self._calm_s)
            self._alert = max(self.full, _next(self._alert, size, seconds, wanted))


def _next(budget: float, size: float, seconds: float, wanted_s: float) -> float:
    """The budget that would have taken as long as wanted, no more than twice or half of it."""
    if size < budget / 2 and seconds <= wanted_s:
        return budget  # little was waiting: it says nothing of a full slice
    step = min(2.0, max(0.5, wanted_s / max(seconds, 1e-6)))
    return min(_MOST, max(1.0, budget * step))
