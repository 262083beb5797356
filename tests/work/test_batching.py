"""Packing items into batches, and the batch size found by measuring."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.errors import InvalidInputError
from anyrig.work.batching import (
    BatchBudget,
    BatchSizer,
    check_cost,
)
from benchmarks.work import pack


def lognormal(count: int, seed: int = 20261115) -> list[int]:
    """Token counts of mean 61, capped at 482, as texts have them."""
    rng = random.Random(seed)
    spread = 0.8
    middle = math.log(61) - spread * spread / 2
    return [min(482, max(1, round(rng.lognormvariate(middle, spread)))) for _ in range(count)]


def padding(costs: list[int], budget: BatchBudget, look_ahead: int = 4096) -> float:
    batches = pack(costs, budget, look_ahead=look_ahead)
    assert sorted(i for batch in batches for i in batch.indices) == list(range(len(costs)))
    return sum(b.cost for b in batches) / sum(b.real_cost for b in batches)


@pytest.mark.parametrize(
    ("count", "budget", "look_ahead"),
    [(500, 512, 4096), (500, 65536, 4096), (20_000, 8192, 4096), (5000, 8192, 64)],
)
def test_little_is_padded_on_lognormal_lengths(count: int, budget: int, look_ahead: int) -> None:
    assert padding(lognormal(count), BatchBudget(budget), look_ahead) <= 1.05


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 500), max_size=120),
    st.floats(0, 4000),
    st.integers(1, 40),
    st.floats(0, 500),
    st.booleans(),
    st.integers(1, 60),
)
def test_every_item_comes_out_once_within_the_budget(
    costs: list[int], cost: float, items: int, call_cost: float, pads: bool, look_ahead: int
) -> None:
    budget = BatchBudget(cost, items, call_cost, pads)
    batches = pack(costs, budget, look_ahead=look_ahead)
    assert sorted(i for batch in batches for i in batch.indices) == list(range(len(costs)))
    for batch in batches:
        assert len(batch.items) <= items
        assert len(batch.items) == 1 or batch.cost <= cost


def test_the_oldest_item_never_waits_longer_than_the_look_ahead() -> None:
    """The one long text among short ones must not be put off for ever."""
    costs = [400] + [10] * 300
    first = pack(costs, BatchBudget(100), look_ahead=50)[0]
    assert first.items[0].index == 0


@pytest.mark.parametrize("cost", [-1.0, math.inf, math.nan])
def test_a_cost_must_be_a_number(cost: float) -> None:
    with pytest.raises(InvalidInputError, match="invalid cost"):
        check_cost(cost, 0)


def drive(
    sizer: BatchSizer, seconds: Callable[[float], float], batches: int, item: float = 10.0
) -> float:
    """The size that a sizer ends with, on a device whose time for a cost is given."""
    for _ in range(batches):
        cost = max(item, sizer.budget.cost // item * item)
        sizer.record_success(cost, seconds(cost))
    return max(item, sizer.budget.cost)


def test_a_gpu_is_filled() -> None:
    """A call takes 10 ms whatever it holds, until 5000 a call fill the device."""
    assert drive(BatchSizer(), lambda cost: max(0.010, cost * 2e-6), 60) >= 4096


def test_on_a_cpu_batches_stay_small() -> None:
    assert drive(BatchSizer(), lambda cost: cost * 1e-3, 60) <= 20


def test_a_slow_first_call_does_not_stop_the_growth() -> None:
    calls = iter(range(1000))
    slow_first = lambda cost: (1.0 if next(calls) == 0 else 0) + max(0.01, cost * 1e-6)  # noqa: E731
    assert drive(BatchSizer(), slow_first, 80) >= 4096


def test_items_more_expensive_than_the_first_do_not_stop_the_growth() -> None:
    sizer = BatchSizer()
    sizer.record_success(1.0, 0.01)
    for _ in range(40):
        cost = max(300.0, sizer.budget.cost)
        sizer.record_success(cost, max(0.01, cost * 1e-6))
    assert sizer.budget.cost >= 4096


def test_what_ran_out_of_memory_is_not_tried_again_soon() -> None:
    sizer = BatchSizer(start=1024)
    sizer.record_out_of_memory(1000)
    assert sizer.budget.cost == 500
    for _ in range(20):
        sizer.record_success(500, 0.1)
    assert sizer.budget.cost == 500


def test_it_grows_again_carefully_and_more_seldom_after_each_failure() -> None:
    sizer = BatchSizer(start=1024)
    waited = []
    for _ in range(3):
        sizer.record_out_of_memory(sizer.budget.cost)
        before, count = sizer.budget.cost, 0
        while sizer.budget.cost == before:
            sizer.record_success(sizer.budget.cost, 0.1)
            count += 1
        assert before < sizer.budget.cost <= before * 1.2
        waited.append(count)
    assert waited == [32, 64, 128]


def test_memory_taken_by_another_program_lowers_the_limit() -> None:
    sizer = BatchSizer(start=1024)
    for _ in range(5):
        sizer.record_success(1000, 0.1)
    sizer.record_out_of_memory(600)
    assert sizer.budget.cost == 300


def test_the_largest_that_worked_is_kept_when_a_larger_one_fails() -> None:
    sizer = BatchSizer(start=4096)
    sizer.record_success(2000, 0.1)
    sizer.record_out_of_memory(2500)
    assert sizer.budget.cost == 2000


def test_without_growing_every_item_goes_alone() -> None:
    sizer = BatchSizer(grow=False)
    for _ in range(10):
        sizer.record_success(1000, 0.001)
    assert (sizer.budget.items, sizer.budget.cost) == (1, 0.0)


def test_an_engine_of_one_item_at_a_time_is_not_given_more_and_more() -> None:
    sizer = BatchSizer(max_items=1)
    for _ in range(100):
        sizer.record_success(10.0, 0.01)
    assert sizer.budget.cost <= 64


def test_a_profile_may_accept_less_speed_for_smaller_batches() -> None:
    def seconds(cost: float) -> float:
        return 0.010 + cost * 1e-6

    full, half = drive(BatchSizer(), seconds, 80), drive(BatchSizer(keep_speed=0.5), seconds, 80)
    assert half < full / 4
