"""A run that overflows in fp16 moves and goes on. fp16 is real here: autocast on the CPU."""

from __future__ import annotations

import copy
import logging
import math

import pytest
import torch
from torch import nn

from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.precision.apply import Applied, make
from anyrig.precision.dynamic import Dynamic, Moved, MoveSettings
from anyrig.precision.scaler import ScalerSettings


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
    applied: Applied, net: nn.Module, optimiser: torch.optim.Optimizer, count: int
) -> list[float]:
    torch.manual_seed(7)
    inputs = torch.randn(32, 32)
    wanted = inputs.mean(1, keepdim=True)
    losses = []
    for _ in range(count):
        optimiser.zero_grad()
        with applied.forward():
            loss = nn.functional.mse_loss(net(applied.prepare(inputs)).float(), wanted)
        applied.backward(loss)
        applied.step(optimiser, net.parameters(), max_norm=1.0)
        losses.append(float(loss.detach()))
    return losses


def build(
    fallback: Precision, tell: list[Moved] | None = None
) -> tuple[Dynamic, nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    net = Steep()
    optimiser = torch.optim.Adam(net.narrow.parameters(), lr=1e-7)
    applied = make(
        "fp16", "cpu", training=True, fallback=fallback,
        tell=tell.append if tell is not None else None,
    )  # fmt: skip
    assert isinstance(applied, Dynamic)
    return applied, net, optimiser


@pytest.mark.parametrize("fallback", ["bf16", "fp32"])
def test_a_run_that_overflows_moves_and_trains_on(
    fallback: Precision, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Moved] = []
    applied, net, optimiser = build(fallback, told)
    with caplog.at_level(logging.WARNING):
        losses = steps(applied, net, optimiser, 80)
    assert not math.isfinite(losses[0])
    assert applied.precision == fallback
    assert len(told) == 1
    moved = told[0]
    assert moved == applied.moved
    assert (moved.before, moved.after) == ("fp16", fallback)
    assert "overflowed at the lowest loss scale, 1" in moved.reason
    assert moved.step < 30
    assert f"training goes on in {fallback} instead of fp16" in caplog.text
    after = losses[moved.step :]
    assert all(math.isfinite(loss) for loss in after)
    assert after[-1] < after[0]
    assert all(p.isfinite().all() for p in net.parameters())


def test_without_a_way_out_it_skips_for_ever_and_harms_nothing() -> None:
    torch.manual_seed(1)
    net = Steep()
    before = [p.detach().clone() for p in net.parameters()]
    applied = make("fp16", "cpu", training=True)
    steps(applied, net, torch.optim.Adam(net.narrow.parameters(), lr=1e-3), 60)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    assert applied.state_dict()["scale"] == 1.0


def overflow_now_and_then(applied: Dynamic, every: int, count: int) -> torch.optim.Adam:
    """Good steps with a bad one now and then, by a loss that is infinite."""
    parameter = nn.Parameter(torch.ones(1))
    optimiser = torch.optim.Adam([parameter], lr=0.01)
    for number in range(count):
        optimiser.zero_grad()
        factor = math.inf if number % every == 0 else 1.0
        applied.backward((parameter * factor).sum())
        applied.step(optimiser)
    return optimiser


def test_many_skipped_in_a_window_are_enough() -> None:
    applied, _, _ = build("bf16")
    overflow_now_and_then(applied, every=3, count=100)
    assert applied.moved is not None
    assert applied.moved.reason in (
        "25 of the last 73 steps overflowed",
        "3 steps in a row overflowed at the lowest loss scale, 1",
    )


def test_a_few_are_not() -> None:
    applied, _, _ = build("bf16")
    overflow_now_and_then(applied, every=20, count=300)
    assert applied.moved is None
    assert applied.precision == "fp16"


def test_the_optimisers_state_is_not_lost() -> None:
    applied, _, _ = build("bf16")
    optimiser = overflow_now_and_then(applied, every=3, count=120)
    assert applied.moved is not None
    state = next(iter(optimiser.state.values()))
    # Every good step counts, before the move and after it; a plain Adam in bf16 does not skip.
    assert int(state["step"]) > 60


def test_a_checkpoint_remembers_the_move(caplog: pytest.LogCaptureFixture) -> None:
    applied, net, optimiser = build("bf16")
    steps(applied, net, optimiser, 40)
    assert applied.moved is not None
    again, net2, optimiser2 = build("bf16")
    net2.load_state_dict(net.state_dict())
    # On disk they would be two; in memory torch shares the tensors.
    optimiser2.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    with caplog.at_level(logging.INFO):
        again.load_state_dict(applied.state_dict())
    assert again.precision == "bf16"
    assert again.moved == applied.moved
    assert "as before the checkpoint" in caplog.text
    assert again.state_dict() == applied.state_dict()
    assert steps(applied, net, optimiser, 5) == steps(again, net2, optimiser2, 5)


def test_a_checkpoint_before_the_move_keeps_the_count() -> None:
    applied, net, optimiser = build("bf16")
    steps(applied, net, optimiser, 10)
    assert applied.moved is None
    again, net2, optimiser2 = build("bf16")
    again.load_state_dict(applied.state_dict())
    steps(applied, net, optimiser, 30)
    steps(again, net2, optimiser2, 30)
    assert applied.moved is not None
    assert again.moved == applied.moved


@pytest.mark.parametrize("wrong", [{"moved": [1]}, {"recent": 3}, {"steps": "x"}])
def test_state_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    applied, _, _ = build("bf16")
    with pytest.raises(InvalidInputError, match="makes no sense"):
        applied.load_state_dict({**applied.state_dict(), **wrong})


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidSettingError, match="more than the window"):
        MoveSettings(window=10, most_skipped=11)
    with pytest.raises(InvalidSettingError, match="at_floor"):
        MoveSettings(at_floor=0)


def test_a_longer_way_down_takes_longer() -> None:
    """Moves follow the scaler's own settings."""
    applied = make(
        "fp16", "cpu", training=True, fallback="fp32", scaler=ScalerSettings(floor=1024.0)
    )
    assert isinstance(applied, Dynamic)
    overflow_now_and_then(applied, every=1, count=15)
    assert applied.moved is not None
    assert "1024" in applied.moved.reason


@pytest.mark.parametrize(("before", "after"), [("plain", "dynamic"), ("dynamic", "plain")])
def test_a_scale_goes_on_whether_or_not_a_run_may_move(before: str, after: str) -> None:
    kinds: dict[str, Precision | None] = {"plain": None, "dynamic": "fp32"}
    scaler = ScalerSettings(hysteresis=1)
    kept = make("fp16", "cpu", training=True, scaler=scaler, fallback=kinds[before])
    again = make("fp16", "cpu", training=True, scaler=scaler, fallback=kinds[after])
    model = nn.Linear(2, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    kept.backward(model(torch.ones(1, 2)).sum() * math.inf)
    scale = kept.step(optimiser).scale
    again.load_state_dict(kept.state_dict())
    optimiser.zero_grad()
    again.backward(model(torch.ones(1, 2)).sum())
    assert again.step(optimiser).scale == scale / 2


def test_a_run_that_did_not_scale_goes_on_in_fp16() -> None:
    again = make("fp16", "cpu", training=True, fallback="fp32")
    again.load_state_dict(make("bf16", "cpu", training=True).state_dict())
    assert again.precision == "fp16"
