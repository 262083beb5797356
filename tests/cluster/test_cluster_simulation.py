"""Rooms of 1 to 1,000 workers with a clock of their own, under the real plan and the real shift.

The bar: within 8 % of all work over all speed (or of the largest segment on the fastest), whatever
the speeds, who dies, freezes, comes late, and however the segments come.
"""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import median

import pytest

from benchmarks.cluster_simulation import (
    FAULT_KINDS,
    LOCAL,
    REMOTE,
    SPEED_KINDS,
    SimulatedWorker,
    SimulationSettings,
    draw_costs,
    draw_faults,
    draw_speeds,
    ideal_s,
    simulate,
)

MOST = 1.08
SLOW = pytest.mark.slow
UNKNOWN_SPEEDS = replace(REMOTE, known=False, noise=0.1)


def ratio(
    count: int, kind: str, fault: str, settings: SimulationSettings, each: float, seed: int = 1
) -> float:
    """When all is done, over the ideal, with about so many segments for a worker of speed 1."""
    rng = random.Random(seed)
    rates = draw_speeds(kind, count, rng)
    mean_s = settings.slice_s
    costs = draw_costs(round(each * sum(rates)) + 20, rng, mean_s)
    workers = draw_faults(fault, rates, sum(costs) / sum(rates), rng)
    result = simulate(costs, workers, settings, seed=seed)
    assert result.num_done == len(costs)
    return result.end_s / ideal_s(costs, workers, lost=result.lost)


@pytest.mark.parametrize("count", [3, pytest.param(1, marks=SLOW), pytest.param(10, marks=SLOW)])
def test_all_ends_near_the_ideal_whatever_befalls_the_workers(
    count: int, subtests: pytest.Subtests
) -> None:
    for kind in SPEED_KINDS:
        for fault in FAULT_KINDS:
            with subtests.test(kind=kind, fault=fault):
                # A worker that dies near the end is missed after a lease of 14 s.
                assert ratio(count, kind, fault, REMOTE, 200) <= MOST


@pytest.mark.parametrize("count", [3, pytest.param(20, marks=SLOW)])
def test_and_where_speeds_must_be_learnt_and_vary(count: int, subtests: pytest.Subtests) -> None:
    for kind in SPEED_KINDS:
        for fault in ["none", "all"]:
            with subtests.test(kind=kind, fault=fault):
                assert ratio(count, kind, fault, UNKNOWN_SPEEDS, 120) <= MOST


@pytest.mark.parametrize("kind", ["mixed", "two kinds"])
def test_and_in_a_short_run_of_many(kind: str) -> None:
    """The longest segment alone takes a quarter of it, and every shard up to a tenth longer."""
    assert max(ratio(100, kind, "none", UNKNOWN_SPEEDS, 30, seed) for seed in (0, 1)) <= MOST


@pytest.mark.parametrize("kind", SPEED_KINDS)
def test_and_among_devices_of_one_machine(kind: str) -> None:
    assert ratio(4, kind, "none", LOCAL, 150) <= MOST


def test_a_thousand_workers_end_near_the_ideal() -> None:
    assert ratio(1000, "mixed", "none", REMOTE, 12) <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("settings", [REMOTE, UNKNOWN_SPEEDS], ids=["known", "learnt"])
def test_a_thousand_workers_of_which_many_die(settings: SimulationSettings) -> None:
    """Of 18 seeds, the median was 1.034 and the largest 1.089: two deaths near the end cost up to
    a lease, which is a tenth of this run.
    """
    assert median(ratio(1000, "mixed", "all", settings, 100, seed) for seed in (1, 2, 3)) <= MOST


@pytest.mark.parametrize("load", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["mixed", "two kinds"])
def test_a_stream_of_segments_ends_soon_after_its_last(kind: str, load: float) -> None:
    rng = random.Random(5)
    rates = draw_speeds(kind, 6, rng)
    costs = draw_costs(round(160 * sum(rates)), rng)
    until = sum(costs) / sum(rates) / load
    arrivals = sorted(rng.uniform(0, until) for _ in costs)
    result = simulate(costs, rates, REMOTE, arrivals_s=arrivals)
    assert result.end_s <= MOST * ideal_s(costs, rates, arrivals_s=arrivals)


@pytest.mark.parametrize("load", [1.0, 3.0])
@pytest.mark.parametrize("count", [20, 100])
@pytest.mark.parametrize("fault", ["restarted", "leaves"])
def test_a_stream_goes_on_while_workers_are_restarted_or_leave(
    fault: str, count: int, load: float
) -> None:
    """A worker that is started anew is gone and there in the same moment, with its speed known."""
    rng = random.Random(count)
    rates = draw_speeds("mixed", count, rng)
    costs = draw_costs(round(200 / load * sum(rates)), rng)
    least = sum(costs) / sum(rates)
    arrivals = sorted(rng.uniform(0, least / load) for _ in costs)
    workers = draw_faults(fault, rates, least, rng)
    assert sum(one.restarts or one.leaves for one in workers) > count / 5
    result = simulate(costs, workers, REMOTE, arrivals_s=arrivals)
    assert result.end_s <= MOST * ideal_s(costs, workers, lost=result.lost, arrivals_s=arrivals)


def test_one_that_leaves_brings_what_it_has_and_is_given_nothing_more() -> None:
    costs = [1.0] * 40
    leaves = SimulatedWorker(1.0, fails_s=10.5, leaves=True)
    result = simulate(costs, [SimulatedWorker(1.0), leaves], REMOTE)
    assert -2.6 < result.lost < -0.4, (
        "the second that it was at, and perhaps the one that lay ready"
    )
    assert result.end_s <= 1.08 * ideal_s(costs, [SimulatedWorker(1.0), leaves], lost=result.lost)
    back = replace(leaves, returns_s=20.0)
    assert simulate(costs, [SimulatedWorker(1.0), back], REMOTE).end_s < result.end_s - 3


def test_two_fast_workers_and_one_of_a_fortieth() -> None:
    """The measured case: 45 minutes on two GPUs, and 50 with a CPU beside them."""
    costs = draw_costs(2000, random.Random(9))
    two, three = simulate(costs, [1.0, 1.0], REMOTE), simulate(costs, [1.0, 1.0, 1 / 40], REMOTE)
    assert three.end_s < two.end_s
    learnt = simulate(costs, [1.0, 1.0, 1 / 40], UNKNOWN_SPEEDS)
    assert learnt.end_s <= two.end_s * 1.01


def test_workers_that_die_one_after_the_other_do_no_harm() -> None:
    """Every minute one comes, and dies of nothing after seven seconds."""
    costs = draw_costs(600, random.Random(2))
    workers = [
        SimulatedWorker(1.0),
        *(SimulatedWorker(1.0, joins_s=60.0 * n, fails_s=60.0 * n + 7) for n in range(5)),
    ]
    result = simulate(costs, workers, REMOTE)
    alone = simulate(costs, [1.0], REMOTE)
    assert result.end_s <= alone.end_s + REMOTE.lease_s
