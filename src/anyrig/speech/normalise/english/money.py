"""Sums of money: signs, codes, cents, thousands and millions, prices per something."""

from __future__ import annotations

import re
from typing import NamedTuple

from anyrig.speech.normalise.english.words import (
    DIGITS,
    NOT_NOUNS,
    NUMBER,
    cardinal,
    is_one,
    number,
)
from anyrig.speech.normalise.rules import Rule, rule


class _Coin(NamedTuple):
    one: str
    many: str
    part: str = ""
    parts: str = ""


_CENT = ("cent", "cents")
_PENCE = ("penny", "pence")
_SIGNS = {
    "$": _Coin("dollar", "dollars", *_CENT),
    "US$": _Coin("U S dollar", "U S dollars", *_CENT),
    "A$": _Coin("Australian dollar", "Australian dollars", *_CENT),
    "AU$": _Coin("Australian dollar", "Australian dollars", *_CENT),
    "C$": _Coin("Canadian dollar", "Canadian dollars", *_CENT),
    "CA$": _Coin("Canadian dollar", "Canadian dollars", *_CENT),
    "HK$": _Coin("Hong Kong dollar", "Hong Kong dollars", *_CENT),
    "NZ$": _Coin("New Zealand dollar", "New Zealand dollars", *_CENT),
    "S$": _Coin("Singapore dollar", "Singapore dollars", *_CENT),
    "R$": _Coin("Brazilian real", "Brazilian reais", "centavo", "centavos"),
    "£": _Coin("pound", "pounds", *_PENCE),
    "€": _Coin("euro", "euros", *_CENT),
    "¥": _Coin("yen", "yen"),
    "₹": _Coin("rupee", "rupees", "paisa", "paise"),
    "₽": _Coin("ruble", "rubles", "kopek", "kopeks"),
    "₩": _Coin("won", "won"),
    "₺": _Coin("lira", "lira"),
    "₪": _Coin("shekel", "shekels"),
    "₫": _Coin("dong", "dong"),
    "₴": _Coin("hryvnia", "hryvnias"),
    "₦": _Coin("naira", "naira"),
    "₱": _Coin("peso", "pesos", "centavo", "centavos"),
    "฿": _Coin("baht", "baht"),
    "₿": _Coin("bitcoin", "bitcoins"),
}
_CODES = {
    "USD": _SIGNS["US$"], "EUR": _SIGNS["€"],
    "GBP": _Coin("British pound", "British pounds", *_PENCE),
    "JPY": _Coin("Japanese yen", "Japanese yen"), "AUD": _SIGNS["A$"], "CAD": _SIGNS["C$"],
    "CHF": _Coin("Swiss franc", "Swiss francs", "centime", "centimes"),
    "CNY": _Coin("Chinese yuan", "Chinese yuan"), "RMB": _Coin("yuan", "yuan"),
    "INR": _Coin("Indian rupee", "Indian rupees", "paisa", "paise"),
    "MXN": _Coin("Mexican peso", "Mexican pesos", "centavo", "centavos"),
    "SEK": _Coin("Swedish krona", "Swedish kronor"), "NZD": _SIGNS["NZ$"], "HKD": _SIGNS["HK$"],
    "NOK": _Coin("Norwegian krone", "Norwegian kroner"),
    "DKK": _Coin("Danish krone", "Danish kroner"), "SGD": _SIGNS["S$"],
    "BTC": _Coin("bitcoin", "bitcoins"), "KRW": _Coin("Korean won", "Korean won"),
}  # fmt: skip
_SCALES = {
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million",
    "mm": "million", "MM": "million", "mil": "million", "b": "billion", "B": "billion",
    "bn": "billion", "Bn": "billion", "t": "trillion", "T": "trillion", "tn": "trillion",
    "trn": "trillion",
}  # fmt: skip
_SCALE = (
    r"(?: ?(hundred|thousand|million|billion|trillion)s?\b|[ -]?(mn|mil|mm|MM|bn|Bn|tn|"
    r"trn|[kKmMbBtT])(?![\w'’]))"
)
_SIGN = "|".join(re.escape(sign) for sign in sorted(_SIGNS, key=len, reverse=True))
_CODE = "|".join(_CODES)
_PERIODS = {
    "mo": "month", "yr": "year", "hr": "hour", "h": "hour", "wk": "week", "lb": "pound",
    "kg": "kilogram", "oz": "ounce", "gal": "gallon", "sq ft": "square foot",
    "sqft": "square foot", "mi": "mile", "km": "kilometer", "kWh": "kilowatt hour",
    "GB": "gigabyte", "min": "minute", "m²": "square meter", "L": "liter", "l": "liter",
    "bbl": "barrel", "ea": "each",
}  # fmt: skip
_PER = rf"(?: ?/ ?({'|'.join(_PERIODS)}|[a-z]{{3,12}})\b(?!/))?"


_OWNER = re.compile(
    r"\b([Aa]n?|[Tt]he|this|that|his|her|their|its|our|my|your|another|each|every) (?:[a-z]+ )?$"
)


def amount(digits: str, scale: str | None, coin: _Coin, *, single: bool = False) -> str:
    """A sum in words; `single` for one that stands before a noun: a five dollar note."""
    whole, _, part = digits.replace(",", "").partition(".")
    if scale:
        return f"{number(digits)} {scale} {coin.one if single else coin.many}"
    if len(part) == 2 and coin.part:
        return _with_cents(int(whole[:30] or "0"), int(part), coin, single)
    name = coin.one if single or is_one(digits) else coin.many
    return f"{number(digits.removesuffix('.00'))} {name}"


def _with_cents(whole: int, part: int, coin: _Coin, single: bool) -> str:
    parts = f"{cardinal(part)} {coin.part if part == 1 or single else coin.parts}"
    if not whole and part:
        return parts
    said = f"{cardinal(whole)} {coin.one if whole == 1 or single else coin.many}"
    return f"{said} and {parts}" if part else said


def _scale(word: str | None, letter: str | None) -> str | None:
    return word or (_SCALES[letter] if letter else None)


def _before_noun(match: re.Match[str]) -> bool:
    """Whether a sum tells what kind of thing follows: a $20 bill, the $5-billion deal."""
    before = _OWNER.search(match.string[max(0, match.start() - 24) : match.start()])
    after = re.match(r"[ -]([a-z]+)\b", match.string[match.end() : match.end() + 24])
    if match.string.startswith("-a-", match.end()):
        return True
    if not after or after[1] in NOT_NOUNS:
        return False
    if match.string[match.end()] == "-":
        return True
    return bool(before and not (before[1] in ("The", "the") and after[1].endswith("ed")))


def _per(word: str | None) -> str:
    if not word:
        return ""
    full = _PERIODS.get(word, word)
    return f" {full}" if full == "each" else f" per {full}"


@rule("money", rf"(?<![\w.])([-−–+] ?)?({_SIGN}) ?([-−])?({NUMBER}){_SCALE}?"
      rf"(?: ?([-–—]|to|and) ?(?:\2 ?)?({NUMBER}){_SCALE}?(?![\w:/]))?{_PER}(?!\d)",
      needs="$£€¥₹₽₩₺₪₫₴₦₱฿₿")  # fmt: skip
def _signed(match: re.Match[str]) -> str | None:
    sign, mark, inner, low, word, letter, link, high, word2, letter2, per = match.groups()
    coin = _SIGNS[mark]
    if high and not _spanned(match, link):
        return None
    lead = {"+": "plus "}.get((sign or "").strip(), "minus ") if sign or inner else ""
    first, second = _scale(word, letter), _scale(word2, letter2)
    if not high:
        return lead + amount(low, first, coin, single=_before_noun(match)) + _per(per)
    cents = re.search(r"\.\d\d$", low) and not second
    begin = amount(low, first, coin) if cents else number(low)
    begin += f" {first}" if first and first != second and not cents else ""
    if link in ("and", "to"):
        return f"{lead}{amount(low, first, coin)} {link} {amount(high, second, coin)}{_per(per)}"
    return f"{lead}{begin} to {amount(high, second, coin, single=_before_noun(match))}{_per(per)}"


def _spanned(match: re.Match[str], link: str) -> bool:
    """Whether two sums are one span; `$5 and 10 men` is none."""
    if link in ("and", "to"):
        return match[2] in match[0][match[0].index(link) :]
    return True


@rule(
    "money", rf"(?<![\w.])([-−] ?)?\$ ?({NUMBER}){_SCALE}? (USD|CAD|AUD|NZD|SGD|HKD)\b", needs="$"
)
def _named(match: re.Match[str]) -> str:
    sign, low, word, letter, code = match.groups()
    return ("minus " if sign else "") + amount(low, _scale(word, letter), _CODES[code])


@rule(
    "money",
    rf"(?<![\w.])([-−–+] ?)?({_SIGN}) ?([-−])?({NUMBER}){_SCALE}?{_PER}",
    needs="$£€¥₹₽₩₺₪₫₴₦₱฿₿",
)
def _single(match: re.Match[str]) -> str:
    sign, mark, inner, low, word, letter, per = match.groups()
    lead = {"+": "plus "}.get((sign or "").strip(), "minus ") if sign or inner else ""
    scale = _scale(word, letter)
    return lead + amount(low, scale, _SIGNS[mark], single=_before_noun(match)) + _per(per)


@rule("money", rf"(?<![\w.])([-−] ?)?({NUMBER})(?:{_SCALE})? ?(US\$|[$£€¥₹₽₩₺₿])(?![\d\w]){_PER}",
      needs="$£€¥₹₽₩₺₿")  # fmt: skip
def _after(match: re.Match[str]) -> str:
    sign, low, word, letter, mark, per = match.groups()
    said = amount(low, _scale(word, letter), _SIGNS[mark])
    return ("minus " if sign else "") + said + _per(per)


@rule(
    "money",
    rf"\b({_CODE}) ?({NUMBER}){_SCALE}?(?!\w)|(?<![\w.])({NUMBER}){_SCALE}? ?({_CODE})"
    rf"\b{_PER}",
    needs=DIGITS,
)
def _coded(match: re.Match[str]) -> str:
    coin = _CODES[match[1] or match[8]]
    low = match[2] or match[5]
    scale = _scale(match[3] or match[6], match[4] or match[7])
    return amount(low, scale, coin) + _per(match[9])


@rule("money", rf"(?<![\w.])({NUMBER}) ?(¢|p\b(?!\.|/))", needs="¢p")
def _pence(match: re.Match[str]) -> str | None:
    low, mark = match[1], match[2]
    if mark == "p" and (match[0][-2] == " " or low in ("480", "720", "1080", "1440", "2160")):
        return None
    coin = _SIGNS["$" if mark == "¢" else "£"]
    return f"{number(low)} {coin.part if is_one(low) else coin.parts}"


@rule("money", r"(?<![\w.])(\d{1,2})s\. ?(\d{1,2})d\.?(?!\w)", needs="d")
def _old(match: re.Match[str]) -> str:
    shillings = f"{cardinal(match[1])} shilling{'' if match[1] == '1' else 's'}"
    return f"{shillings} and {cardinal(match[2])} pence"


RULES: tuple[Rule, ...] = (_named, _signed, _single, _after, _coded, _old, _pence)
