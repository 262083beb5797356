"""Items of a data set to a batch, in the main process or in a worker.

What goes wrong with an item is told as a value (`Failed`): torch brings a worker's error back as
another one of the same class made of a traceback, and not every class can be made so.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils.data import (
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    default_collate,
    get_worker_info,
)

from anyrig.errors import AnyrigError, DataLoadingError
from anyrig.training.protocol import Batch
from anyrig.training.seeding import seed_item

Collate = Callable[[Sequence[Any]], Batch]
_SHOWN = 5
_LARGE_ROW = 1 << 14


class Picks(NamedTuple):
    """The items of a batch."""

    items: Sequence[int]
    epoch: int = 0


@dataclass(frozen=True)
class Failed:
    """What went wrong, in a form that any process can send."""

    items: tuple[int, ...]
    doing: str
    said: str
    hint: str = ""
    trace: str = ""

    def error(self) -> DataLoadingError:
        """The error to raise for it."""
        shown = ", ".join(str(item) for item in self.items[:_SHOWN])
        more = ", ..." if len(self.items) > _SHOWN else ""
        what = f"item {shown}" if len(self.items) == 1 else f"items {shown}{more}"
        error = DataLoadingError(
            f"{what} of the data set could not be {self.doing}: {self.said}",
            hint=self.hint or _HINTS[self.doing],
            item=self.items[0] if self.items else None,
        )
        if self.trace:
            error.add_note(self.trace)
        return error


_HINTS = {
    "read": "Look at the item by itself (data[number]); leave it out or repair it.",
    "put into one batch": "Items must have the same shapes, or a collate function that pads them.",
}


class Reader(Dataset[Any]):
    """Batches by the numbers of their items.

    In-memory tensors are indexed at once. A data set with `__getitems__` is asked for all items of
    a batch at once, under one seed made of its first item. Else each item has a seed of its own.

    Args:
        data: `data[number]` is an item.
        collate: items to a batch; torch's when None.
        seed: of the run.
    """

    def __init__(self, data: Any, collate: Collate | None, seed: int) -> None:
        self._data, self._collate, self._seed = data, collate, seed
        self._base, self._numbers = _unwrapped(data)

    @property
    def source(self) -> Any:
        """The data set itself."""
        return self._data

    @property
    def at_once(self) -> bool:
        """Whether a batch is cut out of tensors, with no code of an item's own."""
        return self._collate is None and tensors_in(self._base) is not None

    def __getitem__(self, picks: Picks) -> Batch | Failed:
        items = list(picks.items)
        if self.at_once:
            return self._indexed(items)
        found = self._items(items, picks.epoch)
        return found if isinstance(found, Failed) else collated(found, self._collate, items)

    def _indexed(self, items: list[int]) -> Batch | Failed:
        tensors = tensors_in(self._base)
        assert tensors is not None
        try:
            numbers = self._in_base(items)
            rows = [_rows(tensor, numbers) for tensor in tensors]
        except (IndexError, RuntimeError) as error:
            return failed(items, "read", error)
        # As torch's collate has it: a list for items that are tuples, a tensor for plain rows.
        return rows[0] if isinstance(self._base, torch.Tensor) else rows

    def _in_base(self, items: list[int]) -> list[int]:
        for numbers in self._numbers:
            items = [int(numbers[item]) for item in items]
        return items

    def _one(self, item: Any) -> Any:
        if _is_number(item):
            return self._base[self._in_base([item])[0]]
        return self._data[item]  # a key, or a list of numbers

    def _items(self, items: list[int], epoch: int) -> list[Any] | Failed:
        several = getattr(self._base, "__getitems__", None)
        if several is not None and items and all(map(_is_number, items)):
            try:
                seed_item(self._seed, epoch, items[0])
                return list(several(self._in_base(items)))
            except Exception as error:  # noqa: BLE001  # a data set is anybody's code
                return failed(items, "read", error)
        found = []
        for item in items:
            try:
                seed_item(self._seed, epoch, item)
                found.append(self._one(item))
            except Exception as error:  # noqa: BLE001
                return failed([item], "read", error)
        return found


class Stream(IterableDataset[Any]):
    """Batches of an iterable's items as they come, each made under a seed of its number.

    Args:
        data: gives items.
        collate: items to a batch.
        seed: of the run.
        batch: items in a batch.
        drop_last: whether a last, smaller one is left out.
        skip: items of the epoch that are passed over first, for a resume.
        epoch: which one it is.
    """

    def __init__(
        self,
        data: Iterable[Any],
        collate: Collate | None,
        seed: int,
        *,
        batch: int,
        drop_last: bool = False,
        skip: int = 0,
        epoch: int = 0,
    ) -> None:
        self._data, self._collate, self._seed = data, collate, seed
        self._batch, self._drop_last = batch, drop_last
        self.skip, self.epoch = skip, epoch

    @property
    def source(self) -> Any:
        """The iterable itself."""
        return self._data

    def __iter__(self) -> Iterator[Batch | Failed]:
        worker = get_worker_info()
        # Several workers have different items under the same numbers, which must differ too.
        first, each = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        held: list[Any] = []
        number, items = 0, iter(self._data)
        while True:
            seed_item(self._seed, self.epoch, first + number * each)
            try:
                item = next(items)
            except StopIteration:
                break
            except Exception as error:  # noqa: BLE001
                yield failed([number], "read", error)
                return
            number += 1
            if number > self.skip:
                held.append(item)
            if len(held) == self._batch:
                yield collated(held, self._collate, range(number - len(held), number))
                held = []
        if held and not self._drop_last:
            yield collated(held, self._collate, range(number - len(held), number))


def collated(found: list[Any], collate: Collate | None, items: Sequence[int]) -> Batch | Failed:
    """Items as a batch, or what went wrong."""
    try:
        return (collate or default_collate)(found)
    except Exception as error:  # noqa: BLE001
        return failed(items, "put into one batch", error)


def failed(items: Sequence[int], doing: str, error: Exception) -> Failed:
    """An error in a form that crosses processes."""
    said = str(error).strip().splitlines()
    name = type(error).__name__
    ours = isinstance(error, AnyrigError)
    return Failed(
        tuple(items),
        doing,
        (f"{said[0]}" if ours else f"{name}: {said[0]}") if said else name,
        error.hint if isinstance(error, AnyrigError) else "",
        "".join(traceback.format_exception(error)),
    )


def numbered(data: object) -> bool:
    """Whether items are had by number; else they come one after another."""
    # torch gives its IterableDataset a `__getitem__` too, which only raises.
    return hasattr(data, "__getitem__") and not isinstance(data, IterableDataset)


def tensors_in(data: Any) -> tuple[torch.Tensor, ...] | None:
    """The tensors of a data set that is nothing but tensors in memory; None for all others."""
    if type(data) is TensorDataset:
        return data.tensors
    if type(data) is torch.Tensor and data.dim() > 0:
        return (data,)
    return None


def _is_number(item: object) -> bool:
    return hasattr(item, "__index__") and getattr(item, "ndim", 0) == 0


def _rows(tensor: torch.Tensor, numbers: list[int]) -> torch.Tensor:
    """Some rows. Large ones are copied one by one: gathering them waits for all of torch's threads,
    which took 17 times as long (2.8 and 47 ms) on two cores that others used as well.
    """
    row_bytes = tensor.nbytes // max(1, len(tensor))
    if numbers and row_bytes >= _LARGE_ROW:
        return torch.stack([tensor[number] for number in numbers])
    return tensor.index_select(0, torch.tensor(numbers, dtype=torch.long, device=tensor.device))


def _unwrapped(data: Any) -> tuple[Any, list[Any]]:
    """What subsets are subsets of, and their lists of numbers, outermost first."""
    numbers = []
    while type(data) is Subset:
        numbers.append(data.indices)
        data = data.dataset
    return data, numbers
