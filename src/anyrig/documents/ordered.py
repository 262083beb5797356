"""One ordered join: items that each need some work of a shared stream, and come out in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from contextlib import closing
from itertools import islice
from typing import Generic, TypeVar, cast

from anyrig.errors import MORE_DETAILS, WorkError

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
C = TypeVar("C")
Out = TypeVar("Out")
MAX_PENDING = 4096
"""Items that may wait for the result of one before them."""


def run_ordered(
    items: Iterable[T],
    expand: Callable[[T], tuple[C, Sequence[P]]],
    run: Callable[[Iterator[P]], Iterator[R]],
    join: Callable[[C, list[R]], Out],
    *,
    max_pending: int = MAX_PENDING,
) -> Iterator[Out]:
    """An outcome for each item, in order; the parts of all items are one stream.

    Args:
        items: may be a stream.
        expand: the context of an item, and its parts; an item may have none.
        run: gives a result for each part, in order; may read parts ahead, from another thread.
        join: the context of an item and the results of its parts, to its outcome.
        max_pending: items that may wait; then the stream of parts ends, and another begins.
    """
    queue = _PartQueue(items, expand, max_pending)
    results: deque[R] = deque()
    while not queue.ended:
        for context in queue.take_empty():
            yield join(context, [])
        if queue.ended:
            return
        # Closed at once if the caller leaves: what runs must not read on.
        with closing(cast("Generator[R]", _as_generator(run(queue.read_parts())))) as stream:
            for result in stream:
                results.append(result)
                for context, count in queue.take_ready(results):
                    yield join(context, [results.popleft() for _ in range(count)])
        for context, count in queue.take_ready(results):
            yield join(context, [results.popleft() for _ in range(count)])
        if queue.pending:
            raise WorkError(f"{len(queue.pending)} items got no result", hint=MORE_DETAILS)


class _PartQueue(Generic[T, C, P]):
    """The parts of items, and the context of those whose parts were read."""

    def __init__(
        self,
        items: Iterable[T],
        expand: Callable[[T], tuple[C, Sequence[P]]],
        max_pending: int,
    ) -> None:
        self._items, self._expand, self._max_pending = iter(items), expand, max_pending
        self.pending: deque[tuple[C, int]] = deque()
        """With the number of its parts."""
        self.ended = False
        self._parts: Sequence[P] = ()
        """Of the one pending item that `take_empty` has read, until they are in the stream."""

    def take_empty(self) -> Iterator[C]:
        """The next items as long as they have no parts: nothing is started for those."""
        while not self.pending:
            try:
                item = next(self._items)
            except StopIteration:
                self.ended = True
                return
            context, parts = self._expand(item)
            if parts:
                self.pending.append((context, len(parts)))
                self._parts = parts
            else:
                yield context

    def read_parts(self) -> Iterator[P]:
        yield from self._parts
        self._parts = ()
        while len(self.pending) < self._max_pending:
            try:
                item = next(self._items)
            except StopIteration:
                self.ended = True
                return
            context, parts = self._expand(item)
            # Parts may be read in another thread than this one.
            self.pending.append((context, len(parts)))
            yield from parts

    def take_ready(self, results: Sized) -> Iterator[tuple[C, int]]:
        """The items whose results are all there."""
        while self.pending and self.pending[0][1] <= len(results):
            yield self.pending.popleft()


def _as_generator(results: Iterator[R]) -> Iterator[R]:
    try:
        yield from results
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            close()


def iter_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Consecutive items, so many at a time."""
    source = iter(items)
    while some := list(islice(source, size)):
        yield some


def iter_rows(blocks: Iterable[Iterable[T]]) -> Iterator[T]:
    """The rows of all blocks."""
    for block in blocks:
        yield from block
