"""Learning rates are a function of the step alone."""

from __future__ import annotations

import json
import math
from typing import cast

import pytest
import torch

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training.schedule import Rates, rate_at, warmup_steps
from anyrig.training.settings import Schedule


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


def test_shapes_in_the_middle() -> None:
    assert set(curve("constant")[10:]) == {2.0}
    assert curve("linear", warmup=0, final=0)[50] == pytest.approx(1.0)
    assert curve("cosine", warmup=0, final=0)[25] == pytest.approx(1 + math.cos(math.pi / 4))
    flat = curve("trapezoid", warmup=0, final=0)
    assert set(flat[:81]) == {2.0}
    assert flat[90] == pytest.approx(1.0)


def test_warm_up_is_a_share_or_a_number_of_steps() -> None:
    assert warmup_steps(0.02, 1000) == 20
    assert warmup_steps(20, 1000) == 20
    assert warmup_steps(1, 1000) == 1
    assert warmup_steps(0, 1000) == 0
    assert warmup_steps(5000, 1000) == 1000


def test_steps_past_the_end_stay_at_the_last_rate() -> None:
    assert rate_at(500, total=100, peak=1.0, schedule="cosine", final=0.1) == pytest.approx(0.1)
    assert rate_at(3, total=0, peak=1.0, schedule="linear", final=0.1) == 1.0
    assert rate_at(5, total=4, peak=1.0, schedule="trapezoid", warmup=4, final=0.1) == 1.0


def test_an_unknown_schedule_is_refused_even_where_nothing_falls_yet() -> None:
    with pytest.raises(InvalidSettingError, match="zigzag"):
        rate_at(0, total=10, peak=1.0, schedule=cast(Schedule, "zigzag"))


def optimiser_of(*rates: float | torch.Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": [torch.zeros(1)], "lr": rate} for rate in rates])


def test_groups_keep_their_proportions() -> None:
    optimiser = optimiser_of(1.0, 0.1)
    rates = Rates(optimiser, total=10, schedule="linear", final=0.0)
    seen = []
    for _ in range(10):
        first, second = (group["lr"] for group in optimiser.param_groups)
        assert second == pytest.approx(first / 10)
        seen.append(rates.step())
    assert seen == pytest.approx([1 - step / 10 for step in range(10)])


def test_rates_in_tensors_are_filled_in_place() -> None:
    tensor = torch.tensor(0.5)
    optimiser = torch.optim.AdamW([torch.zeros(1)], lr=tensor)
    rates = Rates(optimiser, total=10, schedule="linear", final=0.0)
    rates.step()
    assert optimiser.param_groups[0]["lr"] is tensor
    assert float(tensor) == pytest.approx(0.45)


def test_resume_is_exact_also_after_the_optimiser_was_loaded() -> None:
    first = optimiser_of(0.3)
    rates = Rates(first, total=50, warmup=0.1, final=0.1)
    for _ in range(17):
        rates.step()
    state = json.loads(json.dumps(rates.state_dict()))
    again = optimiser_of(0.3)
    resumed = Rates(again, total=50, warmup=0.1, final=0.1)
    again.load_state_dict(first.state_dict())
    resumed.load_state_dict(state)
    assert [rates.step() for _ in range(33)] == [resumed.step() for _ in range(33)]


def test_a_resume_may_change_the_peak() -> None:
    old = optimiser_of(0.3)
    Rates(old, total=10, schedule="constant")
    new = optimiser_of(0.6)
    rates = Rates(new, total=10, schedule="constant")
    new.load_state_dict(old.state_dict())
    rates.load_state_dict({"steps": 3})
    assert new.param_groups[0]["lr"] == rates.rate == 0.6


@pytest.mark.parametrize("state", [{}, {"steps": -1}, {"steps": "3"}, {"steps": True}])
def test_nonsense_in_a_checkpoint_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="makes no sense"):
        Rates(optimiser_of(0.3), total=10).load_state_dict(state)
