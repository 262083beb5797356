"""Lion: steps of one size along the sign of a smoothed gradient, with one state a weight.

After "Symbolic Discovery of Optimization Algorithms" (Chen et al., 2023). Half of Adam's state; it
wants a learning rate three to ten times smaller and a weight decay as much larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch

from anyrig.errors import InvalidInputError


class Lion(torch.optim.Optimizer):
    """The optimiser, over all weights of a group at once.

    Args:
        params: weights or groups of them.
        lr: the length of a step in each weight.
        betas: how much of the past counts in a step, and in what is kept for the next.
        weight_decay: taken off apart from the gradient, in proportion to the rate.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | torch.Tensor = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Change the weights that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weights in _alike(group["params"]):
                self._update(weights, group)
        return loss

    def _update(self, weights: list[torch.Tensor], group: dict[str, Any]) -> None:
        gradients = [_dense(weight) for weight in weights]
        kept = [self._kept(weight) for weight in weights]
        rate, (now, later) = float(group["lr"]), group["betas"]
        if group["weight_decay"]:
            torch._foreach_mul_(weights, 1.0 - rate * group["weight_decay"])
        moves = torch._foreach_lerp(kept, gradients, 1.0 - now)
        torch._foreach_sign_(moves)
        torch._foreach_add_(weights, moves, alpha=-rate)
        torch._foreach_lerp_(kept, gradients, 1.0 - later)

    def _kept(self, weight: torch.Tensor) -> torch.Tensor:
        state = self.state[weight]
        if "exp_avg" not in state:
            state["exp_avg"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        kept: torch.Tensor = state["exp_avg"]
        return kept


def _dense(weight: torch.Tensor) -> torch.Tensor:
    gradient = weight.grad
    assert gradient is not None
    if gradient.is_sparse:
        raise InvalidInputError(
            "lion needs whole gradients, and an embedding gives sparse ones",
            hint="Make the embedding without sparse=True, or take sgd.",
        )
    return gradient


def _alike(weights: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Those with a gradient, by device and format: what one kernel takes at once."""
    groups: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
    for weight in weights:
        if weight.grad is not None:
            groups.setdefault((weight.device, weight.dtype), []).append(weight)
    return list(groups.values())
