"""Dates: 14 July 2024, le 1er mai, 14 de julio de 2024, 14/07/2024, 2024-07-14, 3-5 May.

The time of day is left out. A day that no calendar has is found and marked, so that nothing else is
made of it. What may be two days (03/04/2024 in English) has no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars import date_words
from anyrig.documents.entities.grammars.date_numbers import (
    find_decades,
    find_numeric,
    find_years,
    format_day,
)
from anyrig.documents.entities.grammars.date_words import calendar_name, get_calendar
from anyrig.documents.entities.reading import Reading, Span

_ORDINAL = r"(?:st|nd|rd|th|er|re|eme|°|\.?[ºª]|\.(?= [^\W\d_]| ?[-\u2013\u2014]))?"
_YEAR = r"(?P<year>[0-9]{4}(?![0-9]|[.,][0-9])|'[0-9]{2}(?![0-9]))"
_LATER_YEAR = _YEAR.replace("<year>", "<later_year>")
_THE = r"(?:the |le |el |dem |den |zum |il |lo |l'|o |dia )?"
_RANGE = (
    r"to|until|till|through|thru|au|jusqu'au|al|a|hasta|bis|ao|ate(?: ao| a)?|fino al?"
    r"|tot(?: en met)?|til|do"
)
_LIST = r"and|et|y|e|und|en|och|og|&"
_TO = rf"(?P<joint> ?[-\u2013\u2014/] ?| (?:{_RANGE}|{_LIST}) {_THE})"
_THROUGH = rf"(?P<through>,? ?[-\u2013\u2014] ?|,? (?:{_RANGE}) {_THE})"
_WEEKDAY = rf"(?:(?:{date_words.WEEKDAYS})\.?,? {_THE})?"
_STREET = re.compile(
    r"(?:\b(?:rue|avenue|av\.|place|boulevard|bd|quai|pont|calle|c/|plaza|avenida|avda\.?|paseo"
    r"|hospital|estadio|barrio|colonia|metro|estacion|ruta|street|square|plazuela|glorieta|lycee"
    r"|college|universite|universidad|instituto)(?: (?:du|de|del|des|la|le|el))*) $",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"\b(?:between|entre|zwischen|tra|fra|tussen|mellan|mellem)(?: (?:the|le|el|dem|den|il|o))? $",
    re.IGNORECASE,
)
_JOINED = re.compile(rf",? ?(?:[-\u2013\u2014]|{_RANGE}) ?{_THE}$", re.IGNORECASE)
_ANDED = re.compile(rf" (?:{_LIST}) {_THE}$", re.IGNORECASE)
_COUNTED = re.compile(r"[0-9](?:st|nd|rd|th|er|\.|[ºª])?[ -](?:of |de )?$", re.IGNORECASE)


@lru_cache(maxsize=64)
def _day_first(language: str) -> re.Pattern[str]:
    month, words = get_calendar(language).month_pattern, date_words.day_pattern()
    of = r"(?:[ -](?:of |de |d')?(?:the month of |mes de )?)"
    year = r"(?:(?:,? |,|-|(?<=\.))(?:de |del |of |del ano )?{})?"
    return re.compile(
        rf"(?<![\w.,/:+$€£-])(?P<weekday>(?:{date_words.WEEKDAYS})\.?,? {_THE})?"
        rf"(?P<day>[0-9]{{1,2}}|{words}){_ORDINAL}"
        rf"(?:{_TO}{_WEEKDAY}(?P<day2>[0-9]{{1,2}}|{words}){_ORDINAL})?"
        rf"{of}(?P<month>{month})(?![^\W\d_])(?P<dot>\.)?{year.format(_YEAR)}"
        rf"(?:(?(day2)(?!)){_THROUGH}(?P<later>{_WEEKDAY}(?P<later_day>[0-9]{{1,2}}|{words})"
        rf"{_ORDINAL}{of}(?P<later_month>{month})(?![^\W\d_])(?P<later_dot>\.)?"
        rf"{year.format(_LATER_YEAR)}))?",
        re.IGNORECASE,
    )


@lru_cache(maxsize=64)
def _month_first(language: str) -> re.Pattern[str]:
    month = get_calendar(language).month_pattern
    day = r"[ -](?:the )?(?P<{}>[0-9]{{1,2}}(?![0-9:]|[.][0-9]| ?[%€$£]))(?:st|nd|rd|th)?"
    year = r"(?:(?:, ?| |-)(?:of )?{})?"
    return re.compile(
        rf"(?<![\w.-])(?P<weekday>(?:{date_words.WEEKDAYS})\.?,? )?(?P<month>{month})(?![^\W\d_])"
        rf"(?P<dot>\.)?{day.format('day')}"
        rf"(?:{_TO}{_WEEKDAY}(?P<day2>[0-9]{{1,2}}(?![0-9:%]))(?:st|nd|rd|th)?"
        rf"(?! (?:of )?{month}(?![^\W\d_])))?{year.format(_YEAR)}"
        rf"(?:(?(day2)(?!)){_THROUGH}(?P<later>{_WEEKDAY}(?P<later_month>{month})(?![^\W\d_])"
        rf"(?P<later_dot>\.)?{day.format('later_day')}{year.format(_LATER_YEAR)}))?",
        re.IGNORECASE,
    )


@lru_cache(maxsize=64)
def _year_first(language: str) -> re.Pattern[str]:
    """2024. július 14., 2024 m. liepos 14, 2024年7月14日 is in `date_numbers`."""
    month = get_calendar(language).month_pattern
    return re.compile(
        rf"(?<![\w.])(?P<year>[12][0-9]{{3}})\.? (?:m\. )?(?P<month>{month})"
        r"(?![^\W\d_])(?P<dot>\.)? (?P<day>[0-9]{1,2})(?:\.|(?![\w%]|[.,][0-9]))"
        r"(?P<day2>(?!))?(?P<joint>(?!))?(?P<later>(?!))?",
        re.IGNORECASE,
    )


@lru_cache(maxsize=64)
def _month_alone(language: str) -> re.Pattern[str]:
    month = get_calendar(language).month_pattern
    return re.compile(
        rf"(?<![\w.])(?<![^0-9]-)(?:(?P<from>{month})(?![^\W\d_])(?P<from_dot>\.)?"
        rf"(?P<joint> ?[-\u2013\u2014/] ?| (?:{_RANGE}|{_LIST}) ))?"
        rf"(?P<month>{month})(?![^\W\d_])(?P<dot>\.)?"
        rf",?[ -](?:of |de |del |del ano )?{_YEAR}",
        re.IGNORECASE,
    )


@lru_cache(maxsize=64)
def _month_before(language: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?<![^\W\d_]){get_calendar(language).month_pattern}\.? (?:the )?$", re.IGNORECASE
    )


def find(reading: Reading) -> Iterator[Entity]:
    """Every date, each stretch of text in one at most."""
    found = list(find_numeric(reading))
    rest = [*find_years(reading), *find_decades(reading)]
    for name in dict.fromkeys(map(calendar_name, reading.languages)):
        regions = list(reading.around(get_calendar(name).anchor, 60, 40))
        for pattern in (_day_first(name), _month_first(name), _year_first(name)):
            found += _with_day(reading, pattern, regions, name)
        rest += _months(reading, regions, name)
    taken = _apart(found)
    covered = [(one.start, one.end) for one in taken]
    taken = _apart([*taken, *(one for one in rest if not _within(one, covered))])
    yield from _intervals(reading, taken)


def _with_day(
    reading: Reading, pattern: re.Pattern[str], regions: Sequence[Span], calendar: str
) -> Iterator[Entity]:
    for found in reading.matches(pattern, regions):
        in_language = calendar_name(reading.language(found.start())) == calendar
        if not in_language or _is_street(reading, found.start()):
            continue
        first = _first(reading, found, calendar)
        later = _later(reading, found, calendar) if found["later"] else None
        value = _range(first.value, later.value) if first and later else ""
        if first and later and value:
            text = reading.text[first.start : later.end]
            yield replace(first, text=text, end=later.end, value=value)
        else:
            yield from (one for one in (first, later) if one)


def _first(reading: Reading, found: re.Match[str], calendar: str) -> Entity | None:
    """The date that a match begins with; it may be of two days."""
    month = get_calendar(calendar).find_month(
        found["month"], day=True, year=bool(found["year"]), dot=bool(found["dot"])
    )
    days = [_day(found[name]) for name in ("day", "day2") if found[name]]
    start, year = found.start(), _year(found["year"])
    if len(days) > 1 and _month_before(calendar).search(reading.plain, max(0, start - 20), start):
        days, start = days[1:], found.start("day2")  # `May 5 to 7 June`
    if month is None or None in days or _odd(found, days):
        return None
    values = [format_day(year, month, day) for day in days if day is not None]
    holds = all(values) and (len(values) < 2 or values[0] < values[1])
    joint = (found["joint"] or "").lower().split()
    listed = len(days) > 1 and bool(joint) and joint[0] in _LIST.split("|")
    if listed and _BETWEEN.search(reading.plain, max(0, found.start() - 20), found.start()):
        listed = False
    value = (", " if listed else "/").join(values) if holds else ""
    end = found.start("through") if found["later"] else found.end()
    end = _end(found, end, ("month", "dot", "year"), calendar)
    return reading.entity("date", (start, end), value, score=0.98 if holds else 0.3,
                          valid=bool(holds))  # fmt: skip


def _later(reading: Reading, found: re.Match[str], calendar: str) -> Entity | None:
    """The date that a match ends with, where it has two."""
    year, day = _year(found["later_year"]), _day(found["later_day"])
    month = get_calendar(calendar).find_month(
        found["later_month"], day=True, year=bool(year), dot=bool(found["later_dot"])
    )
    if month is None or day is None:
        return None
    value = format_day(year, month, day)
    end = _end(found, found.end(), ("later_month", "later_dot", "later_year"), calendar)
    return reading.entity("date", (found.start("later"), end), value, score=0.98 if value else 0.3,
                          valid=bool(value))  # fmt: skip


def _end(found: re.Match[str], end: int, names: tuple[str, str, str], calendar: str) -> int:
    """Where a date ends: the dot behind a month belongs to it where the month is a short one."""
    month, dot, year = names
    if found[dot] and found[year] is None and end == found.end(dot):
        is_short = found[month].lower() in get_calendar(calendar).short_months
        return end if is_short else found.end(month)
    return end


def _months(reading: Reading, regions: Sequence[Span], calendar: str) -> Iterator[Entity]:
    for found in reading.matches(_month_alone(calendar), regions):
        if calendar_name(reading.language(found.start())) != calendar:
            continue
        month = get_calendar(calendar).find_month(
            found["month"], day=False, year=True, dot=bool(found["dot"])
        )
        year = _year(found["year"])
        if month is None or year is None or not 1000 <= year <= 2999:
            continue
        start, value = found.start("month"), f"{year:04d}-{month:02d}"
        earlier = _from_month(reading, found, calendar)
        if earlier and earlier != month:
            start = found.start()
            value = f"{year - (earlier > month):04d}-{earlier:02d}/{value}"
        yield reading.entity("date", (start, found.end()), value, score=0.95, valid=True)


def _from_month(reading: Reading, found: re.Match[str], calendar: str) -> int | None:
    """The month that a stretch of months begins with: `May to June 2024`."""
    if found["from"] is None:
        return None
    before = reading.plain[max(0, found.start() - 20) : found.start()]
    listed = found["joint"].strip().lower() in _LIST.split("|")
    if _COUNTED.search(before) or (listed and not _BETWEEN.search(before)):
        return None
    return get_calendar(calendar).find_month(
        found["from"], day=False, year=True, dot=bool(found["from_dot"])
    )


def _odd(found: re.Match[str], days: list[int | None]) -> bool:
    """Whether the numbers are more likely something else: `12/5 May`, a word that is no day."""
    word = found["day"]
    return (
        not word.isdigit()
        and word.lower() in ("second", "un")
        and found["year"] is None
        and (" of " not in found[0].lower())
    )


def _day(text: str) -> int | None:
    return int(text) if text.isdigit() else date_words.days().get(text.lower())


def _year(text: str | None) -> int | None:
    if text is None:
        return None
    return int(text) if text.isdigit() else _century(int(text[1:]))


def _century(short: int) -> int:
    return short + (2000 if short < 50 else 1900)


def _is_street(reading: Reading, at: int) -> bool:
    """`rue du 4 Septembre`, `Hospital 12 de Octubre`: a name with a date in it."""
    return _STREET.search(reading.plain, max(0, at - 40), at) is not None


def _apart(found: list[Entity]) -> list[Entity]:
    """In order; of two that overlap the longer."""
    kept: list[Entity] = []
    for one in sorted(found, key=lambda each: (each.start, -each.end)):
        if kept and one.start < kept[-1].end:
            if one.end - one.start > kept[-1].end - kept[-1].start:
                kept[-1] = one
            continue
        kept.append(one)
    return kept


def _within(one: Entity, covered: list[tuple[int, int]]) -> bool:
    import bisect

    at = bisect.bisect_right(covered, (one.start, 1 << 62)) - 1
    before = at >= 0 and covered[at][1] > one.start
    return before or (at + 1 < len(covered) and covered[at + 1][0] < one.end)


def _intervals(reading: Reading, found: list[Entity]) -> Iterator[Entity]:
    """`between 3 May and 5 June 2024` is one stretch of time, `3 May and 5 June 2024` is two days.

    One of the two may have its year from the other.
    """
    waiting: Entity | None = None
    for one in found:
        if waiting is not None:
            if value := _interval(reading, waiting, one):
                text = reading.text[waiting.start : one.end]
                yield replace(waiting, text=text, end=one.end, value=value)
                waiting = None
                continue
            yield waiting
        waiting = one
    if waiting is not None:
        yield waiting


def _interval(reading: Reading, first: Entity, last: Entity) -> str:
    """The value of a stretch from one date to another; nothing where they are two dates."""
    between = reading.plain[first.end : last.start]
    if len(between) > 15 or not (first.valid and last.valid):
        return ""
    if not _JOINED.match(between):
        before = reading.plain[max(0, first.start - 20) : first.start]
        if not (_ANDED.match(between) and _BETWEEN.search(before)):
            return ""
    return _range(first.value, last.value)


_PLAIN_DAY = re.compile(r"(?:[0-9]{4}|-)-[0-9]{2}-[0-9]{2}")
_PLAIN_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")


def _range(first: str, last: str) -> str:
    """From one day or month to a later one; nothing where it is not later, or either is no day."""
    if _PLAIN_MONTH.fullmatch(first) and _PLAIN_MONTH.fullmatch(last):
        return f"{first}/{last}" if first < last else ""
    if not (_PLAIN_DAY.fullmatch(first) and _PLAIN_DAY.fullmatch(last)):
        return ""
    if first.startswith("--") and last.startswith("--"):
        return f"{first}/{last}"
    if first.startswith("--"):
        year = int(last[:4]) - (first[2:] > last[5:])
        first = format_day(year, int(first[2:4]), int(first[5:7]))
    elif last.startswith("--"):
        year = int(first[:4]) + (last[2:] < first[5:])
        last = format_day(year, int(last[2:4]), int(last[5:7]))
    return f"{first}/{last}" if first and last and first < last else ""
