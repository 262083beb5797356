"""The module that made something not finite is named."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.training.watch.health import NotFinite, find_nonfinite


class Spoils(nn.Module):
    """Its output is not finite from a position on."""

    def __init__(self, value: float = float("inf")) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[0, :3] = self.value
        return x


class SpoilsGradient(nn.Module):
    """Its output is finite, the gradient of its input is not: the root at zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 0).sqrt()


def runs(model: nn.Module, inputs: torch.Tensor) -> Any:
    def run() -> torch.Tensor:
        loss: torch.Tensor = model(inputs).float().pow(2).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    return run


def found_in(model: nn.Module, inputs: torch.Tensor | None = None) -> NotFinite | None:
    return find_nonfinite(model, runs(model, torch.randn(4, 8) if inputs is None else inputs))


def nested(inner: nn.Module) -> nn.Module:
    block = nn.Sequential(nn.Linear(8, 8), inner, nn.Linear(8, 8))
    return nn.Sequential(nn.Linear(8, 8), nn.ModuleDict({"block": block})["block"], nn.Tanh())


def test_a_healthy_model_has_nothing() -> None:
    assert found_in(nested(nn.GELU())) is None


@pytest.mark.parametrize("value", [float("inf"), float("nan"), float("-inf")])
def test_an_output(value: float) -> None:
    found = found_in(nested(Spoils(value)))
    assert found is not None
    assert (found.module, found.kind, found.what) == ("1.1", "Spoils", "output")
    assert (found.num_bad, found.num_values, found.shape) == (3, 32, (4, 8))
    assert found.text == "1.1 (Spoils): output is not finite: 3 of 32 values (4x8, float32)"


def test_a_gradient() -> None:
    class Adds(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(Adds(), SpoilsGradient()), Adds())
    found = found_in(model)
    assert found is not None
    assert (found.module, found.kind, found.what) == ("1.1", "SpoilsGradient", "gradient")


def test_a_weight_and_a_buffer() -> None:
    model = nested(nn.BatchNorm1d(8))
    with torch.no_grad():
        model.get_parameter("1.2.weight")[0, 0] = float("nan")
    found = found_in(model)
    assert found is not None
    assert (found.module, found.what, found.name, found.num_bad) == ("1.2", "weight", "weight", 1)
    model = nested(nn.BatchNorm1d(8))
    model.get_buffer("1.1.running_var").fill_(float("inf"))
    found = found_in(model)
    assert found is not None
    assert (found.module, found.what, found.name) == ("1.1", "buffer", "running_var")


def test_a_mask_is_no_fault() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            mask = torch.full((8, 8), float("-inf")).triu(1)
            self.register_buffer("mask", mask)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x @ x.T @ torch.ones(4, 8)) + (x.T @ x + self.get_buffer("mask")).softmax(-1)[
                :4
            ]

    assert found_in(nested(Masked())) is None


def test_the_data() -> None:
    inputs = torch.randn(4, 8)
    inputs[2, 2] = float("nan")
    found = found_in(nested(nn.ReLU()), inputs)
    assert found is not None
    assert (found.module, found.what, found.num_bad) == ("", "input", 1)


def test_a_loss_outside_of_the_model() -> None:
    model = nn.Linear(8, 8)

    def run() -> torch.Tensor:
        return torch.log(torch.relu(model(torch.randn(4, 8)) * 0)).sum()

    found = find_nonfinite(model, run)
    assert found is not None
    assert found.what == "loss"


def test_gradients_that_the_loss_spoils_are_told_of_what_they_reach_first() -> None:
    model = nn.Linear(8, 8)

    def run() -> None:
        (model(torch.randn(4, 8)) * 0).sqrt().sum().backward()

    found = find_nonfinite(model, run)
    assert found is not None
    assert (found.module, found.kind, found.what) == ("", "Linear", "gradient")


def test_nothing_is_changed() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(), SpoilsGradient())
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    inputs = torch.linspace(0, 1, 32).view(4, 8)
    assert found_in(model, inputs) is not None
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(
        weight.grad is not None and bool((weight.grad == 1).all()) for weight in model.parameters()
    )
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not any(weight._backward_hooks for weight in model.parameters())
