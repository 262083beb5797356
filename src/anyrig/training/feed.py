"""Which items make up which step: the same whatever the number of processes, and after a resume.

An epoch's order comes from (seed, epoch). Its step s takes the items from s times the batch on, and
each process a share of them. So a position is two numbers, and a run that goes on with more or
fewer processes sees the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, cast

import torch

from anyrig.errors import BadInput
from anyrig.training.loading import Loader, Options, StreamLoader, cut, numbered, size_of
from anyrig.training.protocol import Batch
from anyrig.training.seeding import mixed

Share = Callable[[int], tuple[int, int]]


class Position(NamedTuple):
    """Where a run stands in its data."""

    epoch: int = 0
    step: int = 0
    """Steps of this epoch that are done."""


class Fed(NamedTuple):
    """One process' part of a step's items, on the host."""

    batch: Batch
    samples: int
    """Items of this process that count."""
    total: int
    """Items of the step over all processes."""


def whole(num_items: int) -> tuple[int, int]:
    """The share of a process that is alone."""
    return 0, num_items


class Feed:
    """Batches of a data set by epoch and step.

    Args:
        data: a data set with `len` and `[number]`, an iterable of items, or torch's DataLoader,
            whose data set and collate are taken.
        batch: items in a step over all processes.
        seed: of the order and of whatever is random in an item.
        shuffle: another order in each epoch; an iterable's own order stays.
        drop_last: leave out an epoch's last, smaller batch.
        collate: items to a batch; torch's when None.
        share: which items of a step are this process'.
    """

    def __init__(
        self,
        data: Any,
        batch: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = True,
        collate: Callable[[Sequence[Any]], Batch] | None = None,
        share: Share = whole,
    ) -> None:
        if isinstance(data, torch.utils.data.DataLoader):
            data, collate = data.dataset, collate or data.collate_fn
        self.data, self.collate = data, collate
        self.batch, self._seed, self._shuffle = batch, seed, shuffle
        self._drop_last, self._share = drop_last, share
        self.num_items = len(data) if numbered(data) else None
        if self.num_items is None and not hasattr(data, "__iter__"):
            raise BadInput(
                f"a {type(data).__name__} is no data to train on",
                hint="Give a data set with len() and [number], or an iterable of items.",
            )
        if self.num_items == 0:
            raise BadInput("the data set is empty", hint="Give at least one item.")
        self._loader: Loader | StreamLoader | None = None
        self._options = Options(seed=seed)

    @property
    def steps_in_epoch(self) -> int | None:
        """None where nobody knows how long the data is."""
        if self.num_items is None:
            return None
        if self._drop_last and self.num_items >= self.batch:
            return self.num_items // self.batch
        return -(-self.num_items // self.batch)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many items steps have: a batch's, and those left at an epoch's end, where known."""
        if self.num_items is None:
            return (self.batch,)
        left = self.num_items % self.batch
        if self.num_items < self.batch:
            return (left,)
        return (self.batch, left) if left and not self._drop_last else (self.batch,)

    def set_options(self, options: Options) -> None:
        """Read with other workers from the next pass on."""
        self.close()
        self._options = options

    def order(self, epoch: int) -> Sequence[int]:
        """The items of an epoch, in order."""
        assert self.num_items is not None
        if not self._shuffle:
            return range(self.num_items)
        generator = torch.Generator().manual_seed(mixed(self._seed, epoch) >> 1)
        # A tensor, not a list: 8 bytes an item instead of 36.
        return cast("Sequence[int]", torch.randperm(self.num_items, generator=generator))

    def lists(self, position: Position = Position()) -> Iterator[list[int]]:  # noqa: B008
        """The items of each step from a position to the end of its epoch, before they are shared.

        A process that has no item of a step is given its first one, which does not count.
        """
        order, steps = self.order(position.epoch), self.steps_in_epoch
        assert steps is not None
        for step in range(position.step, steps):
            items = order[step * self.batch : (step + 1) * self.batch]
            yield [int(item) for item in items]

    def over(self, position: Position = Position()) -> Generator[Fed, None, None]:  # noqa: B008
        """The steps from a position to the end of its epoch. Close it to leave early."""
        made = self._numbered(position) if self.num_items is not None else self._stream(position)
        with closing(made):
            yield from made

    def close(self) -> None:
        """End the workers."""
        if self._loader is not None:
            self._loader.close()
            self._loader = None

    def _numbered(self, position: Position) -> Any:
        if self._loader is None:
            self._loader = Loader(self.data, collate=self.collate, options=self._options)
        assert isinstance(self._loader, Loader)
        counts: list[tuple[int, int]] = []

        def mine() -> Iterator[list[int]]:
            for items in self.lists(position):
                first, count = self._share(len(items))
                counts.append((count, len(items)))
                yield items[first : first + count] or items[:1]

        batches = self._loader.over(mine(), epoch=position.epoch)
        with closing(batches):  # type: ignore[type-var]  # a generator
            for number, batch in enumerate(batches):
                yield Fed(batch, *counts[number])

    def _stream(self, position: Position) -> Any:
        if self._loader is None:
            self._loader = StreamLoader(
                self.data, self.batch, self.collate, self._options, drop_last=self._drop_last
            )
        assert isinstance(self._loader, StreamLoader)
        batches = self._loader.over(position.epoch, skip=position.step * self.batch)
        with closing(batches):  # type: ignore[type-var]  # a generator
            for batch in batches:
                total = size_of(batch)
                first, count = self._share(total)
                part = cut(batch, first, first + count) if count else cut(batch, 0, 1)
                yield Fed(part, count, total)
