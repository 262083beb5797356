"""Batches from data sets, streams and the user's own loaders."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.training import Settings, Trainer
from anyrig.training.distributed.shares import Shares
from anyrig.training.feed import Fed, Feed, Position
from anyrig.training.settings import Keeping, Loading


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
@pytest.mark.parametrize("size", [2, 3])
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
    for data in (numbers(2), Stream(2)):
        shares = Shares(3)
        share = lambda count, shares=shares: shares.next(count, 2)  # noqa: E731
        (fed,) = steps(Feed(data, 2, share=share))
        assert (fed.samples, fed.total, len(fed.batch)) == (0, 2, 1)


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


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        Feed([], 4)
    with pytest.raises(InvalidInputError, match="cannot be used as training data") as caught:
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


def test_a_stream_that_fills_no_batch_ends_in_words() -> None:
    with pytest.raises(InvalidInputError, match="no item"):
        trained(Stream(0))
    with pytest.raises(InvalidInputError, match="batch") as caught:
        trained(Stream(3))
    assert "drop_last" in caught.value.hint
    assert trained(Stream(3), drop_last=False) == 6


def test_an_iterator_that_cannot_begin_anew_is_refused() -> None:
    with pytest.raises((InvalidInputError, InvalidSettingError), match="once") as caught:
        trained(iter(numbers()))
    assert "__iter__" in caught.value.hint


TEXT = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"


class Numbers(Dataset[Any]):
    """Items that are their own numbers, and who read them."""

    def __init__(self, count: int = 40) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> torch.Tensor:
        worker = get_worker_info()
        return torch.tensor([float(number), -1.0 if worker is None else float(worker.id)])


class WordStream(IterableDataset[Any]):
    def __init__(self, count: int = 22) -> None:
        self.count = count

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(self.count):
            yield torch.tensor([float(number), -1.0])


class Steps:
    """Trains on a loader, and notes the items of every step and of every pass."""

    def __init__(self, loader: Any, **options: Any) -> None:
        self.steps: list[list[int]] = []
        self.readers: set[int] = set()
        self.passes: list[int] = []
        self.most = 10**9
        self._open: list[int] = []
        changed = {
            "batch": 32, "micro_batch": 64, "epochs": 1, "precision": "fp32",
            "learning_rate": 1e-3, "keeping": Keeping(every_s=0), **options.pop("changed", {}),
        }  # fmt: skip
        torch.manual_seed(0)
        self.watch: Any = _Watch(self)
        self.trainer = Trainer(
            nn.Linear(2, 1), data=loader, loss=self._loss, settings=Settings(**changed),
            device="cpu", watch=self.watch, **options,
        )  # fmt: skip

    def _loss(self, net: nn.Module, batch: Any) -> torch.Tensor:
        if len(batch) > self.most:
            self._open.clear()
            raise torch.OutOfMemoryError(TEXT)
        self.passes.append(len(batch))
        self._open += [int(one) for one in batch[:, 0]]
        self.readers |= {int(one) for one in batch[:, 1]}
        found: torch.Tensor = net(batch).square().mean()
        return found

    def end_step(self) -> None:
        self.steps.append(list(self._open))
        self._open.clear()

    def run(self) -> Any:
        with self.trainer as trainer:
            trainer.open()
            self._open.clear()
            self.passes.clear()
            self.readers.clear()
            return trainer.run()


class _Watch:
    def __init__(self, steps: Steps) -> None:
        from anyrig.training.protocol import Unwatched

        self._steps, self._plain, self.events = steps, Unwatched(), list[str]()

    def step(self, facts: Any) -> None:
        self._steps.end_step()

    def event(self, kind: str, text: str, **facts: Any) -> None:
        self.events.append(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def listed(loader: Any, epochs: int = 1) -> list[list[int]]:
    return [[int(one) for one in batch[:, 0]] for _ in range(epochs) for batch in loader]


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def double(items: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(items) * torch.tensor([2.0, 1.0])


LOADERS = {
    "plain": lambda: DataLoader(Numbers(), batch_size=12),
    "collate": lambda: DataLoader(Numbers(), batch_size=7, collate_fn=double),
    "generator": lambda: DataLoader(Numbers(), batch_size=12, shuffle=True, generator=generator()),
    "weights": lambda: DataLoader(
        Numbers(), batch_size=10,
        sampler=WeightedRandomSampler([1.0] * 5 + [0.0] * 35, 30, generator=generator()),
    ),
    "batch sampler": lambda: DataLoader(
        Numbers(), batch_sampler=BatchSampler(SequentialSampler(range(25)), 6, drop_last=False)
    ),
    "workers": lambda: DataLoader(Numbers(16), batch_size=4, num_workers=2),
    "stream": lambda: DataLoader(WordStream(), batch_size=5),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADERS)
def test_a_run_sees_the_batches_of_the_loader(name: str) -> None:
    wanted = listed(LOADERS[name](), 2)
    seen = Steps(LOADERS[name](), changed={"steps": len(wanted)})
    summary = seen.run()
    assert seen.steps == wanted
    assert summary.steps == len(wanted)


def test_epochs_are_counted_in_batches_of_the_loader() -> None:
    seen = Steps(DataLoader(Numbers(40), batch_size=16), changed={"epochs": 3})
    assert seen.run().steps == 9
    with seen.trainer as trainer:
        trainer.open()
        assert any("batches of 16" in one for one in trainer.reasons)


def test_a_smaller_micro_batch_leaves_the_batch_and_the_order() -> None:
    def loader() -> Any:
        return DataLoader(Numbers(), batch_size=20, shuffle=True, generator=generator())

    for most in (8, 3):
        seen = Steps(loader())
        seen.most = most
        with seen.trainer as trainer:
            trainer.open()
            seen._open.clear()
            trainer.run()
        assert seen.steps == listed(loader())
        assert max(seen.passes) <= most


def test_workers_are_those_of_the_loader() -> None:
    seen = Steps(DataLoader(Numbers(16), batch_size=4, num_workers=2))
    seen.run()
    assert seen.readers == {0, 1}
    seen = Steps(DataLoader(Numbers(16), batch_size=4))
    seen.run()
    assert seen.readers == {-1}
    # A setting that says a number is meant for this run.
    loading = {"loading": Loading(num_workers=0)}
    seen = Steps(DataLoader(Numbers(16), batch_size=4, num_workers=2), changed=loading)
    seen.run()
    assert seen.readers == {-1}


class Own(Sampler[int]):
    """Draws from Python's own random numbers, or from a source that nobody knows of."""

    def __init__(self, source: random.Random | None = None) -> None:
        self.source: Any = source or random

    def __len__(self) -> int:
        return 40

    def __iter__(self) -> Iterator[int]:
        for _ in range(40):
            yield self.source.randrange(40)


def samplers() -> dict[str, Any]:
    return {
        "shuffle": lambda: DataLoader(Numbers(), batch_size=8, shuffle=True),
        "own": lambda: DataLoader(Numbers(), batch_size=8, sampler=Own()),
        "own, seeded": lambda: DataLoader(Numbers(), batch_size=8, sampler=Own(random.Random(3))),
        "workers": lambda: DataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=2),
        "stream": lambda: DataLoader(WordStream(40), batch_size=8),
    }


@pytest.mark.parametrize("stop", [5, 7])
@pytest.mark.parametrize("name", samplers())
def test_a_resume_goes_on_with_the_items_that_are_due(name: str, stop: int, tmp_path: Path) -> None:
    make = samplers()[name]
    whole = Steps(make(), changed={"steps": 12})
    whole.run()
    first = Steps(make(), changed={"steps": stop}, folder=tmp_path / "run")
    first.run()
    rest = Steps(make(), changed={"steps": 12}, folder=tmp_path / "run")
    rest.run()
    assert first.steps + rest.steps == whole.steps
    assert not any("another order" in text for text in rest.watch.events)


def test_a_sampler_that_cannot_go_on_exactly_is_told(tmp_path: Path) -> None:
    def loader(seed: int) -> Any:
        return DataLoader(Numbers(), batch_size=8, sampler=Own(random.Random(seed)))

    Steps(loader(1), changed={"steps": 3}, folder=tmp_path / "run").run()
    rest = Steps(loader(2), changed={"steps": 5}, folder=tmp_path / "run")
    assert rest.run().steps == 5
    lines = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert "gives another order than before" in lines


def test_several_processes_share_each_batch_of_the_loader() -> None:
    def loader() -> Any:
        return DataLoader(Numbers(), batch_size=12, shuffle=True)

    whole = [[int(one) for one in fed.batch[:, 0]] for fed in Feed(loader(), 1).over()]
    parts = []
    for rank in range(2):
        shares = Shares(2)
        share = lambda count, shares=shares, rank=rank: shares.next(count, rank)  # noqa: E731
        parts.append(list(Feed(loader(), 1, share=share, num_processes=2).over()))
    for number, batch in enumerate(whole):
        both = [rank[number].batch for rank in parts]
        assert [int(one) for part in both for one in part[:, 0]] == batch
        assert all(rank[number].total == len(batch) for rank in parts)


def test_a_distributed_sampler_has_shared_them_out() -> None:
    seen = []
    for rank in range(2):
        data = Numbers(16)
        sampler: Any = DistributedSampler(data, num_replicas=2, rank=rank, seed=4)
        loader = DataLoader(data, batch_size=4, sampler=sampler)
        feed = Feed(loader, 1, num_processes=2)
        assert (feed.batch, feed.steps_in_epoch) == (8, 2)
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            wanted = listed(loader)
            found = list(feed.over(Position(epoch)))
            assert [[int(one) for one in fed.batch[:, 0]] for fed in found] == wanted
            assert {(fed.samples, fed.total) for fed in found} == {(4, 8)}
            seen.append(sorted(sum(wanted, [])))
    assert sorted(seen[0] + seen[2]) == list(range(16))


def test_a_sampler_for_other_processes_is_refused() -> None:
    data = Numbers()
    sampler: Any = DistributedSampler(data, num_replicas=2, rank=1)
    with pytest.raises(InvalidInputError, match="process 2 of 2") as caught:
        Steps(DataLoader(data, batch_size=4, sampler=sampler)).run()
    assert "environment=os.environ" in caught.value.hint


def test_validation_is_measured_on_what_its_loader_gives() -> None:
    """A subset by a sampler is the usual way to hold something back."""
    data = torch.arange(40.0)[:, None].repeat(1, 2)
    rows: Any = data
    held: Any = DataLoader(rows, batch_size=4, sampler=SubsetRandomSampler([1, 5, 7]))
    net = nn.Linear(2, 1)
    with Trainer(
        net, data=data, validation=held, settings=Settings(batch=4, micro_batch=4, steps=1),
        loss=lambda net, batch: batch[:, 0].mean() + 0 * net(batch).sum(), device="cpu",
    ) as trainer:  # fmt: skip
        assert trainer.evaluate()["loss"] == pytest.approx(13 / 3)
