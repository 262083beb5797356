"""Names of months and weekdays, and days in words; in plain letters, as `reading.Reading.plain`.

Months are Babel's (Unicode CLDR). English, French, Spanish and German names are known in texts of
every language; those of another language in its own texts.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property, lru_cache

from anyrig.documents.entities.grammars import numbers
from anyrig.documents.entities.reading import read

_SHARED = ("en", "fr", "es", "de")
_LANGUAGES = frozenset(
    "bg ca cs da el et eu fi gl hr hu id is it lt lv ms mt nb nl no pl pt ro ru sk sl sq sr sv tr"
    " uk".split()
)
_OTHER_MONTHS = {"setiembre": 9}
_OTHER_SHORT = {"sept": 9, "fev": 2, "set": 9, "okt": 10, "dez": 12, "fevr": 2, "janv": 1}
_OTHER_SHORT |= {"avr": 4, "juil": 7}
_CAPITAL_ONLY = frozenset(
    "january february march april may june july august september october november december januar"
    " februar marz juni juli oktober dezember jan apr aug mar jun jul".split()
)
"""`may` and `march` are other words without their capital."""
WEEKDAYS = (
    "(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|tues?|weds?|thurs?|thu|fri|sat|sun)"
    "|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
    "|lunes|martes|miercoles|jueves|viernes|sabado|domingo|domenica"
    "|(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag)"
    "|(?:lunedi|martedi|mercoledi|giovedi|venerdi)"
    "|(?:segunda|terca|quarta|quinta|sexta)(?:-feira)?"
    "|maandag|dinsdag|woensdag|donderdag|vrijdag|zaterdag|zondag"
)
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
_CARDINALS = frozenset(
    (
        "one two three four five seven eight nine ten eleven twelve thirteen fourteen fifteen "
        "sixteen seventeen eighteen nineteen twenty thirty"
    ).split()
)
"""English does not use them for days."""


def _plain(name: str) -> str:
    return read(unicodedata.normalize("NFC", name)).plain.lower().strip(". ")


@lru_cache(maxsize=64)
def _month_names(language: str) -> tuple[dict[str, int], dict[str, int]]:
    """Whole and short names of months as CLDR has them."""
    from babel import Locale

    months = Locale.parse(language).months
    whole: dict[str, int] = {}
    short: dict[str, int] = {}
    for use in ("format", "stand-alone"):
        for width, found in (("wide", whole), ("abbreviated", short)):
            for number, name in months[use][width].items():
                plain = _plain(str(name))
                if len(plain) > 2 and not any(map(str.isdigit, plain)):
                    found.setdefault(plain, int(number))
    return whole, {name: number for name, number in short.items() if name not in whole}


@dataclass(frozen=True)
class Calendar:
    """Months as a language writes them."""

    months: dict[str, int]
    short_months: dict[str, int]

    @cached_property
    def month_pattern(self) -> str:
        """Any name of a month; NFD accents may stand behind a vowel."""
        names = sorted({*self.months, *self.short_months}, key=len, reverse=True)
        loose = "[\\u0300-\\u036f]?"
        spelt = ("".join(f"{c}{loose}" if c in "aeiou" else c for c in name) for name in names)
        return f"(?:{'|'.join(spelt)})"

    @cached_property
    def anchor(self) -> re.Pattern[str]:
        """Any name of a month as a word, in lower case."""
        return re.compile(rf"(?<![^\W\d_]){self.month_pattern}(?![^\W\d_])")

    def find_month(self, word: str, *, day: bool, year: bool, dot: bool) -> int | None:
        """The month that a word names here; None when it may as well be another word.

        Args:
            word: as it stands, in plain letters.
            day: whether a day stands beside it.
            year: whether a year does.
            dot: whether a dot follows it.
        """
        name = "".join(c for c in word.lower() if not unicodedata.combining(c))
        capital = word[0].isupper()
        if name in self.months:
            is_certain = capital or name not in _CAPITAL_ONLY
            return self.months[name] if is_certain or (year and day) else None
        if not (capital or year or dot):
            return None
        return self.short_months.get(name) if day or year else None


def calendar_name(language: str) -> str:
    """Which calendar a language's texts are read with; "" is the one that several share."""
    name = language.partition("-")[0]
    return name if name in _LANGUAGES else ""


@lru_cache(maxsize=64)
def get_calendar(name: str) -> Calendar:
    months, short = dict(_OTHER_MONTHS), dict(_OTHER_SHORT)
    for language in (*_SHARED, *([name] if name else [])):
        whole, abbreviated = _month_names(language)
        months |= whole
        short |= abbreviated
    return Calendar(months, {name: number for name, number in short.items() if name not in months})


@lru_cache(maxsize=1)
def days() -> dict[str, int]:
    """Days in words: first to thirty-first, premier to trente et un, uno to treinta y uno."""
    found = {name: number for number, name in enumerate(_ORDINALS, 1)}
    for tens, start in (("twenty", 20), ("thirty", 30)):
        found |= {f"{tens}-{name}": start + n for n, name in enumerate(_ORDINALS[:9], 1)}
    found |= {"thirtieth": 30, "premier": 1, "primero": 1, "treinta y uno": 31}
    words = numbers.word_values()
    for name, number in words.items():
        if 1 <= number <= 31 and name not in ("a", "an", "une", "una"):
            found.setdefault(name, number)
    found |= {"dix-sept": 17, "dix-huit": 18, "dix-neuf": 19, "vingt et un": 21, "trente et un": 31}
    to_nine = "deux trois quatre cinq six sept huit neuf".split()
    found |= {f"vingt-{name}": 20 + words[name] for name in to_nine}
    return {name: n for name, n in found.items() if n <= 31 and name not in _CARDINALS}


@lru_cache(maxsize=1)
def day_pattern() -> str:
    """Any day in words."""
    return f"(?:{'|'.join(sorted(days(), key=len, reverse=True))})"
