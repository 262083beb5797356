"""A person's own DataLoader: what it says is what happens.

Its batches are the run's batches: in the order of its sampler, put together by its collate, read by
as many workers as it has. Only the reading is ours (`loader`): so an item's random numbers do not
depend on who reads it, and a resume need not read what comes before.

An epoch's order is drawn under random numbers of (seed, epoch), or from the generator that the
loader was given, whose numbers go on from epoch to epoch. A sampler that draws from elsewhere, such
as a `random.Random` of its own, may give another order after a resume: the items of a step are
written down with a checkpoint, so that this can be told (`Feed.is_same_order`).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)

from anyrig.errors import InvalidInputError
from anyrig.training.nests import size_of
from anyrig.training.seeding import host_random, kept_random, put_host_random, seed_item

if TYPE_CHECKING:
    from anyrig.training.settings import Settings

_ORDER = -1
"""In the place of an item's number, for the order of an epoch."""
_KEPT = 8
"""Lists of the first epoch that are remembered for whoever looks ahead."""
_TORCHS = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


class GivenLoader:
    """What a DataLoader says: its data, batches, order and workers.

    Args:
        loader: is not iterated; its parts are asked.
        seed: of the run, for samplers that have no generator of their own.
    """

    def __init__(self, loader: DataLoader[Any], seed: int = 0) -> None:
        self.loader, self._seed = loader, seed
        self.data: Any = loader.dataset
        self.is_stream = isinstance(loader.dataset, IterableDataset)
        self.is_batched = loader.batch_sampler is None and loader.batch_size is None
        """Whether its data gives whole batches: the loader puts nothing together."""
        self._states: dict[int, list[torch.Tensor]] = {}
        self._first: list[list[Any]] = []
        self._peeked: tuple[list[list[Any]], Iterator[list[Any]]] | None = None
        self._batch: int | None = None

    @property
    def collate(self) -> Callable[[Sequence[Any]], Any] | None:
        """Items to a batch; None for torch's own."""
        made: Callable[..., Any] = self.loader.collate_fn
        if self.is_batched:
            return _Only(made)
        return None if made is default_collate else made

    @property
    def batch(self) -> int:
        """Items in a batch; those of the first where they vary."""
        if self._batch is None:
            self._batch = self._found_batch()
        return self._batch

    def _found_batch(self) -> int:
        size = self.loader.batch_size
        if size is None and not self.is_batched:
            size = getattr(self.loader.batch_sampler, "batch_size", None)
        if isinstance(size, int) and size > 0:
            return size
        if self.is_stream:
            with kept_random():
                first = next(iter(self.data), None)
            items = None if first is None else self.loader.collate_fn(first)
        else:
            lists = self.peek(1)
            if not self.is_batched:
                return max(1, len(lists[0])) if lists else 1
            with kept_random():
                items = self.loader.collate_fn(self.data[lists[0][0]]) if lists else None
        if items is None:
            raise InvalidInputError("the DataLoader gives no batch", hint="Pass at least one item.")
        return size_of(items)

    @property
    def drop_last(self) -> bool:
        """Whether a last, smaller batch is left out."""
        return bool(self.loader.drop_last)

    @property
    def steps_in_epoch(self) -> int | None:
        """None where nobody knows."""
        if self.is_stream:
            return None
        with contextlib.suppress(TypeError, NotImplementedError, AttributeError):
            return len(self._source())
        return None

    # ---------------------------------------------------------------- the order

    def lists(self, epoch: int) -> Iterator[list[Any]]:
        """The items of each batch of an epoch."""
        if epoch == 0 and self._peeked is not None:
            (held, running), self._peeked = self._peeked, None
            return itertools.chain(held, running)
        return self._begun(epoch)

    def peek(self, count: int) -> list[list[Any]]:
        """The first lists of the first epoch, which are not used up by this."""
        if len(self._first) >= count:
            return self._first[:count]
        if self._peeked is None:
            self._peeked = [], self._begun(0)
        held, running = self._peeked
        held.extend(itertools.islice(running, max(0, count - len(held))))
        return held[:count]

    def _source(self) -> Any:
        """What gives lists of items, or single ones where the data gives whole batches."""
        return self.loader.sampler if self.is_batched else self.loader.batch_sampler

    def _samplers(self) -> list[Any]:
        found = [self.loader.batch_sampler, self.loader.sampler]
        found += [getattr(one, "sampler", None) for one in found]
        return [one for one in found if one is not None]

    def _generators(self) -> list[torch.Generator]:
        given = [
            self.loader.generator,
            *(getattr(one, "generator", None) for one in self._samplers()),
        ]
        return list({id(one): one for one in given if isinstance(one, torch.Generator)}.values())

    def _begun(self, epoch: int) -> Iterator[list[Any]]:
        generators = self._generators()
        if generators or not self.is_reproducible:
            # Its numbers go on from epoch to epoch: those before are gone through once.
            for earlier in range(epoch):
                if earlier + 1 not in self._states:
                    for _ in self._drawn(earlier, generators):
                        pass
        return self._drawn(epoch, generators)

    def _drawn(self, epoch: int, generators: list[torch.Generator]) -> Iterator[list[Any]]:
        """The lists of an epoch, without a trace in this process' random states."""
        if epoch in self._states:
            for one, state in zip(generators, self._states[epoch], strict=True):
                one.set_state(state)
        else:
            self._states[epoch] = [one.get_state() for one in generators]
        running: Iterator[Any] | None = None
        states: Any = None
        is_first = not self._first
        while True:
            with kept_random():
                if running is None:
                    seed_item(self._seed, epoch, _ORDER)
                    running = self._running(epoch)
                else:
                    put_host_random(states)
                items = next(running, None)
                states = host_random()
            if items is None:
                self._states.setdefault(epoch + 1, [one.get_state() for one in generators])
                return
            found = [items] if self.is_batched else list(items)
            if epoch == 0 and len(self._first) < _KEPT and is_first:
                self._first.append(found)
            yield found

    def _running(self, epoch: int) -> Iterator[Any]:
        for sampler in {id(one): one for one in self._samplers()}.values():
            if callable(getattr(sampler, "set_epoch", None)):
                sampler.set_epoch(epoch)
        if self.loader.generator is not None:
            # torch's loader draws a seed for its workers before the order.
            torch.empty((), dtype=torch.int64).random_(generator=self.loader.generator)
        return iter(self._source())

    @property
    def is_reproducible(self) -> bool:
        """Whether an epoch's order follows from its number: torch's own samplers."""
        if not self.is_batched and type(self.loader.batch_sampler) is not BatchSampler:
            return False
        return type(self.loader.sampler) in _TORCHS or self.num_replicas is not None

    # ---------------------------------------------------------------- several processes

    @property
    def num_replicas(self) -> int | None:
        """For how many processes its sampler shares out the items; None where it does not."""
        for sampler in self._samplers():
            found = getattr(sampler, "num_replicas", None)
            if isinstance(found, int) and hasattr(sampler, "rank"):
                return found
        return None

    def check_group(self, rank: int, size: int) -> None:
        """Refuse a sampler that shares out the items for other processes than these."""
        given = [one for one in self._samplers() if hasattr(one, "num_replicas")]
        if self.num_replicas is None or (self.num_replicas, int(given[0].rank)) == (size, rank):
            return
        raise InvalidInputError(
            f"the {type(given[0]).__name__} is for process {int(given[0].rank) + 1} of "
            f"{self.num_replicas}, and this is process {rank + 1} of {size}",
            hint="Start that many processes, with Trainer(..., environment=os.environ), or give a "
            "sampler that is not distributed: batches are shared out here.",
        )

    # ---------------------------------------------------------------- settings

    def settings(self, settings: Settings, num_processes: int) -> Settings:
        """The settings with what the loader says in place of what they leave open."""
        loader, loading = self.loader, settings.loading
        said: dict[str, Any] = {
            "num_workers": loader.num_workers, "pin_memory": loader.pin_memory,
            "prefetch_factor": loader.prefetch_factor,
            "persistent_workers": loader.persistent_workers,
        }  # fmt: skip
        open_ones = {
            name: value for name, value in said.items()
            if value is not None and getattr(loading, name) == "auto"
        }  # fmt: skip
        return replace(
            settings,
            batch=self.batch * (num_processes if self.num_replicas is not None else 1),
            drop_last=self.drop_last,
            shuffle=not isinstance(loader.sampler, SequentialSampler),
            loading=replace(loading, **open_ones),
        )

    def reading(self) -> dict[str, Any]:
        """What else its workers have, as `Options` names it."""
        loader = self.loader
        found = {
            "worker_init_fn": loader.worker_init_fn,
            "multiprocessing_context": loader.multiprocessing_context,
            "timeout_s": loader.timeout or None,
        }
        return {name: value for name, value in found.items() if value is not None}

    def reasons(self, asked: Settings, num_processes: int) -> Iterator[str]:
        """What is taken from the loader, in sentences."""
        order = self.loader.batch_sampler
        if self.is_stream:
            order = self.data
        elif self.is_batched or type(order) is BatchSampler:
            order = self.loader.sampler
        size = f"batches of {self.batch}" if not self.is_batched else "batches as the data has them"
        instead = f" (instead of {asked.batch})" if asked.batch not in (32, self.batch) else ""
        yield f"data: {size}{instead}, order by {type(order).__name__}, as the DataLoader says"
        kind = type(self.loader)
        if kind.__iter__ is not DataLoader.__iter__:
            yield (
                f"data: the {kind.__name__} is not iterated: its sampler, data set and collate are "
                "asked, so what its own __iter__ does is left out"
            )
        if num_processes > 1 and self.num_replicas is None:
            same = "" if self.is_reproducible or self.is_stream else (
                ", which must give the same order in each of them"
            )  # fmt: skip
            yield f"data: each batch is shared out over {num_processes} processes{same}"


class _Only:
    """The collate function of a loader whose data gives whole batches."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self.convert = convert

    def __call__(self, items: Sequence[Any]) -> Any:
        (batch,) = items
        return self.convert(batch)


def items_of(loader: DataLoader[Any]) -> Any:
    """The items that a loader gives in an epoch, in its order, as a data set."""
    given = GivenLoader(loader)
    return Subset(loader.dataset, [item for items in given.lists(0) for item in items])
