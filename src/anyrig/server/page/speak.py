"""The speech page: text that is heard while it is synthesized, a table of lines, the lexicon."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
    preview_button,
    row,
    show_error,
    show_toast,
    tag,
)
from anyrig.server.page.icons import svg
from anyrig.server.page.layout import PageContext
from anyrig.server.page.translations import LANGUAGES, NBSP, Translator
from anyrig.server.page.voices import VoicesCard
from anyrig.server.routes.voices import MAX_CHECKED
from anyrig.settings.toml import parse_toml

_FORMATS = ("wav", "mp3", "opus", "aac", "flac")
_PLAYER_TEXTS = (
    "wave", "seek", "empty", "play", "pause", "stop", "waiting", "making", "cut", "format",
    "download", "history", "clip_play", "clip_reuse", "clip_remove",
)  # fmt: skip
_LINES_TEXTS = (
    "paste", "paste_hint", "add", "none", "none_hint", "text_of", "hear", "stop_line", "make",
    "download", "remove", "make_all", "stop", "as_job", "format", "download_all", "count",
    "state_new", "state_making", "state_made", "state_changed", "state_failed", "voice_of",
    "voice_default", "again", "one_take", "new_take", "take", "hear_take", "use_take", "drop_take",
)  # fmt: skip
_MAX_SEED = (1 << 31) - 1
_MIN_DETECTED = 20
"""Characters: the language of less is a guess."""
_ENTRY_KEYS = {"word", "say", "ipa", "language", "case"}


async def build(page: PageContext) -> None:
    t = page.t
    heading(t("page.speak"), f"{t('speak.lead')} {page.privacy_note}")
    config = await page.api.get("/config")
    if not voices.list_ready(config):
        with empty_state(t("speak.no_voice"), t("speak.no_voice.hint"), "speak"):
            command_box(t, "anyrig engines")
        return
    speak_page = SpeakPage(page, config)
    VoicesCard(page, config, speak_page.use_voice)
    lexicon = (await page.api.get("/lexicon"))["text"]
    LexiconCard(page, lexicon, speak_page.speak_word)


class SpeechPlayer(ui.element, component="assets/player.js"):
    """Plays speech while it is synthesized; the browser does all of it."""

    def __init__(self, t: Translator) -> None:
        super().__init__()
        self._props.update(
            texts={key: t(f"player.{key}") for key in _PLAYER_TEXTS}, formats=_FORMATS,
            icons={name: svg(name) for name in ("play", "pause", "stop", "download", "bin")},
        )  # fmt: skip

    def speak(self, request: Mapping[str, Any], label: str = "") -> None:
        """Start, and stop what plays; `label` names the voice in the history of clips."""
        self.run_method("speak", dict(request), label)


class LineTable(ui.element, component="assets/lines.js"):
    """A table of lines, each synthesized on its own.

    Args:
        t: the page's translator.
        request: voice and speed of lines that have no voice of their own.
        options: voices that a line may have: id and label.
        requests: what each of them adds to a request.
        seeded: engines of which another seed is another take.
    """

    def __init__(
        self, t: Translator, request: Mapping[str, Any], options: Sequence[tuple[str, str, str]],
        requests: Mapping[str, Mapping[str, Any]], seeded: Sequence[str],
    ) -> None:  # fmt: skip
        super().__init__()
        names = ("play", "stop", "download", "again", "bin", "plus", "speak", "list")
        self._props.update(
            texts={key: t(f"lines.{key}") for key in _LINES_TEXTS},
            formats=("mp3", *_FORMATS[2:], "wav"), icons={name: svg(name) for name in names},
            request=dict(request), seeded=list(seeded),
            voices=[{"value": id, "label": label, "request": requests[id]}
                    for id, label, _ in options],
        )  # fmt: skip

    def set_request(self, request: Mapping[str, Any]) -> None:
        """Set voice and speed of what is synthesized from now on."""
        self._props["request"] = dict(request)
        self.update()


class SpeakPage:
    def __init__(self, page: PageContext, config: Mapping[str, Any]) -> None:
        self._page, self._config = page, config
        self._voices = ready = voices.list_ready(config)
        default = voices.choose_default(config["default_voice"], ready, page.t.language)
        self._options = voices.build_options(page.t, ready)
        self._labels = {id: label for id, label, _ in self._options}
        self._checked: Mapping[str, Any] = {}
        """The text and voice whose languages were compared last."""
        self._build_speech_card(default)
        t = page.t
        with card(t("lines.title"), note=t("lines.note")) as element:
            element.attributes(id="many")
            requests = {voices.get_id(one): voices.build_request(one) for one in ready}
            self._lines = LineTable(
                t, self._build_request(), self._options, requests, voices.list_seeded(config)
            )
            self._lines.on("queued", catch_errors(self._queue_lines))

    def _build_speech_card(self, default: str) -> None:
        t = self._page.t
        with card() as element, tag("div", classes="two"):
            element.attributes(id="speech")
            self._text = Field(
                "area", t("speak.text"), t("speak.text.example"), rows=7, live=True,
                placeholder=t("speak.text.hint"), name="text", keep="speak.text",
                counter=t("speak.count"), keys=t("speak.keys"), on_submit=self._speak,
                on_change=self._check_language,
            )  # fmt: skip
            with tag("div", classes="stack"):
                with tag("div", classes="with-button"):
                    self._voice = Field(
                        "select", t("speak.voice"), default, options=self._options,
                        on_change=self._change_voice, name="voice", keep="speak.voice",
                    )  # fmt: skip
                    self._preview = preview_button("", "", t("books.voice.preview"))
                self._speed = Field(
                    "range", t("speak.speed"), 1.0, min=0.5, max=2, step=0.05, unit=" ×",
                    on_change=self._update_lines, name="speed", keep="speak.speed",
                )  # fmt: skip
                self._build_advanced()
                self._language_note = tag("div", role="status", id="language-note")
                with row():
                    button(t("speak.go"), self._speak, kind="primary", icon_name="speak",
                           id="speak")  # fmt: skip
                self._error = tag("div", id="nothing-to-say")
        with element:
            self._player = SpeechPlayer(t)
            self._player.on("reused", lambda event: self._text.set_value(event.args))
            self._status = tag("p", classes="soft figures", role="status")
            self._player.on("began", self._show_latency)
            self._player.on("made", self._show_length)

    def _build_advanced(self) -> None:
        """The seed, and the options of the engine."""
        t = self._page.t
        self._engine = ""
        self._fields: dict[str, Field] = {}
        """The options of that engine."""
        with tag("details", classes="job-details advanced", id="advanced"):
            tag("summary", t("speak.advanced"))
            with tag("div", classes="stack"):
                self._seed = Field(
                    "number", t("speak.seed"), 0, hint=t("speak.seed.hint"), min=0,
                    max=_MAX_SEED, step=1, on_change=self._update_lines, name="seed",
                    keep="speak.seed",
                )  # fmt: skip
                self._options_place = tag("div", classes="stack", lang=ENGLISH)
        self._show_engine()

    def _show_engine(self) -> None:
        """Show the options of the chosen voice's engine, and its sample."""
        voice = self._find_voice()
        url = voices.build_sample_url(voice["engine"], voice["name"])
        self._preview.attributes(data_preview=url)
        if voice["engine"] == self._engine:
            return
        self._engine, self._fields = str(voice["engine"]), {}
        self._options_place.clear()
        with self._options_place:
            for option in voices.list_engine_options(self._config, self._engine):
                self._fields[option["name"]] = self._build_option(option)

    def _build_option(self, option: Mapping[str, Any]) -> Field:
        name, default = str(option["name"]), option["default"]
        label = name.replace("_", " ").capitalize()
        shared: dict[str, Any] = {
            "hint": option["help"], "on_change": self._update_lines, "name": f"option-{name}",
            "keep": f"speak.option.{self._engine}.{name}",
        }  # fmt: skip
        if option["choices"]:
            choices = [(one, one) for one in option["choices"]]
            return Field("select", label, default, options=choices, **shared)
        if isinstance(default, bool):
            return Field("check", label, default, **shared)
        limits = {"min": option["low"], "max": option["high"]}
        given = {name: value for name, value in limits.items() if value is not None}
        step = 1 if isinstance(default, int) else "any"
        return Field("number", label, default, step=step, **given, **shared)

    def _find_voice(self) -> voices.Voice:
        return next(one for one in self._voices if voices.get_id(one) == self._voice.value)

    def _build_request(self) -> dict[str, Any]:
        request = {
            **voices.build_request(self._find_voice()), "speed": float(self._speed.value)
        }  # fmt: skip
        if seed := int(self._seed.value or 0):
            request["seed"] = seed
        defaults = {one["name"]: one["default"]
                    for one in voices.list_engine_options(self._config, self._engine)}  # fmt: skip
        changed = {name: field.value for name, field in self._fields.items()
                   if field.value != defaults[name]}  # fmt: skip
        return {**request, "options": changed} if changed else request

    async def _change_voice(self) -> None:
        self._show_engine()
        self._update_lines()
        await self._check_language()

    def _update_lines(self) -> None:
        self._lines.set_request(self._build_request())

    async def _check_language(self) -> None:
        """Warn before a voice reads a language that it does not speak."""
        t, text, voice = self._page.t, self._text.text, self._find_voice()
        body = {"text": text[:MAX_CHECKED], "engine": voice["engine"], "voice": voice["name"]}
        if body == self._checked:  # nothing changed: whoever presses the button must meet it
            return
        self._checked = body
        is_short = len(text) < _MIN_DETECTED
        found = None if is_short else await self._page.api.post("/voices/check", body)
        if body != self._checked:
            return
        self._language_note.clear()
        if found is None or found["spoken"]:
            return
        language = t.find(f"language.{found['language']}", found["language"])
        label = self._labels[voices.get_id(voice)]
        speaking = [f"{one['engine']}/{one['name']}" for one in found["voices"]]
        others = [id for id in speaking if id in self._labels]
        with self._language_note, tag("div", classes="note"):
            tag("p", t("speak.language.warning", language=language, voice=label))
            if others:
                use = t("speak.language.use", voice=self._labels[others[0]])
                button(use, partial(self.use_voice, others[0]), data_do="use-voice")
            else:
                tag("p", t("speak.language.none"), classes="soft")

    async def use_voice(self, id: str) -> None:
        self._voice.set_value(id)
        await self._change_voice()

    def _speak(self) -> None:
        t = self._page.t
        self._error.clear()
        if not self._text.text:
            with self._error:
                error_box(t("speak.say_something"), t("speak.say_something.hint"))
            ui.run_javascript("document.querySelector('#speech [name=text]').focus()")
            return
        self._status.text = ""
        request = {**self._build_request(), "input": self._text.value}
        self._player.speak(request, self._labels[str(self._voice.value)])

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
        by_engine: dict[str, list[dict[str, Any]]] = {}
        for line in event.args["lines"]:
            engine, _, voice = str(line["voice"]).partition("/")
            seed = int(line["seed"]) + int(request.get("seed", 0))
            given = {"text": line["text"], "voice": voice, "seed": seed}
            own = {name: value for name, value in given.items() if value}
            by_engine.setdefault(engine or request["engine"], []).append(own)
        for engine, lines in by_engine.items():  # an engine reads a whole job
            arguments = {
                "lines": lines, "format": event.args["format"], "engine": engine,
                "rate": request["speed"],
            }  # fmt: skip
            if engine == request["engine"]:
                arguments["voice"] = request["voice"]
                arguments |= {"set": request["options"]} if "options" in request else {}
            await self._page.api.post("/jobs", {"kind": "batch", "arguments": arguments})
        show_toast(self._page.t("lines.queued"), "good")


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
            else:
                with tag(
                    "div", classes="word-head", aria_hidden="true"
                ):  # each field has its label
                    for key in ("word", "say", "language"):
                        tag("span", t(f"lexicon.{key}"))
                with tag("div", classes="words"):
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
        self._focus_row(len(self._entries) - 1)

    def _remove_entry(self, entry: dict[str, Any]) -> None:
        number = next(n for n, one in enumerate(self._entries) if one is entry)
        self._show_table([one for one in self._entries if one is not entry])
        self._focus_row(number)

    def _focus_row(self, number: int) -> None:
        """Focus the row's word, or the button that adds one if there is no such row."""
        ui.run_javascript(f"""requestAnimationFrame(() => {{
            const row = document.querySelectorAll("#lexicon .word-row")[{number}];
            (row?.querySelector("input") ?? document.getElementById("add-word"))?.focus();
        }})""")

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
        data = parse_toml(text)
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
