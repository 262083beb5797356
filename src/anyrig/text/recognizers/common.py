"""Forms and questions that several recognisers share."""

from __future__ import annotations

import re
import sys
from functools import cached_property

from anyrig.text.values import Fraction, Number


class LazyPattern:
    """A pattern that is compiled when it is first used, as few of them are in a short text."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern, self._flags = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._pattern, self._flags)

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self._compiled.search(text, start, end)

    def match(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self._compiled.match(text, start, end)

    def fullmatch(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self._compiled.fullmatch(text, start, end)


DIGITS = "0123456789"
NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
"""A number as English writes it, with thousands and decimals: no group of its own."""
MINUS = "-−–"
DASH = r" ?[-–—] ?"
FRACTIONS = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5),
    "⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅐": (1, 7), "⅛": (1, 8), "⅜": (3, 8),
    "⅝": (5, 8), "⅞": (7, 8), "⅑": (1, 9), "⅒": (1, 10),
}  # fmt: skip
VULGAR = "".join(FRACTIONS)
AMOUNT = rf"(?:{NUMBER}|\d{{1,5}}[ -]\d{{1,4}}/\d{{1,4}}|\d{{1,4}}/\d{{1,4}}|\d* ?[{VULGAR}])"
"""A number or a fraction before a unit."""
SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
SUBSCRIPT = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
SCALES = {
    "hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "k": 3, "K": 3,
    "m": 6, "M": 6, "mn": 6, "mm": 6, "MM": 6, "mil": 6, "b": 9, "B": 9, "bn": 9, "Bn": 9,
    "t": 12, "T": 12, "tn": 12, "trn": 12,
}  # fmt: skip
_SIGNS = {"+": "+", "±": "±", "~": "~", "≈": "~", "<": "<", ">": ">", "≤": "≤", "≥": "≥"}
NOT_NOUNS = frozenset(
    "a an and or but for in on at to of from by with as is was than per each every more less "
    "when if so because that this it he she they we i you will would has had were are until after "
    "before which who while since off out up down over under into during plus minus last next one "
    "total away apart ago left worth long wide tall high deep thick old short later earlier early "
    "late not also only just through throughout between among around about above below near behind "
    "beyond within without against toward towards via then there here now today tomorrow yesterday "
    "can could may might must should did does do be been both all any some no nor yet still even "
    "daily weekly monthly yearly annually sharp".split()
)
"""Words after an amount that show it stands alone: `a $5 bill`, `a $5 and a $10`."""
_ARTICLE = LazyPattern(
    r"\b(?:[Aa]n?|[Tt]he|this|that|his|her|their|its|our|my|your|another|each|every|one|no) "
    r"(?:[a-z]+ )?$"
)


def parse_sign(text: str | None) -> str:
    """The sign of a number, as `Number.sign` has it."""
    bare = (text or "").strip()
    return _SIGNS.get(bare, "-") if bare else ""


def parse_number(text: str, sign: str | None = None, scale: int = 0) -> Number:
    """`1,200.5` as a value."""
    whole, _, decimals = text.replace(",", "").partition(".")
    return Number(whole, decimals, parse_sign(sign), scale)


def parse_amount(text: str, sign: str | None = None, scale: int = 0) -> Number | Fraction:
    """A number or a fraction: `3 1/2`, `½`."""
    text = text.strip()
    if mixed := re.fullmatch(r"(?:(\d+)[ -])?(\d+)/(\d+)", text):
        whole = int(mixed[1]) if mixed[1] else None
        above, below = int(mixed[2]), int(mixed[3])
        # Blood pressure: 120/80.
        style = "over" if not below or (whole is None and above > below >= 30) else ""
        return Fraction(int(mixed[2]), int(mixed[3]), whole, parse_sign(sign), style)
    if text[-1] in FRACTIONS:
        whole = int(text[:-1]) if text[:-1].strip() else None
        return Fraction(*FRACTIONS[text[-1]], whole, parse_sign(sign))
    return parse_number(text, sign, scale)


def before(match: re.Match[str], length: int = 40) -> str:
    """What stands before a match."""
    return match.string[max(0, match.start() - length) : match.start()]


def after(match: re.Match[str], length: int = 40) -> str:
    """What stands behind a match."""
    return match.string[match.end() : match.end() + length]


def is_attributive(match: re.Match[str]) -> bool:
    """Whether an amount tells what kind of thing follows: a $20 bill, the 500 GB drive."""
    rest = match.string[match.end() : match.end() + 24]
    if rest.startswith("-a-"):
        return True
    noun = re.match(r"([ -])([a-z]{2,})\b", rest)
    if not noun or noun[2] in NOT_NOUNS:
        return False
    if noun[1] == "-":
        return True
    article = _ARTICLE.search(before(match, 24))
    return bool(article) and not (
        article is not None and article[0].lower().startswith("the ") and noun[2].endswith("ed")
    )


def one_of(words: object, *, dots: bool = False) -> str:
    """An alternation of words for a pattern, the longest first; `dots` allows `sq. ft`."""
    names = sorted({str(word) for word in words}, key=len, reverse=True)  # type: ignore[attr-defined]
    return "|".join(
        re.escape(name).replace(r"\ ", r"\.? ") if dots else re.escape(name) for name in names
    )
