"""The page on the app: NiceGUI answers what no route of the app answers."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Awaitable, Callable
from typing import Literal

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from nicegui import Client, core, ui
from nicegui.storage import Storage
from pydantic import BaseModel, ConfigDict
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Receive, Scope, Send

from anyrig.server.errors import problem_response
from anyrig.server.page import frame, pieces, theme, words
from anyrig.server.page.api import Api, Refused
from anyrig.server.page.frame import Page
from anyrig.server.state import ServerState

PAGES = (
    Page("/", "rig", "anyrig.server.page.rig"),
    Page("/speak", "speak", "anyrig.server.page.speak"),
    Page("/books", "books", "anyrig.server.page.books"),
    Page("/documents", "documents", "anyrig.server.page.documents"),
    Page("/training", "training", "anyrig.server.page.training"),
    Page("/jobs", "jobs", "anyrig.server.page.jobs"),
    Page("/cluster", "cluster", "anyrig.server.page.cluster"),
)
_YEAR_S = 365 * 24 * 3600
_SLOW_S = 20.0
"""A page may take so long on a machine that is busy."""


def attach(app: FastAPI, server: ServerState) -> None:
    """Put the page on the app.

    Nothing of a visitor is kept on the server: theme and language are two cookies, so NiceGUI's
    storage, which would make a file or a record for every visitor, stays off.
    """
    Storage.path = server.data_folder / "page"
    core.app.user_middleware.clear()  # it is one for the whole process; an earlier app set its own
    core.app.middleware_stack = None
    ui.run_with(
        app, title="anyrig", favicon=theme.ASSETS / "mark.svg", dark=None, tailwind=False,
        reconnect_timeout=30.0, show_welcome_message=False,
    )  # fmt: skip
    # Quasar's own bar over every request has no name for those who cannot see it.
    core.app.config.quasar_config["loadingBar"]["skipHijack"] = True
    app.router.routes[:] = [one for one in app.router.routes if not _is_nicegui(one)]
    app.router.routes.insert(0, _ForBrowsers())
    app.router.default = core.app  # only what no route of ours answers, not even with a 405
    _assets(app)
    api = Api(app, server)
    core.app.exception_handler(404)(_nothing_there(api))
    for page in PAGES:
        _serve(page, api)


class _ForBrowsers(BaseRoute):
    """A person who opens /jobs wants the page; a program wants the list."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return Match.NONE, {}
        accept = dict(scope["headers"]).get(b"accept", b"")
        known = any(scope["path"] == page.path for page in PAGES)
        return (Match.FULL if known and b"text/html" in accept else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await core.app(scope, receive, send)


def _is_nicegui(route: BaseRoute) -> bool:
    return isinstance(route, Mount) and route.app is core.app


def _serve(page: Page, api: Api) -> None:
    build: Callable[[frame.Here], Awaitable[None]] = importlib.import_module(page.module).build

    async def show(client: Client) -> None:
        here = frame.here(client, api, page.path)
        frame.dress(client, here, here.t(f"page.{page.key}"), version())
        with frame.framed(client, here, PAGES):
            try:
                await build(here)
            except Refused as refused:
                with pieces.trouble(refused.title, refused.hint, lang=refused.lang):
                    pieces.link(here.t("frame.again"), page.path, classes="button plain")

    ui.page(page.path, response_timeout=_SLOW_S)(show)


def _nothing_there(api: Api) -> Callable[[Request, Exception], Awaitable[Response]]:
    """A person is told where the pages are, a program gets the usual problem."""

    async def answer(request: Request, error: Exception) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return problem_response(404, "Not Found", "See /docs for what there is.")
        with Client(ui.page(""), request=request) as client:
            here = frame.here(client, api, "")
            frame.dress(client, here, here.t("frame.nothing_here"), version())
            with frame.framed(client, here, PAGES):
                pieces.heading(here.t("frame.nothing_here"), here.t("frame.nothing_here.hint"))
        return client.build_response(request, 404)

    return answer


class Preferences(BaseModel):
    """What a person chose for this browser."""

    model_config = ConfigDict(extra="forbid")
    theme: Literal["auto", "light", "dark"] | None = None
    language: Literal["en", "es", "fr"] | None = None


def _assets(app: FastAPI) -> None:
    sheet = theme.css()

    async def styles() -> Response:
        kept = {"Cache-Control": f"public, max-age={_YEAR_S}, immutable"}
        return Response(sheet, media_type="text/css", headers=kept)

    async def prefer(preferences: Preferences, request: Request) -> Response:
        response = Response(status_code=204)
        wanted = {
            theme.THEME_COOKIE: preferences.theme,
            words.LANGUAGE_COOKIE: preferences.language,
        }
        for name, value in wanted.items():
            if value is not None:
                response.set_cookie(
                    name, value, max_age=_YEAR_S, httponly=True, samesite="strict",
                    secure=request.url.scheme == "https",
                )  # fmt: skip
        return response

    app.add_api_route("/page/theme.css", styles, include_in_schema=False)
    app.add_api_route(
        "/page/preferences", prefer, methods=["POST"], status_code=204, include_in_schema=False
    )
    app.mount("/page/assets", StaticFiles(directory=theme.ASSETS), name="assets")


def version() -> str:
    """Changes with the looks, so that a browser may keep them for good."""
    sheet = theme.css() + (theme.ASSETS / "frame.js").read_text(encoding="utf-8")
    return hashlib.sha256(sheet.encode()).hexdigest()[:12]
