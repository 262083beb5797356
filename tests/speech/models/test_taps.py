"""Convolutions tap by tap."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from anyrig.speech.models.vits import TapConv, without_cudnn


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(6, 10, 3),
        nn.Conv1d(6, 10, 5, padding=2),
        nn.Conv1d(8, 8, 3, padding=9, dilation=9, groups=8),
        nn.Conv1d(4, 7, 1, bias=False),
    ],
    ids=["plain", "padded", "each alone", "one tap"],
)
def test_it_is_the_layer_it_came_from(layer: nn.Conv1d) -> None:
    x = torch.randn(3, layer.in_channels, 40)
    with torch.inference_mode():
        assert torch.allclose(TapConv(layer)(x), layer(x), atol=1e-5)


def test_a_whole_module_is_changed_and_says_the_same() -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 8, 3, groups=8))
    module = nn.Sequential(inner, nn.Conv1d(8, 2, 3, stride=2))
    changed = copy.deepcopy(module)
    without_cudnn(changed)
    kinds = [type(layer).__name__ for layer in changed.modules()]
    assert kinds.count("TapConv") == 2
    assert kinds.count("Conv1d") == 1  # one that steps by two is left alone
    x = torch.randn(2, 4, 30)
    with torch.inference_mode():
        assert torch.allclose(changed(x), module(x), atol=1e-5)
