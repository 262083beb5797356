"""Gradients of many parameters at once: gathered, unscaled, checked for finite values, clipped.

Whatever the optimisers hold: several groups, several devices, sparse gradients, parameters without
one, the same parameter twice, parts of tensors that are cut over processes. The check waits for the
device once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from anyrig.errors import InvalidInputError

Groups = dict[tuple[torch.device, torch.dtype], list[torch.Tensor]]


class Gradients(NamedTuple):
    """Dense tensors that alias the gradients; a sparse one is there by its values."""

    all: Sequence[torch.Tensor]
    """Of a gradient that is cut over processes (a DTensor) this process' part."""
    clipped: Sequence[torch.Tensor]
    """Those of the parameters that were named, for the norm; cut ones as they are."""
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
    parts = [_part(one) for one in found.values()]
    return Gradients(parts, [found[key] for key in once if key in found], device)


def _dense(parameter: torch.Tensor) -> torch.Tensor:
    """A tensor that shares the gradient's memory and can be multiplied in place."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    # Duplicate entries may sum to infinity, so they are added up before they are looked at.
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()


def _part(gradient: torch.Tensor) -> torch.Tensor:
    """This process' part of a gradient, sharing its memory; the whole where it is not cut."""
    if type(gradient) is torch.Tensor or not hasattr(gradient, "to_local"):
        return gradient
    local: torch.Tensor = gradient.to_local()
    return local


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
            raise InvalidInputError(
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
    """Shrink gradients to a common norm, in place, without waiting; the norm they had.

    Of gradients that are cut over processes (DTensors) it is the norm of the whole: the processes
    add their parts up, so all of them call this.
    """
    total = norm_of(tensors)
    if total is None:
        return None
    groups = _grouped([_part(tensor) for tensor in tensors])
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for (device, _), group in groups.items():
        torch._foreach_mul_(group, factor.to(device, non_blocking=True))
    return total


def norm_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The common norm of gradients, on the device of the first; see `clip`."""
    parts = [_part(tensor) for tensor in tensors]
    if not parts:
        return None
    norms = [_norm(members, parts[0].device) for members in _by_mesh(tensors, parts)]
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return total


class _Members(NamedTuple):
    """Gradients that are cut in the same way."""

    parts: list[torch.Tensor]
    meshes: tuple[Any, ...]
    """The process groups over which they are cut; none for whole ones."""


def _by_mesh(tensors: Sequence[torch.Tensor], parts: Sequence[torch.Tensor]) -> list[_Members]:
    found: dict[tuple[int, ...], _Members] = {}
    for tensor, part in zip(tensors, parts, strict=True):
        over = () if part is tensor else _cut_over(tensor)
        found.setdefault(tuple(map(id, over)), _Members([], over)).parts.append(part)
    return list(found.values())


def _cut_over(tensor: Any) -> tuple[Any, ...]:
    """The process groups whose members hold different parts of a DTensor."""
    mesh = tensor.device_mesh
    return tuple(
        mesh.get_group(side) for side, place in enumerate(tensor.placements) if place.is_shard()
    )


def _norm(members: _Members, device: torch.device) -> torch.Tensor:
    """The norm of all of them on a device; fp32, or fp64 where a gradient is."""
    wide = any(part.dtype == torch.float64 for part in members.parts)
    kind = torch.float64 if wide else torch.float32
    norms = [
        norm.to(device, kind, non_blocking=True)
        for group in _grouped(members.parts).values()
        for norm in torch._foreach_norm(group, 2.0)
    ]
    norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
    if not members.meshes:
        return norm
    import torch.distributed as dist

    squares = norm.double().square()  # of which fp32 holds no large ones
    for group in members.meshes:
        dist.all_reduce(squares, group=group)
    return squares.sqrt().to(kind)
