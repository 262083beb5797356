"""Figures as they are written where the comma is decimal, and Roman numerals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

# The spaces that may stand inside a number or before its unit.
SPACE = "[ \u00a0\u202f\u2009]"
# A number as it is written, the sign left out: 1.234,5 and 1 234,5, then 1,234.5, then plain ones.
NUMBER = (
    rf"(?:\d{{1,3}}(?:{SPACE}\d{{3}}){{1,6}}(?!\d)(?:,\d+)?"
    r"|\d{1,3}(?:\.\d{3}){1,6}(?![\d.])(?:,\d+)?"
    r"|\d{1,3}(?:,\d{3}){1,6}\.\d+"
    r"|\d{1,3}(?:,\d{3}){2,6}(?!\d)"
    r"|\d+(?:[.,]\d+)?)"
)
# Where a number may begin: not inside a word or another number.
BEFORE = r"(?<![\w\u00ba\u00aa])(?<!\d[.,:/\u2019'])"
MINUS = r"(?:(?<![\w)\]%])(?<![\d)\]%] )[-\u2212\u2013](?=\d))?"
AFTER = r"(?![\d\w])(?![.,]\d)"
DASH = rf"{SPACE}?[-\u2013\u2014]{SPACE}?"
GLYPHS = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5),
    "⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8),
    "⅞": (7, 8), "⅐": (1, 7), "⅑": (1, 9), "⅒": (1, 10),
}  # fmt: skip
# A whole and a part, or a part alone, as one sign or with a stroke.
FRACTION = (
    rf"{BEFORE}(?:(\d{{1,3}}){SPACE}?)?([{''.join(GLYPHS)}])(?!\w)"
    rf"|{BEFORE}(?:(\d{{1,3}}){SPACE})?(\d{{1,3}})[/\u2044](\d{{1,4}}){AFTER}(?!/)"
)
LONGEST = 15
"""Digits of the largest number that is said as one; longer ones are spelt."""

_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


class Figure(NamedTuple):
    """A number taken apart."""

    negative: bool
    digits: str
    """Before the decimal sign, as written: leading zeros stay."""
    decimals: str
    """After it; empty where there is none."""
    point: bool
    """The decimal sign was a point."""

    @property
    def whole(self) -> int:
        """What stands before the decimal sign."""
        return int(self.digits[:400])

    @property
    def single(self) -> bool:
        """Exactly one, so that what is counted stands in the singular."""
        return self.whole == 1 and not self.decimals

    @property
    def spelt(self) -> bool:
        """Too long to be said as one number, or a code with zeros in front."""
        return len(self.digits) > LONGEST or (len(self.digits) > 1 and self.digits[0] == "0")


def figure(written: str) -> Figure:
    """Take apart what `NUMBER` matched, with or without a sign in front."""
    text = re.sub(r"[\s\u00a0\u202f\u2009]", "", written)
    negative = text[:1] in "-\u2212\u2013" and bool(text)
    text = text.lstrip("-\u2212\u2013+")
    whole, sign, decimals = _cut(text)
    return Figure(negative, re.sub(r"\D", "", whole) or "0", decimals, sign == ".")


def _cut(text: str) -> tuple[str, str, str]:
    if "," in text and "." in text:
        sign = max(",.", key=text.rfind)
        whole, _, decimals = text.rpartition(sign)
        return whole, sign, decimals
    if text.count(",") > 1 or re.fullmatch(r"\d{1,3}(\.\d{3})+", text):
        return text, "", ""
    if re.fullmatch(r"[1-9]\d{0,2},\d00", text):
        return text, "", ""  # Nobody writes two idle zeros after a decimal comma.
    for sign in ",.":
        if sign in text:
            whole, _, decimals = text.partition(sign)
            return whole, sign, decimals
    return text, "", ""


def choice(words: Iterable[str]) -> str:
    """A pattern for any of these, the longest first."""
    return "|".join(re.escape(one) for one in sorted(words, key=len, reverse=True))


def roman(written: str) -> int | None:
    """What a Roman numeral is worth; None when it is not well formed."""
    if not written or not _ROMAN.fullmatch(written):
        return None
    total = 0
    for one, following in zip(written, f"{written[1:]} ", strict=True):
        value = _VALUES[one]
        total += -value if _VALUES.get(following, 0) > value else value
    return total
