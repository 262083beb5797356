"""Dates in digits, and years that stand alone."""

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
    r"| (?:to|until|till|through|thru|au|jusqu'au|al|a|hasta|bis|(?P<list>and|et|y|und))"
    r"(?: (?:the|le|el|zum|dem))? )"
    r"(?P<a2>[0-9]{4}|[0-9]{1,2})(?P=mark)(?P<b2>[0-9]{1,2})(?P=mark)(?P<c2>[0-9]{4}|[0-9]{1,2})"
    r"(?![0-9A-SU-Za-z%€]|T(?![0-9])|[./-][0-9]|,[0-9])",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\b(?:between|entre|zwischen)(?: (?:the|le|el|dem))? $", re.IGNORECASE)
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
_SURE = rf"in|since|during|circa|year|en|depuis|desde|durante|annee|ano|l'an|{_SEASON}"
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
        value = _iso(int(first), int(middle), int(last))
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
    start, end = _iso(*first), _iso(*last)
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
    day_first, month_first = _iso(year, second, first), _iso(year, first, second)
    if not day_first or not month_first or first == second:
        return [value for value in (day_first or month_first,) if value]
    if language.partition("-")[0] in ("fr", "es") and language not in ("fr-CA", "es-US"):
        return [day_first]
    if language == "en":
        return [day_first, month_first]
    return [month_first if language in ("en-US", "es-US") else day_first]


def _iso(year: int | None, month: int, day: int) -> str:
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
