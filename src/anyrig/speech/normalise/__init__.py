"""How what is written is read: numbers, dates, money, abbreviations, addresses, symbols.

    normalise("Dr. Lee paid $3.50 on 4 May.")
    # Doctor Lee paid three dollars and fifty cents on the fourth of May.

One set of rules per language: CLEAN takes the dress off (markup, entities, cut words; `markup.py`
has what languages share) and RULES read what is left. Proved by tables of written and spoken
pairs in the tests.
"""

from __future__ import annotations

import importlib
from functools import lru_cache

from anyrig.speech.normalise.rules import Rule, Said, after, apply, joined

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
    clean, rules = _rules(language.partition("-")[0].lower())
    return after(apply(text, clean), rules)


@lru_cache(maxsize=8)
def _rules(language: str) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """A language's rules, after its CLEAN, where it has any, for what is read first."""
    name = LANGUAGES.get(language)
    if not name:
        return (), ()
    module = importlib.import_module(name)
    return tuple(getattr(module, "CLEAN", ())), tuple(module.RULES)
