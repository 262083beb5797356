"""What the parts of a training run know of each other: few values and two protocols.

The loop drives them all and asks none whether it is there: one process is a group of one (`Alone`),
and a run that nobody watches has a watch that sees nothing (`Unwatched`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import nn

Batch: TypeAlias = Any
"""Collated items: a tensor, or a nest of lists, tuples and mappings of tensors whose first side
counts the items. Other leaves are passed on as they are."""
Loss = Callable[[nn.Module, Batch], torch.Tensor]
"""The loss of a batch as a mean over its units, a scalar that can run backwards. The attribute
`across_batch` says whether items of a batch change each other's loss, as in a contrastive one."""
Units = Callable[[Batch], int]
"""How many units a batch's loss is a mean over: items, or tokens that count. On the host."""
Figure = Callable[[nn.Module, Batch], tuple[float | torch.Tensor, float | torch.Tensor]]
"""A figure of a batch as a sum and a count, which are added up over batches and processes before
they are divided. Vectors of both are a mean of ratios, of those whose count is not nought: macro F1
is one, a place for each class. A figure that has a function `after` is what that makes of the mean:
perplexity is e to the power of one. One that has `of_loss` is not called: it is made of the loss'
own sum and count."""
Phase = Literal["data", "forward", "backward", "communicate", "optimise"]
PHASES: tuple[Phase, ...] = ("data", "forward", "backward", "communicate", "optimise")


@dataclass
class Task:
    """What is trained on what: a ready-made job, or one of your own."""

    name: str
    model: nn.Module
    data: Any
    """A map-style data set (`len` and `[number]`), or an iterable of items."""
    loss: Loss
    units: Units | None = None
    """None counts items."""
    collate: Callable[[Sequence[Any]], Batch] | None = None
    """Items to a batch; torch's default when None."""
    validation: Any = None
    """A data set that is only measured."""
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """Further figures of validation, such as accuracy."""
    finish: Callable[[Path], Mapping[str, Any]] | None = None
    """Writes what a user wants of the trained model into a folder; what it says is in the summary.
    The weights are the trained ones when it is called."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Files that could not be used, and why: they are named at the end, and the rest is trained."""


@dataclass(frozen=True)
class StepFacts:
    """One optimiser's step. Tensors are on the device: reading one waits, so it is done later."""

    number: int
    """Counted from 1 over the whole run."""
    epoch: int
    loss: torch.Tensor
    """The mean over this process' units, a scalar."""
    units: int
    samples: int
    """Of this process."""
    rate: float
    """Learning rate of the first group."""
    micro_batch: int
    num_micro: int
    precision: str
    skipped: bool | torch.Tensor = False
    """Whether gradients were not finite and nothing was changed."""
    grad_norm: torch.Tensor | None = None
    scale: float = 1.0
    num_retries: int = 0
    """How often memory ran out in this step."""


class Watch(Protocol):
    """What looks on. Called on the loop's thread; it must not wait for the device."""

    def phase(self, name: Phase) -> AbstractContextManager[object]:
        """Around a part of a step; phases do not nest and the same may come several times."""

    def step(self, facts: StepFacts) -> None:
        """A step is done."""

    def event(self, kind: str, text: str, **facts: Any) -> None:
        """Something a person should know: a smaller batch, another precision, a checkpoint."""

    def validated(self, step: int, figures: Mapping[str, float]) -> None:
        """The model was measured on the validation data."""

    def aside(self, what: str) -> AbstractContextManager[object]:
        """Around what is no step and may take long: validation, a checkpoint."""

    def close(self) -> None:
        """The run is over: read what is left, write it."""


class Unwatched:
    """Sees nothing."""

    def phase(self, name: Phase) -> AbstractContextManager[object]:
        """Nothing is timed."""
        return contextlib.nullcontext()

    def step(self, facts: StepFacts) -> None:
        """Not kept."""

    def event(self, kind: str, text: str, **facts: Any) -> None:
        """Not kept."""

    def validated(self, step: int, figures: Mapping[str, float]) -> None:
        """Not kept."""

    def aside(self, what: str) -> AbstractContextManager[object]:
        """Not timed."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Nothing to end."""


class Group(Protocol):
    """The processes that train one model together."""

    rank: int
    size: int
    lockstep: bool
    """Whether processes wait for each other inside a micro batch, validation included: all run the
    same number of them, and a shortage is answered by a new start (`restarting`), not by `settle`.
    """

    def prepare(self, model: nn.Module) -> nn.Module:
        """The model as the group trains it: the same weights everywhere, or a shard of them."""

    def adopt(self, optimiser: torch.optim.Optimizer) -> None:
        """Point an optimiser made before `prepare` at the parameters that the model has now."""

    def share(self, num_items: int) -> tuple[int, int]:
        """Which items of a global batch are this process': first and count, in rank order.

        Called once for each batch by every process, in order; it may be ahead of the steps.
        """

    def micro(self, *, last: bool) -> AbstractContextManager[object]:
        """Around forward and backward of a micro batch; gradients travel in the last one."""

    def settle(self, *, ran_out: bool) -> bool:
        """End the gradients' travel; whether any process ran out of memory, so that none may step.

        Called once by every process after its micro batches, or where one of them ran out. Losses
        are already weighted by their share of the global units: gradients are added up.
        """

    def total(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, in place; on the host or on the device."""

    def agree(self, tensor: torch.Tensor) -> torch.Tensor:
        """The largest over all processes, in place."""

    def least(self, number: int) -> int:
        """The smallest of a host number over all processes."""

    def note_speed(self, samples: int, seconds: float | None = None) -> None:
        """How long this process computed for its items, for shares by speed.

        Called by every process after each step, as it may be collective; without seconds, what
        passed inside `micro` counts, measured on the device.
        """

    def weights(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """All weights and buffers whole, under the plain model's names; collective. May be empty
        in processes other than the first.
        """

    def optimiser_state(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
        """The optimiser's whole `state_dict`, parameters by name instead of number; collective."""

    def load(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer | None,
        weights: Mapping[str, torch.Tensor],
        optimiser_state: Mapping[str, Any] | None,
    ) -> None:
        """Put whole weights and state back, whatever number of processes they came from."""

    def barrier(self) -> None:
        """Wait for all."""

    def close(self) -> None:
        """Leave the group."""
