"""Numbers as people write them: 1,234.56 and 1.234,56, `two hundred`, `treinta y cinco`, 5 %."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.plain_text import PlainText

NUMBER = (
    r"(?:[0-9]{1,3}(?:,[0-9]{2,3}){0,5},[0-9]{3}(?:\.[0-9]{1,4})?(?![0-9])"
    r"|[0-9]{1,3}(?:\.[0-9]{3}){1,6}(?:,[0-9]{1,4})?(?![0-9])"
    r"|[0-9]{1,3}(?:[ '][0-9]{3}){1,6}(?:[.,][0-9]{1,4})?(?![0-9])"
    r"|[0-9]{1,15}(?:[.,][0-9]{1,6})?(?![0-9]))"
)
"""With no digit before it, as the caller makes sure. Every repetition is bounded."""
_SHORT = {
    "k": 10**3, "m": 10**6, "mn": 10**6, "mio": 10**6, "mm": 10**6, "bn": 10**9, "b": 10**9,
    "md": 10**9, "mds": 10**9, "mln": 10**6, "mld": 10**9, "mrd": 10**9, "tn": 10**12, "t": 10**12,
}  # fmt: skip
_WORDS = {
    "hundred": 100, "thousand": 10**3, "mille": 10**3, "mil": 10**3, "milliers": 10**3,
    "miles": 10**3, "million": 10**6, "millions": 10**6, "millon": 10**6, "millones": 10**6,
    "milliard": 10**9, "milliards": 10**9, "millardo": 10**9, "millardos": 10**9,
    "billon": 10**12, "billones": 10**12, "billiard": 10**15, "billiards": 10**15,
    "trillon": 10**18, "trillones": 10**18, "trilliard": 10**21, "trilliards": 10**21,
    "tausend": 10**3, "mila": 10**3, "millionen": 10**6, "milione": 10**6, "milioni": 10**6,
    "milhao": 10**6, "milhoes": 10**6, "miljoen": 10**6, "miljoner": 10**6, "millioner": 10**6,
    "milion": 10**6, "miliony": 10**6, "milionow": 10**6, "milionu": 10**6, "milliarde": 10**9,
    "milliarden": 10**9, "miliardo": 10**9, "miliardi": 10**9, "miljard": 10**9, "bilhao": 10**9,
    "bilhoes": 10**9, "miljarder": 10**9, "milliarder": 10**9, "миллиона": 10**6,
    "миллионов": 10**6, "миллиардов": 10**9,
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
SHORT = r"(?:[kK]|[mM](?:[nNdDmM]|ds|io|rd|ln|ld)?|[bB][nN]?|[tT][nN]?)"
_ANY_SCALE = "|".join(sorted(SCALES, reverse=True))
LONG = (
    rf"(?:(?:(?:hundred|thousand|mille|mil|cent|cien) )?(?:{_ANY_SCALE})"
    r"|thousand|hundred|tausend|mille|milliers|miles|mila|mil)"
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


def parse_number(text: str, language: str, *, scaled: bool = False) -> Decimal | None:
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
    return mark == decimal_mark(language)


@lru_cache(maxsize=256)
def decimal_mark(language: str) -> str:
    """What a language, or a country's form of it, writes before decimals; CLDR's."""
    from babel import Locale, UnknownLocaleError

    try:
        symbols = Locale.parse(language or "en", sep="-").number_symbols
    except (UnknownLocaleError, ValueError):
        return ","
    return str(symbols.get("latn", {}).get("decimal", ","))


def format_number(number: Decimal) -> str:
    """A number without needless noughts and without an exponent."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text and not _cents(text) else text


def _cents(text: str) -> bool:
    """Two decimals stay as they are: 12.50."""
    return len(text.partition(".")[2]) == 2


# -- in words --------------------------------------------------------------------------------------

_UNITS = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen",
    "fr": "zero un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize",
    "es": "cero un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciseis diecisiete dieciocho diecinueve veinte veintiun veintidos veintitres veinticuatro "
    "veinticinco veintiseis veintisiete veintiocho veintinueve",
}
_OTHER_WORDS = {
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
_SMALL_WORDS = {
    "hundred": 100, "cent": 100, "cents": 100, "thousand": 1000, "mille": 1000, "mil": 1000,
}  # fmt: skip
_JOINTS = ("and", "et", "y")
_MAX_WORDS = 14


@lru_cache(maxsize=1)
def word_values() -> dict[str, int]:
    """What each word that is no multiplier adds."""
    found = dict(_OTHER_WORDS)
    for words in _UNITS.values():
        found |= {word: number for number, word in enumerate(words.split())}
    return found


@lru_cache(maxsize=2)
def word_pattern(max_words: int = _MAX_WORDS + 1) -> str:
    """One or more number words, in plain letters without case."""
    words = sorted({*word_values(), *_SMALL_WORDS, *SCALES}, key=len, reverse=True)
    word = f"(?:{'|'.join(words)})"
    joint = rf"(?:[ -](?:(?:{'|'.join(_JOINTS)})[ -])?)"
    return rf"(?<![A-Za-z-]){word}(?![A-Za-z])(?:{joint}{word}(?![A-Za-z])){{0,{max_words - 1}}}"


def read_words(text: str, language: str) -> int | None:
    """The number that words say; None when they say none, such as `a`."""
    words = [word for word in re.split(r"[ -]+", text.lower()) if word not in _JOINTS]
    if not words or words[-1] in ("a", "an") or (words[0] in ("a", "an") and len(words) == 1):
        return None
    # `part` is below a thousand, `group` holds the thousands, `total` the millions and more.
    total = group = part = 0
    lowest: int | None = None
    for word in words:
        times = _multiplier(word, language)
        if times is None:
            add = word_values()[word]
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


def read_unit(text: str, language: str) -> int:
    """What `and a half` behind a number is half of: a million behind `two million`."""
    return _multiplier(re.split(r"[ -]+", text.lower())[-1], language) or 1


def without_article(text: str) -> int:
    """How many characters of an article stand before a number: `un` in `un diez por ciento`."""
    words = re.split(r"[ -]", text.lower(), maxsplit=2)
    is_article = words[0] in ("un", "una", "a", "an", "une") and len(words) > 1
    return len(words[0]) + 1 if is_article and words[1] in word_values() else 0


def is_fraction(lower: str, at: int) -> bool:
    """Whether what begins here stands behind a point in words: `cero coma cinco`."""
    return re.search(r"\b(?:coma|virgule|point|punto) $", lower[max(0, at - 10) : at]) is not None


def _multiplier(word: str, language: str) -> int | None:
    return _SMALL_WORDS.get(word) or (scale(word, language) if word in SCALES else None)


# -- percentages -----------------------------------------------------------------------------------

_PERCENT = (
    r"(?: ?[%\uff05](?![\w%])"
    r"| ?-?(?:per ?cento?|prozent|procent|por ?cento|pct|pour ?-?cents?|p\. ?100"
    r"|por ?ciento)(?![A-Za-z]))"
)


_PERCENT_ANCHOR = re.compile(
    r"[%\uff05]|per ?cento?|prozent|procent|por ?cento|pct|pour ?-?cent|p\. ?100|por ?ciento"
)
_PERCENT_WORD = re.compile(r"per ?cento?|prozent|procent|por ?cento|pct|pour ?-?cent|por ?ciento")


@lru_cache(maxsize=1)
def _percent_digits() -> re.Pattern[str]:
    return re.compile(
        rf"(?<![\w.,%/])(?P<sign>(?<![0-9)\]])[-+\u00b1])?(?P<low>{NUMBER})"
        rf"(?:(?: ?%? ?[-\u2013] ?| (?:to|a) )(?P<high>{NUMBER}))?{_PERCENT}",
        re.IGNORECASE,
    )


@lru_cache(maxsize=1)
def _percent_words() -> re.Pattern[str]:
    return re.compile(rf"({word_pattern()}){_PERCENT}", re.IGNORECASE)


def find_percents(source: PlainText) -> Iterator[Entity]:
    """Every percentage."""
    regions = list(source.around(_PERCENT_ANCHOR, 60, 12))
    for found in source.matches(_percent_digits(), regions):
        yield _read_percent(source, found)
    for found in source.matches(_percent_words(), source.around(_PERCENT_WORD, 120, 12)):
        skip = without_article(found[1])
        number = read_words(found[1][skip:], source.language(found.start()))
        if number is not None and not is_fraction(source.lower, found.start()):
            span = (found.start() + skip, found.end())
            yield source.build_entity("percent", span, f"{number}%", score=0.97)


def _read_percent(source: PlainText, found: re.Match[str]) -> Entity:
    language = source.language(found.start())
    numbers = [parse_number(text, language) for text in (found["low"], found["high"]) if text]
    sign = "-" if found["sign"] == "-" else ""
    value = "-".join(format_number(number) for number in numbers if number is not None)
    return source.build_entity("percent", found.span(), f"{sign}{value}%", score=0.99)
