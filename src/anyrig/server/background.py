"""What runs beside requests: preloading, unloading of idle models, figures, the queue of jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
from anyio import to_thread

from anyrig.app.models import MemoryWatch
from anyrig.backends.memory import trim_heap
from anyrig.errors import AnyrigError, error_from_dict
from anyrig.server.expiry import expiring
from anyrig.server.jobs import run_queue
from anyrig.server.parts import PRELOADS, Parts

log = logging.getLogger(__name__)
SWEEP_S = 3.0
"""How often idle models are looked for, and figures counted."""
_WARM = "This is a test."


@asynccontextmanager
async def running(parts: Parts) -> AsyncIterator[None]:
    """From start to end of the server."""
    parts.rig.start()
    if parts.cluster is not None:
        parts.cluster.start()
    parts.models.find_low_memory = MemoryWatch(parts.rig.snapshot, parts.settings.memory_free_mb)
    parts.state["ready"] = not parts.preload
    with ExitStack() as stack:
        stack.enter_context(run_queue(parts))
        beside = (_sweeping(parts), _preloading(parts), expiring(parts))
        tasks = [asyncio.create_task(one) for one in beside]
        try:
            yield
        finally:
            parts.state["ending"] = True
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
            await to_thread.run_sync(_closing(parts, stack.pop_all()), limiter=_alone())


def _closing(parts: Parts, stack: ExitStack) -> Callable[[], None]:
    """The queue first: what it runs may use the rest."""

    def close() -> None:
        stack.close()
        for one in reversed(parts.closing):
            try:
                one()
            except Exception:
                log.exception("something did not close well")

    return close


def _alone() -> anyio.CapacityLimiter:
    """A thread of its own: those that are shared may all wait for a model."""
    return anyio.CapacityLimiter(1)


async def _sweeping(parts: Parts) -> None:
    limiter = _alone()
    while True:
        await asyncio.sleep(SWEEP_S)
        try:
            await to_thread.run_sync(_sweep, parts, limiter=limiter)
        except Exception:
            log.exception("a sweep failed")


def _sweep(parts: Parts) -> None:
    parts.figures.observe(parts.models.loaded_models())
    if parts.models.evict_idle():
        trim_heap()  # what a model held here shall be free for others


# -- preloading ------------------------------------------------------------------------------------


async def _preloading(parts: Parts) -> None:
    """Load and warm what was named; the server is ready once all of it is."""
    limiter = _alone()
    for word in parts.preload:
        try:
            await to_thread.run_sync(preload, parts, word, limiter=limiter)
        except AnyrigError as error:
            parts.state["error"] = f"{word} could not be loaded: {error.message}. {error.hint}"
        except Exception as error:
            log.exception("%s could not be loaded", word)
            parts.state["error"] = f"{word} could not be loaded: {type(error).__name__}"
        if parts.state.get("error"):
            log.error("%s", parts.state["error"])
            return
    loaded = [one.name for one in parts.models.loaded_models()]
    parts.state["preloaded"] = loaded if parts.preload else []
    parts.state["ready"] = True


def preload(parts: Parts, word: str) -> None:
    """Load what a word stands for, and let it do something once: first calls are slow."""
    loads: dict[str, Callable[[], object]] = {
        "speech": parts.speech.load,
        "embeddings": lambda: [one.result() for one in parts.embedding.submit([_WARM])],
        "documents": lambda: parts.clerks.submit("ready", {}).result(),
        "entities": lambda: _task(parts, "entities", {}),
        "summarise": lambda: _task(parts, "summarise", {}),
        "classify": lambda: _task(parts, "classify", {"labels": ["bill", "poem"]}),
    }
    assert loads.keys() == set(PRELOADS)
    loads[word]()
    log.info("preloaded: %s", word)


def _task(parts: Parts, name: str, given: dict[str, Any]) -> None:
    """A task on a short text, as its route would have it done."""
    (row,) = parts.clerks.submit(name, {**given, "texts": [_WARM]}).result()
    if "error" in row:
        raise error_from_dict(row["error"])
