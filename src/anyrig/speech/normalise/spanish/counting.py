"""Spanish ordinals, ranges, versions and plain numbers."""

from __future__ import annotations

import re

from anyrig.speech.normalise.romance.figures import (
    AFTER,
    BEFORE,
    DASH,
    MINUS,
    NUMBER,
    figure,
)
from anyrig.speech.normalise.romance.sentences import word_after, word_before
from anyrig.speech.normalise.rules import Rule, rule
from anyrig.speech.normalise.spanish.nouns import AFTER_HALF, agreement
from anyrig.speech.normalise.spanish.numbers import (
    cardinal,
    digits,
    ordinal,
    say,
    say_figure,
    short_ordinal,
)


@rule(
    "ordinal",
    r"(?<![\w.,])(\d{1,3})(?:\.?(º|ª|°(?=\s?[a-z]{4,}))|\.?(os|as)(?!\w)"
    r"|\.?(er|ero|ro|do|to|mo|vo|no|era|ra|da|ta|ma|va|na|o|a)(?!\w))"
    r"(?:\.(?= [a-z]))?(s?)(?![\da-zá-ú])",
)
def _ordinals(match: re.Match[str]) -> str | None:
    words = _ordinal(match)
    after = match.string[match.end() : match.end() + 1]
    return f"{words} " if words and after.isalpha() else words


def _ordinal(match: re.Match[str]) -> str | None:
    number, end = int(match[1]), (match[2] or match[3] or match[4]).lower()
    if not number or (match[4] and len(end) == 1 and not _marked(match)):
        return None
    if end == "°" and word_after(match).lower() in _DEGREES:
        return None
    if end == "er":
        return short_ordinal(number)
    feminine = end in ("ª", "as") or end.endswith("a")
    words = ordinal(number, "f" if feminine else "m")
    if end == "º" and number in (1, 3) and _before_noun(match):
        words = short_ordinal(number)
    return f"{words}s" if match[5] or end in ("os", "as") else words


def _marked(match: re.Match[str]) -> bool:
    """A bare o or a is an ending only with its full stop, or before a noun."""
    return "." in match.group() or (_before_noun(match) and len(word_after(match)) > 3)


_DEGREES = frozenset(
    "norte este oeste bajo sobre cada Celsius celsius centígrados fahrenheit".split()
) | (AFTER_HALF)


_SIDES = frozenset("se fue izq izda izdo dcho dcha izquierda derecha izqda puerta letra".split())


def _before_noun(match: re.Match[str]) -> bool:
    word = word_after(match)
    return bool(word) and word.islower() and word not in AFTER_HALF and word not in _SIDES


@rule("number", rf"{BEFORE}(\d{{1,4}}):({NUMBER}){AFTER}(?!:)")
def _ratio(match: re.Match[str]) -> str | None:
    """A scale or a proportion; times of day were taken before."""
    return f"{say(match[1])} a {say(match[2])}"


@rule("number", r"(?<!\w)[vV](\d+(?:\.\d+){1,4})(?!\w)")
def _release(match: re.Match[str]) -> str | None:
    parts = match[1].split(".")
    return f"{match.group()[0]} {' punto '.join(say(one) for one in parts)}"


_LETTERS = {
    "M": "eme", "S": "ese", "F": "efe", "N": "ene", "J": "jota", "O": "o", "D": "de", "A": "a",
    "E": "e",
}  # fmt: skip


@rule("date", r"(?<=l )(\d{1,2})(?:-([MSFNJODAE])|([MSFNJ]))(?![\w-])")
def _day_letter(match: re.Match[str]) -> str | None:
    """A day known by its month's first letter: el 8M, el 11-S."""
    before = match.string[max(0, match.start() - 5) : match.start()]
    if not re.search(r"(?<!\w)(?:[Ee]l|[Dd]el|[Aa]l) $", before) or int(match[1]) > 31:
        return None
    return f"{cardinal(int(match[1]))} {_LETTERS[match[2] or match[3]]}"


@rule("number", rf"{BEFORE}({NUMBER})([Mk])(?!\w)")
def _shortened(match: re.Match[str]) -> str | None:
    """3M, 20k: as counts of people are written."""
    value = figure(match[1])
    if match[2] == "k":
        return "mil" if value.single else f"{say_figure(value, 'm')} mil"
    return f"{say_figure(value, 'm')} {'millón' if value.single else 'millones'}"


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
    spaced = re.search(r"\s-\s", match.group()) and not word_after(match)
    if spaced and figure(first).whole >= figure(last).whole:
        return f"{say(first)} menos {say(last)}"
    if len(first) == 4 and len(last) == 2 and first.isdigit():
        return f"{cardinal(int(first))} a {cardinal(int(last))}"
    kind = agreement(match, figure(last).whole)
    link = "y" if word_before(match) == "entre" else "a"
    return f"{say(first, kind)} {link} {say(last, kind)}"


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
    rf"{BEFORE}({NUMBER})(?=[^\W\d_])|(?<=[^\W\d_])(\d+)(?![.,]?\d)|(?<=[A-Z])[-\u2010](\d+)(?!\d)",
)
def _glued(match: re.Match[str]) -> str | None:
    """A number that touches letters: 5G, MP3, COVID-19."""
    after = match.string[match.end() : match.end() + 1]
    words = say(match[1] or match[2] or match[3])
    return f"{'' if match[1] else ' '}{words}{' ' if after.isalnum() else ''}"


@rule("number", r"\d+")
def _rest(match: re.Match[str]) -> str | None:
    """Whatever digits are left: no figure goes unsaid."""
    before = match.string[max(0, match.start() - 1) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    words = say(match.group())
    return f"{' ' if before.isalnum() else ''}{words}{' ' if after.isalnum() else ''}"


RULES: tuple[Rule, ...] = (_day_letter, _release, _ratio, _shortened, _ordinals, _version, _range)
# After acronyms, which may hold digits.
LAST: tuple[Rule, ...] = (_glued, _number, _rest)
