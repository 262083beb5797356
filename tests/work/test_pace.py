"""The size of batches is found by measuring, and held under what memory allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anyrig.work.pace import Pace, call_cost


def drive(pace: Pace, seconds: Callable[[float], float], batches: int, item: float = 10.0) -> float:
    """The size that a pace ends with, on a device whose time for a cost is given."""
    for _ in range(batches):
        cost = max(item, pace.budget.cost // item * item)
        pace.worked(cost, seconds(cost))
    return max(item, pace.budget.cost)


def test_a_gpu_is_filled() -> None:
    """A call takes 10 ms whatever it holds, until 5000 a call fill the device."""
    assert drive(Pace(), lambda cost: max(0.010, cost * 2e-6), 60) >= 4096


def test_on_a_cpu_batches_stay_small() -> None:
    assert drive(Pace(), lambda cost: cost * 1e-3, 60) <= 20


def test_a_cpu_that_gets_slower_with_the_batch_keeps_one_item() -> None:
    assert drive(Pace(), lambda cost: cost * 1e-3 * (1 + cost / 100), 60) <= 16


def test_a_slow_first_call_does_not_stop_the_growth() -> None:
    calls = iter(range(1000))
    slow_first = lambda cost: (1.0 if next(calls) == 0 else 0) + max(0.01, cost * 1e-6)  # noqa: E731
    assert drive(Pace(), slow_first, 80) >= 4096


def test_items_dearer_than_the_first_one_do_not_hold_it_up() -> None:
    pace = Pace()
    pace.worked(1.0, 0.01)
    for _ in range(40):
        cost = max(300.0, pace.budget.cost)
        pace.worked(cost, max(0.01, cost * 1e-6))
    assert pace.budget.cost >= 4096


def test_what_ran_out_of_memory_is_not_tried_again_soon() -> None:
    pace = Pace(start=1024)
    pace.ran_out(1000)
    assert pace.budget.cost == 500
    for _ in range(20):
        pace.worked(500, 0.1)
    assert pace.budget.cost == 500


def test_it_grows_again_carefully_and_more_seldom_after_each_failure() -> None:
    pace = Pace(start=1024)
    waited = []
    for _ in range(3):
        pace.ran_out(pace.budget.cost)
        before, count = pace.budget.cost, 0
        while pace.budget.cost == before:
            pace.worked(pace.budget.cost, 0.1)
            count += 1
        assert before < pace.budget.cost <= before * 1.2
        waited.append(count)
    assert waited == [32, 64, 128]


def test_memory_that_somebody_else_took_is_noticed() -> None:
    pace = Pace(start=1024)
    for _ in range(5):
        pace.worked(1000, 0.1)
    pace.ran_out(600)
    assert pace.budget.cost == 300


def test_the_largest_that_worked_is_kept_when_a_larger_one_fails() -> None:
    pace = Pace(start=4096)
    pace.worked(2000, 0.1)
    pace.ran_out(2500)
    assert pace.budget.cost == 2000


def test_without_growing_every_item_goes_alone() -> None:
    pace = Pace(grows=False)
    for _ in range(10):
        pace.worked(1000, 0.001)
    assert (pace.budget.items, pace.budget.cost) == (1, 0.0)


def test_a_most_is_never_passed() -> None:
    assert drive(Pace(most=100), lambda cost: 0.01, 60) <= 100


def test_the_cost_of_a_call_is_read_off_a_line() -> None:
    seen = [(cost, 0.005 + cost * 1e-5) for cost in (1000.0, 2000.0, 3000.0, 4000.0)]
    assert call_cost(seen) == pytest.approx(500)
    assert call_cost([(cost, cost * 1e-5) for cost, _ in seen]) == pytest.approx(0, abs=1e-6)
    assert call_cost([(1000.0, 0.01)] * 4) == 0.0


def test_the_rate_leaves_the_first_call_out() -> None:
    pace = Pace()
    assert pace.rate is None
    pace.worked(10, 5.0)
    pace.worked(10, 0.1)
    assert pace.rate == pytest.approx(100)


def test_an_engine_of_one_item_at_a_time_is_not_given_more_and_more() -> None:
    pace = Pace(items=1)
    for _ in range(100):
        pace.worked(10.0, 0.01)
    assert pace.budget.cost <= 64


def test_a_profile_may_be_content_with_less_speed() -> None:
    def seconds(cost: float) -> float:
        return 0.010 + cost * 1e-6

    full, half = drive(Pace(), seconds, 80), drive(Pace(keep=0.5), seconds, 80)
    assert half < full / 4
