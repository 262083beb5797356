"""Training that overflows in fp16 falls back and continues; fp16 is autocast on the CPU."""

from __future__ import annotations

import copy
import logging
import math

import pytest
import torch
from torch import nn

from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.precision.policy import (
    DynamicPrecision,
    FallbackEvent,
    PrecisionPolicy,
    make_policy,
)
from anyrig.precision.settings import FallbackSettings, ScalerSettings


class Steep(nn.Module):
    """A net whose activations pass 65504: finite in bf16 and fp32, infinite in fp16."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(32, 32)
        self.narrow = nn.Linear(32, 1)
        with torch.no_grad():
            self.wide.weight.copy_(torch.eye(32) * 3000.0)
            self.narrow.weight.mul_(1e-5)
        self.wide.requires_grad_(False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.narrow(self.wide(inputs * 100.0))
        return out


def steps(
    applied: PrecisionPolicy, net: nn.Module, optimizer: torch.optim.Optimizer, count: int
) -> list[float]:
    torch.manual_seed(7)
    inputs = torch.randn(32, 32)
    wanted = inputs.mean(1, keepdim=True)
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        with applied.autocast():
            loss = nn.functional.mse_loss(net(applied.cast_inputs(inputs)).float(), wanted)
        applied.backward(loss)
        applied.step(optimizer, net.parameters(), max_norm=1.0)
        losses.append(float(loss.detach()))
    return losses


def build(
    fallback: Precision, events: list[FallbackEvent] | None = None
) -> tuple[DynamicPrecision, nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    net = Steep()
    optimizer = torch.optim.Adam(net.narrow.parameters(), lr=1e-7)
    applied = make_policy(
        "fp16", "cpu", training=True, fallback=fallback,
        on_fallback=events.append if events is not None else None,
    )  # fmt: skip
    assert isinstance(applied, DynamicPrecision)
    return applied, net, optimizer


@pytest.mark.parametrize("fallback", ["bf16", "fp32"])
def test_training_falls_back_and_continues(
    fallback: Precision, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[FallbackEvent] = []
    applied, net, optimizer = build(fallback, events)
    with caplog.at_level(logging.WARNING):
        losses = steps(applied, net, optimizer, 80)
    assert not math.isfinite(losses[0])
    assert applied.precision == fallback
    assert len(events) == 1
    event = events[0]
    assert event == applied.fallback
    assert (event.before, event.after) == ("fp16", fallback)
    assert "overflowed at the lowest loss scale, 1" in event.reason
    assert event.step < 30
    assert f"training continues in {fallback}" in caplog.text
    after = losses[event.step :]
    assert all(math.isfinite(loss) for loss in after)
    assert after[-1] < after[0]
    assert all(p.isfinite().all() for p in net.parameters())


def test_without_a_fallback_every_step_is_skipped_and_weights_stay() -> None:
    torch.manual_seed(1)
    net = Steep()
    before = [p.detach().clone() for p in net.parameters()]
    applied = make_policy("fp16", "cpu", training=True)
    steps(applied, net, torch.optim.Adam(net.narrow.parameters(), lr=1e-3), 60)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert applied.state_dict()["scale"] == 1.0


def overflow_every(applied: DynamicPrecision, every: int, count: int) -> torch.optim.Adam:
    """Train with an infinite loss in every n-th step."""
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.Adam([parameter], lr=0.01)
    for number in range(count):
        optimizer.zero_grad()
        factor = math.inf if number % every == 0 else 1.0
        applied.backward((parameter * factor).sum())
        applied.step(optimizer)
    return optimizer


def test_too_many_skipped_steps_in_the_window() -> None:
    applied, _, _ = build("bf16")
    overflow_every(applied, every=3, count=100)
    assert applied.fallback is not None
    assert applied.fallback.reason in (
        "25 of the last 73 steps overflowed",
        "3 steps in a row overflowed at the lowest loss scale, 1",
    )


def test_a_few_skipped_steps_are_fine() -> None:
    applied, _, _ = build("bf16")
    overflow_every(applied, every=20, count=300)
    assert applied.fallback is None
    assert applied.precision == "fp16"


def test_the_optimizer_state_is_kept() -> None:
    applied, _, _ = build("bf16")
    optimizer = overflow_every(applied, every=3, count=120)
    assert applied.fallback is not None
    state = next(iter(optimizer.state.values()))
    # Every good step counts, before the fallback and after it.
    assert int(state["step"]) > 60


def test_a_checkpoint_after_the_fallback(caplog: pytest.LogCaptureFixture) -> None:
    applied, net, optimizer = build("bf16")
    steps(applied, net, optimizer, 40)
    assert applied.fallback is not None
    again, net2, optimizer2 = build("bf16")
    net2.load_state_dict(net.state_dict())
    # torch shares the tensors in memory.
    optimizer2.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    with caplog.at_level(logging.INFO):
        again.load_state_dict(applied.state_dict())
    assert again.precision == "bf16"
    assert again.fallback == applied.fallback
    assert "as before the checkpoint" in caplog.text
    assert again.state_dict() == applied.state_dict()
    assert steps(applied, net, optimizer, 5) == steps(again, net2, optimizer2, 5)


def test_a_checkpoint_before_the_fallback_keeps_the_count() -> None:
    applied, net, optimizer = build("bf16")
    steps(applied, net, optimizer, 10)
    assert applied.fallback is None
    again, net2, optimizer2 = build("bf16")
    again.load_state_dict(applied.state_dict())
    steps(applied, net, optimizer, 30)
    steps(again, net2, optimizer2, 30)
    assert applied.fallback is not None
    assert again.fallback == applied.fallback


@pytest.mark.parametrize("wrong", [{"moved": [1]}, {"recent": 3}, {"steps": "x"}])
def test_invalid_state_is_rejected(wrong: dict[str, object]) -> None:
    applied, _, _ = build("bf16")
    with pytest.raises(InvalidInputError, match="is invalid"):
        applied.load_state_dict({**applied.state_dict(), **wrong})


def test_invalid_settings_are_rejected() -> None:
    with pytest.raises(InvalidSettingError, match="more than the window"):
        FallbackSettings(window=10, max_skipped=11)
    with pytest.raises(InvalidSettingError, match="at_floor"):
        FallbackSettings(at_floor=0)


def test_the_fallback_follows_the_scaler_settings() -> None:
    applied = make_policy(
        "fp16", "cpu", training=True, fallback="fp32", scaler=ScalerSettings(floor=1024.0)
    )
    assert isinstance(applied, DynamicPrecision)
    overflow_every(applied, every=1, count=15)
    assert applied.fallback is not None
    assert "1024" in applied.fallback.reason


@pytest.mark.parametrize(("before", "after"), [("plain", "dynamic"), ("dynamic", "plain")])
def test_the_scale_is_restored_with_or_without_a_fallback(before: str, after: str) -> None:
    kinds: dict[str, Precision | None] = {"plain": None, "dynamic": "fp32"}
    scaler = ScalerSettings(hysteresis=1)
    kept = make_policy("fp16", "cpu", training=True, scaler=scaler, fallback=kinds[before])
    again = make_policy("fp16", "cpu", training=True, scaler=scaler, fallback=kinds[after])
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept.backward(model(torch.ones(1, 2)).sum() * math.inf)
    scale = kept.step(optimizer).scale
    again.load_state_dict(kept.state_dict())
    optimizer.zero_grad()
    again.backward(model(torch.ones(1, 2)).sum())
    assert again.step(optimizer).scale == scale / 2


def test_the_state_of_a_run_without_scaling_is_accepted() -> None:
    again = make_policy("fp16", "cpu", training=True, fallback="fp32")
    again.load_state_dict(make_policy("bf16", "cpu", training=True).state_dict())
    assert again.precision == "fp16"
