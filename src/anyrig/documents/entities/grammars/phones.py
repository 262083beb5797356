"""Telephone numbers: international ones, and national forms of France, Spain, the UK and the US.

Digits alone are not enough. A number needs a + and a calling code that exists, a form that a
country writes its numbers in, or a word such as `Tel.` before it. The form of E.164 is given where
the country is certain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars.phone_plans import PLANS, code_of, fits
from anyrig.documents.entities.reading import Reading, Span, label

_INTERNATIONAL = re.compile(
    r"(?<![\w+.,/-])(?:\(?\+ ?|(?<!0)00[ .-]?(?=[1-9]))\(?"
    r"(?P<rest>[1-9](?:[ .()/\u2013-]{0,3}[0-9]){5,18})"
    r"(?![0-9]|[.,-][0-9])"
)
_WORDS = (
    r"t(?:el|elf|lf|fno)|telephone|telefono|phone|fax|mobile|mob|cell(?:ular)?|movil|portable|gsm"
    r"|whatsapp|ph|call(?: us)?(?: on| at)?|ring(?: us)?(?: on)?|text|dial|hotline|helpline"
    r"|(?:llame|llamar|llamenos|llama)(?: al)?"
    r"|(?:appelez|appeler|joindre)(?:[ -]\w{1,5})?(?: au| le)?"
    r"|contact(?:o)?|standard|centralita|joignable au|reached (?:on|at)"
)
_LABEL = label(_WORDS)
_LABELLED = re.compile(
    rf"(?<![A-Za-z])(?:{_WORDS})(?![A-Za-z])[.:#\s)-]{{0,4}}"
    r"(?:(?:no|number|numero|n|is|est|es|al|au|on|at)\b[.:°º\s]{0,3}){0,2}"
    r"(?P<rest>\(?[0-9](?:[ .()/\u2013-]{0,2}[0-9]){5,14})(?![0-9A-Za-z%€$£]|[.,/:-][0-9])",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"(?:ref|reference|order|invoice|facture|factura|pedido|commande|expediente|dossier|case|ticket"
    r"|isbn|issn|part|serial|sku|account|compte|cuenta|version|model|article|id|code|policy|poliza"
    r"|contrat|contrato|contract|tracking|colis|nif|dni|siren|siret|iban)"
    r"[\W_]{0,3}(?:(?:no|number|numero|num|nr|n)[\W_]{0,4})?$|(?:#|n[°º])\W{0,2}$",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r" (?!(?:or|and|ou|et|o|y|from|for|de|to|a|between|entre|pour|para|during)\b)[a-z]"
)
_NOT_BEFORE = r"(?<![0-9A-Za-z+$€£_])(?<![0-9][.,/:-])(?<![0-9] )(?<![/-])"
_NOT_AFTER = r"(?![0-9A-Za-z%€$£_]|[.,/:-][0-9]| [0-9])"


# Six digits with no more than marks between them; a long run of digits is something else.
_SEVERAL = re.compile(r"(?:[0-9][ .()/\u2013-]{0,3}){6}")


class _Form(NamedTuple):
    """How a country writes its numbers."""

    code: str
    languages: tuple[str, ...]
    """In which texts the form is this country's for sure."""
    pattern: re.Pattern[str]
    national: Callable[[str], str]
    """From the digits to those behind the calling code; empty when they cannot be such a number."""
    alone: bool = True
    """Whether the form is enough without a label."""


def _trunk(digits: str) -> str:
    return digits[1:] if digits.startswith("0") else ""


def _american(digits: str) -> str:
    return digits[1:] if len(digits) == 11 and digits[0] == "1" else digits


def _pattern(body: str) -> re.Pattern[str]:
    return re.compile(f"{_NOT_BEFORE}(?:{body}){_NOT_AFTER}")


_FR = r"\(?0[1-9]\)?(?P<s>[ .-]?)[0-9]{2}(?:(?P=s)[0-9]{2}){3}"
_FR_FREE = r"0[ .]?8[0-9]{2}(?P<s>[ .])[0-9]{3}(?P=s)[0-9]{3}"
_ES_PAIRS = r"\(?[6-9][0-9]{2}\)?(?P<s>[ .-])[0-9]{2}(?P=s)[0-9]{2}(?P=s)[0-9]{2}"
_ES_CITY = r"\(?[89][0-9]\)?(?P<s>[ .-])[0-9]{3}(?P=s)[0-9]{2}(?P=s)[0-9]{2}"
_ES_THREES = r"[679][0-9]{2}(?P<s>[ -])[0-9]{3}(?P=s)[0-9]{3}|[89][0-9] [0-9]{3} [0-9]{4}"
_ES_BARE = r"[679][0-9]{8}|[679][0-9]{2}\.[0-9]{3}\.[0-9]{3}"
_GB = (
    r"\(?0(?:2[0-9]\)?[ -][0-9]{4}[ -]?[0-9]{4}|[1389][0-9]{2}\)?[ -][0-9]{3}[ -]?[0-9]{3,4}"
    r"|[17][0-9]{3}\)?[ -](?:[0-9]{6}|[0-9]{3}[ -][0-9]{3}|[0-9]{5}))"
)
_US = re.compile(
    r"(?<![0-9A-Za-z+$€£_])(?<![0-9][.,/:-])(?<![/-])(?:1[ .-])?"
    r"(?:\([2-9][0-9]{2}\)[ .-]?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4}" + _NOT_AFTER
)
_FORMS = (
    _Form("33", ("fr",), _pattern(_FR), _trunk),
    _Form("33", ("fr",), _pattern(_FR_FREE), _trunk),
    _Form("34", ("es",), _pattern(_ES_PAIRS), str),
    _Form("34", ("es",), _pattern(_ES_CITY), str),
    _Form("34", ("es",), _pattern(_ES_THREES), str),
    _Form("34", ("es",), _pattern(_ES_BARE), str, alone=False),
    _Form("1", ("en",), _US, _american),
    _Form("44", ("en",), _pattern(_GB), _trunk),
)


def find(reading: Reading) -> Iterator[Entity]:
    """Every telephone number; what overlaps is settled by whoever merges."""
    regions = list(reading.around(_SEVERAL, 40, 40))
    yield from _international(reading, regions)
    for form in _FORMS:
        for found in reading.matches(form.pattern, regions):
            if entity := _national(reading, form, found.span()):
                yield entity
    for found in reading.matches(_LABELLED, regions):
        digits = re.sub(r"[^0-9]", "", found["rest"])
        if not digits.startswith("00"):
            value = _by_language(digits, reading.language(found.start()))
            yield _entity(reading, _opened(reading, found.span("rest")), value, 0.9)


def _international(reading: Reading, regions: Sequence[Span]) -> Iterator[Entity]:
    for found in reading.matches(_INTERNATIONAL, regions):
        rest = found["rest"]
        trimmed = _cut(re.sub(r"\(0\)", lambda one: " " * len(one[0]), rest))
        if trimmed is None:
            continue
        size, number = trimmed
        start, end = found.start(), found.start("rest") + size
        if reading.plain[start] == "(" and ")" not in reading.plain[start:end]:
            start += 1  # of a bracket around it, not of its own
        yield _entity(reading, (start, end), f"+{number}", 0.99)


def _cut(rest: str) -> tuple[int, str] | None:
    """Where the number ends, as its country has it, and its digits; the longest that fits."""
    ends = [one.end() for one in re.finditer(r"[0-9]+", rest)]
    for end in reversed(ends):
        digits = re.sub(r"[^0-9]", "", rest[:end])
        code = code_of(digits)
        national = digits[len(code) :]
        if code and fits(code, national):
            return end, digits
        if code and national.startswith("0") and code != "39" and fits(code, national[1:]):
            return end, code + national[1:]
        if not code and end == ends[-1] and 9 <= len(digits) <= 15:
            return end, digits
    return None


def _national(reading: Reading, form: _Form, span: tuple[int, int]) -> Entity | None:
    plain = reading.plain
    digits = re.sub(r"[^0-9]", "", plain[span[0] : span[1]])
    national = form.national(digits)
    if not national or not fits(form.code, national):
        return None
    named = reading.labelled(span[0], _LABEL)
    language = reading.language(span[0])
    at_home = language.partition("-")[0] in form.languages
    if not named and (not form.alone or not at_home or reading.labelled(span[0], _OTHER, 30)):
        return None
    bare = len(digits) == span[1] - span[0]
    if not named and (bare or plain.find(" ", *span) > 0) and _COUNTED.match(plain, span[1]):
        return None  # `612 345 678 habitantes`
    score = 1.0 if named else 0.75 if bare else 0.92
    return _entity(reading, span, f"+{form.code}{national}" if at_home else "", score)


def _by_language(digits: str, language: str) -> str:
    """E.164 of a labelled national number, where the language leaves one country only."""
    home = {"fr": "33", "fr-FR": "33", "es": "34", "es-ES": "34", "en-US": "1", "en-GB": "44"}
    code = home.get(language, "")
    national = digits[1:] if code in ("33", "44") and digits.startswith("0") else digits
    if code in ("33", "44") and national == digits:
        return ""
    return f"+{code}{national}" if code and fits(code, national) else ""


def _opened(reading: Reading, span: tuple[int, int]) -> tuple[int, int]:
    """The stretch with a + or a bracket that belongs to it."""
    start = span[0]
    return (start - 1, span[1]) if start and reading.plain[start - 1] == "+" else span


def _entity(reading: Reading, span: tuple[int, int], value: str, score: float) -> Entity:
    country = PLANS[code_of(value[1:])][0] if value and code_of(value[1:]) else ""
    # One code serves North America and the islands: which of them is not certain.
    details = {"country": country} if country and not value.startswith("+1") else {}
    return reading.entity("phone", span, value, score=score, details=details)
