"""An optimiser's state with parameters by name: what torch numbers, a checkpoint has to name.

Numbers depend on the order in which groups were made; names are the same whatever number of
processes trains, and whether the model is compiled or wrapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from anyrig.errors import InvalidInputError

# What torch.compile and checkpoint wrappers put into the names of what they wrap.
_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.")
# Which kernels do the step: of this device and this run, not of the one that saved.
_OWN = ("params", "fused", "foreach", "capturable", "differentiable")


def plain_name(name: str) -> str:
    """A parameter's name in the model before anything was wrapped around its modules."""
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def plain_state(model: nn.Module) -> dict[str, torch.Tensor]:
    """The model's weights and buffers under plain names; the tensors are the model's own."""
    return {
        plain_name(name): value
        for name, value in model.state_dict().items()
        if isinstance(value, torch.Tensor)
    }


def names_of(model: nn.Module, optimiser: torch.optim.Optimizer) -> list[str]:
    """The name of each of the optimiser's parameters, in the order of its numbers.

    A parameter that the model does not have, such as a master copy, goes by its number (`#3`).
    """
    known = {id(value): plain_name(name) for name, value in model.named_parameters()}
    held = [value for group in optimiser.param_groups for value in group["params"]]
    return [known.get(id(value), f"#{number}") for number, value in enumerate(held)]


def named_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """The optimiser's `state_dict` by name; its tensors are not copies."""
    names, state = names_of(model, optimiser), optimiser.state_dict()
    groups = [
        {**group, "params": [names[number] for number in group["params"]]}
        for group in state["param_groups"]
    ]
    inner = {
        names[key] if isinstance(key, int) else key: value for key, value in state["state"].items()
    }
    return {**state, "state": inner, "param_groups": groups}


def load_named(
    model: nn.Module, optimiser: torch.optim.Optimizer, state: Mapping[str, Any]
) -> None:
    """Put a state by name back, whatever order its parameters were in."""
    numbers = {name: number for number, name in enumerate(names_of(model, optimiser))}
    _check_groups(list(numbers), optimiser, state["param_groups"])
    own = optimiser.state_dict()["param_groups"]
    groups = [
        {**saved, **{key: mine[key] for key in _OWN if key in mine}}
        for saved, mine in zip(state["param_groups"], own, strict=True)
    ]
    # torch takes tensors over as they are, and steps would then write into the caller's.
    inner = {numbers.get(key, key): _copied(value) for key, value in state["state"].items()}
    optimiser.load_state_dict({**state, "state": inner, "param_groups": groups})


def _copied(values: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    return {
        key: value.clone() if isinstance(value, torch.Tensor) else value
        for key, value in values.items()
    }


def _check_groups(
    names: list[str], optimiser: torch.optim.Optimizer, saved: list[Mapping[str, Any]]
) -> None:
    """Every group must hold what it held, or a rate or a decay would go to other parameters."""
    start, mine = 0, []
    for group in optimiser.param_groups:
        mine.append(set(names[start : start + len(group["params"])]))
        start += len(group["params"])
    theirs = [set(group["params"]) for group in saved]
    if mine != theirs:
        odd = sorted(set().union(*mine) ^ set().union(*theirs))[:3]
        told = f": {', '.join(odd)}" if odd else " in other groups"
        raise InvalidInputError(
            f"the optimiser's parameters are not those of the checkpoint{told}",
            hint="Make the model and the optimiser's groups as they were, or leave its state out.",
        )


def load_weights(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copy whole weights into a plain model by their plain names; what does not fit is refused.

    Of weights that are tied one name is enough, as safetensors files keep them.
    """
    check_names(model, weights)
    real = {plain_name(name): name for name in model.state_dict()}
    model.load_state_dict({real[name]: value for name, value in weights.items()}, strict=False)


def check_names(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Refuse weights that are not the model's, in words, before anything is changed."""
    from anyrig.training.checkpoint.match import check_weights  # it needs plain names itself

    check_weights(model, weights)


class WholeModel:
    """What a group keeps and loads where every process has all of the model."""

    def weights(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """This process' weights, which are everybody's; copy them before the next step."""
        return plain_state(model)

    def optimiser_state(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
        """This process' state, which is everybody's; copy it before the next step."""
        return named_state(model, optimiser)

    def load(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer | None,
        weights: Mapping[str, torch.Tensor],
        optimiser_state: Mapping[str, Any] | None,
    ) -> None:
        """Put weights and state back; every process reads them all."""
        load_weights(model, weights)
        if optimiser is not None and optimiser_state is not None:
            load_named(model, optimiser, optimiser_state)
