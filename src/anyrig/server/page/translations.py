"""Texts of the page in English, Spanish and French, and how each writes numbers.

    t = get_translator("es")
    t("page.rig"), t("frame.left", time="2 min"), t.number(2.5, 1), t.bytes(2**30), t.duration(75)

The texts are in `locales/`, each key with its languages.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

LANGUAGES = {"en": "English", "es": "Español", "fr": "Français"}
LANGUAGE_COOKIE = "anyrig_language"
_FOLDER = Path(__file__).parent / "locales"
NBSP = "\u00a0"


@lru_cache
def load_texts() -> Mapping[str, Mapping[str, str]]:
    """Every key with its text by language."""
    texts: dict[str, Mapping[str, str]] = {}
    for path in sorted(_FOLDER.glob("*.toml")):
        for key, by_language in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if key in texts:
                raise ValueError(f"{path.name}: duplicate key {key}")
            texts[key] = by_language
    return texts


class Translator:
    """The texts and number formats of one language."""

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else "en"

    def __call__(self, key: str, **values: object) -> str:
        """The text of a key, with values in its {braces}; whole numbers as `number` writes them."""
        text = load_texts()[key][self.language]
        written = {
            name: self.number(value) if type(value) is int else value
            for name, value in values.items()
        }
        return text.format(**written) if values else text

    def find(self, key: str, default: str = "") -> str:
        """The text of a key that is built from data, and so may not exist."""
        return load_texts().get(key, {}).get(self.language, default)

    def number(self, value: float, digits: int = 0) -> str:
        text = f"{value:,.{digits}f}"
        if self.language == "en":
            return text
        return text.replace(",", NBSP).replace(".", ",")

    def percent(self, share: float) -> str:
        """A share of 1 as a percentage."""
        gap = "" if self.language == "en" else NBSP
        return f"{self.number(100 * share)}{gap}%"

    def bytes(self, value: float) -> str:
        size, unit = float(value), "B"
        for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
            if size < 1024 or unit == "TiB":
                break
            size /= 1024
        digits = 0 if unit == "B" or size >= 100 else 1
        return f"{self.number(size, digits)}{NBSP}{unit}"

    def quantity(self, value: float, unit: str) -> str:
        """With a decimal prefix: 31.8 GFLOP/s."""
        for prefix in ("", "k", "M", "G", "T"):
            if abs(value) < 1000 or prefix == "T":
                break
            value /= 1000
        return f"{self.number(value, 0 if value >= 100 else 1)}{NBSP}{prefix}{unit}"

    def duration(self, seconds: float) -> str:
        """45 s, 3 min 20 s, 2 h 5 min."""
        total = max(0, round(seconds))
        if total < 60:
            return f"{total}{NBSP}s"
        if total < 3600:
            rest = f" {total % 60}{NBSP}s" if total % 60 and total < 600 else ""
            return f"{total // 60}{NBSP}min{rest}"
        rest = f" {total % 3600 // 60}{NBSP}min" if total % 3600 >= 60 else ""
        return f"{total // 3600}{NBSP}h{rest}"


@lru_cache
def get_translator(language: str) -> Translator:
    """The translator of a language, of English for an unknown one."""
    return Translator(language)


def choose_language(accept: str) -> str:
    """The first language of an Accept-Language header that the page is translated to."""
    for part in accept.split(","):
        code = part.split(";")[0].strip().lower().split("-")[0]
        if code in LANGUAGES:
            return code
    return "en"
