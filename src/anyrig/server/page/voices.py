"""Voices as options of a select: by language, each with its name, language and engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from anyrig.server.page.translations import Translator

Voice = Mapping[str, Any]
_PIPER_NAME = re.compile(r"[a-z]{2,3}[_-][A-Z]{2}-(\w+)-(?:x_low|low|medium|high)")
_ACCENT = re.compile(r"(.+?),? (American|British)")
_REGIONS = {"American": "US", "British": "GB"}


def list_ready(config: Mapping[str, Any]) -> list[Voice]:
    """Voices of `/config` whose engine is ready."""
    ready = {one["name"] for one in config.get("engines", ()) if one.get("ready", True)}
    return [voice for voice in config.get("details", ()) if voice.get("engine") in ready]


def get_id(voice: Voice) -> str:
    return f"{voice['engine']}/{voice['name']}"


def build_sample_url(engine: str, voice: str, language: str = "") -> str:
    """Where a voice says a sentence, in a language that it speaks."""
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
    # The API has no region of a voice yet, only its English title.
    match = _ACCENT.fullmatch(name) if t.language != "en" else None
    return f"{match[1]} ({t(f'speak.region.{_REGIONS[match[2]]}')})" if match else name
