"""Numbers in words: `two hundred`, `quatre-vingt-dix`, `treinta y cinco mil`."""

from __future__ import annotations

import re
from functools import lru_cache

from anyrig.documents.entities.grammars.numbers import SCALES, scale

_UNITS = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen",
    "fr": "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize",
    "es": "cero un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciseis diecisiete dieciocho diecinueve veinte veintiun veintidos veintitres veinticuatro "
    "veinticinco veintiseis veintisiete veintiocho veintinueve",
}
_MORE = {
    "a": 1, "an": 1, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "seventy": 70, "eighty": 80, "ninety": 90, "une": 1, "vingt": 20, "vingts": 20, "trente": 30,
    "quarante": 40, "cinquante": 50, "soixante": 60, "septante": 70, "huitante": 80, "octante": 80,
    "nonante": 90, "uno": 1, "una": 1, "veintiuno": 21, "veintiuna": 21, "treinta": 30,
    "cuarenta": 40, "cincuenta": 50, "sesenta": 60, "setenta": 70, "ochenta": 80, "noventa": 90,
    "cien": 100, "ciento": 100, "doscientos": 200, "doscientas": 200, "trescientos": 300,
    "trescientas": 300, "cuatrocientos": 400, "cuatrocientas": 400, "quinientos": 500,
    "quinientas": 500, "seiscientos": 600, "seiscientas": 600, "setecientos": 700,
    "setecientas": 700, "ochocientos": 800, "ochocientas": 800, "novecientos": 900,
    "novecientas": 900,
}  # fmt: skip
_SMALL = {
    "hundred": 100, "cent": 100, "cents": 100, "thousand": 1000, "mille": 1000, "mil": 1000,
}  # fmt: skip
_JOINTS = ("and", "et", "y")
MOST_WORDS = 14


@lru_cache(maxsize=1)
def worth() -> dict[str, int]:
    """What each word that is no multiplier adds."""
    found = dict(_MORE)
    for words in _UNITS.values():
        found |= {word: number for number, word in enumerate(words.split())}
    return found


@lru_cache(maxsize=2)
def pattern(most: int = MOST_WORDS + 1) -> str:
    """One or more number words, in plain letters without case."""
    words = sorted({*worth(), *_SMALL, *SCALES}, key=len, reverse=True)
    word = f"(?:{'|'.join(words)})"
    joint = rf"(?:[ -](?:(?:{'|'.join(_JOINTS)})[ -])?)"
    return rf"(?<![A-Za-z-]){word}(?![A-Za-z])(?:{joint}{word}(?![A-Za-z])){{0,{most - 1}}}"


def value(text: str, language: str) -> int | None:
    """The number that words say; None when they say none, such as `a`."""
    words = [word for word in re.split(r"[ -]+", text.lower()) if word not in _JOINTS]
    if not words or words[-1] in ("a", "an") or (words[0] in ("a", "an") and len(words) == 1):
        return None
    # `part` is below a thousand, `group` holds the thousands, `total` the millions and more.
    total = group = part = 0
    lowest: int | None = None
    for word in words:
        times = _times(word, language)
        if times is None:
            add = worth()[word]
            # quatre-vingt: the one number that is multiplied by what follows it.
            part = part + 76 if word in ("vingt", "vingts") and part % 100 == 4 else part + add
        elif times == 100:
            part = part - part % 100 + (part % 100 or 1) * 100 if part < 100 else part + 100
        elif times == 1000:
            group, part = group + (part or 1) * 1000, 0
        elif lowest is not None and not group + part:  # `a million million`
            total *= times
        elif lowest is not None and times >= lowest:
            return None
        else:
            total, group, part = total + (group + part or 1) * times, 0, 0
            lowest = times
    return total + group + part


def unit(text: str, language: str) -> int:
    """What `and a half` behind a number is half of: a million behind `two million`."""
    return _times(re.split(r"[ -]+", text.lower())[-1], language) or 1


def without_article(text: str) -> int:
    """How many characters of an article stand before a number: `un` in `un diez por ciento`."""
    words = re.split(r"[ -]", text.lower(), maxsplit=2)
    is_article = words[0] in ("un", "una", "a", "an", "une") and len(words) > 1
    return len(words[0]) + 1 if is_article and words[1] in worth() else 0


def is_fraction(lower: str, at: int) -> bool:
    """Whether what begins here stands behind a point in words: `cero coma cinco`."""
    return re.search(r"\b(?:coma|virgule|point|punto) $", lower[max(0, at - 10) : at]) is not None


def _times(word: str, language: str) -> int | None:
    return _SMALL.get(word) or (scale(word, language) if word in SCALES else None)
