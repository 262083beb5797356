"""What runs beside requests: preloading, eviction of idle models, jobs, expired uploads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
from anyio import to_thread

from anyrig.app.models import MemoryWatch
from anyrig.backends.memory import trim_heap
from anyrig.errors import AnyrigError, error_from_dict
from anyrig.server.holding import unneeded
from anyrig.server.jobs import run_queue
from anyrig.server.parts import PRELOADS, Parts

log = logging.getLogger(__name__)
SWEEP_S = 3.0
"""How often idle models are evicted, and metrics updated."""
_EXPIRY_START_S, _EXPIRY_INTERVAL_S = 60.0, 3600.0
_DAY_S = 86_400.0
_WARM = "This is a test."


@asynccontextmanager
async def run_background(parts: Parts) -> AsyncIterator[None]:
    """From the start to the end of the server."""
    parts.rig.start()
    if parts.cluster is not None:
        parts.cluster.start()
    parts.models.find_low_memory = MemoryWatch(parts.rig.snapshot, parts.settings.memory_free_mb)
    parts.state["ready"] = not parts.preload
    with ExitStack() as stack:
        stack.enter_context(run_queue(parts))
        tasks_to_run = (_sweep_models(parts), _preload_all(parts), _expire_uploads(parts))
        tasks = [asyncio.create_task(one) for one in tasks_to_run]
        try:
            yield
        finally:
            parts.state["ending"] = True
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
            await to_thread.run_sync(_build_close(parts, stack.pop_all()), limiter=_own_thread())


def _build_close(parts: Parts, stack: ExitStack) -> Callable[[], None]:
    """The queue first: what it runs may use the rest."""

    def close() -> None:
        stack.close()
        for one in reversed(parts.closing):
            try:
                one()
            except Exception:
                log.exception("cannot close a part of the server")

    return close


def _own_thread() -> anyio.CapacityLimiter:
    """A thread of its own: the shared ones may all be waiting for a model."""
    return anyio.CapacityLimiter(1)


async def _sweep_models(parts: Parts) -> None:
    limiter = _own_thread()
    while True:
        await asyncio.sleep(SWEEP_S)
        try:
            await to_thread.run_sync(_evict_idle, parts, limiter=limiter)
        except Exception:
            log.exception("cannot evict idle models")


def _evict_idle(parts: Parts) -> None:
    parts.figures.observe(parts.models.loaded_models())
    if parts.models.evict_idle():
        trim_heap()  # return its memory to the system


async def _expire_uploads(parts: Parts) -> None:
    """Delete old uploads every hour, for as long as the server runs."""
    if not parts.settings.upload_days:
        return
    limiter = _own_thread()
    await asyncio.sleep(_EXPIRY_START_S)
    while True:
        try:
            await to_thread.run_sync(delete_expired_uploads, parts, limiter=limiter)
        except Exception:
            log.exception("cannot delete expired uploads")
        await asyncio.sleep(_EXPIRY_INTERVAL_S)


def delete_expired_uploads(parts: Parts) -> list[str]:
    """Delete uploads that are too old and that no job and no index needs; returns their ids."""
    before = time.time() - parts.settings.upload_days * _DAY_S
    old = parts.uploads.unused(before)
    if not old:
        return []
    # An index that cannot be read is an error here: nobody knows what it needs, so all are kept.
    indexed = set(parts.clerks.submit("index_uploads", {}).result()["uploads"])
    used = set(old) - set(parts.uploads.unused(before))  # in the meantime
    deleted = unneeded(parts, [one for one in old if one not in indexed and one not in used])
    if deleted:
        log.info(
            "deleted %d uploads that were not used for %g days",
            len(deleted), parts.settings.upload_days,
        )  # fmt: skip
    return deleted


# -- preloading ------------------------------------------------------------------------------------


async def _preload_all(parts: Parts) -> None:
    """Load and warm up what was named; then the server is ready."""
    limiter = _own_thread()
    for word in parts.preload:
        try:
            await to_thread.run_sync(preload, parts, word, limiter=limiter)
        except AnyrigError as error:
            parts.state["error"] = f"{word} cannot be loaded: {error.message}. {error.hint}"
        except Exception as error:
            log.exception("%s cannot be loaded", word)
            parts.state["error"] = f"{word} cannot be loaded: {type(error).__name__}"
        if parts.state.get("error"):
            log.error("%s", parts.state["error"])
            return
    loaded = [one.name for one in parts.models.loaded_models()]
    parts.state["preloaded"] = loaded if parts.preload else []
    parts.state["ready"] = True


def preload(parts: Parts, word: str) -> None:
    """Load a model by its word of `PRELOADS`, and use it once: first calls are slow."""
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
    """Run a task on a short text, as its route does."""
    (row,) = parts.clerks.submit(name, {**given, "texts": [_WARM]}).result()
    if "error" in row:
        raise error_from_dict(row["error"])
