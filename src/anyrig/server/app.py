"""The FastAPI app: routes, errors, security, the page, and what runs beside requests."""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
from anyio import to_thread
from fastapi import FastAPI

from anyrig.app.models import MemoryWatch
from anyrig.app.serve import PRELOADS
from anyrig.backends.memory import trim_heap
from anyrig.errors import AnyrigError, error_from_dict, render
from anyrig.server.errors import add_error_handlers, common_responses
from anyrig.server.jobs import run_queue
from anyrig.server.openapi import add_docs
from anyrig.server.security import add_security
from anyrig.server.state import ServerState
from anyrig.server.uploads import delete_unneeded_uploads
from anyrig.version import __version__

log = logging.getLogger(__name__)
SWEEP_S = 3.0
"""How often idle models are evicted, and metrics updated."""
_EXPIRY_START_S, _EXPIRY_INTERVAL_S = 60.0, 3600.0
_DAY_S = 86_400.0
_WARM = "This is a test."
ROUTES = ("speech", "captioned_speech", "voices", "voice_samples", "engines", "embeddings",
          "transcriptions", "models", "health", "metrics", "rig", "uploads", "jobs", "books",
          "documents", "runs", "cluster")  # fmt: skip


def create_app(server: ServerState, *, page: bool = True) -> FastAPI:
    """Build the app.

    Args:
        server: what it works with; closed by whoever opened it.
        page: whether to serve the web page too.
    """
    app = FastAPI(
        title="anyrig", version=__version__, lifespan=lambda app: run_background(server),
        summary="Speech, documents and training on whatever hardware you own.",
        docs_url=None, redoc_url=None, openapi_url=None, responses=common_responses(),
    )  # fmt: skip
    app.state.server = server
    add_error_handlers(app)
    for name in ROUTES:
        module = importlib.import_module(f"anyrig.server.routes.{name}")
        app.include_router(module.router(server))
    add_docs(app)
    add_security(app, server)
    if page:
        from anyrig.server.page.main import attach

        attach(app, server)
    return app


# -- beside requests -------------------------------------------------------------------------------


@asynccontextmanager
async def run_background(server: ServerState) -> AsyncIterator[None]:
    """From the start to the end of the server."""
    server.machine.start()
    if server.cluster is not None:
        server.cluster.start()
    server.models.find_low_memory = MemoryWatch(
        server.machine.snapshot, server.settings.memory_free_mb
    )
    server.is_ready = not server.preload
    with ExitStack() as stack:
        stack.enter_context(run_queue(server))
        tasks_to_run = (_sweep_models(server), _preload_all(server), _expire_uploads(server))
        tasks = [asyncio.create_task(one) for one in tasks_to_run]
        try:
            yield
        finally:
            server.is_ending = True
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
            await to_thread.run_sync(stack.pop_all().close, limiter=_own_thread())


def _own_thread() -> anyio.CapacityLimiter:
    """A thread of its own: the shared ones may all be waiting for a model."""
    return anyio.CapacityLimiter(1)


async def _sweep_models(server: ServerState) -> None:
    limiter = _own_thread()
    while True:
        await asyncio.sleep(SWEEP_S)
        try:
            await to_thread.run_sync(_evict_idle, server, limiter=limiter)
        except Exception:
            log.exception("cannot evict idle models")


def _evict_idle(server: ServerState) -> None:
    server.metrics.observe(server.models.loaded_models())
    if server.models.evict_idle():
        trim_heap()  # return its memory to the system


async def _expire_uploads(server: ServerState) -> None:
    """Delete old uploads every hour, for as long as the server runs."""
    if not server.settings.upload_days:
        return
    limiter = _own_thread()
    await asyncio.sleep(_EXPIRY_START_S)
    while True:
        try:
            await to_thread.run_sync(delete_expired_uploads, server, limiter=limiter)
        except Exception:
            log.exception("cannot delete expired uploads")
        await asyncio.sleep(_EXPIRY_INTERVAL_S)


def delete_expired_uploads(server: ServerState) -> list[str]:
    """Delete uploads that are too old and that no job and no index needs; returns their ids."""
    before = time.time() - server.settings.upload_days * _DAY_S
    old = server.uploads.list_unused(before)
    if not old:
        return []
    # An index that cannot be read is an error here: nobody knows what it needs, so all are kept.
    indexed = set(server.documents.submit("index_uploads", {}).result()["uploads"])
    used = set(old) - set(server.uploads.list_unused(before))  # in the meantime
    deleted = delete_unneeded_uploads(
        server, [one for one in old if one not in indexed and one not in used]
    )
    if deleted:
        log.info(
            "deleted %d uploads that were not used for %g days",
            len(deleted), server.settings.upload_days,
        )  # fmt: skip
    return deleted


# -- preloading ------------------------------------------------------------------------------------


async def _preload_all(server: ServerState) -> None:
    """Load and warm up what was named; then the server is ready."""
    limiter = _own_thread()
    for word in server.preload:
        try:
            await to_thread.run_sync(preload, server, word, limiter=limiter)
        except AnyrigError as error:
            problem, hint = (render(text, "http") for text in (error.message, error.hint))
            server.preload_error = f"{word} cannot be loaded: {problem}. {hint}"
        except Exception as error:
            log.exception("%s cannot be loaded", word)
            server.preload_error = f"{word} cannot be loaded: {type(error).__name__}"
        if server.preload_error:
            log.error("%s", server.preload_error)
            return
    loaded = [one.name for one in server.models.loaded_models()]
    server.preloaded = loaded if server.preload else []
    server.is_ready = True


def preload(server: ServerState, word: str) -> None:
    """Load a model by its word of `PRELOADS`, and use it once: first calls are slow."""
    loads: dict[str, Callable[[], object]] = {
        "speech": server.speech.load,
        "embeddings": lambda: [one.result() for one in server.embedding.submit([_WARM])],
        "documents": lambda: server.documents.submit("ready", {}).result(),
        "entities": lambda: _task(server, "entities", {}),
        "summarise": lambda: _task(server, "summarise", {}),
        "classify": lambda: _task(server, "classify", {"labels": ["bill", "poem"]}),
    }
    assert loads.keys() == set(PRELOADS)
    loads[word]()
    log.info("preloaded: %s", word)


def _task(server: ServerState, name: str, given: dict[str, Any]) -> None:
    """Run a task on a short text, as its route does."""
    (row,) = server.documents.submit(name, {**given, "texts": [_WARM]}).result()
    if "error" in row:
        raise error_from_dict(row["error"])
