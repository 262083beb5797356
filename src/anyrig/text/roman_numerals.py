"""Roman numerals as numbers."""

from __future__ import annotations

import re

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_CANONICAL = r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"


def roman_value(text: str) -> int:
    """What a Roman numeral says; zero for what is none."""
    numeral = text.upper()
    return sum_letters(numeral) if numeral and re.fullmatch(_CANONICAL, numeral) else 0


def sum_letters(numeral: str) -> int:
    """The number of letters in any order; one before a larger one is taken away: `IIII`, `XIV`."""
    worths = [_VALUES[letter] for letter in numeral.upper()]
    following = [*worths[1:], 0]
    return sum(-one if one < next_ else one for one, next_ in zip(worths, following, strict=True))
