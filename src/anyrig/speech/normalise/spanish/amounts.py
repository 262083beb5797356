"""Spanish money, units, percentages, fractions, ranges and plain numbers."""

from __future__ import annotations

import re

from anyrig.speech.normalise.romance.figures import (
    AFTER,
    BEFORE,
    DASH,
    FRACTION,
    GLYPHS,
    MINUS,
    NUMBER,
    SPACE,
    choice,
    figure,
)
from anyrig.speech.normalise.romance.sentences import word_after, word_before
from anyrig.speech.normalise.rules import Rule, rule
from anyrig.speech.normalise.spanish.nouns import agreement, gender
from anyrig.speech.normalise.spanish.numbers import (
    Gender,
    cardinal,
    digits,
    fraction,
    ordinal,
    say,
    say_figure,
    short_ordinal,
)
from anyrig.speech.normalise.spanish.units import COINS, MONEY, PER, UNITS

_LARGE = r"(?:mil(?:es)? de millones|mil millones|millones|mill[oó]n|mill\.|billones|bill[oó]n|mil|MM|M|k|K)"
_LARGE_WORDS = {"m": "millones", "mm": "millones", "k": "mil", "mill.": "millones"}
_SIGNS = choice(MONEY)
_UNIT = choice(UNITS)


# -- money -----------------------------------------------------------------------------------------


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


_PER = rf"(?:{SPACE}?/{SPACE}?({choice(PER)})(?!\w))?"


@rule(
    "money",
    rf"{BEFORE}({MINUS}{NUMBER}){SPACE}?(?:({_LARGE})(?:{SPACE}de)?{SPACE})?({_SIGNS}|(?:M|k)€)(?![\w€$]){_PER}",
)
def _money_after(match: re.Match[str]) -> str | None:
    number, large, sign, per = match.groups()
    if sign[0] in "Mk" and sign not in MONEY:
        large, sign = sign[0], sign[1:]
    return _money(number, sign, large or "", per or "")


@rule(
    "money",
    rf"(?<![\w$])([-\u2212]?)({_SIGNS}){SPACE}?({NUMBER})(?:{SPACE}?({_LARGE})(?!\w))?(?:{SPACE}(?:de\s)?(?:USD|MXN))?{_PER}(?![\w]|[.,]\d)",
)
def _money_before(match: re.Match[str]) -> str | None:
    minus, sign, number, large, per = match.groups()
    code = re.search(r"(USD|MXN)", match.group()[match.end(3) - match.start() :])
    return _money(minus + number, code[1] if code else sign, large or "", per or "")


@rule("money", rf"{BEFORE}({NUMBER}){DASH}({NUMBER}){SPACE}?({_SIGNS})(?![\w€$])")
def _money_range(match: re.Match[str]) -> str | None:
    return f"{say(match[1])} a {_money(match[2], match[3], '', '')}"


# -- units and percentages -------------------------------------------------------------------------


def _unit(number: str, unit: str) -> str:
    one, many, kind = UNITS[unit]
    value = figure(number)
    return f"{say_figure(value, kind)} {one if value.single else many}"


def _per_unit(unit: str) -> str:
    return f" por {UNITS[unit][0]}" if unit else ""


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
    if unit in ("A", "V", "W", "K", "N", "J", "F", "C", "t", "B") and not re.search(
        r"\s", match.group()
    ):
        if unit not in "VWA" or number[0] == "-":
            return None
    return f"{_unit(number, unit)}{_per_unit(per or '')}"


@rule("unit", rf"(?<=\w )({_UNIT})/({_UNIT})(?![\w²³])")
def _bare_rate(match: re.Match[str]) -> str | None:
    return f"{UNITS[match[1]][1]} por {UNITS[match[2]][0]}"


@rule(
    "percent",
    rf"{BEFORE}(?:({MINUS}{NUMBER}){SPACE}?%?(?:{DASH}| a )){MINUS}({NUMBER}){SPACE}?(%|‰)",
)
def _percent_range(match: re.Match[str]) -> str | None:
    return f"{say(match[1])} a {say(match[2])} {_PERCENT[match[3]]}"


@rule("percent", rf"{BEFORE}({MINUS}\+?{NUMBER}){SPACE}?(%|‰)")
def _percent(match: re.Match[str]) -> str | None:
    plus = "más " if "+" in match[1] else ""
    return f"{plus}{say(match[1])} {_PERCENT[match[2]]}"


_PERCENT = {"%": "por ciento", "‰": "por mil"}


# -- fractions -------------------------------------------------------------------------------------


def _half(match: re.Match[str], whole: int | None) -> str:
    """A half agrees with what it halves: media taza, dos y medio."""
    noun = word_after(match).lower()
    kind: Gender = gender(noun) if noun and noun not in _AFTER_HALF else ""
    half = "media" if kind == "f" else "medio"
    if whole is not None:
        return f"{cardinal(whole, kind if whole == 1 else '')} y {half}"
    return half if kind else "un medio"


_AFTER_HALF = frozenset("de del y o más menos es en a por con para que al la el los las".split())


@rule("fraction", FRACTION)
def _fraction(match: re.Match[str]) -> str | None:
    whole = match[1] or match[3]
    over, under = GLYPHS[match[2]] if match[2] else (int(match[4]), int(match[5]))
    if (over, under) == (24, 7):
        return "veinticuatro siete"
    if whole and over >= under:
        return None
    if (over, under) == (1, 2):
        return _half(match, int(whole) if whole else None)
    words = _graded(match, over, under)
    return f"{cardinal(int(whole))} y {words}" if whole else words


def _graded(match: re.Match[str], over: int, under: int) -> str:
    before = match.string[max(0, match.start() - 40) : match.start()].lower()
    marked = re.search(r"nota|puntu|calific|sacó|saqué|obtuv|valor|examen", before)
    if (
        under == 0
        or over > under * 3
        or (marked and under in (5, 10, 20, 100))
        or (over > 1 and under in (20, 100))
    ):
        return f"{cardinal(over)} sobre {cardinal(under)}"
    return fraction(over, under)


# -- ordinals --------------------------------------------------------------------------------------


@rule(
    "ordinal",
    r"(?<![\w.,])(\d{1,3})(?:\.?(º|ª|°(?=\s?[a-z]{4,}))|\.?(os|as)(?!\w)|\.?(er|ero|ro|do|to|mo|vo|no|era|ra|da|ta|ma|va|na|o|a)(?!\w))(s?)(?!\w)",
)
def _ordinals(match: re.Match[str]) -> str | None:
    number, end = int(match[1]), (match[2] or match[3] or match[4]).lower()
    if not number or (match[4] and len(end) == 1 and "." not in match.group()):
        return None
    if end == "°" and (word_after(match).lower() in ("de", "en") or number > 10):
        return None
    if end == "er":
        return short_ordinal(number)
    feminine = end in ("ª", "as") or end.endswith("a")
    words = ordinal(number, "f" if feminine else "m")
    if end == "º" and number in (1, 3) and _before_noun(match):
        words = short_ordinal(number)
    return f"{words}s" if match[5] or end in ("os", "as") else words


def _before_noun(match: re.Match[str]) -> bool:
    word = word_after(match)
    return bool(word) and word.islower() and word not in _AFTER_HALF and word not in ("se", "fue")


# -- numbers ---------------------------------------------------------------------------------------


@rule("number", r"(?<![\w.,])\d{1,3}(?:\.\d{1,3}){2,}(?![\w.,]\d)(?!\d)")
def _version(match: re.Match[str]) -> str | None:
    parts = match.group().split(".")
    if all(len(one) == 3 for one in parts[1:]) and not (
        len(parts) == 4 and parts[0] in ("192", "255", "127")
    ):
        return None
    return " punto ".join(
        cardinal(int(one)) if len(one) == 1 or one[0] != "0" else digits(one) for one in parts
    )


@rule("range", rf"{BEFORE}({NUMBER}){DASH}({NUMBER}){AFTER}(?!{DASH}\d)")
def _range(match: re.Match[str]) -> str | None:
    first, last = match[1], match[2]
    spaced = re.search(r"\s[-\u2013]\s", match.group())
    if spaced and "\u2013" not in match.group() and word_after(match) == "":
        if not first.isdigit() or int(first) >= int(figure(last).whole):
            return f"{say(first)} menos {say(last)}"
    if len(first) == 4 and len(last) == 2 and first.isdigit():
        return f"{cardinal(int(first))} a {cardinal(int(last))}"
    kind = agreement(match, figure(last).whole)
    return f"{say(first, kind)} a {say(last, kind)}"


@rule("number", rf"{BEFORE}({MINUS}{NUMBER})(?![\d\w])(?![.,]\d)")
def _number(match: re.Match[str]) -> str | None:
    value = figure(match[1])
    kind = agreement(match, value.whole) if not value.decimals else ""
    if value.single and not kind and word_before(match) in ("la", "las"):
        kind = "f"
    link = ""
    if value.whole >= 1_000_000 and value.whole % 1_000_000 == 0 and kind and not value.decimals:
        link = " de"
    return say_figure(value, kind) + link


@rule(
    "number",
    rf"{BEFORE}({NUMBER})(?=[^\W\d_])|(?<=[^\W\d_])(\d+)(?![.,]?\d)|(?<=[^\W\d_][-\u2010])(\d+)(?!\d)",
)
def _glued(match: re.Match[str]) -> str | None:
    """A number that touches letters: 5G, MP3, A4."""
    words = say(match.group())
    before = " " if match[2] else ""
    return f"{before}{words} "


@rule("number", r"\d+")
def _rest(match: re.Match[str]) -> str | None:
    """Whatever digits are left: no figure goes unsaid."""
    before = match.string[: match.start()][-1:]
    after = match.string[match.end() : match.end() + 1]
    words = say(match.group())
    return f"{' ' if before.isalnum() else ''}{words}{' ' if after.isalnum() else ''}"


RULES: tuple[Rule, ...] = (
    _money_range, _money_after, _money_before, _percent_range, _percent, _unit_range, _sides, _units, _bare_rate,
    _fraction, _ordinals, _version, _range, _number, _glued, _rest,
)  # fmt: skip
