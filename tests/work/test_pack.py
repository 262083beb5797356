"""Packing: everything comes out once, under the budget, with little padding."""

from __future__ import annotations

import math
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.errors import InvalidInputError
from anyrig.work.pack import Batch, Budget, Item, Packer, numbered, pack
from tests.conftest import ROOT


def lognormal(count: int, seed: int = 20261115) -> list[int]:
    """Token counts of mean 61, capped at 482, as texts have them."""
    rng = random.Random(seed)
    spread = 0.8
    middle = math.log(61) - spread * spread / 2
    return [min(482, max(1, round(rng.lognormvariate(middle, spread)))) for _ in range(count)]


def padding(costs: list[int], budget: Budget, look_ahead: int = 4096) -> float:
    batches = list(pack(numbered(costs, float), budget, look_ahead=look_ahead))
    assert sorted(i for batch in batches for i in batch.indices) == list(range(len(costs)))
    return sum(b.cost for b in batches) / sum(b.real_cost for b in batches)


@pytest.mark.parametrize("budget", [512, 2048, 8192, 16384, 65536])
@pytest.mark.parametrize("count", [500, 20_000])
def test_little_is_padded_on_a_lognormal_set(budget: int, count: int) -> None:
    assert padding(lognormal(count), Budget(budget)) <= 1.05


@pytest.mark.parametrize("look_ahead", [64, 256, 1024])
def test_little_is_padded_when_only_a_few_are_seen_ahead(look_ahead: int) -> None:
    assert padding(lognormal(5000), Budget(8192), look_ahead) <= 1.05


def test_little_is_padded_on_a_text() -> None:
    """The sentences of four chapters of Alice, which is in the public domain."""
    text = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8")
    lengths = [len(sentence) for sentence in re.split(r"(?<=[.!?])\s+", text) if sentence]
    assert len(lengths) > 100
    assert padding(lengths, Budget(4096)) <= 1.05


@settings(max_examples=200)
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
    budget = Budget(cost, items, call_cost, pads)
    batches = list(pack(numbered(costs, float), budget, look_ahead=look_ahead))
    assert sorted(i for batch in batches for i in batch.indices) == list(range(len(costs)))
    for batch in batches:
        assert len(batch.items) <= items
        assert len(batch.items) == 1 or batch.cost <= cost


def test_a_dear_call_is_worth_some_padding() -> None:
    costs = lognormal(300)
    cheap = list(pack(numbered(costs, float), Budget(8192)))
    dear = list(pack(numbered(costs, float), Budget(8192, call_cost=2000)))
    assert len(dear) < len(cheap) / 2


def test_the_oldest_item_never_waits_longer_than_the_look_ahead() -> None:
    """The one long text among short ones must not be put off for ever."""
    costs = [400] + [10] * 300
    read: list[int] = []

    def stream() -> list[Item[int]]:
        return list(numbered(costs, float))

    packed = pack(stream(), Budget(100), look_ahead=50)
    read = [next(packed).items[0].index for _ in range(3)]
    assert read[0] == 0


def test_halves_split_the_dear_from_the_cheap() -> None:
    batch = Batch(tuple(Item(i, None, float(c)) for i, c in enumerate([5, 1, 9, 3, 7])))
    small, large = batch.halves()
    assert [item.cost for item in small.items] == [1, 3, 5]
    assert [item.cost for item in large.items] == [7, 9]


@pytest.mark.parametrize("cost", [-1.0, math.inf, math.nan])
def test_a_cost_must_be_a_number(cost: float) -> None:
    with pytest.raises(InvalidInputError, match="item 0"):
        list(numbered(["x"], lambda _: cost))


def test_a_packer_knows_what_waits() -> None:
    packer: Packer[None] = Packer()
    for index, cost in enumerate([3.0, 1.0, 2.0]):
        packer.add(Item(index, None, cost))
    dear = packer.dearest(2.5)
    assert dear is not None
    assert (packer.oldest().index, packer.cheapest().index, dear.index) == (0, 1, 2)
    assert packer.dearest(0.5) is None
    packer.remove(1)
    assert (len(packer), packer.total_cost) == (2, 5.0)
