"""Components of every page, as plain HTML elements for keyboards, screen readers and tests.

    with card(t("bench.title")):
        button(t("bench.run"), start, kind="primary")

An `ApiError` that a handler raises is shown as a toast.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments

from anyrig.server.page.api import ENGLISH, ApiError
from anyrig.server.page.icons import svg
from anyrig.server.page.translations import Translator, get_translator

log = logging.getLogger(__name__)
Handler = Callable[..., Any]
ButtonKind = Literal["plain", "primary", "quiet", "danger"]
Mood = Literal["plain", "good", "warn", "bad"]
_DROP_TEXTS = (
    "sending", "done", "failed", "unsupported", "no_folder", "empty_folder", "large_folder",
    "unreadable", "too_large", "choose_folder", "total", "refused", "damaged",
)  # fmt: skip
_UNSUPPORTED_KINDS = ("other", "zip")
_LISTEN_TEXTS = (
    "player", "chapters", "play", "pause", "previous", "next", "back", "forward", "seek",
    "position", "speed", "sleep", "sleep_off", "sleep_minutes", "sleep_chapter", "sleep_left",
    "close", "waiting", "finished", "failed", "not_ready", "untitled", "where", "preview_failed",
)  # fmt: skip
_LISTEN_ICONS = ("play", "pause", "previous", "next", "back", "forward", "jobs", "close", "book")


class Tag(TextElement):
    """Any HTML element."""

    def attributes(self, **attributes: object) -> Tag:
        """Set attributes: `aria_label` is aria-label; None or False removes one."""
        for name, value in attributes.items():
            name = name.rstrip("_").replace("_", "-")
            if value is None or value is False:
                self.props.pop(name, None)
            else:
                self.props[name] = "" if value is True else value
        self.update()
        return self


def tag(name: str, text: object = "", *, classes: str = "", **attributes: object) -> Tag:
    """An HTML element: `tag("a", "Jobs", href="/jobs")`; `with` puts others inside."""
    element = Tag(tag=name, text=str(text))
    if classes:
        element.classes(classes)
    return element.attributes(**attributes)


def icon(name: str) -> ui.html:
    """An icon that screen readers skip."""
    return ui.html(svg(name), sanitize=False, tag="span").classes("icon")


def heading(text: str, lead: str) -> None:
    """The page's title, and a sentence on what the page is for."""
    with tag("div", classes="heading"):
        tag("h1", text)
        tag("p", lead, classes="lead")


@contextmanager
def card(title: str = "", *, classes: str = "", level: int = 2, note: str = "") -> Iterator[Tag]:
    with tag("section", classes=f"card {classes}".strip()) as element:
        if title:
            with tag("div", classes="card-head"):
                tag(f"h{level}", title)
                if note:
                    tag("p", note, classes="soft")
        yield element


@contextmanager
def row(classes: str = "") -> Iterator[Tag]:
    """Elements side by side, wrapped if there is no space."""
    with tag("div", classes=f"row {classes}".strip()) as element:
        yield element


def button(
    text: str, on_click: Handler | None = None, *, kind: ButtonKind = "plain", icon_name: str = "",
    label: str = "", **attributes: object,
) -> Tag:  # fmt: skip
    """A button. `label` is its name for screen readers if the text is not enough."""
    with tag("button", type="button", classes=f"button {kind}", aria_label=label or None,
             **attributes) as element:  # fmt: skip
        if icon_name:
            icon(icon_name)
        if text:
            tag("span", text)
    if on_click is not None:
        element.on("click", catch_errors(on_click), args=[])
    return element


def link(text: str, href: str, *, classes: str = "", **attributes: object) -> Tag:
    return tag("a", text, href=href, classes=classes, **attributes)


def badge(text: str = "", mood: Mood = "plain") -> Tag:
    return tag("span", text, classes=f"badge {mood}")


def set_badge(element: Tag, text: str, mood: str) -> None:
    element.text = text
    element.classes(replace=f"badge {mood}")


def empty_state(title: str, hint: str, icon_name: str) -> Tag:
    """What to do where there is nothing yet; `with` adds buttons."""
    with tag("div", classes="empty") as element:
        icon(icon_name)
        tag("p", title, classes="empty-title")
        tag("p", hint, classes="soft")
    return element


def error_box(title: str, hint: str = "", *, lang: str = "") -> Tag:
    """What went wrong and what to do; `with` adds buttons.

    `lang` is the language of both if it is not the page's.
    """
    with tag("div", classes="trouble", role="alert") as element:
        tag("p", title, classes="trouble-title", lang=lang or None)
        if hint:
            tag("p", hint, lang=lang or None)
    return element


def show_error(place: Tag, error: ApiError) -> Tag:
    """Show an error in place of what an element contains."""
    place.clear()
    with place:
        return error_box(error.title, error.hint, lang=error.lang)


def show_warnings(warnings: Sequence[str]) -> None:
    """Show warnings of the API, each once."""
    for text in dict.fromkeys(warnings):
        tag("p", text, classes="note", role="note", lang=ENGLISH)


def build_listen_script(t: Translator, version: str) -> str:
    """The audiobook player as HTML for the head of every page."""
    data = json.dumps({
        "texts": {key: t(f"listen.{key}") for key in _LISTEN_TEXTS},
        "icons": {name: svg(name) for name in _LISTEN_ICONS},
    })  # fmt: skip
    escaped = data.replace("<", "\\u003c")  # nothing in it may end the script
    return (
        f'<script type="application/json" id="listen-texts">{escaped}</script>'
        f'<script type="module" src="/page/assets/listen.js?{version}"></script>'
    )


def preview_button(text: str, url: str, label: str = "") -> Tag:
    """A button that plays a short recording in the browser, or stops it."""
    return button(text, icon_name="speak", label=label, data_preview=url, title=label or None)


def command_box(t: Translator, command: str) -> None:
    """A command with a button that copies it."""
    with tag("div", classes="copyable"):
        tag("code", command)
        with tag("button", type="button", classes="button quiet", data_copy=command,
                 data_copied=t("frame.copied"),
                 aria_label=f"{t('frame.copy')}: {command}"):  # fmt: skip
            icon("copy")
            tag("span", t("frame.copy"))


def table(heads: Sequence[str], label: str) -> Tag:
    """The body of a table with these column heads; `with` adds rows."""
    region = tag("div", classes="scroll", tabindex="0", role="region", aria_label=label)
    with region, tag("table"):
        with tag("thead"), tag("tr"):
            for head in heads:
                tag("th", head, scope="col")
        return tag("tbody")


def show_toast(text: str, mood: Mood = "plain", hint: str = "", *, lang: str = "") -> None:
    arguments = ",".join(json.dumps(one) for one in (text, mood, hint, lang))
    ui.run_javascript(f"anyrig.toast({arguments})")


def catch_errors(handler: Handler) -> Handler:
    """The handler, with its errors shown as toasts."""

    async def run(*values: Any) -> None:
        with ui.context.client as client:  # stays, though the page may be left meanwhile
            try:
                result = handler(*values)
                if isinstance(result, Awaitable):
                    await result
            except ApiError as error:
                show_toast(error.title, "bad", error.hint, lang=error.lang)
            except Exception:
                log.exception("a handler of the page failed")
                t = get_translator((client.page.resolve_language() or "en")[:2])
                show_toast(t("frame.failed"), "bad", t("frame.unexpected"))

    async def run_with_event(event: GenericEventArguments) -> None:
        await run(event)

    async def run_without_event(*_: object) -> None:
        await run()

    # NiceGUI inspects the signature to decide whether to pass the event.
    return run_with_event if inspect.signature(handler).parameters else run_without_event


class ProgressBar:
    def __init__(self, label: str) -> None:
        with tag("div", classes="meter") as self.element:
            with tag("div", classes="meter-words"):
                self._label = tag("span", label)
                self._text = tag("span", classes="soft figures")
            with tag("div", classes="bar", role="progressbar", aria_valuemin="0",
                     aria_valuemax="100", aria_label=label) as self._bar:  # fmt: skip
                self._fill = tag("div", classes="fill")
        self.set(0.0)

    def set(self, share: float, text: str = "", label: str = "") -> None:
        """Fill it to a share of 1."""
        share = min(1.0, max(0.0, share))
        self._fill.style(f"width:{100 * share:.1f}%")
        self._text.text = text
        if label:
            self._label.text = label
            self._bar.attributes(aria_label=label)
        self._bar.attributes(aria_valuenow=round(100 * share), aria_valuetext=text or None)

    def set_warning(self, warning: bool) -> None:
        self._bar.classes(add="warn" if warning else "", remove="" if warning else "warn")


class Field(ui.element, component="assets/field.js"):
    """A form control of the browser, with its label.

    Args:
        kind: text, search, number, area, select, range or check.
        label: shown, or with `bare` only read by screen readers.
        value: the initial value.
        options: of a select: (value, label) or (value, label, group).
        on_change: called with the new value.
        live: report every key, a moment after the last one; by default when the field is left.
        keep: the name under which the browser stores the value, across reloads and restarts.
        counter: shows how many characters an area has, in place of its {count}.
        keys: what the keyboard does, shown where there is one.
        on_submit: called when Ctrl+Enter is pressed in an area.
        more: attributes of the control: `placeholder`, `min`, `max`, `step`, `rows`, `name`.
    """

    def __init__(
        self, kind: str, label: str, value: Any = "", *,
        options: Sequence[tuple[str, ...]] = (), hint: str = "", on_change: Handler | None = None,
        live: bool = False, bare: bool = False, unit: str = "", keep: str = "", counter: str = "",
        keys: str = "",
        on_submit: Handler | None = None, **more: object,
    ) -> None:  # fmt: skip
        super().__init__()
        self.value, self._on_change = value, on_change
        given = {
            "options": _build_options(options), "hint": hint, "live": live, "bare": bare,
            "unit": unit, "keep": keep, "counter": counter, "keys": keys,
            "more": {name.replace("_", "-"): v for name, v in more.items()},
        }  # fmt: skip
        self._props.update(kind=kind, label=label, value=value)
        self._props.update({name: v for name, v in given.items() if v})
        self.on("changed", self._handle_change)
        if on_submit is not None:
            self.on("submitted", catch_errors(on_submit), args=[])

    @property
    def text(self) -> str:
        """The value without space around it."""
        return str(self.value).strip()

    def set_value(self, value: Any) -> None:
        self.value = self._props["value"] = value
        self.update()
        self.run_method("setValue", value)

    def set_options(self, options: Sequence[tuple[str, ...]], value: Any) -> None:
        self._props["options"] = _build_options(options)
        self.set_value(value)

    async def _handle_change(self, event: GenericEventArguments) -> None:
        self.value = self._props["value"] = event.args
        if self._on_change is not None:
            await catch_errors(self._on_change)(event.args)


def _build_options(options: Sequence[tuple[str, ...]]) -> list[dict[str, str]]:
    return [{"value": one[0], "label": one[1], "group": one[2] if len(one) > 2 else ""}
            for one in options]  # fmt: skip


class FileDrop(ui.element, component="assets/drop.js"):
    """Uploads files that are dropped on it, or chosen with its button.

    Args:
        t: the page's translator.
        on_files: called with what `/uploads` returned for each: id, name, size, kind.
        kinds: the supported kinds of files, for people.
        accept: as in `<input type=file>`.
        multiple: whether it takes several files.
        any_kind: keep files that are no known document, picture or recording too.
        folders: whether it has a button that chooses a folder; dropped ones are taken in any case.
    """

    def __init__(
        self, t: Translator, on_files: Callable[[list[Mapping[str, Any]]], Any], *, kinds: str,
        accept: str = "", multiple: bool = True, any_kind: bool = False, folders: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._on_files = on_files
        ending = "" if multiple else ".one"
        texts = {key: t(f"drop.{key}") for key in _DROP_TEXTS}
        texts |= {key: t(f"drop.{key}{ending}") for key in ("prompt", "choose")}
        texts["unreachable"] = t("frame.unreachable")
        unsupported = [] if any_kind else list(_UNSUPPORTED_KINDS)
        self._props.update(
            kinds=kinds, accept=accept, multiple=multiple, texts=texts, unsupported=unsupported,
            folders=folders,
        )  # fmt: skip
        self.on("files", self._handle_files)

    async def _handle_files(self, event: GenericEventArguments) -> None:
        await catch_errors(self._on_files)(event.args)


class ConfirmDialog:
    """Asks before something is deleted: the browser's own dialog, so that its keys work."""

    def __init__(self) -> None:
        self._on_confirm: Handler | None = None
        with tag("dialog", classes="ask") as self._dialog:
            self._title = tag("h2")
            self._text = tag("p", classes="soft")
            self._dialog.attributes(aria_labelledby=self._title.html_id)
            with row("ask-buttons"):
                with button("", self._close, autofocus=True, data_ask="no"):
                    self._keep = tag("span")
                with button("", self._confirm, kind="danger", data_ask="yes"):
                    self._action = tag("span")

    def open(self, title: str, text: str, action: str, keep: str, on_confirm: Handler) -> None:
        """`action` and `keep` are the words of its buttons."""
        self._on_confirm = on_confirm
        self._title.text, self._text.text = title, text
        self._action.text, self._keep.text = action, keep
        ui.run_javascript(f"document.getElementById('{self._dialog.html_id}').showModal()")

    def _close(self) -> None:
        ui.run_javascript(f"document.getElementById('{self._dialog.html_id}').close()")

    async def _confirm(self) -> None:
        self._close()
        handler, self._on_confirm = self._on_confirm, None
        if handler is not None:
            await catch_errors(handler)()
