"""Months, weekdays and days in words, in plain letters: English, French, Spanish.

German months are known as well, with days in digits.
"""

from __future__ import annotations

import re
from functools import lru_cache

from anyrig.documents.entities.grammars import number_words

_MONTHS = {
    "en": "january february march april may june july august september october november december",
    "fr": "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
    "de": "januar februar marz april mai juni juli august september oktober november dezember",
}
_ALSO = {"setiembre": 9}
_SHORT = {
    "en": "jan feb mar apr may jun jul aug sep oct nov dec",
    "fr": "janv fevr mars avr mai juin juil aout sept oct nov dec",
    "es": "ene feb mar abr may jun jul ago sep oct nov dic",
}
_ALSO_SHORT = {"sept": 9, "fev": 2, "set": 9, "okt": 10, "dez": 12}
_CAPITAL_ONLY = frozenset(_MONTHS["en"].split()) | frozenset(_MONTHS["de"].split()) - {"mai"}
_CAPITAL_ONLY |= {"jan", "apr", "aug", "mar", "may", "jun", "jul"}
"""English ones: `may` and `march` are other words without their capital."""
WEEKDAYS = (
    "(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|tues?|weds?|thurs?|thu|fri|sat|sun)"
    "|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
    "|lunes|martes|miercoles|jueves|viernes|sabado|domingo"
)
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()


@lru_cache(maxsize=1)
def months() -> dict[str, int]:
    """Each name of a month, whole."""
    found = dict(_ALSO)
    for names in _MONTHS.values():
        found |= {name: number for number, name in enumerate(names.split(), 1)}
    return found


@lru_cache(maxsize=1)
def short_months() -> dict[str, int]:
    """Each short name of a month that is not a whole one as well."""
    found = dict(_ALSO_SHORT)
    for names in _SHORT.values():
        found |= {name: number for number, name in enumerate(names.split(), 1)}
    return {name: number for name, number in found.items() if name not in months()}


@lru_cache(maxsize=1)
def month_pattern() -> str:
    """Any name of a month; NFD accents may stand behind a vowel."""
    names = sorted({*months(), *short_months()}, key=len, reverse=True)
    loose = "[\\u0300-\\u036f]?"
    spelt = ("".join(f"{c}{loose}" if c in "aeiou" else c for c in name) for name in names)
    return f"(?:{'|'.join(spelt)})"


@lru_cache(maxsize=1)
def anchor() -> re.Pattern[str]:
    """Any name of a month as a word, in small letters."""
    return re.compile(rf"(?<![a-z]){month_pattern()}(?![a-z])")


@lru_cache(maxsize=1)
def days() -> dict[str, int]:
    """Days in words: first to thirty-first, premier to trente et un, uno to treinta y uno."""
    found = {name: number for number, name in enumerate(_ORDINALS, 1)}
    for tens, start in (("twenty", 20), ("thirty", 30)):
        found |= {f"{tens}-{name}": start + n for n, name in enumerate(_ORDINALS[:9], 1)}
    found |= {"thirtieth": 30, "premier": 1, "primero": 1, "treinta y uno": 31}
    french = number_words.worth()
    for name, number in french.items():
        if 1 <= number <= 31 and name not in ("a", "an", "une", "una"):
            found.setdefault(name, number)
    found |= {"dix-sept": 17, "dix-huit": 18, "dix-neuf": 19, "vingt et un": 21, "trente et un": 31}
    found |= {f"vingt-{name}": 20 + number for name, number in _to_nine(french)}
    english = frozenset(_english())
    return {name: n for name, n in found.items() if n <= 31 and name not in english}


def _to_nine(worth: dict[str, int]) -> list[tuple[str, int]]:
    names = "deux trois quatre cinq six sept huit neuf".split()
    return [(name, worth[name]) for name in names]


def _english() -> list[str]:
    """Cardinals, which English does not use for days."""
    return (
        "one two three four five seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen twenty thirty"
    ).split()


@lru_cache(maxsize=1)
def day_pattern() -> str:
    """Any day in words."""
    return f"(?:{'|'.join(sorted(days(), key=len, reverse=True))})"


def month_of(word: str, *, day: bool, year: bool, dot: bool) -> int | None:
    """The month that a word names here; None when it may as well be another word.

    Args:
        word: as it stands, in plain letters.
        day: whether a day stands beside it.
        year: whether a year does.
        dot: whether a dot follows it.
    """
    name = "".join(c for c in word.lower() if c.isascii())
    capital = word[0].isupper()
    if name in months():
        sure = capital or name not in _CAPITAL_ONLY
        return months()[name] if sure or (year and day) else None
    if not (capital or year or dot):
        return None
    return short_months().get(name) if day or year else None
