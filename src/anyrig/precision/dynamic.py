"""From fp16 to a safer format when fp16 keeps overflowing: said aloud, once, without losing state.

The weights and the optimiser's state are fp32 under autocast, so a move changes only what the
forward pass computes in and whether the loss is scaled.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError, InvalidSettingError

if TYPE_CHECKING:
    import torch

    from anyrig.precision.apply import Applied
    from anyrig.precision.scaler import LossScaler, Optimisers, StepOutcome

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class MoveSettings:
    """When fp16 is given up."""

    window: int = 100
    """Steps looked back upon."""
    most_skipped: int = 25
    """Skipped steps in the window that are too many. From 2^16 to the floor takes 17 at most."""
    at_floor: int = 3
    """Skipped steps in a row with the scale at its floor: scaling cannot help any more."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidSettingError(
                    f"{name} is {value!r}", hint="It must be a whole number above 0."
                )
        if self.most_skipped > self.window:
            raise InvalidSettingError(
                f"most_skipped is {self.most_skipped}, more than the window of {self.window}",
                hint="fp16 would never be given up; make it smaller.",
            )


class Moved(NamedTuple):
    """The event of a move."""

    step: int
    """How many steps were tried before it."""
    before: Precision
    after: Precision
    reason: str


class Dynamic:
    """Starts in fp16 and moves once when that keeps overflowing.

    Args:
        start: fp16 with its scaler.
        scaler: the scaler of `start`.
        move_to: makes the format to move to.
        settings: when to move.
        tell: is told of the move, beside the log.
    """

    def __init__(
        self,
        start: Applied,
        scaler: LossScaler,
        move_to: Callable[[], Applied],
        *,
        settings: MoveSettings | None = None,
        tell: Callable[[Moved], None] | None = None,
    ) -> None:
        self._now = start
        self._scaler = scaler
        self._move_to = move_to
        self._settings = settings or MoveSettings()
        self._tell = tell
        self._recent: deque[bool] = deque(maxlen=self._settings.window)
        self._floored = 0
        self._num_steps = 0
        self.moved: Moved | None = None

    @property
    def precision(self) -> Precision:
        """The format in use now."""
        return self._now.precision

    def forward(self) -> AbstractContextManager[object]:
        """The context of the forward pass."""
        return self._now.forward()

    def cast(self, module: torch.nn.Module) -> torch.nn.Module:
        """The model as the format wants it."""
        return self._now.cast(module)

    def prepare(self, inputs: T) -> T:
        """Inputs as the format wants them."""
        return self._now.prepare(inputs)

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass."""
        self._now.backward(loss)

    def step(
        self,
        optimisers: Optimisers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        """Step, and move away from fp16 if this was one overflow too many."""
        outcome = self._now.step(optimisers, parameters, max_norm)
        self._num_steps += 1
        if self.moved is None:
            self._recent.append(outcome.skipped)
            floored = outcome.skipped and outcome.scale <= self._scaler.settings.floor
            self._floored = self._floored + 1 if floored else 0
            reason = self._reason()
            if reason:
                self._move(reason)
        return outcome

    def undo(self) -> None:
        """Put back whatever was set process-wide."""
        self._now.undo()

    def _reason(self) -> str:
        if self._floored >= self._settings.at_floor:
            floor = self._scaler.settings.floor
            return f"{self._floored} steps in a row overflowed at the lowest loss scale, {floor:g}"
        num_skipped = sum(self._recent)
        if num_skipped >= self._settings.most_skipped:
            return f"{num_skipped} of the last {len(self._recent)} steps overflowed"
        return ""

    def _move(self, reason: str) -> None:
        before = self._now.precision
        self._now.undo()
        self._now = self._move_to()
        self.moved = Moved(self._num_steps, before, self._now.precision, reason)
        log.warning("%s: training goes on in %s instead of %s", reason, self.precision, before)
        if self._tell is not None:
            self._tell(self.moved)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: the scaler's state, and whether fp16 was given up."""
        return {
            "precision": self.precision,
            "steps": self._num_steps,
            "recent": list(self._recent),
            "floored": self._floored,
            "moved": list(self.moved) if self.moved else None,
            "inner": self._now.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what a checkpoint kept; a run that gave fp16 up does not go back to it.

        A run that could not move, or did not scale, leaves a scaler's state or none.
        """
        if "inner" not in state and "moved" not in state:
            self._now.load_state_dict(state)
            return
        try:
            moved = Moved(*state["moved"]) if state["moved"] else None
            recent = [bool(value) for value in state["recent"]]
            steps, floored, inner = int(state["steps"]), int(state["floored"]), state["inner"]
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"the checkpoint's precision state makes no sense: {error!r}",
                hint="Take an earlier checkpoint, or leave its precision state out.",
            ) from error
        if moved is not None and self.moved is None:
            self._now.undo()
            self._now = self._move_to()
            log.info("as before the checkpoint: %s, because %s", self.precision, moved.reason)
        self._now.load_state_dict(inner)
        self.moved, self._num_steps, self._floored = moved, steps, floored
        self._recent = deque(recent, maxlen=self._settings.window)
