"""A group of one process: nothing to send, nobody to wait for."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import torch
from torch import nn

from anyrig.training.distributed.names import WholeModel


class Alone(WholeModel):
    """One process that trains by itself."""

    rank = 0
    size = 1
    lockstep = False

    def prepare(self, model: nn.Module) -> nn.Module:
        """The model as it is."""
        return model

    def adopt(self, optimiser: torch.optim.Optimizer) -> None:
        """Its parameters are the model's already."""

    def share(self, num_items: int) -> tuple[int, int]:
        """All of them."""
        return 0, num_items

    def micro(self, *, last: bool) -> AbstractContextManager[object]:
        """Nothing travels."""
        return contextlib.nullcontext()

    def settle(self, *, ran_out: bool) -> bool:
        """Whether this process ran out."""
        return ran_out

    def total(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself."""
        return tensor

    def agree(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself."""
        return tensor

    def least(self, number: int) -> int:
        """The number itself."""
        return number

    def note_speed(self, samples: int, seconds: float | None = None) -> None:
        """There is nobody to be compared with."""

    def barrier(self) -> None:
        """Nobody to wait for."""

    def close(self) -> None:
        """Nothing to leave."""
