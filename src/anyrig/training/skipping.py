"""A step that is called off on the device: the kernels read a flag, and the host does not wait."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from anyrig.errors import InvalidInputError


def supports_found_inf(optimiser: torch.optim.Optimizer) -> bool:
    """Whether its step can be called off by a tensor on the device, with no wait."""
    if not getattr(optimiser, "_step_supports_amp_scaling", False):
        return False
    if not isinstance(optimiser, (torch.optim.Adam, torch.optim.SGD)):
        return False
    # A first step that is called off leaves fused SGD with momentum that was never filled. Zeros
    # put there first are right where momentum is not damped.
    return not any(group.get("dampening") for group in optimiser.param_groups)


@contextlib.contextmanager
def skip_on_device(optimiser: torch.optim.Optimizer, flag: torch.Tensor) -> Iterator[None]:
    """Steps in here change nothing (weights, moments, count) where a flag is above 0.

    Args:
        optimiser: one that `supports_found_inf`.
        flag: one number on a device. It is read by the kernels, not by the host.
    """
    if not supports_found_inf(optimiser):
        raise InvalidInputError(
            f"{type(optimiser).__name__} cannot be called off on the device",
            hint="Make it fused, or read the flag on the host.",
        )
    _fill_momentum(optimiser)
    # The kernels take the flag off the count of steps, so it must be one exactly.
    target: Any = optimiser
    target.found_inf = (flag.detach().reshape(()) > 0).to(torch.float32)
    try:
        yield
    finally:
        del target.found_inf


def _fill_momentum(optimiser: torch.optim.Optimizer) -> None:
    for group in optimiser.param_groups:
        if group.get("momentum") and isinstance(optimiser, torch.optim.SGD):
            for weight in group["params"]:
                state = optimiser.state[weight]
                if weight.grad is not None and state.get("momentum_buffer") is None:
                    state["momentum_buffer"] = torch.zeros_like(weight.grad)
