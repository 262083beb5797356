"""French units and percentages."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french.numbers import (
    cardinal,
    plural,
    say,
    say_figure,
)
from anyrig.speech.normalise.french.units import PER, UNITS
from anyrig.speech.normalise.romance.figures import (
    BEFORE,
    DASH,
    MINUS,
    NUMBER,
    SPACE,
    choice,
    figure,
)
from anyrig.speech.normalise.romance.sentences import closed, word_before
from anyrig.speech.normalise.rules import Rule, rule

_UNIT = choice(UNITS)
_TO = rf"(?:{DASH}| à )"


def _unit(number: str, unit: str) -> str:
    one, many, kind = UNITS[unit]
    value = figure(number)
    return f"{say_figure(value, kind)} {many if plural(value) else one}"


def _per_unit(unit: str) -> str:
    return f" par {UNITS[unit][0]}" if unit else ""


@rule("unit", r"(?<=[a-z²]) [x×] (?=\d)")
def _across(match: re.Match[str]) -> str | None:
    """Between two sides that have a unit each."""
    return " sur "


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
    "unit", rf"{BEFORE}({MINUS}{NUMBER}){_TO}({NUMBER}){SPACE}?({_UNIT})(?:/({_UNIT}))?(?![\w²³])"
)
def _unit_range(match: re.Match[str]) -> str | None:
    kind = UNITS[match[3]][2]
    return f"{say(match[1], kind)} à {_unit(match[2], match[3])}{_per_unit(match[4] or '')}"


@rule(
    "unit",
    rf"{BEFORE}({NUMBER}){SPACE}?[x×]{SPACE}?({NUMBER})(?:{SPACE}?[x×]{SPACE}?({NUMBER}))?"
    rf"(?:{SPACE}?({_UNIT}))?(?![\w²³])",
)
def _sides(match: re.Match[str]) -> str | None:
    first, second, third, unit = match.groups()
    if (first, second, third) == ("4", "4", None):
        return "quatre-quatre"
    words = [say(one) for one in (first, second, third) if one]
    if unit:
        words[-1] = _unit(third or second, unit)
    return (" sur " if unit or third else " fois ").join(words)


@rule("unit", rf"{BEFORE}({MINUS}{NUMBER}){SPACE}?({_UNIT})(?:/({_UNIT}))?(?![\w²³'\u2019])")
def _units(match: re.Match[str]) -> str | None:
    number, unit, per = match.groups()
    glued = not re.search(r"\s", match.group())
    if match.group() == "4L" and word_before(match) in ("renault", "la", "une", "sa", "ma", "en"):
        return None  # A car.
    if unit in ("K", "N", "J", "C", "t", "o", "j") and glued:
        return None
    return closed(f"{_unit(number, unit)}{_per_unit(per or '')}", match)


@rule("unit", rf"(?<![\w/.])({_UNIT})/({_UNIT})(?![\w²³])")
def _bare_rate(match: re.Match[str]) -> str | None:
    if len(match.group()) < 4 and match.group() != "m/s":
        return None
    return f"{UNITS[match[1]][1]} par {UNITS[match[2]][0]}"


@rule(
    "unit",
    rf"(?<=\w){SPACE}?/{SPACE}?({choice(one for one in PER if len(one) > 3 or one == 'an')})(?!\w)",
)
def _each(match: re.Match[str]) -> str | None:
    """After anything counted: 8 heures/jour."""
    return f" {PER[match[1]]}"


@rule("unit", rf"{BEFORE}({NUMBER}){SPACE}?({_UNIT})/(\d+){SPACE}?({_UNIT})(?![\w²³])")
def _each_hundred(match: re.Match[str]) -> str | None:
    return f"{_unit(match[1], match[2])} aux {_unit(match[3], match[4])}"


@rule("unit", rf"{BEFORE}(\d)m(\d\d)(?!\w)")
def _height(match: re.Match[str]) -> str | None:
    """As people are measured: 1m80."""
    return f"{_unit(match[1], 'm')} {cardinal(int(match[2]))}"


_PERCENT = {"%": "pour cent", "‰": "pour mille"}


@rule("percent", rf"{BEFORE}({MINUS}{NUMBER}){SPACE}?%?{_TO}({NUMBER}){SPACE}?(%|‰)")
def _percent_range(match: re.Match[str]) -> str | None:
    first = f"{say(match[1])}{' pour cent' if '%' in match.group()[:-1] else ''}"
    return f"{first} à {say(match[2])} {_PERCENT[match[3]]}"


@rule("percent", rf"{BEFORE}({MINUS}\+?{NUMBER}){SPACE}?(%|‰)")
def _percent(match: re.Match[str]) -> str | None:
    plus = "plus " if "+" in match[1] else ""
    return f"{plus}{say(match[1])} {_PERCENT[match[2]]}"


RULES: tuple[Rule, ...] = (
    _arc, _lap, _across, _percent_range, _percent, _unit_range, _sides, _height, _each_hundred,
    _units, _bare_rate, _each,
)  # fmt: skip
