"""The page that speaks: a text heard while it is made, many lines, and how words are said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from anyrig.server.page import voices
from anyrig.server.page.api import ENGLISH, Refused
from anyrig.server.page.frame import Here
from anyrig.server.page.icons import svg
from anyrig.server.page.pieces import (
    Field,
    button,
    card,
    copyable,
    empty,
    heading,
    row,
    safely,
    tag,
    toast,
    trouble,
)
from anyrig.server.page.speak_lexicon import LexiconCard
from anyrig.server.page.words import Words

FORMATS = ("wav", "mp3", "opus", "aac", "flac")
_PLAYER = ("wave", "seek", "empty", "play", "stop", "waiting", "making", "format", "download")
_LINES = ("paste", "paste_hint", "add", "none", "none_hint", "text_of", "hear", "stop_line", "make",
          "download", "remove", "make_all", "stop", "as_job", "format", "download_all", "count",
          "state_new", "state_making", "state_made", "state_changed", "state_failed")  # fmt: skip


async def build(here: Here) -> None:
    """Fill the page."""
    heading(here.t("page.speak"), f"{here.t('speak.lead')} {here.privacy}")
    await SpeakPage(here).show()


class Player(ui.element, component="assets/player.js"):
    """Plays speech while it is made; in the browser from the first sample to the file."""

    def __init__(self, t: Words) -> None:
        super().__init__()
        self._props.update(
            words={key: t(f"player.{key}") for key in _PLAYER}, formats=FORMATS,
            icons={name: svg(name) for name in ("play", "stop", "download")},
        )  # fmt: skip

    def speak(self, request: Mapping[str, Any]) -> None:
        """Begin; what still sounds ends."""
        self.run_method("speak", dict(request))


class Lines(ui.element, component="assets/lines.js"):
    """A table of lines, each with its own sound."""

    def __init__(self, t: Words, request: Mapping[str, Any]) -> None:
        super().__init__()
        names = ("play", "stop", "download", "again", "bin", "plus", "speak", "list")
        self._props.update(
            words={key: t(f"lines.{key}") for key in _LINES}, formats=("mp3", *FORMATS[2:], "wav"),
            icons={name: svg(name) for name in names}, request=dict(request),
        )  # fmt: skip

    def use(self, request: Mapping[str, Any]) -> None:
        """The voice and speed for what is made from now on."""
        self._props["request"] = dict(request)
        self.update()


class SpeakPage:
    """One visitor's desk."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._voices: Sequence[Mapping[str, Any]] = ()

    async def show(self) -> None:
        """Draw it."""
        t = self._here.t
        config = await self._here.api.get("/config")
        self._voices = voices.ready(config)
        if not self._voices:
            with empty(t("speak.no_voice"), t("speak.no_voice.hint"), icon_name="speak"):
                copyable(t, "anyrig engines")
            return
        self._desk(_first(config["default_voice"], self._voices, t.language))
        with card(t("lines.title"), note=t("lines.note")) as sheet:
            sheet.attributes(id="many")
            self._lines = Lines(t, self._request())
            self._lines.on("failed", _failed)
            self._lines.on("queued", safely(self._queue))
        await LexiconCard(self._here, self._try).show()

    def _desk(self, voice: str) -> None:
        t = self._here.t
        with card() as sheet, tag("div", classes="two"):
            sheet.attributes(id="desk")
            self._text = Field(
                "area", t("speak.text"), t("speak.text.example"), rows=7, live=True,
                placeholder=t("speak.text.hint"), name="text", keep="speak.text",
            )  # fmt: skip
            with tag("div", classes="stack"):
                self._voice = Field(
                    "select", t("speak.voice"), voice, options=voices.options(t, self._voices),
                    on_change=self._changed, name="voice", keep="speak.voice",
                )  # fmt: skip
                self._speed = Field(
                    "range", t("speak.speed"), 1.0, min=0.5, max=2, step=0.05, unit=" ×",
                    on_change=self._changed, name="speed", keep="speak.speed",
                )  # fmt: skip
                with row():
                    button(t("speak.go"), self._speak, kind="primary", icon_name="speak",
                           id="speak")  # fmt: skip
                self._nothing = tag("div", id="nothing-to-say")
        with sheet:
            self._player = Player(t)
            self._player.on("failed", _failed)
            self._told = tag("p", classes="soft figures", role="status")
            self._player.on("began", self._began)
            self._player.on("made", self._made)

    def _request(self) -> dict[str, Any]:
        voice = next(one for one in self._voices if voices.key(one) == self._voice.value)
        return {
            "model": voice["engine"], "voice": voice["name"], "engine": voice["engine"],
            "language": voice["language"], "speed": float(self._speed.value),
        }  # fmt: skip

    def _changed(self) -> None:
        self._lines.use(self._request())

    def _speak(self) -> None:
        t = self._here.t
        self._nothing.clear()
        if not str(self._text.value).strip():
            with self._nothing:
                trouble(t("speak.say_something"), t("speak.say_something.hint"))
            ui.run_javascript("document.querySelector('#desk [name=text]').focus()")
            return
        self._told.text = ""
        self._player.speak({**self._request(), "input": self._text.value})

    def _try(self, text: str) -> None:
        if not text.strip():
            raise Refused(400, self._here.t("lexicon.hear.nothing"))
        self._player.speak({**self._request(), "input": text})

    def _began(self, event: GenericEventArguments) -> None:
        t = self._here.t
        self._told.text = t("speak.first", span=f"{t.number(event.args / 1000, 2)}\u00a0s")

    def _made(self, event: GenericEventArguments) -> None:
        t = self._here.t
        audio = f"{t.number(event.args['seconds'], 1)}\u00a0s"
        self._told.text += f" · {t('speak.made', audio=audio)}"

    async def _queue(self, event: GenericEventArguments) -> None:
        asked = self._request()
        arguments = {
            "lines": event.args["lines"], "format": event.args["format"],
            "voice": asked["voice"], "engine": asked["engine"], "rate": asked["speed"],
        }  # fmt: skip
        await self._here.api.post("/jobs", {"kind": "batch", "arguments": arguments})
        toast(self._here.t("lines.queued"), "good")


def _failed(event: GenericEventArguments) -> None:
    toast(event.args["title"], "bad", event.args["hint"], lang=ENGLISH)


def _first(default: str, there: Sequence[voices.Voice], language: str) -> str:
    """The usual voice; one of the visitor's language where the usual one speaks another."""
    usual = [one for one in there if one["name"] == default] or list(there)
    if usual[0]["language"].split("-")[0] != language:
        usual = [one for one in there if one["language"].split("-")[0] == language] + usual
    return voices.key(usual[0])
