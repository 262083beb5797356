"""The plan over unequal workers, played through with a clock of its own: no time passes here."""

from __future__ import annotations

import heapq
import itertools
import random
import statistics
from collections.abc import Sequence

import pytest

from anyrig.work.pack import Item
from anyrig.work.schedule import Lane, Plan
from benchmarks.work import best_subset, ideal

LATENCY_S = 0.0005


class World:
    """Workers of given speeds that take what the plan gives, one item after the other."""

    def __init__(self, costs: Sequence[float], speeds: Sequence[float]) -> None:
        self.plan: Plan[None] = Plan()
        self.speeds = speeds
        for number in range(len(speeds)):
            self.plan.lanes[number] = Lane(number)
        for index, cost in enumerate(costs):
            self.plan.add(Item(index, None, cost))
        self.plan.ended = True
        self.queues: list[list[Item[None]]] = [[] for _ in speeds]
        self.computing: list[Item[None] | None] = [None] * len(speeds)
        self.events: list[tuple[float, int, int, float]] = []
        self.ticket = itertools.count()
        self.num_computed = 0

    def play(self, count: int) -> float:
        """When the last result is there."""
        now, done = 0.0, 0
        self._give(now)
        while done < count:
            now, _, number, took = heapq.heappop(self.events)
            item = self.computing[number]
            assert item is not None
            self.num_computed += 1
            lane = self.plan.lanes[number]
            lane.learn(item.cost, took)
            fresh = self.plan.returned(lane, [item.index], now + LATENCY_S)
            done += len(fresh)
            for other, indices in self.plan.elsewhere(lane, fresh).items():
                for index in indices:
                    self._drop(other, index)
            self.computing[number] = None
            self._begin(number, now)
            self._give(now + LATENCY_S)
        return now

    def _drop(self, number: int, index: int) -> None:
        kept = [item for item in self.queues[number] if item.index != index]
        if len(kept) < len(self.queues[number]):
            self.queues[number] = kept
            self.plan.lanes[number].hand.pop(index)

    def _give(self, now: float) -> None:
        for number, lane in self.plan.lanes.items():
            self.queues[number] += self.plan.next_for(lane, now)
            if self.computing[number] is None:
                self._begin(number, now + LATENCY_S)

    def _begin(self, number: int, now: float) -> None:
        if self.queues[number]:
            item = self.computing[number] = self.queues[number].pop(0)
            took = item.cost / self.speeds[number]
            heapq.heappush(self.events, (now + took, next(self.ticket), number, took))


def draw(kind: str, count: int, mean: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    if kind == "equal":
        return [mean] * count
    if kind == "uniform":
        return [mean * rng.uniform(0.2, 1.8) for _ in range(count)]
    return [mean * min(8.0, rng.lognormvariate(-0.3, 0.8)) for _ in range(count)]


@pytest.mark.parametrize("kind", ["equal", "uniform", "lognormal"])
@pytest.mark.parametrize(("count", "mean"), [(60, 0.1), (100, 0.05), (400, 0.02), (2000, 0.01)])
def test_three_unequal_speeds_end_within_four_per_cent_of_the_ideal(
    kind: str, count: int, mean: float
) -> None:
    ratios = []
    for seed in range(5):
        costs = draw(kind, count, mean, seed)
        ratios.append(World(costs, (1, 0.5, 0.2)).play(count) / ideal(costs, (1, 0.5, 0.2)))
    assert statistics.median(ratios) <= 1.04


@pytest.mark.parametrize("kind", ["equal", "uniform", "lognormal"])
@pytest.mark.parametrize(("count", "mean"), [(100, 0.1), (200, 0.05), (1000, 0.02)])
def test_a_very_slow_device_never_delays_the_end(kind: str, count: int, mean: float) -> None:
    speeds = (1, 0.2, 0.025)
    ratios = []
    for seed in range(5):
        costs = draw(kind, count, mean, seed)
        ratios.append(World(costs, speeds).play(count) / best_subset(costs, speeds))
    assert statistics.median(ratios) <= 1.015


def test_the_slowest_one_is_of_use_when_there_is_time() -> None:
    costs = [0.05] * 2000
    with_it = World(costs, (1, 0.2, 0.025)).play(len(costs))
    without = World(costs, (1, 0.2)).play(len(costs))
    assert with_it < without * 0.99


def test_little_is_computed_twice() -> None:
    world = World(draw("uniform", 500, 0.05, 1), (1, 0.5, 0.2))
    world.play(500)
    assert world.num_computed <= 505


def test_one_worker_does_everything() -> None:
    costs = draw("lognormal", 50, 0.1, 3)
    assert World(costs, (1,)).play(50) == pytest.approx(sum(costs), rel=0.02)


def test_a_prior_speed_saves_the_slow_one_its_first_item() -> None:
    """A measured device that would end after the others is given nothing at all."""
    world = World([0.1] * 20, (1, 0.01))
    world.plan.lanes[0].prior, world.plan.lanes[1].prior = 100.0, 1.0
    world.plan.lanes[0].learn(0.1, 0.1)
    end = world.play(20)
    assert end <= 2.1
    assert world.computing[1] is None
    assert not world.queues[1]


def test_items_of_a_worker_that_is_gone_wait_again() -> None:
    plan: Plan[None] = Plan()
    lane = plan.lanes[0] = Lane(0)
    for index in range(3):
        plan.add(Item(index, None, 1.0))
    given = plan.next_for(lane, 0.0)
    assert plan.gone(lane) == given
    assert not plan.lanes
