"""Amounts of money: $1,234.56, 1.234,56 €, £3m, 12 millones de euros, two hundred dollars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars import currencies, number_words
from anyrig.documents.entities.grammars.numbers import LONG, NUMBER, SHORT, parsed, times, told
from anyrig.documents.entities.reading import Reading

_SCALE = rf"(?: ?-?(?P<scale>(?i:{LONG})(?![A-Za-z])|{SHORT}(?![A-Za-z]|'[A-Za-z])))?"
_PART = re.compile(
    r"\b(?:(?P<half>half|medio|demi)|(?P<three>three)[ -]quarters of|(?:(?:a|one) )?quarter of) $"
)
_AND_HALF = r"(?: (?:and a half|et demie?|y medi[oa]))"
_SMALL = r"(?:cents?|centimes?|centimos?|centavos?|pence|kopeks?)(?![A-Za-z])"
_WEIGHT = re.compile(r"(?:weigh\w*|lost|lose|losing|gain\w*|shed|heavier|lighter|weight)\b.{0,24}$",
                     re.IGNORECASE)  # fmt: skip
_OF_WEIGHT = re.compile(
    r" (?:of (?!(?:debt|profit|damage|revenue|investment|spending|funding|taxpayer))[a-z]"
    r"|heavier|lighter|in weight|overweight|per square)"
)


@lru_cache(maxsize=1)
def _before() -> re.Pattern[str]:
    """The mark first: $5, EUR 12, US$ 3.5 million, €10-12."""
    return re.compile(
        rf"(?<![\w$€£¥])(?P<sign>-)?(?P<mark>{currencies.signs()}|(?<!/)(?:{currencies.codes()})"
        rf"|Frs?\.)(?P<sign2>-)? ?(?P<low>{NUMBER}|\.[0-9]{{2}}(?![0-9]))"
        rf"(?: ?[-\u2013] ?(?:{currencies.signs()})?(?P<high>{NUMBER}))?{_SCALE}"
        rf"(?P<tail>\.?[-\u2013](?![\w-]))?"
        rf"(?: ?(?P<mark2>{currencies.codes()})(?![A-Za-z])"
        rf"| (?P<mark3>(?i:{currencies.words()}))(?![A-Za-z]))?"
        r"(?![0-9A-Za-z%]|,[0-9]{3})"
    )


@lru_cache(maxsize=1)
def _after() -> re.Pattern[str]:
    """The number first: 5 €, 12 EUR, 1,5 million d'euros, 3 M€, 12€50."""
    glued = r"(?P<glued>[kKM]|MM|M[dD]s?|Mrd|Mio)?"
    return re.compile(
        rf"(?<![\w$€£.,/:])(?P<sign>(?<![0-9)\]] )(?<![0-9)\]])-)?(?P<low>{NUMBER})"
        rf"(?:(?: ?[-\u2013] ?| (?:to|a) )(?P<high>{NUMBER}))?{_SCALE}(?P<half>{_AND_HALF})?"
        rf"(?:\.?[-\u2013])?[ -]?(?:(?i:de|d'|of) ?)?"
        rf"(?:{glued}(?P<mark>{currencies.signs()}|zł)(?P<cents>[0-9]{{2}}(?![0-9]))?"
        rf"|(?P<code>{currencies.codes()})(?![A-Za-z])"
        rf"|(?P<word>(?i:{currencies.words()}))(?![A-Za-z]))"
        r"(?![0-9])"
    )


@lru_cache(maxsize=1)
def _words() -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?P<whole>[0-9]{{1,3}}|{number_words.pattern(1)}){_AND_HALF} )?"
        rf"(?P<number>{number_words.pattern()})(?P<half>{_AND_HALF})?[ -](?:de |d')?"
        rf"(?P<mark>{currencies.words()})(?![A-Za-z])",
        re.IGNORECASE,
    )


@lru_cache(maxsize=1)
def _rest() -> re.Pattern[str]:
    """What may follow whole ones: `and 99 cents`; `12 euros 50` where nothing is counted by it."""
    number = number_words.pattern(4)
    return re.compile(
        rf"(?: (?:et|and|con|y))? (?:(?P<cents>[0-9]{{1,2}}|{number}) {_SMALL}"
        rf"|(?P<bare>[0-9]{{2}}|{number})(?=\s*$|\s*[;:!?)\n]|\.(?![0-9])|,(?! ?[0-9])"
        r"| (?:et|le|la|l'|les|pour|par|chacun|soit|ttc|ht|y|por|el|cada)\b))",
        re.IGNORECASE,
    )


def find(reading: Reading) -> Iterator[Entity]:
    """Every amount."""
    regions = list(reading.around(currencies.anchor(), 70, 70))
    for found in reading.matches(_before(), regions):
        if entity := _first(reading, found):
            yield entity
    for found in reading.matches(_after(), regions):
        if entity := _last(reading, found):
            yield entity
    for found in reading.matches(_words(), regions):
        if entity := _in_words(reading, found):
            yield entity


def _in_words(reading: Reading, found: re.Match[str]) -> Entity | None:
    language, mark = reading.language(found.start()), found["mark"]
    skip = 0 if found["whole"] else number_words.without_article(found["number"])
    span = (found.start() + skip, found.end())
    number = number_words.value(found["number"][skip:], language)
    if number is None or _no_money(reading, span, mark):
        return None
    amount = Decimal(number)
    if found["half"]:
        amount += Decimal(number_words.unit(found["number"], language)) / 2
    if whole := found["whole"]:
        count = int(whole) if whole.isdigit() else number_words.worth().get(whole.lower(), 0)
        amount *= count + Decimal("0.5")
    elif part := _PART.search(reading.lower, max(0, found.start() - 24), found.start()):
        quarters = 2 if part["half"] else 3 if part["three"] else 1
        span, amount = (part.start(), found.end()), amount * quarters / 4
    return _entity(reading, span, [amount], mark, language, 0.95)


def _first(reading: Reading, found: re.Match[str]) -> Entity | None:
    language = reading.language(found.start())
    mark = found["mark2"] or found["mark3"] or found["mark"]
    numbers = _numbers(found, language, found["scale"] or "")
    if not numbers:
        return None
    span = (found.start(), found.end())
    if mark.startswith("Fr"):
        mark = "CHF"
    if found["mark3"] and currencies.code(mark, language) == "":
        mark = found["mark"]
    sign = found["sign"] or found["sign2"]
    if sign and reading.plain[max(0, span[0] - 1) : span[0]].strip(" \n\t("):
        sign, span = None, (span[0] + 1, span[1])
    numbers = [-number for number in numbers] if sign else numbers
    return _entity(reading, span, numbers, mark, language, 0.99)


def _last(reading: Reading, found: re.Match[str]) -> Entity | None:
    language = reading.language(found.start())
    mark = found["mark"] or found["code"] or found["word"]
    if found["word"] and _no_money(reading, found.span(), mark):
        return None
    if mark == "$" and reading.plain[found.end() : found.end() + 1].isalnum():
        return None
    numbers = _numbers(found, language, found["scale"] or found["glued"] or "")
    if not numbers:
        return None
    if found["half"]:
        numbers[-1] += Decimal(times(found["scale"] or "", language)) / 2
    if found["cents"]:
        numbers = [numbers[0] + Decimal(found["cents"]) / 100]
    if found["sign"]:
        numbers = [-number for number in numbers]
    score = 0.9 if found["word"] and currencies.code(mark, language) == "" else 0.98
    return _entity(reading, found.span(), numbers, mark, language, score)


def _numbers(found: re.Match[str], language: str, scale: str) -> list[Decimal]:
    by = times(scale, language)
    texts = [text for text in (found["low"], found["high"]) if text]
    read = [parsed(f"0{one}" if one[0] == "." else one, language, scaled=by > 1) for one in texts]
    return [number * by for number in read if number is not None]


def _entity(
    reading: Reading, span: tuple[int, int], numbers: list[Decimal], mark: str, language: str,
    score: float,
) -> Entity:  # fmt: skip
    if currencies.HUNDREDTHS.fullmatch(mark):
        numbers = [number / 100 for number in numbers]
    elif len(numbers) == 1 and numbers[0] == int(numbers[0]):
        span, cents = _cents(reading, span, mark, language)
        numbers = [numbers[0] + cents.copy_sign(numbers[0])] if cents else numbers
    amount = "-".join(told(number) for number in numbers)
    currency = currencies.code("PLN" if mark == "zł" else mark, language)
    details = {"amount": amount} | ({"currency": currency} if currency else {})
    value = f"{amount} {currency}" if currency else ""
    return reading.entity("money", span, value, score=score, details=details)


def _cents(
    reading: Reading, span: tuple[int, int], mark: str, language: str
) -> tuple[tuple[int, int], Decimal]:
    """The hundredths that follow an amount, with where both end: `dollars and 99 cents`."""
    found = _rest().match(reading.plain, span[1])
    bare = found is not None and found["bare"] is not None
    if found is None or (bare and not (mark.isalpha() and language[:2] in ("fr", "es"))):
        return span, Decimal(0)
    text = found["bare"] or found["cents"]
    count = int(text) if text.isdigit() else number_words.value(text, language)
    if count is None or not 0 < count < 100:
        return span, Decimal(0)
    return (span[0], found.end("bare") if bare else found.end()), Decimal(count) / 100


def _no_money(reading: Reading, span: tuple[int, int], mark: str) -> bool:
    """Pounds of sugar or of a person, a French `cents`, which is a number, and `point five`."""
    if number_words.is_fraction(reading.lower, span[0]):
        return True
    if mark.lower() in ("cent", "cents"):
        return not reading.language(span[0]).startswith("en")
    if mark.lower() not in ("pound", "pounds"):
        return False
    before = reading.plain[max(0, span[0] - 40) : span[0]]
    return bool(_WEIGHT.search(before) or _OF_WEIGHT.match(reading.plain, span[1]))
