"""Voices: as options of a select, as a list with samples, and the engines that could be had."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from nicegui.events import GenericEventArguments

from anyrig.app.voices import DEFAULT_VOICE
from anyrig.server.page.api import ENGLISH, ApiError, explain_forbidden
from anyrig.server.page.components import (
    ProgressBar,
    Tag,
    badge,
    button,
    card,
    catch_errors,
    command_box,
    error_box,
    preview_button,
    row,
    tag,
)
from anyrig.server.page.layout import PageContext
from anyrig.server.page.translations import Translator

Voice = Mapping[str, Any]
_PIPER_NAME = re.compile(r"[a-z]{2,3}[_-][A-Z]{2}-(\w+)-(?:x_low|low|medium|high)")


def list_ready(config: Mapping[str, Any]) -> list[Voice]:
    """Voices of `/config` whose engine is ready."""
    ready = {one["name"] for one in config.get("engines", ()) if one.get("ready", True)}
    return [voice for voice in config.get("details", ()) if voice.get("engine") in ready]


def list_seeded(config: Mapping[str, Any]) -> list[str]:
    """Engines of `/config` of which another seed is another take."""
    return [str(one["name"]) for one in config.get("engines", ()) if one.get("varies_with_seed")]


def build_request(voice: Voice) -> dict[str, Any]:
    """What a voice adds to a request of `/v1/audio/speech`."""
    return {"model": voice["engine"], "engine": voice["engine"], "voice": voice["name"],
            "language": voice["language"]}  # fmt: skip


def list_engine_options(config: Mapping[str, Any], engine: str) -> list[Mapping[str, Any]]:
    """Options of an engine of `/config` that a form can show: not texts, which may name folders."""
    found = [option for one in config["engines"] if one["name"] == engine
             for option in one["options"]]  # fmt: skip
    return [one for one in found if one["choices"] or not isinstance(one["default"], str)]


def get_id(voice: Voice) -> str:
    return f"{voice['engine']}/{voice['name']}"


def build_sample_url(engine: str, voice: str, language: str = "") -> str:
    """Where a voice, or an engine's default one, says a sentence in a language that it speaks."""
    voice = voice or DEFAULT_VOICE
    query = f"?language={quote(language)}" if language else ""
    return f"/voices/{quote(engine, safe='')}/{quote(voice, safe='')}/sample{query}"


def choose_default(default: str, ready: Sequence[Voice], language: str) -> str:
    """The id of the default voice, or of one of the visitor's language if that speaks another."""
    candidates = [voice for voice in ready if voice["name"] == default] or list(ready)
    if _get_language(candidates[0]) != language:
        candidates = [voice for voice in ready if _get_language(voice) == language] + candidates
    return get_id(candidates[0])


def build_options(
    t: Translator, ready: Sequence[Voice], first: str = ""
) -> list[tuple[str, str, str]]:
    """Options grouped by language: `first`, by default the page's, then by name."""
    first = (first or t.language)[:2]

    def sort_key(voice: Voice) -> tuple[bool, str]:
        return _get_language(voice) != first, _describe_language(t, voice)

    options = []
    for voice in sorted(ready, key=sort_key):
        language = _describe_language(t, voice)
        label = " · ".join(filter(None, [_describe_name(t, voice), language, voice["engine"]]))
        options.append((get_id(voice), label, language[:1].upper() + language[1:]))
    return options


def _get_language(voice: Voice) -> str:
    return str(voice.get("language") or "").partition("-")[0]


def _describe_language(t: Translator, voice: Voice) -> str:
    return t.find(f"language.{_get_language(voice)}", str(voice.get("language") or ""))


def _describe_name(t: Translator, voice: Voice) -> str:
    name = str(voice.get("title") or voice["name"])
    if match := _PIPER_NAME.fullmatch(name):
        return match[1].replace("_", " ").title()
    if voice.get("region") and t.language != "en":  # its title has an English word for the accent
        region = t.find(f"speak.region.{voice['region']}", voice["region"])
        return f"{voice['short_title']} ({region})"
    return name


# -- the card --------------------------------------------------------------------------------------

_POLL_INTERVAL_S = 1.0


class VoicesCard:
    """Every voice with a sample, and the engines that are not installed.

    Both lists are built when they are opened: there may be a hundred voices.

    Args:
        page: the page.
        config: from `/config`.
        use_voice: called with the id of a voice that was chosen.
    """

    def __init__(
        self, page: PageContext, config: Mapping[str, Any],
        use_voice: Callable[[str], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._page, self._use_voice, t = page, use_voice, page.t
        self._ready = list_ready(config)
        self._engines: dict[str, EngineCard] = {}
        num_more = sum(not one["ready"] for one in config["engines"])
        with card(t("voices.title"), note=t("voices.note")) as element:
            element.attributes(id="voices")
            self._voices = _build_details(
                t("voices.all", count=len(self._ready)), "all-voices", self._show_voices
            )
            if num_more:
                self._more = _build_details(
                    t("voices.more", count=num_more), "more-voices", self._show_engines
                )

    def _show_voices(self) -> None:
        t = self._page.t
        with self._voices, tag("ul", classes="voice-list"):
            for id, label, _ in build_options(t, self._ready):
                engine, _, name = id.partition("/")
                with tag("li"):
                    preview_button("", build_sample_url(engine, name),
                                   t("voices.preview", voice=label))  # fmt: skip
                    tag("span", label)
                    button(t("voices.use"), partial(self._use_voice, id), kind="quiet",
                           label=t("voices.use.label", voice=label), data_voice=id)  # fmt: skip

    async def _show_engines(self) -> None:
        found = await self._page.api.get("/engines")
        with self._more:
            for engine in found["engines"]:
                if not engine["ready"]:
                    self._engines[engine["name"]] = EngineCard(self._page, engine)
        self._page.run_every(_POLL_INTERVAL_S, self._refresh)

    async def _refresh(self) -> None:
        if not any(one.is_running for one in self._engines.values()):
            return
        for engine in (await self._page.api.get("/engines"))["engines"]:
            if engine["name"] in self._engines:
                self._engines[engine["name"]].show(engine)


class EngineCard:
    """An engine that is not installed: what it takes, and a button or a line that installs it."""

    def __init__(self, page: PageContext, engine: Mapping[str, Any]) -> None:
        self._page, self._engine, t = page, engine, page.t
        self.is_running = False
        name, size = str(engine["name"]), engine["size_bytes"]
        languages = ", ".join(t.find(f"language.{one}", one) for one in engine["languages"][:8])
        with tag("section", classes="engine", data_engine=name, aria_label=name):
            with row():
                tag("h3", name)
                self._badge = badge(t("voices.size", size=_format_size(t, size)) if size else "")
            tag("p", engine["summary"], lang=ENGLISH)
            tag("p", " · ".join(filter(None, [languages, t("voices.licence",
                licence=engine["licence"])])), classes="soft")  # fmt: skip
            self._place = tag("div", classes="stack", role="status")
            if engine["can_install"]:
                with row():
                    self._button = button(
                        t("voices.install"), self._ask, icon_name="download",
                        label=t("voices.install.label", name=name), data_do="install",
                    )  # fmt: skip
            if engine["command"]:
                tag("p", t("voices.command"), classes="soft")
                command_box(t, str(engine["command"]))
            else:
                tag("p", engine["problem"], classes="note", lang=ENGLISH)
        self.show(engine)

    def _ask(self) -> None:
        t, name = self._page.t, str(self._engine["name"])
        self._page.dialog.open(
            t("voices.install.ask", name=name),
            t("voices.install.what", licence=self._engine["licence"]),
            t("voices.install"), t("voices.install.no"), self._install,
        )  # fmt: skip

    async def _install(self) -> None:
        try:
            await self._page.api.post(f"/engines/{self._engine['name']}/install", {"agree": True})
        except ApiError as error:
            raise explain_forbidden(self._page.t, error) from error
        self.show({**self._engine, "installation": {
            "state": "running", "done": 0, "total": 0, "detail": ""}})  # fmt: skip

    def show(self, engine: Mapping[str, Any]) -> None:
        """Show how far its installation is."""
        t, progress = self._page.t, engine.get("installation") or {}
        self._place.clear()
        self.is_running = progress.get("state") == "running"
        if engine["can_install"]:
            self._button.attributes(disabled=self.is_running)
        if not progress:
            return
        with self._place:
            if self.is_running:
                bar = ProgressBar(t("voices.installing", name=str(engine["name"])))
                total = progress["total"]
                bar.set(progress["done"] / total if total else 0.0, str(progress["detail"]))
            elif progress["state"] == "failed":
                error_box(str(progress["message"]), str(progress["hint"]), lang=ENGLISH)
            else:
                tag("p", t("voices.installed", name=str(engine["name"])), classes="note")


def _build_details(summary: str, id: str, build: Callable[[], Any]) -> Tag:
    """A drawer; its content is built when it is opened first."""
    is_built = False

    async def toggle(event: GenericEventArguments) -> None:
        nonlocal is_built
        if event.args and not is_built:
            is_built = True
            if (result := build()) is not None:
                await result

    with tag("details", classes="job-details", id=id) as details:
        tag("summary", summary)
        place = tag("div", classes="stack")
    details.on("toggle", catch_errors(toggle), js_handler="(e) => emit(e.target.open)")
    return place


def _format_size(t: Translator, size_bytes: int) -> str:
    return t.quantity(size_bytes, "B")
