"""Batches are the same by any number of workers; failures are named; nothing is left running."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from multiprocessing import resource_sharer
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import (
    IterableDataset,
    Subset,
    TensorDataset,
    default_collate,
    get_worker_info,
)

from anyrig.errors import DataLoadingError, InvalidInputError
from anyrig.training import loading_plan
from anyrig.training.loader import failures_in_words
from anyrig.training.loading import (
    Host,
    Loader,
    Options,
    Picks,
    Starvation,
    StreamLoader,
    bytes_of,
    cut,
    numbered,
    plan,
    size_of,
)
from anyrig.training.loading_plan import objects_bytes
from anyrig.training.settings import Loading

LISTS = [[first, first + 1, first + 2] for first in range(0, 36, 3)]


@pytest.fixture(autouse=True)
def _nobody_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


class Noisy:
    """Items that draw from every source of random numbers, and go wrong where they are told to."""

    def __init__(self, **wrong: int) -> None:
        self.wrong = wrong

    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> torch.Tensor:
        if number == self.wrong.get("bad"):
            raise ValueError("the picture is broken")
        if number == self.wrong.get("kills"):
            os.kill(os.getpid(), signal.SIGKILL)
        if number == self.wrong.get("hangs"):
            time.sleep(600)
        if number == self.wrong.get("ragged"):
            return torch.zeros(3)
        drawn = [random.random(), torch.rand(()).item(), float(np.random.rand())]
        return torch.tensor([float(number), *drawn], dtype=torch.float64)


class Numbers(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(10):
            yield torch.tensor([float(number), random.random()], dtype=torch.float64)


def read(data: Any, num_workers: int, lists: Any = LISTS, epoch: int = 0) -> torch.Tensor:
    with Loader(data, options=Options(num_workers=num_workers, seed=5)) as loader:
        return torch.cat(list(loader.over(lists, epoch=epoch)))


# -- the same whatever reads -----------------------------------------------------------------------


def test_items_are_the_same_by_any_number_of_workers() -> None:
    alone = read(Noisy(), 0)
    assert alone[:, 0].tolist() == list(range(36))
    assert len(set(alone[:, 1].tolist())) == 36
    for num_workers in (1, 2):
        assert torch.equal(read(Noisy(), num_workers), alone)


def test_items_are_the_same_after_a_resume_and_differ_by_epoch_and_seed() -> None:
    whole = read(Noisy(), 0)
    assert torch.equal(read(Noisy(), 2, LISTS[7:]), whole[21:])
    assert not torch.equal(read(Noisy(), 0, epoch=1), whole)
    tagged = [Picks(items, epoch=1) for items in LISTS]
    assert torch.equal(read(Noisy(), 0, tagged), read(Noisy(), 2, epoch=1))
    other = torch.cat(list(Loader(Noisy(), LISTS, options=Options(seed=6))))
    assert not torch.equal(other, whole)


def drawn() -> tuple[float, float, float]:
    return random.random(), torch.rand(()).item(), float(np.random.rand())


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_process_draws_as_if_nothing_was_read(num_workers: int) -> None:
    found = []
    for reads in (False, True):
        random.seed(1)
        torch.manual_seed(1)
        np.random.seed(1)
        if reads:
            read(Noisy(), num_workers)
        found.append(drawn())
    assert found[0] == found[1]


def test_workers_stay_for_the_next_epoch_and_after_a_pass_left_early() -> None:
    options = Options(num_workers=2, persistent_workers=True, seed=5)
    with Loader(Noisy(), LISTS, options=options) as loader:
        first = torch.cat(list(loader))
        pids = {process.pid for process in multiprocessing.active_children()}
        assert len(pids) == 2
        assert torch.equal(torch.cat(list(loader)), first)
        assert {process.pid for process in multiprocessing.active_children()} == pids
        begun = loader.over(LISTS)
        next(begun)
        begun.close()  # type: ignore[attr-defined]
        assert torch.equal(torch.cat(list(loader)), first)


def test_more_workers_than_cores_are_no_warning() -> None:
    many = (os.cpu_count() or 1) + 1
    if many > 16:
        pytest.skip("too many cores to have more processes than them")
    assert torch.equal(read(Noisy(), many), read(Noisy(), 0))


def test_tensors_in_memory_are_indexed_as_torch_would_collate_them() -> None:
    tensors = TensorDataset(torch.randn(40, 3), torch.arange(40))
    subset = Subset(Subset(tensors, list(range(39, -1, -1))), [3, 1, 5, 7])
    large = TensorDataset(torch.randn(9, 3, 40, 40), torch.rand(9) > 0.5)
    for data, items in (
        (tensors, [4, 2, 2]),
        (subset, [2, 0]),
        (torch.randn(9, 2), [8, 0]),
        (large, [8, 1]),
    ):
        (batch,) = Loader(data, [items])
        expected = default_collate([data[item] for item in items])
        assert type(batch) is type(expected)
        for one, other in zip(batch, expected, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("side", [2, 200])
def test_items_past_the_end_of_tensors_are_named(side: int) -> None:
    with pytest.raises(DataLoadingError, match="items 1, 9 .*could not be read"):
        list(Loader(TensorDataset(torch.zeros(3, side, side)), [[1, 9]]))


# -- iterables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 1])
def test_iterables_are_read_in_order_and_resumed(num_workers: int) -> None:
    options = Options(num_workers=num_workers, persistent_workers=num_workers > 0)
    with StreamLoader(Numbers(), 4, options=options) as loader:
        whole = torch.cat(list(loader))
        assert whole[:, 0].tolist() == list(range(10))
        assert torch.equal(torch.cat(list(loader.over(skip=4))), whole[4:])
        assert not torch.equal(torch.cat(list(loader.over(epoch=1))), whole)
        assert torch.equal(torch.cat(list(loader.over())), whole)
    dropping = StreamLoader(Numbers(), 4, options=Options(), drop_last=True)
    assert [size_of(batch) for batch in dropping] == [4, 4]


class Shared(IterableDataset[torch.Tensor]):
    """An iterable whose author shares it out between workers."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        assert worker is not None
        for number in range(worker.id, 24, worker.num_workers):
            yield torch.tensor([float(number), random.random()], dtype=torch.float64)


def test_an_iterable_that_is_shared_out_is_resumed_by_batches() -> None:
    with StreamLoader(Shared(), 4, options=Options(num_workers=2)) as loader:
        whole = list(loader)
        assert sorted(torch.cat(whole)[:, 0].tolist()) == list(range(24))
        assert len(set(torch.cat(whole)[:, 1].tolist())) == 24
        rest = list(loader.over(skip=12))
    assert torch.equal(torch.cat(rest), torch.cat(whole[3:]))


def test_an_iterable_that_breaks_names_the_item() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the line is dead")

    with pytest.raises(DataLoadingError, match="item 1 .*the line is dead"):
        list(StreamLoader(items(), 1))


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_bad_item_is_named(num_workers: int) -> None:
    with pytest.raises(
        DataLoadingError, match="item 4 .*ValueError: the picture is broken"
    ) as caught:
        read(Noisy(bad=4), num_workers)
    assert caught.value.item == 4
    assert "in __getitem__" in caught.value.__notes__[0]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_items_that_do_not_go_together_are_named(num_workers: int) -> None:
    with pytest.raises(DataLoadingError, match="items 3, 4, 5 .*one batch") as caught:
        read(Noisy(ragged=4), num_workers)
    assert "collate" in caught.value.hint


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no such signal")
def test_a_killed_worker_ends_the_run_with_words() -> None:
    with pytest.raises(DataLoadingError, match="ended unexpectedly") as caught:
        read(Noisy(kills=7), 2)
    assert "num_workers" in caught.value.hint


def _offer(pipe: Connection) -> None:
    """Offer a file to another process, as torch does with the memory of a batch."""
    pipe.send(resource_sharer.DupFd(0))
    time.sleep(600)


@pytest.mark.skipif(sys.platform == "win32", reason="file descriptors")
def test_a_worker_that_is_killed_while_it_sends_a_batch_is_named() -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    worker = context.Process(target=_offer, args=(theirs,), daemon=True)
    worker.start()
    offered = ours.recv()
    worker.kill()
    worker.join()
    with pytest.raises(DataLoadingError, match="while it sent a batch"), failures_in_words():
        offered.detach()
    with pytest.raises(ConnectionResetError), failures_in_words():
        raise ConnectionResetError  # of the caller's own code


def test_a_hung_worker_does_not_hang_the_run() -> None:
    loader = Loader(Noisy(hangs=8), LISTS, options=Options(num_workers=2, timeout_s=1))
    with pytest.raises(DataLoadingError, match="no batch came for 1 s"):
        list(loader)


def test_workers_end_when_the_loop_breaks_off() -> None:
    def loop() -> None:
        with Loader(Noisy(), LISTS, options=Options(num_workers=2)) as loader:
            for _ in loader:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop()


def test_a_worker_does_not_run_its_parents_handlers() -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with pytest.raises(DataLoadingError, match="no batch came"):
            list(Loader(Noisy(hangs=0), LISTS, options=Options(num_workers=1, timeout_s=1)))
    finally:
        signal.signal(signal.SIGTERM, before)


# -- plans -----------------------------------------------------------------------------------------

HOST = Host(cores=8, free_bytes=8 << 30, shared_bytes=8 << 30)


class Timer:
    """What a plan measures with: time passes only while items are read, on any machine alike."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return 0.0


TIMER = Timer()


@pytest.fixture(autouse=True)
def _measured_by_the_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading_plan, "time", TIMER)


class Slow:
    """Items that are waited for."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __getitem__(self, number: int) -> torch.Tensor:
        TIMER.now += self.seconds
        return torch.zeros(2)


def made(data: Any, loading: Loading | None = None, kind: str = "cuda", **rest: Any) -> Any:
    values = {"step_s": 0.01, "host": HOST, **rest}
    return plan(data, None, LISTS, loading or Loading(), kind, **values)


def test_slow_items_get_workers_that_keep_up() -> None:
    found = made(Slow(0.01))  # three items of 10 ms a batch, a step of 10 ms
    assert 4 <= found.num_workers <= 8
    assert found.persistent_workers
    assert found.options(seed=3) == Options(found.num_workers, True, 2, True, seed=3)


def test_memory_is_a_limit() -> None:
    little = dataclasses.replace(
        HOST, shared_bytes=200
    )  # a batch has 24 bytes, three are under way
    assert made(Slow(0.01), host=little).num_workers == 2
    none = dataclasses.replace(HOST, shared_bytes=0)
    found = made(Slow(0.01), host=none)
    assert found.num_workers == 0
    assert "shared memory" in found.reasons[0]
    heavy = Slow(0.01)
    heavy.paths = ["x" * 1000] * 10_000  # type: ignore[attr-defined]
    assert objects_bytes(heavy) > 10_000_000
    assert made(heavy, host=dataclasses.replace(HOST, free_bytes=50 << 20)).num_workers == 1


def test_explicit_values_win() -> None:
    loading = Loading(num_workers=3, pin_memory=False, prefetch_factor=7, persistent_workers=False)
    assert made(Slow(0.0), loading)[:4] == (3, False, 7, False)
    assert made(Slow(0.01), Loading(num_workers=0))[:1] == (0,)


@pytest.mark.parametrize(("kind", "pins"), [("cuda", True), ("xpu", True), ("mps", False)])
def test_memory_is_pinned_where_it_helps(kind: str, pins: bool) -> None:
    assert made(Slow(0.0), kind=kind).pin_memory is pins
    asked = made(Slow(0.0), Loading(pin_memory=True), kind=kind)
    assert asked.pin_memory is pins
    assert pins or "requested" in asked.reasons[1]


def test_iterables_have_one_worker_and_iterators_none() -> None:
    class Lazy:
        def __iter__(self) -> Iterator[torch.Tensor]:
            for _ in range(30):
                TIMER.now += 0.01
                yield torch.zeros(1)

    assert not numbered(Numbers())
    assert made(Lazy(), batch=3).num_workers == 1
    assert made(Lazy(), Loading(num_workers=4)).num_workers == 1
    assert made(Numbers(), Loading(num_workers=4)).num_workers == 4
    once = iter(Lazy())
    assert made(once, Loading(num_workers=4), batch=3).num_workers == 0
    assert len(list(once)) == 30


def test_what_cannot_be_pickled_is_read_here_where_processes_do_not_fork() -> None:
    odd = Slow(0.01)
    odd.function = lambda: None  # type: ignore[attr-defined]
    found = made(odd, host=dataclasses.replace(HOST, forks=False))
    assert found.num_workers == 0
    assert "pickled" in found.reasons[0]


# -- starving --------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run_steps(meter: Starvation, clock: Clock, num: int, waits: float, works: float) -> None:
    for _ in range(num):
        with meter.waiting():
            clock.now += waits
        clock.now += works
        meter.step()


def test_starving_is_told_once_until_it_was_well_again() -> None:
    clock, told = Clock(), list[str]()
    meter = Starvation(told.append, window=10, least_s=1, num_workers=2, clock=clock)
    run_steps(meter, clock, 9, 1.0, 1.0)
    assert told == []
    run_steps(meter, clock, 20, 1.0, 1.0)
    assert len(told) == 1
    assert "50%" in told[0]
    assert "above 2" in told[0]
    run_steps(meter, clock, 10, 0.0, 1.0)
    run_steps(meter, clock, 10, 1.0, 1.0)
    assert len(told) == 2
    assert meter.share == pytest.approx(39 / 88)


# -- nests -----------------------------------------------------------------------------------------


class Pair(NamedTuple):
    image: torch.Tensor
    name: list[str]


@dataclasses.dataclass
class Record:
    tokens: torch.Tensor
    scale: float


def test_batches_of_any_nesting_are_counted_and_cut() -> None:
    rows = torch.arange(12).reshape(6, 2)
    batch: Any = {
        "pair": Pair(rows, list("abcdef")),
        "record": Record(rows[:, 0], 2.0),
        "list": [rows, (rows, np.arange(6))],
        "constant": torch.tensor(3.0),
        "shape": (64, 64),
        "word": "hello!",
        "none": None,
    }
    assert size_of(batch) == 6
    piece = cut(batch, 2, 4)
    assert piece["pair"] == Pair(piece["pair"].image, ["c", "d"])
    assert piece["record"].tokens.tolist() == [4, 6]
    assert piece["list"][1][1].tolist() == [2, 3]
    assert isinstance(piece["list"][1], tuple)
    assert (piece["shape"], piece["word"], piece["none"]) == ((64, 64), "hello!", None)
    assert size_of(piece) == 2
    assert cut(batch, 0, 6) is batch
    assert cut(rows, 1, 3).data_ptr() == rows[1:].data_ptr()
    assert bytes_of([rows, rows]) == 2 * 96


def test_contradictions_are_said_in_words() -> None:
    with pytest.raises(InvalidInputError, match=r"\['x'\] has 3 items and \['y'\]\[0\] has 4"):
        size_of({"x": torch.zeros(3), "y": [torch.zeros(4)]})
    with pytest.raises(InvalidInputError, match="cannot be counted"):
        size_of({"x": 3})
