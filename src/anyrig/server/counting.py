"""Every request is counted and timed, by its route: around everything else, refusals included."""

from __future__ import annotations

import time

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anyrig.server.figures import Figures
from anyrig.server.parts import Parts

OTHER = "other"
"""What no route of ours answers: the page's own files, wrong paths. Paths are never labels, or
anybody could fill the memory with them."""


class Counting:
    """Middleware that counts. A stream counts when it ends."""

    def __init__(self, app: ASGIApp, figures: Figures) -> None:
        self._app, self._figures = app, figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 101 if scope["type"] == "websocket" else 499  # nothing sent: the client left

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] in _STARTS:
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            route = getattr(scope.get("route"), "path", OTHER)
            method = str(scope.get("method", "WEBSOCKET"))
            method = method if method in _METHODS else OTHER
            self._figures.requests.labels(route, method, str(status)).inc()
            self._figures.seconds.labels(route).observe(time.perf_counter() - begun)


_STARTS = ("http.response.start", "websocket.http.response.start")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "WEBSOCKET")


def counted(app: FastAPI, parts: Parts) -> None:
    """Count an app's requests; put on last, it stands outermost."""
    app.add_middleware(Counting, figures=parts.figures)
