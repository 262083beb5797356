"""Spanish dates, years, decades and times of day."""

from __future__ import annotations

import re

from anyrig.speech.normalise.romance.figures import roman
from anyrig.speech.normalise.romance.sentences import closed
from anyrig.speech.normalise.rules import Rule, rule
from anyrig.speech.normalise.spanish.numbers import cardinal, ordinal

MONTHS = (
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
).split()
_SHORT = {month[:3]: month for month in MONTHS} | {
    "sept": "septiembre", "set": "septiembre", "setiembre": "setiembre", "febr": "febrero",
    "agto": "agosto", "novbre": "noviembre", "dicbre": "diciembre", "mzo": "marzo",
}  # fmt: skip
_DAYS = {
    "lun": "lunes", "mar": "martes", "mié": "miércoles", "mie": "miércoles", "mierc": "miércoles",
    "miérc": "miércoles", "jue": "jueves", "vie": "viernes", "sáb": "sábado", "sab": "sábado",
    "dom": "domingo",
}  # fmt: skip
_MONTH = "(?:" + "|".join(sorted([*MONTHS, *_SHORT], key=len, reverse=True)) + r")(?![^\W\d_])\.?"
_DAY_NAME = "(?:" + "|".join(sorted(_DAYS, key=len, reverse=True)) + r")\."
_HOURS_NAMED = {12: "doce"}
_DAY_PARTS = {"madrugada", "mañana", "tarde", "noche", "mediodía"}


# A street named after a day; what follows is the house.
_STREET = re.compile(r"\b(?:Avda\.|Av\.|[Aa]venida|[Cc]alle|[Pp]laza|[Cc]/)\s*$")


def _month(written: str) -> str:
    name = written.rstrip(".").lower()
    return name if name in MONTHS else _SHORT.get(name, name)


def _day(number: int) -> str:
    return cardinal(number)


def _year(written: str) -> int:
    """Two digits stand for the nearest century."""
    year = int(written)
    return year if len(written) > 2 else year + (2000 if year < 50 else 1900)


def _of_parts(day: int, month: int, year: str) -> str | None:
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    words = f"{_day(day)} de {MONTHS[month - 1]}"
    return f"{words} de {cardinal(_year(year))}" if year else words


@rule(
    "date",
    rf"(?:(?<!\w)({_DAY_NAME}),?\s+)?(?<![\w.,/])(\d{{1,2}})(?:\s*[-\u2013]\s*(\d{{1,2}}))?(?:\s+|[-/])"
    rf"(?:de\s+)?({_MONTH})(?:(?:,?\s+(?:del?\s+)?|[-/])(\d{{4}}))?(?!\w)",
    flags=re.IGNORECASE,
)
def _named(match: re.Match[str]) -> str | None:
    weekday, day, until, month, year = match.groups()
    if not 1 <= int(day) <= 31 or (month.lower() in ("mar", "set", "may", "dic") and not year):
        return None
    if year and _STREET.search(match.string[max(0, match.start() - 12) : match.start()]):
        name = match.group()[: -len(year)].rstrip(" ,").removeprefix(day)
        return f"{cardinal(int(day))}{name} {cardinal(int(year))}"
    words = _day(int(day)) + (f" al {_day(int(until))}" if until else "")
    words = f"{words} de {_month(month)}"
    if weekday:
        words = f"{_DAYS[weekday.rstrip('.').lower()]} {words}"
    if not year:
        return closed(words, match)
    article = "del" if re.search(r"\bdel\s+\d{4}$", match.group()) else "de"
    return f"{words} {article} {cardinal(int(year))}"


@rule("date", r"(?<!\w)(1)\.?(?:º|°|ero|ro|er|o)\.?\s+de\s+(?=[a-z]+)", flags=re.IGNORECASE)
def _first(match: re.Match[str]) -> str | None:
    following = re.match(r"[a-z]+", match.string[match.end() : match.end() + 12])
    return "primero de " if following and following[0] in MONTHS else None


@rule("date", r"(?<![\w.,/-])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/-])")
def _iso(match: re.Match[str]) -> str | None:
    return _of_parts(int(match[4]), int(match[3]), match[1])


@rule("date", r"(?<![\w.,/-])(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?![\d/-])(?!\.\d)")
def _slashed(match: re.Match[str]) -> str | None:
    day, month = int(match[1]), int(match[3])
    if month > 12 >= day:
        day, month = month, day
    return _of_parts(day, month, match[4])


@rule("date", r"(?<![\w.,/-])((?:19|20)\d\d)/((?:19|20)\d\d|\d\d)(?![\d/-])")
def _school_year(match: re.Match[str]) -> str | None:
    """A course that runs over New Year."""
    return f"{cardinal(int(match[1]))} {cardinal(int(match[2]))}"


@rule(
    "date",
    r"(?<=\b[Ee]l )(?!1/[2-9]\b|2/3|3/4)(\d{1,2})/(\d{1,2})(?![\d/]|[.,]\d| de (?:l|su|mi|tu|est))",
)
def _day_month(match: re.Match[str]) -> str | None:
    return _of_parts(int(match[1]), int(match[2]), "")


@rule(
    "date",
    rf"(?<![\w/])(0[1-9]|1[0-2])/(\d{{4}})(?![\d/])|(?<!\w)({_MONTH})[-/ ](\d{{4}})(?!\d)",
    flags=re.I,
)
def _month_year(match: re.Match[str]) -> str | None:
    if match[1]:
        return f"{MONTHS[int(match[1]) - 1]} de {cardinal(int(match[2]))}"
    if match[3].lower() in MONTHS and match.group()[-5] == " ":
        return f"{match[3]} {cardinal(int(match[4]))}"
    return f"{_month(match[3])} de {cardinal(int(match[4]))}"


@rule("date", r"(?<![\w.,/-])(\d{1,2})([-/.])([IVX]{1,4})\2(\d{4})(?![\w-])")
def _roman_month(match: re.Match[str]) -> str | None:
    return _of_parts(int(match[1]), roman(match[3]) or 0, match[4])


@rule(
    "date",
    rf"(?<!\w)({_DAY_NAME})(?=,?\s+\d)|(?<!\w)((?:lun|mié|jue|vie|sáb|dom)\.)(?!\w)",
    flags=re.IGNORECASE,
)
def _weekday(match: re.Match[str]) -> str | None:
    # El mar. 12 barcos: a noun that is counted follows.
    if match[0].lower() == "mar." and re.match(
        r",?\s+\d+ [a-zá-ú]{4,}", match.string[match.end() :]
    ):
        return None
    return closed(_DAYS[match.group().rstrip(".").lower()], match)


@rule("date", r"(?<!\w)(a|d)\.?\s?(?:de\s)?(?:C|J\.?\s?C)\.?(?![\w'])")
def _era(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 12) : match.start()]
    dated = re.search(r"(?:\d|[IVXLC]|siglo|año)\.?\s*$", before)
    if match.group().count(".") < (1 if dated else 2):
        return None
    return closed("antes de Cristo" if match[1] == "a" else "después de Cristo", match)


@rule(
    "decade",
    r"(?<!\w)((?:años|década de los|decenio de los|los(?=\s+'?\d0'?s))\s+(?:años\s+)?)"
    r"'?([1-9]0)'?s?(?![\w%°])(?!\s?[%€$°]|[.,]\d)",
    flags=re.I,
)
def _decade(match: re.Match[str]) -> str | None:
    return f"{match[1]}{cardinal(int(match[2]))}"


@rule("decade", r"(?<!\w)('(\d\d)s?|([12]\d\d0)s)(?![\w'])")
def _plural(match: re.Match[str]) -> str | None:
    return cardinal(int(match[2] or match[3]))


@rule(
    "century",
    r"(?<!\w)(siglos?|s\.|ss\.)\s+([IVXLC]+)(?:\s*(-|\u2013|y|al?|o)\s*([IVXLC]+))?(?!\w)",
    flags=re.IGNORECASE,
)
def _century(match: re.Match[str]) -> str | None:
    first, last = roman(match[2]), roman(match[4] or "I")
    if first is None or last is None or match[1].startswith("S."):
        return None
    head = {"s.": "siglo", "ss.": "siglos"}.get(match[1].lower(), match[1])
    words = f"{head} {_century_number(first)}"
    if not match[4]:
        return words
    link = "a" if match[3] in "-\u2013" else match[3]
    return f"{words} {link} {_century_number(last)}"


def _century_number(number: int) -> str:
    """Up to the tenth an ordinal, later ones a cardinal."""
    return ordinal(number) if number <= 10 else cardinal(number)


# -- times of day ----------------------------------------------------------------------------------


@rule(
    "time",
    r"(?<![\w:.,/])(\d{1,2})(?:[:.h]([0-5]\d))?(?::([0-5]\d))?\s*(a|p)\.?\s?(m)(?:\.|(?!\w))",
    flags=re.IGNORECASE,
)
def _half_day(match: re.Match[str]) -> str | None:
    hour, minute = int(match[1]), int(match[2] or 0)
    if not 0 <= hour <= 24 or (match[3] is None and match[2] is None and not 1 <= hour <= 12):
        return None
    words = _clock(hour, minute)
    part = _part_of_day(hour, match[4].lower() == "p")
    return closed(f"{words} {part}", match)


def _part_of_day(hour: int, afternoon: bool) -> str:
    if afternoon:
        if hour == 12:
            return "del mediodía"
        return "de la noche" if 8 <= hour <= 11 or hour > 20 else "de la tarde"
    return "de la noche" if hour == 12 else "de la mañana"


@rule("time", r"(?<![\w:.,/])([01]?\d|2[0-4])[:]([0-5]\d):([0-5]\d)(?![\d:])")
def _seconds(match: re.Match[str]) -> str | None:
    hour, minute, second = (int(one) for one in match.groups())
    return " ".join(
        (_counted(hour, "hora"), _counted(minute, "minuto"), "y", _counted(second, "segundo"))
    )


def _counted(number: int, noun: str) -> str:
    words = cardinal(number, "f" if noun.endswith("a") else "m")
    return f"{words} {noun}{'' if number == 1 else 's'}"


@rule(
    "time",
    r"(?<![\w:.,/])([01]?\d|2[0-4])(?:[:h]([0-5]\d))(?![\d:]|[. ]\d{3})"
    r"(\s?(?:horas|hrs?\.?|hs?\.?)(?!\w))?",
)
def _of_day(match: re.Match[str]) -> str | None:
    return closed(_spoken(match[1], int(match[2]), bool(match[3])), match)


@rule(
    "time",
    r"(?<![\w:.,/])(\d{1,2}):([0-5]\d)\s?[-\u2013]\s?(\d{1,2}):([0-5]\d)(?![\d:])(\s?h(?!\w))?",
)
def _span(match: re.Match[str]) -> str | None:
    if int(match[1]) > 24 or int(match[3]) > 24:
        return None
    first = _spoken(match[1], int(match[2]), False).removesuffix(" horas")
    return f"{first} a {_spoken(match[3], int(match[4]), bool(match[5]))}"


def _spoken(hour_written: str, minute: int, marked: bool) -> str:
    """By the railway's clock where it is written so, else as people say it."""
    hour = int(hour_written)
    zero = hour_written.startswith("0") and (len(hour_written) > 1 or not minute)
    if not (marked or hour > 12 or zero):
        return _clock(hour, minute)
    if hour == 1 and not minute and not zero:
        return _hour(hour)
    full = marked or (not minute and (hour > 12 or not hour))
    return f"{_railway(hour, minute)}{' horas' if full else ''}"


@rule(
    "time",
    r"(?<=\b[Ll]as )(\d{1,2})\s?(?:h|hs|hrs?)\.?(?!\w)|"
    r"(?<=\b[Ll]a )1(?=[.,;]|\s|$)(?!\.?[ªºa°]|[.,]\d)",
)
def _full_hour(match: re.Match[str]) -> str | None:
    if match[1] is None:
        return "una"
    return closed(f"{_hour(int(match[1]))} horas", match) if int(match[1]) <= 24 else None


@rule("time", r"(?<=\blas )(1?\d|2[0-4])\.([0-5]\d)(?!\d|[.,]\d)(\s?h(?:oras)?\.?(?!\w))?")
def _dotted(match: re.Match[str]) -> str | None:
    words = (
        _clock(int(match[1]), int(match[2]))
        if int(match[1]) <= 12
        else _railway(int(match[1]), int(match[2]))
    )
    return f"{words} horas" if match[3] else words


def _hour(hour: int) -> str:
    return cardinal(hour, "f")


def _railway(hour: int, minute: int) -> str:
    if not minute:
        return _hour(hour)
    return f"{_hour(hour)} {'cero ' if minute < 10 else ''}{cardinal(minute)}"


def _clock(hour: int, minute: int) -> str:
    """As people say it: half past, a quarter past; from the half hour on the plain minutes."""
    if not minute:
        return _hour(hour)
    named = {15: "y cuarto", 30: "y media"}.get(minute)
    if named:
        return f"{_hour(hour)} {named}"
    return f"{_hour(hour)} {'y ' if minute < 30 else ''}{cardinal(minute)}"


RULES: tuple[Rule, ...] = (
    _iso, _slashed, _roman_month, _school_year, _day_month, _named, _first, _month_year, _weekday,
    _century, _decade, _plural, _era, _half_day, _span, _seconds, _of_day, _full_hour, _dotted,
)  # fmt: skip
