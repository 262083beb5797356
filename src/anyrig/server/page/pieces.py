"""Small parts that every page is put together from. Plain HTML elements, so that keyboards, screen
readers and tests find what they know.

    with card(t("bench.title")):
        button(t("bench.run"), start, kind="primary")

A handler may raise `Refused`: it is shown with what to do next.
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

from anyrig.server.page.api import ENGLISH, Refused
from anyrig.server.page.icons import svg
from anyrig.server.page.words import Words, words

log = logging.getLogger(__name__)
Handler = Callable[..., Any]
Kind = Literal["plain", "primary", "quiet", "danger"]
Mood = Literal["plain", "good", "warn", "bad"]


class Tag(TextElement):
    """Any HTML element, with text where it has some."""

    def attributes(self, **attributes: object) -> Tag:
        """Change attributes: `aria_label` is aria-label; None or False takes one away."""
        for name, value in attributes.items():
            name = name.rstrip("_").replace("_", "-")
            if value is None or value is False:
                self.props.pop(name, None)
            else:
                self.props[name] = "" if value is True else value
        self.update()
        return self


def tag(name: str, text: object = "", *, classes: str = "", **attributes: object) -> Tag:
    """An HTML element: `tag("a", "Jobs", href="/jobs")`. Use it with `with` for what is inside."""
    element = Tag(tag=name, text=str(text))
    if classes:
        element.classes(classes)
    return element.attributes(**attributes)


def icon(name: str) -> ui.html:
    """A drawing beside words; screen readers pass it by."""
    return ui.html(svg(name), sanitize=False, tag="span").classes("icon")


def heading(text: str, lead: str = "") -> None:
    """The page's own title, and a sentence on what it is for."""
    with tag("div", classes="heading"):
        tag("h1", text)
        if lead:
            tag("p", lead, classes="lead")


@contextmanager
def card(title: str = "", *, classes: str = "", level: int = 2, note: str = "") -> Iterator[Tag]:
    """A sheet of its own with a title."""
    with tag("section", classes=f"card {classes}".strip()) as sheet:
        if title:
            with tag("div", classes="card-head"):
                tag(f"h{level}", title)
                if note:
                    tag("p", note, classes="soft")
        yield sheet


@contextmanager
def row(classes: str = "") -> Iterator[Tag]:
    """Things side by side; they wrap where there is no room."""
    with tag("div", classes=f"row {classes}".strip()) as element:
        yield element


def button(
    text: str, on_click: Handler | None = None, *, kind: Kind = "plain", icon_name: str = "",
    label: str = "", **attributes: object,
) -> Tag:  # fmt: skip
    """A button. `label` is what a screen reader says where the text alone is too short."""
    with tag("button", type="button", classes=f"button {kind}", aria_label=label or None,
             **attributes) as element:  # fmt: skip
        if icon_name:
            icon(icon_name)
        if text:
            tag("span", text)
    if on_click is not None:
        element.on("click", safely(on_click), args=[])
    return element


def link(text: str, href: str, *, classes: str = "", **attributes: object) -> Tag:
    """A link to another page or to a file."""
    return tag("a", text, href=href, classes=classes, **attributes)


def badge(text: str, mood: Mood = "plain") -> Tag:
    """One word on how something is."""
    return tag("span", text, classes=f"badge {mood}")


def empty(title: str, hint: str, *, icon_name: str = "") -> Tag:
    """What to do where there is nothing yet. Put a button inside with `with`."""
    with tag("div", classes="empty") as element:
        if icon_name:
            icon(icon_name)
        tag("p", title, classes="empty-title")
        tag("p", hint, classes="soft")
    return element


def trouble(title: str, hint: str = "", *, lang: str = "") -> Tag:
    """What went wrong and what to do next. Put a button inside with `with`.

    `lang` is the language of the words where it may be another than the page's.
    """
    with tag("div", classes="trouble", role="alert") as element:
        tag("p", title, classes="trouble-title", lang=lang or None)
        if hint:
            tag("p", hint, lang=lang or None)
    return element


def warn(warnings: Sequence[str]) -> None:
    """What the API warned of, each once."""
    for text in dict.fromkeys(warnings):
        tag("p", text, classes="note", role="note", lang=ENGLISH)


def copyable(t: Words, command: str) -> None:
    """A command and a button that copies it."""
    with tag("div", classes="copyable"):
        tag("code", command)
        with tag("button", type="button", classes="button quiet", data_copy=command,
                 data_copied=t("frame.copied"),
                 aria_label=f"{t('frame.copy')}: {command}"):  # fmt: skip
            icon("copy")
            tag("span", t("frame.copy"))


def toast(text: str, mood: Mood = "plain", hint: str = "", *, lang: str = "") -> None:
    """Say something in passing."""
    said = ",".join(json.dumps(one) for one in (text, mood, hint, lang))
    ui.run_javascript(f"anyrig.toast({said})")


def safely(handler: Handler) -> Handler:
    """The same handler; what is refused or breaks is shown instead of lost."""

    async def run(*values: Any) -> None:
        try:
            result = handler(*values)
            if isinstance(result, Awaitable):
                await result
        except Refused as refused:
            toast(refused.title, "bad", refused.hint, lang=refused.lang)
        except Exception:
            log.exception("a page could not do what it was asked for")
            t = words((ui.context.client.page.resolve_language() or "en")[:2])
            toast(t("frame.failed"), "bad", t("frame.unforeseen"))

    async def told(event: GenericEventArguments) -> None:
        await run(event)

    async def untold(*_: object) -> None:
        await run()

    # The framework looks at whether a handler asks for the event.
    return told if inspect.signature(handler).parameters else untold


class Bar:
    """A bar that fills: of memory, or of work with its time left."""

    def __init__(self, label: str, share: float = 0.0, *, text: str = "", mood: str = "") -> None:
        with tag("div", classes="meter") as self.element:
            with tag("div", classes="meter-words"):
                self._label = tag("span", label)
                self._text = tag("span", text, classes="soft figures")
            with tag("div", classes=f"bar {mood}".strip(), role="progressbar", aria_valuemin="0",
                     aria_valuemax="100", aria_label=label) as self._bar:  # fmt: skip
                self._fill = tag("div", classes="fill")
        self.show(share, text)

    def show(self, share: float, text: str = "", label: str = "") -> None:
        """Fill it to a share of 1."""
        share = min(1.0, max(0.0, share))
        self._fill.style(f"width:{100 * share:.1f}%")
        self._text.text = text
        if label:
            self._label.text = label
            self._bar.attributes(aria_label=label)
        self._bar.attributes(aria_valuenow=round(100 * share), aria_valuetext=text or None)

    def warn(self, warning: bool) -> None:
        """Whether it is fuller than it should be."""
        self._bar.classes("warn") if warning else self._bar.classes(remove="warn")


class Field(ui.element, component="assets/field.js"):
    """One question to a person, with its label: the browser's own controls.

    Args:
        kind: text, search, number, area, select, range or check.
        label: always there for screen readers; `bare` hides it from eyes.
        value: what it begins with.
        options: of a select: (value, label) or (value, label, group).
        on_change: called with the new value.
        live: tell at every key, a moment after the last one; otherwise when it is left.
        keep: the name under which the browser keeps the value, over reloads and restarts.
        more: attributes of the control: `placeholder`, `min`, `max`, `step`, `rows`, `name`.
    """

    def __init__(
        self, kind: str, label: str, value: Any = "", *,
        options: Sequence[tuple[str, ...]] = (), hint: str = "", on_change: Handler | None = None,
        live: bool = False, bare: bool = False, unit: str = "", keep: str = "", **more: object,
    ) -> None:  # fmt: skip
        super().__init__()
        self.value, self._on_change = value, on_change
        self._props.update(
            kind=kind, label=label, value=value, options=_options(options), hint=hint, live=live,
            bare=bare, unit=unit, keep=keep,
            more={name.replace("_", "-"): v for name, v in more.items()},
        )  # fmt: skip
        self.on("said", self._heard)

    def show(self, value: Any) -> None:
        """Change what it holds."""
        self.value = self._props["value"] = value
        self.update()
        self.run_method("put", value)

    def offer(self, options: Sequence[tuple[str, ...]], value: Any = None) -> None:
        """Change what a select offers, and perhaps what is chosen."""
        self._props["options"] = _options(options)
        if value is not None:
            self.value = self._props["value"] = value
        self.update()
        if value is not None:
            self.run_method("put", value)

    def ask(self, **more: object) -> None:
        """Change attributes of the control: `disabled=True`."""
        self._props["more"] = {**self._props["more"], **more}
        self.update()

    async def _heard(self, event: GenericEventArguments) -> None:
        self.value = event.args
        self._props["value"] = event.args
        if self._on_change is not None:
            await safely(self._on_change)(event.args)


def _options(options: Sequence[tuple[str, ...]]) -> list[dict[str, str]]:
    return [{"value": one[0], "label": one[1], "group": one[2] if len(one) > 2 else ""}
            for one in options]  # fmt: skip


_USELESS = ("other", "zip")
"""Kinds of files that nothing here reads."""


class Drop(ui.element, component="assets/drop.js"):
    """Files from a person: dropped, or chosen with a real button. They go to `/uploads`.

    Args:
        t: the words.
        on_files: called with what `/uploads` answered for each: id, name, size, kind.
        what: which files these may be, said under it.
        accept: as of `<input type=file>`.
        many: whether more than one at once.
        any_kind: keep also what is no document, no picture and no sound, as far as can be told.
    """

    def __init__(
        self, t: Words, on_files: Callable[[list[Mapping[str, Any]]], Any], *, what: str = "",
        accept: str = "", many: bool = True, any_kind: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._on_files = on_files
        one = "" if many else ".one"
        words = {key: t(f"drop.{key}") for key in ("sending", "done", "failed", "useless")}
        words |= {key: t(f"drop.{key}{one}") for key in ("what", "choose")}
        words |= {
            key: t(f"drop.{key}")
            for key in ("no_folder", "empty_folder", "large_folder", "unreadable")
        }
        words["unreachable"] = t("frame.unreachable")
        self._props.update(
            what=what,
            accept=accept,
            many=many,
            words=words,
            useless=[] if any_kind else list(_USELESS),
        )
        self.on("files", self._heard)

    async def _heard(self, event: GenericEventArguments) -> None:
        await safely(self._on_files)(event.args)


def table(heads: Sequence[str], *, label: str, classes: str = "") -> Tag:
    """A table with its heads; rows go into what is returned with `with` and `tag("tr")`."""
    around = tag("div", classes="scroll", tabindex="0", role="region", aria_label=label)
    with around, tag("table", classes=classes):
        with tag("thead"), tag("tr"):
            for head in heads:
                tag("th", head, scope="col")
        return tag("tbody")
