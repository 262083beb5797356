"""Adds the page to the app: NiceGUI answers the requests that no route of the app answers."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Literal

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from nicegui import Client, core, ui
from nicegui.storage import Storage
from pydantic import BaseModel, ConfigDict
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Receive, Scope, Send

from anyrig.server.errors import problem_response
from anyrig.server.page import theme
from anyrig.server.page.api import ApiClient, ApiError
from anyrig.server.page.components import error_box, heading, link
from anyrig.server.page.layout import PageContext, PageInfo, create_context, layout, set_head
from anyrig.server.page.rig import show_machine_line
from anyrig.server.page.translations import LANGUAGE_COOKIE
from anyrig.server.state import ServerState

PAGES = (
    PageInfo("/speak", "speak", "anyrig.server.page.speak"),
    PageInfo("/books", "books", "anyrig.server.page.books"),
    PageInfo("/documents", "documents", "anyrig.server.page.documents"),
    PageInfo("/training", "training", "anyrig.server.page.training"),
    PageInfo("/jobs", "jobs", "anyrig.server.page.jobs"),
    PageInfo("/rig", "rig", "anyrig.server.page.rig"),
    PageInfo("/cluster", "cluster", "anyrig.server.page.cluster"),
)
START_PATH = "/"
"""Shows the first page, with a line on the machine."""
_YEAR_S = 365 * 24 * 3600
_RESPONSE_TIMEOUT_S = 20.0
"""On a busy machine a page can take several seconds."""


class PagePreferences(BaseModel):
    """What a person chose for this browser."""

    model_config = ConfigDict(extra="forbid")
    theme: Literal["auto", "light", "dark"] | None = None
    language: Literal["en", "es", "fr"] | None = None


def attach(app: FastAPI, server: ServerState) -> None:
    """Add the page to the app.

    The server stores nothing about visitors: theme and language are cookies, and NiceGUI's storage,
    which would keep a file or record for each, is not used.
    """
    Storage.path = server.data_folder / "page"
    core.app.user_middleware.clear()  # NiceGUI has one app per process: drop an earlier one's
    core.app.middleware_stack = None
    ui.run_with(
        app, title="anyrig", favicon=theme.ASSETS / "mark.svg", dark=None, tailwind=False,
        reconnect_timeout=30.0, show_welcome_message=False,
    )  # fmt: skip
    # Quasar's loading bar over every request has no accessible name.
    core.app.config.quasar_config["loadingBar"]["skipHijack"] = True
    app.router.routes[:] = [one for one in app.router.routes if not _is_nicegui(one)]
    app.router.routes.insert(0, _BrowserRoute())
    app.router.default = core.app  # for requests that no route matches, not even with a 405
    _add_assets(app)
    api = ApiClient(app, server)
    core.app.exception_handler(404)(_create_not_found_handler(api))
    for info in PAGES:
        _add_page(info, api)
    _add_page(PAGES[0], api, START_PATH)


class _BrowserRoute(BaseRoute):
    """A browser that opens /jobs gets the page, a program the list."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return Match.NONE, {}
        accept = dict(scope["headers"]).get(b"accept", b"")
        is_page = scope["path"] in (START_PATH, *(page.path for page in PAGES))
        return (Match.FULL if is_page and b"text/html" in accept else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await core.app(scope, receive, send)


def _is_nicegui(route: BaseRoute) -> bool:
    return isinstance(route, Mount) and route.app is core.app


def _add_page(info: PageInfo, api: ApiClient, path: str = "") -> None:
    """Show a page at its path, or at another one."""
    build: Callable[[PageContext], Awaitable[None]] = importlib.import_module(info.module).build

    async def show(client: Client) -> None:
        page = create_context(client, api, info.path)
        set_head(client, page, page.t(f"page.{info.key}"), get_version())
        with layout(client, page, PAGES):
            line = show_machine_line(page) if info is PAGES[0] else None
            try:
                await build(page)
                if line is not None:
                    line.move(target_index=1)  # below the heading
            except ApiError as error:
                with error_box(error.title, error.hint, lang=error.lang):
                    link(page.t("frame.again"), info.path, classes="button plain")

    ui.page(path or info.path, response_timeout=_RESPONSE_TIMEOUT_S)(show)


def _create_not_found_handler(
    api: ApiClient,
) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return problem_response(404, "Not Found", "See /docs for the available routes.")
        with Client(ui.page(""), request=request) as client:
            page = create_context(client, api, "")
            title = page.t("frame.not_found")
            set_head(client, page, title, get_version())
            with layout(client, page, PAGES):
                heading(title, page.t("frame.not_found.hint"))
        return client.build_response(request, 404)

    return answer


def _add_assets(app: FastAPI) -> None:
    sheet = theme.css()

    async def send_styles() -> Response:
        headers = {"Cache-Control": f"public, max-age={_YEAR_S}, immutable"}
        return Response(sheet, media_type="text/css", headers=headers)

    async def save_preferences(preferences: PagePreferences, request: Request) -> Response:
        response = Response(status_code=204)
        cookies = {
            theme.THEME_COOKIE: preferences.theme,
            LANGUAGE_COOKIE: preferences.language,
        }
        for name, value in cookies.items():
            if value is not None:
                response.set_cookie(
                    name, value, max_age=_YEAR_S, httponly=True, samesite="strict",
                    secure=request.url.scheme == "https",
                )  # fmt: skip
        return response

    app.add_api_route("/page/theme.css", send_styles, include_in_schema=False)
    app.add_api_route(
        "/page/preferences", save_preferences, methods=["POST"], status_code=204,
        include_in_schema=False,
    )  # fmt: skip
    app.mount("/page/assets", StaticFiles(directory=theme.ASSETS), name="assets")


@lru_cache
def get_version() -> str:
    """Changes with style and scripts, so that browsers may cache them forever."""
    scripts = sorted(theme.ASSETS.glob("*.js"))
    sheet = theme.css() + "".join(one.read_text(encoding="utf-8") for one in scripts)
    return hashlib.sha256(sheet.encode()).hexdigest()[:12]
