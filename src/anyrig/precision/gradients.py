"""Gradients of many parameters at once: gathered, unscaled, checked for finite values, clipped.

Whatever the optimisers hold: several groups, several devices, sparse gradients, parameters without
one, the same parameter twice. The check waits for the device once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from anyrig.errors import BadInput

Groups = dict[tuple[torch.device, torch.dtype], list[torch.Tensor]]


class Gradients(NamedTuple):
    """Dense tensors that alias the gradients; a sparse one is there by its values."""

    all: Sequence[torch.Tensor]
    clipped: Sequence[torch.Tensor]
    """Those of the parameters that were named, for the norm."""
    device: torch.device
    """Where the first parameter lives."""


def collect(
    optimisers: Sequence[torch.optim.Optimizer], parameters: Iterable[torch.Tensor] | None
) -> Gradients:
    """The gradients of all parameters in the optimisers, and of those named."""
    held = [p for o in optimisers for group in o.param_groups for p in group["params"]]
    named = held if parameters is None else list(parameters)
    found: dict[int, torch.Tensor] = {}
    for parameter in (*held, *named):
        if parameter.grad is not None and id(parameter) not in found:
            found[id(parameter)] = _dense(parameter)
    once = dict.fromkeys(id(p) for p in named)
    device = held[0].device if held else torch.device("cpu")
    return Gradients(list(found.values()), [found[key] for key in once if key in found], device)


def _dense(parameter: torch.Tensor) -> torch.Tensor:
    """A tensor that shares the gradient's memory and can be multiplied in place."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    # Duplicate entries may sum to infinity, so they are added up before they are looked at.
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()


def nonfinite_after_unscaling(
    gradients: Gradients,
    inverse: float,
    agree: Callable[[torch.Tensor], object] | None = None,
) -> bool:
    """Multiply gradients in place, and whether any value is not finite. Waits once.

    Args:
        gradients: on any devices.
        inverse: one over the scale.
        agree: makes the answer the same in all processes.
    """
    flags: list[torch.Tensor] = []
    for (device, dtype), group in _grouped(gradients.all).items():
        if dtype == torch.float16 and inverse != 1.0:
            raise BadInput(
                "gradients in fp16 vanish when they are unscaled",
                hint="Keep the weights in fp32 and let autocast compute in fp16.",
            )
        flags.append(_unscale(group, device, inverse))
    if not flags and agree is None:
        return False
    bad = flags[0] if flags else torch.zeros(1, device=gradients.device)
    for flag in flags[1:]:
        bad = bad + flag.to(bad.device, non_blocking=True)
    if agree is not None:
        agree(bad)
    return bool(bad.item())


def _unscale(group: list[torch.Tensor], device: torch.device, inverse: float) -> torch.Tensor:
    """The flag of one device and format: above 0 when a value is not finite."""
    flag = torch.zeros(1, dtype=torch.float32, device=device)
    factor = torch.full((1,), inverse, dtype=torch.float32, device=device)
    try:
        torch._amp_foreach_non_finite_check_and_unscale_(group, flag, factor)
    except (AttributeError, NotImplementedError):
        # DirectML and other plug-in devices have no such kernel; these are made of plain ones.
        if inverse != 1.0:
            torch._foreach_mul_(group, inverse)
        parts = [torch.isfinite(tensor).all().logical_not().to(torch.float32) for tensor in group]
        flag += torch.stack(parts).sum()
    return flag


def _grouped(tensors: Sequence[torch.Tensor]) -> Groups:
    groups: Groups = {}
    for tensor in tensors:
        groups.setdefault((tensor.device, tensor.dtype), []).append(tensor)
    return groups


def clip(tensors: Sequence[torch.Tensor], max_norm: float) -> torch.Tensor | None:
    """Shrink gradients to a common norm, in place, without waiting; the norm they had."""
    groups = _grouped(tensors)
    if not groups:
        return None
    first = next(iter(groups))[0]
    norms = [
        norm.to(first, torch.float32, non_blocking=True)
        for group in groups.values()
        for norm in torch._foreach_norm(group, 2.0)
    ]
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for (device, _), group in groups.items():
        torch._foreach_mul_(group, factor.to(device, non_blocking=True))
    return total
