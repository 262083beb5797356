"""What a run reads: data sets, DataLoaders as they are, batches that are ready or whole."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
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
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
)

from anyrig.errors import DataLoadingError, InvalidInputError
from anyrig.training import TrainConfig, Trainer, optimize_dataloader
from anyrig.training.batch import count_items, num_bytes, slice_batch, slice_length
from anyrig.training.callbacks import Callback
from anyrig.training.config import CheckpointConfig, LoadingConfig
from anyrig.training.data import (
    DataSource,
    HostCapacity,
    LoaderOptions,
    Position,
    ReadingCost,
    TensorRows,
    plan_loading,
)
from anyrig.training.distributed.ddp import Shares
from anyrig.training.distributed.group import Group
from anyrig.training.step import StepBatch, StepResult

TEXT = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"


def numbers(count: int = 23) -> list[int]:
    return list(range(count))


class Rank(Group):
    """One of several processes, by its shares alone."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._shares = Shares(size)

    def share(self, num_items: int) -> tuple[int, int]:
        return self._shares.next(num_items, self.rank)


def source(data: Any, group: Any = None, **changed: Any) -> DataSource:
    return DataSource(data, TrainConfig(**{"batch": 5, **changed}), group or Group())


def steps(given: DataSource, position: Position = Position()) -> list[StepBatch]:  # noqa: B008
    try:
        return list(given.steps(position))
    finally:
        given.close()


def items(batch: StepBatch) -> list[int]:
    return [int(one) for part in batch.parts for one in part[: batch.samples]]


class Stream(IterableDataset[int]):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


# -- data sets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("size", [2, 3])
def test_processes_together_have_the_batches_of_one(size: int, drop_last: bool) -> None:
    whole = [items(one) for one in steps(source(numbers(), drop_last=drop_last))]
    ranks = [steps(source(numbers(), Rank(n, size), drop_last=drop_last)) for n in range(size)]
    for number, batch in enumerate(whole):
        assert sum((items(rank[number]) for rank in ranks), []) == batch
        assert all(rank[number].total == len(batch) for rank in ranks)
    assert all(len(rank) == len(whole) for rank in ranks)


def test_a_process_without_an_item_is_given_one_that_does_not_count() -> None:
    for data in (numbers(2), Stream(2)):
        (one,) = steps(source(data, Rank(2, 3), batch=2))
        assert (one.samples, one.total, len(one.parts[0])) == (0, 2, 1)


@pytest.mark.parametrize("stream", [False, True])
def test_every_position_goes_on_where_it_is(stream: bool) -> None:
    def make() -> DataSource:
        return source(Stream(23) if stream else numbers(), batch=4, seed=3, drop_last=False)

    for epoch in (0, 1):
        whole = [items(one) for one in steps(make(), Position(epoch))]
        assert len(whole) == 6
        for step in range(7):
            assert [items(one) for one in steps(make(), Position(epoch, step))] == whole[step:]


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    def order(seed: int, epoch: int, *, shuffle: bool = True) -> list[int]:
        given = source(numbers(), batch=23, seed=seed, shuffle=shuffle)
        return items(steps(given, Position(epoch))[0])

    orders = [order(0, 0), order(0, 1), order(1, 0), numbers()]
    assert all(sorted(one) == numbers() for one in orders)
    assert len({tuple(one) for one in orders}) == 4
    assert order(0, 1) == orders[1]
    assert order(0, 1, shuffle=False) == numbers()


@pytest.mark.parametrize(("drop_last", "sizes"), [(True, [5] * 4), (False, [5, 5, 5, 5, 3])])
def test_the_last_smaller_batch(drop_last: bool, sizes: list[int]) -> None:
    for data in (numbers(), Stream(23)):
        given = source(data, drop_last=drop_last)
        assert [one.total for one in steps(given)] == sizes
        assert given.steps_in_epoch == (len(sizes) if isinstance(data, list) else None)


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="empty"):
        source([])
    with pytest.raises(InvalidInputError, match="cannot be used") as caught:
        source(3)
    assert "iterable" in caught.value.hint
    with pytest.raises(InvalidInputError, match="only once") as caught:
        source(iter(numbers()))
    assert "__iter__" in caught.value.hint


def test_tensors_in_memory_are_indexed_as_torch_would_collate_them() -> None:
    tensors = TensorDataset(torch.randn(40, 3), torch.arange(40))
    subset = Subset(Subset(tensors, list(range(39, -1, -1))), [3, 1, 5, 7])
    large = TensorDataset(torch.randn(9, 3, 40, 40), torch.rand(9) > 0.5)
    for data, picked in (
        (tensors, [4, 2, 2]), (subset, [2, 0]), (torch.randn(9, 2), [8, 0]), (large, [8, 1]),
    ):  # fmt: skip
        rows = TensorRows.wrap(data)
        assert rows is not None
        batch = rows.__getitems__(picked)
        expected = default_collate([data[item] for item in picked])
        assert type(batch) is type(expected)
        for one, other in zip(batch, expected, strict=True):
            assert torch.equal(one, other)


class Noisy(Dataset[Any]):
    """Items that draw from every source of random numbers, and go wrong where they are told to."""

    random_items = True

    def __init__(self, **wrong: int) -> None:
        self.wrong = wrong

    def __len__(self) -> int:
        return 24

    def __getitem__(self, number: int) -> torch.Tensor:
        if number == self.wrong.get("kills"):
            os.kill(os.getpid(), signal.SIGKILL)
        if number == self.wrong.get("hangs"):
            time.sleep(600)
        drawn = [random.random(), torch.rand(()).item(), float(np.random.rand())]
        return torch.tensor([float(number), *drawn], dtype=torch.float64)


def read(data: Any, workers: int, position: Position = Position(), **options: Any) -> torch.Tensor:  # noqa: B008
    given = source(data, batch=3, shuffle=False)
    given.set_options(LoaderOptions(num_workers=workers, **options))
    return torch.cat([one.parts[0] for one in steps(given, position)])


def test_random_items_are_the_same_by_any_number_of_workers_and_after_a_resume() -> None:
    alone = read(Noisy(), 0)
    assert len(set(alone[:, 1].tolist())) == 24
    assert torch.equal(read(Noisy(), 2), alone)
    assert torch.equal(read(Noisy(), 1, Position(0, 5)), alone[15:])
    assert not torch.equal(read(Noisy(), 0, Position(1)), alone)
    before = random.getstate()
    read(Noisy(), 0)
    assert random.getstate() == before
    assert multiprocessing.active_children() == []


def test_items_are_not_seeded_where_nothing_is_random(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("an item was seeded")

    monkeypatch.setattr("anyrig.training.rng.seed_item", fail)
    assert len(steps(source(numbers(), batch=4))) == 5
    with pytest.raises(AssertionError, match="was seeded"):
        steps(source(numbers(), batch=4, seed_items=True))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no such signal")
def test_workers_that_die_or_hang_end_the_run_with_words() -> None:
    with pytest.raises(DataLoadingError, match="ended unexpectedly") as caught:
        read(Noisy(kills=7), 2)
    assert "num_workers" in caught.value.hint
    with pytest.raises(DataLoadingError, match="no batch came for 1 s"):
        read(Noisy(hangs=8), 1, timeout_s=1)
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


# -- DataLoaders, through the trainer --------------------------------------------------------------


class Numbers(Dataset[Any]):
    """Items that are their own numbers, and who read them."""

    def __init__(self, count: int = 40) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> torch.Tensor:
        worker = get_worker_info()
        return torch.tensor([float(number), -1.0 if worker is None else float(worker.id)])


class NumberStream(IterableDataset[Any]):
    def __init__(self, count: int = 22) -> None:
        self.count = count

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(self.count):
            yield torch.tensor([float(number), -1.0])


class Recording(Callback):
    """Trains on a loader, and notes the items of every step."""

    def __init__(self, loader: Any, **options: Any) -> None:
        self.steps: list[list[int]] = []
        self.passes: list[int] = []
        self.readers: set[int] = set()
        self.events: list[str] = []
        self.most = 10**9
        self._open: list[int] = []
        changed = {
            "micro_batch": 64, "epochs": 1, "precision": "fp32", "learning_rate": 1e-3,
            "checkpoints": CheckpointConfig(every_s=0), **options.pop("changed", {}),
        }  # fmt: skip
        torch.manual_seed(0)
        self.trainer = Trainer(
            nn.Linear(2, 1), loader, loss=self._loss, config=TrainConfig(**changed),
            device="cpu", callbacks=[self], **options,
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

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        self.steps.append(list(self._open))
        self._open.clear()

    def on_event(self, trainer: Trainer, kind: str, text: str) -> None:
        self.events.append(text)

    def run(self) -> Any:
        with self.trainer as trainer:
            return trainer.fit()


def listed(loader: Any, epochs: int = 1) -> list[list[int]]:
    return [[int(one) for one in batch[:, 0]] for _ in range(epochs) for batch in loader]


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def double(given: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(given) * torch.tensor([2.0, 1.0])


LOADERS: dict[str, Any] = {
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
    "stream": lambda: DataLoader(NumberStream(), batch_size=5),
    "a list of them": lambda: Ready(),
}  # fmt: skip


class Ready:
    """An iterable of ready batches."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for start in range(0, 32, 16):
            yield torch.tensor([[float(n), -1.0] for n in range(start, start + 16)])


@pytest.mark.parametrize("name", LOADERS)
def test_a_run_has_the_batches_of_the_loader(name: str) -> None:
    wanted = listed(LOADERS[name](), 2)
    seen = Recording(LOADERS[name](), changed={"steps": len(wanted)})
    assert seen.run().steps == len(wanted)
    assert seen.steps == wanted


def test_an_iterable_of_batches_is_not_collated_again() -> None:
    shapes = []

    def loss(net: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(batch.shape))
        found: torch.Tensor = net(batch).square().mean()
        return found

    class Batches:
        def __iter__(self) -> Iterator[torch.Tensor]:
            for _ in range(3):
                yield torch.randn(16, 6)

    Trainer(nn.Linear(6, 1), Batches(), loss=loss, steps=5, micro_batch=16, device="cpu").fit()
    assert shapes == [(16, 6)] * 5


def test_a_larger_batch_accumulates_batches_of_the_loader() -> None:
    seen = Recording(DataLoader(Numbers(40), batch_size=8), changed={"batch": 16})
    assert seen.run().steps == 3
    assert seen.steps == [list(range(16)), list(range(16, 32)), list(range(32, 40))]
    assert seen.passes == [8] * 5


def test_accumulated_batches_need_not_be_of_one_size() -> None:
    class Longer(Numbers):
        def __getitem__(self, number: int) -> torch.Tensor:
            return torch.zeros(number + 1, 2)

    def loss(net: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = net(batch).square().mean()
        return found

    loader = DataLoader(Longer(6), batch_size=1)
    with Trainer(nn.Linear(2, 1), loader, loss=loss, batch=3, device="cpu") as trainer:
        assert trainer.fit().steps == 2


def test_a_shortage_leaves_the_batch_and_the_order() -> None:
    def loader() -> Any:
        return DataLoader(Numbers(), batch_size=20, shuffle=True, generator=generator())

    seen = Recording(loader())
    seen.most = 3
    seen.run()
    assert seen.steps == listed(loader())
    assert max(seen.passes) <= 3


def test_workers_are_those_of_the_loader() -> None:
    seen = Recording(DataLoader(Numbers(16), batch_size=4, num_workers=2))
    seen.run()
    assert seen.readers == {0, 1}
    assert multiprocessing.active_children() == []


class Own(Sampler[int]):
    """Draws from Python's own random numbers, or from a source that nobody knows of."""

    def __init__(self, own: random.Random | None = None) -> None:
        self.own: Any = own or random

    def __len__(self) -> int:
        return 40

    def __iter__(self) -> Iterator[int]:
        for _ in range(40):
            yield self.own.randrange(40)


def samplers() -> dict[str, Any]:
    return {
        "shuffle": lambda: DataLoader(Numbers(), batch_size=8, shuffle=True),
        "generator": lambda: DataLoader(
            Numbers(), batch_size=8, shuffle=True, generator=generator()
        ),
        "own": lambda: DataLoader(Numbers(), batch_size=8, sampler=Own()),
        "own, seeded": lambda: DataLoader(Numbers(), batch_size=8, sampler=Own(random.Random(3))),
        "workers": lambda: DataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=2),
        "stream": lambda: DataLoader(NumberStream(40), batch_size=8),
    }


@pytest.mark.parametrize("stop", [5, 7])
@pytest.mark.parametrize("name", samplers())
def test_a_resume_goes_on_with_the_items_that_are_due(name: str, stop: int, tmp_path: Path) -> None:
    make = samplers()[name]
    whole = Recording(make(), changed={"steps": 12})
    whole.run()
    first = Recording(make(), changed={"steps": stop}, folder=tmp_path / "run")
    first.run()
    rest = Recording(make(), changed={"steps": 12}, folder=tmp_path / "run")
    rest.run()
    assert first.steps + rest.steps == whole.steps


def test_several_processes_share_each_batch_of_the_loader() -> None:
    def loader() -> Any:
        return DataLoader(Numbers(), batch_size=12, shuffle=True)

    parts = [steps(source(loader(), Rank(rank, 2), batch="auto")) for rank in range(2)]
    seen: list[int] = []
    for one, other in zip(*parts, strict=True):
        both = [int(n) for batch in (one, other) for n in batch.parts[0][:, 0]]
        assert len(both) == one.total == other.total
        seen += both
    assert sorted(seen) == numbers(40)


def test_a_distributed_sampler_has_shared_them_out() -> None:
    seen = []
    for rank in range(2):
        data = Numbers(16)
        sampler: Any = DistributedSampler(data, num_replicas=2, rank=rank, seed=4)
        loader = DataLoader(data, batch_size=4, sampler=sampler)
        given = source(loader, Rank(rank, 2), batch="auto")
        assert (given.batch, given.steps_in_epoch) == (8, 2)
        for epoch in (0, 1):
            sampler.set_epoch(epoch)
            wanted = listed(loader)
            found = steps(given, Position(epoch))
            assert [[int(n) for n in one.parts[0][:, 0]] for one in found] == wanted
            assert {(one.samples, one.total) for one in found} == {(4, 8)}
            seen.append(sorted(sum(wanted, [])))
    assert sorted(seen[0] + seen[2]) == list(range(16))


def test_a_sampler_for_other_processes_is_refused() -> None:
    data = Numbers()
    sampler: Any = DistributedSampler(data, num_replicas=2, rank=1)
    with pytest.raises(InvalidInputError, match="process 2 of 2"):
        Recording(DataLoader(data, batch_size=4, sampler=sampler)).run()


def test_validation_is_measured_on_what_its_loader_gives() -> None:
    """A subset by a sampler is the usual way to hold something back."""
    data = torch.arange(40.0)[:, None].repeat(1, 2)
    rows: Any = data
    held: Any = DataLoader(rows, batch_size=4, sampler=SubsetRandomSampler([1, 5, 7]))
    with Trainer(
        nn.Linear(2, 1), data, validation=held, batch=4, micro_batch=4, steps=1,
        loss=lambda net, batch: batch[:, 0].mean() + 0 * net(batch).sum(), device="cpu",
    ) as trainer:  # fmt: skip
        assert trainer.evaluate()["loss"] == pytest.approx(13 / 3)


def test_batches_that_cannot_be_cut_run_whole() -> None:
    class Target:
        def __init__(self, count: int) -> None:
            self.boxes = torch.randn(count, 4)

    seen = []

    def loss(net: nn.Module, batch: Any) -> torch.Tensor:
        images, targets = batch
        seen.append((len(images), [len(one.boxes) for one in targets]))
        found: torch.Tensor = net(torch.stack([one.mean((1, 2)) for one in images])).square().mean()
        return found

    class Detection(Dataset[Any]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, number: int) -> Any:
            return torch.randn(3, 4 + number, 5), Target(number)

    def collate(given: list[Any]) -> Any:
        return tuple(zip(*given, strict=True))

    loader = DataLoader(Detection(), batch_size=3, collate_fn=collate)
    net = nn.Linear(3, 1)
    Trainer(net, loader, loss=loss, epochs=1, micro_batch=1, device="cpu").fit()
    assert seen == [(3, [0, 1, 2]), (3, [3, 4, 5])]


# -- how many workers ------------------------------------------------------------------------------

HOST = HostCapacity(cores=8, shared_bytes=8 << 30)
SLOW = ReadingCost(batch_s=0.03, cpu_share=0.1, num_bytes=24)


def planned(
    cost: ReadingCost | None, loading: LoadingConfig | None = None, kind: str = "cuda", **more: Any
) -> Any:
    return plan_loading(cost, loading or LoadingConfig(), kind, 0.01, **{"host": HOST, **more})


def test_slow_items_get_workers_that_keep_up() -> None:
    options = planned(SLOW).options
    assert 4 <= options.num_workers <= 8
    assert options.persistent_workers
    assert planned(None).options.num_workers == 0
    short = planned(SLOW, host=HostCapacity(cores=8, shared_bytes=150))
    assert short.options.num_workers == 2
    assert "shared memory is short" in short.reasons[0]
    assert planned(SLOW, host=HostCapacity(cores=8, shared_bytes=0)).options.num_workers == 0
    busy = ReadingCost(batch_s=0.03, cpu_share=1.0, num_bytes=24)
    assert planned(busy, kind="cpu").options.num_workers == 0


def test_explicit_values_win() -> None:
    loading = LoadingConfig(
        num_workers=3, pin_memory=False, prefetch_factor=7, persistent_workers=False
    )
    assert planned(None, loading).options == LoaderOptions(3, False, 7, False)
    asked = planned(SLOW, LoadingConfig(num_workers=0, pin_memory=True), kind="cpu")
    assert asked.options.num_workers == 0
    assert "although requested" in asked.reasons[1]


class Sleepy(Numbers):
    def __getitem__(self, number: int) -> torch.Tensor:
        time.sleep(0.004)
        return super().__getitem__(number)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_a_loader_is_made_better_and_says_how() -> None:
    better: Any = optimize_dataloader(DataLoader(Sleepy(16), batch_size=4), "cpu", step_s=0.01)
    assert better.num_workers > 0
    assert "worker" in better.reasons[0]
    assert sorted(sum(listed(better), [])) == numbers(16)
    better._iterator = None
    quick: Any = optimize_dataloader(DataLoader(Numbers(), batch_size=4), "cpu", step_s=10.0)
    assert quick.num_workers == 0


# -- batches ---------------------------------------------------------------------------------------


class Pair(NamedTuple):
    tokens: torch.Tensor
    texts: list[str]


def test_batches_are_cut_in_any_container() -> None:
    batch = {
        "pair": Pair(torch.arange(8).view(4, 2), ["a", "b", "c", "d"]),
        "list": [torch.zeros(4), np.zeros((4, 3))], "same": torch.tensor(3.0), "n": 7,
    }  # fmt: skip
    assert slice_length(batch) == count_items(batch) == 4
    some: Any = slice_batch(batch, 1, 3)
    assert some["pair"].tokens.tolist() == [[2, 3], [4, 5]]
    assert some["pair"].texts == ["b", "c"]
    assert [len(one) for one in some["list"]] == [2, 2]
    assert (float(some["same"]), some["n"]) == (3.0, 7)
    assert slice_batch(batch, 0, 4) is batch
    assert num_bytes(torch.zeros(4, dtype=torch.float32)) == 16


def test_what_contradicts_itself_is_not_cut() -> None:
    batch = {"a": torch.zeros(4), "b": torch.zeros(3)}
    assert slice_length(batch) is None
    assert slice_batch(batch, 0, 2) is batch
