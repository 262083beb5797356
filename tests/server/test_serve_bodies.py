"""Bodies that come slowly: who keeps a place has to fill it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message

from anyrig.server.security import limit_body

MOST = 1_000_000


def pieces(sizes: Sequence[int], every_s: float, *, taken_s: float = 0.0) -> int:
    """How much of a body is taken: pieces come at intervals, and are read by somebody as slow."""

    async def read() -> int:
        left = list(sizes)

        async def receive() -> Message:
            await asyncio.sleep(every_s)
            size = left.pop(0)
            return {"type": "http.request", "body": b"x" * size, "more_body": bool(left)}

        taken, more = 0, True
        next_one = limit_body(receive, MOST, idle_s=0.2, rate=1000.0)
        while more:
            message = await next_one()
            taken, more = taken + len(message["body"]), message["more_body"]
            await asyncio.sleep(taken_s)
        return taken

    return asyncio.run(read())


def test_a_byte_now_and_then_is_refused() -> None:
    with pytest.raises(HTTPException, match="too slow") as caught:
        pieces([1] * 1000, 0.05)
    assert caught.value.status_code == 408
    assert caught.value.headers == {"Connection": "close"}


def test_one_who_began_well_and_then_lingers_is_refused_too() -> None:
    with pytest.raises(HTTPException, match="too slow"):
        pieces([500_000] + [1] * 1000, 0.05)


def test_a_slow_line_that_moves_is_waited_for() -> None:
    assert pieces([200] * 12, 0.05) == 2400


def test_nobody_is_blamed_for_a_slow_reader() -> None:
    assert pieces([1] * 12, 0.0, taken_s=0.05) == 12


def test_one_who_sends_nothing_is_refused() -> None:
    with pytest.raises(HTTPException, match="stalled"):
        pieces([1, 1], 0.5)
