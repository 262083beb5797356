"""Linear layers in fp8 for trained models: weights in e4m3 with a scale per layer.

Activations are scaled as they come, products run in `torch._scaled_mm` and come out in bf16. Layers
whose sides are no multiples of 16 stay in bf16: the kernels take no others.
"""

from __future__ import annotations

import torch
from torch import nn

_E4M3 = torch.float8_e4m3fn
_LARGEST = torch.finfo(_E4M3).max
_MULTIPLE = 16


class Fp8Linear(nn.Module):
    """A linear layer whose weights are held in fp8. For inference alone."""

    weight: torch.Tensor
    weight_scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, scale = quantise(linear.weight.detach())
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("weight", weight)
        self.register_buffer("weight_scale", scale)
        bias = None if linear.bias is None else linear.bias.detach().to(torch.bfloat16)
        self.register_buffer("bias", bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The layer's product, in bf16."""
        flat = inputs.reshape(-1, self.in_features)
        values, scale = quantise(flat)
        result = torch._scaled_mm(
            values, self.weight.t(), scale, self.weight_scale, out_dtype=torch.bfloat16
        )
        if self.bias is not None:
            result = result + self.bias
        return result.reshape(*inputs.shape[:-1], self.out_features)


def quantise(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor in e4m3, and the factor that brings it back."""
    scale = (tensor.abs().amax().float() / _LARGEST).clamp(min=1e-12)
    return (tensor.float() / scale).clamp(-_LARGEST, _LARGEST).to(_E4M3), scale


def convert(module: nn.Module) -> nn.Module:
    """A trained model with its linear layers in fp8 and all else in bf16, changed in place."""
    module = module.to(torch.bfloat16)
    if _fits(module):
        return Fp8Linear(module)  # type: ignore[arg-type]  # _fits says that it is a Linear
    _convert_inside(module)
    return module


def _convert_inside(module: nn.Module) -> None:
    for name, child in module.named_children():
        if _fits(child):
            setattr(module, name, Fp8Linear(child))  # type: ignore[arg-type]  # as above
        else:
            _convert_inside(child)


def _fits(module: nn.Module) -> bool:
    # Subclasses (quantised, parametrised) compute in a way of their own.
    return (
        type(module) is nn.Linear
        and module.in_features % _MULTIPLE == 0
        and module.out_features % _MULTIPLE == 0
    )
