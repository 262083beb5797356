"""Numbers as people write them: 1,234.56 and 1.234,56, with or without a word for millions."""

from __future__ import annotations

from decimal import Decimal

NUMBER = (
    r"(?:[0-9]{1,3}(?:,[0-9]{2,3}){0,5},[0-9]{3}(?:\.[0-9]{1,4})?(?![0-9])"
    r"|[0-9]{1,3}(?:\.[0-9]{3}){1,6}(?:,[0-9]{1,4})?(?![0-9])"
    r"|[0-9]{1,3}(?:[ '][0-9]{3}){1,6}(?:[.,][0-9]{1,4})?(?![0-9])"
    r"|[0-9]{1,15}(?:[.,][0-9]{1,6})?(?![0-9]))"
)
"""With no digit before it, as the caller makes sure. Every repetition is bounded."""
_SHORT = {
    "k": 10**3, "m": 10**6, "mn": 10**6, "mio": 10**6, "mm": 10**6, "bn": 10**9, "b": 10**9,
    "md": 10**9, "mds": 10**9, "mrd": 10**9, "tn": 10**12, "t": 10**12,
}  # fmt: skip
_WORDS = {
    "hundred": 100, "thousand": 10**3, "mille": 10**3, "mil": 10**3, "milliers": 10**3,
    "miles": 10**3, "million": 10**6, "millions": 10**6, "millon": 10**6, "millones": 10**6,
    "milliard": 10**9, "milliards": 10**9, "millardo": 10**9, "millardos": 10**9,
    "billon": 10**12, "billones": 10**12, "billiard": 10**15, "billiards": 10**15,
    "trillon": 10**18, "trillones": 10**18, "trilliard": 10**21, "trilliards": 10**21,
    "cuatrillon": 10**24, "cuatrillones": 10**24, "quatrillion": 10**24, "quatrillions": 10**24,
}  # fmt: skip
# Written alike and not the same: English counts by thousands, the others by millions.
_SHORT_SCALE = {"billion": 10**9, "trillion": 10**12, "quadrillion": 10**15, "quintillion": 10**18}
_LONG_SCALE = {
    "billion": 10**12, "trillion": 10**18, "quadrillion": 10**24, "quintillion": 10**30,
}  # fmt: skip
SCALES = frozenset(
    {name for name, by in _WORDS.items() if by >= 10**6}
    | {name + end for name in _SHORT_SCALE for end in ("", "s")}
)
"""Words for a million and more."""
SHORT = r"(?:[kK]|[mM](?:[nNdDmM]|ds|io|rd)?|[bB][nN]?|[tT][nN]?)"
_ANY_SCALE = "|".join(sorted(SCALES, reverse=True))
LONG = (
    rf"(?:(?:(?:hundred|thousand|mille|mil|cent|cien) )?(?:{_ANY_SCALE})"
    r"|thousand|hundred|mille|milliers|miles|mil)"
)


def scale(word: str, language: str) -> int | None:
    """What one word multiplies the number before it by; None for another word.

    Args:
        word: in small letters without accents.
        language: decides what `billion` and `trillion` are.
    """
    name = word.removesuffix("s")
    if name in _SHORT_SCALE:
        return (_SHORT_SCALE if language.startswith("en") else _LONG_SCALE)[name]
    return _WORDS.get(word)


def times(words: str, language: str) -> int:
    """What words or letters behind a number multiply it by: `mil millones`, `bn`; 1 for none."""
    by = 1
    for word in words.lower().split():
        hundreds = 100 if word in ("cent", "cien") else None
        by *= scale(word, language) or hundreds or _SHORT.get(word, 1)
    return by


def parsed(text: str, language: str, *, scaled: bool = False) -> Decimal | None:
    """The number that is written; None when it cannot be told.

    A lone separator with three digits behind it is read as the language has it.

    Args:
        text: digits and separators.
        language: `en`, `fr-CA`.
        scaled: whether a word such as `million` follows, before which nobody groups by thousands.
    """
    digits = text.replace(" ", "").replace("'", "")
    points, commas = digits.count("."), digits.count(",")
    if points and commas:
        decimal = "." if digits.rfind(".") > digits.rfind(",") else ","
        if digits.count(decimal) > 1:
            return None
    elif points + commas == 1:
        mark = "." if points else ","
        decimal = mark if _is_decimal(digits, mark, language, scaled) else ""
    else:
        decimal = ""  # several of one sort: they group
    whole, _, part = digits.rpartition(decimal) if decimal else (digits, "", "")
    whole = whole.replace(".", "").replace(",", "")
    if not whole.isdigit() or (part and not part.isdigit()):
        return None
    return Decimal(f"{whole}.{part}") if part else Decimal(whole)


def _is_decimal(digits: str, mark: str, language: str, scaled: bool) -> bool:
    whole, _, part = digits.partition(mark)
    if len(part) != 3 or len(whole) > 3 or whole.startswith("0") or scaled:
        return True
    points = language.startswith("en") or language in ("es-MX", "es-US", "es-PR")
    return (mark == ".") == points


def told(number: Decimal) -> str:
    """A number without needless noughts and without an exponent."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text and not _cents(text) else text


def _cents(text: str) -> bool:
    """Two decimals stay as they are: 12.50."""
    return len(text.partition(".")[2]) == 2
