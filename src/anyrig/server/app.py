"""The FastAPI app: routes, errors, security, and the page."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from anyrig.server.errors import add_error_handlers, common_responses
from anyrig.server.openapi import add_docs
from anyrig.server.security import add_security
from anyrig.server.state import ServerState
from anyrig.version import __version__

ROUTES = ("speech", "embeddings", "transcriptions", "models", "health", "metrics", "rig", "uploads",
          "jobs", "books", "documents", "runs", "cluster")  # fmt: skip


def create_app(server: ServerState, *, page: bool = True) -> FastAPI:
    """Build the app.

    Args:
        server: what it works with; closed by whoever opened it.
        page: whether to serve the web page too.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        from anyrig.server.lifespan import run_background

        async with run_background(server):
            yield

    app = FastAPI(
        title="anyrig", version=__version__, lifespan=lifespan,
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
