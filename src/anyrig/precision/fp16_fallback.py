"""Training in fp16 that gives it up for another format when it keeps overflowing.

Weights and optimizer state are fp32 under autocast, so the switch changes only the dtype of the
forward pass and whether the loss is scaled.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch

from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.precision.autocast import PrecisionPolicy
from anyrig.precision.scaler import LossScaler, Optimizers, StepOutcome

log = logging.getLogger(__name__)


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


class DynamicPrecision(PrecisionPolicy):
    """fp16 that switches once to another format if it keeps overflowing.

    Args:
        make_fallback: makes the policy to switch to.
        on_fallback: called with the event, which is logged too.
    """

    def __init__(
        self,
        device_type: str,
        scaler: LossScaler,
        make_fallback: Callable[[], PrecisionPolicy],
        *,
        settings: FallbackSettings | None = None,
        on_fallback: Callable[[FallbackEvent], None] | None = None,
    ) -> None:
        super().__init__("fp16", device_type, scaler, autocast_dtype=torch.float16)
        self._make_fallback = make_fallback
        self._on_fallback = on_fallback
        self._settings = settings or FallbackSettings()
        self._floor = scaler.settings.floor
        self._num_steps = 0
        self._recent: deque[bool] = deque(maxlen=self._settings.window)
        """Whether each of the recent steps was skipped."""
        self._num_at_floor = 0
        """Steps in a row that were skipped at the lowest scale."""
        self.fallback: FallbackEvent | None = None

    def step(
        self,
        optimizers: Optimizers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        outcome = super().step(optimizers, parameters, max_norm)
        self._num_steps += 1
        if self.fallback is None:
            self._recent.append(outcome.skipped)
            at_floor = outcome.skipped and outcome.scale <= self._floor
            self._num_at_floor = self._num_at_floor + 1 if at_floor else 0
            reason = self._find_reason()
            if reason:
                self._switch()
                self.fallback = FallbackEvent(self._num_steps, "fp16", self.precision, reason)
                log.warning("%s: training continues in %s", reason, self.precision)
                if self._on_fallback is not None:
                    self._on_fallback(self.fallback)
        return outcome

    def _find_reason(self) -> str:
        """Why fp16 is given up now; empty if it is not."""
        if self._num_at_floor >= self._settings.at_floor:
            count, floor = self._num_at_floor, f"{self._floor:g}"
            return f"{count} steps in a row overflowed at the lowest loss scale, {floor}"
        num_skipped = sum(self._recent)
        if num_skipped >= self._settings.most_skipped:
            return f"{num_skipped} of the last {len(self._recent)} steps overflowed"
        return ""

    def _switch(self) -> None:
        self.restore()
        vars(self).update(vars(self._make_fallback()))  # format, dtypes and scaler

    def state_dict(self) -> dict[str, Any]:
        return {
            "precision": self.precision,
            "steps": self._num_steps,
            "recent": list(self._recent),
            "floored": self._num_at_floor,
            "moved": list(self.fallback) if self.fallback else None,
            "inner": super().state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a checkpoint's state; a run that gave up fp16 does not return to it.

        The state may also be that of a plain scaler, or of a run that did not scale.
        """
        if "inner" not in state and "moved" not in state:
            super().load_state_dict(state)
            return
        try:
            fallback = FallbackEvent(*state["moved"]) if state["moved"] else None
            recent = [bool(value) for value in state["recent"]]
            steps, at_floor, inner = int(state["steps"]), int(state["floored"]), state["inner"]
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"the checkpoint's precision state is invalid: {error!r}",
                hint="Use an earlier checkpoint, or leave the precision state out.",
            ) from error
        if fallback is not None and self.fallback is None:
            self._switch()
            log.info("continuing in %s, as before the checkpoint", self.precision)
        super().load_state_dict(inner)
        self.fallback, self._num_steps, self._num_at_floor = fallback, steps, at_floor
        self._recent = deque(recent, maxlen=self._settings.window)
