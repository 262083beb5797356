"""Loss scaling for fp16 that cannot ruin a run: floor, ceiling, patience, no NaN in weights.

The rule: a step whose gradients are not all finite is skipped, whatever the scale. Each bad step
uses up patience (`hysteresis`); once it is gone, every further bad step backs the scale off. A
whole `growth_interval` of good steps grows the scale and restores the patience. Good steps alone
do not restore it, as in Megatron: otherwise a run whose every second step overflows would never
back off. torch's own scaler has neither floor nor patience: 180 bad steps take it to 0.0, and the
next good one writes NaN into the weights.

The scale is a plain number on the host. One value is read back per step, and that is the only wait.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import torch

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.precision.gradients import clip, collect, nonfinite_after_unscaling

log = logging.getLogger(__name__)
Optimisers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer]
_STATE = ("scale", "good_steps", "patience", "num_skipped", "skipped_in_a_row")


@dataclass(frozen=True)
class ScalerSettings:
    """How the loss is scaled. Every field can be set; what contradicts itself is refused."""

    initial: float = 2.0**16
    """What it begins with."""
    growth: float = 2.0
    """Times the scale after a whole interval of good steps."""
    backoff: float = 0.5
    """Times the scale after a bad step, once patience is used up."""
    interval: int = 2000
    """Good steps in a row before the scale grows."""
    hysteresis: int = 2
    """Bad steps that it takes until the scale backs off; 1 backs off at once."""
    floor: float = 1.0
    """It goes no lower."""
    ceiling: float = 2.0**24
    """And no higher."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            whole = name in ("interval", "hysteresis")
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise _bad(name, value, "a whole number" if whole else "a number")
            if not math.isfinite(value) or value <= 0:
                raise _bad(name, value, "finite and above 0")
        if self.growth <= 1:
            raise _bad("growth", self.growth, "above 1")
        if self.backoff >= 1:
            raise _bad("backoff", self.backoff, "below 1")
        if not self.floor <= self.initial <= self.ceiling:
            raise _bad(
                "initial", self.initial, f"from floor {self.floor:g} to ceiling {self.ceiling:g}"
            )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ScalerSettings:
        """Settings from plain pairs; an unknown name is refused with the nearest known one."""
        import difflib

        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(known)}."
                raise InvalidSettingError(f"the loss scaler has no setting {name!r}", hint=hint)
        return cls(**values)


def _bad(name: str, value: object, must: str) -> InvalidSettingError:
    return InvalidSettingError(f"the loss scaler's {name} is {value!r}", hint=f"It must be {must}.")


class StepOutcome(NamedTuple):
    """What became of an optimiser's step."""

    skipped: bool
    grad_norm: torch.Tensor | None = None
    """The norm before clipping, on the device: reading it waits. None when nothing was clipped."""
    scale: float = 1.0
    """The loss scale that this step ran under."""


class PlainStep:
    """Backward and step without scaling, for fp32, tf32 and bf16.

    Args:
        guard: skip a step whose gradients are not finite here too, at the price of one wait.
    """

    def __init__(
        self, *, guard: bool = False, agree: Callable[[torch.Tensor], object] | None = None
    ):
        self._guard = guard
        self._agree = agree
        self.scale = 1.0

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss as it is."""
        return loss

    def step(
        self,
        optimisers: Optimisers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        """Clip and step; see `LossScaler.step`."""
        optimisers = _several(optimisers)
        gradients = collect(optimisers, parameters)
        if self._guard and nonfinite_after_unscaling(gradients, 1.0, self._agree):
            log.warning("a step was skipped: its gradients are not finite")
            return StepOutcome(True)
        norm = clip(gradients.clipped, max_norm) if max_norm is not None else None
        for optimiser in optimisers:
            optimiser.step()
        return StepOutcome(False, norm)

    def state_dict(self) -> dict[str, Any]:
        """Nothing to keep."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing to restore; a scaler's state belongs to a run in fp16."""
        if state:
            log.info("the checkpoint's loss scale is not used: this run does not scale")


class LossScaler:
    """A guarded loss scaler.

    Args:
        settings: scale, growth and limits.
        agree: is given the tensor that says whether gradients were bad and makes it the same in
            all processes, for gradients that are split between them:
            `lambda bad: torch.distributed.all_reduce(bad, torch.distributed.ReduceOp.MAX)`.
    """

    def __init__(
        self,
        settings: ScalerSettings | None = None,
        *,
        agree: Callable[[torch.Tensor], object] | None = None,
    ) -> None:
        self.settings = settings or ScalerSettings()
        self.scale = float(self.settings.initial)
        self.num_skipped = 0
        self.skipped_in_a_row = 0
        self._agree = agree
        self._good_steps = 0
        self._patience = self.settings.hysteresis
        self._pending = False

    @property
    def at_floor(self) -> bool:
        """Whether the scale can back off no further."""
        return self.scale <= self.settings.floor

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss to call `backward` on. Call it for every part of an accumulated step."""
        self._pending = True
        return loss * self.scale

    def step(
        self,
        optimisers: Optimisers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        """Unscale, clip, step, and adjust the scale; skip all of it when gradients are not finite.

        Gradients are left as they are for the caller's `zero_grad`, after a skipped step too.

        Args:
            optimisers: one or several; they step together or not at all.
            parameters: whose gradients are clipped; those of the optimisers when None.
            max_norm: the norm to clip to; no clipping when None.
        """
        if not self._pending:
            raise InvalidInputError(
                "a step without a scaled backward pass would unscale its gradients twice",
                hint="Call backward before every step.",
            )
        self._pending = False
        optimisers = _several(optimisers)
        gradients = collect(optimisers, parameters)
        scale = self.scale
        if not gradients.all and self._agree is None:
            return StepOutcome(False, None, scale)
        if nonfinite_after_unscaling(gradients, 1.0 / scale, self._agree):
            self._after_bad()
            return StepOutcome(True, None, scale)
        norm = clip(gradients.clipped, max_norm) if max_norm is not None else None
        for optimiser in optimisers:
            optimiser.step()
        self._after_good()
        return StepOutcome(False, norm, scale)

    def _after_bad(self) -> None:
        self._good_steps = 0
        self.num_skipped += 1
        self.skipped_in_a_row += 1
        self._patience = max(0, self._patience - 1)
        if self._patience == 0:
            before = self.scale
            self.scale = max(self.settings.floor, self.scale * self.settings.backoff)
            log.info(
                "overflow: a step is skipped, the loss scale goes %g -> %g", before, self.scale
            )
        else:
            log.info("overflow: a step is skipped, the loss scale stays at %g", self.scale)

    def _after_good(self) -> None:
        self.skipped_in_a_row = 0
        self._good_steps += 1
        if self._good_steps >= self.settings.interval:
            self._good_steps = 0
            self._patience = self.settings.hysteresis
            self.scale = min(self.settings.ceiling, self.scale * self.settings.growth)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "scale": self.scale,
            "good_steps": self._good_steps,
            "patience": self._patience,
            "num_skipped": self.num_skipped,
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what a checkpoint kept; nonsense is refused before anything changes."""
        state = state.get("inner", state)  # of a run that could move to another format
        if not state:  # the run so far did not scale
            return
        if set(state) != set(_STATE):
            odd = sorted(set(state) ^ set(_STATE))
            raise _refused(f"unexpected or missing: {', '.join(odd)}")
        scale = state["scale"]
        if isinstance(scale, bool) or not isinstance(scale, (int, float)):
            raise _refused(f"scale is {scale!r}")
        if not math.isfinite(scale) or scale <= 0:
            raise _refused(f"scale is {scale!r}")
        counts = [state[name] for name in _STATE[1:]]
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts):
            raise _refused(f"counts are {counts}")
        self.scale = min(self.settings.ceiling, max(self.settings.floor, float(scale)))
        self._good_steps = state["good_steps"]
        self._patience = min(state["patience"], self.settings.hysteresis)
        self.num_skipped = state["num_skipped"]
        self.skipped_in_a_row = state["skipped_in_a_row"]
        self._pending = False


def _refused(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"the checkpoint's loss scaler state makes no sense: {what}",
        hint="Take an earlier checkpoint, or start with a fresh scale by leaving its state out.",
    )


def _several(optimisers: Optimisers) -> tuple[torch.optim.Optimizer, ...]:
    if isinstance(optimisers, torch.optim.Optimizer):
        return (optimisers,)
    return tuple(optimisers)
