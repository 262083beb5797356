"""The learning rate of a step: a pure function of the step's number, so that a resume is exact.

Nothing is added up from step to step: the number alone decides, whatever ran before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

import torch

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training.settings import Schedule

_DECAY = 0.2
"""The share of a run at its end in which a trapezoid falls."""


def rate_at(
    step: int,
    *,
    total: int,
    peak: float,
    schedule: Schedule = "cosine",
    warmup: float = 0.0,
    final: float = 0.0,
) -> float:
    """The learning rate of a step.

    Args:
        step: counted from 0; from `total` on the rate stays where it ended.
        total: steps of the whole run.
        peak: the highest rate.
        schedule: constant, linear, cosine, or trapezoid: flat, then linear over the last fifth.
        warmup: steps of a linear rise to the peak; a share of the run below 1.
        final: what the rate falls to, as a share of the peak. A constant rate does not fall.
    """
    if schedule not in get_args(Schedule):
        raise InvalidSettingError(
            f"unknown schedule {schedule!r}",
            hint=f"Valid names: {', '.join(get_args(Schedule))}.",
        )
    rise = warmup_steps(warmup, total)
    if step < rise:
        return peak * (step + 1) / (rise + 1)  # step 0 already learns a little
    falls = _falls(schedule, min(step, total), rise, total)
    return peak * (final + (1.0 - final) * falls)


def warmup_steps(warmup: float, total: int) -> int:
    """Steps of warm-up: a share of the run below 1, a number of steps from 1 on."""
    return min(total, round(warmup * total) if warmup < 1 else round(warmup))


def _falls(schedule: Schedule, step: int, rise: int, total: int) -> float:
    """How much of the way from final to peak is left: 1 at the peak, 0 at the end."""
    if schedule == "constant":
        return 1.0
    start = max(rise, total - round(_DECAY * total)) if schedule == "trapezoid" else rise
    if step <= start or total <= start:
        return 1.0
    done = (step - start) / (total - start)
    if schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * done))
    return 1.0 - done


class Rates:
    """Sets the learning rates of an optimiser's groups before each step.

    Every group keeps its proportion: one that began with a tenth of the first group's rate has a
    tenth of it throughout. Rates that are tensors (of compiled and captured optimisers) are filled
    in place, so that nothing is compiled or recorded again.

    Args:
        optimiser: its groups' `initial_lr`, or else their `lr`, are their peaks.
        total: steps of the whole run.
        schedule: see `rate_at`.
        warmup: see `rate_at`.
        final: see `rate_at`.
        step: how many steps are done already.
    """

    def __init__(
        self,
        optimiser: torch.optim.Optimizer,
        *,
        total: int,
        schedule: Schedule = "cosine",
        warmup: float = 0.0,
        final: float = 0.0,
        step: int = 0,
    ) -> None:
        self._optimiser = optimiser
        self._total, self._schedule = total, schedule
        self._warmup, self._final = warmup, final
        for group in optimiser.param_groups:
            group.setdefault("initial_lr", float(group["lr"]))
        self._peaks = [float(group["initial_lr"]) for group in optimiser.param_groups]
        self.num_steps = step
        self._set()

    @property
    def rate(self) -> float:
        """The first group's rate in the step that comes next."""
        return self._rate_of(self._peaks[0]) if self._peaks else 0.0

    def step(self) -> float:
        """A step is done: set the next one's rates; the rate that the done one had."""
        before = self.rate
        self.num_steps += 1
        self._set()
        return before

    def set(self) -> None:
        """Set the rates once more: an optimiser's own `load_state_dict` brings its old ones."""
        self._set()

    def _rate_of(self, peak: float) -> float:
        return rate_at(
            self.num_steps,
            total=self._total,
            peak=peak,
            schedule=self._schedule,
            warmup=self._warmup,
            final=self._final,
        )

    def _set(self) -> None:
        for group, peak in zip(self._optimiser.param_groups, self._peaks, strict=True):
            group["initial_lr"] = peak
            rate = self._rate_of(peak)
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: plain numbers."""
        return {"steps": self.num_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a checkpoint stood; a longer or shorter run than before is followed."""
        steps = state.get("steps")
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise InvalidInputError(
                f"the checkpoint's schedule is not valid: steps is {steps!r}",
                hint="Take an earlier checkpoint.",
            )
        self.num_steps = steps
        self._set()
