"""Dates: 14 July 2024, le 1er mai, 14 de julio de 2024, 14/07/2024, 2024-07-14, 3-5 May, the '80s.

Months are Babel's (Unicode CLDR). English, French, Spanish and German names are known in texts of
every language; those of another language in its own texts. The time of day is left out. A day that
no calendar has is found and marked, so that nothing else is made of it. What may be two days
(03/04/2024 in English) has no value.
"""

from __future__ import annotations

import bisect
import datetime
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars import numbers
from anyrig.documents.entities.plain_text import PlainText, Span, build_plain_text

# -- months, weekdays, days in words ---------------------------------------------------------------

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
_WEEKDAYS = (
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
    return build_plain_text(unicodedata.normalize("NFC", name)).plain.lower().strip(". ")


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


def _name_calendar(language: str) -> str:
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
def _list_day_words() -> dict[str, int]:
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
def _build_day_pattern() -> str:
    """Any day in words."""
    return f"(?:{'|'.join(sorted(_list_day_words(), key=len, reverse=True))})"


# -- dates in digits, years, decades ---------------------------------------------------------------

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
_NUMERIC_RANGE = re.compile(
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
    r"\b(?:between|entre|zwischen|tra|fra|tussen|mellan|mellem)(?: (?:the|le|el|dem|den|il|o))? $",
    re.IGNORECASE,
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
_YEAR_DIGITS = r"1[0-9]{3}|20[0-9]{2}"
_YEARS = re.compile(
    rf"\b(?:(?:{_SURE}) (?P<low>{_YEAR_DIGITS})"
    rf"|(?:{_MAYBE}) (?P<late>19[0-9]{{2}}|20[0-9]{{2}}))(?![0-9])"
    rf"(?:(?: ?[-\u2013] ?| (?:to|and|et|y|a|au|al) )(?P<high>{_YEAR_DIGITS}|[0-9]{{2}})(?![0-9]))?"
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
_FOUR_ANCHOR = re.compile(r"(?<![0-9])[12][0-9]{3}(?![0-9])")
_LIFE = re.compile(
    rf"\((?:c\. ?)?(?P<late>(?!))?(?P<low>{_YEAR_DIGITS}) ?[-\u2013] ?(?P<high>{_YEAR_DIGITS})\)"
)


def _find_numeric(source: PlainText) -> Iterator[Entity]:
    """Dates of three numbers, and of two behind a word that says so."""
    regions = list(source.around(_MARKED, 12, 24))
    for pattern in (_DIGITS, _SPACED):
        for found in source.matches(pattern, regions):
            if entity := _read_numeric(source, found):
                yield entity
    for found in source.matches(_NUMERIC_RANGE, regions):
        if entity := _read_range(source, found):
            yield entity
    for found in source.matches(_CJK, source.islands):
        value = _format_day(int(found[1]), int(found[2]), int(found[3]))
        score = 0.98 if value else 0.3
        yield source.build_entity("date", found.span(), value, score=score, valid=bool(value))
    for found in source.matches(_NO_YEAR, regions):
        values = _list_meanings(
            source.language(found.start()), int(found["a"]), int(found["b"]), None
        )
        if values:
            value = values[0] if len(values) == 1 else ""
            span = (found.start("a"), found.end())
            yield source.build_entity("date", span, value, score=0.8, valid=True)


def _read_numeric(source: PlainText, found: re.Match[str]) -> Entity | None:
    first, middle, last = found["a"], found["b"], found["c"]
    if source.has_label(found.start(), _NO_DATE, 16):
        return None
    if len(first) == 4:
        if len(last) == 4 or not 1 <= int(first) <= 2999:
            return None
        value = _format_day(int(first), int(middle), int(last))
        if not value and found["mark"] != "-" and int(middle) > 12:
            return None
        return _build_date(source, found, [value] if value else [])
    if len(last) == 1 or (len(last) == 2 and not _has_short_year(found)):
        return None
    year = int(last) if len(last) == 4 else _add_century(int(last))
    if not 1000 <= year <= 2999:
        return None
    values = _list_meanings(source.language(found.start()), int(first), int(middle), year)
    if not values and (len(last) == 2 or int(first) > 31 or int(middle) > 31):
        return None  # some other number: nothing says that it is meant as a date
    return _build_date(source, found, values)


def _read_range(source: PlainText, found: re.Match[str]) -> Entity | None:
    """A stretch from one date to another; None for whatever else is written like that."""
    if source.has_label(found.start(), _NO_DATE, 16) or not _is_range(source, found):
        return None
    language = source.language(found.start())
    orders = ["day", "month"] if found["b"] and found["mark"] == "/" else ["day"]
    if len(found["a2"]) == 4:
        orders = ["year"]
    values = [value for order in orders if (value := _read_span(found, order))]
    if not values:
        return None
    if len(values) == 2 and language != "en":
        day_first = language not in ("en-US", "es-US", "fr-CA")
        values = values[:1] if day_first else values[1:]
    return _build_date(source, found, values)


def _is_range(source: PlainText, found: re.Match[str]) -> bool:
    mark, joint, whole = found["mark"], found["joint"], bool(found["c"])
    if found["list"]:
        return bool(_BETWEEN.search(source.plain, max(0, found.start() - 20), found.start()))
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


def _read_span(found: re.Match[str], order: str) -> str:
    """The value of a stretch in an order of day and month; nothing where it holds none."""
    last = _order_parts(found["a2"], found["b2"], found["c2"], order)
    if not 1000 <= last[0] <= 2999:
        return ""
    if found["c"]:
        if (len(found["a"]) == 4) != (order == "year") or len(found["c"]) != len(found["c2"]):
            return ""
        first = _order_parts(found["a"], found["b"], found["c"], order)
    elif order == "year" or len(found["a"]) == 4:
        return ""
    else:
        day, month = int(found["a"]), int(found["b"] or found["b2"])
        day, month = (month, day) if order == "month" else (day, month)
        year = last[0] - ((month, day) > last[1:])
        first = (year, month, day) if found["b"] else (last[0], month, day)
    start, end = _format_day(*first), _format_day(*last)
    return f"{start}/{end}" if start and end and start < end else ""


def _order_parts(first: str, middle: str, last: str, order: str) -> tuple[int, int, int]:
    """Year, month and day of three numbers."""
    if order == "year":
        return int(first), int(middle), int(last)
    year = int(last) if len(last) == 4 else _add_century(int(last))
    day, month = (first, middle) if order == "day" else (middle, first)
    return year, int(month), int(day)


def _has_short_year(found: re.Match[str]) -> bool:
    """Whether a year of two digits may be meant: 14.07.24, not 1.2.24."""
    return found["mark"] == "/" or (len(found["b"]) == 2 and len(found["a"]) == 2)


def _build_date(source: PlainText, found: re.Match[str], values: list[str]) -> Entity:
    span = (found.start("a"), found.end())
    if not values:
        return source.build_entity("date", span, "", score=0.3, valid=False)
    value = values[0] if len(values) == 1 else ""
    details = {} if value else {"readings": " or ".join(values)}
    return source.build_entity("date", span, value, score=0.97, valid=True, details=details)


def _list_meanings(language: str, first: int, second: int, year: int | None) -> list[str]:
    """The days that two numbers may mean; one where the language or the calendar tells."""
    day_first, month_first = _format_day(year, second, first), _format_day(year, first, second)
    if not day_first or not month_first or first == second:
        return [value for value in (day_first or month_first,) if value]
    if language == "en":
        return [day_first, month_first]
    return [month_first if language in ("en-US", "es-US") else day_first]


def _format_day(year: int | None, month: int, day: int) -> str:
    """The ISO form; `--07-14` without a year; empty for a day that does not exist."""
    try:
        datetime.date(year or 2000, month, day)
    except ValueError:
        return ""
    return f"{year:04d}-{month:02d}-{day:02d}" if year else f"--{month:02d}-{day:02d}"


def _find_years(source: PlainText) -> Iterator[Entity]:
    """`in 1998`, `depuis 2001`, `(1879-1955)`: where what stands around says that it is a year."""
    regions = list(source.around(_FOUR_ANCHOR, 24, 24))
    for pattern in (_YEARS, _LIFE, _LINE):
        for found in source.matches(pattern, regions):
            name = "low" if found["low"] else "late"
            low, high = found[name], found["high"]
            if high and len(high) == 2:
                high = low[:2] + high
            if high and int(high) < int(low):
                continue
            span = (found.start(name), found.end("high") if high else found.end(name))
            value = f"{low}/{high}" if high else low
            yield source.build_entity("date", span, value, score=0.85)


def _find_decades(source: PlainText) -> Iterator[Entity]:
    """Every decade; one of two digits is of the last century."""
    regions = list(source.around(_DECADE_ANCHOR, 8, 24))
    for pattern in (_DECADE_ENGLISH, _DECADE_BEHIND):
        for found in source.matches(pattern, regions):
            groups = found.groupdict()
            short = groups["short"] or _DECADE_WORDS.get((groups.get("word") or "").lower(), 0)
            first = int(groups["long"] or 1900 + int(short))
            yield source.build_entity("date", found.span(), f"{first}/{first + 9}", score=0.9)


# -- dates with the name of a month ----------------------------------------------------------------

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
_WEEKDAY = rf"(?:(?:{_WEEKDAYS})\.?,? {_THE})?"
_STREET = re.compile(
    r"(?:\b(?:rue|avenue|av\.|place|boulevard|bd|quai|pont|calle|c/|plaza|avenida|avda\.?|paseo"
    r"|hospital|estadio|barrio|colonia|metro|estacion|ruta|street|square|plazuela|glorieta|lycee"
    r"|college|universite|universidad|instituto)(?: (?:du|de|del|des|la|le|el))*) $",
    re.IGNORECASE,
)
_JOINED = re.compile(rf",? ?(?:[-\u2013\u2014]|{_RANGE}) ?{_THE}$", re.IGNORECASE)
_ANDED = re.compile(rf" (?:{_LIST}) {_THE}$", re.IGNORECASE)
_COUNTED = re.compile(r"[0-9](?:st|nd|rd|th|er|\.|[ºª])?[ -](?:of |de )?$", re.IGNORECASE)


@lru_cache(maxsize=64)
def _build_day_first(language: str) -> re.Pattern[str]:
    month, words = get_calendar(language).month_pattern, _build_day_pattern()
    of = r"(?:[ -](?:of |de |d')?(?:the month of |mes de )?)"
    year = r"(?:(?:,? |,|-|(?<=\.))(?:de |del |of |del ano )?{})?"
    return re.compile(
        rf"(?<![\w.,/:+$€£-])(?P<weekday>(?:{_WEEKDAYS})\.?,? {_THE})?"
        rf"(?P<day>[0-9]{{1,2}}|{words}){_ORDINAL}"
        rf"(?:{_TO}{_WEEKDAY}(?P<day2>[0-9]{{1,2}}|{words}){_ORDINAL})?"
        rf"{of}(?P<month>{month})(?![^\W\d_])(?P<dot>\.)?{year.format(_YEAR)}"
        rf"(?:(?(day2)(?!)){_THROUGH}(?P<later>{_WEEKDAY}(?P<later_day>[0-9]{{1,2}}|{words})"
        rf"{_ORDINAL}{of}(?P<later_month>{month})(?![^\W\d_])(?P<later_dot>\.)?"
        rf"{year.format(_LATER_YEAR)}))?",
        re.IGNORECASE,
    )


@lru_cache(maxsize=64)
def _build_month_first(language: str) -> re.Pattern[str]:
    month = get_calendar(language).month_pattern
    day = r"[ -](?:the )?(?P<{}>[0-9]{{1,2}}(?![0-9:]|[.][0-9]| ?[%€$£]))(?:st|nd|rd|th)?"
    year = r"(?:(?:, ?| |-)(?:of )?{})?"
    return re.compile(
        rf"(?<![\w.-])(?P<weekday>(?:{_WEEKDAYS})\.?,? )?(?P<month>{month})(?![^\W\d_])"
        rf"(?P<dot>\.)?{day.format('day')}"
        rf"(?:{_TO}{_WEEKDAY}(?P<day2>[0-9]{{1,2}}(?![0-9:%]))(?:st|nd|rd|th)?"
        rf"(?! (?:of )?{month}(?![^\W\d_])))?{year.format(_YEAR)}"
        rf"(?:(?(day2)(?!)){_THROUGH}(?P<later>{_WEEKDAY}(?P<later_month>{month})(?![^\W\d_])"
        rf"(?P<later_dot>\.)?{day.format('later_day')}{year.format(_LATER_YEAR)}))?",
        re.IGNORECASE,
    )


@lru_cache(maxsize=64)
def _build_year_first(language: str) -> re.Pattern[str]:
    """2024. július 14., 2024 m. liepos 14, 2024年7月14日 is `_CJK`."""
    month = get_calendar(language).month_pattern
    return re.compile(
        rf"(?<![\w.])(?P<year>[12][0-9]{{3}})\.? (?:m\. )?(?P<month>{month})"
        r"(?![^\W\d_])(?P<dot>\.)? (?P<day>[0-9]{1,2})(?:\.|(?![\w%]|[.,][0-9]))"
        r"(?P<day2>(?!))?(?P<joint>(?!))?(?P<later>(?!))?",
        re.IGNORECASE,
    )


@lru_cache(maxsize=64)
def _build_month_alone(language: str) -> re.Pattern[str]:
    month = get_calendar(language).month_pattern
    return re.compile(
        rf"(?<![\w.])(?<![^0-9]-)(?:(?P<from>{month})(?![^\W\d_])(?P<from_dot>\.)?"
        rf"(?P<joint> ?[-\u2013\u2014/] ?| (?:{_RANGE}|{_LIST}) ))?"
        rf"(?P<month>{month})(?![^\W\d_])(?P<dot>\.)?"
        rf",?[ -](?:of |de |del |del ano )?{_YEAR}",
        re.IGNORECASE,
    )


@lru_cache(maxsize=64)
def _build_month_before(language: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?<![^\W\d_]){get_calendar(language).month_pattern}\.? (?:the )?$", re.IGNORECASE
    )


def find(source: PlainText) -> Iterator[Entity]:
    """Every date, each stretch of text in one at most."""
    found = list(_find_numeric(source))
    rest = [*_find_years(source), *_find_decades(source)]
    for name in dict.fromkeys(map(_name_calendar, source.languages)):
        regions = list(source.around(get_calendar(name).anchor, 60, 40))
        for pattern in (_build_day_first(name), _build_month_first(name), _build_year_first(name)):
            found += _find_days(source, pattern, regions, name)
        rest += _find_months(source, regions, name)
    taken = _drop_overlaps(found)
    covered = [(one.start, one.end) for one in taken]
    taken = _drop_overlaps([*taken, *(one for one in rest if not _is_within(one, covered))])
    yield from _join_intervals(source, taken)


def _find_days(
    source: PlainText, pattern: re.Pattern[str], regions: Sequence[Span], calendar: str
) -> Iterator[Entity]:
    for found in source.matches(pattern, regions):
        in_language = _name_calendar(source.language(found.start())) == calendar
        if not in_language or _is_street(source, found.start()):
            continue
        first = _build_first(source, found, calendar)
        later = _build_later(source, found, calendar) if found["later"] else None
        value = _build_range(first.value, later.value) if first and later else ""
        if first and later and value:
            text = source.text[first.start : later.end]
            yield replace(first, text=text, end=later.end, value=value)
        else:
            yield from (one for one in (first, later) if one)


def _build_first(source: PlainText, found: re.Match[str], calendar: str) -> Entity | None:
    """The date that a match begins with; it may be of two days."""
    month = get_calendar(calendar).find_month(
        found["month"], day=True, year=bool(found["year"]), dot=bool(found["dot"])
    )
    days = [_read_day(found[name]) for name in ("day", "day2") if found[name]]
    start, year = found.start(), _read_year(found["year"])
    if len(days) > 1 and _build_month_before(calendar).search(
        source.plain, max(0, start - 20), start
    ):
        days, start = days[1:], found.start("day2")  # `May 5 to 7 June`
    if month is None or None in days or _is_odd(found, days):
        return None
    values = [_format_day(year, month, day) for day in days if day is not None]
    holds = all(values) and (len(values) < 2 or values[0] < values[1])
    joint = (found["joint"] or "").lower().split()
    listed = len(days) > 1 and bool(joint) and joint[0] in _LIST.split("|")
    if listed and _BETWEEN.search(source.plain, max(0, found.start() - 20), found.start()):
        listed = False
    value = (", " if listed else "/").join(values) if holds else ""
    end = found.start("through") if found["later"] else found.end()
    end = _find_end(found, end, ("month", "dot", "year"), calendar)
    return source.build_entity("date", (start, end), value, score=0.98 if holds else 0.3,
                          valid=bool(holds))  # fmt: skip


def _build_later(source: PlainText, found: re.Match[str], calendar: str) -> Entity | None:
    """The date that a match ends with, where it has two."""
    year, day = _read_year(found["later_year"]), _read_day(found["later_day"])
    month = get_calendar(calendar).find_month(
        found["later_month"], day=True, year=bool(year), dot=bool(found["later_dot"])
    )
    if month is None or day is None:
        return None
    value = _format_day(year, month, day)
    end = _find_end(found, found.end(), ("later_month", "later_dot", "later_year"), calendar)
    span, score = (found.start("later"), end), 0.98 if value else 0.3
    return source.build_entity("date", span, value, score=score, valid=bool(value))


def _find_end(found: re.Match[str], end: int, names: tuple[str, str, str], calendar: str) -> int:
    """Where a date ends: the dot behind a month belongs to it where the month is a short one."""
    month, dot, year = names
    if found[dot] and found[year] is None and end == found.end(dot):
        is_short = found[month].lower() in get_calendar(calendar).short_months
        return end if is_short else found.end(month)
    return end


def _find_months(source: PlainText, regions: Sequence[Span], calendar: str) -> Iterator[Entity]:
    for found in source.matches(_build_month_alone(calendar), regions):
        if _name_calendar(source.language(found.start())) != calendar:
            continue
        month = get_calendar(calendar).find_month(
            found["month"], day=False, year=True, dot=bool(found["dot"])
        )
        year = _read_year(found["year"])
        if month is None or year is None or not 1000 <= year <= 2999:
            continue
        start, value = found.start("month"), f"{year:04d}-{month:02d}"
        earlier = _read_from_month(source, found, calendar)
        if earlier and earlier != month:
            start = found.start()
            value = f"{year - (earlier > month):04d}-{earlier:02d}/{value}"
        yield source.build_entity("date", (start, found.end()), value, score=0.95, valid=True)


def _read_from_month(source: PlainText, found: re.Match[str], calendar: str) -> int | None:
    """The month that a stretch of months begins with: `May to June 2024`."""
    if found["from"] is None:
        return None
    before = source.plain[max(0, found.start() - 20) : found.start()]
    listed = found["joint"].strip().lower() in _LIST.split("|")
    if _COUNTED.search(before) or (listed and not _BETWEEN.search(before)):
        return None
    return get_calendar(calendar).find_month(
        found["from"], day=False, year=True, dot=bool(found["from_dot"])
    )


def _is_odd(found: re.Match[str], days: list[int | None]) -> bool:
    """Whether the numbers are more likely something else: `12/5 May`, a word that is no day."""
    word = found["day"]
    return (
        not word.isdigit()
        and word.lower() in ("second", "un")
        and found["year"] is None
        and (" of " not in found[0].lower())
    )


def _read_day(text: str) -> int | None:
    return int(text) if text.isdigit() else _list_day_words().get(text.lower())


def _read_year(text: str | None) -> int | None:
    if text is None:
        return None
    return int(text) if text.isdigit() else _add_century(int(text[1:]))


def _add_century(short: int) -> int:
    return short + (2000 if short < 50 else 1900)


def _is_street(source: PlainText, at: int) -> bool:
    """`rue du 4 Septembre`, `Hospital 12 de Octubre`: a name with a date in it."""
    return _STREET.search(source.plain, max(0, at - 40), at) is not None


def _drop_overlaps(found: list[Entity]) -> list[Entity]:
    """In order; of two that overlap the longer."""
    kept: list[Entity] = []
    for one in sorted(found, key=lambda each: (each.start, -each.end)):
        if kept and one.start < kept[-1].end:
            if one.end - one.start > kept[-1].end - kept[-1].start:
                kept[-1] = one
            continue
        kept.append(one)
    return kept


def _is_within(one: Entity, covered: list[tuple[int, int]]) -> bool:
    at = bisect.bisect_right(covered, (one.start, 1 << 62)) - 1
    before = at >= 0 and covered[at][1] > one.start
    return before or (at + 1 < len(covered) and covered[at + 1][0] < one.end)


def _join_intervals(source: PlainText, found: list[Entity]) -> Iterator[Entity]:
    """`between 3 May and 5 June 2024` is one stretch of time, `3 May and 5 June 2024` is two days.

    One of the two may have its year from the other.
    """
    waiting: Entity | None = None
    for one in found:
        if waiting is not None:
            if value := _read_interval(source, waiting, one):
                text = source.text[waiting.start : one.end]
                yield replace(waiting, text=text, end=one.end, value=value)
                waiting = None
                continue
            yield waiting
        waiting = one
    if waiting is not None:
        yield waiting


def _read_interval(source: PlainText, first: Entity, last: Entity) -> str:
    """The value of a stretch from one date to another; nothing where they are two dates."""
    between = source.plain[first.end : last.start]
    if len(between) > 15 or not (first.valid and last.valid):
        return ""
    if not _JOINED.match(between):
        before = source.plain[max(0, first.start - 20) : first.start]
        if not (_ANDED.match(between) and _BETWEEN.search(before)):
            return ""
    return _build_range(first.value, last.value)


_PLAIN_DAY = re.compile(r"(?:[0-9]{4}|-)-[0-9]{2}-[0-9]{2}")
_PLAIN_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")


def _build_range(first: str, last: str) -> str:
    """From one day or month to a later one; nothing where it is not later, or either is no day."""
    if _PLAIN_MONTH.fullmatch(first) and _PLAIN_MONTH.fullmatch(last):
        return f"{first}/{last}" if first < last else ""
    if not (_PLAIN_DAY.fullmatch(first) and _PLAIN_DAY.fullmatch(last)):
        return ""
    if first.startswith("--") and last.startswith("--"):
        return f"{first}/{last}"
    if first.startswith("--"):
        year = int(last[:4]) - (first[2:] > last[5:])
        first = _format_day(year, int(first[2:4]), int(first[5:7]))
    elif last.startswith("--"):
        year = int(first[:4]) + (last[2:] < first[5:])
        last = _format_day(year, int(last[2:4]), int(last[5:7]))
    return f"{first}/{last}" if first and last and first < last else ""
