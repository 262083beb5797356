"""Models, losses and batches on torch's fake tensors: shapes and formats, no memory, no values."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._pytree import tree_iter

from anyrig.training.batch import map_leaves

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from anyrig.training.losses import Loss


def copy_model_as_fake(
    model: nn.Module, mode: FakeTensorMode, device: str | None = None
) -> nn.Module:
    """A copy of a model without memory; the model may be on the `meta` device.

    Args:
        model: it is not changed; tensors that are no parameters or buffers are replaced as well.
        mode: of the fake tensors.
        device: that the copy claims to be on; None is the model's own.
    """
    tensors = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        tensors += [one for one in tree_iter(list(vars(module).values())) if _is_tensor(one)]
    # deepcopy takes what is in the memo, by identity, instead of a copy.
    memo: dict[int, Any] = {id(one): _copy_tensor(one, mode, device) for one in tensors}
    return copy.deepcopy(model, memo)


def copy_loss_as_fake(loss: Loss, mode: FakeTensorMode, device: str | None = None) -> Loss:
    """A copy of a loss: what it keeps from its first call on must not be fake in the real ones."""
    if isinstance(loss, nn.Module):
        return copy_model_as_fake(loss, mode, device)
    copied = copy.copy(loss)
    if copied is not loss:  # a function is its own copy
        for name, value in list(getattr(copied, "__dict__", {}).items()):
            if isinstance(value, nn.Module):
                setattr(copied, name, copy_model_as_fake(value, mode, device))
    return copied


def copy_batch_as_fake(batch: Any, mode: FakeTensorMode, device: str | None = None) -> Any:
    return map_leaves(
        batch, lambda leaf: _copy_tensor(leaf, mode, device) if _is_tensor(leaf) else leaf
    )


def is_fake(value: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _copy_tensor(tensor: torch.Tensor, mode: FakeTensorMode, device: str | None) -> torch.Tensor:
    if device is None:
        return mode.from_tensor(tensor)
    with mode:
        made = torch.empty_strided(
            tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device
        )
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made
