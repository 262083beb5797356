"""Which items make up which step: the same whatever the number of processes, and after a resume.

An epoch's order comes from (seed, epoch). Its step s takes the items from s times the batch on, and
each process a share of them. So a position is two numbers, and a run that goes on with more or
fewer processes sees the same batches. A DataLoader has batches and an order of its own
(`given_loader`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, cast

import torch

from anyrig.errors import InvalidInputError
from anyrig.training.given_loader import GivenLoader
from anyrig.training.loading import Loader, Options, StreamLoader, cut, numbered, size_of
from anyrig.training.protocol import Batch
from anyrig.training.seeding import mixed

Share = Callable[[int], tuple[int, int]]
_NOTED = 1024
"""Lists that a loader's workers may be ahead of the steps."""


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
            whose batches, order and last batch are then those of the run.
        batch: items in a step over all processes.
        seed: of the order and of whatever is random in an item.
        shuffle: another order in each epoch; an iterable's own order stays.
        drop_last: leave out an epoch's last, smaller batch.
        collate: items to a batch; torch's when None.
        share: which items of a step are this process'.
        num_processes: how many share the steps.
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
        num_processes: int = 1,
    ) -> None:
        if isinstance(data, torch.utils.data.DataLoader):
            data = GivenLoader(data, seed)
        self.given = data if isinstance(data, GivenLoader) else None
        self._num_processes = num_processes
        if self.given is not None:
            given = self.given
            if given.num_replicas is not None:
                share = whole  # its sampler has shared them out
            data, drop_last = given.data, given.drop_last
            batch = given.batch * (num_processes if given.num_replicas is not None else 1)
            collate = _in_place_of(given, collate)
        self._orders: dict[tuple[int, int], str] = {}
        self._begun: tuple[Position, Iterator[tuple[int, list[int]]]] | None = None
        self.data, self.collate = data, collate
        self.batch, self._seed, self._shuffle = batch, seed, shuffle
        self._drop_last, self._share = drop_last, share
        self.num_items = self._count(data)
        if self.num_items is None and not hasattr(data, "__iter__"):
            raise InvalidInputError(
                f"a {type(data).__name__} cannot be used as training data",
                hint="Pass a data set with len() and [number], or an iterable of items.",
            )
        if self.num_items == 0:
            raise InvalidInputError("the data set is empty", hint="Pass at least one item.")
        self._loader: Loader | StreamLoader | None = None
        self._options = Options(seed=seed)

    def _count(self, data: Any) -> int | None:
        """How many items there are; None for a stream."""
        if not numbered(data):
            return None
        if self.given is None or hasattr(data, "__len__"):
            return len(data)
        return (self.given.steps_in_epoch or 1) * self.batch

    @property
    def steps_in_epoch(self) -> int | None:
        """None where nobody knows how long the data is."""
        if self.given is not None:
            return self.given.steps_in_epoch
        if self.num_items is None:
            return None
        if self._drop_last and self.num_items >= self.batch:
            return self.num_items // self.batch
        return -(-self.num_items // self.batch)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many items steps have: a batch's, and those left at an epoch's end, where known."""
        if self.num_items is None or self.given is not None:
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
        if self.given is not None:
            yield from self._given_lists(position)
            return
        order, steps = self.order(position.epoch), self.steps_in_epoch
        assert steps is not None
        for step in range(position.step, steps):
            items = order[step * self.batch : (step + 1) * self.batch]
            yield [int(item) for item in items]

    def _given_lists(self, position: Position) -> Iterator[list[int]]:
        assert self.given is not None
        running, self._begun = self._begun, None
        if running is None or running[0] != position:
            running = position, self._noted(position.epoch)
        for step, items in running[1]:
            if step >= position.step:
                yield items

    def _noted(self, epoch: int) -> Iterator[tuple[int, list[int]]]:
        """Lists of an epoch with their numbers; what they held is noted for a checkpoint."""
        assert self.given is not None
        for place in sorted(self._orders)[:-1]:
            del self._orders[place]
        seen = hashlib.blake2b(digest_size=8)
        for step, items in enumerate(self.given.lists(epoch)):
            seen.update(repr(items).encode())
            self._orders[epoch, step] = seen.hexdigest()
            self._orders.pop((epoch, step - _NOTED), None)
            yield step, items

    def first_lists(self, count: int) -> list[list[int]]:
        """The items of the run's first steps, which are not used up by this."""
        if self.given is not None:
            return self.given.peek(count)
        return list(itertools.islice(self.lists(), count))

    def order_before(self, position: Position) -> list[Any] | None:
        """Which items came up to a position of an epoch, in a few letters; None where the order
        follows from the seed. With the place of the last of them, for `is_same_order`.
        """
        known = [place for place in self._orders if place < tuple(position)]
        if self.given is None or not known:
            return None
        last = max(known)
        return [*last, self._orders[last]]

    def is_same_order(self, told: Sequence[Any], position: Position) -> bool:
        """Whether a DataLoader gives the items that it gave before, up to that place; the next pass
        begins at the position.
        """
        epoch, step, order = told
        running = self._noted(epoch)
        for _ in itertools.islice(running, step + 1):
            pass
        found = self._orders.get((epoch, step))
        # The pass that follows goes on with it: a sampler may have a state of its own.
        if position.epoch > epoch:
            for _ in running:
                pass
        else:
            self._begun = Position(epoch, step + 1), running
        return bool(found == order)

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
        if self.given is not None and self.given.is_batched:
            yield from self._cut(self._loader.over(self.lists(position), epoch=position.epoch))
            return
        counts: list[tuple[int, int]] = []

        def mine() -> Iterator[list[int]]:
            for items in self.lists(position):
                first, count = self._share(len(items))
                counts.append((count, len(items) * self._times))
                yield items[first : first + count] or items[:1]

        batches = self._loader.over(mine(), epoch=position.epoch)
        with closing(batches):  # type: ignore[type-var]  # a generator
            for number, batch in enumerate(batches):
                yield Fed(batch, *counts[number])

    @property
    def _times(self) -> int:
        """A distributed sampler's lists are those of one process of so many."""
        sharded = self.given is not None and self.given.num_replicas is not None
        return self._num_processes if sharded else 1

    def _stream(self, position: Position) -> Any:
        # Data that gives whole batches gives one a time.
        each = 1 if self.given is not None and self.given.is_batched else self.batch
        if self._loader is None:
            self._loader = StreamLoader(
                self.data, each, self.collate, self._options, drop_last=self._drop_last
            )
        assert isinstance(self._loader, StreamLoader)
        yield from self._cut(self._loader.over(position.epoch, skip=position.step * each))

    def _cut(self, batches: Iterator[Batch]) -> Iterator[Fed]:
        """This process' share of batches that are read whole."""
        with closing(batches):  # type: ignore[type-var]  # a generator
            for batch in batches:
                total = size_of(batch)
                first, count = self._share(total)
                part = cut(batch, first, first + count) if count else cut(batch, 0, 1)
                yield Fed(part, count, total * self._times)


def _in_place_of(
    given: GivenLoader, collate: Callable[[Sequence[Any]], Batch] | None
) -> Callable[[Sequence[Any]], Batch] | None:
    return given.collate if collate is None or given.is_batched else collate
