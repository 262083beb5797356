"""The loss scaler, also beside torch's own where that one fails."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.precision.scaler import LossScaler, NoOpScaler
from anyrig.precision.settings import ScalerSettings

SMALL = ScalerSettings(initial=8.0, interval=3, hysteresis=2, floor=1.0, ceiling=32.0)


def weight(value: float = 1.0) -> nn.Parameter:
    return nn.Parameter(torch.tensor([value]))


def go(scaler: LossScaler, parameter: nn.Parameter, optimizer: Any, *, bad: bool = False) -> bool:
    """One step down a parabola; a bad one has an infinite gradient."""
    optimizer.zero_grad()
    loss = (parameter * math.inf).sum() if bad else (parameter**2).sum()
    scaler.scale_loss(loss).backward()  # type: ignore[no-untyped-call]
    return scaler.step(optimizer).skipped


def test_180_bad_steps_then_good_ones_beside_torchs_own() -> None:
    ours, theirs = weight(), weight()
    scaler, torchs = LossScaler(), torch.amp.GradScaler("cpu")
    ours_optimizer = torch.optim.SGD([ours], lr=0.1)
    theirs_optimizer = torch.optim.SGD([theirs], lr=0.1)
    for number in range(220):
        bad = number < 180
        go(scaler, ours, ours_optimizer, bad=bad)
        theirs_optimizer.zero_grad()
        loss = (theirs * math.inf).sum() if bad else (theirs**2).sum()
        torchs.scale(loss).backward()  # type: ignore[no-untyped-call]
        torchs.step(theirs_optimizer)
        torchs.update()
        assert ours.isfinite().all()
        assert scaler.scale >= scaler.settings.floor
    assert scaler.num_skipped == 180
    assert abs(ours.item()) < 1e-3  # it went on learning
    # What it is measured against: torch's own scale is gone, and so are the weights.
    assert torchs.get_scale() == 0.0
    assert theirs.isnan().all()


def test_hysteresis_before_the_scale_backs_off() -> None:
    parameter = weight()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = LossScaler(SMALL)
    scales = []
    for bad in (True, False, True, True, False, True):
        go(scaler, parameter, optimizer, bad=bad)
        scales.append(scaler.scale)
    # The first bad step only uses up hysteresis; single good steps do not restore it.
    assert scales == [8.0, 8.0, 4.0, 2.0, 2.0, 1.0]


def test_an_interval_of_good_steps_raises_the_scale_and_restores_hysteresis() -> None:
    parameter = weight()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = LossScaler(SMALL)
    for bad in (True, True, False, False, True, False, False):
        go(scaler, parameter, optimizer, bad=bad)
    assert scaler.scale == 2.0
    assert not go(scaler, parameter, optimizer)  # the third good one in a row
    assert scaler.scale == 4.0
    go(scaler, parameter, optimizer, bad=True)
    assert scaler.scale == 4.0  # hysteresis again
    for _ in range(40):
        go(scaler, parameter, optimizer)
    assert scaler.scale == 32.0  # the ceiling holds


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=120), st.integers(1, 4), st.integers(1, 6))
def test_scale_and_weights_stay_valid_in_any_sequence(
    steps: list[bool], hysteresis: int, interval: int
) -> None:
    parameter = weight()
    optimizer = torch.optim.Adam([parameter], lr=0.01)
    limits = ScalerSettings(8.0, 2.0, 0.5, interval, hysteresis, 1.0, 64.0)
    scaler = LossScaler(limits)
    for bad in steps:
        before = parameter.detach().clone()
        skipped = go(scaler, parameter, optimizer, bad=bad)
        assert skipped is bad
        assert torch.equal(before, parameter) if bad else parameter.isfinite().all()
        assert limits.floor <= scaler.scale <= limits.ceiling


# -- gradients of every kind -----------------------------------------------------------------------


def test_the_same_step_as_without_scaling() -> None:
    """Clipping after unscaling, accumulation, two optimizers, sparse and missing gradients."""

    def build() -> tuple[nn.ModuleList, list[torch.optim.Optimizer]]:
        torch.manual_seed(3)
        parts = nn.ModuleList([nn.Embedding(10, 4, sparse=True), nn.Linear(4, 3), nn.Linear(3, 3)])
        groups: list[dict[str, Any]] = [
            {"params": parts[1].parameters(), "lr": 0.01},
            {"params": parts[2].parameters()},
        ]
        return parts, [
            torch.optim.SGD(parts[0].parameters(), lr=0.1),
            torch.optim.AdamW(groups),
        ]

    found = []
    for stepper in (NoOpScaler(), LossScaler()):
        parts, optimizers = build()
        for _ in range(5):
            for part in ([1, 1, 2], [3, 1, 9]):  # one step in two parts
                out = parts[1](parts[0](torch.tensor(part)))
                loss = out.square().mean() / 2
                stepper.scale_loss(loss).backward()  # type: ignore[no-untyped-call]
            assert parts[2].weight.grad is None
            outcome = stepper.step(optimizers, parts.parameters(), max_norm=0.05)
            assert not outcome.skipped
            assert outcome.grad_norm is not None
            assert float(outcome.grad_norm) > 0.05
            for optimizer in optimizers:
                optimizer.zero_grad()
        found.append([p.detach().clone() for p in parts.parameters()])
    for plain, scaled in zip(*found, strict=True):
        torch.testing.assert_close(plain, scaled, rtol=1e-5, atol=1e-7)


def test_clipping_is_torchs_clipping() -> None:
    torch.manual_seed(1)
    pair = [nn.Linear(5, 5) for _ in range(2)]
    pair[1].load_state_dict(pair[0].state_dict())
    inputs = torch.randn(8, 5)
    for layer in pair:
        layer(inputs).square().sum().backward()
    optimizer = torch.optim.SGD(pair[0].parameters(), lr=0.0)
    norm = NoOpScaler().step(optimizer, max_norm=1.5).grad_norm
    theirs = nn.utils.clip_grad_norm_(pair[1].parameters(), 1.5)
    assert norm is not None
    torch.testing.assert_close(norm, theirs)
    torch.testing.assert_close(pair[0].weight.grad, pair[1].weight.grad)


def test_one_bad_gradient_skips_the_step_of_every_optimizer() -> None:
    good, bad = weight(), weight()
    optimizers = [torch.optim.SGD([good], lr=0.1), torch.optim.SGD([bad], lr=0.1)]
    scaler = LossScaler()
    scaler.scale_loss(good.sum() + (bad * math.nan).sum()).backward()  # type: ignore[no-untyped-call]
    assert scaler.step(optimizers).skipped
    assert (good.item(), bad.item()) == (1.0, 1.0)


def test_a_shared_parameter_is_unscaled_once() -> None:
    shared = weight()
    optimizers = [torch.optim.SGD([shared], lr=0.1), torch.optim.SGD([shared], lr=0.1)]
    scaler = LossScaler()
    scaler.scale_loss(shared.sum()).backward()  # type: ignore[no-untyped-call]
    scaler.step(optimizers, [shared, shared])
    assert shared.grad is not None
    assert shared.grad.item() == 1.0
    assert shared.item() == pytest.approx(0.8)


def test_sparse_duplicates_that_add_up_to_infinity_are_detected() -> None:
    table = nn.Embedding(4, 1, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    scaler = LossScaler(ScalerSettings(initial=1.0))
    scaler.scale_loss((table(torch.tensor([2, 2])) * 3e38).sum()).backward()  # type: ignore[no-untyped-call]
    assert scaler.step(optimizer).skipped
    assert table.weight.isfinite().all()


def test_without_torchs_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """DirectML lacks the kernel: torch's dispatcher raises."""

    def missing(*_: object) -> None:
        raise NotImplementedError("Could not run 'aten::_amp_foreach_non_finite_check...'")

    monkeypatch.setattr(torch, "_amp_foreach_non_finite_check_and_unscale_", missing)
    parameter = weight()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = LossScaler()
    assert go(scaler, parameter, optimizer, bad=True)
    assert not go(scaler, parameter, optimizer)
    assert parameter.item() == pytest.approx(0.8)


def test_weights_in_fp16_are_rejected() -> None:
    half = nn.Parameter(torch.ones(2, dtype=torch.float16))
    scaler = LossScaler()
    scaler.scale_loss(half.sum()).backward()  # type: ignore[no-untyped-call]
    with pytest.raises(InvalidInputError, match="underflow") as caught:
        scaler.step(torch.optim.SGD([half], lr=0.1))
    assert "fp32" in caught.value.hint


def test_a_second_step_without_a_backward_pass_is_rejected() -> None:
    parameter = weight()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = LossScaler()
    go(scaler, parameter, optimizer)
    with pytest.raises(InvalidInputError, match="unscaled twice"):
        scaler.step(optimizer)


def test_no_gradients_at_all_change_nothing() -> None:
    used, unused = weight(), weight()
    scaler = LossScaler(SMALL)
    for _ in range(5):
        scaler.scale_loss(used.sum())
        assert not scaler.step(torch.optim.SGD([unused], lr=0.1), max_norm=1.0).skipped
    assert scaler.scale == 8.0


def test_processes_skip_together() -> None:
    """A process whose own gradients are fine skips when another's are not."""
    parameter = weight()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = LossScaler(sync_flag=lambda bad: bad.fill_(1.0))
    assert go(scaler, parameter, optimizer)
    assert parameter.item() == 1.0


def test_steps_without_scaling_can_skip_too() -> None:
    parameter = weight()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    (parameter * math.nan).sum().backward()  # type: ignore[no-untyped-call]
    assert NoOpScaler(skip_nonfinite=True).step(optimizer).skipped
    assert parameter.item() == 1.0
    assert not NoOpScaler().step(optimizer).skipped
    assert parameter.isnan().all()


def test_one_synchronisation_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a value back synchronises: `item` is called once, nothing else is."""
    calls: list[str] = []
    item = torch.Tensor.item

    def watched(name: str) -> Any:
        def read(tensor: torch.Tensor) -> Any:
            calls.append(name)
            return item(tensor)

        return read

    for name in ("item", "__float__", "__bool__", "__int__"):
        monkeypatch.setattr(torch.Tensor, name, watched(name))
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    scaler = LossScaler()
    scaler.scale_loss(layers(torch.ones(2, 4)).sum()).backward()  # type: ignore[no-untyped-call]
    calls.clear()
    scaler.step(optimizer, max_norm=0.1)
    assert calls == ["item"]


# -- settings and state ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"initial": 0.0}, {"initial": math.nan}, {"initial": math.inf}, {"growth": 1.0},
        {"backoff": 1.0}, {"backoff": -0.5}, {"interval": 0}, {"interval": 1.5},
        {"hysteresis": 0}, {"hysteresis": True}, {"floor": 2.0**17}, {"ceiling": 2.0},
        {"floor": -1.0}, {"initial": "big"},
    ],
)  # fmt: skip
def test_invalid_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettingError, match=next(iter(wrong)) + "|initial"):
        ScalerSettings(**wrong)


def test_state_survives_a_checkpoint(tmp_path: Any) -> None:
    parameter = weight()
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = LossScaler(SMALL)
    for bad in (True, True, False, True):
        go(scaler, parameter, optimizer, bad=bad)
    torch.save(scaler.state_dict(), tmp_path / "state.pt")
    other = LossScaler(SMALL)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert other.state_dict() == scaler.state_dict()
    for bad in (False, False, False, True, True):
        go(scaler, parameter, optimizer, bad=bad)
        go(other, parameter, optimizer, bad=bad)
        assert other.scale == scaler.scale


@pytest.mark.parametrize(
    "change",
    [
        {"scale": math.nan}, {"scale": 0.0}, {"scale": -4.0}, {"scale": "8"}, {"scale": True},
        {"good_steps": -1}, {"patience": 1.5}, {"num_skipped": None}, {"extra": 1}, {"scale": None},
    ],
)  # fmt: skip
def test_invalid_state_changes_nothing(change: dict[str, Any]) -> None:
    scaler = LossScaler(SMALL)
    before = scaler.state_dict()
    with pytest.raises(InvalidInputError, match="is invalid"):
        scaler.load_state_dict({**before, **change})
    assert scaler.state_dict() == before
    missing = {key: value for key, value in before.items() if key != "scale"}
    with pytest.raises(InvalidInputError, match="scale"):
        scaler.load_state_dict(missing)


def test_a_scale_outside_new_limits_is_clamped() -> None:
    scaler = LossScaler(SMALL)
    scaler.load_state_dict({**scaler.state_dict(), "scale": 65536.0})
    assert scaler.scale == SMALL.ceiling
    scaler.load_state_dict({})  # the run so far did not scale
    assert scaler.scale == SMALL.ceiling
