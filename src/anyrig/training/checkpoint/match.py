"""Whether weights belong to a model, said in words before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from anyrig.errors import InvalidInputError
from anyrig.training.distributed.names import plain_name

_SHOWN = 3
_PREFIXES = ("module.", "_orig_mod.", "model.", "transformer.", "base_model.model.")


def check_weights(model: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Raise InvalidInputError that names the first names that miss, are too many or have another
    shape.
    """
    state = model.state_dict(keep_vars=True)
    wanted = {plain_name(n): one for n, one in state.items() if isinstance(one, torch.Tensor)}
    missing = _missing(wanted, weights)
    extra = [name for name in weights if name not in wanted]
    shaped = [
        f"{name} is {_shape(weights[name])}, the model's {_shape(tensor)}"
        for name, tensor in wanted.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    parts = [
        _told("the weights lack", missing),
        _told("the model does not know", extra),
        _told("", shaped),
    ]
    said = "; ".join(filter(None, parts))
    if said:
        raise InvalidInputError(
            f"the weights are not this model's: {said}", hint=_hint(wanted, weights)
        )


def _missing(wanted: Mapping[str, torch.Tensor], weights: Mapping[str, object]) -> list[str]:
    """Names without a weight, other than those whose twin (a tied weight) has one."""
    there = {id(tensor) for name, tensor in wanted.items() if name in weights}
    return [
        name for name, tensor in wanted.items() if name not in weights and id(tensor) not in there
    ]


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a single number"


def _told(start: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{start} {', '.join(names[:_SHOWN])}{more}".strip() if names else ""


def _hint(wanted: Mapping[str, object], weights: Mapping[str, object]) -> str:
    for prefix in _PREFIXES if set(wanted) != set(weights) else ():
        if {name.removeprefix(prefix) for name in weights} == set(wanted):
            return f"The names differ by {prefix!r} alone: take it off the weights' names."
        if {name.removeprefix(prefix) for name in wanted} == set(weights):
            return f"The names differ by {prefix!r} alone: put it before the weights' names."
    return "Build the model with the settings that the checkpoint was made with."
