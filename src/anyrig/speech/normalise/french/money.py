"""French amounts of money."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french.numbers import (
    cardinal,
    plural,
    say,
    say_figure,
)
from anyrig.speech.normalise.french.units import COINS, MONEY, PER
from anyrig.speech.normalise.romance.figures import (
    BEFORE,
    DASH,
    MINUS,
    NUMBER,
    SPACE,
    choice,
    figure,
)
from anyrig.speech.normalise.rules import Rule, rule

_LARGE = r"(?:millions?|milliards?|billions?|mille|Mds?|Mrds?|M|k)"
_LARGE_WORDS = {
    "m": "million",
    "md": "milliard",
    "mds": "milliard",
    "mrd": "milliard",
    "k": "mille",
}
_SIGNS = choice(MONEY)
_PER = rf"(?:{SPACE}?/{SPACE}?({choice(PER)})(?!\w))?"


def _money(number: str, sign: str, large: str, per: str) -> str:
    """`trois euros cinquante`, `deux millions d'euros`, `cinq euros par mois`."""
    one, many, kind = MONEY[sign]
    value = figure(number)
    tail = f" {PER.get(per, per)}" if per else ""
    if large:
        return f"{_large(number, large, many)}{tail}"
    spelled = sign.isalpha() and sign.islower()
    if len(value.decimals) == 2 - (not spelled and len(value.decimals) == 1) and int(
        value.decimals
    ):
        return _with_cents(number, sign) + tail
    value = value._replace(decimals="") if set(value.decimals) == {"0"} else value
    noun = many if plural(value) else one
    if not value.decimals and not value.spelt and value.whole and value.whole % 1_000_000 == 0:
        noun = _of(noun)
    return f"{say_figure(value, kind)} {noun}{tail}"


def _large(number: str, large: str, many: str) -> str:
    value = figure(number)
    word = _LARGE_WORDS.get(large.lower(), large)
    if word == "mille":
        lead = "" if value.single else f"{say_figure(value)} "
        return f"{lead}mille {many}"
    word = word.removesuffix("s") + ("s" if plural(value) else "")
    return f"{say_figure(value)} {word} {_of(many)}"


def _of(noun: str) -> str:
    return f"d'{noun}" if noun[0] in "aeiouéh" else f"de {noun}"


def _with_cents(number: str, sign: str) -> str:
    one, many, kind = MONEY[sign]
    value = figure(number)
    cents = int(value.decimals.ljust(2, "0"))
    if not value.whole:
        coin, coins = COINS.get(sign, ("centime", "centimes"))
        minus = "moins " if value.negative else ""
        return f"{minus}{cardinal(cents)} {coin if cents == 1 else coins}"
    whole = value._replace(decimals="")
    return f"{say_figure(whole, kind)} {many if plural(value) else one} {cardinal(cents)}"


@rule(
    "money",
    rf"{BEFORE}({MINUS}{NUMBER}){SPACE}?(?:({_LARGE}){SPACE}?(?:de |d')?)?({_SIGNS})"
    rf"(?![\w€$]){_PER}",
)
def _money_after(match: re.Match[str]) -> str | None:
    number, large, sign, per = match.groups()
    return _money(number, sign, large or "", per or "")


@rule(
    "money",
    rf"(?<![\w$])([-\u2212]?)([€£$¥₹₿]|US\$|CA\$|\$US|CHF|EUR|USD){SPACE}?({NUMBER})"
    rf"(?:{SPACE}?({_LARGE})(?!\w))?{_PER}(?!\w|[.,]\d)",
)
def _money_before(match: re.Match[str]) -> str | None:
    minus, sign, number, large, per = match.groups()
    return _money(minus + number, sign, large or "", per or "")


@rule("money", rf"{BEFORE}({NUMBER}){DASH}({NUMBER}){SPACE}?({_SIGNS})(?![\w€$]){_PER}")
def _money_range(match: re.Match[str]) -> str | None:
    return f"{say(match[1])} à {_money(match[2], match[3], '', match[4] or '')}"


@rule("money", rf"{BEFORE}(\d+){SPACE}?(€|\$|£)(\d\d)(?!\d)")
def _money_inside(match: re.Match[str]) -> str | None:
    """As price tags have it: 3€50."""
    return _with_cents(f"{match[1]},{match[3]}", match[2])


RULES: tuple[Rule, ...] = (
    _money_range, _money_after, _money_before, _money_inside,
)  # fmt: skip
