"""Spanish units and percentages."""

from __future__ import annotations

import re

from anyrig.speech.normalise.romance.figures import (
    BEFORE,
    DASH,
    MINUS,
    NUMBER,
    SPACE,
    choice,
    figure,
)
from anyrig.speech.normalise.romance.sentences import closed
from anyrig.speech.normalise.rules import Rule, rule
from anyrig.speech.normalise.spanish.nouns import gender
from anyrig.speech.normalise.spanish.numbers import Gender, say, say_figure
from anyrig.speech.normalise.spanish.units import PER, UNITS

_UNIT = choice(UNITS)
_EACH = choice(one for one in PER if len(one) > 3 or one in ("mes", "año", "día"))


def _unit(number: str, unit: str) -> str:
    one, many, kind = UNITS[unit]
    value = figure(number)
    return f"{say_figure(value, kind)} {one if value.single else many}"


def _per_unit(unit: str) -> str:
    return f" por {UNITS[unit][0]}" if unit else ""


@rule(
    "unit", rf"{BEFORE}({NUMBER}){SPACE}(págs?|hab|uds?|pers|hs|hrs|mins|segs)\.(?!\w)", flags=re.I
)
def _shortened(match: re.Match[str]) -> str | None:
    """What is counted is cut short: 432 págs."""
    value = figure(match[1])
    short = match[2].lower()
    one, many, kind = _CUT[short]
    if short == "hab" and value.whole < 20:
        one, many, kind = "habitación", "habitaciones", "f"
    return closed(f"{say_figure(value, kind)} {one if value.single else many}", match)


_CUT: dict[str, tuple[str, str, Gender]] = {
    "pág": ("página", "páginas", "f"), "págs": ("página", "páginas", "f"),
    "hab": ("habitante", "habitantes", "m"), "ud": ("unidad", "unidades", "f"),
    "uds": ("unidad", "unidades", "f"), "pers": ("persona", "personas", "f"),
    "hs": ("hora", "horas", "f"), "hrs": ("hora", "horas", "f"),
    "mins": ("minuto", "minutos", "m"), "segs": ("segundo", "segundos", "m"),
}  # fmt: skip


@rule("unit", r"(?<=[a-z²]) [x×] (?=\d)")
def _across(match: re.Match[str]) -> str | None:
    """Between two sides that have a unit each."""
    return " por "


@rule("unit", rf"{BEFORE}(\d{{1,2}})'([0-5]\d)(?:\"|''|(?!\w))")
def _lap(match: re.Match[str]) -> str | None:
    """Minutes and seconds as in sport: 3'30."""
    return f"{_unit(match[1], 'min')} {say(match[2])}"


@rule(
    "unit", rf"{BEFORE}(\d{{1,3}})°{SPACE}?(\d{{1,2}})['\u2032](?:{SPACE}?(\d{{1,2}})[\"\u2033])?"
)
def _arc(match: re.Match[str]) -> str | None:
    """Degrees, minutes and seconds of an angle."""
    parts = zip(match.groups(), ("°", "min", "s"), strict=True)
    return " ".join(_unit(number, unit) for number, unit in parts if number)


@rule(
    "unit",
    rf"{BEFORE}({NUMBER})(?:{DASH}| a ){MINUS}({NUMBER}){SPACE}?({_UNIT})(?:/({_UNIT}))?(?![\w²³])",
)
def _unit_range(match: re.Match[str]) -> str | None:
    kind = UNITS[match[3]][2]
    return f"{say(match[1], kind)} a {_unit(match[2], match[3])}{_per_unit(match[4] or '')}"


@rule(
    "unit",
    rf"{BEFORE}({NUMBER}){SPACE}?[x×]{SPACE}?({NUMBER})(?:{SPACE}?[x×]{SPACE}?({NUMBER}))?{SPACE}?({_UNIT})?(?![\w²³])",
)
def _sides(match: re.Match[str]) -> str | None:
    first, second, third, unit = match.groups()
    words = [say(one) for one in (first, second, third) if one]
    if unit:
        words[-1] = _unit(third or second, unit)
    return " por ".join(words)


@rule("unit", rf"{BEFORE}({MINUS}{NUMBER}){SPACE}?({_UNIT})(?:/({_UNIT}))?(?![\w²³'\u2019])")
def _units(match: re.Match[str]) -> str | None:
    number, unit, per = match.groups()
    glued = not re.search(r"\s", match.group())
    if glued and unit in ("K", "N", "J", "F", "C", "t", "B"):
        return None
    return closed(f"{_unit(number, unit)}{_per_unit(per or '')}", match)


@rule("unit", rf"(?<![\w/.])({_UNIT})/({_UNIT})(?![\w²³])")
def _bare_rate(match: re.Match[str]) -> str | None:
    if len(match.group()) < 4 and match.group() != "m/s":
        return None
    return f"{UNITS[match[1]][1]} por {UNITS[match[2]][0]}"


@rule(
    "percent",
    rf"{BEFORE}(?:({MINUS}{NUMBER}){SPACE}?%?(?:{DASH}| a )){MINUS}({NUMBER}){SPACE}?(%|‰)",
)
def _percent_range(match: re.Match[str]) -> str | None:
    return f"{say(match[1])} a {say(match[2])} {_PERCENT[match[3]]}"


@rule(
    "unit",
    rf"(?<=\w){SPACE}?/{SPACE}?({_EACH})(?!\w)",
)
def _each(match: re.Match[str]) -> str | None:
    """After anything counted: 8 horas/día."""
    return f" {PER[match[1]]}"


@rule("unit", rf"{BEFORE}({NUMBER}){SPACE}?({_UNIT})/(\d+){SPACE}?({_UNIT})(?![\w²³])")
def _each_hundred(match: re.Match[str]) -> str | None:
    return f"{_unit(match[1], match[2])} cada {_unit(match[3], match[4])}"


@rule("number", rf"{BEFORE}1(?= de cada {NUMBER} ([a-záéíóúñ]+))")
def _one_in(match: re.Match[str]) -> str | None:
    """One of them has their gender: una de cada tres mujeres."""
    return "una" if gender(match[1]) == "f" else "uno"


@rule("percent", rf"{BEFORE}({MINUS}\+?{NUMBER}){SPACE}?(%|‰)")
def _percent(match: re.Match[str]) -> str | None:
    plus = "más " if "+" in match[1] else ""
    return f"{plus}{say(match[1])} {_PERCENT[match[2]]}"


_PERCENT = {"%": "por ciento", "‰": "por mil"}


RULES: tuple[Rule, ...] = (
    _arc, _lap, _across, _percent_range, _percent, _unit_range, _sides, _each_hundred, _units,
    _bare_rate, _each, _one_in,
)  # fmt: skip
# Before abbreviations, which know the same short forms by themselves.
SHORT = _shortened
