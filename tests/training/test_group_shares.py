"""Shares by speed: whole numbers, the same cut everywhere, gradients of one process."""

from __future__ import annotations

import itertools
import random
from typing import Any

import torch

from anyrig.training.distributed.alone import Alone
from anyrig.training.distributed.shares import Shares, Stopwatch, cut, step_time
from tests.training.ranks import model as toy
from tests.training.ranks import parallel
from tests.training.ranks.running import run_ranks


def test_no_other_cut_ends_sooner() -> None:
    chance = random.Random(3)
    for _ in range(300):
        size = chance.randint(1, 4)
        speeds = [10 ** chance.uniform(-2, 2) for _ in range(size)]
        num_items = chance.randint(0, 12)
        counts = cut(num_items, speeds)
        assert sum(counts) == num_items
        least = 1 if num_items >= size else 0
        assert min(counts) >= least
        others = itertools.product(range(least, num_items + 1), repeat=size)
        best = min(step_time(one, speeds) for one in others if sum(one) == num_items)
        assert step_time(counts, speeds) <= best * (1 + 1e-9)


def test_equal_shares_are_equal() -> None:
    assert [Shares(3).next(10, rank) for rank in range(3)] == [(0, 4), (4, 3), (7, 3)]
    assert cut(1000, [1.0] * 4) == [250] * 4


class _Told:
    """A second process with a speed of its own, over the same sum."""

    rank, size = 0, 2

    def __init__(self) -> None:
        self.other = 1.0

    def total(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor[0, 1] = self.other
        return tensor


def test_shares_stay_through_noise_and_move_with_the_device() -> None:
    shares, told, chance = Shares(2, "measured"), _Told(), random.Random(1)
    moves = []
    for step in range(400):
        slowed = 3.0 if step >= 200 else 1.0
        first, count = shares.next(64, 0)
        told.other = 1000 * chance.uniform(0.97, 1.03)
        shares.note(count, count / 1000 * slowed * chance.uniform(0.97, 1.03), told)
        moves.append((first, count))
    assert {count for _, count in moves[:200]} == {32}
    assert moves[-1][1] == 16
    assert len(set(moves)) <= 4


def test_a_process_without_items_moves_nothing() -> None:
    shares, told = Shares(2, "measured"), _Told()
    told.other = 0.0
    for _ in range(10):
        shares.next(1, 0)
        shares.note(1, 0.1, told)
    assert shares.speeds == (1.0, 1.0)


def test_a_stopwatch_counts_what_is_inside() -> None:
    watch = Stopwatch()
    with watch.computing():
        torch.ones(10).sum()
    assert watch.read() > 0
    assert watch.read() == 0


def test_the_faster_process_gets_more_and_gradients_stay_those_of_one() -> None:
    first, second = run_ranks(parallel.measured)
    assert first["shares"][0] == (0, 6)
    assert first["shares"][-1] == (0, 9)
    for one, other in zip(first["shares"], second["shares"], strict=True):
        assert (sum(one), sum(other)) == (other[0], toy.NUM_ITEMS)  # no gap, no item twice
    for step, (mine, theirs) in enumerate(zip(first["grads"], second["grads"], strict=True)):
        wanted = _alone(step)
        for name, value in wanted.items():
            assert torch.equal(mine[name], theirs[name])
            assert torch.allclose(mine[name], value, rtol=0, atol=1e-6), name


def _alone(step: int) -> dict[str, Any]:
    model = toy.Model()
    toy.gradients(model, Alone(), toy.items(step), toy.NUM_ITEMS)
    return toy.flat(model)
