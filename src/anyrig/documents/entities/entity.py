"""What is found in a text: a kind, a place, and what it means where that is certain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anyrig.errors import InvalidInputError

NAMES = ("person", "organisation", "place")
CHECKED = ("date", "money", "percent", "email", "phone", "iban", "tax", "card")
KINDS = (*NAMES, *CHECKED)
"""Every kind that is found without being asked for by a label of one's own."""
_ALSO = {
    "people": "person", "persons": "person", "per": "person", "name": "person", "names": "person",
    "org": "organisation", "organization": "organisation", "organisations": "organisation",
    "organizations": "organisation", "company": "organisation", "companies": "organisation",
    "places": "place", "loc": "place", "location": "place", "locations": "place", "gpe": "place",
    "dates": "date", "amount": "money", "amounts": "money", "percentage": "percent",
    "percentages": "percent", "mail": "email", "e-mail": "email", "emails": "email",
    "telephone": "phone", "tel": "phone", "phones": "phone", "ibans": "iban", "vat": "tax",
    "nif": "tax", "taxes": "tax", "tax number": "tax", "cards": "card", "credit card": "card",
}  # fmt: skip


@dataclass(frozen=True)
class Entity:
    """Something a text names."""

    kind: str
    """One of `KINDS`, or a label of one's own."""
    text: str
    """As it stands: `whole[start:end]`."""
    start: int
    end: int
    value: str = ""
    """In one form, where only one is meant: `2024-07-14`, `1234.56 EUR`, `+33123456789`."""
    source: str = "grammar"
    """What found it: a grammar, or the name of a model."""
    score: float = 1.0
    valid: bool | None = None
    """Whether its check digits, or its day in the calendar, hold; None when it has none."""
    details: Mapping[str, str] = field(default_factory=dict, hash=False)
    """More of what it means: amount and currency, country, the kind of tax number."""

    def moved(self, by: int) -> Entity:
        """The same in a text in which it stands so much later."""
        return replace(self, start=self.start + by, end=self.end + by)

    def plain(self) -> dict[str, Any]:
        """For programs: what is empty is left out."""
        told: dict[str, Any] = {
            "kind": self.kind, "text": self.text, "start": self.start, "end": self.end,
        }  # fmt: skip
        if self.value:
            told["value"] = self.value
        told |= dict(self.details)
        if self.valid is not None:
            told["valid"] = self.valid
        return told | {"source": self.source, "score": round(self.score, 4)}


def kinds_of(words: str | Sequence[str]) -> tuple[str, ...]:
    """Kinds as a person names them: `people, IBAN`; `InvalidInputError` for what is none."""
    given = words.split(",") if isinstance(words, str) else words
    found: dict[str, None] = {}
    for word in given:
        name = word.strip().lower()
        kind = _ALSO.get(name, name)
        if name and kind not in KINDS:
            raise InvalidInputError(
                f"no kind of entity {word.strip()!r}", hint=f"One of {', '.join(KINDS)}."
            )
        if name:
            found[kind] = None
    if not found:
        raise InvalidInputError("no kind of entity was named", hint=f"Some of {', '.join(KINDS)}.")
    return tuple(found)
