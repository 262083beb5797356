"""Settings of loss scaling in fp16, and of giving fp16 up. Nothing here loads torch."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from anyrig.errors import InvalidSettingError


@dataclass(frozen=True)
class ScalerSettings:
    """How the loss is scaled. Contradictory values are rejected."""

    initial: float = 2.0**16
    """The first scale."""
    growth: float = 2.0
    """Factor applied to the scale after `interval` good steps in a row."""
    backoff: float = 0.5
    """Factor applied to the scale after a skipped step, once the hysteresis is used up."""
    interval: int = 2000
    """Good steps in a row before the scale grows."""
    hysteresis: int = 2
    """Skipped steps before the scale backs off; 1 backs off at once."""
    floor: float = 1.0
    """The lowest scale."""
    ceiling: float = 2.0**24
    """The highest scale."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            whole = name in ("interval", "hysteresis")
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise _invalid_setting(name, value, "a whole number" if whole else "a number")
            if not math.isfinite(value) or value <= 0:
                raise _invalid_setting(name, value, "finite and above 0")
        if self.growth <= 1:
            raise _invalid_setting("growth", self.growth, "above 1")
        if self.backoff >= 1:
            raise _invalid_setting("backoff", self.backoff, "below 1")
        if not self.floor <= self.initial <= self.ceiling:
            limits = f"between floor {self.floor:g} and ceiling {self.ceiling:g}"
            raise _invalid_setting("initial", self.initial, limits)


def _invalid_setting(name: str, value: object, must: str) -> InvalidSettingError:
    return InvalidSettingError(
        f"invalid loss scaler setting: {name} = {value!r}", hint=f"It must be {must}."
    )


@dataclass(frozen=True)
class FallbackSettings:
    """When fp16 is given up."""

    window: int = 100
    """Number of recent steps that are considered."""
    max_skipped: int = 25
    """Skipped steps in the window that are too many."""
    at_floor: int = 3
    """Skipped steps in a row at the lowest scale: scaling cannot help any more."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidSettingError(
                    f"{name} is {value!r}", hint="It must be a whole number above 0."
                )
        if self.max_skipped > self.window:
            raise InvalidSettingError(
                f"max_skipped is {self.max_skipped}, more than the window of {self.window} steps",
                hint="fp16 would never be given up. Use a smaller value.",
            )
