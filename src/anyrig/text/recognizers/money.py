"""Sums of money: signs, codes, cents, thousands and millions, prices per something."""

from __future__ import annotations

import re

from anyrig.text import values as v
from anyrig.text.recognizers import Found, Stop, per_language, recognizer
from anyrig.text.recognizers.common import (
    COMMA_NUMBER,
    MINUS,
    NUMBER,
    NUMBER_START,
    SIGNED,
    before,
    close,
    is_attributive,
    one_of,
    parse_comma_number,
    parse_number,
)
from anyrig.text.recognizers.languages import ROMANCE, TABLES, english
from anyrig.text.recognizers.measures import (
    LINKS,
    ROMANCE_POWER,
    SYMBOL,
    find_unit,
    link_range,
    parse_power,
)
from anyrig.text.recognizers.stops import stop_after

_DOLLARS = {
    "US$": "USD", "A$": "AUD", "AU$": "AUD", "C$": "CAD", "CA$": "CAD", "HK$": "HKD",
    "NZ$": "NZD", "S$": "SGD", "R$": "BRL",
}  # fmt: skip
SIGNS = "$£€¥₹₽₩₺₪₫₴₦₱฿₿"
_CODES = (
    "USD EUR GBP JPY AUD CAD CHF CNY RMB INR MXN SEK NZD HKD NOK DKK SGD BTC KRW PLN TRY ZAR PKR"
).split()
_CODE_SIGNS = {"EUR": "€", "BTC": "₿"}
_NAMED = {"Rs.": "₹", "Rs": "₹", "Fr.": "CHF", "kr": "kr", "kr.": "kr", "zł": "zł"}
_MARK = rf"(?:{one_of(_DOLLARS)}|[{re.escape(SIGNS)}])"
_CODE = one_of(_CODES)
# A comma before two digits is a decimal one in prices from other places: €4,50.
_SUM = (
    rf"(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d{{1,3}}(?:\.\d{{3}})+,\d\d|\d+,\d\d(?![\d,])|{NUMBER})"
)
_SCALE = (
    r"(?: ?(hundred|thousand|million|billion|trillion)s?\b|[ -]?(mn|mil|mm|MM|bn|Bn|tn|"
    r"trn|[kKmMbBtT])"
    r"(?![\w'’]))"
)
PERIODS = {
    "mo": "mo", "month": "mo", "yr": "yr", "year": "yr", "hr": "h", "h": "h", "hour": "h",
    "wk": "wk", "week": "wk", "lb": "lb", "lbs": "lb", "kg": "kg", "oz": "oz", "gal": "gal",
    "sq ft": "sq ft", "sqft": "sq ft", "sq. ft": "sq ft", "mi": "mi", "km": "km", "kWh": "kWh",
    "GB": "GB", "min": "min", "L": "L", "l": "L", "bbl": "bbl", "ea": "ea", "g": "g", "day": "d",
    "d": "d", "ft": "ft", "sec": "s", "s": "s",
}  # fmt: skip
_PER = rf"(?: ?/ ?(?:({one_of(PERIODS)})\b(\.)?|(m²|m2)|([a-z]{{3,12}})\b)(?!/))?"


def _scale(word: str | None, letter: str | None) -> int:
    return english.SCALES[word or letter or ""] if word or letter else 0


def _sum(text: str, sign: str | None = None, scale: int = 0) -> v.Number:
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d\d", text):
        text = text.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d+,\d\d", text):
        text = text.replace(",", ".")
    return parse_number(text, sign, scale)


def _currency(mark: str) -> str:
    return _DOLLARS.get(mark) or _CODE_SIGNS.get(mark) or _NAMED.get(mark) or mark


def _with_rate(match: re.Match[str], value: v.Value, first: int) -> Found | v.Value:
    """A sum with the `/hr.` behind it, whose groups begin at `first`."""
    period, dot, metre, word = (match[first + number] for number in range(4))
    stop: Stop = "none"
    if dot:
        stop = stop_after(match.string, match.end())
    if period:
        return Found(v.Rate(value, PERIODS[period]), stop=stop)
    if metre:
        return v.Rate(value, "m", 2)
    return v.Rate(value, word) if word else value


@recognizer(
    "money",
    rf"(?<![\w.])([{MINUS}+~] ?)?({_MARK}) ?([-−])?({_SUM}){_SCALE}?(\.(?= [a-z]))?{_PER}(?!\d)",
    needs=SIGNS,
    weight=1.6,
)
def _signed(match: re.Match[str]) -> Found | v.Value:
    sign, mark, inner, low, word, letter, dot = match.groups()[:7]
    amount = _sum(low, sign or inner, _scale(word, letter))
    if dot and not letter:
        return Found(v.Money(amount, _currency(mark)), end=match.start(7))
    return _with_rate(match, v.Money(amount, _currency(mark), is_attributive(match)), 8)


@recognizer(
    "money",
    rf"(?<![\w.])([{MINUS}+~] ?)?({_MARK}) ?({_SUM}){_SCALE}?( ?[-–—] ?| ?to ?| and | or "
    rf")(\2)? ?({_SUM})"
    rf"{_SCALE}?(?![\w:/]|,\d){_PER}",
    needs=SIGNS,
    weight=1.6,
)
def _span(match: re.Match[str]) -> Found | v.Value | None:
    sign, mark, low, word, letter, link, again, high, word2, letter2 = match.groups()[:10]
    link = link.strip()
    if link.isalpha() and not again:
        return None  # $5 and 10 men
    currency = _currency(mark)
    last = v.Money(
        _sum(high, None, _scale(word2, letter2)),
        currency,
        not link.isalpha() and is_attributive(match),
    )
    first = v.Money(_sum(low, sign, _scale(word, letter)), currency)
    return _with_rate(match, v.Range(first, last, link if link.isalpha() else ""), 11)


@recognizer(
    "money",
    rf"(?<![\w.])([-−] ?)?\$ ?({NUMBER}){_SCALE}? (USD|CAD|AUD|NZD|SGD|HKD)\b",
    needs="$",
    weight=1.7,
)
def _named(match: re.Match[str]) -> v.Value:
    sign, low, word, letter, code = match.groups()
    return v.Money(_sum(low, sign, _scale(word, letter)), code)


@recognizer(
    "money",
    rf"(?<![\w.])([-−] ?)?({_SUM}){_SCALE}? ?(US\$|[{re.escape(SIGNS)}])(?![\d\w]){_PER}",
    needs=SIGNS,
    weight=1.5,
)
def _after(match: re.Match[str]) -> Found | v.Value:
    sign, low, word, letter, mark = match.groups()[:5]
    return _with_rate(match, v.Money(_sum(low, sign, _scale(word, letter)), _currency(mark)), 6)


@recognizer(
    "money",
    rf"\b({_CODE}|Rs\.?|kr\.?) ?({_SUM}){_SCALE}?(?!\w)|(?<![\w.])({_SUM}){_SCALE}? "
    rf"?({_CODE}|kr|zł)\b{_PER}",
    weight=1.5,
    needs=(*_CODES, "Rs", "kr", "zł"),
)
def _coded(match: re.Match[str]) -> Found | v.Value:
    currency = _currency(match[1] or match[8])
    scale = _scale(match[3] or match[6], match[4] or match[7])
    value = v.Money(_sum(match[2] or match[5], None, scale), currency)
    return _with_rate(match, value, 9) if match[8] else value


@recognizer("money", rf"(?<![\w.])({NUMBER}) ?(¢|p\b(?!\.\w|/))", needs="¢p", weight=1)
def _pence(match: re.Match[str]) -> v.Value | None:
    low, mark = match[1], match[2]
    if mark == "p" and (
        match[0][-2] == " " or low in ("240", "360", "480", "720", "1080", "1440", "2160")
    ):
        return None
    return v.Money(parse_number(low), mark)


@recognizer("money", r"(?<![\w.])(\d{1,2})s\. ?(\d{1,2})d\.?(?!\w)", needs=("d",), weight=1.3)
def _shillings(match: re.Match[str]) -> v.Value:
    shillings = f"shilling{'' if match[1] == '1' else 's'} and"
    return v.Phrase((v.Number(match[1]), shillings, v.Number(match[2]), "pence"))


# Spanish and French


_LEADING_SIGNS = {
    language: [sign for sign in table.SIGNS if not (sign.isalpha() and sign.islower()) and
               sign not in ("F", "FF", "¢", "$CA", "$ CA", "₿")]
    for language, table in ROMANCE.items()
}  # fmt: skip
_ROMANCE_PER = {
    language: rf"(?: ?/ ?({symbol}){ROMANCE_POWER}(?!\w))?" for language, symbol in SYMBOL.items()
}
# Behind a number with a sign in front, these say which dollars or pesos they are.
_ROMANCE_CODES = "USD|MXN|ARS|COP|CLP|UYU|CAD|AUD|pesos"


def _scaled(language: str, number: str, scale: str | None) -> v.Number:
    return parse_comma_number(number, TABLES[language].SCALES[scale] if scale else 0)


def _money(
    language: str, amount: v.Number | v.Range, sign: str, per: str | None, power: str | None
) -> v.Value:
    sum_ = v.Money(amount, TABLES[language].SIGNS[sign])
    return v.Rate(sum_, find_unit(language, per), parse_power(power)) if per else sum_


@per_language(
    "money",
    lambda language: (
        rf"{NUMBER_START}({SIGNED})(?:{LINKS[language]}({COMMA_NUMBER}))? ?"
        rf"(?:({one_of(TABLES[language].SCALES)}) ?(?:(?<=\w )de |(?<=\w )d')?)?"
        rf"({one_of(TABLES[language].SIGNS)})(?![\w€$]){_ROMANCE_PER[language]}"
    ),
    weight=1.4,
    needs=lambda language: TABLES[language].SIGNS,
)
def _money_after(language: str, match: re.Match[str]) -> v.Value | Found | None:
    number, until, scale, sign, per, power = match.groups()
    if before(match, 1) in ("$", "€", "£"):
        return None
    if sign in ("F", "Bs") and not re.search(r"\d ", match[0]):
        return None
    amount: v.Number | v.Range = _scaled(language, number, scale)
    if until:
        amount = v.Range(amount, _scaled(language, until, scale), link_range(language, match))
    value = _money(language, amount, sign, per, power)
    return close(value, match, language) if sign.endswith(".") and not per else value


@per_language(
    "money",
    lambda language: (
        rf"(?<![\w$])([-\u2212]?)({one_of(_LEADING_SIGNS[language])}) ?({COMMA_NUMBER})"
        rf"(?: ?({one_of(TABLES[language].SCALES)})(?!\w))?(?: (?:de )?({_ROMANCE_CODES})(?!\w))?"
        rf"{_ROMANCE_PER[language]}(?:\.[-\u2013\u2014])?(?!\w|[.,]\d)"
    ),
    weight=1.4,
    needs=lambda language: TABLES[language].SIGNS,
)
def _money_before(language: str, match: re.Match[str]) -> v.Value:
    minus, sign, number, scale, code, per, power = match.groups()
    amount = _scaled(language, minus + number, scale)
    return _money(language, amount, code if code in TABLES[language].SIGNS else sign, per, power)


@per_language(
    "money",
    rf"{NUMBER_START}(\d+)(?: ?([€$£]) ?(\d\d)(?!\d| ?[\w%€])|'(\d\d) ?([€$£]))",
    needs="€$£",
    weight=1.5,
)
def _money_inside(language: str, match: re.Match[str]) -> v.Value:
    """As price tags have it: 3€50, 3'50 €."""
    cents, sign = match[3] or match[4], match[2] or match[5]
    return v.Money(v.Number(match[1], cents), TABLES[language].SIGNS[sign])


@per_language(
    "rate",
    lambda language: rf"(?<=[\w€$£.²]) ?/ ?({one_of(TABLES[language].PER_WORDS)})(?!\w)",
    needs="/", weight=1.5,
)  # fmt: skip
def _each(language: str, match: re.Match[str]) -> v.Value:
    """Behind anything counted: 8 horas/día."""
    return v.Abbreviation(f" {TABLES[language].PER_WORDS[match[1]]}")
