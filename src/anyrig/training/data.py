"""What a run reads: a data set, a person's DataLoader, or an iterable of ready batches.

- A data set with `len` and `[number]` is read in an order that follows from (seed, epoch): the same
  whatever the number of processes, and after a resume.
- A DataLoader is iterated as it is: its batches, order, collate function and workers. To continue
  in the middle of an epoch, and for several processes, it is built again with a batch sampler that
  skips what was used and takes this process' part of each batch.
- Any other iterable gives ready batches. An IterableDataset gives items, as in a DataLoader.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import re
import shutil
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
)

from anyrig.errors import DataLoadingError, InvalidInputError
from anyrig.training import rng
from anyrig.training.batch import Batch, count_items, num_bytes, slice_batch, slice_length
from anyrig.training.step import StepBatch
from anyrig.units import format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.training.config import LoadingConfig, TrainConfig
    from anyrig.training.distributed.group import Group

log = logging.getLogger(__name__)
Collate = Callable[[Sequence[Any]], Batch]
_TORCH_SAMPLERS = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_LARGE_ROW_BYTES = 1 << 14
_PINNING = frozenset({"cuda", "xpu"})
_DEFAULT_BATCH = 32


class Position(NamedTuple):
    """Where a run is in its data."""

    epoch: int = 0
    step: int = 0
    """Steps of this epoch that are done."""


class DataSource:
    """Batches of a run by epoch and step.

    Args:
        data: see the module.
        config: of the run.
        group: whose processes share each step.
        collate: items to a batch; torch's when None.
        device_type: what computes: cuda, xpu, mps, cpu.
    """

    def __init__(
        self,
        data: Any,
        config: TrainConfig,
        group: Group,
        *,
        collate: Collate | None = None,
        device_type: str = "cpu",
    ) -> None:
        self.data, self._config, self._group = data, config, group
        self._collate, self._device_type = collate, device_type
        self._options = LoaderOptions()
        self._loader: DataLoader[Any] | None = None
        self._own_sampler: EpochSampler | None = None
        self._epoch_start: dict[str, Any] = {}
        self._resumed = False
        self.kind = _find_kind(data, collate)
        if self.kind == "loader":
            self._check_distributed_sampler(data)
        if self.kind == "items" and not len(data):
            raise InvalidInputError("the data set is empty", hint="Pass at least one item.")
        self.batch = self._find_batch()
        """Items of a step over all processes; of the first where they vary."""

    # -- what it is --------------------------------------------------------------------------------

    def _find_batch(self) -> int:
        batch = self._config.batch
        if self.kind in ("items", "stream"):
            return _DEFAULT_BATCH if batch == "auto" else batch
        own = self._batch_of_loader() * (self._group.size if self._is_sharded else 1)
        return own if batch == "auto" else own * self._accumulated

    def _batch_of_loader(self) -> int:
        if self.kind == "loader":
            size = _batch_size_of(self.data)
            if size is not None:
                return size
        return count_items(self.first_batch())

    @property
    def _accumulated(self) -> int:
        """Batches of a loader in a step."""
        if self._config.batch == "auto" or self.kind in ("items", "stream"):
            return 1
        return max(1, round(self._config.batch / max(1, self._batch_of_loader())))

    @property
    def steps_in_epoch(self) -> int | None:
        """None where the length of the data is unknown."""
        if self.kind == "items":
            return _count_batches(len(self.data), self.batch, drop_last=self._config.drop_last)
        length = None
        if self.kind != "stream" and not isinstance(
            getattr(self.data, "dataset", None), IterableDataset
        ):
            with contextlib.suppress(TypeError, NotImplementedError, AttributeError):
                length = len(self.data)
        return None if length is None else -(-length // self._accumulated)

    @property
    def step_sizes(self) -> tuple[int, ...]:
        """How many items steps have, where that is known: a batch, and the rest of an epoch."""
        if self.kind != "items":
            return (self.batch,)
        count = len(self.data)
        rest = count % self.batch
        if count < self.batch:
            return (rest,)
        return (self.batch, rest) if rest and not self._config.drop_last else (self.batch,)

    @property
    def _is_sharded(self) -> bool:
        """Whether the loader's sampler takes this process' part of the data itself."""
        return self.kind == "loader" and _distributed_sampler(self.data) is not None

    def _check_distributed_sampler(self, loader: DataLoader[Any]) -> None:
        sampler = _distributed_sampler(loader)
        rank, size = self._group.rank, self._group.size
        if sampler is None or (sampler.num_replicas, int(sampler.rank)) == (size, rank):
            return
        raise InvalidInputError(
            f"the {type(sampler).__name__} is for process {int(sampler.rank) + 1} of "
            f"{sampler.num_replicas}, and this is process {rank + 1} of {size}",
            hint="Start that many processes, or pass a sampler that is not distributed: batches "
            "are shared between processes.",
        )

    def describe(self) -> list[str]:
        if self.kind == "items":
            return [f"data: {len(self.data)} items in batches of {self.batch}"]
        if self.kind == "stream":
            return [f"data: a stream in batches of {self.batch}"]
        name = type(self.data).__name__
        several = f", {self._accumulated} of them in a step" if self._accumulated > 1 else ""
        return [f"data: the batches of the {name}{several}, {self.batch} items in a step"]

    def first_batch(self, count: int | None = None) -> Batch:
        """Items as the run reads them, in the order of the data; random states are preserved, and a
        sampler is not asked.
        """
        with rng.preserved_host_rng(), data_errors():
            batch = self._read_first(count)
        size = slice_length(batch)
        return batch if size is None or count is None else slice_batch(batch, 0, count)

    def _read_first(self, count: int | None) -> Batch:
        data, collate, num_items = self.data, self._collate or default_collate, count
        if self.kind == "loader":
            data, collate = self.data.dataset, self.data.collate_fn
            if self.data.batch_size is None and self.data.batch_sampler is None:
                return collate(next(iter(data)) if isinstance(data, IterableDataset) else data[0])
            num_items = min(count or sys.maxsize, _batch_size_of(self.data) or 1)
        elif self.kind == "batches":
            return _take_first(data)
        num_items = num_items or 1
        if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__"):
            items = list(itertools.islice(iter(data), num_items))
        else:
            items = [data[number] for number in range(min(num_items, len(data)))]
        if not items:
            raise InvalidInputError("there is no item in the data", hint="Pass at least one item.")
        return collate(items)

    # -- reading -----------------------------------------------------------------------------------

    def set_options(self, options: LoaderOptions) -> None:
        self.close()
        self._options = options

    def steps(self, position: Position = Position()) -> Iterator[StepBatch]:  # noqa: B008
        """The steps from a position to the end of its epoch. Close it to leave early."""
        if self.kind == "items":
            yield from self._read_items(position)
            return
        if self.kind == "loader":
            batches = self._read_loader(position)
        elif self.kind == "stream":
            batches = self._read_stream(position)
        else:
            batches = self._share(itertools.islice(
                iter(self.data), position.step * self._accumulated, None
            ))  # fmt: skip
        while group := list(itertools.islice(batches, self._accumulated)):
            yield StepBatch(
                [part for one in group for part in one.parts],
                sum(one.samples for one in group), sum(one.total for one in group),
            )  # fmt: skip

    def _read_items(self, position: Position) -> Iterator[StepBatch]:
        config = self._config
        if self._own_sampler is None:
            seeded = config.seed_items
            if seeded == "auto":
                seeded = bool(getattr(_unwrap(self.data)[0], "random_items", False))
            rows = TensorRows.wrap(self.data) if self._collate is None and not seeded else None
            data: Any = rows or self.data
            if seeded:
                data = SeededItems(data, config.seed)
            self._own_sampler = EpochSampler(
                len(self.data), self.batch, config.seed, self._group.share,
                shuffle=config.shuffle, drop_last=config.drop_last,
            )  # fmt: skip
            self._loader = self._options.build(
                data, batch_sampler=self._own_sampler,
                collate_fn=return_batch if rows else self._collate, seed=config.seed,
            )  # fmt: skip
        assert self._loader is not None
        self._own_sampler.start(position)
        if isinstance(self._loader.dataset, SeededItems):
            self._loader.dataset.set_epoch(position.epoch)
        shares = self._own_sampler.shares
        for batch in _iterate(self._loader):
            samples, total = shares.popleft()
            yield StepBatch([batch], samples, total)

    def _read_loader(self, position: Position) -> Iterator[StepBatch]:
        loader: DataLoader[Any] = self.data
        skip = position.step * self._accumulated
        _set_epoch(loader, position.epoch)
        only_iterable = isinstance(loader.dataset, IterableDataset) or _samples_itself(loader)
        must_share = self._group.size > 1 and not self._is_sharded
        if self._resumed and not skip and position.epoch and not only_iterable:
            _finish_epoch_before(loader, self._epoch_start, position.epoch)
        self._resumed = False
        if only_iterable or not (skip or must_share):
            self._epoch_start = _capture_order(loader)
            batches = itertools.islice(_iterate(loader), skip, None)
            if must_share:
                yield from self._share(batches)
                return
            for batch in batches:
                count = count_items(batch)
                yield StepBatch([batch], count, count * self._group.size)
            return
        states = rng.capture_host()
        if must_share:
            rng.seed_item(self._config.seed, position.epoch, -1)  # all processes draw one order
        else:
            _restore_order(loader, self._epoch_start, position.epoch)
        sampler = LoaderSampler(loader, skip, self._group.share if must_share else None)
        rng.restore_host(states)
        for batch in _iterate(sampler.build_loader()):
            samples, total = sampler.shares.popleft()
            if sampler.is_batched:
                samples = total = count_items(batch)
            yield StepBatch([batch], samples, total * (self._group.size if self._is_sharded else 1))

    def _read_stream(self, position: Position) -> Iterator[StepBatch]:
        if self._loader is None:
            self._loader = self._options.build(
                self.data, batch_size=self.batch, drop_last=self._config.drop_last,
                collate_fn=self._collate, seed=self._config.seed,
            )  # fmt: skip
        yield from self._share(itertools.islice(_iterate(self._loader), position.step, None))

    def _share(self, batches: Iterable[Batch]) -> Iterator[StepBatch]:
        """This process' part of batches that are read whole."""
        for batch in batches:
            total = count_items(batch)
            if self._group.size == 1 or slice_length(batch) is None:
                yield StepBatch([batch], total, total * self._group.size)
                continue
            first, count = self._group.share(total)
            part = slice_batch(batch, first, first + count) if count else slice_batch(batch, 0, 1)
            yield StepBatch([part], count, total)

    def close(self) -> None:
        """End the workers."""
        if self._loader is not None:
            _end_workers(self._loader)
        self._loader = self._own_sampler = None

    # -- checkpoints -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Random states with which the current epoch of a DataLoader began."""
        return dict(self._epoch_start)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._epoch_start, self._resumed = dict(state), bool(state)


def _find_kind(data: Any, collate: Collate | None) -> str:
    if isinstance(data, DataLoader):
        return "loader"
    if isinstance(data, Iterator):
        raise InvalidInputError(
            "an iterator can be read only once; epochs and a resume need its beginning",
            hint="Pass a list, a data set, or an object whose __iter__ starts from the beginning.",
        )
    if isinstance(data, IterableDataset):
        return "stream"
    if isinstance(data, tuple) and _are_columns(data):
        raise InvalidInputError(
            "a tuple of arrays is not a data set",
            hint="Pass torch.utils.data.TensorDataset(inputs, targets), made of tensors.",
        )
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return "items"
    if hasattr(data, "__iter__"):
        return "stream" if collate is not None else "batches"
    raise InvalidInputError(
        f"data of the type {type(data).__name__} cannot be used",
        hint="Pass a data set with len() and [number], a DataLoader, or an iterable of batches.",
    )


def _are_columns(data: tuple[Any, ...]) -> bool:
    """Inputs and targets side by side, as other libraries take them."""
    lengths = {one.shape[0] if getattr(one, "shape", ()) else None for one in data}
    return 2 <= len(data) <= 3 and len(lengths) == 1 and None not in lengths


def _take_first(data: Iterable[Any]) -> Any:
    for batch in data:
        return batch
    raise InvalidInputError("there is no batch in the data", hint="Pass at least one.")


def _count_batches(count: int, batch: int, *, drop_last: bool) -> int:
    return count // batch if drop_last and count >= batch else -(-count // batch)


# -- samplers --------------------------------------------------------------------------------------


class EpochSampler:
    """Lists of items of this process: the order follows from (seed, epoch).

    Step s of an epoch has the items from s times the batch on, and each process a share of them. A
    process without an item of a step gets its first one, which does not count.
    """

    def __init__(
        self,
        num_items: int,
        batch: int,
        seed: int,
        share: Callable[[int], tuple[int, int]],
        *,
        shuffle: bool,
        drop_last: bool,
    ) -> None:
        self._num_items, self._batch, self._seed, self._share = num_items, batch, seed, share
        self._shuffle, self._drop_last = shuffle, drop_last
        self._position = Position()
        self.shares: deque[tuple[int, int]] = deque()
        """This process' number of items, and all processes', of lists that were taken."""

    def start(self, position: Position) -> None:
        """The next iteration begins here."""
        self._position = position
        self.shares.clear()

    def __len__(self) -> int:
        return _count_batches(self._num_items, self._batch, drop_last=self._drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        order = self.order(self._position.epoch)
        for step in range(self._position.step, len(self)):
            items = [int(one) for one in order[step * self._batch : (step + 1) * self._batch]]
            first, count = self._share(len(items))
            self.shares.append((count, len(items)))
            yield items[first : first + count] or items[:1]

    def order(self, epoch: int) -> Sequence[int]:
        if not self._shuffle:
            return range(self._num_items)
        generator = torch.Generator().manual_seed(rng.mix_seeds(self._seed, epoch) >> 1)
        # A tensor, not a list: 8 bytes an item instead of 36.
        return cast("Sequence[int]", torch.randperm(self._num_items, generator=generator))


class LoaderSampler:
    """The lists of a DataLoader's own sampler, after those that were used; of each this process'
    part. They are begun when this is made, under the random states of the moment.
    """

    def __init__(
        self, loader: DataLoader[Any], skip: int, share: Callable[[int], tuple[int, int]] | None
    ) -> None:
        self._loader, self._share = loader, share
        self.is_batched = loader.batch_sampler is None
        # torch's loader draws a seed for its workers before the order.
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._lists: Iterator[Any] = iter(
            cast("Iterable[Any]", loader.sampler if self.is_batched else loader.batch_sampler)
        )
        for _ in range(skip):
            next(self._lists, None)
        if not skip:  # it draws its order when it begins: now
            first = next(self._lists, None)
            self._lists = itertools.chain([] if first is None else [first], self._lists)
        self.shares: deque[tuple[int, int]] = deque()

    def __iter__(self) -> Iterator[Any]:
        for items in self._lists:
            if self.is_batched:
                self.shares.append((1, 1))
                yield items
                continue
            items = list(items)
            first, count = self._share(len(items)) if self._share else (0, len(items))
            self.shares.append((count, len(items)))
            yield items[first : first + count] or items[:1]

    def build_loader(self) -> DataLoader[Any]:
        order: dict[str, Any] = {"batch_sampler": self}
        if self.is_batched:
            order = {"sampler": self, "batch_size": None}
        return _rebuild(self._loader, generator=torch.Generator(), **order)


def _rebuild(loader: DataLoader[Any], **changed: Any) -> DataLoader[Any]:
    """A loader like another one, with some arguments of its own; its order is one of them."""
    given: dict[str, Any] = {
        name: getattr(loader, name)
        for name in (
            "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn",
            "multiprocessing_context", "prefetch_factor", "generator",
        )
    }  # fmt: skip
    with _any_number_of_workers():
        return DataLoader(loader.dataset, **{**given, **changed})


@contextlib.contextmanager
def _any_number_of_workers() -> Iterator[None]:
    """Without torch's warning: workers that wait for a disk may be more than there are cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        yield


def _batch_size_of(loader: DataLoader[Any]) -> int | None:
    size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    return size if isinstance(size, int) else None


def _samplers(loader: DataLoader[Any]) -> list[Any]:
    found = [loader.batch_sampler, loader.sampler]
    found += [getattr(one, "sampler", None) for one in found]
    return list({id(one): one for one in found if one is not None}.values())


def _samples_itself(loader: DataLoader[Any]) -> bool:
    """A loader with an `__iter__` of its own can only be iterated."""
    return type(loader).__iter__ is not DataLoader.__iter__


def _distributed_sampler(loader: DataLoader[Any]) -> Any:
    for sampler in _samplers(loader):
        if isinstance(getattr(sampler, "num_replicas", None), int) and hasattr(sampler, "rank"):
            return sampler
    return None


def _generators(loader: DataLoader[Any]) -> list[torch.Generator]:
    given = [loader.generator, *(getattr(one, "generator", None) for one in _samplers(loader))]
    return list({id(one): one for one in given if isinstance(one, torch.Generator)}.values())


def _set_epoch(loader: DataLoader[Any], epoch: int) -> None:
    for sampler in _samplers(loader):
        if callable(getattr(sampler, "set_epoch", None)):
            sampler.set_epoch(epoch)


def _capture_order(loader: DataLoader[Any]) -> dict[str, Any]:
    """Everything that torch's samplers draw an epoch's order from."""
    return {
        "host": rng.capture("cpu"),
        "generators": [one.get_state() for one in _generators(loader)],
    }


def _restore_order(loader: DataLoader[Any], state: Mapping[str, Any], epoch: int) -> None:
    if not state:
        return
    _draw_earlier_epochs(loader, epoch)
    rng.restore({0: state["host"]}, 0, "cpu")
    for one, saved in zip(_generators(loader), state["generators"], strict=False):
        one.set_state(saved.cpu())


def _finish_epoch_before(loader: DataLoader[Any], state: Mapping[str, Any], epoch: int) -> None:
    """Bring random numbers of a loader's own to where the epoch before left them."""
    states = rng.capture_host()
    _restore_order(loader, state, epoch - 1)
    for _ in LoaderSampler(loader, 0, None):
        pass
    rng.restore_host(states)


def _draw_earlier_epochs(loader: DataLoader[Any], epoch: int) -> None:
    """A sampler of one's own may have random numbers of its own, which no checkpoint has."""
    own = [one for one in _samplers(loader) if type(one) not in (*_TORCH_SAMPLERS, BatchSampler)]
    source = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    if own:
        with rng.preserved_host_rng():
            for _ in range(epoch):
                for _ in source:
                    pass


# -- items -----------------------------------------------------------------------------------------


class SeededItems(Dataset[Any]):
    """Items whose random numbers depend on seed, epoch and item only, whoever reads them."""

    def __init__(self, data: Any, seed: int) -> None:
        self.data, self._seed = data, seed
        # Shared: workers that stay from epoch to epoch see the new one.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, number: int) -> Any:
        epoch = int(self._epoch)
        if get_worker_info() is not None:
            rng.seed_item(self._seed, epoch, number)
            return self.data[number]
        with rng.preserved_host_rng():
            rng.seed_item(self._seed, epoch, number)
            return self.data[number]


class TensorRows(Dataset[Any]):
    """Tensors in memory, a batch of rows at once."""

    def __init__(self, tensors: tuple[torch.Tensor, ...], subsets: list[Any], single: bool) -> None:
        self._tensors, self._subsets, self._single = tensors, subsets, single

    @classmethod
    def wrap(cls, data: Any) -> TensorRows | None:
        """None for data that is not tensors alone."""
        base, subsets = _unwrap(data)
        if type(base) is TensorDataset:
            return cls(base.tensors, subsets, single=False)
        if type(base) is torch.Tensor and base.dim() > 0:
            return cls((base,), subsets, single=True)
        return None

    def __len__(self) -> int:
        return len(self._subsets[0]) if self._subsets else len(self._tensors[0])

    def __getitems__(self, numbers: list[int]) -> Any:
        for subset in self._subsets:
            numbers = [int(subset[number]) for number in numbers]
        rows = [_take_rows(tensor, numbers) for tensor in self._tensors]
        # As torch's collate has it: a list for items that are tuples, a tensor for plain rows.
        return rows[0] if self._single else rows


def _unwrap(data: Any) -> tuple[Any, list[Any]]:
    """What subsets are subsets of, and their lists of numbers, outermost first."""
    numbers = []
    while type(data) is Subset:
        numbers.append(data.indices)
        data = data.dataset
    return data, numbers


def _take_rows(tensor: torch.Tensor, numbers: list[int]) -> torch.Tensor:
    """Large rows are copied one by one: gathering them waits for all of torch's threads, which took
    17 times as long (2.8 and 47 ms) on two cores that others used as well.
    """
    row_bytes = tensor.nbytes // max(1, len(tensor))
    if numbers and row_bytes >= _LARGE_ROW_BYTES:
        return torch.stack([tensor[number] for number in numbers])
    return tensor.index_select(0, torch.tensor(numbers, dtype=torch.long, device=tensor.device))


def return_batch(batch: Batch) -> Batch:
    return batch


# -- loaders ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoaderOptions:
    """How the items of a data set are read."""

    num_workers: int = 0
    pin_memory: bool = False
    prefetch_factor: int = 2
    persistent_workers: bool = False
    timeout_s: float = 300.0
    """After so long without a batch a worker counts as hung; 0 waits for ever."""

    def build(self, data: Any, *, seed: int, **options: Any) -> DataLoader[Any]:
        workers: dict[str, Any] = {}
        if self.num_workers:
            workers = {
                "prefetch_factor": self.prefetch_factor, "timeout": self.timeout_s,
                "persistent_workers": self.persistent_workers,
            }  # fmt: skip
        # A generator of its own: torch would draw from the process' for each epoch.
        generator = torch.Generator().manual_seed(rng.mix_seeds(seed) >> 1)
        with _any_number_of_workers():
            return DataLoader(
                data, num_workers=self.num_workers, pin_memory=self.pin_memory,
                generator=generator, **workers, **options,
            )  # fmt: skip


def _iterate(loader: DataLoader[Any]) -> Iterator[Batch]:
    """One pass; workers end with it, also where it is left early, unless they persist."""
    running: Any = None
    try:
        with data_errors(loader.timeout), _any_number_of_workers():
            running = iter(loader)
        while True:
            with data_errors(loader.timeout):
                try:
                    batch = next(running)
                except StopIteration:
                    return
            yield batch
    except BaseException:
        _end_workers(loader, running)
        raise


def _end_workers(loader: DataLoader[Any], running: Any = None) -> None:
    if running is None:
        running = getattr(loader, "_iterator", None)
    end = getattr(running, "_shutdown_workers", None)
    if end is not None:
        with contextlib.suppress(AttributeError, RuntimeError):
            end()
    if getattr(loader, "_iterator", None) is not None:
        loader._iterator = None


@contextlib.contextmanager
def data_errors(timeout_s: float = 0.0) -> Iterator[None]:
    """What torch reports of workers that died or hang, as a `DataLoadingError`.

    A worker's death interrupts the main process wherever it is, also in the midst of a step: put
    this around the whole loop.
    """
    try:
        yield
    except RuntimeError as error:
        found = _worker_failure(error, timeout_s)
        if found is None:
            raise
        raise found from error
    except Exception as error:
        if "pickle" not in f"{type(error).__name__} {error}".lower():
            raise
        raise DataLoadingError(
            f"workers cannot be given the data set or collate: {error}",
            hint="Use functions and classes of a module instead of lambdas and open files, or set "
            "loading.num_workers = 0.",
        ) from error


def _worker_failure(error: RuntimeError, timeout_s: float) -> DataLoadingError | None:
    text = str(error)
    if "DataLoader timed out" in text:
        return DataLoadingError(
            f"no batch came for {timeout_s:g} s: a worker hangs",
            hint="Read an item by itself (data[number]) to see what it waits for, or set "
            "loading.num_workers = 0; a library that locks itself in forked processes does this.",
        )
    if "Too many open files" in text or "ancdata" in text:
        return DataLoadingError(
            "workers cannot send batches: too many files are open",
            hint="Raise the limit (ulimit -n 65536), or set fewer loading.num_workers.",
        )
    died = re.search(r"DataLoader worker \(pid\(?s?\)?\s*([\d, ]+)\)(.*)", text, re.S)
    if died is None:
        return None
    full = "Bus error" in died[2] or "shared memory" in died[2]
    return DataLoadingError(
        f"a worker that reads data ended unexpectedly (process {died[1].strip()})",
        hint="Shared memory is full: give the container more (--shm-size), or use fewer workers."
        if full
        else "The system ends a process like this when memory runs out: set fewer "
        "loading.num_workers or a smaller loading.prefetch_factor; 0 workers read in the main "
        "process.",
    )


# -- how many workers ------------------------------------------------------------------------------

_NEGLIGIBLE = 0.05
"""The share of a step that reading a batch may take in the main process."""
_UNKNOWN_STEP_S = 0.05
_HEADROOM = 1.3
"""Batches of workers cost more than they did alone: they are copied, and cores are shared."""
_MEASURE_S, _MEASURE_BATCHES = 1.0, 8


class ReadingCost(NamedTuple):
    """What a batch costs in the main process."""

    batch_s: float
    cpu_share: float
    """How much of that the CPU was at work; the rest was waiting for a disk or a network."""
    num_bytes: int


class LoadingPlan(NamedTuple):
    options: LoaderOptions
    reasons: tuple[str, ...]


def plan_loading(
    cost: ReadingCost | None,
    loading: LoadingConfig,
    device_type: str,
    step_s: float | None = None,
    *,
    num_processes: int = 1,
    host: HostCapacity | None = None,
) -> LoadingPlan:
    """How many workers keep up with the device, as far as cores and memory go; set values win.

    Args:
        cost: of a batch; None where reading takes next to nothing, or could not be measured.
        loading: the settings.
        device_type: what computes.
        step_s: how long a step takes without reading; None when unknown.
        num_processes: how many train on this host and share its cores.
        host: asked for when None.
    """
    if loading.num_workers != "auto":
        num, why = loading.num_workers, f"{pluralize(loading.num_workers, 'worker')}, as set"
    elif cost is None:
        num, why = 0, "no workers: reading takes next to nothing"
    else:
        host = host or HostCapacity.measure()
        num, why = _count_workers(cost, step_s, host, num_processes, device_type)
    can_pin = device_type in _PINNING
    pin = can_pin if loading.pin_memory == "auto" else loading.pin_memory and can_pin
    pinned = f"memory is {'' if pin else 'not '}pinned"
    if loading.pin_memory is True and not can_pin:
        pinned += f" although requested: {device_type} cannot use it"
    ahead = 2 if loading.prefetch_factor == "auto" else loading.prefetch_factor
    stay = num > 0 and loading.persistent_workers is not False
    return LoadingPlan(LoaderOptions(num, pin, ahead, stay), (why, pinned))


def _count_workers(
    cost: ReadingCost,
    step_s: float | None,
    host: HostCapacity,
    num_processes: int,
    device_type: str,
) -> tuple[int, str]:
    step = step_s or _UNKNOWN_STEP_S
    times = f"a batch takes {format_duration(cost.batch_s)}, a step {format_duration(step)}"
    times += "" if step_s else " by guess"
    if cost.batch_s <= _NEGLIGIBLE * step:
        return 0, f"no workers: {times}"
    if device_type == "cpu" and cost.cpu_share > 0.5:
        return 0, f"no workers: reading needs the cores that train as well; {times}"
    needed = max(1, math.ceil(cost.batch_s * _HEADROOM / step))
    # The loop needs a core for itself. Workers that wait for a disk need none.
    cores = host.cores / num_processes
    most = max(1, math.floor((cores - 1) / max(cost.cpu_share, 0.25)))
    # A worker has a few batches under way.
    fits = host.shared_bytes // max(1, cost.num_bytes * 3)
    num = min(needed, most, fits)
    why = f"{pluralize(num, 'worker')}: {times}"
    if num < needed:
        limit = "shared memory is short" if fits < most else f"there are {math.floor(cores)} cores"
        why += f"; {needed} would keep up, but {limit}"
    return num, why


@dataclass(frozen=True)
class HostCapacity:
    """What the host has for workers."""

    cores: float
    shared_bytes: int
    """Free in the memory file system that batches travel through."""

    @classmethod
    def measure(cls) -> HostCapacity:
        from anyrig.devices import cpu
        from anyrig.devices.probe import HostProbe, LiveProbe

        cores = cpu.read_cpu(HostProbe(LiveProbe())).cores_usable
        has_file_system = os.path.isdir("/dev/shm")
        return cls(cores, shutil.disk_usage("/dev/shm").free if has_file_system else sys.maxsize)


def measure_reading(data: Any, collate: Collate | None, size: int) -> ReadingCost | None:
    """Time a few batches of a data set, about a second of them; the first is left out where there
    are more.
    """
    seconds: list[float] = []
    cpu_s, num = 0.0, 0
    began = time.perf_counter()
    with rng.preserved_host_rng(), contextlib.suppress(Exception):  # the run reports it
        for start in range(0, min(len(data), size * _MEASURE_BATCHES), size):
            wall, process = time.perf_counter(), time.process_time()
            items = [data[number] for number in range(start, min(start + size, len(data)))]
            num = max(num, num_bytes((collate or default_collate)(items)))
            seconds.append(time.perf_counter() - wall)
            cpu_s += time.process_time() - process
            if time.perf_counter() - began >= _MEASURE_S:
                break
    if not seconds:
        return None
    warm = seconds[1:] or seconds
    return ReadingCost(sum(warm) / len(warm), min(1.0, cpu_s / max(sum(seconds), 1e-9)), num)


def optimize_dataloader(
    loader: DataLoader[Any], device: str = "auto", step_s: float | None = None
) -> DataLoader[Any]:
    """The same loader with as many workers as keep up, and pinned memory where that helps.

    What was changed is logged, and in `reasons` of the result.

    Args:
        loader: of a data set with `len` and `[number]`; others come back as they are, with that
            as the reason.
        device: the type that computes, such as cuda; `auto` asks torch.
        step_s: how long a training step takes; a guess when None.
    """
    from anyrig.training.config import LoadingConfig

    if not isinstance(loader, DataLoader):
        raise InvalidInputError(
            f"a {type(loader).__name__} is not a DataLoader",
            hint="Pass torch.utils.data.DataLoader(data, batch_size=32).",
        )
    better: Any = loader
    if isinstance(loader.dataset, IterableDataset) or _samples_itself(loader):
        better.reasons = ("a loader that can only be iterated is left as it is",)
        return loader
    if device == "auto":
        found = torch.accelerator.current_accelerator()
        device = "cpu" if found is None else found.type
    collate: Any = loader.collate_fn
    cost = measure_reading(loader.dataset, collate, _batch_size_of(loader) or 1)
    options, reasons = plan_loading(cost, LoadingConfig(), device.partition(":")[0], step_s)
    changed: dict[str, Any] = {"batch_size": loader.batch_size, "sampler": loader.sampler}
    if loader.batch_size is not None:
        changed["drop_last"] = loader.drop_last
    elif loader.batch_sampler is not None:
        changed = {"batch_sampler": loader.batch_sampler}
    changed |= {
        "num_workers": options.num_workers, "pin_memory": options.pin_memory,
        "persistent_workers": options.persistent_workers,
        "prefetch_factor": options.prefetch_factor if options.num_workers else None,
        "timeout": loader.timeout if options.num_workers else 0,
    }  # fmt: skip
    better = _rebuild(loader, **changed)
    better.reasons = reasons
    log.info("data loading: %s", "; ".join(reasons))
    made: DataLoader[Any] = better
    return made
