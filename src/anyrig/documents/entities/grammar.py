"""All grammars over one text."""

from __future__ import annotations

from collections.abc import Iterator

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars import contacts, dates, identifiers, money, numbers
from anyrig.documents.entities.reading import Reading

_FINDERS = (
    identifiers.find, contacts.find_emails, numbers.find_percents, money.find, dates.find,
    contacts.find_phones,
)  # fmt: skip


def found(reading: Reading) -> Iterator[Entity]:
    """What the grammars find, overlapping as it may; `merge.merged` resolves it."""
    for find in _FINDERS:
        yield from find(reading)
