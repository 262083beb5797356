"""Dates: 14 July 2024, le 1er mai, 14 de julio de 2024, 14/07/2024, 2024-07-14, 3-5 May.

The time of day is left out. A day that no calendar has is found and marked, so that nothing else is
made of it. What may be two days (03/04/2024 in English) has no value.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars import date_words, decades
from anyrig.documents.entities.grammars.date_numbers import find_numeric, find_years
from anyrig.documents.entities.reading import Reading, Span

_ORDINAL = r"(?:st|nd|rd|th|er|re|eme|°|\.?[ºª]|\.(?= [A-Za-z]))?"
_YEAR = r"(?P<year>[0-9]{4}(?![0-9]|[.,][0-9])|'[0-9]{2}(?![0-9]))"
_TO = r"(?P<joint> ?[-\u2013/] ?| (?:to|and|through|au|et|al|a|y|e|&) (?:the |le |el )?)"
_STREET = re.compile(
    r"(?:\b(?:rue|avenue|av\.|place|boulevard|bd|quai|pont|calle|c/|plaza|avenida|avda\.?|paseo"
    r"|hospital|estadio|barrio|colonia|metro|estacion|ruta|street|square|plazuela|glorieta|lycee"
    r"|college|universite|universidad|instituto)(?: (?:du|de|del|des|la|le|el))*) $",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\b(?:between|entre)(?: (?:the|le|el))? $", re.IGNORECASE)
_JOINED = re.compile(
    r" ?(?:-|\u2013|to|until|till|through|thru|au|al|a|hasta|jusqu'au)(?: (?:the|le|el))? ?$",
    re.IGNORECASE,
)


@lru_cache(maxsize=1)
def _day_first() -> re.Pattern[str]:
    month, words = date_words.month_pattern(), date_words.day_pattern()
    return re.compile(
        rf"(?<![\w.,/:+$€£-])(?P<weekday>(?:{date_words.WEEKDAYS})\.?,? (?:the |le |el )?)?"
        rf"(?P<day>[0-9]{{1,2}}|{words}){_ORDINAL}"
        rf"(?:{_TO}(?P<day2>[0-9]{{1,2}}|{words}){_ORDINAL})?"
        rf"(?:[ -](?:of |de |d')?(?:the month of |mes de )?)(?P<month>{month})(?![A-Za-z])"
        rf"(?P<dot>\.)?(?:(?:,? |,|-|(?<=\.))(?:de |del |of |del ano )?{_YEAR})?",
        re.IGNORECASE,
    )


@lru_cache(maxsize=1)
def _month_first() -> re.Pattern[str]:
    month = date_words.month_pattern()
    return re.compile(
        rf"(?<![\w.-])(?P<weekday>(?:{date_words.WEEKDAYS})\.?,? )?(?P<month>{month})(?![A-Za-z])"
        rf"(?P<dot>\.)?[ -](?:the )?(?P<day>[0-9]{{1,2}}(?![0-9:]|[.][0-9]| ?[%€$£]))"
        rf"(?:st|nd|rd|th)?(?:{_TO}(?P<day2>[0-9]{{1,2}}(?![0-9:%]))(?:st|nd|rd|th)?)?"
        rf"(?:(?:, ?| |-)(?:of )?{_YEAR})?",
        re.IGNORECASE,
    )


@lru_cache(maxsize=1)
def _month_alone() -> re.Pattern[str]:
    return re.compile(
        rf"(?<![\w.-])(?P<month>{date_words.month_pattern()})(?![A-Za-z])(?P<dot>\.)?"
        rf",?[ -](?:of |de |del |del ano )?{_YEAR}",
        re.IGNORECASE,
    )


def find(reading: Reading) -> Iterator[Entity]:
    """Every date, each stretch of text in one at most."""
    regions = list(reading.around(date_words.anchor(), 60, 40))
    found = [
        *_with_day(reading, _day_first(), regions), *_with_day(reading, _month_first(), regions),
        *find_numeric(reading),
    ]  # fmt: skip
    taken = _apart(found)
    covered = [(one.start, one.end) for one in taken]
    rest = [*_months(reading, regions), *find_years(reading), *decades.find(reading)]
    taken = _apart([*taken, *(one for one in rest if not _within(one, covered))])
    yield from _intervals(reading, taken)


def _with_day(
    reading: Reading, pattern: re.Pattern[str], regions: Sequence[Span]
) -> Iterator[Entity]:
    for found in reading.matches(pattern, regions):
        month = date_words.month_of(
            found["month"], day=True, year=bool(found["year"]), dot=bool(found["dot"])
        )
        if month is None or _is_street(reading, found.start()):
            continue
        days = [_day(found[name]) for name in ("day", "day2") if found[name]]
        year = _year(found["year"])
        if days[0] is None or None in days or _odd(found, days):
            continue
        yield _dated(reading, found, [day for day in days if day is not None], month, year)


def _dated(
    reading: Reading, found: re.Match[str], days: list[int], month: int, year: int | None
) -> Entity:
    values = [_iso(year, month, day) for day in days]
    holds = all(values) and (len(days) < 2 or days[0] < days[1])
    both = len(days) > 1 and re.search(r"and|et|y|e|&", found["joint"], re.IGNORECASE)
    if both and _BETWEEN.search(reading.plain, max(0, found.start() - 20), found.start()):
        both = None
    end = found.end()
    if found["dot"] and found["year"] is None and end == found.end("dot"):
        end = found.end("dot") if _abbreviated(found["month"]) else found.end("month")
    value = (", " if both else "/").join(value for value in values if value) if holds else ""
    return reading.entity("date", (found.start(), end), value, score=0.98 if holds else 0.3,
                          valid=bool(holds))  # fmt: skip


def _months(reading: Reading, regions: Sequence[Span]) -> Iterator[Entity]:
    for found in reading.matches(_month_alone(), regions):
        month = date_words.month_of(found["month"], day=False, year=True, dot=bool(found["dot"]))
        year = _year(found["year"])
        if month is None or year is None or not 1000 <= year <= 2999:
            continue
        yield reading.entity(
            "date", found.span(), f"{year:04d}-{month:02d}", score=0.95, valid=True
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


def _abbreviated(month: str) -> bool:
    return month.lower() in date_words.short_months()


def _day(text: str) -> int | None:
    return int(text) if text.isdigit() else date_words.days().get(text.lower())


def _year(text: str | None) -> int | None:
    if text is None:
        return None
    return int(text) if text.isdigit() else _century(int(text[1:]))


def _century(short: int) -> int:
    return short + (2000 if short < 50 else 1900)


def _iso(year: int | None, month: int, day: int) -> str:
    """The ISO form; `--07-14` without a year; empty for a day that is none."""
    try:
        datetime.date(year or 2000, month, day)
    except ValueError:
        return ""
    return f"{year:04d}-{month:02d}-{day:02d}" if year else f"--{month:02d}-{day:02d}"


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
    """`3 May to 5 June 2024` is one stretch of time, as the first has its year from the second."""
    waiting: Entity | None = None
    for one in found:
        if waiting is not None:
            between = reading.plain[waiting.end : one.start]
            if _shares_year(waiting, one) and len(between) < 16 and _JOINED.match(between):
                yield _joined(reading, waiting, one)
                waiting = None
                continue
            yield waiting
        waiting = one
    if waiting is not None:
        yield waiting


def _shares_year(first: Entity, last: Entity) -> bool:
    single = "/" not in first.value + last.value
    return first.value.startswith("--") and bool(last.valid) and single


def _joined(reading: Reading, first: Entity, last: Entity) -> Entity:
    value = first.value
    if re.match(r"[0-9]{4}-[0-9]{2}-", last.value):
        year = int(last.value[:4])
        month, day = int(value[2:4]), int(value[5:7])
        value = _iso(year - (value[2:] > last.value[5:]), month, day)
    text = reading.text[first.start : last.end]
    return replace(first, text=text, end=last.end, value=f"{value}/{last.value}")
