"""Sums of money: signs, codes, cents, thousands and millions, prices per something.

A sign or a code stands before the number (`$5`, `EUR 5`) or behind it (`5 €`, `5 USD`), in all
languages; they differ in their signs, their scales (`5 mn`) and how they write a number.
"""

from __future__ import annotations

import re
from dataclasses import replace

from anyrig.text import values as v
from anyrig.text.recognizers import (
    RECOGNIZED_LANGUAGES,
    LazyPattern,
    Proposal,
    per_language,
    recognizer,
)
from anyrig.text.recognizers.common import (
    COMMA_NUMBER,
    DASH,
    MINUS,
    NUMBER,
    NUMBER_START,
    OPTIONAL_MINUS,
    before,
    close,
    is_attributive,
    one_of,
    parse_amount,
    parse_comma_number,
    parse_number,
    parse_sign,
)
from anyrig.text.recognizers.languages import TABLES, english
from anyrig.text.recognizers.measures import LINKS, POWER, UNIT, find_unit, link_range, parse_power

# In English a comma before two digits is a decimal one in prices from other places: €4,50.
_SUM = {
    "en": rf"(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d{{1,3}}(?:\.\d{{3}})+,\d\d|\d+,\d\d(?![\d,])|"
    rf"{NUMBER})",
    "es": COMMA_NUMBER,
    "fr": COMMA_NUMBER,
}
_SCALE = {
    "en": r"[ -]?(?P<scale>(?:hundred|thousand|lakh|crore|million|billion|trillion)(?=s?\b)|"
    r"(?:mn|mil|mm|MM|bn|Bn|tn|trn|[kKmMbBtT])(?![\w'’]))"
    r"(?:(?<=[dn])s\b|(?<![a-z]{4})\.(?= [a-z]))?",
    **{language: rf" ?(?P<scale>{one_of(TABLES[language].SCALES)})" for language in ("es", "fr")},
}
_LINK_WORDS = {"en": "to|and|or", "es": "a|y|o", "fr": "à|et|ou"}
_PER = {
    # Whatever word: $5/person.
    "en": rf"(?P<per>{one_of(english.PERIODS)})(?P<power>{POWER})?(?!\w)|"
    r"(?P<word>[a-z]{3,12})\b",
    **{
        language: rf"(?P<per>{UNIT[language]})(?P<power>{POWER})?(?!\w)"
        for language in ("es", "fr")
    },
}
_ONLY_BEHIND = frozenset(("F", "FF", "fr.", "frs", "rs.", "rs", "¢", "$CA", "$ CA", "zł"))
# Behind a number with a sign in front, these say which dollars or pesos they are.
_CODES = "USD|CAD|AUD|NZD|SGD|HKD|MXN|ARS|COP|CLP|UYU|pesos"


def _leads(sign: str) -> bool:
    return sign not in _ONLY_BEHIND and (sign == "kr" or not (sign.isalpha() and sign.islower()))


def _rate_pattern(language: str) -> str:
    return rf"(?: ?/ ?(?:{_PER[language]})(?!/\d)(?:\.(?![.\w]))?)?"


def _before_pattern(language: str) -> str:
    number, scale = _SUM[language], _SCALE[language]
    signs = one_of(filter(_leads, TABLES[language].SIGNS))
    link = rf"(?:{DASH}(?:(?P=mark) ?)?| (?P<link>{_LINK_WORDS[language]}) (?P=mark) ?)"
    last = scale.replace("<scale>", "<last_scale>")
    end = r"(?!\d)" if language == "en" else r"(?!\w|[.,]\d|(?<=[MK])\.[A-Z])"
    return (
        rf"(?<![\w.$])(?P<sign>[{MINUS}+~] ?)?(?P<mark>{signs}) ?(?P<minus>[-−])?"
        rf"(?P<low>{number})(?:{scale}(?!\w))?"
        rf"(?:{link}(?P<high>{number})(?:{last}(?!\w))?(?![\w:]|[.,]\d|/\d))?"
        rf"(?: (?:de )?(?P<code>{_CODES})(?!\w))?{_rate_pattern(language)}(?:\.[-–—])?{end}"
    )


@per_language(
    "money",
    _before_pattern,
    languages=RECOGNIZED_LANGUAGES,
    needs=lambda language: TABLES[language].SIGNS,
    at="any",
    weight=1.5,
)
def propose_before_number(language: str, match: re.Match[str]) -> v.Value | Proposal:
    code = match["code"]
    currency = TABLES[language].SIGNS[code if code in TABLES[language].SIGNS else match["mark"]]
    first = _parse(language, match["low"], match["sign"] or match["minus"], match["scale"])
    attributive = language == "en" and not match["link"] and is_attributive(match)
    if not match["high"]:
        return _with_rate(language, match, v.Money(first, currency, attributive))
    last = _parse(language, match["high"], None, match["last_scale"])
    if language != "en" and not match["link"]:
        return _with_rate(language, match, v.Money(v.Range(first, last), currency))
    begin, end = v.Money(first, currency), v.Money(last, currency, attributive)
    return _with_rate(language, match, v.Range(begin, end, match["link"] or ""))


def _parse(language: str, written: str, sign: str | None, scale: str | None) -> v.Number:
    power = TABLES[language].SCALES[scale] if scale else 0
    if language != "en":
        number = parse_comma_number(written, power)
        return replace(number, sign=parse_sign(sign)) if sign else number
    if written[0] in MINUS:
        written, sign = written[1:], written[0]
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d\d|\d+,\d\d", written):
        written = written.replace(".", "").replace(",", ".")
    return parse_number(written, sign, power)


def _with_rate(language: str, match: re.Match[str], value: v.Value) -> v.Value | Proposal:
    """A sum with the `/hr.` behind it."""
    if per := match["per"]:
        unit = english.PERIODS[per] if language == "en" else find_unit(language, per)
        value = v.Rate(value, unit, parse_power(match["power"]))
    elif word := match.groupdict().get("word"):
        value = v.Rate(value, word)
    else:
        return value
    return close(value, match, language, digits_follow=False)


@per_language(
    "money",
    lambda language: (
        rf"{NUMBER_START}(?<![$€£])(?P<low>{OPTIONAL_MINUS}{_SUM[language]})"
        rf"(?:(?P<link>{LINKS[language]})(?P<high>{_SUM[language]}))?"
        rf"(?:{_SCALE[language]} ?(?:(?<=[\w.] )de |(?<=[\w.] )d')?| ?)"
        rf"(?P<mark>{one_of(TABLES[language].SIGNS)})(?![\w€$]){_rate_pattern(language)}"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs=lambda language: TABLES[language].SIGNS,
    weight=1.5,
)
def propose_behind_number(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    mark = match["mark"]
    if mark in ("F", "Bs") and not re.search(r"\d ", match[0]):
        return None
    amount: v.Number | v.Range = _parse(language, match["low"], None, match["scale"])
    if match["high"]:
        last = _parse(language, match["high"], None, match["scale"])
        amount = v.Range(amount, last, link_range(language, match))
    if match["link"] and _SIGN_BEFORE.search(before(match, 5)):
        return None  # kr 99 and 20 zł
    attributive = language == "en" and not match["high"] and is_attributive(match)
    value = v.Money(amount, TABLES[language].SIGNS[mark], attributive)
    if mark.endswith(".") and not match["per"]:
        return close(value, match, language)
    return _with_rate(language, match, value)


_SIGN_BEFORE = LazyPattern(r"(?:[$£€¥₹]|\b(?:kr|Kr|Rs|CHF|USD|EUR|GBP))\.? ?$")


@recognizer("money", r"(?<![\w.¢])¢ ?(\d{1,2})(?![\w.,]\d|\w)", needs="¢", weight=1.5, at="any")
def propose_cents(match: re.Match[str]) -> v.Value:
    return v.Money(v.Number(match[1]), "¢")


@recognizer(
    "money",
    rf"(?<![\w.])({NUMBER}) ?(¢|p\b(?!\.\w))(?: ?/ ?({one_of(english.PERIODS)})(?!\w))?",
    needs="¢p",
    weight=1.1,
)
def propose_pence(match: re.Match[str]) -> v.Value | None:
    low, mark = match[1], match[2]
    if match[3]:
        return v.Rate(v.Money(parse_number(low), mark), english.PERIODS[match[3]])
    if mark == "p" and (
        match[0][-2] == " " or low in ("240", "360", "480", "720", "1080", "1440", "2160")
    ):
        return None
    return v.Money(parse_number(low), mark, is_attributive(match))


@recognizer("money", r"(?<![\w.])([$£€])([1-9]0{1,3}|[15])s(?!\w)", needs="$£€", weight=2, at="any")
def propose_notes(match: re.Match[str]) -> v.Value:
    """Of banks: `$20s`, `£5s`."""
    return v.Label(match[2], "s")


_OLD_MONEY = r"(?:(\d{1,2})s\.?)?(?: ?(\d{1,2}½?)d\b\.?)?(?!\w)"


@recognizer("money", rf"(?<![\w.])£(\d[\d,]*),? {_OLD_MONEY}", needs="£", weight=1.6, at="any")
@recognizer("money", rf"(?<![\w.])()?(?=\d{{1,2}}½?[sd]\b){_OLD_MONEY}", needs="sd", weight=1.6)
def propose_shillings(match: re.Match[str]) -> v.Value | Proposal | None:
    """Old English money: `£3 10s.`, `4s. 6d.`; shillings alone are seconds to most."""
    pounds, shillings, pence = match.groups()
    if not (pounds and (shillings or pence)) and not (pence and (shillings or _is_price(match))):
        return None
    parts: list[v.Value | str] = []
    if pounds:
        parts.append(v.Money(parse_number(pounds), "£"))
    if shillings:
        parts += [v.Number(shillings), f"shilling{'' if shillings == '1' else 's'}"]
    if pence:
        amount = parse_amount(pence)
        penny = isinstance(amount, v.Number) and amount.is_one
        parts += ["and"] if parts else []
        parts += [amount, "penny" if penny else "pence"]
    return close(v.Phrase(tuple(parts)), match)


def _is_price(match: re.Match[str]) -> bool:
    """Whether pence alone are a price: cost 10d."""
    return bool(
        re.search(
            r"\b(?:costs?|paid|pays?|for|worth|at|price|price of|sold for) $", before(match, 12)
        )
    )


@per_language(
    "money",
    rf"{NUMBER_START}(\d+)(?: ?([€$£]|F\b|frs?\.?(?= )) ?(\d\d)(?!\d| ?[\w%€])|'(\d\d) ?([€$£]))",
    needs=["€", "$", "£", "F", "fr", "frs"],
    weight=1.7,
)
def propose_money_inside(language: str, match: re.Match[str]) -> v.Value | None:
    """As price tags have it: 3€50, 3'50 €."""
    cents, sign = match[3] or match[4], match[2] or match[5]
    if sign not in TABLES[language].SIGNS:
        return None
    return v.Money(v.Number(match[1], cents), TABLES[language].SIGNS[sign])


@per_language("money", rf"{NUMBER_START}(\d{{1,3}})/(\d{{1,3}}) ?€(?!\w)", needs="€", weight=1.8)
def propose_two_prices(language: str, match: re.Match[str]) -> v.Value:
    """Of a ticket: 12/15 €."""
    link = "o" if language == "es" else "ou"
    return v.Money(v.Range(v.Number(match[1]), v.Number(match[2]), link), "EUR")


@per_language(
    "rate",
    lambda language: rf"(?<=[\w€$£.²]) ?/ ?({one_of(TABLES[language].PER_WORDS)})(?!\w)",
    needs="/", weight=1.5,
)  # fmt: skip
def propose_each(language: str, match: re.Match[str]) -> Proposal:
    """Behind anything counted: 8 horas/día."""
    words = TABLES[language].PER_WORDS[match[1]]
    return close(v.Abbreviation(f" {words}"), match, language, digits_follow=False)
