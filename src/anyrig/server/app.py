"""The app: guards in front, routes, the page, and what starts and ends with it."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from anyrig.server import errors, openapi
from anyrig.server.state import ServerState
from anyrig.version import __version__

ROUTES = ("speech", "embeddings", "transcriptions", "models", "health", "metrics", "rig", "uploads",
          "jobs", "books", "documents", "runs", "cluster")  # fmt: skip


def create_app(server: ServerState, *, page: bool = True) -> FastAPI:
    """Everything over HTTP.

    Args:
        server: what does the work; closed by whoever made them.
        page: whether the page is there too.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        from anyrig.server.lifespan import run_background

        async with run_background(server):
            yield

    app = FastAPI(
        title="anyrig", version=__version__, lifespan=lifespan,
        summary="Speech, documents and training on whatever hardware you own.",
        docs_url=None, redoc_url=None, openapi_url=None, responses=errors.everywhere(),
    )  # fmt: skip
    app.state.server = server
    errors.add_error_handlers(app)
    for name in ROUTES:
        module = importlib.import_module(f"anyrig.server.routes.{name}")
        router: APIRouter = module.router(server)
        app.include_router(router)
    openapi.install(app)
    from anyrig.server.security import add_security

    add_security(app, server)
    if page:
        from anyrig.server.page.main import attach

        attach(app, server)
    return app
