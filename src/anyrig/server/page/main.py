"""Adds the page to the app: NiceGUI answers the requests that no route of the app answers."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from nicegui import Client, core, ui
from nicegui.events import GenericEventArguments
from nicegui.storage import Storage
from pydantic import BaseModel, ConfigDict
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Receive, Scope, Send

from anyrig.server.errors import problem_response
from anyrig.server.page import reader, theme
from anyrig.server.page.api import ApiClient, ApiError
from anyrig.server.page.components import catch_errors, error_box, heading, link
from anyrig.server.page.layout import Layout, PageContext, PageInfo
from anyrig.server.page.rig import show_machine_line
from anyrig.server.page.translations import LANGUAGE_COOKIE
from anyrig.server.state import ServerState

PAGES = (
    PageInfo("/speak", "speak", "anyrig.server.page.speak"),
    PageInfo("/books", "books", "anyrig.server.page.books"),
    PageInfo("/documents", "documents", "anyrig.server.page.documents", ("files", "index")),
    PageInfo("/training", "training", "anyrig.server.page.training"),
    PageInfo("/jobs", "jobs", "anyrig.server.page.jobs"),
    PageInfo("/rig", "rig", "anyrig.server.page.rig"),
    PageInfo("/cluster", "cluster", "anyrig.server.page.cluster"),
)
_READER = PageInfo(reader.PATH, "read", "anyrig.server.page.reader")
"""It is reached from a hit, not from the menu."""
_PAGES_BY_PATH = {"/": PAGES[0], **{page.path: page for page in (*PAGES, _READER)}}
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
    for path in _PAGES_BY_PATH:
        _add_page(path, api)


class _BrowserRoute(BaseRoute):
    """A browser that opens /jobs gets the page, a program the list."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            return Match.NONE, {}
        accept = dict(scope["headers"]).get(b"accept", b"")
        is_page = scope["path"] in _PAGES_BY_PATH
        return (Match.FULL if is_page and b"text/html" in accept else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await core.app(scope, receive, send)


def _is_nicegui(route: BaseRoute) -> bool:
    return isinstance(route, Mount) and route.app is core.app


class Visit:
    """A document that a visitor has opened, with the page in it.

    A link to another page replaces the page only, so that sound plays on. NiceGUI's `sub_pages`
    would take every link of the document, also those that the API answers.
    """

    def __init__(self, client: Client, api: ApiClient) -> None:
        self.layout = Layout(client, api, PAGES, get_version())
        self._task: asyncio.Task[Any] | None = None
        ui.on("open_page", catch_errors(self._follow))

    async def open(self, path: str, query: Mapping[str, str]) -> None:
        info = _PAGES_BY_PATH[path]
        title = self.layout.t(f"page.{info.key}")
        page = self.layout.create_page(info.path, query, title)
        build: Callable[[PageContext], Awaitable[None]] = importlib.import_module(info.module).build
        with page.content:
            try:
                await build(page)
                if info is PAGES[0]:
                    show_machine_line(page).move(target_index=1)  # below the heading
            except ApiError as error:
                if error.status == 401:
                    ui.navigate.reload()  # the session has ended: to the login
                with error_box(error.title, error.hint, lang=error.lang):
                    link(page.t("frame.again"), path, classes="button plain")

    async def _follow(self, event: GenericEventArguments) -> None:
        """Open the page that a link of the document leads to."""
        if self._task is not None:
            self._task.cancel()  # the one before is not wanted any more
        self._task = asyncio.current_task()
        url = urlsplit(str(event.args))
        if url.path in _PAGES_BY_PATH:
            await self.open(url.path, dict(parse_qsl(url.query)))
            ui.run_javascript("anyrig.showPage()")


def _add_page(path: str, api: ApiClient) -> None:
    async def show(client: Client) -> None:
        await Visit(client, api).open(path, client.request.query_params)

    ui.page(path, response_timeout=_RESPONSE_TIMEOUT_S)(show)


def _create_not_found_handler(
    api: ApiClient,
) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return problem_response(404, "Not Found", "See /docs for the available routes.")
        with Client(ui.page(""), request=request) as client:
            layout = Visit(client, api).layout
            title = layout.t("frame.not_found")
            with layout.create_page("", {}, title).content:
                heading(title, layout.t("frame.not_found.hint"))
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
