"""An optimiser's state before its first step: its memory is counted before a batch is fitted.

Weights are not changed, and the first real step is the same as without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from anyrig.memory.oom import detect_oom
from anyrig.training.lion import Lion
from anyrig.training.skipping import skip_on_device, supports_found_inf

# A step with gradients, rate and decay of zero leaves zeros in their state and a count of one.
_ZERO_IS_FRESH = (
    torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.RAdam,
    torch.optim.Adadelta, torch.optim.Adafactor, Lion,
)  # fmt: skip


class Materialised(NamedTuple):
    """What is there after `materialise`."""

    kept: bool
    """Whether the state stays. Else it was made to be counted, and the first step makes it anew."""
    num_bytes: int
    reason: str


def materialise(optimiser: torch.optim.Optimizer) -> Materialised:
    """Make an optimiser's state exist, as its first step would."""
    missing = [
        weight
        for group in optimiser.param_groups
        for weight in group["params"]
        if weight.requires_grad and not optimiser.state.get(weight)
    ]
    if not missing:
        return Materialised(True, state_bytes(optimiser), "the state was there already")
    fresh = type(optimiser) in _ZERO_IS_FRESH and not _damped(optimiser)
    with _alone(optimiser, missing):
        if supports_found_inf(optimiser):
            with skip_on_device(optimiser, torch.ones((), device=missing[0].device)):
                optimiser.step()
            return Materialised(True, state_bytes(optimiser), "made by a step that was called off")
        return _by_step_of_nothing(optimiser, missing) if fresh else _counted(optimiser, missing)


def state_bytes(optimiser: torch.optim.Optimizer) -> int:
    """What the state takes in this process."""
    found = (value for state in optimiser.state.values() for value in state.values())
    return sum(_local(value).nbytes for value in found if isinstance(value, torch.Tensor))


def _local(tensor: torch.Tensor) -> torch.Tensor:
    shard = getattr(tensor, "to_local", None)
    found: torch.Tensor = shard() if shard is not None else tensor
    return found


def _damped(optimiser: torch.optim.Optimizer) -> bool:
    """Damped momentum takes its first gradient whole, so zeros are not how it begins."""
    return any(group.get("dampening") for group in optimiser.param_groups)


def _by_step_of_nothing(
    optimiser: torch.optim.Optimizer, missing: Sequence[torch.Tensor]
) -> Materialised:
    with _standing_still(optimiser):
        optimiser.step()
    for weight in missing:
        state = optimiser.state.get(weight, {})
        if isinstance(state.get("step"), torch.Tensor):
            state["step"].zero_()
        elif "step" in state:
            state["step"] = 0
    return Materialised(True, state_bytes(optimiser), "made by a step of nothing")


def _counted(optimiser: torch.optim.Optimizer, missing: Sequence[torch.Tensor]) -> Materialised:
    """For optimisers nobody knows here: make the state, count it, and leave no trace of it."""
    before = [weight.detach().to("cpu", copy=True) for weight in missing]
    try:
        with _standing_still(optimiser):
            optimiser.step()
        num_bytes = state_bytes(optimiser)
        reason = f"counted and dropped: {type(optimiser).__name__} may not begin with zeros"
    except Exception as error:
        if detect_oom(error) is not None:
            raise
        num_bytes, reason = state_bytes(optimiser), f"could not be made ahead: {error}"
    finally:
        for weight, old in zip(missing, before, strict=True):
            optimiser.state.pop(weight, None)
            with torch.no_grad():
                weight.copy_(old)
    return Materialised(False, num_bytes, reason)


@contextlib.contextmanager
def _alone(optimiser: torch.optim.Optimizer, missing: Sequence[torch.Tensor]) -> Iterator[None]:
    """Gradients of zero for weights without state, none for others; nobody hears of the step."""
    held = [weight for group in optimiser.param_groups for weight in group["params"]]
    gradients = [weight.grad for weight in held]
    wanted = {id(weight) for weight in missing}
    hooks = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    kept = {name: getattr(optimiser, name) for name in hooks if hasattr(optimiser, name)}
    try:
        for name, value in kept.items():
            setattr(optimiser, name, type(value)())
        for weight in held:
            weight.grad = torch.zeros_like(weight) if id(weight) in wanted else None
        yield
    finally:
        for weight, gradient in zip(held, gradients, strict=True):
            weight.grad = gradient
        for name, value in kept.items():
            setattr(optimiser, name, value)


@contextlib.contextmanager
def _standing_still(optimiser: torch.optim.Optimizer) -> Iterator[None]:
    """Rates and decay of zero."""
    kept: list[dict[str, Any]] = []
    for group in optimiser.param_groups:
        kept.append({name: group[name] for name in ("lr", "weight_decay") if name in group})
    try:
        for group in optimiser.param_groups:
            if "lr" in group:
                rate = group["lr"]
                group["lr"] = torch.zeros_like(rate) if isinstance(rate, torch.Tensor) else 0.0
            if "weight_decay" in group:
                group["weight_decay"] = 0.0
        yield
    finally:
        for group, values in zip(optimiser.param_groups, kept, strict=True):
            group.update(values)
