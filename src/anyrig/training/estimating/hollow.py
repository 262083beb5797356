"""Models and batches without data: the same shapes and formats, no memory, nothing loaded."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import nn

from anyrig.errors import InvalidInputError
from anyrig.training.batch import map_leaves

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode

T = TypeVar("T")
Make = Callable[[], nn.Module]


class Hollow(NamedTuple):
    """A model without data, and how it came about."""

    model: nn.Module
    reason: str


def hollow(model: nn.Module | Make, mode: FakeTensorMode) -> Hollow:
    """A model that holds no data. One that is given stays as it is.

    Args:
        model: a module, on any device, or a function that makes one; the function's own memory is
            spared wherever it can be made without data.
        mode: whose tensors the model's will be.
    """
    if isinstance(model, nn.Module):
        return Hollow(_emptied(model, mode), "a copy without data of the model given")
    with contextlib.suppress(Exception), mode:  # what reads its own weights cannot be made so
        return Hollow(_checked(model()), "made without data")
    with contextlib.suppress(Exception), torch.device("meta"):
        return Hollow(_emptied(_checked(model()), mode), "made on torch's meta device")
    return Hollow(_emptied(_checked(model()), mode), "made with data, which was then left")


def batch_like(example: T) -> Callable[[int], T]:
    """A function that gives batches of any size, without data, like an example of any size.

    Every tensor's first side counts the items; what has no sides is passed on.
    """

    def make(size: int) -> T:
        def grown(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0:
                return leaf
            return torch.empty((size, *leaf.shape[1:]), dtype=leaf.dtype, device="meta")

        found: T = map_leaves(example, grown)
        return found

    return make


def hollow_batch(batch: T, mode: FakeTensorMode) -> T:
    """A batch without data, every tensor of it on the device that is estimated for."""

    def changed(leaf: Any) -> Any:
        return _empty(leaf, mode) if isinstance(leaf, torch.Tensor) else leaf

    found: T = map_leaves(batch, changed)
    return found


def _checked(made: object) -> nn.Module:
    if not isinstance(made, nn.Module):
        raise InvalidInputError(
            f"a {type(made).__name__} is not a model", hint="Pass a torch module or what makes one."
        )
    return made


def _emptied(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """A copy whose tensors are replaced before any of them is copied."""
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        memo[id(parameter)] = nn.Parameter(
            _empty(parameter.detach(), mode), requires_grad=parameter.requires_grad
        )
    for buffer in model.buffers():
        memo[id(buffer)] = _empty(buffer, mode)
    kept = list(memo.values())  # deepcopy looks things up by number: none may be made anew
    made = copy.deepcopy(model, memo)
    del kept
    return made


def _empty(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    with mode:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
