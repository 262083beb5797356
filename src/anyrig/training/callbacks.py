"""What a run calls: a program's own callbacks, and early stopping, the best model, averages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyrig.training.distributed.fsdp import shard_like

if TYPE_CHECKING:
    from anyrig.training.step import StepResult
    from anyrig.training.trainer import Trainer, TrainResult


class Callback:
    """Override what you need. Every process of a group calls its own.

    `trainer.stop()` may be called from each of them: the last checkpoint is written then.
    """

    def on_start(self, trainer: Trainer) -> None:
        """Before the first step, when everything is put together."""

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        """After each step. Reading a tensor of the result waits for the device."""

    def on_validate(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
        """The model was measured on the validation data."""

    def on_event(self, trainer: Trainer, kind: str, text: str) -> None:
        """Something a person should know: a smaller batch, another precision, a checkpoint."""

    def on_end(self, trainer: Trainer, result: TrainResult) -> None:
        """The run is over, or was stopped."""


class BestMetric:
    """Which validation was the best, and how many have passed since."""

    def __init__(self, name: str, *, highest: bool) -> None:
        self.name, self._sign = name, -1.0 if highest else 1.0
        self._best = math.inf
        self.num_worse = 0

    def update(self, figures: Mapping[str, float]) -> bool:
        """Whether this one is the best so far."""
        rank = self.rank(figures)
        if rank is not None and rank < self._best:
            self._best, self.num_worse = rank, 0
            return True
        self.num_worse += 1
        return False

    def rank(self, figures: Mapping[str, float]) -> float | None:
        """Lower is better; None for a value that is not finite or is not there."""
        value = figures.get(self.name)
        return None if value is None or not math.isfinite(value) else self._sign * value

    def state_dict(self) -> dict[str, Any]:
        return {"best": self._best, "num_worse": self.num_worse}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._best, self.num_worse = float(state["best"]), int(state["num_worse"])


class WeightAverage:
    """An exponential moving average of a model's trained weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._weights = {n: one for n, one in model.named_parameters() if one.requires_grad}
        self._averages = {n: one.detach().clone().float() for n, one in self._weights.items()}
        self._num_updates = 0
        self._held: list[torch.Tensor] | None = None

    @torch.no_grad()
    def update(self) -> None:
        self._num_updates += 1
        # The first steps count more, or the average would remember random weights for long.
        decay = min(self.decay, (1 + self._num_updates) / (10 + self._num_updates))
        now = [one.detach().float() for one in self._weights.values()]
        torch._foreach_lerp_(list(self._averages.values()), now, 1 - decay)

    @torch.no_grad()
    def swap_in(self, *, for_good: bool = False) -> None:
        """Put the averages into the model, until `swap_out`."""
        if self._held is None:
            if not for_good:
                self._held = [one.detach().clone() for one in self._weights.values()]
            for name, one in self._weights.items():
                one.copy_(self._averages[name])

    @torch.no_grad()
    def swap_out(self) -> None:
        if self._held is not None:
            for one, before in zip(self._weights.values(), self._held, strict=True):
                one.copy_(before)
            self._held = None

    def state_dict(self) -> dict[str, Any]:
        return {"num_updates": self._num_updates, "averages": dict(self._averages)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._num_updates = int(state["num_updates"])
        for name, value in state["averages"].items():
            if name in self._averages:
                self._averages[name].copy_(shard_like(self._averages[name], value))
