"""A group of one process: nothing to send, nobody to wait for."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from anyrig.training.distributed.names import load_named, load_weights, named_state, plain_state


class Alone:
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

    def weights(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """The model's own weights and buffers; copy them before the next step."""
        return plain_state(model)

    def optimiser_state(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
        """The optimiser's own state by name; copy it before the next step."""
        return named_state(model, optimiser)

    def load(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer | None,
        weights: Mapping[str, torch.Tensor],
        optimiser_state: Mapping[str, Any] | None,
    ) -> None:
        """Put weights and state back."""
        load_weights(model, weights)
        if optimiser is not None and optimiser_state is not None:
            load_named(model, optimiser, optimiser_state)

    def barrier(self) -> None:
        """Nobody to wait for."""

    def close(self) -> None:
        """Nothing to leave."""
