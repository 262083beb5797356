"""What runs beside requests: preloading, unloading of idle models, figures, the queue of jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
from anyio import to_thread
from pydantic import BaseModel

from anyrig.app.serve import PRELOADS
from anyrig.backends.memory import trim_heap
from anyrig.errors import AnyrigError, error_from_dict
from anyrig.server.expiry import expiring
from anyrig.server.room import Watch
from anyrig.server.schemas.documents import ClassifyOptions, EntitiesOptions, SummariseOptions
from anyrig.server.state import ServerState
from anyrig.server.working import working

log = logging.getLogger(__name__)
SWEEP_S = 3.0
"""How often idle models are looked for, and figures counted."""
_WARM = "This is a test."


@asynccontextmanager
async def running(server: ServerState) -> AsyncIterator[None]:
    """From start to end of the server."""
    server.machine.start()
    if server.cluster is not None:
        server.cluster.start()
    server.models.short = Watch(server.machine.snapshot, server.settings.memory_free_mb)
    server.is_ready = not server.preload
    with ExitStack() as stack:
        stack.enter_context(working(server))
        beside = (_sweeping(server), _preloading(server), expiring(server))
        tasks = [asyncio.create_task(one) for one in beside]
        try:
            yield
        finally:
            server.is_ending = True
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
            await to_thread.run_sync(stack.pop_all().close, limiter=_alone())


def _alone() -> anyio.CapacityLimiter:
    """A thread of its own: those that are shared may all wait for a model."""
    return anyio.CapacityLimiter(1)


async def _sweeping(server: ServerState) -> None:
    limiter = _alone()
    while True:
        await asyncio.sleep(SWEEP_S)
        try:
            await to_thread.run_sync(_sweep, server, limiter=limiter)
        except Exception:
            log.exception("a sweep failed")


def _sweep(server: ServerState) -> None:
    server.metrics.observe(server.models.kept())
    if server.models.sweep():
        trim_heap()  # what a model held here shall be free for others


# -- preloading ------------------------------------------------------------------------------------


async def _preloading(server: ServerState) -> None:
    """Load and warm what was named; the server is ready once all of it is."""
    limiter = _alone()
    for word in server.preload:
        try:
            await to_thread.run_sync(preload, server, word, limiter=limiter)
        except AnyrigError as error:
            server.preload_error = f"{word} could not be loaded: {error.message}. {error.hint}"
        except Exception as error:
            log.exception("%s could not be loaded", word)
            server.preload_error = f"{word} could not be loaded: {type(error).__name__}"
        if server.preload_error:
            log.error("%s", server.preload_error)
            return
    server.preloaded = server.models.loaded() if server.preload else []
    server.is_ready = True


def preload(server: ServerState, word: str) -> None:
    """Load what a word stands for, and let it do something once: first calls are slow."""
    loads: dict[str, Callable[[], object]] = {
        "speech": server.speech.load,
        "embeddings": lambda: [one.result() for one in server.embedding.submit([_WARM])],
        "documents": lambda: server.documents.submit("ready", {}).result(),
        "entities": lambda: _task(server, "entities", EntitiesOptions, {}),
        "summarise": lambda: _task(server, "summarise", SummariseOptions, {}),
        "classify": lambda: _task(
            server, "classify", ClassifyOptions, {"labels": ["bill", "poem"]}
        ),
    }
    assert loads.keys() == set(PRELOADS)
    loads[word]()
    log.info("preloaded: %s", word)


def _task(server: ServerState, name: str, options: type[BaseModel], given: dict[str, Any]) -> None:
    """A task on a short text, as its route would have it done."""
    asked = options.model_validate(given).model_dump()
    arguments = {**asked, "sources": [{"name": "a test", "text": _WARM}]}
    (row,) = server.documents.submit(name, arguments).result()
    if "error" in row:
        raise error_from_dict(row["error"])
