"""Bodies with an end: bounded in size, told or not, in the time between two pieces, and in pace."""

from __future__ import annotations

import asyncio
import time

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

_QUIET_S = 60.0
"""A client that sends nothing of its body for so long has gone, or means harm."""
_LEAST_RATE = 1000.0
"""Bytes a second over any such time: who sends less keeps a place that others want. The slowest
phone sends several times as much."""
CLOSE = {"Connection": "close"}
"""What is left of such a body is not worth reading."""


class TooMuch(HTTPException):
    """More came than is taken; a route that reads the body lets it through."""


def too_much(most_bytes: int) -> TooMuch:
    """The refusal."""
    return TooMuch(413, f"a request of over {most_bytes / 1e6:,.6g} MB is not taken", CLOSE)


def bounded(
    receive: Receive, most_bytes: int, *, quiet_s: float = _QUIET_S, rate: float = _LEAST_RATE
) -> Receive:
    """A request's messages; `TooMuch` is raised where its body has no end, 408 where it lingers.

    Args:
        receive: the server's own.
        most_bytes: of the body.
        quiet_s: how long nothing may come.
        rate: bytes a second that have to come over any time as long as that. Only time that was
            spent waiting for the client counts.
    """
    size = 0
    whole = False
    waited_s, came = 0.0, 0
    """Of the stretch in which the rate is looked at now."""

    async def bounded_receive() -> Message:
        nonlocal size, whole, waited_s, came
        if whole:  # what comes now is the news that the client has gone, whenever that is
            return await receive()
        begun = time.monotonic()
        try:
            async with asyncio.timeout(quiet_s):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the request stopped coming", CLOSE) from None
        if message["type"] != "http.request":
            whole = True
            return message
        length = len(message.get("body", b""))
        size, came, waited_s = size + length, came + length, waited_s + time.monotonic() - begun
        whole = not message.get("more_body", False)
        if size > most_bytes:
            raise too_much(most_bytes)
        if not whole and waited_s >= quiet_s:
            if came < rate * waited_s:
                raise HTTPException(408, "the request comes too slowly", CLOSE)
            waited_s, came = 0.0, 0
        return message

    return bounded_receive
