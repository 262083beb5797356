"""Which money is meant: signs, codes and words, in plain letters without accents."""

from __future__ import annotations

import re
from functools import lru_cache

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
HUNDREDTHS = re.compile(r"¢|pence|cents?|centimes?|centimos?|centavos?", re.IGNORECASE)


@lru_cache(maxsize=1)
def signs() -> str:
    """A pattern of signs, the longest first; their case counts."""
    return "|".join(re.escape(sign) for sign in sorted(_SIGNS, key=len, reverse=True))


@lru_cache(maxsize=1)
def codes() -> str:
    """A pattern of ISO codes; capitals only."""
    return "|".join(_CODES)


@lru_cache(maxsize=1)
def words() -> str:
    """A pattern of currency words; their case does not count."""
    return "|".join(_WORDS)


@lru_cache(maxsize=1)
def anchor() -> re.Pattern[str]:
    """Where money may be meant: the first letters of each word, sign or code, in small letters."""
    stems = (
        "euro dollar dolar pound livre libra pence yen yuan renminbi rupee roupie rupia "
        "rouble ruble "
        "rublo franc peso peseta bolivar sol real reai won zlot kron couronne corona dirham dinar "
        "cent bitcoin fr"
    ).split()
    marks = {sign[-1].lower() for sign in _SIGNS} | {"zł"}
    names = sorted({*stems, *(name.lower() for name in _CODES)}, key=len, reverse=True)
    return re.compile(
        rf"[{''.join(re.escape(m) for m in marks if len(m) == 1)}]|zł|\b(?:{'|'.join(names)})"
    )


def code(mark: str, language: str) -> str:
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
    return next((found for word, found in _WORDS.items() if re.fullmatch(word, plain)), "")
