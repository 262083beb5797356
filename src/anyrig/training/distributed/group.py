"""The processes that train one model together; one process is a group of one.

An optimizer's state has its parameters by name: torch numbers them, and numbers depend on the order
in which groups were made. Names are the same whatever number of processes trains, and whether the
model is compiled or wrapped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence, Set
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import nn

from anyrig.errors import InvalidInputError


class StepTotals(NamedTuple):
    """What processes agreed on at the end of a step."""

    ran_out: bool
    """Whether any process ran out of memory, so that none may step."""
    sums: list[float]
    """Over all processes."""


class Group:
    """The processes that train one model together; this one is a process by itself."""

    rank = 0
    size = 1
    lockstep = False
    """Whether processes wait for each other inside a micro batch, validation included: all run the
    same number of them, and a shortage is answered by a new start (`restarting`), not by `finish`.
    """

    def prepare(self, model: nn.Module) -> nn.Module:
        """The model as the group trains it: the same weights everywhere, or a shard of them."""
        return model

    def adopt_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Point an optimizer made before `prepare` at the parameters that the model has now."""

    def share(self, num_items: int) -> tuple[int, int]:
        """Which items of a global batch are this process': first and count, in rank order.

        Called once for each batch by every process, in order; it may be ahead of the steps.
        """
        return 0, num_items

    def counts(self, num_items: int) -> list[int]:
        """How many items of a batch each process gets from now on."""
        return [num_items]

    def accumulate(self, *, last: bool) -> AbstractContextManager[object]:
        """Around forward and backward of a micro batch; gradients travel in the last one."""
        return contextlib.nullcontext()

    def finish(self, *, ran_out: bool, sums: Sequence[float] = ()) -> StepTotals:
        """Wait for the sums of the gradients, and add up what else processes must agree on.

        Called once by every process after its micro batches, or where one of them ran out. The
        only exchange of a step beside the gradients.
        """
        return StepTotals(ran_out, list(sums))

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, in place; on the host or on the device."""
        return tensor

    def max(self, tensor: torch.Tensor) -> torch.Tensor:
        """The largest over all processes, in place."""
        return tensor

    def min(self, number: int) -> int:
        """The smallest of a host number over all processes."""
        return number

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Give every process the first one's buffers, such as batch statistics: those are saved."""

    def record_speed(self, samples: int) -> None:
        """How many items this process computed in a step, for shares by speed.

        Called by every process after each step, as it may be collective.
        """

    def state_dict(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """All weights and buffers whole, under the plain model's names; collective. May be empty
        in processes other than the first. Copy them before the next step.
        """
        return plain_state_dict(model)

    def gather(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The whole of tensors that are laid out as weights are, as in `state_dict`; collective."""
        return dict(tensors)

    def optimizer_state_dict(
        self, model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> dict[str, Any]:
        """The optimizer's whole `state_dict`, parameters by name instead of number; collective.
        Copy it before the next step.
        """
        return named_optimizer_state(model, optimizer)

    def load_state_dict(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        weights: Mapping[str, torch.Tensor],
        optimizer_state: Mapping[str, Any] | None,
    ) -> None:
        """Put whole weights and state back, whatever number of processes they came from; every
        process reads them all.
        """
        load_weights(model, weights)
        if optimizer is not None and optimizer_state is not None:
            load_optimizer_state(model, optimizer, optimizer_state)

    def barrier(self) -> None:
        """Wait for all."""

    def close(self) -> None:
        """Leave the model as it was found; processes stay together for the next one."""


# What torch.compile and checkpoint wrappers put into the names of what they wrap.
_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.")
# Which kernels do the step: of this device and this run, not of the one that saved.
_OWN = ("params", "fused", "foreach", "capturable", "differentiable")


def plain_name(name: str) -> str:
    """A parameter's name in the model before anything was wrapped around its modules."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def plain_state_dict(model: nn.Module) -> dict[str, torch.Tensor]:
    """The model's weights and buffers under plain names; the tensors are the model's own."""
    return {
        plain_name(name): value
        for name, value in model.state_dict().items()
        if isinstance(value, torch.Tensor)
    }


def parameter_names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """The name of each of the optimizer's parameters, in the order of its numbers.

    A parameter that the model does not have, such as a master copy, goes by its number (`#3`).
    """
    known = {id(value): plain_name(name) for name, value in model.named_parameters()}
    weights = [value for group in optimizer.param_groups for value in group["params"]]
    return [known.get(id(value), f"#{number}") for number, value in enumerate(weights)]


def named_optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The optimizer's `state_dict` by name; its tensors are not copies."""
    names, state = parameter_names(model, optimizer), optimizer.state_dict()
    groups = [
        {**group, "params": [names[number] for number in group["params"]]}
        for group in state["param_groups"]
    ]
    inner = {
        names[key] if isinstance(key, int) else key: value for key, value in state["state"].items()
    }
    return {**state, "state": inner, "param_groups": groups}


def load_optimizer_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]
) -> None:
    """Put a state by name back, whatever order its parameters were in."""
    numbers = {name: number for number, name in enumerate(parameter_names(model, optimizer))}
    _check_groups(list(numbers), optimizer, state["param_groups"])
    own = optimizer.state_dict()["param_groups"]
    _check_optimizer(own[0].keys(), state["param_groups"][0].keys(), optimizer)
    groups = [
        {**saved, **{key: mine[key] for key in _OWN if key in mine}}
        for saved, mine in zip(state["param_groups"], own, strict=True)
    ]
    weights = [value for group in optimizer.param_groups for value in group["params"]]
    inner = {
        numbers.get(key, key): _copy_state(value, weights[numbers[key]] if key in numbers else None)
        for key, value in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": inner, "param_groups": groups})


def _copy_state(values: Any, parameter: torch.Tensor | None) -> Any:
    """torch takes tensors over as they are, and steps would then write into the caller's. Fused
    kernels need them in the parameter's memory order, such as channels last.
    """
    if not isinstance(values, Mapping):
        return values
    found = dict(values)
    for key, value in values.items():
        if isinstance(value, torch.Tensor):
            found[key] = value.clone()
            if parameter is not None and value.shape == parameter.shape and value.dim() > 1:
                like = torch.empty_like(parameter, dtype=value.dtype, device=value.device)
                found[key] = like.copy_(value)
    return found


def _check_optimizer(names: Set[str], saved: Set[str], optimizer: torch.optim.Optimizer) -> None:
    """The settings of a group tell which optimizer it is of; a newer torch may know one more."""
    lacking, unknown = names - saved - {*_OWN}, saved - names - {*_OWN, "initial_lr"}
    if lacking and unknown:
        raise InvalidInputError(
            f"the checkpoint is of another optimizer than {type(optimizer).__name__}: it has "
            f"{', '.join(sorted(unknown))}",
            hint="Continue with the same optimizer, or start over with resume=False.",
        )


def _check_groups(
    names: list[str], optimizer: torch.optim.Optimizer, saved: list[Mapping[str, Any]]
) -> None:
    """Every group must hold what it held, or a rate or a decay would go to other parameters."""
    start, mine = 0, []
    for group in optimizer.param_groups:
        mine.append(set(names[start : start + len(group["params"])]))
        start += len(group["params"])
    theirs = [set(group["params"]) for group in saved]
    if mine != theirs:
        odd = sorted(set().union(*mine) ^ set().union(*theirs))[:3]
        which = f": {', '.join(odd)}" if odd else " in other groups"
        raise InvalidInputError(
            f"the optimizer's parameters are not those of the checkpoint{which}",
            hint="Make the model and the optimizer's groups as they were, or leave its state out.",
        )


def load_weights(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copy whole weights into a plain model by their plain names; what does not fit is refused.

    Of weights that are tied one name is enough, as safetensors files keep them.
    """
    check_weights(model, weights)
    real = {plain_name(name): name for name in model.state_dict()}
    model.load_state_dict({real[name]: value for name, value in weights.items()}, strict=False)


_SHOWN = 3
_PREFIXES = ("module.", "_orig_mod.", "model.", "transformer.", "base_model.model.")


def check_weights(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Raise InvalidInputError that names the first names that miss, are too many or have another
    shape.
    """
    state = model.state_dict(keep_vars=True)
    saved = {plain_name(n): one for n, one in state.items() if isinstance(one, torch.Tensor)}
    missing = _find_missing(saved, weights)
    extra = [name for name in weights if name not in saved]
    shaped = [
        f"{name} is {_format_shape(weights[name])}, the model's {_format_shape(tensor)}"
        for name, tensor in saved.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    parts = [
        _list_names("the weights lack", missing),
        _list_names("the model does not know", extra),
        _list_names("", shaped),
    ]
    problems = "; ".join(filter(None, parts))
    if problems:
        raise InvalidInputError(
            f"the weights are not this model's: {problems}", hint=_suggest_fix(saved, weights)
        )


def _find_missing(saved: Mapping[str, torch.Tensor], weights: Mapping[str, object]) -> list[str]:
    """Names without a weight, other than those whose twin (a tied weight) has one."""
    there = {id(tensor) for name, tensor in saved.items() if name in weights}
    return [
        name for name, tensor in saved.items() if name not in weights and id(tensor) not in there
    ]


def _format_shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a single number"


def _list_names(start: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{start} {', '.join(names[:_SHOWN])}{more}".strip() if names else ""


def _suggest_fix(saved: Mapping[str, object], weights: Mapping[str, object]) -> str:
    for prefix in _PREFIXES if set(saved) != set(weights) else ():
        if {name.removeprefix(prefix) for name in weights} == set(saved):
            return f"The names differ by {prefix!r} alone: take it off the weights' names."
        if {name.removeprefix(prefix) for name in saved} == set(weights):
            return f"The names differ by {prefix!r} alone: put it before the weights' names."
    return "Build the model with the settings that the checkpoint was made with."
