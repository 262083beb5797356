"""Convolutions of a text encoder as sums of matrix products, tap by tap.

In full fp32 cuDNN answers some of these small convolutions with transforms that take tens of
gigabytes: 512 rows of VITS took 87 GB and 2.9 s. A product per tap takes neither.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Taps(nn.Module):
    """A convolution over the last dimension, from torch's own layer."""

    def __init__(self, layer: nn.Conv1d) -> None:
        super().__init__()
        self._each = layer.groups > 1
        self._spread, self._padding = layer.dilation[0], int(layer.padding[0])
        weight = layer.weight.detach()
        self._taps = [weight[:, :, n].contiguous() for n in range(weight.shape[2])]
        self._bias = None if layer.bias is None else layer.bias.detach().unsqueeze(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of [rows, in, steps], [rows, out, steps]."""
        x = F.pad(x, (self._padding, self._padding)) if self._padding else x
        length = x.shape[2] - (len(self._taps) - 1) * self._spread
        total: torch.Tensor | None = None
        for number, tap in enumerate(self._taps):
            part = x[:, :, number * self._spread : number * self._spread + length]
            done = part * tap if self._each else torch.matmul(tap, part)
            total = done if total is None else total.add_(done)
        assert total is not None
        return total if self._bias is None else total.add_(self._bias)


def without_cudnn(module: nn.Module) -> None:
    """Exchange every convolution over time in a module for its taps."""
    for name, inner in list(module.named_children()):
        if isinstance(inner, nn.Conv1d) and _plain(inner):
            setattr(module, name, Taps(inner))
        else:
            without_cudnn(inner)


def _plain(layer: nn.Conv1d) -> bool:
    """Whether it is one of those a text encoder has: step by step, all channels or each alone."""
    alone = layer.groups == layer.in_channels == layer.out_channels
    known = layer.stride[0] == 1 and layer.padding_mode == "zeros"
    return known and (layer.groups == 1 or alone) and not isinstance(layer.padding, str)
