"""Linear layers in fp8 for inference: weights in e4m3 with one scale per layer.

Activations are scaled as they come, products run in `torch._scaled_mm` and return bf16. Layers
whose sides are not multiples of 16 stay in bf16: the kernels accept no others.
"""

from __future__ import annotations

import torch
from torch import nn

_DTYPE = torch.float8_e4m3fn
_MAX = torch.finfo(_DTYPE).max
_MULTIPLE = 16


class Fp8InferenceLinear(nn.Module):
    """A linear layer whose weights are stored in fp8."""

    weight: torch.Tensor
    weight_scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, scale = quantize(linear.weight.detach())
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("weight", weight)
        self.register_buffer("weight_scale", scale)
        bias = None if linear.bias is None else linear.bias.detach().to(torch.bfloat16)
        self.register_buffer("bias", bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        values, scale = quantize(inputs.reshape(-1, self.in_features))
        result = torch._scaled_mm(
            values, self.weight.t(), scale, self.weight_scale, out_dtype=torch.bfloat16
        )
        if self.bias is not None:
            result = result + self.bias
        return result.reshape(*inputs.shape[:-1], self.out_features)


def quantize(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor in e4m3, and the factor that restores its values."""
    scale = (tensor.abs().amax().float() / _MAX).clamp(min=1e-12)
    return (tensor.float() / scale).clamp(-_MAX, _MAX).to(_DTYPE), scale


def convert_to_fp8(model: nn.Module) -> nn.Module:
    """Convert a trained model in place: linear layers to fp8, everything else to bf16."""
    model = model.to(torch.bfloat16)
    if _is_convertible(model):
        return Fp8InferenceLinear(model)  # type: ignore[arg-type]  # it is a Linear
    _convert_children(model)
    return model


def _convert_children(module: nn.Module) -> None:
    for name, child in module.named_children():
        if _is_convertible(child):
            setattr(module, name, Fp8InferenceLinear(child))  # type: ignore[arg-type]  # it is a Linear
        else:
            _convert_children(child)


def _is_convertible(module: nn.Module) -> bool:
    # Subclasses (quantised, parametrised) compute in their own way.
    return (
        type(module) is nn.Linear
        and module.in_features % _MULTIPLE == 0
        and module.out_features % _MULTIPLE == 0
    )
