"""How what is written is read: numbers, dates, money, abbreviations, addresses, symbols.

    normalise("Dr. Lee paid $3.50 on 4 May.")
    # Doctor Lee paid three dollars and fifty cents on the fourth of May.

One file of rules per language, proved by tables of written and spoken pairs in the tests.
"""

from __future__ import annotations

import importlib
from functools import lru_cache

from anyrig.speech.normalise.rules import Rule, Said, apply, joined

LANGUAGES = {
    "en": "anyrig.speech.normalise.english",
    "es": "anyrig.speech.normalise.spanish",
    "fr": "anyrig.speech.normalise.french",
}


def normalise(text: str, language: str = "en") -> str:
    """A text as it is read aloud; as it stands in a language without rules."""
    return joined(read(text, language))


def read(text: str, language: str = "en") -> list[Said]:
    """The same, stretch by stretch: every character of the text is in exactly one."""
    return apply(text, _rules(language.partition("-")[0].lower()))


@lru_cache(maxsize=8)
def _rules(language: str) -> tuple[Rule, ...]:
    module = LANGUAGES.get(language)
    return tuple(importlib.import_module(module).RULES) if module else ()
