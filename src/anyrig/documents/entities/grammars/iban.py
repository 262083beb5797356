"""Bank accounts by their international number: country, length, form, and the remainder of 97."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars.digits import mod_97
from anyrig.documents.entities.reading import Reading, collected, compact, label

# What follows the check digits, from the public registry: n digits, a capitals, c either.
_FORMS = {
    "AD": "8n12c", "AE": "19n", "AL": "8n16c", "AT": "16n", "AZ": "4a20c", "BA": "16n",
    "BE": "12n", "BG": "4a6n8c", "BH": "4a14c", "BI": "23n", "BR": "23n1a1c", "BY": "4c4n16c",
    "CH": "5n12c", "CR": "18n", "CY": "8n16c", "CZ": "20n", "DE": "18n", "DJ": "23n", "DK": "14n",
    "DO": "4c20n", "EE": "16n", "EG": "25n", "ES": "20n", "FI": "14n", "FK": "2a12n", "FO": "14n",
    "FR": "10n11c2n", "GB": "4a14n", "GE": "2a16n", "GI": "4a15c", "GL": "14n", "GR": "7n16c",
    "GT": "4c20c", "HN": "4a20n", "HR": "17n", "HU": "24n", "IE": "4a14n", "IL": "19n",
    "IQ": "4a15n", "IS": "22n", "IT": "1a10n12c", "JO": "4a4n18c", "KW": "4a22c", "KZ": "3n13c",
    "LB": "4n20c", "LC": "4a24c", "LI": "5n12c", "LT": "16n", "LU": "3n13c", "LV": "4a13c",
    "LY": "21n", "MC": "10n11c2n", "MD": "2c18c", "ME": "18n", "MK": "3n10c2n", "MN": "16n",
    "MR": "23n", "MT": "4a5n18c", "MU": "4a19n3a", "NI": "4a20n", "NL": "4a10n", "NO": "11n",
    "OM": "3n16c", "PK": "4a16c", "PL": "24n", "PS": "4a21c", "PT": "21n", "QA": "4a21c",
    "RO": "4a16c", "RS": "18n", "RU": "14n15c", "SA": "2n18c", "SC": "4a20n3a", "SD": "14n",
    "SE": "20n", "SI": "15n", "SK": "20n", "SM": "1a10n12c", "SO": "19n", "ST": "21n",
    "SV": "4a20n", "TL": "19n", "TN": "20n", "TR": "6n16c", "UA": "6n19c", "VA": "18n",
    "VG": "4a16n", "XK": "16n", "YE": "4a4n18c",
}  # fmt: skip
_CLASSES = {"n": "[0-9]", "a": "[A-Z]", "c": "[A-Z0-9]"}
_HEAD = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z]{2})[ -]?([0-9]{2})(?=[ -]?[A-Za-z0-9])")
_TWO = re.compile(r"[a-z][ -]?[0-9]{2}")
_NAME = re.compile(r"iban")
_LABEL = label(r"iban|i\.b\.a\.n\.?")
_LABELLED = re.compile(
    r"(?<![A-Za-z])iban\b\W{0,4}(?:(?:no|nr|number|numero|is|est|es)\b\W{0,3})?"
    r"([A-Za-z]{2}[0-9]{2}(?:[ \-]?[A-Za-z0-9]){8,34})",
    re.IGNORECASE,
)


def lengths() -> dict[str, int]:
    """By country: how long its numbers are."""
    return {country: 4 + _size(form) for country, form in _FORMS.items()}


def valid(number: str) -> bool:
    """Whether a compact number has its country's form and passes the check."""
    country = number[:2]
    if country not in _FORMS or not re.fullmatch(_body(country), number[4:]):
        return False
    return number[2:4].isdigit() and mod_97(number[4:] + number[:4]) == 1


def find(reading: Reading) -> Iterator[Entity]:
    """Every account number; those that fail their check are marked so."""
    last = 0
    for head in reading.matches(_HEAD, reading.around(_TWO, 4, 8)):
        country = head[1].upper()
        if country not in _FORMS or head.start() < last:
            continue
        end = collected(reading.plain, head.start(), 4 + _size(_FORMS[country]), " -\n.")
        if end is None:
            continue
        number = compact(reading.plain[head.start() : end])
        named = reading.labelled(head.start(), _LABEL)
        holds = valid(number)
        if not holds and not named and not re.fullmatch(_body(country), number[4:]):
            continue  # words and numbers that happen to be as long
        yield _entity(reading, (head.start(), end), number, holds, named)
        last = end
    yield from _misshapen(reading)


def _misshapen(reading: Reading) -> Iterator[Entity]:
    """What is called an IBAN and has not the length of one: it is nothing else either."""
    for found in reading.matches(_LABELLED, reading.around(_NAME, 2, 80)):
        number = compact(found[1])
        size = 4 + _size(_FORMS.get(number[:2], ""))
        if len(number) != size and sum(map(str.isdigit, number)) > 8 and not valid(number[:size]):
            yield _entity(reading, found.span(1), number, False, True)


def _entity(
    reading: Reading, span: tuple[int, int], number: str, holds: bool, named: bool
) -> Entity:
    score = (1.0 if named else 0.98) if holds else 0.3
    return reading.entity(
        "iban", span, number, score=score, valid=holds, details={"country": number[:2]}
    )


def _size(form: str) -> int:
    return sum(int(count) for count in re.findall(r"[0-9]+", form))


def _body(country: str) -> str:
    pieces = re.findall(r"([0-9]+)([nac])", _FORMS[country])
    return "".join(f"{_CLASSES[kind]}{{{count}}}" for count, kind in pieces)
