"""What the page says, in English, Spanish and French.

    t = words("es")
    t("page.rig"), t("frame.left", span="2 min"), t.number(2.5, 1), t.bytes(2**30), t.span(75)

One file a page in `locales/`: each key with its three languages under it, so that a missing one is
seen at a glance and by a test.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

LANGUAGES = {"en": "English", "es": "Español", "fr": "Français"}
LANGUAGE_COOKIE = "anyrig_language"
_FOLDER = Path(__file__).parent / "locales"
_NARROW = "\u00a0"
"""A space that does not break, between a number and its unit."""


@lru_cache
def tables() -> Mapping[str, Mapping[str, str]]:
    """Every key with its text by language."""
    found: dict[str, Mapping[str, str]] = {}
    for path in sorted(_FOLDER.glob("*.toml")):
        for key, texts in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if key in found:
                raise ValueError(f"{path.name}: {key} is said twice")
            found[key] = texts
    return found


class Words:
    """The words of one language."""

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"

    def __call__(self, key: str, **values: object) -> str:
        """The text of a key, with values in its {braces}."""
        text = tables()[key][self.language]
        return text.format(**values) if values else text

    def known(self, key: str, otherwise: str = "") -> str:
        """The text of a key that comes from data, and so may have none."""
        texts = tables().get(key)
        return texts[self.language] if texts else otherwise

    def number(self, value: float, digits: int = 0) -> str:
        """A number as it is written in this language."""
        text = f"{value:,.{digits}f}"
        if self.language == "en":
            return text
        return text.replace(",", _NARROW).replace(".", ",")

    def percent(self, share: float) -> str:
        """A share of 1."""
        gap = "" if self.language == "en" else _NARROW
        return f"{self.number(100 * share)}{gap}%"

    def bytes(self, value: float) -> str:
        """An amount of memory or of disk."""
        size, unit = float(value), "B"
        for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
            if size < 1024 or unit == "TiB":
                break
            size /= 1024
        digits = 0 if unit == "B" or size >= 100 else 1
        return f"{self.number(size, digits)}{_NARROW}{unit}"

    def scaled(self, value: float, unit: str) -> str:
        """An amount by thousands: 31.8 GFLOP/s."""
        for letter in ("", "k", "M", "G", "T"):
            if abs(value) < 1000 or letter == "T":
                break
            value /= 1000
        return f"{self.number(value, 0 if value >= 100 else 1)}{_NARROW}{letter}{unit}"

    def span(self, seconds: float) -> str:
        """A span of time: 45 s, 3 min 20 s, 2 h 5 min."""
        whole = max(0, round(seconds))
        if whole < 60:
            return f"{whole}{_NARROW}s"
        if whole < 3600:
            rest = f" {whole % 60}{_NARROW}s" if whole % 60 and whole < 600 else ""
            return f"{whole // 60}{_NARROW}min{rest}"
        rest = f" {whole % 3600 // 60}{_NARROW}min" if whole % 3600 >= 60 else ""
        return f"{whole // 3600}{_NARROW}h{rest}"


@lru_cache
def words(language: str) -> Words:
    """The words of a language; English where it is not known."""
    return Words(language)


def asked_for(accept: str) -> str:
    """The first of a browser's languages that the page speaks."""
    for part in accept.split(","):
        code = part.split(";")[0].strip().lower().split("-")[0]
        if code in LANGUAGES:
            return code
    return "en"
