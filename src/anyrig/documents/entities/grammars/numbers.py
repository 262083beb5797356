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
_LONG = {
    "hundred": 100, "thousand": 10**3, "mille": 10**3, "mil": 10**3, "milliers": 10**3,
    "miles": 10**3, "million": 10**6, "millions": 10**6, "millon": 10**6, "millones": 10**6,
    "milliard": 10**9, "milliards": 10**9, "mil millones": 10**9, "trillion": 10**12,
    "trillions": 10**12, "billones": 10**12, "billon": 10**12, "millardos": 10**9,
}  # fmt: skip
SHORT = r"(?:[kK]|[mM](?:[nNdDmM]|ds|io|rd)?|[bB][nN]?|[tT][nN]?)"
LONG = (
    r"(?:mil millones|thousand|hundred|mille|milliers|miles|mil|millions?|millon(?:es)?"
    r"|milliards?|millardos|billions?|billon(?:es)?|trillions?)"
)


def times(word: str, language: str) -> int:
    """What a word or letter behind a number multiplies it by; 1 for none."""
    word = " ".join(word.lower().split())
    if word in ("billion", "billions"):
        return 10**9 if language.startswith("en") else 10**12
    return _LONG.get(word) or _SHORT.get(word, 1)


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
