"""Voices as a person picks one: by language, each with its name, its language and its engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from anyrig.server.page.words import Words

Voice = Mapping[str, Any]
_ACCENT = re.compile(r"(.+?),? (American|British)")
_CODED = re.compile(r"[a-z]{2,3}[_-][A-Z]{2}-(\w+)-(?:x_low|low|medium|high)")
_REGIONS = {"American": "US", "British": "GB"}


def ready(config: Mapping[str, Any]) -> list[Voice]:
    """Voices of `/config` whose engine can speak here."""
    able = {one["name"] for one in config.get("engines", ()) if one.get("ready", True)}
    return [one for one in config.get("details", ()) if one.get("engine") in able]


def key(voice: Voice) -> str:
    """What a voice is chosen by."""
    return f"{voice['engine']}/{voice['name']}"


def tongue(t: Words, code: str) -> str:
    """A language in the page's own; its code where it has no name there."""
    return t.known(f"documents.tongue.{code.split('-')[0]}", code)


def title(t: Words, voice: Voice) -> str:
    """What a voice is called, without codes; where it is from in the page's language."""
    name = str(voice.get("title") or voice["name"])
    coded = _CODED.fullmatch(name)
    if coded:
        return coded[1].replace("_", " ").title()
    accent = _ACCENT.fullmatch(name)
    if accent and t.language != "en":
        return f"{accent[1]} ({t(f'speak.region.{_REGIONS[accent[2]]}')})"
    return name


def options(t: Words, voices: Sequence[Voice], first: str = "") -> list[tuple[str, str, str]]:
    """For a select: grouped by language, the first one's on top, the others by their names.

    Args:
        t: the words.
        voices: as `/config` tells them.
        first: the code of a language.
    """
    first = (first or t.language)[:2]

    def place(voice: Voice) -> tuple[bool, str]:
        code = str(voice.get("language") or "")
        return code[:2] != first, tongue(t, code)

    return [(key(one), label(t, one), _upper(tongue(t, str(one.get("language") or ""))))
            for one in sorted(voices, key=place)]  # fmt: skip


def label(t: Words, voice: Voice) -> str:
    """All that tells one voice from another."""
    said = (title(t, voice), tongue(t, str(voice.get("language") or "")), str(voice["engine"]))
    return " · ".join(one for one in said if one)


def _upper(word: str) -> str:
    return word[:1].upper() + word[1:]
