"""French dates, years, decades, centuries and times of day."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french.numbers import cardinal, label, ordinal
from anyrig.speech.normalise.romance.figures import roman
from anyrig.speech.normalise.romance.sentences import cased, closed
from anyrig.speech.normalise.rules import Rule, rule

MONTHS = (
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
).split()
_SHORT = {
    "janv": "janvier", "jan": "janvier", "févr": "février", "fév": "février", "fevr": "février",
    "mar": "mars", "avr": "avril", "juil": "juillet", "aoû": "août", "aout": "août",
    "sept": "septembre", "sep": "septembre", "oct": "octobre", "nov": "novembre", "déc": "décembre",
    "dec": "décembre", "fev": "février", "decembre": "décembre", "fevrier": "février",
}  # fmt: skip
_DAYS = {
    "lun": "lundi", "mar": "mardi", "mer": "mercredi", "jeu": "jeudi", "ven": "vendredi",
    "sam": "samedi", "dim": "dimanche",
}  # fmt: skip
_MONTH = "(?:" + "|".join(sorted([*MONTHS, *_SHORT], key=len, reverse=True)) + r")(?![^\W\d_])\.?"
_DAY_NAME = "(?:" + "|".join(_DAYS) + r")\."
_DAY = r"\d{1,2}(?:er)?"


def _month(written: str) -> str:
    name = written.rstrip(".").lower()
    return name if name in MONTHS else _SHORT.get(name, name)


def _day(written: str) -> str:
    number = int(written.removesuffix("er"))
    return "premier" if number == 1 else cardinal(number)


def _year(written: str) -> int:
    """Two digits stand for the nearest century."""
    year = int(written)
    return year if len(written) > 2 else year + (2000 if year < 50 else 1900)


def _of_parts(day: int, month: int, year: str) -> str | None:
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    words = f"{_day(str(day))} {MONTHS[month - 1]}"
    return f"{words} {cardinal(_year(year))}" if year else words


@rule(
    "date",
    rf"(?:(?<!\w)({_DAY_NAME}),?\s+)?(?<![\w.,/])({_DAY})(?:\s*(-|\u2013|et|au)\s*({_DAY}))?(?:\s+|[-/])"
    rf"({_MONTH})(?:(?:,?\s+|[-/])(\d{{4}}))?(?!\w)",
    flags=re.IGNORECASE,
)
def _named(match: re.Match[str]) -> str | None:
    weekday, day, link, until, month, year = match.groups()
    if not 1 <= int(day.removesuffix("er")) <= 31 or (month.lower() in ("mar", "dec") and not year):
        return None
    words = _day(day)
    if until:
        words = f"{words} {link if link.isalpha() else 'au'} {_day(until)}"
    words = f"{words} {_month(month)}"
    if weekday:
        words = f"{_DAYS[weekday.rstrip('.').lower()]} {words}"
    return f"{words} {cardinal(int(year))}" if year else closed(words, match)


@rule("date", r"(?<![\w.,/-])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/-])")
def _iso(match: re.Match[str]) -> str | None:
    return _of_parts(int(match[4]), int(match[3]), match[1])


@rule("date", r"(?<![\w.,/-])(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?![\d/-])(?![.\s-]\d)")
def _slashed(match: re.Match[str]) -> str | None:
    day, month = int(match[1]), int(match[3])
    if month > 12 >= day:
        day, month = month, day
    return _of_parts(day, month, match[4])


@rule(
    "date",
    rf"(?<![\w/])(0[1-9]|1[0-2])/(\d{{4}})(?![\d/])|(?<!\w)({_MONTH})[-/ ](\d{{4}})(?!\d)",
    flags=re.I,
)
def _month_year(match: re.Match[str]) -> str | None:
    if match[1]:
        return f"{MONTHS[int(match[1]) - 1]} {cardinal(int(match[2]))}"
    full = match[3].rstrip(".").lower() in MONTHS
    return f"{match[3] if full else _month(match[3])} {cardinal(int(match[4]))}"


@rule("date", r"(?<![\w.,/-])((?:19|20)\d\d)/((?:19|20)\d\d|\d\d)(?![\d/-])")
def _school_year(match: re.Match[str]) -> str | None:
    """A course that runs over New Year."""
    return f"{cardinal(int(match[1]))} {cardinal(int(match[2]))}"


@rule(
    "date",
    r"(?<=\b[Ll]e )(?!1/[2-9]\b|2/3|3/4)(\d{1,2})/(\d{1,2})(?![\d/]|[.,]\d| d(?:e la|es|u)\b)",
)
def _day_month(match: re.Match[str]) -> str | None:
    return _of_parts(int(match[1]), int(match[2]), "")


@rule("date", r"(?<![\w.,/-])(\d{1,2})([-/.])([IVX]{1,4})\2(\d{4})(?![\w-])")
def _roman_month(match: re.Match[str]) -> str | None:
    return _of_parts(int(match[1]), roman(match[3]) or 0, match[4])


@rule(
    "date",
    rf"(?<!\w)({'|'.join(_DAYS)})\.?\s?[-\u2013]\s?({'|'.join(_DAYS)})\.(?!\w)",
    flags=re.IGNORECASE,
)
def _days(match: re.Match[str]) -> str | None:
    first, last = _DAYS[match[1].lower()], _DAYS[match[2].lower()]
    return closed(cased(f"{first} à {last}", match), match)


# Mer, mar and jeu are words too: these need a number or a span of days behind them.
@rule(
    "date",
    rf"(?<!\w)({_DAY_NAME})(?=,?\s+(?:\d|au\s|à\s))|(?<!\w)((?:lun|ven|sam|dim)\.)(?!\w)",
    flags=re.IGNORECASE,
)
def _weekday(match: re.Match[str]) -> str | None:
    # La mer. 12 bateaux: a noun that is counted follows, and no time or place.
    counted = re.match(
        r",?\s+\d+ (?!heures?\b|dans\b|pour\b)[a-zà-ÿ]{3,}", match.string[match.end() :]
    )
    if counted and match[0].lower() in ("mer.", "mar.", "jeu."):
        return None
    if (
        match[2]
        and match[2].startswith("S")
        and not re.match("[-\u2013]", match.string[match.end() :])
    ):
        return None  # Sam is a name too.
    return closed(_DAYS[match.group().rstrip(".").lower()], match)


@rule("date", r"(?<!\w)(av|ap|apr|avant|après)\.?\s?(J\.?-?\s?C)(?:\.|(?!\w))", flags=re.I)
def _era(match: re.Match[str]) -> str | None:
    side = "avant" if match[1].lower().startswith("av") else "après"
    return closed(f"{side} Jésus-Christ", match)


@rule(
    "decade",
    r"(?<!\w)((?:années|ann\.|décennie)\s+)['\u2019]?(\d{4}|[1-9]0)(?:\s*(-|\u2013|et|à|ou)\s*['\u2019]?(\d{4}|[1-9]0))?(?!\w|[.,]\d)",
    flags=re.I,
)
def _decade(match: re.Match[str]) -> str | None:
    words = f"{match[1]}{label(int(match[2]))}"
    if not match[4]:
        return words
    link = match[3] if match[3].isalpha() else ""
    return f"{words} {link} {label(int(match[4]))}"


@rule("century", r"(?<!\w)([IVXLC]+)\s?(er|re|ère|ème|eme|ième|nd|nde|e|è|ᵉʳ|ᵉ)s?(?!\w)")
def _ordinal_roman(match: re.Match[str]) -> str | None:
    number = roman(match[1])
    # Le and Ce are words; so are Ver, Vers and Inde, whose endings belong to one and two alone.
    if not number or match[1] in ("L", "C") or " " in match.group().rstrip():
        return None
    if number != {"er": 1, "re": 1, "ère": 1, "ᵉʳ": 1, "nd": 2, "nde": 2}.get(match[2], number):
        return None
    if match[0] == "Ire" and not re.search(r"\b[Ll]a $", match.string[: match.start()][-4:]):
        return None
    return ordinal(number, "f" if match[2] in ("re", "ère") else "m")


@rule("century", r"(?<=[IVX][eè] )s\.|(?<=[IVX]ème )s\.")
def _short_century(match: re.Match[str]) -> str | None:
    return closed("siècle", match)


@rule("century", r"(?<!\w)(s\.|siècle)\s([IVX]+)(?!\w)")
def _century(match: re.Match[str]) -> str | None:
    number = roman(match[2])
    return f"siècle {cardinal(number)}" if number else None


# -- times of day ----------------------------------------------------------------------------------


@rule(
    "time",
    r"(?<![\w:.,/])([01]?\d|2[0-4])\s?[hH]\s?([0-5]\d)(\s?(?:min|mn)\b)?(?:\s?([0-5]\d)\s?s(?:ec)?\b)?(?!\w)",
)
def _hours(match: re.Match[str]) -> str | None:
    words = _clock(int(match[1]), int(match[2]), match[4])
    if not match[3] or match[4]:
        return words
    minute = int(match[2])
    minutes = f"{cardinal(minute, 'f')} minute{'s' if minute > 1 else ''}"
    return f"{_clock(int(match[1]), 0, None)} {minutes}"


@rule(
    "time",
    r"(?<![\w:.,/])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?![\d:]| \d{3})(?:\s?h(?:eures)?\b)?",
)
def _colon(match: re.Match[str]) -> str | None:
    return _clock(int(match[1]), int(match[2]), match[3])


@rule("time", r"(?<![\w:.,/])(\d{1,4})\s?[hH](?![\w\u00b2/])")
def _hour(match: re.Match[str]) -> str | None:
    return _clock(int(match[1]), 0, None)


@rule("time", r"(?<![\w:.,/])(\d{1,2})\s?[hH]?/(24)\b|(?<![\w:.,/])(\d{1,2})\s?[jJ]/(7|365)\b")
def _always(match: re.Match[str]) -> str | None:
    if match[1]:
        return f"{_clock(int(match[1]), 0, None)} sur vingt-quatre"
    return f"{cardinal(int(match[3]))} jours sur {cardinal(int(match[4]))}"


@rule(
    "time",
    r"(?<![\w:.,/])([01]?\d|2[0-4])\s?[hH:]([0-5]\d)?\s?[-\u2013]\s?"
    r"([01]?\d|2[0-4])\s?[hH:]([0-5]\d)?(?!\w)",
)
def _span(match: re.Match[str]) -> str | None:
    first = _clock(int(match[1]), int(match[2] or 0), None)
    return f"{first} à {_clock(int(match[3]), int(match[4] or 0), None)}"


def _clock(hour: int, minute: int, second: str | None) -> str:
    words = f"{cardinal(hour, 'f')} heure{'s' if hour > 1 else ''}"
    if minute:
        words = f"{words} {cardinal(minute, 'f' if minute % 10 == 1 and minute != 11 else '')}"
    elif second:
        words = f"{words} zéro minute"
    if second:
        minutes = f" minute{'s' if minute > 1 else ''}" if minute else ""
        words = (
            f"{words}{minutes} {cardinal(int(second), 'f')} seconde{'s' if int(second) > 1 else ''}"
        )
    return words


RULES: tuple[Rule, ...] = (
    _iso, _slashed, _roman_month, _school_year, _day_month, _named, _month_year, _days, _weekday,
    _era, _decade, _ordinal_roman, _short_century, _century, _always, _span, _hours, _colon,
    _hour,
)  # fmt: skip
