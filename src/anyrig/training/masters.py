"""A model that computes in bf16 throughout, and the fp32 weights behind it that are trained.

Under autocast the stream of activations between layers often stays in fp32, because it began there
(an embedding's rows, a sum with an fp32 tensor). With the weights themselves in bf16 it is bf16
from end to end: half the bytes to move between kernels. What is learnt is added to the masters, in
fp32, and their bf16 copies are what the model computes with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn


class Masters(nn.Module):
    """The fp32 weights of a model in half: its names, its buffers, and what an optimiser trains.

    It stands in for the model wherever weights are saved or loaded.

    Args:
        model: its trained fp32 parameters become `dtype`, in place; frozen ones and buffers stay,
            and so do the few of batch norms, whose kernels want them as their statistics are.
        dtype: what the model computes in.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        # Not a submodule: its parameters must not be found twice.
        self._model = (model,)
        self._pairs: dict[str, tuple[nn.Parameter, nn.Parameter]] = {}
        kept = {
            id(weight)
            for module in model.modules()
            if isinstance(module, nn.modules.batchnorm._NormBase)
            for weight in module.parameters(recurse=False)
        }
        for name, weight in model.named_parameters():
            if weight.requires_grad and weight.dtype == torch.float32 and id(weight) not in kept:
                master = nn.Parameter(weight.detach().clone())
                weight.data = weight.data.to(dtype)
                self._pairs[name] = (weight, master)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """The masters under the model's names; what has none is the model's own."""
        for name, weight in self._model[0].named_parameters(remove_duplicate=remove_duplicate):
            yield prefix + name, self._pairs[name][1] if name in self._pairs else weight

    def named_modules(self, *args: Any, **options: Any) -> Iterator[tuple[str, nn.Module]]:
        """The model's, so that norms are known as such."""
        found: Iterator[tuple[str, nn.Module]] = self._model[0].named_modules(*args, **options)
        return found

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Any]:  # type: ignore[override]
        """The model's, with masters in place of their copies; tied names share a master."""
        by_weight = {id(weight): master for weight, master in self._pairs.values()}
        found: dict[str, Any] = self._model[0].state_dict(keep_vars=True)
        return {
            name: (by_weight.get(id(value), value)).detach()
            if isinstance(value, torch.Tensor)
            else value
            for name, value in found.items()
        }

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Into the masters and the rest of the model; the copies follow."""
        answer = self._model[0].load_state_dict(state_dict, strict=strict)
        own = self.state_dict()
        with torch.no_grad():
            for name, value in state_dict.items():
                if isinstance(value, torch.Tensor) and name in own:
                    own[name].copy_(value)
        self.publish()
        return answer

    def gather(self) -> None:
        """Add the copies' gradients to the masters', in fp32, and free them."""
        first: list[tuple[torch.Tensor, nn.Parameter]] = []
        sums: list[torch.Tensor] = []
        added: list[torch.Tensor] = []
        for weight, master in self._pairs.values():
            if weight.grad is None:
                continue
            if master.grad is None:
                first.append((weight.grad, master))
            else:
                sums.append(master.grad)
                added.append(weight.grad)
            weight.grad = None
        if first:
            made = [torch.empty_like(master) for _, master in first]
            torch._foreach_copy_(made, [gradient for gradient, _ in first])
            for (_, master), gradient in zip(first, made, strict=True):
                master.grad = gradient.detach()
        if sums:
            torch._foreach_add_(sums, [gradient.float() for gradient in added])

    def give_back(self) -> None:
        """Make the masters the model's weights again: what was trained, in fp32."""
        for weight, master in self._pairs.values():
            weight.data = master.data
        self._pairs = {}

    def publish(self) -> None:
        """Copy the masters into the model."""
        if not self._pairs:  # a model in fp64, or one that has its weights back
            return
        with torch.no_grad():
            torch._foreach_copy_(
                [weight for weight, _ in self._pairs.values()],
                [master for _, master in self._pairs.values()],
            )
