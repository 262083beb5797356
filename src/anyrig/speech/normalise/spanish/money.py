"""Spanish amounts of money."""

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
from anyrig.speech.normalise.rules import Rule, rule
from anyrig.speech.normalise.spanish.numbers import (
    cardinal,
    say,
    say_figure,
)
from anyrig.speech.normalise.spanish.units import COINS, MONEY, PER

_LARGE = (
    r"(?:mil(?:es)? de millones|mil millones|millones|mill[oó]n|mill\.|billones|bill[oó]n|mil|MM|M|"
    r"k|K)"
)
_LARGE_WORDS = {"m": "millones", "mm": "millones", "k": "mil", "mill.": "millones"}
_SIGNS = choice(MONEY)


def _money(number: str, sign: str, large: str, per: str) -> str:
    """`tres euros con cincuenta céntimos`, `dos millones de euros`, `cinco euros al mes`."""
    one, many, kind = MONEY[sign]
    value = figure(number)
    tail = f" {PER.get(per, per)}" if per else ""
    if large:
        word = _LARGE_WORDS.get(large.lower(), large)
        if word == "millones" and value.single:
            word = "millón"
        link = "" if word == "mil" else "de "
        lead = "" if word == "mil" and value.single else f"{say_figure(value, 'm')} "
        return f"{lead}{word} {link}{many}{tail}"
    if len(value.decimals) in (1, 2) and int(value.decimals):
        return _with_cents(number, sign) + tail
    value = value._replace(decimals="") if set(value.decimals) == {"0"} else value
    whole = value.whole if not value.spelt and not value.decimals else 0
    link = "de " if whole and whole % 1_000_000 == 0 else ""
    return f"{say_figure(value, kind)} {link}{one if value.single else many}{tail}"


def _with_cents(number: str, sign: str) -> str:
    one, many, kind = MONEY[sign]
    value = figure(number)
    cents = int(value.decimals.ljust(2, "0"))
    coin, coins = COINS.get(sign, ("centavo", "centavos"))
    small = f"{cardinal(cents, 'm')} {coin if cents == 1 else coins}"
    minus = "menos " if value.negative else ""
    if not value.whole:
        return f"{minus}{small}"
    whole = value._replace(decimals="")
    return f"{say_figure(whole, kind)} {one if value.whole == 1 else many} con {small}"


# Behind a number that has a sign in front, they say which dollars or pesos these are.
_CODES = "USD|MXN|ARS|COP|CLP|UYU|CAD|AUD|pesos"
_PER = rf"(?:{SPACE}?/{SPACE}?({choice(PER)})(?!\w))?"


@rule(
    "money",
    rf"{BEFORE}({MINUS}{NUMBER}){SPACE}?(?:({_LARGE})(?:{SPACE}de)?{SPACE})?({_SIGNS}|(?:M|k)€)(?![\w€$]){_PER}",
)
def _money_after(match: re.Match[str]) -> str | None:
    number, large, sign, per = match.groups()
    if match.string[: match.start()].endswith("$") and re.fullmatch(_CODES, sign):
        return None
    if sign[0] in "Mk" and sign not in MONEY:
        large, sign = sign[0], sign[1:]
    return _money(number, sign, large or "", per or "")


@rule(
    "money",
    rf"(?<![\w$])([-\u2212]?)({_SIGNS}){SPACE}?({NUMBER})(?:{SPACE}?({_LARGE})(?!\w))?"
    rf"(?:{SPACE}(?:de\s)?(?:{_CODES})(?!\w))?{_PER}(?![\w]|[.,]\d)",
)
def _money_before(match: re.Match[str]) -> str | None:
    minus, sign, number, large, per = match.groups()
    code = re.search(rf"({_CODES})", match.group()[match.end(3) - match.start() :])
    return _money(minus + number, code[1] if code else sign, large or "", per or "")


@rule("money", rf"{BEFORE}({NUMBER}){DASH}({NUMBER}){SPACE}?({_SIGNS})(?![\w€$])")
def _money_range(match: re.Match[str]) -> str | None:
    return f"{say(match[1])} a {_money(match[2], match[3], '', '')}"


RULES: tuple[Rule, ...] = (
    _money_range, _money_after, _money_before,
)  # fmt: skip
