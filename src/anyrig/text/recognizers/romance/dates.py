"""Spanish and French dates, decades, eras and times of day."""

from __future__ import annotations

import re

from anyrig.text.recognizers import Found, recognizer
from anyrig.text.recognizers.common import LazyPattern
from anyrig.text.recognizers.romance import french, spanish
from anyrig.text.recognizers.romance.forms import (
    DOT,
    TABLES,
    capitalize,
    close,
    one_of,
    parse_roman,
    romance,
    text_after,
    text_before,
    word_before,
)
from anyrig.text.recognizers.stops import look_behind
from anyrig.text.values import (
    Abbreviation,
    Date,
    Decade,
    Duration,
    Label,
    Letters,
    Number,
    Phrase,
    Range,
    Time,
    Value,
)

# -- days ------------------------------------------------------------------------------------------

_MONTH = {
    language: rf"(?:{one_of([*table.MONTHS, *table.SHORT_MONTHS])})(?![^\W\d_]){DOT}"
    for language, table in TABLES.items()
}
_WEEKDAY = {
    language: rf"(?:{one_of(table.SHORT_WEEKDAYS)})\." for language, table in TABLES.items()
}
# A street named after a day; what follows is the house.
_STREET = LazyPattern(
    r"\b(?:Avda\.|Av\.|[Aa]venida|[Cc]alle|[Pp]laza|[Cc]/|[Rr]ue|[Pp]lace)\s*(?:du )?$"
)
_ARTICLES = {"el", "del", "al", "desde", "día"}
# Words of their own, which are months only beside a year.
_DOUBTFUL = {"es": ("mar", "set", "may", "dic"), "fr": ("mar", "dec")}


def _month(language: str, written: str) -> int:
    table, name = TABLES[language], written.rstrip(".").lower()
    months: list[str] = table.MONTHS
    short: dict[str, int] = table.SHORT_MONTHS
    return months.index(name) + 1 if name in months else short[name]


def _year(written: str) -> int:
    """Two digits stand for the nearest century."""
    year = int(written)
    return year if len(written) > 2 else year + (2000 if year < 50 else 1900)


def _weekday_number(language: str, written: str | None) -> int | None:
    numbers: dict[str, int] = TABLES[language].SHORT_WEEKDAYS
    return numbers[written.rstrip(".").lower()] if written else None


def _date(day: int, month: int, year: str = "") -> Date | None:
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    return Date(day, month, _year(year) if year else None, day_first=True)


@recognizer(
    "date",
    rf"(?:(?<!\w)({_WEEKDAY['es']}),?\s+)?(?<![\w.,/])(\d{{1,2}})(?:\s*([-\u2013]|y|al)\s*(\d{{1,2}}))?"
    rf"(?:\s+|[-/])(?:de\s+)?({_MONTH['es']})(?:(?:,?\s+(?:(del?)\s+)?|[-/])(\d{{4}}))?(?!\w)",
    languages=("es",), flags=re.IGNORECASE, weight=1.3,
    digits=True, needs=(*spanish.MONTHS, *spanish.SHORT_MONTHS),
)  # fmt: skip
def _spanish_date(match: re.Match[str]) -> Value | Found | None:
    weekday, day, link, until, month, article, year = match.groups()
    if not 1 <= int(day) <= 31 or (month.lower() in _DOUBTFUL["es"] and not year):
        return None
    if month[0].isupper() and word_before(match) in spanish.LABELS - _ARTICLES:
        return None  # En la página 12 Mayo habla.
    if year and _STREET.search(text_before(match, 14)):
        name = match[0][: -len(year)].rstrip(" ,").removeprefix(day).strip()
        return Phrase((Number(day), name, Number(year)))
    number = _month("es", month)
    last: Value = Date(
        int(until or day), number, int(year) if year else None, day_first=True,
        weekday=_weekday_number("es", weekday),
        article="del" if article == "del" else "",
    )  # fmt: skip
    if until:
        last = Range(Label(day), last, "y" if link == "y" else "al")
    return close(last, match, "es", digits_follow=False)


@recognizer(
    "date",
    rf"(?:(?<!\w)({_WEEKDAY['fr']}),?\s+)?(?<![\w.,/])(\d{{1,2}}(?:er)?)"
    rf"(?:\s*(-|\u2013|et|au)\s*(\d{{1,2}}(?:er)?))?(?:\s+|[-/])"
    rf"({_MONTH['fr']})(?:(?:,?\s+|[-/])(\d{{4}}))?(?!\w)",
    languages=("fr",), flags=re.IGNORECASE, weight=1.3,
    digits=True, needs=(*french.MONTHS, *french.SHORT_MONTHS),
)  # fmt: skip
def _french_date(match: re.Match[str]) -> Value | Found | None:
    weekday, day, link, until, month, year = match.groups()
    number = int(day.removesuffix("er"))
    if not 1 <= number <= 31 or (month.lower() in _DOUBTFUL["fr"] and not year):
        return None
    if month[0].isupper() and word_before(match) in french.LABELS:
        return None
    last: Value = Date(
        int((until or day).removesuffix("er")), _month("fr", month), int(year) if year else None,
        weekday=_weekday_number("fr", weekday),
        day_first=True,
    )  # fmt: skip
    if until:
        first: Value = Abbreviation("premier") if number == 1 else Number(str(number))
        last = Range(first, last, link if link.isalpha() else "au")
    return close(last, match, "fr", digits_follow=False)


@recognizer(
    "date",
    r"(?<!\w)1\.?(?:º|°|ero|ro|er|o)\.?\s+de\s+(?=([a-z]+))",
    languages=("es",),
    weight=2,
    digits=True,
)
def _spanish_first(match: re.Match[str]) -> Value | None:
    return Abbreviation("primero de ") if match[1] in spanish.MONTHS else None


@romance(
    "date", r"(?<![\w.,/-])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/-])", weight=1.5, digits=True
)
def _iso(language: str, match: re.Match[str]) -> Value | None:
    return _date(int(match[4]), int(match[3]), match[1])


@romance(
    "date",
    r"(?<![\w.,/-])(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?![\d/-])(?!\.\d|[\s-]\d\d(?:\D|$))",
    weight=1.5,
    digits=True,
)
def _numeric(language: str, match: re.Match[str]) -> Value | None:
    day, month = int(match[1]), int(match[3])
    if month > 12 >= day:
        day, month = month, day
    return _date(day, month, match[4])


@romance(
    "date", r"(?<![\w.,/-])(\d{1,2})([-/.])([IVX]{1,4})\2(\d{4})(?![\w-])", weight=2, digits=True
)
def _roman_month(language: str, match: re.Match[str]) -> Value | None:
    return _date(int(match[1]), parse_roman(match[3]), match[4])


@romance(
    "date", r"(?<![\w.,/-])((?:19|20)\d\d)/((?:19|20)\d\d|\d\d)(?![\d/-])", needs="/", weight=1.5
)
def _school_year(language: str, match: re.Match[str]) -> Value:
    """A course that runs over New Year."""
    return Phrase((Number(match[1]), Number(match[2])))


_SHARE = {"es": r" de (?:l|su|mi|tu|est|cada)", "fr": r" d(?:e la|es|u)\b"}


@romance(
    "date",
    lambda language: (
        rf"(?<=\b{'[Ee]l' if language == 'es' else '[Ll]e'} )(?!1/[2-9]\b|2/3|3/4)"
        r"(\d{1,2})/(\d{1,2})"
        rf"(?![\d/]|[.,]\d|{_SHARE[language]})"
    ),
    needs="/", weight=1.5,
)  # fmt: skip
def _day_and_month(language: str, match: re.Match[str]) -> Value | None:
    return _date(int(match[1]), int(match[2]))


@romance(
    "date",
    lambda language: (
        r"(?<![\w/])(0[1-9]|1[0-2])/(\d{4})(?![\d/])"
        rf"|(?<!\w)({_MONTH[language]})([-/ ])(?:de )?(\d{{4}})(?!\d)"
    ),
    flags=re.I, weight=1.2,
    digits=True,
)  # fmt: skip
def _month_and_year(language: str, match: re.Match[str]) -> Value | None:
    if match[1]:
        return Date(month=int(match[1]), year=int(match[2]))
    if match[3].lower() in TABLES[language].MONTHS:
        if " de " in match[0]:
            return Phrase((match[3], "de", Number(match[5])))
        if match[4] == " " or language == "fr":
            return Phrase((match[3], Number(match[5])))
    return Date(month=_month(language, match[3]), year=int(match[5]))


# Months cut short by themselves: en sept. Words such as mar. and nov. need a preposition.
@romance(
    "date",
    lambda language: (
        rf"(?<=\ben )({one_of(TABLES[language].SHORT_MONTHS)})\.(?!\w)"
        rf"|(?<!\w)({one_of(TABLES[language].SHORT_MONTHS)})\.(?=\s?[-\u2013/]\s?{_MONTH[language]})"
    ),
    weight=1.5, needs=lambda language: TABLES[language].SHORT_MONTHS,
)  # fmt: skip
def _month_alone(language: str, match: re.Match[str]) -> Value | Found | None:
    name = TABLES[language].MONTHS[_month(language, match[1] or match[2]) - 1]
    return close(Abbreviation(name), match, language, digits_follow=False)


@romance(
    "date",
    lambda language: (
        rf"(?<!\w)({one_of(TABLES[language].SHORT_WEEKDAYS)})\.?\s?[-\u2013]\s?"
        rf"({one_of(TABLES[language].SHORT_WEEKDAYS)})\.(?!\w)"
    ),
    flags=re.IGNORECASE, needs=lambda language: TABLES[language].SHORT_WEEKDAYS,
)  # fmt: skip
def _weekdays(language: str, match: re.Match[str]) -> Value | Found | None:
    first, last = (_weekday_name(language, part) for part in match.groups())
    link = "a" if language == "es" else "à"
    return close(Abbreviation(capitalize(f"{first} {link} {last}", match)), match, language)


_PLAIN_WEEKDAYS = {"es": "lun|mié|jue|vie|sáb|dom", "fr": "lun|ven|sam|dim"}
_WEEKDAY_NAMES = {
    "es": "lunes martes miércoles jueves viernes sábado domingo".split(),
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche".split(),
}


def _weekday_name(language: str, written: str) -> str:
    return _WEEKDAY_NAMES[language][_weekday_number(language, written) or 0]


# Mer, mar and jeu are words too: these need a number or a span of days behind them.
@romance(
    "date",
    lambda language: (
        rf"(?<!\w)({_WEEKDAY[language]})(?=,?\s+(?:\d|au\s|à\s))"
        rf"|(?<!\w)((?:{_PLAIN_WEEKDAYS[language]})\.)(?!\w|\s?:)"
    ),
    flags=re.IGNORECASE,
    needs=lambda language: TABLES[language].SHORT_WEEKDAYS,
)
def _weekday(language: str, match: re.Match[str]) -> Value | Found | None:
    written, following = match[0].lower(), text_after(match)
    # El mar. 12 barcos: a noun that is counted follows, and no time or place.
    counted = re.match(r",?\s+\d+ (?!heures?\b|dans\b|pour\b|à\b|a\b|de\b)[a-zà-ÿ]{3,}", following)
    if counted and written in ("mar.", "mer.", "jeu."):
        return None
    if written == "sam." and match[0][0] == "S" and not re.match("[-\u2013]", following):
        return None  # Sam is a name too.
    return close(Abbreviation(_weekday_name(language, match[0])), match, language)


# -- eras and decades ------------------------------------------------------------------------------


@recognizer(
    "date",
    r"(?<!\w)(a|d)\.?\s?(?:de\s)?(?:C|J\.?\s?C)\b\.?(?![\w'])",
    languages=("es",),
    needs="ad",
    weight=2,
)
def _spanish_era(match: re.Match[str]) -> Value | Found | None:
    dated = re.search(r"(?:\d|[IVXLC]|siglo|año)\.?\s*$", text_before(match, 12))
    if match[0].count(".") < (1 if dated else 2):
        return None
    words = "antes de Cristo" if match[1] == "a" else "después de Cristo"
    return _close_era(Abbreviation(words), match, "es")


@recognizer(
    "date", r"(?<!\w)(av|apr|ap|avant|après)\.?\s?J\.?-?\s?C\b\.?(?!\w)",
    languages=("fr",), needs="jJ", flags=re.I, weight=2,
)  # fmt: skip
def _french_era(match: re.Match[str]) -> Value | Found | None:
    side = "avant" if match[1].lower().startswith("av") else "après"
    return _close_era(Abbreviation(f"{side} Jésus-Christ"), match, "fr")


def _close_era(value: Value, match: re.Match[str], language: str) -> Found:
    """At the start of a sentence more follows: Au Ier s. av. J.-C. César vint."""
    opening = r"\W*(?:Aux?|En|Vers|Dès|Du|Hacia|Durante|Desde|A)\b[^,;:]{0,30}"
    following = look_behind(match.string, match.end())
    named = following.kind == "capital" and following.word.lower() not in TABLES[language].STARTERS
    if named and re.fullmatch(opening, match.string[: match.start()]):
        return Found(value, "abbreviation")
    return close(value, match, language)


@recognizer(
    "decade",
    r"(?<=[sS] )'?([1-9]0)'?s?(?![\w%°º'])(?!\s?[%€$°º]|[.,]\d)|(?<!\w)'(\d\d)s?(?![\w'])|"
    r"(?<!\w)([12]\d\d0)s(?![\w'])",
    languages=("es",), weight=2,
    digits=True,
)  # fmt: skip
def _spanish_decade(match: re.Match[str]) -> Value | None:
    if match[1]:
        head = r"\b(?:años|(?:década|decenio) de los)\s$" + ("|los $" if "s" in match[0] else "")
        if not re.search(head, text_before(match).lower()):
            return None
    return Decade(int(match[1] or match[2] or match[3]), short=not match[3])


@recognizer(
    "decade",
    r"(?<!\w)((?:années|ann\.|décennie)\s+)'?(\d{4}|[1-9]0)"
    r"(?:\s*(-|\u2013|et|à|ou)\s*'?(\d{4}|[1-9]0))?(?!\w|[.,]\d)",
    languages=("fr",), flags=re.I, weight=1.5,
    digits=True,
)  # fmt: skip
def _french_decade(match: re.Match[str]) -> Value:
    head = match[1].strip().replace("ann.", "années")
    if not match[4]:
        return Phrase((head, Label(match[2])))
    long = ("à",) if len(match[4]) == 4 else ()
    link = (match[3],) if match[3].isalpha() else long
    return Phrase((head, Label(match[2]), *link, Label(match[4])))


# -- times of day ----------------------------------------------------------------------------------

_ZONES = frozenset("EST EDT CST PST CET CEST GMT UTC".split())


@recognizer(
    "time",
    r"(?<![\w:.,/])(\d{1,2})(?:[:.h]([0-5]\d))?(?::([0-5]\d))?\s*([aApP])\.?\s?[mM](?:\.|(?!\w))",
    languages=("es",), weight=1.5,
    digits=True,
)  # fmt: skip
def _spanish_half_day(match: re.Match[str]) -> Value | Found | None:
    hour = int(match[1])
    if hour > 24 or (match[2] is None and not 1 <= hour <= 12):
        return None
    value: Value = Time(hour, int(match[2] or 0), half=match[4].lower())
    if hour == 12 and re.search(r"\d (?:a|y) (?:las )?$", text_before(match)):
        value = Phrase((Time(hour, int(match[2] or 0)), "de la mañana"))  # de 10 a 12 a. m.
    return close(value, match, "es", continues=_ZONES)


@recognizer(
    "time",
    r"(?<![\w:.,/])([01]?\d|2[0-4]):([0-5]\d):([0-5]\d)(?![\d:])",
    languages=("es",), needs=":", weight=1.5,
)  # fmt: skip
def _spanish_seconds(match: re.Match[str]) -> Value:
    return Duration(int(match[1]), int(match[2]), int(match[3]))


_HOURS = r"(\s?(?:horas|hrs?|hs?)\b\.?(?!\w))"


@recognizer(
    "time",
    rf"(?<![\w:.,/])([01]?\d|2[0-4])[:h]([0-5]\d)(?![\d:]|[. ]\d{{3}}|[.,]\d){_HOURS}?",
    languages=("es",), weight=1.2,
    digits=True,
)  # fmt: skip
def _spanish_time(match: re.Match[str]) -> Value | Found | None:
    return close(
        _by_clock(match[1], int(match[2]), bool(match[3])), match, "es", digits_follow=False
    )


@recognizer(
    "time",
    rf"(?<![\w:.,/])(\d{{1,2}}):([0-5]\d)\s?[-\u2013]\s?(\d{{1,2}}):([0-5]\d)(?![\d:]){_HOURS}?",
    languages=("es",), needs=":", weight=1.3,
)  # fmt: skip
def _spanish_span(match: re.Match[str]) -> Value | Found | None:
    if int(match[1]) > 24 or int(match[3]) > 24:
        return None
    first = _by_clock(match[1], int(match[2]), False)
    first = Time(first.hour, first.minute, style=first.style.removesuffix(" hours"))
    last = _by_clock(match[3], int(match[4]), bool(match[5]))
    return close(Range(first, last, "a"), match, "es", digits_follow=False)


def _by_clock(hour_written: str, minute: int, marked: bool) -> Time:
    """By the clock of 24 hours where it is written so, else as people say it."""
    hour = int(hour_written)
    zero = hour_written.startswith("0") and (len(hour_written) > 1 or not minute)
    if not (marked or hour > 12 or zero) or (hour == 1 and not minute and not zero):
        return Time(hour, minute)
    hours = marked or (not minute and (hour > 12 or not hour))
    return Time(hour, minute, style="railway hours" if hours else "railway")


@recognizer(
    "time",
    r"(?<=\b[Ll]as )(\d{1,2})\s?(?:h|hs|hrs?)\b\.?(?!\w)|"
    r"(?<=\b[Ll]a )1(?=[.,;]|\s|$)(?!\.?[ªºa°]|[.,]\d)",
    languages=("es",), weight=1.5,
    digits=True,
)  # fmt: skip
def _spanish_hour(match: re.Match[str]) -> Value | Found | None:
    if match[1] is None:
        return Abbreviation("una")
    if int(match[1]) > 24:
        return None
    return close(Time(int(match[1]), style="railway hours"), match, "es", digits_follow=False)


@recognizer(
    "time",
    r"(?<=\blas )(1?\d|2[0-4])\.([0-5]\d)(?!\d|[.,]\d)(\s?h(?:oras)?\b\.?(?!\w))?",
    languages=("es",), needs=".", weight=1.5,
)  # fmt: skip
def _spanish_dotted(match: re.Match[str]) -> Value | Found | None:
    style = ("railway" if int(match[1]) > 12 else "") + (" hours" if match[3] else "")
    return close(Time(int(match[1]), int(match[2]), style=style), match, "es", digits_follow=False)


_AND = r"\s?(?:(y|et)\s)?"


@romance(
    "duration",
    rf"(?<![\w:.,/])(?:(\d{{1,4}})\s?(?:h|hs|hrs)\b\.?{_AND})?"
    rf"(\d{{1,3}})\s?(?:min|mn|m)\b\.?(?:{_AND}([0-5]?\d)\s?(?:seg|sec|s)\b\.?)?(?![\w/²'])",
    weight=1.5,
    digits=True,
)
def _duration(language: str, match: re.Match[str]) -> Value | Found | None:
    """1h 30m, 2 h 15 min, 28 min 30 s."""
    hours, first_link, minutes, last_link, seconds = match.groups()
    if not hours and not seconds:
        return None
    parts: list[Value | str] = [Duration(hours=int(hours))] if hours else []
    parts += [first_link] if first_link else []
    parts.append(Duration(minutes=int(minutes)))
    parts += [last_link] if last_link else []
    parts += [Duration(seconds=int(seconds))] if seconds else []
    return close(Phrase(tuple(parts)), match, language, digits_follow=False)


_FRENCH_HOUR = r"(?<![\w:.,/])([01]?\d|2[0-4])\s?[hH]"


@recognizer(
    "time", rf"{_FRENCH_HOUR}\s?([0-5]\d)(?![\w/])", languages=("fr",), weight=1.2, digits=True
)
def _french_time(match: re.Match[str]) -> Value:
    return Time(int(match[1]), int(match[2]))


@recognizer(
    "time",
    r"(?<![\w:.,/])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?![\d:]| \d{3})(?:\s?h(?:eures)?\b)?",
    languages=("fr",), needs=":", weight=1.2,
)  # fmt: skip
def _french_colon(match: re.Match[str]) -> Value:
    return Time(int(match[1]), int(match[2]), int(match[3]) if match[3] else None)


@recognizer(
    "time",
    r"(?<![\w:.,/])(\d{1,4})\s?[hH]\b\.?(?![\w\u00b2/])",
    languages=("fr",),
    weight=1.1,
    digits=True,
)
def _french_hour(match: re.Match[str]) -> Value | Found:
    return close(Time(int(match[1])), match, "fr", digits_follow=False)


@recognizer(
    "time", r"(?<![\w:.,/])(\d{1,2})\s?[hH]?/(24)\b|(?<![\w:.,/])(\d{1,2})\s?[jJ]/(7|365)\b",
    languages=("fr",), needs="/", weight=1.5,
)  # fmt: skip
def _always(match: re.Match[str]) -> Value:
    if match[1]:
        return Phrase((Time(int(match[1])), "sur", Number("24")))
    return Phrase((Number(match[3]), "jours", "sur", Number(match[4])))


@recognizer(
    "time",
    rf"{_FRENCH_HOUR[:-4]}[hH:]([0-5]\d)?\s?[-\u2013]\s?([01]?\d|2[0-4])\s?[hH:]([0-5]\d)?(?!\w)",
    languages=("fr",), weight=1.3,
    digits=True,
)  # fmt: skip
def _french_span(match: re.Match[str]) -> Value:
    first = Time(int(match[1]), int(match[2] or 0))
    return Range(first, Time(int(match[3]), int(match[4] or 0)), "à")


@romance(
    "zone",
    r"(?<!\w)(GMT|UTC)\s?([+\u2212-])\s?(\d{1,2})(?::(\d\d))?(?![\w:])",
    needs="GU",
    weight=2,
)
def _zone(language: str, match: re.Match[str]) -> Value:
    sign = {"es": ("más", "menos"), "fr": ("plus", "moins")}[language][match[2] != "+"]
    minutes = (Number(match[4]),) if match[4] else ()
    return Phrase((Letters(match[1]), sign, Number(match[3].lstrip("0") or "0"), *minutes))


RECOGNIZERS = (
    _spanish_date, _french_date, _spanish_first, *_iso, *_numeric, *_roman_month, *_school_year,
    *_day_and_month, *_month_and_year, *_month_alone, *_weekdays, *_weekday, _spanish_era,
    _french_era, _spanish_decade, _french_decade, _spanish_half_day, _spanish_seconds,
    _spanish_time, _spanish_span, _spanish_hour, _spanish_dotted, *_duration, _french_time,
    _french_colon, _french_hour, _always, _french_span, *_zone,
)  # fmt: skip
