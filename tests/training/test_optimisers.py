"""Optimisers by name: groups, fused kernels, state ahead of time, steps that are called off."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training.lion import Lion
from anyrig.training.optimisers import (
    NAMES,
    groups_of,
    make,
    materialise,
    skip_on_device,
    split_weights,
    supports_found_inf,
)

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))


class Tied(nn.Module):
    """An embedding that is its own head, a norm with two sides, a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(6, 4)
        self.layer = nn.Linear(4, 4)
        self.norm = nn.LayerNorm((2, 4))
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.words.weight
        self.frozen = nn.Linear(4, 4).requires_grad_(False)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def train(model: nn.Module, optimiser: torch.optim.Optimizer, num_steps: int = 3) -> torch.Tensor:
    for _ in range(num_steps):
        optimiser.zero_grad()
        model(X).square().mean().backward()
        optimiser.step()
    return flat(model)


def test_matrices_decay_and_vectors_do_not() -> None:
    model = Tied()
    split = split_weights(model)
    assert [id(weight) for weight in split.decayed] == [
        id(model.words.weight),
        id(model.layer.weight),
    ]
    assert len(split.spared) == 3  # the layer's bias, and the norm's two in spite of their sides
    decayed, spared = groups_of(split, 0.3)
    assert decayed["weight_decay"] == 0.3
    assert spared["weight_decay"] == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_every_name_learns(name: str) -> None:
    model = net()
    before = model(X).square().mean().item()
    optimiser, reason = make(name, model, learning_rate=0.02)
    train(model, optimiser, 20)
    assert model(X).square().mean().item() < before
    assert reason.startswith(name)


def test_options_reach_the_optimiser() -> None:
    adam = make("adamw", net(), learning_rate=0.5, weight_decay=0.25, betas=(0.1, 0.2)).optimiser
    assert adam.param_groups[0]["lr"] == 0.5
    assert adam.param_groups[0]["weight_decay"] == 0.25
    assert adam.param_groups[0]["betas"] == (0.1, 0.2)
    sgd = make("momentum", net(), momentum=0.7).optimiser
    assert sgd.param_groups[0]["momentum"] == 0.7
    assert make("sgd", net(), momentum=0.7).optimiser.param_groups[0]["momentum"] == 0


def test_fused_is_said_and_gives_the_same() -> None:
    quick, plain = net(), net()
    one, why = make("adamw", quick, fused="auto")
    other, why_not = make("adamw", plain, fused=False)
    assert "adamw, fused" in why
    assert "not fused, as set" in why_not
    torch.testing.assert_close(train(quick, one), train(plain, other))


def test_fused_falls_back_with_words() -> None:
    assert "no fused lion" in make("lion", net(), fused=True).reason
    sparse = nn.Sequential(nn.Embedding(4, 2, sparse=True), nn.Linear(2, 2))
    assert "sparse" in make("sgd", sparse, fused=True).reason


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(InvalidSettingError) as caught:
        make("adamW", net())
    assert "adamw" in caught.value.hint
    with pytest.raises(InvalidSettingError) as caught:
        make("quantum", net())
    assert "adafactor" in caught.value.hint


def test_classes_functions_and_instances() -> None:
    model = net()
    by_class = make(torch.optim.NAdam, model, learning_rate=0.5).optimiser
    assert isinstance(by_class, torch.optim.NAdam)
    assert by_class.param_groups[0]["lr"] == 0.5
    by_function = make(lambda groups: torch.optim.SGD(groups, lr=0.25), model).optimiser
    assert by_function.param_groups[0]["lr"] == 0.25
    own = torch.optim.SGD(list(model.parameters())[:1], lr=1.0)
    made = make(own, model)
    assert made.optimiser is own
    assert "3 trainable weights" in made.reason
    with pytest.raises(InvalidInputError, match="none of the model's weights"):
        make(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0), model)
    nothing: Any = lambda groups: len(groups)  # noqa: E731
    with pytest.raises(InvalidInputError, match="no optimiser"):
        make(nothing, model)


def test_weights_by_name_may_be_others_than_the_models() -> None:
    masters = [("layer.weight", torch.zeros(2, 2, requires_grad=True))]
    optimiser = make("adamw", masters).optimiser
    assert optimiser.param_groups[0]["params"][0] is masters[0][1]


def test_nothing_to_train_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no weights"):
        make("adamw", net().requires_grad_(False))


def test_lion_does_what_its_paper_says() -> None:
    weight = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    optimiser = Lion([weight], lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)
    weights, kept = [1.0, -2.0, 3.0], [0.0, 0.0, 0.0]
    for gradient in ([1.0, -1.0, 0.0], [-0.05, 3.0, 1.0]):
        weight.grad = torch.tensor(gradient)
        optimiser.step()
        for at, g in enumerate(gradient):
            move = 0.9 * kept[at] + 0.1 * g
            weights[at] *= 1 - 0.1 * 0.5
            weights[at] -= 0.1 * ((move > 0) - (move < 0))
            kept[at] = 0.99 * kept[at] + 0.01 * g
    assert weight.tolist() == pytest.approx(weights)
    assert optimiser.state[weight]["exp_avg"].tolist() == pytest.approx(kept)


Choice = str | Callable[..., torch.optim.Optimizer]
KINDS: list[tuple[Choice, dict[str, Any]]] = [
    *((name, {"fused": fused}) for name in NAMES for fused in ("auto", False)),
    (torch.optim.RMSprop, {}),
    (torch.optim.RAdam, {}),
    (torch.optim.NAdam, {}),
    (torch.optim.Adadelta, {}),
    (torch.optim.Adamax, {}),
    (torch.optim.Rprop, {}),
    (torch.optim.Adagrad, {}),
    (lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, dampening=0.5), {}),
    (lambda groups: torch.optim.AdamW(groups, lr=torch.tensor(0.1), amsgrad=True), {}),
]


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_state_made_ahead_changes_nothing(kind: Choice, options: dict[str, Any]) -> None:
    ahead, plain = net(), net()
    one = make(kind, ahead, learning_rate=0.05, **options).optimiser
    other = make(kind, plain, learning_rate=0.05, **options).optimiser
    kept = torch.ones_like(next(ahead.parameters()))
    next(ahead.parameters()).grad = kept
    found = materialise(one)
    assert next(ahead.parameters()).grad is kept
    assert torch.equal(flat(ahead), flat(plain))
    state_of = {id(weight): state for weight, state in one.state.items() if state}
    assert bool(state_of) == found.kept or kind == "sgd"
    assert torch.equal(train(ahead, one), train(plain, other))
    assert sum(
        value.nbytes
        for state in other.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    ) == pytest.approx(found.num_bytes)
    assert materialise(one).num_bytes == found.num_bytes


def test_a_state_that_is_there_is_left() -> None:
    model = net()
    optimiser = make("adamw", model).optimiser
    train(model, optimiser, 2)
    before = copy.deepcopy(optimiser.state_dict())
    assert materialise(optimiser).reason == "the state was there already"
    after = optimiser.state_dict()
    for number, state in before["state"].items():
        for name, value in state.items():
            assert torch.equal(value, after["state"][number][name])


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd", "momentum"])
@pytest.mark.parametrize("flag", [1.0, 3.0])
def test_a_flag_on_the_device_calls_a_step_off(name: str, flag: float) -> None:
    """Also the first one, and also where several processes' flags were added up."""
    model, plain = net(), net()
    one = make(name, model, learning_rate=0.05).optimiser
    other = make(name, plain, learning_rate=0.05).optimiser
    assert supports_found_inf(one)
    for bad in (True, False, True, False):
        one.zero_grad()
        model(X).square().mean().backward()
        before = flat(model)
        if bad:
            next(model.parameters()).grad = torch.full_like(next(model.parameters()), torch.inf)
        with skip_on_device(one, torch.tensor([flag if bad else 0.0])):
            one.step()
        assert torch.equal(before, flat(model)) == bad
        if not bad:
            train(plain, other, 1)
            assert torch.equal(flat(model), flat(plain))
    for (_, mine), (_, theirs) in zip(one.state.items(), other.state.items(), strict=True):
        for key in theirs:
            assert torch.equal(mine[key], theirs[key]), key
    assert not hasattr(one, "found_inf")


def test_others_cannot_be_called_off_on_the_device() -> None:
    damped = torch.optim.SGD([torch.zeros(1)], lr=1, momentum=0.9, dampening=0.5, fused=True)
    for optimiser in (make("lion", net()).optimiser, make("adam", net(), fused=False)[0], damped):
        assert not supports_found_inf(optimiser)
        with (
            pytest.raises(InvalidInputError, match="cannot be called off"),
            skip_on_device(optimiser, torch.zeros(1)),
        ):
            pass
