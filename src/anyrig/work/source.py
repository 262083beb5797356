"""Items as they arrive: read ahead by a bounded number, without waiting for a slow stream."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Generic, TypeVar

from anyrig.work.pack import Item, numbered

T = TypeVar("T")


class Source(Generic[T]):
    """The items of an iterable. No more than `look_ahead` of them are taken and not `done`.

    What has a length is read in place. A stream is read by a thread of its own, so that the items
    that are here can be worked on while the next one is awaited.
    """

    def __init__(
        self,
        payloads: Iterable[T],
        cost: Callable[[T], float],
        look_ahead: int,
        *,
        first: int = 0,
        arrived: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin to read.

        Args:
            payloads: the items.
            cost: what one costs.
            look_ahead: how many may be taken and not done.
            first: the index of the first item.
            arrived: is told, from another thread, that something of a stream is here.
        """
        self.first = first
        self._tell = arrived
        self._items: Iterator[Item[T]] = numbered(payloads, cost, first)
        self._room = threading.Semaphore(max(1, look_ahead))
        self._closed = False
        self.ended = False
        """Whether everything has been taken."""
        self.error: BaseException | None = None
        """What ended the input before its end: to be raised once the items before it are done."""
        self._arrived: queue.SimpleQueue[Item[T] | None] | None = None
        if not isinstance(payloads, Sized):
            self._arrived = queue.SimpleQueue()
            threading.Thread(target=self._read, name="anyrig-read", daemon=True).start()

    def take(self, *, wait: bool) -> Iterator[Item[T]]:
        """The items that are here and for which there is room.

        Args:
            wait: wait for one when there is none yet and there may be more.
        """
        while not self.ended and not self._closed:
            item = self._next(wait)
            if item is None:
                return
            wait = False
            yield item

    def done(self) -> None:
        """An item has left: one more may be taken."""
        self._room.release()

    def close(self) -> None:
        """Take no more."""
        self._closed = True
        self._room.release()
        if self._arrived is not None:
            self._arrived.put(None)

    def _next(self, wait: bool) -> Item[T] | None:
        if self._arrived is None:
            if not self._room.acquire(blocking=wait) or self._closed:
                return None
            item = self._read_one()
            self.ended = item is None
            return item
        try:
            arrived = self._arrived.get(block=wait)
        except queue.Empty:
            return None
        self.ended = arrived is None
        return arrived

    def _read_one(self) -> Item[T] | None:
        try:
            return next(self._items, None)
        except BaseException as error:  # noqa: BLE001 - raised again where results are taken
            self.error = error
            return None

    def _read(self) -> None:
        """The thread of a stream."""
        assert self._arrived is not None
        item: Item[T] | None = None
        while not self._closed:
            item = self._read_one()
            if item is not None:
                self._room.acquire()
            self._arrived.put(item)
            self._tell()
            if item is None:
                return
