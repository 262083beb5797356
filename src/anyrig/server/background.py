"""What runs beside requests: preloading, unloading of idle models, sampling, the queue of jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyrig.server.parts import Parts


@asynccontextmanager
async def running(parts: Parts) -> AsyncIterator[None]:
    """From start to end of the server."""
    parts.state["ready"] = True
    yield
    for close in reversed(parts.closing):
        close()
