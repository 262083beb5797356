"""What the verbalizers of Spanish and French share: units by Babel, addresses, phrases."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from anyrig.speech.normalize import spell
from anyrig.text.values import Formula, Phrase, Value


@dataclass(frozen=True)
class Grammar:
    cardinal: Callable[[int], str]
    digits: Callable[[str], str]
    spoken_letters: frozenset[str]
    """Ends of addresses without a vowel that are said as a word all the same."""
    feminine_units: re.Pattern[str]
    min_spelled: int = 2
    """Letters without a vowel in an address are spelled from this many on."""

    def __hash__(self) -> int:
        return id(self)


@lru_cache(maxsize=512)
def name_unit(unit: str, language: str, grammar: Grammar) -> tuple[str, str, str]:
    """Singular, plural and gender of a unit that CLDR knows."""
    from babel.units import format_unit

    one, many = (
        format_unit(count, unit, length="long", locale=language).replace(str(count), "").strip()
        for count in (1, 2)
    )
    gender = "f" if grammar.feminine_units.search(one) else "m"
    return one.replace("’", "'"), many.replace("’", "'"), gender


def speak_web(written: str, signs: Mapping[str, str], grammar: Grammar) -> str:
    """An address, sign by sign; letters that cannot be said as a word are spelled."""
    words = []
    for part in re.findall(r"\d+|[^\W\d_]+|.", written, re.DOTALL):
        if part.isdecimal():
            long = len(part) > 4 or part[0] == "0"
            words.append(grammar.digits(part) if long else grammar.cardinal(int(part)))
        elif part.isalpha():
            upper = part.upper()
            vowelless = grammar.min_spelled <= len(upper) <= 4 and not re.search(
                "[AEIOUYÁÉÍÓÚ]", upper
            )
            spelled = vowelless and upper not in grammar.spoken_letters
            words.append(spell(upper) if spelled else part)
        elif part in signs:
            words.append(signs[part])
    return " ".join(words)


def join_phrase(phrase: Phrase, speak: Callable[[Value], str]) -> str:
    """Words and values with a space between; an empty part makes a space at an end."""
    words = " ".join(part if isinstance(part, str) else speak(part) for part in phrase.parts)
    return words.replace(" ,", ",")


def speak_formula(formula: Formula, grammar: Grammar) -> str:
    """Elements letter by letter, counts as numbers: `C O dos`."""
    parts = (
        grammar.cardinal(int(part)) if part.isdecimal() else spell(part.upper())
        for part in formula.parts
    )
    return " ".join(parts)
