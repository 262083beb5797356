"""Activations that go away and come back, and an optimiser's step in pieces."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidSettingError
from anyrig.training.saving.offload import offload_activations
from anyrig.training.saving.offload_state import offload_optimizer, offload_state


class Attention(nn.Module):
    """Queries, keys and values are views of one product."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        split = self.qkv(states).view(*states.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*split.unbind(0))
        gathered: torch.Tensor = self.out(F.gelu(seen.transpose(1, 2).reshape(states.shape)))
        return gathered


def gradients(model: nn.Module) -> list[torch.Tensor]:
    found = [one.grad.clone() for one in model.parameters() if one.grad is not None]
    model.zero_grad()
    return found


@pytest.fixture
def given() -> torch.Tensor:
    return torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("ahead", [0, 2, 100])
def test_gradients_are_the_same_when_activations_were_away(given: torch.Tensor, ahead: int) -> None:
    model = nn.Sequential(Attention(), Attention(), Attention())
    model(given).square().mean().backward()
    plain = gradients(model)
    context = offload_activations(model.parameters(), least_bytes=1, ahead=ahead, stay=())
    for _ in range(3):
        moved = context.num_bytes
        with context:
            loss = model(given).square().mean()
        loss.backward()
        assert context.num_bytes > moved
        assert all(torch.equal(a, b) for a, b in zip(plain, gradients(model), strict=True))


def test_what_is_kept_for_backward_is_not_on_the_device_meanwhile(given: torch.Tensor) -> None:
    model = Attention()
    made: list[Any] = []

    def note(module: nn.Module, args: object, result: torch.Tensor) -> None:
        made.append(result.untyped_storage())

    model.qkv.register_forward_hook(note)
    model(given)
    with offload_activations(model.parameters(), least_bytes=1, stay=()):
        loss = model(given).sum()
    refs = [weakref.ref(one) for one in made]
    made.clear()
    gc.collect()
    # The product that queries, keys and values look at is freed as soon as attention is done.
    assert refs[1]() is None
    loss.backward()


def test_views_of_one_product_travel_once(given: torch.Tensor) -> None:
    model = Attention()
    with offload_activations(model.parameters(), least_bytes=3 * 2 * 8 * 16 * 4, stay=()) as away:
        model(given).sum().backward()
    assert away.num_bytes == 3 * 2 * 8 * 16 * 4


def test_weights_and_small_tensors_stay(given: torch.Tensor) -> None:
    model = nn.Linear(16, 16)
    with offload_activations(model.parameters(), least_bytes=1, stay=()) as away:
        model(given.requires_grad_()).sum().backward()
    assert away.num_bytes == given.nbytes  # the input alone, not the weight
    with offload_activations(model.parameters(), least_bytes=given.nbytes + 1, stay=()) as away:
        model(given).sum().backward()
    assert away.num_bytes == 0


def test_a_graph_may_run_backwards_twice(given: torch.Tensor) -> None:
    model = Attention()
    with offload_activations(least_bytes=1, stay=()):
        loss = model(given).square().mean()
    loss.backward(retain_graph=True)
    first = gradients(model)
    loss.backward()
    assert all(torch.equal(a, b) for a, b in zip(first, gradients(model), strict=True))


def test_a_cpu_keeps_its_activations_and_says_so(given: torch.Tensor) -> None:
    model = Attention()
    with offload_activations(model.parameters(), least_bytes=1) as away:
        model(given).sum().backward()
    assert away.num_bytes == 0
    assert "on the host already" in away.reason


# -- the optimiser's state ------------------------------------------------------------------------


def optimisers() -> Iterator[tuple[Any, dict[str, Any]]]:
    yield torch.optim.AdamW, {"fused": True}
    yield torch.optim.AdamW, {"foreach": True, "amsgrad": True}
    yield torch.optim.SGD, {"momentum": 0.9}
    yield torch.optim.Adafactor, {}


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 2))


def grouped(model: nn.Module) -> list[dict[str, Any]]:
    weights = list(model.parameters())
    return [{"params": weights[::2], "lr": 0.1}, {"params": weights[1::2], "lr": 0.05}]


def train(model: nn.Module, rule: torch.optim.Optimizer, schedule: object, steps: int) -> None:
    draw = torch.Generator().manual_seed(3)
    for _ in range(steps):
        model(torch.randn(5, 6, generator=draw)).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        rule.step()
        schedule.step()  # type: ignore[attr-defined]
        rule.zero_grad()


@pytest.mark.parametrize(("kind", "options"), list(optimisers()))
@pytest.mark.parametrize("piece", [1, 200, 1 << 20])
def test_a_step_in_pieces_is_the_same_step(kind: Any, options: dict[str, Any], piece: int) -> None:
    plain, other = small(), small()
    for model, offloaded in ((plain, False), (other, True)):
        rule = kind(grouped(model), **options)
        if offloaded:
            offload_optimizer(rule, piece_bytes=piece)
        schedule = torch.optim.lr_scheduler.LambdaLR(rule, lambda step: 0.9**step)
        train(model, rule, schedule, 5)
    assert all(
        torch.equal(a, b) for a, b in zip(plain.parameters(), other.parameters(), strict=True)
    )


@pytest.mark.parametrize("fused", [True, False])
def test_state_goes_into_a_checkpoint_and_comes_out_of_it(fused: bool) -> None:
    model = small()
    rule = torch.optim.AdamW(grouped(model), fused=fused)
    train(model, rule, torch.optim.lr_scheduler.ConstantLR(rule, 1.0), 2)
    saved = copy.deepcopy((model.state_dict(), rule.state_dict()))
    train(model, rule, torch.optim.lr_scheduler.ConstantLR(rule, 1.0), 3)

    again = small()
    resumed = torch.optim.AdamW(grouped(again), fused=fused)
    offload_optimizer(resumed, piece_bytes=100)
    again.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    for a, b in zip(
        saved[1]["state"].values(), resumed.state_dict()["state"].values(), strict=True
    ):
        assert all(torch.equal(a[key], b[key]) for key in a)
    train(again, resumed, torch.optim.lr_scheduler.ConstantLR(resumed, 1.0), 3)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )


def test_hooks_see_one_step_with_all_weights() -> None:
    model = small()
    rule = torch.optim.SGD(grouped(model))
    seen: list[int] = []
    rule.register_step_pre_hook(lambda *_: seen.append(0))
    rule.register_step_post_hook(
        lambda one, *_: seen.append(sum(len(group["params"]) for group in one.param_groups))
    )
    with offload_optimizer(rule, piece_bytes=1):
        model(torch.ones(1, 6)).sum().backward()
        rule.step()
    assert seen == [0, 6]


def test_undone_it_is_the_plain_optimiser_with_its_state() -> None:
    model = small()
    rule = torch.optim.AdamW(grouped(model))
    with offload_optimizer(rule):
        assert "step" in rule.__dict__
    changed = offload_optimizer(rule)
    with pytest.raises(InvalidSettingError, match="already"):
        offload_optimizer(rule)
    train(model, rule, torch.optim.lr_scheduler.ConstantLR(rule, 1.0), 1)
    changed.undo()
    changed.undo()
    train(model, rule, torch.optim.lr_scheduler.ConstantLR(rule, 1.0), 1)
    assert all(int(held["step"]) == 2 for held in rule.state.values())
    assert offload_state(rule) is rule


def test_an_optimiser_that_looks_at_all_weights_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match="LBFGS"):
        offload_optimizer(torch.optim.LBFGS(small().parameters()))
