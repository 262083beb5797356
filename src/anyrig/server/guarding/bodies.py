"""Bodies with an end: bounded in size, told or not, and in the time between two pieces."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

_QUIET_S = 60.0
"""A client that sends nothing of its body for so long has gone, or means harm."""
CLOSE = {"Connection": "close"}
"""What is left of such a body is not worth reading."""


class TooMuch(HTTPException):
    """More came than is taken; a route that reads the body lets it through."""


def too_much(most_bytes: int) -> TooMuch:
    """The refusal."""
    return TooMuch(413, f"a request of over {most_bytes / 1e6:,.6g} MB is not taken", CLOSE)


def bounded(receive: Receive, most_bytes: int) -> Receive:
    """A request's messages; `TooMuch` is raised where its body has no end."""
    size = 0
    whole = False

    async def bounded_receive() -> Message:
        nonlocal size, whole
        if whole:  # what comes now is the news that the client has gone, whenever that is
            return await receive()
        try:
            async with asyncio.timeout(_QUIET_S):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the request stopped coming", CLOSE) from None
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if size > most_bytes:
                raise too_much(most_bytes)
        else:
            whole = True
        return message

    return bounded_receive
