"""Rooms of 1 to 1,000 workers with a clock of their own, under the real plan and the real shift.

The bar: within 8 % of all work over all speed (or of the largest segment on the fastest), whatever
the speeds, who dies, freezes, comes late, and however the segments come.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchmarks.cluster_fates import FATES, SPEEDS, Worker, fates, ideal, segments, speeds
from benchmarks.cluster_world import FAR, NEAR, Settings, play

MOST = 1.08
LEARNT = replace(FAR, known=False, noise=0.1)


def ratio(count: int, kind: str, fate: str, how: Settings, each: float, seed: int = 1) -> float:
    """When all is done, over the ideal, with about so many segments for a worker of speed 1."""
    rng = random.Random(seed)
    paces = speeds(kind, count, rng)
    mean_s = how.slice_s
    costs = segments(round(each * sum(paces)) + 20, rng, mean_s)
    workers = fates(fate, paces, sum(costs) / sum(paces), rng)
    told = play(costs, workers, how, seed=seed)
    assert told.num_done == len(costs)
    return told.end / ideal(costs, workers, lost=told.lost)


@pytest.mark.parametrize("kind", SPEEDS)
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("count", [1, 3, 10])
def test_all_ends_near_the_ideal_whatever_befalls_the_workers(
    count: int, fate: str, kind: str
) -> None:
    # Who dies near the end is missed after a lease of 14 s: a run must be long beside that.
    assert ratio(count, kind, fate, FAR, 200) <= MOST


@pytest.mark.parametrize("kind", SPEEDS)
@pytest.mark.parametrize("fate", ["none", "all"])
@pytest.mark.parametrize("count", [3, 20])
def test_and_where_speeds_must_be_learnt_and_vary(count: int, fate: str, kind: str) -> None:
    assert ratio(count, kind, fate, LEARNT, 120) <= MOST


@pytest.mark.parametrize("kind", SPEEDS)
def test_and_among_devices_of_one_machine(kind: str) -> None:
    assert ratio(4, kind, "none", NEAR, 150) <= MOST


def test_a_thousand_workers_end_near_the_ideal() -> None:
    assert ratio(1000, "mixed", "none", FAR, 12) <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("how", [FAR, LEARNT], ids=["known", "learnt"])
@pytest.mark.parametrize("fate", ["none", "all"])
def test_a_thousand_workers_and_a_whole_library(fate: str, how: Settings) -> None:
    assert ratio(1000, "mixed", fate, how, 100) <= MOST


@pytest.mark.parametrize("load", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["mixed", "two kinds"])
def test_a_stream_of_segments_ends_soon_after_its_last(kind: str, load: float) -> None:
    rng = random.Random(5)
    paces = speeds(kind, 6, rng)
    costs = segments(round(160 * sum(paces)), rng)
    until = sum(costs) / sum(paces) / load
    comes = sorted(rng.uniform(0, until) for _ in costs)
    told = play(costs, paces, FAR, comes=comes)
    assert told.end <= MOST * ideal(costs, paces, comes=comes)


def test_two_fast_workers_and_one_of_a_fortieth() -> None:
    """The measured case: 45 minutes on two GPUs, and 50 with a CPU beside them."""
    costs = segments(2000, random.Random(9))
    two, three = play(costs, [1.0, 1.0], FAR), play(costs, [1.0, 1.0, 1 / 40], FAR)
    assert three.end < two.end
    learnt = play(costs, [1.0, 1.0, 1 / 40], LEARNT)
    assert learnt.end <= two.end * 1.01


def test_workers_that_die_one_after_the_other_do_no_harm() -> None:
    """Every minute one comes, and dies of nothing after seven seconds."""
    costs = segments(600, random.Random(2))
    workers = [Worker(1.0), *(Worker(1.0, comes=60.0 * n, dies=60.0 * n + 7) for n in range(5))]
    told = play(costs, workers, FAR)
    alone = play(costs, [1.0], FAR)
    assert told.end <= alone.end + FAR.lease_s
