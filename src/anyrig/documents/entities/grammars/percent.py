"""Percentages: 12.5 %, ten per cent, doce por ciento."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars import number_words
from anyrig.documents.entities.grammars.numbers import NUMBER, parsed, told
from anyrig.documents.entities.reading import Reading

_SIGN = (
    r"(?: ?[%\uff05](?![\w%])"
    r"| ?-?(?:per ?cent|pct|pour ?-?cents?|p\. ?100|por ?ciento)(?![A-Za-z]))"
)


_ANCHOR = re.compile(r"[%\uff05]|per ?cent|pct|pour ?-?cent|p\. ?100|por ?ciento")
_WORD = re.compile(r"per ?cent|pct|pour ?-?cent|por ?ciento")


@lru_cache(maxsize=1)
def _digits() -> re.Pattern[str]:
    return re.compile(
        rf"(?<![\w.,%/])(?P<sign>(?<![0-9)\]])[-+\u00b1])?(?P<low>{NUMBER})"
        rf"(?:(?: ?%? ?[-\u2013] ?| (?:to|a) )(?P<high>{NUMBER}))?{_SIGN}",
        re.IGNORECASE,
    )


@lru_cache(maxsize=1)
def _words() -> re.Pattern[str]:
    return re.compile(rf"({number_words.pattern()}){_SIGN}", re.IGNORECASE)


def find(reading: Reading) -> Iterator[Entity]:
    """Every percentage."""
    regions = list(reading.around(_ANCHOR, 60, 12))
    for found in reading.matches(_digits(), regions):
        yield _of_digits(reading, found)
    for found in reading.matches(_words(), reading.around(_WORD, 120, 12)):
        skip = number_words.without_article(found[1])
        number = number_words.value(found[1][skip:], reading.language(found.start()))
        if number is not None and not number_words.is_fraction(reading.lower, found.start()):
            span = (found.start() + skip, found.end())
            yield reading.entity("percent", span, f"{number}%", score=0.97)


def _of_digits(reading: Reading, found: re.Match[str]) -> Entity:
    language = reading.language(found.start())
    numbers = [parsed(text, language) for text in (found["low"], found["high"]) if text]
    sign = "-" if found["sign"] == "-" else ""
    value = "-".join(told(number) for number in numbers if number is not None)
    return reading.entity("percent", found.span(), f"{sign}{value}%", score=0.99)
