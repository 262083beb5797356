"""The frame around every page: navigation, language, theme, and where passing words appear.

A page is a function `async def build(here: Here) -> None`; it is called inside the frame.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from nicegui import Client, ui

from anyrig.server.page import pieces
from anyrig.server.page.api import Api, Refused
from anyrig.server.page.pieces import icon, tag
from anyrig.server.page.theme import THEME_COOKIE, THEMES
from anyrig.server.page.words import LANGUAGE_COOKIE, LANGUAGES, Words, asked_for, words

_HTML_LANGUAGES: dict[str, Literal["en-GB", "es", "fr"]] = {"en": "en-GB", "es": "es", "fr": "fr"}
_ICONS = {"auto": "auto", "light": "sun", "dark": "moon"}


@dataclass(frozen=True)
class Page:
    """One page: where it is, the key of its name, and the module whose `build` fills it."""

    path: str
    key: str
    module: str


@dataclass(frozen=True)
class Here:
    """What a page stands on."""

    t: Words
    api: Api
    theme: str
    path: str
    query: dict[str, str]

    @property
    def privacy(self) -> str:
        """Where a text goes that is to be spoken."""
        return self.t("frame.cluster" if self.api.spread else "frame.local")

    def soon(self, load: Callable[[], Awaitable[Any]]) -> None:
        """Do it once the page is on the screen: a page comes first, its figures follow."""
        ui.timer(0.0, pieces.safely(load), once=True)

    def every(self, seconds: float, load: Callable[[], Awaitable[Any]]) -> ui.timer:
        """Do it now and again while the page is open; what is refused meanwhile is left out."""

        async def quietly() -> None:
            try:
                await load()
            except Refused:
                return  # the next one may be answered, and a page full of toasts helps nobody

        return ui.timer(seconds, quietly)


def here(client: Client, api: Api, path: str) -> Here:
    """From what the browser sent."""
    request = client.request
    language = request.cookies.get(LANGUAGE_COOKIE, "")
    if language not in LANGUAGES:
        language = asked_for(request.headers.get("accept-language", ""))
    theme = request.cookies.get(THEME_COOKIE, "")
    if theme not in THEMES:
        theme = "auto"
    mine = api.of(request.scope)
    return Here(words(language), mine, theme, path, dict(request.query_params))


def dress(client: Client, here: Here, title: str, version: str) -> None:
    """Give this visitor's copy of the page its language, theme and title."""
    page = copy.copy(client.page)  # the page itself is shared by all visitors
    page.language = _HTML_LANGUAGES[here.t.language]
    page.dark = {"light": False, "dark": True}.get(here.theme)
    client.page = page
    client.title = f"{title} · anyrig"
    ui.add_head_html(
        f"<script>document.documentElement.dataset.theme={json.dumps(here.theme)}</script>"
        f'<link rel="stylesheet" href="/page/theme.css?{version}">'
        f'<script src="/page/assets/frame.js?{version}"></script>'
    )


@contextmanager
def framed(client: Client, here: Here, pages: Sequence[Page]) -> Iterator[None]:
    """The frame; what is built inside is the page's content."""
    t = here.t
    with client.layout:
        with tag("header", classes="top") as header:
            tag("a", t("frame.skip"), href="#content", classes="skip")
            with tag("div", classes="top-bar"):
                with tag("a", href="/", classes="brand", aria_label=t("frame.home")):
                    icon("mark")
                    tag("span", "anyrig")
                _navigation(here, pages)
                _tools(here)
                with tag("button", type="button", classes="button quiet menu-button",
                         id="menu-button", aria_expanded="false", aria_controls="pages",
                         aria_label=t("frame.menu")):  # fmt: skip
                    icon("menu")
        tag("div", id="menu-shade", aria_hidden="true")
        tag("div", id="toasts", role="status", aria_live="polite", data_close=t("frame.close"),
            data_unreachable=t("frame.unreachable"),
            data_unreachable_hint=t("frame.unreachable.hint"))  # fmt: skip
    header.move(target_index=0)
    with tag("div", id="content", tabindex="-1"):
        yield
    with tag("footer", classes="foot"):
        tag("p", t("frame.stays.cluster" if here.api.spread else "frame.stays"))
        with tag("p"):
            tag("a", t("frame.docs"), href="/docs", hreflang="en")


def _navigation(here: Here, pages: Sequence[Page]) -> None:
    t = here.t
    with tag("nav", id="pages", aria_label=t("frame.pages")):
        with tag("div", classes="menu-head"):
            with tag("p", classes="brand"):
                icon("mark")
                tag("span", t("frame.menu"))
            with tag("button", type="button", classes="button quiet", id="menu-close",
                     aria_label=t("frame.menu.close")):  # fmt: skip
                icon("close")
        with tag("ul"):
            for page in pages:
                with tag("li"):
                    current = "page" if page.path == here.path else None
                    tag("a", t(f"page.{page.key}"), href=page.path, aria_current=current)
            if here.api.locked:
                with tag("li", classes="leave"), tag("form", method="post", action="/logout"):
                    tag("button", t("frame.sign_out"), type="submit", classes="button quiet")


def _tools(here: Here) -> None:
    t = here.t
    with tag("div", classes="tools"):
        with tag("div", classes="themes", role="group", aria_label=t("frame.theme")):
            for name in THEMES:
                said = t(f"frame.theme.{name}")
                with tag("button", type="button", data_theme_choice=name, aria_label=said,
                         title=said, aria_pressed=str(name == here.theme).lower()):  # fmt: skip
                    icon(_ICONS[name])
        tag("label", t("frame.language"), for_="language", classes="only-read")
        with tag("select", id="language"):
            for code, name in LANGUAGES.items():
                chosen = code == here.t.language
                tag("option", name, value=code, selected=chosen, lang=code)
