"""Dates in digits, years that stand alone, and decades: 14/07/2024, in 1998, the '80s."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.reading import Reading

_DIGITS = re.compile(
    r"(?<![0-9A-Za-z$€£+])(?<![0-9][.,/:-])(?<![./-])"
    r"(?P<a>[0-9]{4}|[0-9]{1,2})(?P<mark>[./-])(?P<b>[0-9]{1,2})(?P=mark)(?P<c>[0-9]{4}|[0-9]{1,2})"
    r"(?![0-9A-SU-Za-z%€]|T(?![0-9])|[./-][0-9]|,[0-9])"
)
_CJK = re.compile(r"(?<![0-9])([12][0-9]{3}) ?[年년] ?([0-9]{1,2}) ?[月월] ?([0-9]{1,2}) ?[日일]")
_SPACED = re.compile(
    r"(?<![0-9A-Za-z$€£+.,/-])(?P<a>[0-9]{1,2})(?P<mark> ?[./] )(?P<b>[0-9]{1,2})(?P=mark)"
    r"(?P<c>[0-9]{4})(?![0-9A-Za-z])"
)
# From one to another: the first may lack its year, and its month where a dot stands behind the day.
_RANGE = re.compile(
    r"(?<![0-9A-Za-z$€£+])(?<![0-9][.,/:-])(?<![./-])"
    r"(?P<a>[0-9]{4}|[0-9]{1,2})(?P<mark>[./-])"
    r"(?:(?P<b>[0-9]{1,2})(?:(?P=mark)(?P<c>[0-9]{4}|[0-9]{1,2})?)?)?"
    r"(?P<joint> ?[\u2013\u2014] ?| - |--|[-/]"
    r"| (?:to|until|till|through|thru|au|jusqu'au|al|a|hasta|bis|ao|ate|tot|til"
    r"|(?P<list>and|et|y|und))"
    r"(?: (?:the|le|el|zum|dem|il|o))? )"
    r"(?P<a2>[0-9]{4}|[0-9]{1,2})(?P=mark)(?P<b2>[0-9]{1,2})(?P=mark)(?P<c2>[0-9]{4}|[0-9]{1,2})"
    r"(?![0-9A-SU-Za-z%€]|T(?![0-9])|[./-][0-9]|,[0-9])",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"\b(?:between|entre|zwischen|tra|fra|tussen)(?: (?:the|le|el|dem|il|o))? $", re.IGNORECASE
)
_NO_YEAR = re.compile(
    r"(?:\b(?:le|el|on|du|au|del|al|due|by|date[d:]*|fecha:?|dia|until|before|avant le|antes del"
    r"|desde el|depuis le|jusqu'au|hasta el) )(?P<a>[0-9]{2})/(?P<b>[0-9]{2})"
    r"(?![0-9A-Za-z%/.-]|[.,][0-9])",
    re.IGNORECASE,
)
_NO_DATE = re.compile(
    r"(?:sort ?code|version|v\.?|release|ip|section|article|chapter|build|ratio|score|isbn|page|ref"
    r"|fig(?:ure)?)[\W_]{0,3}$",
    re.IGNORECASE,
)
_SEASON = (
    r"(?:spring|summer|autumn|fall|winter|printemps|ete|automne|hiver|primavera|verano"
    r"|otono|invierno"
    r"|finales|principios|mediados|fin|debut|early|late|mid)(?: (?:of|de))?"
)
_SURE = (
    r"in|since|during|circa|year|nel|dal|em|seit|im jahr|en|depuis|desde|durante|annee|ano"
    rf"|l'an|{_SEASON}"
)
# Amounts stand behind these as well: only years of which people speak daily.
_MAYBE = (
    r"from|until|till|by|before|after|around|hasta|jusqu'en|avant|apres|despues de|antes de"
    r"|entre|between|hacia|vers"
)
_FOLLOWS = (
    r"(?=\s*$|\s*\n|[.;:!?)\]\"'»”](?![0-9])|,(?![0-9])|\s(?-i:[A-Z(])"
    r"|\s(?:the|a|an|and|but|he|she|it|they|we|i|by|for|with|to|at|on|in|when|after|before|as"
    r"|because|or|was|were|is|had|has|when|until|which|who|il|elle|on|la|le|les|et|mais|ou|pour"
    r"|par|avec|un|une|a|au|est|dans|avant|el|los|las|y|o|pero|por|para|con|se|su|una|que"
    r"|fue|hasta)\b)"
)
_YEAR = r"1[0-9]{3}|20[0-9]{2}"
_YEARS = re.compile(
    rf"\b(?:(?:{_SURE}) (?P<low>{_YEAR})|(?:{_MAYBE}) (?P<late>19[0-9]{{2}}|20[0-9]{{2}}))(?![0-9])"
    rf"(?:(?: ?[-\u2013] ?| (?:to|and|et|y|a|au|al) )(?P<high>{_YEAR}|[0-9]{{2}})(?![0-9]))?"
    rf"{_FOLLOWS}",
    re.IGNORECASE,
)
_LINE = re.compile(
    r"^[ \t*\u2022-]{0,6}(?P<late>(?!))?(?P<low>(?:19|20)[0-9]{2}) ?[-\u2013] ?"
    r"(?P<high>(?:19|20)[0-9]{2})"
    r"(?=[ \t]*(?:[:,;]|$|[ \t][A-Z(]))",
    re.MULTILINE,
)
_DECADE_WORDS = {
    "vingt": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60,
    "soixante-dix": 70, "septante": 70, "quatre-vingt": 80, "quatre-vingts": 80,
    "quatre-vingt-dix": 90, "nonante": 90, "veinte": 20, "treinta": 30, "cuarenta": 40,
    "cincuenta": 50, "sesenta": 60, "setenta": 70, "ochenta": 80, "noventa": 90,
}  # fmt: skip
_DECADE = r"1[0-9]{2}0|20[0-9]0"
_DECADE_ANCHOR = re.compile(r"[0-9]0'?s(?![a-z0-9])|(?<![a-z])(?:annees|anos) ")
_DECADE_ENGLISH = re.compile(
    rf"(?<![\w.,:/$€£+])(?<![0-9]-)(?:(?P<long>{_DECADE})'?|'(?P<short>[2-9]0))s(?![A-Za-z0-9-])"
)
# A number behind the word names the decade; before it, it counts years.
_DECADE_BEHIND = re.compile(
    rf"(?<![A-Za-z])(?:annees|anos) (?:(?P<long>{_DECADE})|(?P<short>[2-9]0)"
    rf"|(?P<word>{'|'.join(sorted(_DECADE_WORDS, key=len, reverse=True))}))"
    r"(?![A-Za-z0-9%-]|[.,][0-9]| ?[€$£])",
    re.IGNORECASE,
)
_MARKED = re.compile(r"[0-9] ?[./-] ?[0-9]")
_FOUR = re.compile(r"(?<![0-9])[12][0-9]{3}(?![0-9])")
_LIFE = re.compile(rf"\((?:c\. ?)?(?P<late>(?!))?(?P<low>{_YEAR}) ?[-\u2013] ?(?P<high>{_YEAR})\)")


def find_numeric(reading: Reading) -> Iterator[Entity]:
    """Dates of three numbers, and of two behind a word that says so."""
    regions = list(reading.around(_MARKED, 12, 24))
    for pattern in (_DIGITS, _SPACED):
        for found in reading.matches(pattern, regions):
            if entity := _numeric(reading, found):
                yield entity
    for found in reading.matches(_RANGE, regions):
        if entity := _ranged(reading, found):
            yield entity
    for found in reading.matches(_CJK, reading.islands):
        value = format_day(int(found[1]), int(found[2]), int(found[3]))
        score = 0.98 if value else 0.3
        yield reading.entity("date", found.span(), value, score=score, valid=bool(value))
    for found in reading.matches(_NO_YEAR, regions):
        values = _orders(reading.language(found.start()), int(found["a"]), int(found["b"]), None)
        if values:
            value = values[0] if len(values) == 1 else ""
            span = (found.start("a"), found.end())
            yield reading.entity("date", span, value, score=0.8, valid=True)


def _numeric(reading: Reading, found: re.Match[str]) -> Entity | None:
    first, middle, last = found["a"], found["b"], found["c"]
    if reading.labelled(found.start(), _NO_DATE, 16):
        return None
    if len(first) == 4:
        if len(last) == 4 or not 1 <= int(first) <= 2999:
            return None
        value = format_day(int(first), int(middle), int(last))
        if not value and found["mark"] != "-" and int(middle) > 12:
            return None
        return _entity(reading, found, [value] if value else [])
    if len(last) == 1 or (len(last) == 2 and not _short(found)):
        return None
    year = int(last) if len(last) == 4 else int(last) + (2000 if int(last) < 50 else 1900)
    if not 1000 <= year <= 2999:
        return None
    values = _orders(reading.language(found.start()), int(first), int(middle), year)
    if not values and (len(last) == 2 or int(first) > 31 or int(middle) > 31):
        return None  # some other number: nothing says that it is meant as a date
    return _entity(reading, found, values)


def _ranged(reading: Reading, found: re.Match[str]) -> Entity | None:
    """A stretch from one date to another; None for whatever else is written like that."""
    if reading.labelled(found.start(), _NO_DATE, 16) or not _is_range(reading, found):
        return None
    language = reading.language(found.start())
    orders = ["day", "month"] if found["b"] and found["mark"] == "/" else ["day"]
    if len(found["a2"]) == 4:
        orders = ["year"]
    values = [value for order in orders if (value := _span(found, order))]
    if not values:
        return None
    if len(values) == 2 and language != "en":
        day_first = language not in ("en-US", "es-US", "fr-CA")
        values = values[:1] if day_first else values[1:]
    return _entity(reading, found, values)


def _is_range(reading: Reading, found: re.Match[str]) -> bool:
    mark, joint, whole = found["mark"], found["joint"], bool(found["c"])
    if found["list"]:
        return bool(_BETWEEN.search(reading.plain, max(0, found.start() - 20), found.start()))
    if joint == mark or joint == "--" and mark != "-" or joint == "/" and not whole:
        return False
    if not whole and (mark == "-" or (mark == "." and not _ends_in_dot(found))):
        return False
    if found["b"] is None and mark != ".":
        return False
    return len(found["c2"]) != 1 or len(found["a2"]) == 4


def _ends_in_dot(found: re.Match[str]) -> bool:
    """`03.05.` and `3.`, before what joins them to another date."""
    return found.string[found.start("joint") - 1] == "."


def _span(found: re.Match[str], order: str) -> str:
    """The value of a stretch in an order of day and month; nothing where it holds none."""
    last = _parts(found["a2"], found["b2"], found["c2"], order)
    if not 1000 <= last[0] <= 2999:
        return ""
    if found["c"]:
        if (len(found["a"]) == 4) != (order == "year") or len(found["c"]) != len(found["c2"]):
            return ""
        first = _parts(found["a"], found["b"], found["c"], order)
    elif order == "year" or len(found["a"]) == 4:
        return ""
    else:
        day, month = int(found["a"]), int(found["b"] or found["b2"])
        day, month = (month, day) if order == "month" else (day, month)
        year = last[0] - ((month, day) > last[1:])
        first = (year, month, day) if found["b"] else (last[0], month, day)
    start, end = format_day(*first), format_day(*last)
    return f"{start}/{end}" if start and end and start < end else ""


def _parts(first: str, middle: str, last: str, order: str) -> tuple[int, int, int]:
    """Year, month and day of three numbers."""
    if order == "year":
        return int(first), int(middle), int(last)
    year = int(last) if len(last) == 4 else int(last) + (2000 if int(last) < 50 else 1900)
    day, month = (first, middle) if order == "day" else (middle, first)
    return year, int(month), int(day)


def _short(found: re.Match[str]) -> bool:
    """Whether a year of two digits may be meant: 14.07.24, not 1.2.24."""
    return found["mark"] == "/" or (len(found["b"]) == 2 and len(found["a"]) == 2)


def _entity(reading: Reading, found: re.Match[str], values: list[str]) -> Entity:
    span = (found.start("a"), found.end())
    if not values:
        return reading.entity("date", span, "", score=0.3, valid=False)
    value = values[0] if len(values) == 1 else ""
    details = {} if value else {"readings": " or ".join(values)}
    return reading.entity("date", span, value, score=0.97, valid=True, details=details)


def _orders(language: str, first: int, second: int, year: int | None) -> list[str]:
    """The days that two numbers may mean; one where the language or the calendar tells."""
    day_first, month_first = format_day(year, second, first), format_day(year, first, second)
    if not day_first or not month_first or first == second:
        return [value for value in (day_first or month_first,) if value]
    if language == "en":
        return [day_first, month_first]
    return [month_first if language in ("en-US", "es-US") else day_first]


def format_day(year: int | None, month: int, day: int) -> str:
    """The ISO form; `--07-14` without a year; empty for a day that does not exist."""
    try:
        datetime.date(year or 2000, month, day)
    except ValueError:
        return ""
    return f"{year:04d}-{month:02d}-{day:02d}" if year else f"--{month:02d}-{day:02d}"


def find_years(reading: Reading) -> Iterator[Entity]:
    """`in 1998`, `depuis 2001`, `(1879-1955)`: where what stands around says that it is a year."""
    regions = list(reading.around(_FOUR, 24, 24))
    for pattern in (_YEARS, _LIFE, _LINE):
        for found in reading.matches(pattern, regions):
            name = "low" if found["low"] else "late"
            low, high = found[name], found["high"]
            if high and len(high) == 2:
                high = low[:2] + high
            if high and int(high) < int(low):
                continue
            span = (found.start(name), found.end("high") if high else found.end(name))
            value = f"{low}/{high}" if high else low
            yield reading.entity("date", span, value, score=0.85)


def find_decades(reading: Reading) -> Iterator[Entity]:
    """Every decade; one of two digits is of the last century."""
    regions = list(reading.around(_DECADE_ANCHOR, 8, 24))
    for pattern in (_DECADE_ENGLISH, _DECADE_BEHIND):
        for found in reading.matches(pattern, regions):
            groups = found.groupdict()
            short = groups["short"] or _DECADE_WORDS.get((groups.get("word") or "").lower(), 0)
            first = int(groups["long"] or 1900 + int(short))
            yield reading.entity("date", found.span(), f"{first}/{first + 9}", score=0.9)
