"""The lexicon on the page: a table of words and how they are said, or the file itself."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

from anyrig.server.page.api import Refused
from anyrig.server.page.frame import Here
from anyrig.server.page.pieces import Field, button, card, empty, row, tag, toast, trouble
from anyrig.server.page.words import LANGUAGES
from anyrig.text import toml

_FIELDS = {"word", "say", "ipa", "language", "case"}


class LexiconCard:
    """The user's own lexicon.

    Args:
        here: what the page stands on.
        hear: speaks a word.
    """

    def __init__(self, here: Here, hear: Callable[[str], None]) -> None:
        self._here, self._hear = here, hear
        self._entries: list[dict[str, Any]] = []
        self._text: Field | None = None

    async def show(self) -> None:
        """Draw it."""
        t = self._here.t
        told = await self._here.api.get("/lexicon")
        with card(t("lexicon.title"), note=t("lexicon.note")) as sheet:
            sheet.attributes(id="lexicon")
            self._place = tag("div", classes="stack")
            self._trouble = tag("div", role="status")
            with row():
                button(t("lexicon.save"), self._save, kind="primary", id="save-lexicon")
                self._switch = button(t("lexicon.as_text"), self._other, kind="quiet",
                                      id="switch-lexicon")  # fmt: skip
        found = entries_of(told["text"])
        if found is None:
            self._as_text(told["text"])
        else:
            self._entries = found
            self._as_table()

    def _as_text(self, text: str) -> None:
        self._place.clear()
        with self._place:
            self._text = Field("area", self._here.t("lexicon.file"), text, rows=10, live=True,
                               spellcheck="false", name="lexicon")  # fmt: skip
        self._name_switch("lexicon.as_table")

    def _as_table(self) -> None:
        t = self._here.t
        self._text = None
        self._place.clear()
        with self._place:
            if not self._entries:
                empty(t("lexicon.none"), t("lexicon.none.hint"), icon_name="letters")
            for number, entry in enumerate(self._entries, 1):
                self._row(number, entry)
            with row():
                button(t("lexicon.add"), self._add, icon_name="plus", id="add-word")
        self._name_switch("lexicon.as_text")

    def _row(self, number: int, entry: dict[str, Any]) -> None:
        t = self._here.t

        def field(key: str, kind: str = "text", **more: Any) -> None:
            label = t("lexicon.of", what=t(f"lexicon.{key}"), number=number)
            Field(kind, label, entry.get(key, ""), bare=True, live=kind == "text",
                  placeholder=t(f"lexicon.{key}"), on_change=lambda v: entry.__setitem__(key, v),
                  **more)  # fmt: skip

        with tag("div", classes="word-row"):
            field("word")
            field("say")
            codes = {**LANGUAGES, **{c: c for c in [entry.get("language", "")] if c}}
            field("language", "select", options=[
                ("", t("lexicon.language.any")), *((c, c.upper()) for c in codes)])  # fmt: skip
            with tag("span", classes="line-buttons"):
                button("", lambda: self._hear(str(entry.get("word", ""))), kind="quiet",
                       icon_name="play", label=t("lexicon.hear", number=number))  # fmt: skip
                button("", lambda: self._remove(entry), kind="quiet", icon_name="bin",
                       label=t("lexicon.remove", number=number))  # fmt: skip

    def _add(self) -> None:
        self._entries.append({"word": "", "say": "", "language": ""})
        self._as_table()

    def _remove(self, entry: dict[str, Any]) -> None:
        self._entries = [one for one in self._entries if one is not entry]
        self._as_table()

    def _written(self) -> str:
        return str(self._text.value) if self._text is not None else text_of(self._entries)

    def _other(self) -> None:
        if self._text is None:
            self._as_text(text_of(self._entries))
            return
        found = entries_of(str(self._text.value))
        if found is None:
            t = self._here.t
            toast(t("lexicon.not_a_table"), "warn", t("lexicon.not_a_table.hint"))
            return
        self._entries = found
        self._as_table()

    async def _save(self) -> None:
        self._trouble.clear()
        try:
            await self._here.api.put("/lexicon", {"text": self._written()})
        except Refused as refused:
            with self._trouble:
                trouble(refused.title, refused.hint, lang=refused.lang)
            return
        toast(self._here.t("lexicon.saved"), "good")

    def _name_switch(self, key: str) -> None:
        self._switch.clear()
        with self._switch:
            tag("span", self._here.t(key))


def entries_of(text: str) -> list[dict[str, Any]] | None:
    """The rows of a lexicon's file; None for one that a table cannot show without losing some."""
    if any(line.lstrip().startswith("#") for line in text.splitlines()):
        return None
    try:
        told = toml.read(text)
    except tomllib.TOMLDecodeError:
        return None
    rows = told.pop("say", [])
    if told or not isinstance(rows, list):
        return None
    entries = []
    for one in rows:
        if not isinstance(one, dict) or "word" not in one or set(one) - _FIELDS:
            return None
        entry = {key: str(value) for key, value in one.items()}
        if "ipa" in entry:
            entry["say"] = f"/{entry.pop('ipa')}/"
        entries.append({"language": "", **entry})
    return entries


def text_of(entries: list[dict[str, Any]]) -> str:
    """The rows as a file; rows without a word are left out."""
    blocks = []
    for entry in entries:
        word, say = str(entry.get("word", "")).strip(), str(entry.get("say", "")).strip()
        if not word:
            continue
        ipa = len(say) > 2 and say[0] == say[-1] == "/"
        lines = ["[[say]]", f"word = {_quoted(word)}"]
        lines.append(f"ipa = {_quoted(say[1:-1])}" if ipa else f"say = {_quoted(say)}")
        lines += [
            f"{key} = {_quoted(entry[key])}" for key in ("language", "case") if entry.get(key)
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _quoted(text: str) -> str:
    """JSON's strings are TOML's, save for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
