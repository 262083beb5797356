"""Optimizers and learning rates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training import TrainConfig, Trainer, TrainResult
from anyrig.training.config import CheckpointConfig, LoadingConfig, Schedule
from anyrig.training.optim import (
    NAMES,
    RateScheduler,
    build_groups,
    build_optimizer,
    materialized_state,
    rate_at,
    skip_on_device,
    split_weights,
    supports_found_inf,
)

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))


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
    model = TiedModel()
    split = split_weights(model)
    assert [id(weight) for weight in split.decayed] == [id(model.table.weight)]
    assert len(split.spared) == 2  # the norm's; the frozen layer's are in neither
    decayed, spared = build_groups(split, 0.3)
    assert decayed["weight_decay"] == 0.3
    assert spared["weight_decay"] == 0.0


def test_fused_is_said_and_gives_the_same() -> None:
    quick, plain = net(), net()
    one, why = build_optimizer("adamw", quick, fused="auto")
    other, why_not = build_optimizer("adamw", plain, fused=False)
    assert "adamw, fused" in why
    assert "not fused, as set" in why_not
    torch.testing.assert_close(train(quick, one), train(plain, other))


def test_fused_falls_back_with_words() -> None:
    assert "no fused adafactor" in build_optimizer("adafactor", net(), fused=True).reason
    sparse = nn.Sequential(nn.Embedding(4, 2, sparse=True), nn.Linear(2, 2))
    assert "sparse" in build_optimizer("sgd", sparse, fused=True).reason


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(InvalidSettingError, match="unknown optimizer") as caught:
        build_optimizer("adamW", net())
    assert "adamw" in caught.value.hint


def test_classes_functions_and_instances() -> None:
    model = net()
    by_class = build_optimizer(torch.optim.NAdam, model, learning_rate=0.5).optimizer
    assert isinstance(by_class, torch.optim.NAdam)
    assert by_class.param_groups[0]["lr"] == 0.5
    by_function = build_optimizer(lambda groups: torch.optim.SGD(groups, lr=0.25), model).optimizer
    assert by_function.param_groups[0]["lr"] == 0.25
    own = torch.optim.SGD(list(model.parameters())[:1], lr=1.0)
    made = build_optimizer(own, model)
    assert made.optimizer is own
    assert "3 trainable weights" in made.reason
    with pytest.raises(InvalidInputError, match="none of the model's weights"):
        build_optimizer(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0), model)
    nothing: Any = lambda groups: len(groups)  # noqa: E731
    with pytest.raises(InvalidInputError, match="not an optimizer"):
        build_optimizer(nothing, model)


def test_nothing_to_train_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no weights"):
        build_optimizer("adamw", net().requires_grad_(False))


Choice = str | Callable[..., torch.optim.Optimizer]
KINDS: list[tuple[Choice, dict[str, Any]]] = [
    *((name, {"fused": fused}) for name in NAMES for fused in ("auto", False)),
    (torch.optim.Rprop, {}),
    (lambda groups: torch.optim.AdamW(groups, lr=torch.tensor(0.1), amsgrad=True), {}),
]


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_state_made_ahead_changes_nothing(kind: Choice, options: dict[str, Any]) -> None:
    ahead, plain = net(), net()
    one = build_optimizer(kind, ahead, learning_rate=0.05, **options).optimizer
    other = build_optimizer(kind, plain, learning_rate=0.05, **options).optimizer
    kept = torch.ones_like(next(ahead.parameters()))
    next(ahead.parameters()).grad = kept
    with materialized_state(one):
        meanwhile = state_bytes(one)
    assert next(ahead.parameters()).grad is kept
    assert torch.equal(flat(ahead), flat(plain))
    assert torch.equal(train(ahead, one), train(plain, other))
    assert meanwhile == state_bytes(other)
    with materialized_state(one):  # it is there already
        assert state_bytes(one) == meanwhile


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    values = (value for state in optimizer.state.values() for value in state.values())
    return sum(value.nbytes for value in values if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd", "momentum"])
@pytest.mark.parametrize("flag", [1.0, 3.0])
def test_a_flag_on_the_device_calls_a_step_off(name: str, flag: float) -> None:
    """Also the first one, and also where several processes' flags were added up."""
    model, plain = net(), net()
    one = build_optimizer(name, model, learning_rate=0.05).optimizer
    other = build_optimizer(name, plain, learning_rate=0.05).optimizer
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


def curve(
    schedule: str, *, total: int = 100, warmup: float = 0.1, final: float = 0.1
) -> list[float]:
    kind = cast(Schedule, schedule)
    return [
        rate_at(step, total=total, peak=2.0, schedule=kind, warmup=warmup, final=final)
        for step in range(total + 1)
    ]


@pytest.mark.parametrize("schedule", ["linear", "cosine", "trapezoid"])
def test_rises_to_the_peak_and_falls_to_the_end(schedule: str) -> None:
    rates = curve(schedule)
    assert rates[0] > 0
    assert all(low < high for low, high in zip(rates[:10], rates[1:11], strict=True))
    assert rates[10] == max(rates) == 2.0
    assert all(low >= high for low, high in zip(rates[10:], rates[11:], strict=False))
    assert rates[100] == pytest.approx(0.2)


def optimiser_of(*rates: float | torch.Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": [torch.zeros(1)], "lr": rate} for rate in rates])


def test_groups_keep_their_proportions() -> None:
    optimiser = optimiser_of(1.0, 0.1)
    rates = RateScheduler(optimiser, total=10, schedule="linear", final=0.0)
    seen = []
    for _ in range(10):
        first, second = (group["lr"] for group in optimiser.param_groups)
        assert second == pytest.approx(first / 10)
        seen.append(rates.step())
    assert seen == pytest.approx([1 - step / 10 for step in range(10)])


def test_rates_in_tensors_are_filled_in_place() -> None:
    tensor = torch.tensor(0.5)
    optimiser = torch.optim.AdamW([torch.zeros(1)], lr=tensor)
    rates = RateScheduler(optimiser, total=10, schedule="linear", final=0.0)
    rates.step()
    assert optimiser.param_groups[0]["lr"] is tensor
    assert float(tensor) == pytest.approx(0.45)


def test_resume_is_exact_also_after_the_optimiser_was_loaded() -> None:
    first = optimiser_of(0.3)
    rates = RateScheduler(first, total=50, warmup=0.1, final=0.1)
    for _ in range(17):
        rates.step()
    state = json.loads(json.dumps(rates.state_dict()))
    again = optimiser_of(0.3)
    resumed = RateScheduler(again, total=50, warmup=0.1, final=0.1)
    again.load_state_dict(first.state_dict())
    resumed.load_state_dict(state)
    assert [rates.step() for _ in range(33)] == [resumed.step() for _ in range(33)]


def test_a_resume_may_change_the_peak() -> None:
    old = optimiser_of(0.3)
    RateScheduler(old, total=10, schedule="constant")
    new = optimiser_of(0.6)
    rates = RateScheduler(new, total=10, schedule="constant")
    new.load_state_dict(old.state_dict())
    rates.load_state_dict({"steps": 3})
    assert new.param_groups[0]["lr"] == rates.step() == 0.6


@pytest.mark.parametrize("state", [{}, {"steps": -1}, {"steps": "3"}])
def test_nonsense_in_a_checkpoint_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="is not valid"):
        RateScheduler(optimiser_of(0.3), total=10).load_state_dict(state)


class TiedModel(nn.Module):
    """An embedding tied to a head, a norm, a buffer and a frozen layer."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.table = nn.Embedding(12, 8)
        self.norm = nn.BatchNorm1d(8)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.frozen(self.norm(self.table(tokens))))
        return found


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    tokens, targets = batch
    return nn.functional.cross_entropy(model(tokens).float(), targets)


def data() -> torch.utils.data.TensorDataset:
    tokens = torch.randint(12, (96,), generator=torch.Generator().manual_seed(3))
    return torch.utils.data.TensorDataset(tokens, (tokens * 5 + 1) % 12)


def test_norms_of_any_shape_are_spared_from_decay() -> None:
    split = split_weights(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm((4, 4))))
    assert [len(one) for one in split] == [1, 3]


def run(folder: Path | None, steps: int) -> tuple[list[float], TiedModel, TrainResult]:
    model = TiedModel()
    config = TrainConfig(
        batch=16, micro_batch=8, steps=steps, precision="bf16", learning_rate=1e-2,
        schedule="constant", loading=LoadingConfig(num_workers=0),
        checkpoints=CheckpointConfig(every_steps=3, every_s=0),
    )  # fmt: skip
    with Trainer(
        model, data=data(), loss=loss, config=config, device="cpu", folder=folder
    ) as trainer:
        summary = trainer.run()
        curve = [row.loss for row in trainer.history()]
    return curve, model, summary


def test_a_resumed_run_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    whole, trained, _ = run(None, 9)
    run(tmp_path, 5)
    curve, resumed, summary = run(tmp_path, 9)
    assert summary.resumed_from == 5
    assert curve == whole
    for name, value in trained.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
        assert value.dtype in (torch.float32, torch.int64)
