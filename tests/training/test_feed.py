"""Which items a step has: the same for any number of processes, and from any position on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training import Settings, Trainer
from anyrig.training.distributed.shares import Shares
from anyrig.training.feed import Fed, Feed, Position
from anyrig.training.settings import Loading


def numbers(count: int = 23) -> list[int]:
    return list(range(count))


def steps(feed: Feed, position: Position = Position()) -> list[Fed]:  # noqa: B008
    try:
        return list(feed.over(position))
    finally:
        feed.close()


def items(fed: Fed) -> list[int]:
    return [int(one) for one in fed.batch[: fed.samples]]


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_processes_together_have_the_batches_of_one(size: int, drop_last: bool) -> None:
    whole = [items(fed) for fed in steps(Feed(numbers(), 5, drop_last=drop_last))]
    ranks = []
    for rank in range(size):
        shares = Shares(size)
        share = lambda count, shares=shares, rank=rank: shares.next(count, rank)  # noqa: E731
        ranks.append(steps(Feed(numbers(), 5, drop_last=drop_last, share=share)))
    for number, batch in enumerate(whole):
        assert sum((items(rank[number]) for rank in ranks), []) == batch
        assert all(rank[number].total == len(batch) for rank in ranks)
    assert all(len(rank) == len(whole) for rank in ranks)


def test_a_process_without_an_item_is_given_one_that_does_not_count() -> None:
    shares = Shares(3)
    (fed,) = steps(Feed(numbers(2), 2, share=lambda count: shares.next(count, 2)))
    assert fed.samples == 0
    assert fed.total == 2
    assert len(fed.batch) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_every_position_goes_on_where_it_is(stream: bool) -> None:
    def feed() -> Feed:
        data: Any = Stream(23) if stream else numbers()
        return Feed(data, 4, seed=3, drop_last=False)

    for epoch in (0, 1):
        whole = [items(fed) for fed in steps(feed(), Position(epoch))]
        assert len(whole) == 6
        for step in range(7):
            rest = [items(fed) for fed in steps(feed(), Position(epoch, step))]
            assert rest == whole[step:]


class Stream(torch.utils.data.IterableDataset[int]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


class Sized(Stream):
    """A stream that knows its length is still a stream."""

    def __len__(self) -> int:
        return self.count


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    def order(seed: int, epoch: int, *, shuffle: bool = True) -> list[int]:
        feed = Feed(numbers(), 23, seed=seed, shuffle=shuffle)
        return items(steps(feed, Position(epoch))[0])

    orders = [order(0, 0), order(0, 1), order(1, 0), numbers()]
    assert all(sorted(one) == numbers() for one in orders)
    assert len({tuple(one) for one in orders}) == 4
    assert order(0, 1) == orders[1]
    assert order(0, 1, shuffle=False) == numbers()


@pytest.mark.parametrize(("drop_last", "sizes"), [(True, [5] * 4), (False, [5, 5, 5, 5, 3])])
def test_the_last_smaller_batch(drop_last: bool, sizes: list[int]) -> None:
    for data in (numbers(), Stream(23), Sized(23)):
        feed = Feed(data, 5, drop_last=drop_last)
        assert [fed.total for fed in steps(feed)] == sizes
        assert feed.steps_in_epoch == (len(sizes) if isinstance(data, list) else None)


def test_a_batch_larger_than_the_data_is_all_of_it() -> None:
    feed = Feed(numbers(3), 100)
    assert feed.steps_in_epoch == 1
    assert [fed.total for fed in steps(feed)] == [3]


def test_a_stream_that_knows_its_length_runs_by_steps() -> None:
    assert [fed.total for fed in steps(Feed(Sized(7), 3, drop_last=False))] == [3, 3, 1]


def test_a_loader_is_taken_as_it_is() -> None:
    data: Any = numbers()
    loader: Any = torch.utils.data.DataLoader(
        data, batch_size=2, collate_fn=lambda found: torch.tensor(found) + 100
    )
    found = [fed.batch.tolist() for fed in steps(Feed(loader, 23))]
    assert found == [batch.tolist() for batch in loader]


@pytest.mark.parametrize("kind", ["text", "mapping", "pair"])
def test_items_of_any_kind(kind: str) -> None:
    kinds: dict[str, list[Any]] = {
        "text": ["a", "b", "c"],
        "mapping": [{"x": torch.tensor([float(n)]), "name": str(n)} for n in range(3)],
        "pair": [(torch.zeros(2), n) for n in range(3)],
    }
    data = kinds[kind]
    (fed,) = steps(Feed(data, 3, shuffle=False))
    assert fed.samples == fed.total == 3
    if kind == "text":
        assert list(fed.batch) == data
    elif kind == "mapping":
        assert fed.batch["x"].shape == (3, 1)
        assert list(fed.batch["name"]) == ["0", "1", "2"]
    else:
        assert fed.batch[1].tolist() == [0, 1, 2]


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        Feed([], 4)
    with pytest.raises(InvalidInputError, match="no data to train on") as caught:
        Feed(3, 4)
    assert "iterable" in caught.value.hint


# ---------------------------------------------------------------- through the trainer


def trained(data: Any, **changed: Any) -> int:
    torch.manual_seed(0)
    settings = Settings(
        **{"batch": 4, "micro_batch": 4, "steps": 6, "precision": "fp32",
           "loading": Loading(num_workers=0), **changed}
    )  # fmt: skip
    with Trainer(
        torch.nn.Linear(1, 1), data=data, settings=settings, device="cpu",
        loss=lambda model, batch: model(batch.float()[:, None]).square().mean(),
    ) as trainer:  # fmt: skip
        return trainer.run().steps


def test_streams_begin_anew_until_the_steps_are_made() -> None:
    assert trained(Stream(10)) == 6


def test_a_stream_with_nothing_in_it_ends_in_words() -> None:
    with pytest.raises(InvalidInputError, match="no item"):
        trained(Stream(0))


def test_a_stream_that_fills_no_batch_ends_in_words() -> None:
    with pytest.raises(InvalidInputError, match="batch") as caught:
        trained(Stream(3))
    assert "drop_last" in caught.value.hint
    assert trained(Stream(3), drop_last=False) == 6


def test_an_iterator_that_cannot_begin_anew_is_refused() -> None:
    with pytest.raises((InvalidInputError, InvalidSettingError), match="once") as caught:
        trained(iter(numbers()))
    assert "__iter__" in caught.value.hint
