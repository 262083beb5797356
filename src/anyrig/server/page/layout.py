"""The layout of every page: header with navigation, language and theme, content, footer.

A page is a function `async def build(page: PageContext) -> None`, called inside its content.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nicegui import Client, ui

from anyrig.server.page.api import ApiClient, ApiError
from anyrig.server.page.components import (
    ConfirmDialog,
    Handler,
    Tag,
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
    parts: tuple[str, ...] = ()
    """Ids of parts that the menu of a phone leads to, where they are far down."""


@dataclass(frozen=True)
class PageContext:
    """A page that a visitor has opened."""

    t: Translator
    api: ApiClient
    query: Mapping[str, str]
    content: Tag
    """What the page is built in; deleted when another page is opened."""
    dialog: ConfirmDialog

    def confirm(
        self, key: str, name: str, on_confirm: Handler, action: str = "jobs.delete"
    ) -> None:
        """Ask before something is lost: the texts are those of `key.ask` and `key.what`."""
        t, keep = self.t, self.t("jobs.keep")
        self.dialog.open(t(f"{key}.ask", name=name), t(f"{key}.what"), t(action), keep, on_confirm)

    def confirm_stop(self, kind: str, name: str, on_confirm: Handler) -> None:
        """Ask before a job of a kind is stopped."""
        t, keep = self.t, self.t("jobs.keep_going")
        title = t.find(f"jobs.stop.{kind}", t("jobs.stop.book")).format(name=name)
        self.dialog.open(title, t("jobs.stop.what"), t("jobs.cancel"), keep, on_confirm)

    @property
    def privacy_note(self) -> str:
        """Where text to speak is sent."""
        return self.t("frame.cluster" if self.api.uses_cluster else "frame.local")

    def set_query(self, name: str, value: str) -> None:
        """Put what is open into the address, so that a reload finds it again; or remove it."""
        if not self.content.is_deleted:
            ui.run_javascript(f"anyrig.setQuery({json.dumps(name)}, {json.dumps(value)})")

    def run_soon(self, load: Callable[[], Awaitable[Any]]) -> None:
        """Call it once the page is shown, so that slow data does not delay the page."""
        self._start_timer(0.0, catch_errors(load), once=True)

    def run_every(self, seconds: float, load: Callable[[], Awaitable[Any]]) -> None:
        """Call it repeatedly while the page is open."""

        async def load_quietly() -> None:
            try:
                await load()
            except ApiError:
                return  # the next call may succeed, and a toast for each failure would not help

        self._start_timer(seconds, load_quietly)

    def _start_timer(self, seconds: float, load: Handler, *, once: bool = False) -> None:
        if not self.content.is_deleted:
            with self.content:  # it ends with the page
                ui.timer(seconds, load, once=once)


class Layout:
    """The document of a visitor: header with navigation, language and theme, and footer.

    The page between them is replaced when another one is opened: the document stays, and with it
    the player of audiobooks.

    Args:
        client: of NiceGUI.
        api: called with the permissions of the visitor.
        pages: in the order of the menu.
        version: of style and scripts.
    """

    def __init__(
        self, client: Client, api: ApiClient, pages: Sequence[PageInfo], version: str
    ) -> None:
        self._client, request = client, client.request
        language = request.cookies.get(LANGUAGE_COOKIE, "")
        if language not in LANGUAGES:
            language = choose_language(request.headers.get("accept-language", ""))
        theme = request.cookies.get(THEME_COOKIE, "")
        if theme not in THEMES:
            theme = "auto"
        self.t, self._api = get_translator(language), api.for_visitor(request.scope)
        self._content: Tag | None = None
        _set_head(client, self.t, theme, version)
        with client.layout:
            header = self._build_header(pages, theme)
        header.move(target_index=0)
        self._build_footer()
        self._dialog = ConfirmDialog()

    def create_page(self, path: str, query: Mapping[str, str], title: str) -> PageContext:
        """An empty page, in place of the one that is shown."""
        if self._content is not None:
            self._content.delete()
            self._delete_orphans()
        with self._client:
            self._content = tag("div", id="content", tabindex="-1",
                                data_upload_bytes=self._api.max_upload_bytes)  # fmt: skip
        self._content.move(target_index=0)
        for other, entry in self._entries.items():
            entry.attributes(aria_current="page" if other == path else None)
        ui.page_title(f"{title} · anyrig")
        return PageContext(self.t, self._api, query, self._content, self._dialog)

    def _delete_orphans(self) -> None:
        """Delete what handlers of an earlier page have built after it was left."""
        client = self._client
        attached = {one.id for one in client.layout.descendants(include_self=True)}
        client.remove_elements([one for id, one in client.elements.items() if id not in attached])

    def _build_header(self, pages: Sequence[PageInfo], theme: str) -> Tag:
        t = self.t
        with tag("header", classes="top") as header:
            tag("a", t("frame.skip"), href="#content", classes="skip")
            with tag("div", classes="top-bar"):
                with tag("a", href="/", classes="brand", aria_label=t("frame.home")):
                    icon("mark")
                    tag("span", "anyrig")
                with tag("nav", id="pages", aria_label=t("frame.pages")):
                    self._entries = self._build_menu(pages)
                    _build_tools(t, theme)
                with tag("button", type="button", classes="button quiet menu-button",
                         id="menu-button", aria_expanded="false", aria_controls="pages",
                         aria_label=t("frame.menu")):  # fmt: skip
                    icon("menu")
        tag("div", id="menu-shade", aria_hidden="true")
        tag("div", id="toasts", role="status", aria_live="polite", data_close=t("frame.close"),
            data_unreachable=t("frame.unreachable"),
            data_unreachable_hint=t("frame.unreachable.hint"))  # fmt: skip
        return header

    def _build_menu(self, pages: Sequence[PageInfo]) -> dict[str, Tag]:
        """The link of each page, by its path."""
        t = self.t
        entries = {}
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
                    entries[info.path] = tag("a", t(f"page.{info.key}"), href=info.path)
                    if info.parts:
                        _build_parts(t, info)
            if self._api.is_signed_in:
                with tag("li", classes="leave"), tag("form", method="post", action="/logout"):
                    tag("button", t("frame.sign_out"), type="submit", classes="button quiet")
        return entries

    def _build_footer(self) -> None:
        t = self.t
        with tag("footer", classes="foot"):
            tag("p", t("frame.stays.cluster" if self._api.uses_cluster else "frame.stays"))
            with tag("p"):
                tag("a", t("frame.docs"), href="/docs", hreflang="en")


def _set_head(client: Client, t: Translator, theme: str, version: str) -> None:
    """Set language, theme, style and scripts of a visitor's document."""
    settings = copy.copy(client.page)  # the original is shared by all visitors
    settings.language = _HTML_LANGUAGES[t.language]
    settings.dark = {"light": False, "dark": True}.get(theme)
    client.page = settings
    ui.add_head_html(
        f"<script>document.documentElement.dataset.theme={json.dumps(theme)}</script>"
        f'<link rel="stylesheet" href="/page/theme.css?{version}">'
        f'<script src="/page/assets/frame.js?{version}"></script>' + build_listen_script(t, version)
    )


def _build_parts(t: Translator, info: PageInfo) -> None:
    with tag("ul", classes="parts"):
        for part in info.parts:
            with tag("li"):
                tag("a", t(f"{info.key}.{part}"), href=f"{info.path}#{part}")


def _build_tools(t: Translator, chosen: str) -> None:
    """Theme and language."""
    with tag("div", classes="tools"):
        with tag("div", classes="themes", role="group", aria_label=t("frame.theme")):
            for theme in THEMES:
                title = t(f"frame.theme.{theme}")
                with tag("button", type="button", data_theme_choice=theme, aria_label=title,
                         title=title, aria_pressed=str(theme == chosen).lower()):  # fmt: skip
                    icon(_THEME_ICONS[theme])
        tag("label", t("frame.language"), for_="language", classes="only-read")
        with tag("select", id="language"):
            for code, name in LANGUAGES.items():
                tag("option", name, value=code, selected=code == t.language, lang=code)
