"""When fp16 keeps overflowing: the rule by which training gives it up for another format.

`autocast.DynamicPrecision` applies it. Weights and optimizer state are fp32 under autocast, so the
switch changes only the dtype of the forward pass and whether the loss is scaled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from anyrig.devices.machine import Precision
from anyrig.errors import InvalidSettingError


@dataclass(frozen=True)
class FallbackSettings:
    """When fp16 is given up."""

    window: int = 100
    """Number of recent steps that are considered."""
    most_skipped: int = 25
    """Skipped steps in the window that are too many. From 2^16 to the floor takes 17 at most."""
    at_floor: int = 3
    """Skipped steps in a row at the lowest scale: scaling cannot help any more."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidSettingError(
                    f"{name} is {value!r}", hint="It must be a whole number above 0."
                )
        if self.most_skipped > self.window:
            raise InvalidSettingError(
                f"most_skipped is {self.most_skipped}, more than the window of {self.window} steps",
                hint="fp16 would never be given up. Use a smaller value.",
            )


class FallbackEvent(NamedTuple):
    """Training switched to another format."""

    step: int
    """Steps attempted before it."""
    before: Precision
    after: Precision
    reason: str


class OverflowCounter:
    """Counts skipped steps, and decides when there are too many."""

    def __init__(self, settings: FallbackSettings, floor: float) -> None:
        self._settings = settings
        self._floor = floor
        self.recent: deque[bool] = deque(maxlen=settings.window)
        self.at_floor = 0

    def record(self, skipped: bool, scale: float) -> str | None:
        """Count a step; the reason to give fp16 up, if there is one."""
        self.recent.append(skipped)
        self.at_floor = self.at_floor + 1 if skipped and scale <= self._floor else 0
        if self.at_floor >= self._settings.at_floor:
            floor = f"{self._floor:g}"
            return f"{self.at_floor} steps in a row overflowed at the lowest loss scale, {floor}"
        num_skipped = sum(self.recent)
        if num_skipped >= self._settings.most_skipped:
            return f"{num_skipped} of the last {len(self.recent)} steps overflowed"
        return None

    def restore(self, recent: Sequence[bool], at_floor: int) -> None:
        self.recent = deque(recent, maxlen=self._settings.window)
        self.at_floor = at_floor
