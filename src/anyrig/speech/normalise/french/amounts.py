"""French money, units, percentages, fractions, ranges and plain numbers."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french.nouns import agreement, gender
from anyrig.speech.normalise.french.numbers import (
    cardinal,
    digits,
    fraction,
    label,
    ordinal,
    plural,
    say,
    say_figure,
)
from anyrig.speech.normalise.french.units import COINS, MONEY, PER, UNITS
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

_LARGE = r"(?:millions?|milliards?|billions?|mille|Mds?|Mrds?|M|k)"
_LARGE_WORDS = {
    "m": "million",
    "md": "milliard",
    "mds": "milliard",
    "mrd": "milliard",
    "k": "mille",
}
_SIGNS = choice(MONEY)
_UNIT = choice(UNITS)
_PER = rf"(?:{SPACE}?/{SPACE}?({choice(PER)})(?!\w))?"
_TO = rf"(?:{DASH}| à )"
# A number after one of these is its name and takes no plural: page quatre-vingt.
_NAMING = frozenset("page numéro n° chambre chapitre ligne".split())


# -- money -----------------------------------------------------------------------------------------


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
    rf"{BEFORE}({MINUS}{NUMBER}){SPACE}?(?:({_LARGE}){SPACE}?(?:de |d')?)?({_SIGNS})(?![\w€$]){_PER}",
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


# -- units and percentages -------------------------------------------------------------------------


def _unit(number: str, unit: str) -> str:
    one, many, kind = UNITS[unit]
    value = figure(number)
    return f"{say_figure(value, kind)} {many if plural(value) else one}"


def _per_unit(unit: str) -> str:
    return f" par {UNITS[unit][0]}" if unit else ""


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
    words = [say(one) for one in (first, second, third) if one]
    if unit:
        words[-1] = _unit(third or second, unit)
    return (" sur " if unit or third else " fois ").join(words)


@rule("unit", rf"{BEFORE}({MINUS}{NUMBER}){SPACE}?({_UNIT})(?:/({_UNIT}))?(?![\w²³'\u2019])")
def _units(match: re.Match[str]) -> str | None:
    number, unit, per = match.groups()
    glued = not re.search(r"\s", match.group())
    if unit in ("K", "N", "J", "C", "t", "o", "j") and glued:
        return None
    return f"{_unit(number, unit)}{_per_unit(per or '')}"


@rule("unit", rf"(?<=\w )({_UNIT})/({_UNIT})(?![\w²³])")
def _bare_rate(match: re.Match[str]) -> str | None:
    return f"{UNITS[match[1]][1]} par {UNITS[match[2]][0]}"


_PERCENT = {"%": "pour cent", "‰": "pour mille"}


@rule("percent", rf"{BEFORE}({MINUS}{NUMBER}){SPACE}?%?{_TO}({NUMBER}){SPACE}?(%|‰)")
def _percent_range(match: re.Match[str]) -> str | None:
    first = f"{say(match[1])}{' pour cent' if '%' in match.group()[:-1] else ''}"
    return f"{first} à {say(match[2])} {_PERCENT[match[3]]}"


@rule("percent", rf"{BEFORE}({MINUS}\+?{NUMBER}){SPACE}?(%|‰)")
def _percent(match: re.Match[str]) -> str | None:
    plus = "plus " if "+" in match[1] else ""
    return f"{plus}{say(match[1])} {_PERCENT[match[2]]}"


# -- fractions -------------------------------------------------------------------------------------


@rule("fraction", rf"{BEFORE}(?:1/2|½) (?=([a-zà-ÿœ]+))")
def _half_of(match: re.Match[str]) -> str | None:
    """Joined to what it halves: une demi-heure."""
    if match[1] in _NO_NOUN:
        return None
    return f"{'une' if gender(match[1]) == 'f' else 'un'} demi-"


@rule("fraction", FRACTION)
def _fraction(match: re.Match[str]) -> str | None:
    whole = match[1] or match[3]
    over, under = GLYPHS[match[2]] if match[2] else (int(match[4]), int(match[5]))
    if (over, under) == (24, 7):
        return "vingt-quatre sept"
    if whole and over >= under:
        return None
    if (over, under) == (1, 2):
        return _half(match, whole)
    words = _graded(match, over, under)
    return f"{cardinal(int(whole))} et {words}" if whole else words


def _half(match: re.Match[str], whole: str | None) -> str:
    noun = word_after(match).lower()
    counts = bool(noun) and noun not in _NO_NOUN
    if whole:
        return f"{cardinal(int(whole))} et demi{'e' if counts and gender(noun) == 'f' else ''}"
    return "un demi"


_NO_NOUN = frozenset(
    "de du des et ou plus moins est sont en à par avec pour que au la le les".split()
)


def _graded(match: re.Match[str], over: int, under: int) -> str:
    """Marks are out of ten or twenty; other fractions are parts."""
    before = match.string[max(0, match.start() - 40) : match.start()].lower()
    marked = re.search(r"not[eé]|obten|\beu\b|score|moyenne|évalu|examen", before)
    if under == 0 or over > under * 3 or (marked and under in (5, 10, 20, 100)):
        return f"{cardinal(over)} sur {cardinal(under)}"
    if over > 1 and under in (20, 100):
        return f"{cardinal(over)} sur {cardinal(under)}"
    return fraction(over, under)


# -- ordinals --------------------------------------------------------------------------------------


@rule(
    "ordinal",
    r"(?<![\w.,])(\d{1,7})(?:(er|ers|re|res|ère|ères|ᵉʳ|ʳᵉ)|(ème|eme|ième|ieme|è|e|ᵉ|nd|nde|d|de)(s?))(?!\w)",
)
def _ordinals(match: re.Match[str]) -> str | None:
    number, first, end, many = int(match[1]), match[2], match[3], match[4] or ""
    if first:
        if number % 10 == 1 and number != 1:
            return ordinal(number)
        many = "s" if first.endswith("s") else ""
        return f"première{many}" if "r" == first[0] or first[0] in "èʳ" else f"premier{many}"
    if not number or (end in ("nd", "nde", "d", "de") and number != 2):
        return None
    if end in ("nd", "d", "nde", "de"):
        return f"second{'e' if end.endswith('e') else ''}{many}"
    return f"{ordinal(number)}{many}"


# -- numbers ---------------------------------------------------------------------------------------


@rule("number", r"(?<![\w.,])\d{1,3}(?:\.\d{1,3}){2,}(?![\w.,]\d)(?!\d)")
def _version(match: re.Match[str]) -> str | None:
    parts = match.group().split(".")
    if all(len(one) == 3 for one in parts[1:]) and parts[0] not in ("192", "255", "127"):
        return None
    return " point ".join(digits(one) if one[0] == "0" else cardinal(int(one)) for one in parts)


@rule("range", rf"{BEFORE}({NUMBER}){DASH}({NUMBER}){AFTER}(?!{DASH}\d)")
def _range(match: re.Match[str]) -> str | None:
    first, last = match[1], match[2]
    spaced = re.search(r"\s[-\u2013]\s", match.group()) and not word_after(match)
    if spaced and figure(first).whole >= figure(last).whole:
        return f"{say(first)} moins {say(last)}"
    return f"{say(first)} à {say(last, agreement(match))}"


@rule("number", rf"{BEFORE}({MINUS}{NUMBER})(?![\d\w])(?![.,]\d)")
def _number(match: re.Match[str]) -> str | None:
    value = figure(match[1])
    before = word_before(match)
    if before in _NAMING and not value.decimals and not value.spelt:
        return label(value.whole)
    if value.decimals:
        version = before in ("version", "v", "web") or value.decimals == "0"
        return say_figure(value, point="point" if version else "virgule")
    words = say_figure(value, agreement(match) if value.whole % 10 == 1 else "")
    if not value.spelt and value.whole and value.whole % 1_000_000 == 0 and _counts(match):
        return f"{words} de"
    return words


def _counts(match: re.Match[str]) -> bool:
    """Whether a noun follows: un million de personnes."""
    noun = word_after(match)
    return noun.islower() and noun not in _NO_NOUN and noun[0] not in "aeiouyéèêhœ"


@rule(
    "number",
    rf"{BEFORE}({NUMBER})(?=[^\W\d_])|(?<=[^\W\d_])(\d+)(?![.,]?\d)|(?<=[^\W\d_][-\u2010])(\d+)(?!\d)",
)
def _glued(match: re.Match[str]) -> str | None:
    """A number that touches letters: 5G, MP3, A4."""
    return f"{' ' if match[2] else ''}{say(match.group())} "


@rule("number", r"\d+")
def _rest(match: re.Match[str]) -> str | None:
    """Whatever digits are left: no figure goes unsaid."""
    before = match.string[: match.start()][-1:]
    after = match.string[match.end() : match.end() + 1]
    return f"{' ' if before.isalnum() else ''}{say(match.group())}{' ' if after.isalnum() else ''}"


RULES: tuple[Rule, ...] = (
    _money_range, _money_after, _money_before, _money_inside, _percent_range, _percent, _unit_range,
    _sides, _units, _bare_rate, _half_of, _fraction, _ordinals, _version, _range, _number, _glued, _rest,
)  # fmt: skip
