"""Numbers in words, by num2words, for any digits that a text may hold."""

from __future__ import annotations

from functools import lru_cache

MAX_DIGITS = 36
"""Longer ones are read digit by digit: nobody says a sextillion of sextillions."""


@lru_cache(maxsize=4096)
def cardinal(number: int, language: str) -> str:
    """`25` as `twenty-five`; digit by digit when it is too long for words."""
    return _convert(number, language, "cardinal")


@lru_cache(maxsize=1024)
def ordinal(number: int, language: str) -> str:
    """`25` as `twenty-fifth`; the cardinal when it is too long for words."""
    return _convert(number, language, "ordinal")


def digits(text: str, language: str) -> str:
    """`042` as `zero four two`; what is no digit is passed over."""
    return " ".join(cardinal(int(one), language) for one in text if one.isdecimal())


def integer(text: str, language: str) -> str:
    """The words of a row of digits, however long: `1,234` without its separators."""
    plain = "".join(one for one in text if one.isdecimal())
    if len(plain) > MAX_DIGITS:
        return digits(plain, language)
    return cardinal(int(plain or "0"), language)


def _convert(number: int, language: str, kind: str) -> str:
    from num2words import num2words

    if abs(number) >= 10**MAX_DIGITS:
        return digits(str(number) if abs(number) < 10**4000 else "", language)
    return str(num2words(number, lang=language, to=kind))
