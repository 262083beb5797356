"""The speech page: text that is heard while it is synthesized, a table of lines, the lexicon."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from anyrig.server.page import voices
from anyrig.server.page.api import ENGLISH, ApiError
from anyrig.server.page.components import (
    Field,
    button,
    card,
    catch_errors,
    command_box,
    empty_state,
    error_box,
    heading,
    row,
    show_error,
    show_toast,
    tag,
)
from anyrig.server.page.icons import svg
from anyrig.server.page.layout import PageContext
from anyrig.server.page.translations import LANGUAGES, NBSP, Translator
from anyrig.text import toml

_FORMATS = ("wav", "mp3", "opus", "aac", "flac")
_PLAYER_TEXTS = ("wave", "seek", "empty", "play", "stop", "waiting", "making", "format", "download")
_LINES_TEXTS = (
    "paste", "paste_hint", "add", "none", "none_hint", "text_of", "hear", "stop_line", "make",
    "download", "remove", "make_all", "stop", "as_job", "format", "download_all", "count",
    "state_new", "state_making", "state_made", "state_changed", "state_failed",
)  # fmt: skip
_ENTRY_KEYS = {"word", "say", "ipa", "language", "case"}


async def build(page: PageContext) -> None:
    t = page.t
    heading(t("page.speak"), f"{t('speak.lead')} {page.privacy_note}")
    config = await page.api.get("/config")
    ready = voices.list_ready(config)
    if not ready:
        with empty_state(t("speak.no_voice"), t("speak.no_voice.hint"), "speak"):
            command_box(t, "anyrig engines")
        return
    default = voices.choose_default(config["default_voice"], ready, t.language)
    speak_page = SpeakPage(page, ready, default)
    lexicon = (await page.api.get("/lexicon"))["text"]
    LexiconCard(page, lexicon, speak_page.speak_word)


class SpeechPlayer(ui.element, component="assets/player.js"):
    """Plays speech while it is synthesized; the browser does all of it."""

    def __init__(self, t: Translator) -> None:
        super().__init__()
        self._props.update(
            texts={key: t(f"player.{key}") for key in _PLAYER_TEXTS}, formats=_FORMATS,
            icons={name: svg(name) for name in ("play", "stop", "download")},
        )  # fmt: skip

    def speak(self, request: Mapping[str, Any]) -> None:
        """Start, and stop what plays."""
        self.run_method("speak", dict(request))


class LineTable(ui.element, component="assets/lines.js"):
    """A table of lines, each synthesized on its own."""

    def __init__(self, t: Translator, request: Mapping[str, Any]) -> None:
        super().__init__()
        names = ("play", "stop", "download", "again", "bin", "plus", "speak", "list")
        self._props.update(
            texts={key: t(f"lines.{key}") for key in _LINES_TEXTS},
            formats=("mp3", *_FORMATS[2:], "wav"), icons={name: svg(name) for name in names},
            request=dict(request),
        )  # fmt: skip

    def set_request(self, request: Mapping[str, Any]) -> None:
        """Set voice and speed of what is synthesized from now on."""
        self._props["request"] = dict(request)
        self.update()


class SpeakPage:
    def __init__(self, page: PageContext, ready: Sequence[voices.Voice], default: str) -> None:
        self._page, self._voices = page, ready
        self._build_speech_card(default)
        t = page.t
        with card(t("lines.title"), note=t("lines.note")) as element:
            element.attributes(id="many")
            self._lines = LineTable(t, self._build_request())
            self._lines.on("failed", _show_failure)
            self._lines.on("queued", catch_errors(self._queue_lines))

    def _build_speech_card(self, default: str) -> None:
        t = self._page.t
        with card() as element, tag("div", classes="two"):
            element.attributes(id="speech")
            self._text = Field(
                "area", t("speak.text"), t("speak.text.example"), rows=7, live=True,
                placeholder=t("speak.text.hint"), name="text", keep="speak.text",
            )  # fmt: skip
            with tag("div", classes="stack"):
                self._voice = Field(
                    "select", t("speak.voice"), default,
                    options=voices.build_options(t, self._voices), on_change=self._update_lines,
                    name="voice", keep="speak.voice",
                )  # fmt: skip
                self._speed = Field(
                    "range", t("speak.speed"), 1.0, min=0.5, max=2, step=0.05, unit=" ×",
                    on_change=self._update_lines, name="speed", keep="speak.speed",
                )  # fmt: skip
                with row():
                    button(t("speak.go"), self._speak, kind="primary", icon_name="speak",
                           id="speak")  # fmt: skip
                self._error = tag("div", id="nothing-to-say")
        with element:
            self._player = SpeechPlayer(t)
            self._player.on("failed", _show_failure)
            self._status = tag("p", classes="soft figures", role="status")
            self._player.on("began", self._show_latency)
            self._player.on("made", self._show_length)

    def _build_request(self) -> dict[str, Any]:
        voice = next(one for one in self._voices if voices.get_id(one) == self._voice.value)
        return {
            "model": voice["engine"], "voice": voice["name"], "engine": voice["engine"],
            "language": voice["language"], "speed": float(self._speed.value),
        }  # fmt: skip

    def _update_lines(self) -> None:
        self._lines.set_request(self._build_request())

    def _speak(self) -> None:
        t = self._page.t
        self._error.clear()
        if not self._text.text:
            with self._error:
                error_box(t("speak.say_something"), t("speak.say_something.hint"))
            ui.run_javascript("document.querySelector('#speech [name=text]').focus()")
            return
        self._status.text = ""
        self._player.speak({**self._build_request(), "input": self._text.value})

    def speak_word(self, text: str) -> None:
        if not text.strip():
            raise ApiError(400, self._page.t("lexicon.hear.nothing"))
        self._player.speak({**self._build_request(), "input": text})

    def _show_latency(self, event: GenericEventArguments) -> None:
        t = self._page.t
        self._status.text = t("speak.first", time=f"{t.number(event.args / 1000, 2)}{NBSP}s")

    def _show_length(self, event: GenericEventArguments) -> None:
        t = self._page.t
        audio = f"{t.number(event.args['seconds'], 1)}{NBSP}s"
        self._status.text += f" · {t('speak.made', audio=audio)}"

    async def _queue_lines(self, event: GenericEventArguments) -> None:
        request = self._build_request()
        arguments = {
            "lines": event.args["lines"], "format": event.args["format"],
            "voice": request["voice"], "engine": request["engine"], "rate": request["speed"],
        }  # fmt: skip
        await self._page.api.post("/jobs", {"kind": "batch", "arguments": arguments})
        show_toast(self._page.t("lines.queued"), "good")


def _show_failure(event: GenericEventArguments) -> None:
    show_toast(event.args["title"], "bad", event.args["hint"], lang=ENGLISH)


# -- lexicon ---------------------------------------------------------------------------------------


class LexiconCard:
    """The user's lexicon, as a table or as the text of its file."""

    def __init__(self, page: PageContext, text: str, speak_word: Callable[[str], None]) -> None:
        self._page, self._speak_word, t = page, speak_word, page.t
        self._entries: list[dict[str, Any]] = []
        self._text: Field | None = None
        with card(t("lexicon.title"), note=t("lexicon.note")) as element:
            element.attributes(id="lexicon")
            self._place = tag("div", classes="stack")
            self._error = tag("div", role="status")
            with row():
                button(t("lexicon.save"), self._save, kind="primary", id="save-lexicon")
                with button("", self._switch, kind="quiet", id="switch-lexicon"):
                    self._switch_text = tag("span")
        if not self._show_table(parse_lexicon(text)):
            self._show_text(text)

    def _show_text(self, text: str) -> None:
        self._place.clear()
        with self._place:
            self._text = Field("area", self._page.t("lexicon.file"), text, rows=10, live=True,
                               spellcheck="false", name="lexicon")  # fmt: skip
        self._switch_text.text = self._page.t("lexicon.as_table")

    def _show_table(self, entries: list[dict[str, Any]] | None) -> bool:
        if entries is None:
            return False
        t = self._page.t
        self._entries, self._text = entries, None
        self._place.clear()
        with self._place:
            if not entries:
                empty_state(t("lexicon.none"), t("lexicon.none.hint"), "letters")
            for number, entry in enumerate(entries, 1):
                self._build_row(number, entry)
            with row():
                button(t("lexicon.add"), self._add_entry, icon_name="plus", id="add-word")
        self._switch_text.text = t("lexicon.as_text")
        return True

    def _build_row(self, number: int, entry: dict[str, Any]) -> None:
        t = self._page.t

        def build_field(key: str, kind: str = "text", **more: Any) -> None:
            label = t("lexicon.of", what=t(f"lexicon.{key}"), number=number)
            Field(kind, label, entry.get(key, ""), bare=True, live=kind == "text",
                  placeholder=t(f"lexicon.{key}"), on_change=lambda v: entry.__setitem__(key, v),
                  **more)  # fmt: skip

        with tag("div", classes="word-row"):
            build_field("word")
            build_field("say")
            codes = dict.fromkeys([*LANGUAGES, *filter(None, [entry.get("language", "")])])
            build_field("language", "select", options=[
                ("", t("lexicon.language.any")), *((code, code.upper()) for code in codes)
            ])  # fmt: skip
            with tag("span", classes="line-buttons"):
                button("", lambda: self._speak_word(str(entry.get("word", ""))), kind="quiet",
                       icon_name="play", label=t("lexicon.hear", number=number))  # fmt: skip
                button("", lambda: self._remove_entry(entry), kind="quiet", icon_name="bin",
                       label=t("lexicon.remove", number=number))  # fmt: skip

    def _add_entry(self) -> None:
        self._show_table([*self._entries, {"word": "", "say": "", "language": ""}])

    def _remove_entry(self, entry: dict[str, Any]) -> None:
        self._show_table([one for one in self._entries if one is not entry])

    def _switch(self) -> None:
        t = self._page.t
        if self._text is None:
            self._show_text(format_lexicon(self._entries))
        elif not self._show_table(parse_lexicon(str(self._text.value))):
            show_toast(t("lexicon.not_a_table"), "warn", t("lexicon.not_a_table.hint"))

    async def _save(self) -> None:
        text = format_lexicon(self._entries) if self._text is None else str(self._text.value)
        self._error.clear()
        try:
            await self._page.api.put("/lexicon", {"text": text})
        except ApiError as error:
            show_error(self._error, error)
            return
        show_toast(self._page.t("lexicon.saved"), "good")


def parse_lexicon(text: str) -> list[dict[str, Any]] | None:
    """The entries of a lexicon file; None if a table would lose something of it."""
    if any(line.lstrip().startswith("#") for line in text.splitlines()):
        return None
    try:
        data = toml.read(text)
    except tomllib.TOMLDecodeError:
        return None
    rows = data.pop("say", [])
    if data or not isinstance(rows, list):
        return None
    entries = []
    for one in rows:
        if not isinstance(one, dict) or "word" not in one or set(one) - _ENTRY_KEYS:
            return None
        entry = {key: str(value) for key, value in one.items()}
        if "ipa" in entry:
            entry["say"] = f"/{entry.pop('ipa')}/"
        entries.append({"language": "", **entry})
    return entries


def format_lexicon(entries: list[dict[str, Any]]) -> str:
    """The entries as a lexicon file, without those that have no word."""
    blocks = []
    for entry in entries:
        word, say = str(entry.get("word", "")).strip(), str(entry.get("say", "")).strip()
        if not word:
            continue
        is_ipa = len(say) > 2 and say[0] == say[-1] == "/"
        lines = ["[[say]]", f"word = {_quote(word)}"]
        lines.append(f"ipa = {_quote(say[1:-1])}" if is_ipa else f"say = {_quote(say)}")
        lines += [f"{key} = {_quote(entry[key])}"
                  for key in ("language", "case") if entry.get(key)]  # fmt: skip
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _quote(text: str) -> str:
    """JSON strings are TOML strings, except for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
