"""Waiting for work of other threads: until it is done, nobody wants it, or it takes too long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from anyrig.errors import OverloadedError

if TYPE_CHECKING:
    from starlette.requests import Request

    from anyrig.app.settings import ServerSettings

T = TypeVar("T")
_LOOK_S = 1.0
"""How often it is asked whether something that waits has begun."""


class ClientGone(Exception):
    """Nobody is there to be answered."""


class TookTooLong(Exception):
    """Work that had begun did not end in time."""


class Piece(Future[T]):
    """Work of another thread that tells when its turn came.

    Args:
        began: asked for that time, by `time.monotonic`; None while it waits.
    """

    def __init__(self, began: Callable[[], float | None]) -> None:
        super().__init__()
        self._began = began

    @property
    def began(self) -> float | None:
        """When its turn came."""
        return self._began()


class Beginning:
    """Threads in which requests begin, which may take as long as a model takes to load.

    So many wait for one of them, and none for longer than a request may; what was begun for one who
    has given up is undone when it is there. Its thread is held until then: threads must not add up
    because clients come and go.

    Args:
        at_once: threads.
    """

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="anyrig-begin")
        self.num = 0
        """Those that begin or wait to, and have not given up or have a thread still."""

    async def run(
        self,
        call: Callable[[], T],
        limits: ServerSettings,
        *,
        gate: asyncio.Semaphore | None = None,
        undo: Callable[[T], object] | None = None,
    ) -> T:
        """What a call in a thread answers.

        `OverloadedError` where too many wait, or it takes too long.

        Args:
            call: what begins a request.
            limits: `queue` and `deadline_s` count.
            gate: is passed before, and given back with the thread.
            undo: is called with an answer that nobody waits for any more.
        """
        if self.num >= self.at_once + limits.queue:
            raise OverloadedError(
                f"{self.num} requests wait to begin", hint="Try again in a moment."
            )
        with ExitStack() as stack:
            self.num += 1
            stack.callback(self._less)
            try:
                async with asyncio.timeout(limits.deadline_s) as scope:
                    if gate is not None:
                        await gate.acquire()
                        stack.callback(gate.release)
                    begun = self._threads.submit(call)
                    _then(begun, stack.pop_all().close)
                    return await _unless_left(begun, undo)
            except TimeoutError:
                if not scope.expired():
                    raise
                raise OverloadedError(
                    f"it did not begin within {limits.deadline_s:g} seconds",
                    hint="Try again in a moment: a model may be loading.",
                ) from None

    def _less(self) -> None:
        self.num -= 1


def _then(begun: Future[T], call: Callable[[], None]) -> None:
    """Call something on the loop once a thread is done; a loop that has ended needs it no more."""
    loop = asyncio.get_running_loop()

    def done(_: Future[T]) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(call)

    begun.add_done_callback(done)


async def _unless_left(begun: Future[T], undo: Callable[[T], object] | None) -> T:
    """What a thread answers; where nobody waits for that any more, it is undone."""

    def undone(found: Future[T]) -> None:
        if undo is not None and not found.cancelled() and found.exception() is None:
            undo(found.result())

    try:
        return await asyncio.wrap_future(begun)
    except asyncio.CancelledError:
        begun.cancel()
        begun.add_done_callback(undone)
        raise


async def within(piece: Piece[T], most_s: float) -> T:
    """What a piece of work answers; `TookTooLong` where it has begun and does not end.

    Whoever does it is told that nobody waits any more, here as where the client leaves.

    Args:
        piece: may wait for its turn as long as it likes.
        most_s: how long it may take from then on.
    """
    found = asyncio.wrap_future(piece)
    try:
        while not found.done():
            began = piece.began
            left = _LOOK_S if began is None else began + most_s - time.monotonic()
            if left <= 0:
                raise TookTooLong
            await asyncio.wait((found,), timeout=min(left, _LOOK_S))
        return found.result()
    finally:
        found.cancel()
        piece.cancel()


async def all_of(
    futures: Sequence[Future[T]], request: Request | None = None, *, deadline_s: float
) -> list[T]:
    """The results of all; what still waits is cancelled where there is no more use for it.

    The loop is woken once for all of them: a wake-up for each text would cost more than reading it.

    Args:
        futures: of one request.
        request: whose body has been read; none where somebody else sees whether its client left.
        deadline_s: how long they may take.
    """
    done = _woken(futures)
    watched = [done]
    if request is not None:
        watched.append(asyncio.ensure_future(_left(request)))
    try:
        await asyncio.wait(watched, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return [future.result() for future in futures]
        if any(one.done() for one in watched):
            raise ClientGone
        raise OverloadedError(
            f"it took longer than {deadline_s:g} seconds",
            hint="Ask for less at a time, or when less is going on.",
        )
    finally:
        for one in watched:
            one.cancel()
        for future in futures:
            future.cancel()


def _woken(futures: Sequence[Future[T]]) -> asyncio.Future[None]:
    """Done once all of them are."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    numbers, total = count(1), len(futures)

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def one(_: Future[T]) -> None:
        if next(numbers) == total and not loop.is_closed():
            loop.call_soon_threadsafe(finish)

    for future in futures:
        future.add_done_callback(one)
    if not total:
        finish()
    return done


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
