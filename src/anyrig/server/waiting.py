"""Waiting for work in threads: until it is done, takes too long, or the client disconnects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from anyrig.app.access import current_client
from anyrig.errors import OverloadedError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.websockets import WebSocket

    from anyrig.app.document_worker import TaskFuture
    from anyrig.app.settings import ServerSettings

T = TypeVar("T")
_POLL_S = 1.0
"""How often a task that waits is asked whether it started."""


class ClientDisconnected(Exception):
    """Nobody is there to receive the response."""


class TaskTimeout(Exception):
    """A task that had started did not end in time."""


class BoundedStarter:
    """Threads in which requests start, which may take as long as a model takes to load.

    A limited number of requests waits for one of them, and none for longer than the deadline; one
    client has at most its share of the threads. What
    was started for a client that gave up is undone when it is there; its thread is held until then:
    threads must not add up because clients come and go.

    Args:
        num_threads: that run at once.
    """

    def __init__(self, num_threads: int) -> None:
        self._num_threads = num_threads
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="anyrig-start")
        self._per_client: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.num_pending = 0
        """Requests that start or wait, and those that gave up while their thread goes on."""

    async def run(
        self,
        call: Callable[[], T],
        limits: ServerSettings,
        *,
        semaphore: asyncio.Semaphore | None = None,
        undo: Callable[[T], object] | None = None,
    ) -> T:
        """The result of a call in a thread.

        Raises `OverloadedError` if too many requests wait, or if it takes too long.

        Args:
            call: starts a request.
            limits: `queue` and `deadline_s` apply.
            semaphore: acquired before, and released with the thread.
            undo: called with a result that nobody waits for any more.
        """
        if self.num_pending >= self._num_threads + limits.queue:
            raise OverloadedError(
                f"{self.num_pending} requests are waiting to start", hint="Try again later."
            )
        with ExitStack() as stack:
            self.num_pending += 1
            stack.callback(self._release)
            try:
                async with asyncio.timeout(limits.deadline_s) as scope:
                    for one in filter(None, (self._limit_client(limits), semaphore)):
                        await one.acquire()
                        stack.callback(one.release)
                    future = self._threads.submit(call)
                    _call_when_done(future, stack.pop_all().close)
                    return await _wait_or_undo(future, undo)
            except TimeoutError:
                if not scope.expired():
                    raise
                raise OverloadedError(
                    f"the request did not start within {limits.deadline_s:g} seconds",
                    hint="Try again later: a model may be loading.",
                ) from None

    def _limit_client(self, limits: ServerSettings) -> asyncio.Semaphore | None:
        """The semaphore of the threads that one client may have."""
        client = current_client.get().id
        if not client:
            return None
        found = self._per_client.get(client)
        if found is None:
            share = max(1, int(limits.client_share * self._num_threads))
            found = self._per_client[client] = asyncio.Semaphore(share)
        return found

    def _release(self) -> None:
        self.num_pending -= 1


def _call_when_done(future: Future[T], call: Callable[[], None]) -> None:
    """Call something on the event loop once a thread is done; not if the loop has ended."""
    loop = asyncio.get_running_loop()

    def schedule(_: Future[T]) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(call)

    future.add_done_callback(schedule)


async def _wait_or_undo(future: Future[T], undo: Callable[[T], object] | None) -> T:
    def undo_result(done: Future[T]) -> None:
        if undo is not None and not done.cancelled() and done.exception() is None:
            undo(done.result())

    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        future.cancel()
        future.add_done_callback(undo_result)
        raise


async def wait_for_task(task: TaskFuture, max_s: float) -> Any:
    """The result of a task; `TaskTimeout` if it started and does not end.

    The task is cancelled then, and if the client disconnects.

    Args:
        task: may wait for its turn as long as it needs.
        max_s: how long it may take from then on.
    """
    future = asyncio.wrap_future(task)
    try:
        while not future.done():
            began = task.began
            left = _POLL_S if began is None else began + max_s - time.monotonic()
            if left <= 0:
                raise TaskTimeout
            await asyncio.wait((future,), timeout=min(left, _POLL_S))
        return future.result()
    finally:
        future.cancel()
        task.cancel()


async def wait_for_all(
    futures: Sequence[Future[T]], request: Request | None = None, *, deadline_s: float
) -> list[T]:
    """The results of all; what still waits is cancelled if they are not needed any more.

    The loop is woken once for all of them: once for each text would cost more than embedding it.

    Args:
        futures: of one request.
        request: whose body was read; None if somebody else watches whether its client disconnects.
        deadline_s: how long they may take.
    """
    done = _future_of_all(futures)
    watched = [done]
    if request is not None:
        watched.append(asyncio.ensure_future(wait_for_disconnect(request)))
    try:
        await asyncio.wait(watched, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return [future.result() for future in futures]
        if any(one.done() for one in watched):
            raise ClientDisconnected
        raise OverloadedError(
            f"the request took longer than {deadline_s:g} seconds",
            hint="Send less at once, or try again later.",
        )
    finally:
        for one in watched:
            one.cancel()
        for future in futures:
            future.cancel()


def _future_of_all(futures: Sequence[Future[T]]) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    numbers, total = count(1), len(futures)

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def count_one(_: Future[T]) -> None:
        if next(numbers) == total and not loop.is_closed():
            loop.call_soon_threadsafe(finish)

    for future in futures:
        future.add_done_callback(count_one)
    if not total:
        finish()
    return done


async def wait_for_disconnect(request: Request | WebSocket) -> None:
    while not (await request.receive())["type"].endswith(".disconnect"):
        pass
