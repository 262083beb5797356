"""Numbers of payment cards: the networks' beginnings and lengths, and Luhn's check."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars.digits import luhn
from anyrig.documents.entities.reading import Reading, compact, label

_SHAPE = re.compile(
    r"(?<![A-Za-z0-9.,+\-/])(?:[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
    r"|3[47][0-9]{2}([ -])[0-9]{6}\2[0-9]{5}|[0-9]{13,19})(?![A-Za-z0-9]|[ -][0-9]|[.,][0-9])"
)
_NETWORKS = (
    ("visa", re.compile(r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})")),
    ("mastercard", re.compile(
        r"(?:5[1-5][0-9]{2}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}")),
    ("amex", re.compile(r"3[47][0-9]{13}")),
    ("diners", re.compile(r"3(?:0[0-5]|[689][0-9])[0-9]{11}")),
    ("discover", re.compile(r"6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}")),
    ("jcb", re.compile(r"35(?:2[89]|[3-8][0-9])[0-9]{12}")),
    ("maestro", re.compile(r"(?:50|5[6-9]|6[0-9])[0-9]{10,17}")),
)  # fmt: skip
_SEVERAL = re.compile(r"(?:[0-9][ -]?){12}")
_LABEL = label(
    r"card|credit card|debit card|visa|mastercard|amex|american express|carte(?: bancaire| bleue)?"
    r"|cb|tarjeta(?: de credito| de debito)?|pan"
)


def find(reading: Reading) -> Iterator[Entity]:
    """Every card number; a bare run of digits needs a label unless its network is a great one."""
    for found in reading.matches(_SHAPE, reading.around(_SEVERAL, 2, 30)):
        number = compact(found[0])
        network = next((name for name, form in _NETWORKS if form.fullmatch(number)), "")
        named = reading.labelled(found.start(), _LABEL)
        grouped = len(found[0]) > len(number)
        if not network and not (grouped and named):
            continue
        holds = bool(network) and luhn(number)
        if not (named or grouped) and (not holds or network in ("maestro", "diners")):
            continue
        score = (1.0 if named else 0.9 if grouped else 0.75) if holds else 0.3
        details = {"network": network} if network else {}
        yield reading.entity(
            "card", found.span(), number, score=score, valid=holds, details=details
        )
