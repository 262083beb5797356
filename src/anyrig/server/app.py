"""The app: guards in front, routes, the page, and what starts and ends with it."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from anyrig.server import describe, problems
from anyrig.server.parts import Parts
from anyrig.version import __version__

ROUTES = ("speech", "embeddings", "transcriptions", "models", "health", "metrics", "rig", "uploads",
          "jobs", "books", "documents", "runs", "cluster")  # fmt: skip


def create_app(parts: Parts, *, page: bool = True) -> FastAPI:
    """Everything over HTTP.

    Args:
        parts: what does the work; closed by whoever made them.
        page: whether the page is there too.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        from anyrig.server.lifespan import run_background

        async with run_background(parts):
            yield

    app = FastAPI(
        title="anyrig", version=__version__, lifespan=lifespan,
        summary="Speech, documents and training on whatever hardware you own.",
        docs_url=None, redoc_url=None, openapi_url=None, responses=problems.everywhere(),
    )  # fmt: skip
    app.state.parts = parts
    problems.install(app)
    for name in ROUTES:
        module = importlib.import_module(f"anyrig.server.routes.{name}")
        router: APIRouter = module.router(parts)
        app.include_router(router)
    describe.install(app)
    from anyrig.server.guard import guarded

    guarded(app, parts)
    if page:
        from anyrig.server.page.main import attach

        attach(app, parts)
    return app
