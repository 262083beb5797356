"""All grammars over one text."""

from __future__ import annotations

from collections.abc import Iterator

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars import cards, dates, iban, mail, money, percent, phones, tax
from anyrig.documents.entities.reading import Reading

_ALL = (iban, mail, tax, cards, percent, money, dates, phones)


def found(reading: Reading) -> Iterator[Entity]:
    """What the grammars find, overlapping as it may; `merge.merged` settles it."""
    for grammar in _ALL:
        yield from grammar.find(reading)
