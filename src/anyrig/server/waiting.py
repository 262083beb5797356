"""Waiting for work of other threads: until it is done, nobody wants it, or it takes too long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from anyrig.errors import TooBusy

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")


class ClientGone(Exception):
    """Nobody is there to be answered."""


async def all_of(futures: Sequence[Future[T]], request: Request, *, deadline_s: float) -> list[T]:
    """The results of all; what still waits is cancelled where there is no more use for it.

    The loop is woken once for all of them: a wake-up for each text would cost more than reading it.

    Args:
        futures: of one request.
        request: whose body has been read.
        deadline_s: how long they may take.
    """
    done = _woken(futures)
    gone = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((done, gone), timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if done.done():
            return [future.result() for future in futures]
        if gone.done():
            raise ClientGone
        raise TooBusy(
            f"it took longer than {deadline_s:g} seconds",
            hint="Ask for less at a time, or when less is going on.",
        )
    finally:
        gone.cancel()
        done.cancel()
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
