"""The layout of every page: header with navigation, language and theme, content, footer.

A page is a function `async def build(page: PageContext) -> None`, called inside the layout.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from nicegui import Client, ui

from anyrig.server.page.api import ApiClient, ApiError
from anyrig.server.page.components import (
    ConfirmDialog,
    Handler,
    build_listen_script,
    catch_errors,
    icon,
    tag,
)
from anyrig.server.page.theme import THEME_COOKIE, THEMES
from anyrig.server.page.translations import (
    LANGUAGE_COOKIE,
    LANGUAGES,
    Translator,
    choose_language,
    get_translator,
)

_HTML_LANGUAGES: dict[str, Literal["en-GB", "es", "fr"]] = {"en": "en-GB", "es": "es", "fr": "fr"}
_THEME_ICONS = {"auto": "auto", "light": "sun", "dark": "moon"}


@dataclass(frozen=True)
class PageInfo:
    """A page: its path, the key of its title, and the module with its `build`."""

    path: str
    key: str
    module: str


@dataclass
class PageContext:
    """A page that a visitor has opened."""

    t: Translator
    api: ApiClient
    theme: str
    path: str
    query: dict[str, str]
    dialog: ConfirmDialog | None = None
    """Built with the layout."""

    def confirm(
        self, key: str, name: str, on_confirm: Handler, action: str = "jobs.delete"
    ) -> None:
        """Ask before something is lost: the texts are those of `key.ask` and `key.what`."""
        t = self.t
        self._ask(t(f"{key}.ask", name=name), t(f"{key}.what"), t(action), "jobs.keep", on_confirm)

    def confirm_stop(self, kind: str, name: str, on_confirm: Handler) -> None:
        """Ask before a job of a kind is stopped."""
        t = self.t
        title = t.find(f"jobs.stop.{kind}", t("jobs.stop.book")).format(name=name)
        self._ask(title, t("jobs.stop.what"), t("jobs.cancel"), "jobs.keep_going", on_confirm)

    def _ask(self, title: str, text: str, action: str, keep: str, on_confirm: Handler) -> None:
        assert self.dialog is not None
        self.dialog.open(title, text, action, self.t(keep), on_confirm)

    @property
    def privacy_note(self) -> str:
        """Where text to speak is sent."""
        return self.t("frame.cluster" if self.api.uses_cluster else "frame.local")

    def run_soon(self, load: Callable[[], Awaitable[Any]]) -> None:
        """Call it once the page is shown, so that slow data does not delay the page."""
        ui.timer(0.0, catch_errors(load), once=True)

    def run_every(self, seconds: float, load: Callable[[], Awaitable[Any]]) -> None:
        """Call it repeatedly while the page is open."""

        async def load_quietly() -> None:
            try:
                await load()
            except ApiError:
                return  # the next call may succeed, and a toast for each failure would not help

        ui.timer(seconds, load_quietly)


def create_context(client: Client, api: ApiClient, path: str) -> PageContext:
    request = client.request
    language = request.cookies.get(LANGUAGE_COOKIE, "")
    if language not in LANGUAGES:
        language = choose_language(request.headers.get("accept-language", ""))
    theme = request.cookies.get(THEME_COOKIE, "")
    if theme not in THEMES:
        theme = "auto"
    query = dict(request.query_params)
    return PageContext(get_translator(language), api.for_visitor(request.scope), theme, path, query)


def set_head(client: Client, page: PageContext, title: str, version: str) -> None:
    """Set language, theme, title, style and script of a visitor's page."""
    settings = copy.copy(client.page)  # the original is shared by all visitors
    settings.language = _HTML_LANGUAGES[page.t.language]
    settings.dark = {"light": False, "dark": True}.get(page.theme)
    client.page = settings
    client.title = f"{title} · anyrig"
    ui.add_head_html(
        f"<script>document.documentElement.dataset.theme={json.dumps(page.theme)}</script>"
        f'<link rel="stylesheet" href="/page/theme.css?{version}">'
        f'<script src="/page/assets/frame.js?{version}"></script>'
        + build_listen_script(page.t, version)
    )


@contextmanager
def layout(client: Client, page: PageContext, pages: Sequence[PageInfo]) -> Iterator[None]:
    """Header and footer around the content that is built inside."""
    t = page.t
    with client.layout:
        with tag("header", classes="top") as header:
            tag("a", t("frame.skip"), href="#content", classes="skip")
            with tag("div", classes="top-bar"):
                with tag("a", href="/", classes="brand", aria_label=t("frame.home")):
                    icon("mark")
                    tag("span", "anyrig")
                _build_navigation(page, pages)
                with tag("button", type="button", classes="button quiet menu-button",
                         id="menu-button", aria_expanded="false", aria_controls="pages",
                         aria_label=t("frame.menu")):  # fmt: skip
                    icon("menu")
        tag("div", id="menu-shade", aria_hidden="true")
        tag("div", id="toasts", role="status", aria_live="polite", data_close=t("frame.close"),
            data_unreachable=t("frame.unreachable"),
            data_unreachable_hint=t("frame.unreachable.hint"))  # fmt: skip
    header.move(target_index=0)
    with tag("div", id="content", tabindex="-1", data_upload_bytes=page.api.max_upload_bytes):
        yield
    with tag("footer", classes="foot"):
        tag("p", t("frame.stays.cluster" if page.api.uses_cluster else "frame.stays"))
        with tag("p"):
            tag("a", t("frame.docs"), href="/docs", hreflang="en")
    page.dialog = ConfirmDialog()


def _build_navigation(page: PageContext, pages: Sequence[PageInfo]) -> None:
    t = page.t
    with tag("nav", id="pages", aria_label=t("frame.pages")):
        with tag("div", classes="menu-head"):
            with tag("p", classes="brand"):
                icon("mark")
                tag("span", t("frame.menu"))
            with tag("button", type="button", classes="button quiet", id="menu-close",
                     aria_label=t("frame.menu.close")):  # fmt: skip
                icon("close")
        with tag("ul"):
            for info in pages:
                with tag("li"):
                    current = "page" if info.path == page.path else None
                    tag("a", t(f"page.{info.key}"), href=info.path, aria_current=current)
            if page.api.is_signed_in:
                with tag("li", classes="leave"), tag("form", method="post", action="/logout"):
                    tag("button", t("frame.sign_out"), type="submit", classes="button quiet")
        _build_tools(page)


def _build_tools(page: PageContext) -> None:
    t = page.t
    with tag("div", classes="tools"):
        with tag("div", classes="themes", role="group", aria_label=t("frame.theme")):
            for theme in THEMES:
                title = t(f"frame.theme.{theme}")
                with tag("button", type="button", data_theme_choice=theme, aria_label=title,
                         title=title, aria_pressed=str(theme == page.theme).lower()):  # fmt: skip
                    icon(_THEME_ICONS[theme])
        tag("label", t("frame.language"), for_="language", classes="only-read")
        with tag("select", id="language"):
            for code, name in LANGUAGES.items():
                tag("option", name, value=code, selected=code == t.language, lang=code)
