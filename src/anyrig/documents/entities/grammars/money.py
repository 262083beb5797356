"""Amounts of money: $1,234.56, 1.234,56 €, £3m, 12 millones de euros, two hundred dollars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars import numbers
from anyrig.documents.entities.grammars.numbers import (
    LONG,
    NUMBER,
    SHORT,
    format_number,
    parse_number,
    times,
)
from anyrig.documents.entities.plain_text import PlainText

# -- currencies ------------------------------------------------------------------------------------

_SIGNS = {
    "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "₽": "RUB", "₩": "KRW", "₺": "TRY", "₪": "ILS",
    "₫": "VND", "₴": "UAH", "₱": "PHP", "₦": "NGN", "฿": "THB", "US$": "USD", "U$S": "USD",
    "C$": "CAD", "CA$": "CAD", "CAD$": "CAD", "A$": "AUD", "AU$": "AUD", "NZ$": "NZD",
    "HK$": "HKD", "S$": "SGD", "R$": "BRL", "MX$": "MXN", "Mex$": "MXN", "RD$": "DOP",
    "CLP$": "CLP", "NT$": "TWD", "$": "$", "¢": "",
}  # fmt: skip
_CODES = (
    "USD EUR GBP CHF JPY CNY RMB CAD AUD NZD MXN ARS CLP COP PEN UYU BRL INR RUB SEK NOK DKK ISK "
    "PLN CZK HUF RON BGN TRY ZAR KRW HKD SGD TWD MAD TND DZD XOF XAF AED SAR QAR ILS THB IDR MYR "
    "PHP VND EGP NGN KES UAH FRF DEM ESP BTC"
).split()
# Word -> code; empty where the word alone does not tell which country's it is.
_WORDS = {
    r"euros?": "EUR", r"u\.?s\.? dollars?": "USD", r"(?:american|us) dollars?": "USD",
    r"dollars? (?:americains?|us)": "USD", r"dolares? (?:estadounidenses?|americanos?)": "USD",
    r"dolar(?:es)? (?:estadounidenses?|americanos?)": "USD",
    r"canadian dollars?": "CAD", r"dollars? canadiens?": "CAD", r"dolar(?:es)? canadienses?": "CAD",
    r"australian dollars?": "AUD", r"dollars? australiens?": "AUD",
    r"new zealand dollars?": "NZD", r"hong kong dollars?": "HKD",
    r"dollars?": "USD", r"dolar(?:es)?": "USD",
    r"(?:pounds?|livres?) sterling": "GBP", r"british pounds?": "GBP",
    r"libras? esterlinas?": "GBP", r"pounds?": "GBP", r"pence": "GBP",
    r"yens?": "JPY", r"yenes": "JPY", r"yuans?|yuanes|renminbi": "CNY",
    r"(?:indian )?rupees?|roupies?|rupias?": "INR", r"r(?:o)?ubles?|rublos?": "RUB",
    r"swiss francs?|francs? suisses?|francos? suizos?": "CHF", r"francs? cfa": "XOF",
    r"francs?": "", r"francos?": "", r"pesos? mexicanos?|mexican pesos?": "MXN",
    r"pesos? argentinos?": "ARS", r"pesos? colombianos?": "COP", r"pesos? chilenos?": "CLP",
    r"pesos?": "", r"pesetas?": "ESP", r"bolivares": "", r"soles(?: peruanos)?": "PEN",
    r"reais|reales brasilenos": "BRL", r"korean won": "KRW", r"zlot(?:ys?|y)|zlotych": "PLN",
    r"kron(?:or|er)|couronnes?|coronas?": "", r"dirhams?": "", r"dinars?|dinares": "",
    r"cents?|centimes?|centimos?|centavos?": "", r"bitcoins?": "BTC",
}  # fmt: skip
_HUNDREDTHS = re.compile(r"¢|pence|cents?|centimes?|centimos?|centavos?", re.IGNORECASE)


@lru_cache(maxsize=1)
def _signs() -> str:
    """A pattern of signs, the longest first; their case counts."""
    return "|".join(re.escape(sign) for sign in sorted(_SIGNS, key=len, reverse=True))


@lru_cache(maxsize=1)
def _codes() -> str:
    """A pattern of ISO codes; capitals only."""
    return "|".join(_CODES)


# Words of daily use in other languages, beside the full names that CLDR has.
_COLLOQUIAL = {
    "it": {r"dollar[oi]": "USD", r"sterlin[ae]": "GBP", r"franch[io]|franco": ""},
    "pt": {r"libras?": "GBP", r"reais|real": "BRL"},
    "de": {r"pfund": "GBP", r"franken": "CHF", r"rubel": "RUB", r"kronen": ""},
    "nl": {r"ponden|pond": "GBP", r"frank(?:en)?": ""},
    "pl": {r"dolar(?:ow|y)?": "USD", r"funt(?:ow|y)?": "GBP", r"złot(?:ych|ego|y|e)": "PLN"},
    "cs": {r"korun[ay]?|kc": "CZK", r"dolar[uy]?": "USD"},
    "hu": {r"forint(?:ot)?|ft": "HUF"}, "ro": {r"lei|leu": "RON"}, "bg": {r"лева|лв": "BGN"},
    "ru": {r"руб(?:л(?:ей|я|ь))?": "RUB", r"доллар(?:ов|а)?": "USD", r"евро": "EUR"},
    "uk": {r"гривень|гривні|грн": "UAH", r"євро": "EUR"},
    "tr": {r"lira|tl": "TRY", r"dolar": "USD", r"avro": "EUR"},
    "el": {r"ευρω": "EUR", r"δολαρια": "USD"},
}  # fmt: skip
_NAMED = (
    "EUR USD GBP CHF JPY CNY CAD AUD INR RUB SEK NOK DKK PLN CZK HUF RON BGN TRY BRL UAH".split()
)
_LANGUAGES = frozenset(
    "bg ca cs da de el et eu fi gl hr hu id is it lt lv nb nl no pl pt ro ru sk sl sv tr uk".split()
)


def _words_name(language: str) -> str:
    """Which currency words a language's texts are read with; "" are those that all share."""
    name = language.partition("-")[0]
    return name if name in _LANGUAGES else ""


@lru_cache(maxsize=64)
def _known_words(name: str) -> dict[str, str]:
    """Patterns of currency words, and the code of each."""
    if not name:
        return _WORDS
    from babel.numbers import get_currency_name

    from anyrig.documents.entities.plain_text import build_plain_text

    known = dict(_COLLOQUIAL.get(name, {}))
    for code in _NAMED:
        for count in (1, 2, 5):
            full = build_plain_text(get_currency_name(code, count, name)).plain.lower()
            known.setdefault(re.escape(full), code)
    longest = sorted(known, key=len, reverse=True)
    return {word: known[word] for word in longest} | _WORDS


@lru_cache(maxsize=64)
def _currency_words(name: str) -> str:
    """A pattern of currency words; their case does not count."""
    return "|".join(_known_words(name))


@lru_cache(maxsize=64)
def _anchor(name: str) -> re.Pattern[str]:
    """Where money may be meant: the first letters of each word, sign or code, in small letters."""
    stems = (
        "euro dollar dolar pound livre libra pence yen yuan renminbi rupee roupie rupia "
        "rouble ruble "
        "rublo franc peso peseta bolivar sol real reai won zlot kron couronne corona dirham dinar "
        "cent bitcoin fr"
    ).split()
    marks = {sign[-1].lower() for sign in _SIGNS} | {"zł"}
    stems += [
        match[0]
        for words in (_known_words(name) if name else ())
        for match in re.finditer(r"(?:^|(?<=\|))[^\W\d_]{2,}", words)
    ]
    names = sorted({*stems, *(code.lower() for code in _CODES)}, key=len, reverse=True)
    return re.compile(
        rf"[{''.join(re.escape(m) for m in marks if len(m) == 1)}]|zł|\b(?:{'|'.join(names)})"
    )


def _currency_code(mark: str, language: str) -> str:
    """The ISO code that a sign, a code or a word stands for; empty when that is not certain."""
    if mark.upper() == "RMB":
        return "CNY"
    if mark in _CODES:
        return mark
    if mark == "$":  # half of Latin America writes its pesos so
        return "" if language.startswith("es") else "USD"
    if mark in _SIGNS:
        return _SIGNS[mark]
    plain = " ".join(mark.lower().split())
    known = _known_words(_words_name(language))
    return next((found for word, found in known.items() if re.fullmatch(word, plain)), "")


# -- amounts ---------------------------------------------------------------------------------------

_SCALE = rf"(?: ?-?(?P<scale>(?i:{LONG})(?![^\W\d_])|{SHORT}(?![A-Za-z]|'[A-Za-z])))?"
_PART = re.compile(
    r"\b(?:(?P<half>half|medio|demi)|(?P<three>three)[ -]quarters of|(?:(?:a|one) )?quarter of) $"
)
_AND_HALF = r"(?: (?:and a half|et demie?|y medi[oa]))"
_SMALL = r"(?:cents?|centimes?|centimos?|centavos?|pence|kopeks?)(?![^\W\d_])"
_WEIGHT = re.compile(r"(?:weigh\w*|lost|lose|losing|gain\w*|shed|heavier|lighter|weight)\b.{0,24}$",
                     re.IGNORECASE)  # fmt: skip
_OF_WEIGHT = re.compile(
    r" (?:of (?!(?:debt|profit|damage|revenue|investment|spending|funding|taxpayer))[a-z]"
    r"|heavier|lighter|in weight|overweight|per square)"
)


@lru_cache(maxsize=64)
def _before(name: str) -> re.Pattern[str]:
    """The mark first: $5, EUR 12, US$ 3.5 million, €10-12."""
    return re.compile(
        rf"(?<![\w$€£¥])(?P<sign>-)?(?P<mark>{_signs()}|(?<!/)(?:{_codes()})"
        rf"|Frs?\.)(?P<sign2>-)? ?(?P<low>{NUMBER}|\.[0-9]{{2}}(?![0-9]))"
        rf"(?: ?[-\u2013] ?(?:{_signs()})?(?P<high>{NUMBER}))?{_SCALE}"
        rf"(?P<tail>\.?[-\u2013](?![\w-]))?"
        rf"(?: ?(?P<mark2>{_codes()})(?![^\W\d_])"
        rf"| (?P<mark3>(?i:{_currency_words(name)}))(?![^\W\d_]))?"
        r"(?![0-9A-Za-z%]|,[0-9]{3})"
    )


@lru_cache(maxsize=64)
def _after(name: str) -> re.Pattern[str]:
    """The number first: 5 €, 12 EUR, 1,5 million d'euros, 3 M€, 12€50."""
    glued = r"(?P<glued>[kKM]|MM|M[dD]s?|Mrd|Mio)?"
    return re.compile(
        rf"(?<![\w$€£.,/:])(?P<sign>(?<![0-9)\]] )(?<![0-9)\]])-)?(?P<low>{NUMBER})"
        rf"(?:(?: ?[-\u2013] ?| (?:to|a) )(?P<high>{NUMBER}))?{_SCALE}(?P<half>{_AND_HALF})?"
        rf"(?:\.?[-\u2013])?[ -]?(?:(?i:de|d'|of|di|von) ?)?"
        rf"(?:{glued}(?P<mark>{_signs()}|zł(?![^\W\d_]))(?P<cents>[0-9]{{2}}(?![0-9]))?"
        rf"|(?P<code>{_codes()})(?![^\W\d_])"
        rf"|(?P<word>(?i:{_currency_words(name)}))(?![^\W\d_]))"
        r"(?![0-9])"
    )


@lru_cache(maxsize=64)
def _amount_words(name: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?:(?P<whole>[0-9]{{1,3}}|{numbers.word_pattern(1)}){_AND_HALF} )?"
        rf"(?P<number>{numbers.word_pattern()})(?P<half>{_AND_HALF})?[ -](?:de |d'|di )?"
        rf"(?P<mark>{_currency_words(name)})(?![^\W\d_])",
        re.IGNORECASE,
    )


@lru_cache(maxsize=1)
def _rest() -> re.Pattern[str]:
    """What may follow whole ones: `and 99 cents`; `12 euros 50` where nothing is counted by it."""
    number = numbers.word_pattern(4)
    return re.compile(
        rf"(?: (?:et|and|con|y))? (?:(?P<cents>[0-9]{{1,2}}|{number}) {_SMALL}"
        rf"|(?P<bare>[0-9]{{2}}|{number})(?=\s*$|\s*[;:!?)\n]|\.(?![0-9])|,(?! ?[0-9])"
        r"| (?:et|le|la|l'|les|pour|par|chacun|soit|ttc|ht|y|por|el|cada)\b))",
        re.IGNORECASE,
    )


def find(source: PlainText) -> Iterator[Entity]:
    """Every amount."""
    for name in dict.fromkeys(map(_words_name, source.languages)):
        regions = list(source.around(_anchor(name), 70, 70))
        for pattern, build in (
            (_before(name), _first), (_after(name), _last), (_amount_words(name), _in_words),
        ):  # fmt: skip
            for found in source.matches(pattern, regions):
                if _words_name(source.language(found.start())) == name and (
                    entity := build(source, found)
                ):
                    yield entity


def _in_words(source: PlainText, found: re.Match[str]) -> Entity | None:
    language, mark = source.language(found.start()), found["mark"]
    skip = 0 if found["whole"] else numbers.without_article(found["number"])
    span = (found.start() + skip, found.end())
    number = numbers.read_words(found["number"][skip:], language)
    if number is None or _no_money(source, span, mark):
        return None
    amount = Decimal(number)
    if found["half"]:
        amount += Decimal(numbers.read_unit(found["number"], language)) / 2
    if whole := found["whole"]:
        count = int(whole) if whole.isdigit() else numbers.word_values().get(whole.lower(), 0)
        amount *= count + Decimal("0.5")
    elif part := _PART.search(source.lower, max(0, found.start() - 24), found.start()):
        quarters = 2 if part["half"] else 3 if part["three"] else 1
        span, amount = (part.start(), found.end()), amount * quarters / 4
    return _entity(source, span, [amount], mark, language, 0.95)


def _first(source: PlainText, found: re.Match[str]) -> Entity | None:
    language = source.language(found.start())
    mark = found["mark2"] or found["mark3"] or found["mark"]
    amounts = _numbers(found, language, found["scale"] or "")
    if not amounts:
        return None
    span = (found.start(), found.end())
    if mark.startswith("Fr"):
        mark = "CHF"
    if found["mark3"] and _currency_code(mark, language) == "":
        mark = found["mark"]
    sign = found["sign"] or found["sign2"]
    if sign and source.plain[max(0, span[0] - 1) : span[0]].strip(" \n\t("):
        sign, span = None, (span[0] + 1, span[1])
    amounts = [-number for number in amounts] if sign else amounts
    return _entity(source, span, amounts, mark, language, 0.99)


def _last(source: PlainText, found: re.Match[str]) -> Entity | None:
    language = source.language(found.start())
    mark = found["mark"] or found["code"] or found["word"]
    if found["word"] and _no_money(source, found.span(), mark):
        return None
    if mark == "$" and source.plain[found.end() : found.end() + 1].isalnum():
        return None
    amounts = _numbers(found, language, found["scale"] or found["glued"] or "")
    if not amounts:
        return None
    if found["half"]:
        amounts[-1] += Decimal(times(found["scale"] or "", language)) / 2
    if found["cents"]:
        amounts = [amounts[0] + Decimal(found["cents"]) / 100]
    if found["sign"]:
        amounts = [-number for number in amounts]
    score = 0.9 if found["word"] and _currency_code(mark, language) == "" else 0.98
    return _entity(source, found.span(), amounts, mark, language, score)


def _numbers(found: re.Match[str], language: str, scale: str) -> list[Decimal]:
    by = times(scale, language)
    texts = [text for text in (found["low"], found["high"]) if text]
    read = [
        parse_number(f"0{one}" if one[0] == "." else one, language, scaled=by > 1) for one in texts
    ]
    return [number * by for number in read if number is not None]


def _entity(
    source: PlainText, span: tuple[int, int], amounts: list[Decimal], mark: str, language: str,
    score: float,
) -> Entity:  # fmt: skip
    if _HUNDREDTHS.fullmatch(mark):
        amounts = [number / 100 for number in amounts]
    elif len(amounts) == 1 and amounts[0] == int(amounts[0]):
        span, cents = _cents(source, span, mark, language)
        amounts = [amounts[0] + cents.copy_sign(amounts[0])] if cents else amounts
    amount = "-".join(format_number(number) for number in amounts)
    currency = _currency_code("PLN" if mark == "zł" else mark, language)
    details = {"amount": amount} | ({"currency": currency} if currency else {})
    value = f"{amount} {currency}" if currency else ""
    return source.build_entity("money", span, value, score=score, details=details)


def _cents(
    source: PlainText, span: tuple[int, int], mark: str, language: str
) -> tuple[tuple[int, int], Decimal]:
    """The hundredths that follow an amount, with where both end: `dollars and 99 cents`."""
    found = _rest().match(source.plain, span[1])
    bare = found is not None and found["bare"] is not None
    if found is None or (bare and not (mark.isalpha() and language[:2] in ("fr", "es"))):
        return span, Decimal(0)
    text = found["bare"] or found["cents"]
    count = int(text) if text.isdigit() else numbers.read_words(text, language)
    if count is None or not 0 < count < 100:
        return span, Decimal(0)
    return (span[0], found.end("bare") if bare else found.end()), Decimal(count) / 100


def _no_money(source: PlainText, span: tuple[int, int], mark: str) -> bool:
    """Pounds of sugar or of a person, a French `cents`, which is a number, and `point five`."""
    if numbers.is_fraction(source.lower, span[0]):
        return True
    if mark.lower() in ("cent", "cents"):
        return not source.language(span[0]).startswith("en")
    if mark.lower() not in ("pound", "pounds"):
        return False
    before = source.plain[max(0, span[0] - 40) : span[0]]
    return bool(_WEIGHT.search(before) or _OF_WEIGHT.match(source.plain, span[1]))
