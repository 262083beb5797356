"""State by name: whatever the order of groups, wrappers around modules, and tied weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError
from anyrig.training.distributed.alone import Alone
from tests.training.ranks import model as toy


class Wrapped(nn.Module):
    """As torch.compile wraps a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._orig_mod = model

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self._orig_mod(words)
        return out


def _trained(model: nn.Module, *, turned: bool = False) -> torch.optim.Optimizer:
    """Two groups by shape, with a step taken."""
    held = [one for one in model.parameters() if one.requires_grad]
    held = held[::-1] if turned else held
    optimiser = torch.optim.AdamW(
        [
            {"params": [one for one in held if one.dim() > 1], "weight_decay": 0.1},
            {"params": [one for one in held if one.dim() == 1], "weight_decay": 0.0},
        ],
        lr=0.01,
    )
    assert not toy.gradients(model, Alone(), toy.items(), 6)
    optimiser.step()
    optimiser.zero_grad()
    return optimiser


def _step(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    assert not toy.gradients(model, Alone(), toy.items(1), 6)
    optimiser.step()
    return {name: value.clone() for name, value in Alone().weights(model).items()}


def test_a_wrapped_model_with_groups_in_another_order_goes_on_as_the_plain_one() -> None:
    group, plain = Alone(), toy.Model()
    optimiser = _trained(plain)
    weights = {name: value.clone() for name, value in group.weights(plain).items()}
    del weights["head.weight"]  # tied to the embedding: files keep one of the two
    state = group.optimiser_state(plain, optimiser)
    assert "words.weight" in state["param_groups"][0]["params"]
    other = Wrapped(toy.Model(seed=5))
    other_optimiser = _trained(other, turned=True)
    group.load(other, other_optimiser, weights, state)
    wanted = _step(plain, optimiser)
    found = _step(other, other_optimiser)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_state_is_copied_when_it_is_loaded() -> None:
    model = toy.Model()
    optimiser = _trained(model)
    state = Alone().optimiser_state(model, optimiser)
    before = state["state"]["words.weight"]["exp_avg"].clone()
    other = toy.Model(seed=1)
    again = _trained(other)
    Alone().load(other, again, Alone().weights(model), state)
    _step(other, again)
    assert torch.equal(state["state"]["words.weight"]["exp_avg"], before)


def test_other_groups_are_refused_before_rates_go_astray() -> None:
    model = toy.Model()
    state = Alone().optimiser_state(model, _trained(model))
    one_group = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad])
    with pytest.raises(InvalidInputError, match="in other groups"):
        Alone().load(model, one_group, Alone().weights(model), state)
    fewer = torch.optim.AdamW(list(model.blocks.parameters()))
    with pytest.raises(
        InvalidInputError, match=r"not those of the checkpoint: unused\.bias"
    ) as caught:
        Alone().load(model, fewer, Alone().weights(model), state)
    assert caught.value.hint


def test_a_parameter_that_the_model_lacks_goes_by_its_number() -> None:
    model, master = nn.Linear(2, 1, bias=False), nn.Parameter(torch.ones(1, 2))
    optimiser = torch.optim.SGD([*model.parameters(), master], momentum=0.9)
    master.grad = torch.ones(1, 2)
    optimiser.step()
    state = Alone().optimiser_state(model, optimiser)
    assert state["param_groups"][0]["params"] == ["weight", "#1"]
    assert list(state["state"]) == ["#1"]
    Alone().load(model, optimiser, Alone().weights(model), state)
    assert torch.equal(optimiser.state[master]["momentum_buffer"], torch.ones(1, 2))
