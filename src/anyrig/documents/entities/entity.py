"""What is found in a text: a kind, a place, and its value if that is certain; and lists of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anyrig.errors import InvalidInputError

NAMES = ("person", "organisation", "place")
CHECKED = ("date", "money", "percent", "email", "phone", "iban", "tax", "card")
KINDS = (*NAMES, *CHECKED)
"""Every kind that is found without labels."""
_ALIASES = {
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
    """One of `KINDS`, or a label of the model."""
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

    def shift(self, by: int) -> Entity:
        """The same in a text in which it stands so much later."""
        return replace(self, start=self.start + by, end=self.end + by)

    def to_json(self) -> dict[str, Any]:
        """Without what is empty."""
        data: dict[str, Any] = {
            "kind": self.kind, "text": self.text, "start": self.start, "end": self.end,
        }  # fmt: skip
        if self.value:
            data["value"] = self.value
        data |= dict(self.details)
        if self.valid is not None:
            data["valid"] = self.valid
        return data | {"source": self.source, "score": round(self.score, 4)}


def parse_kinds(words: Sequence[str]) -> tuple[str, ...]:
    """Kinds as a person names them: `people`, `IBAN`; `InvalidInputError` for what is none."""
    found: dict[str, None] = {}
    for word in words:
        name = word.strip().lower()
        kind = _ALIASES.get(name, name)
        if name and kind not in KINDS:
            raise InvalidInputError(
                f"no kind of entity {word.strip()!r}", hint=f"One of {', '.join(KINDS)}."
            )
        if name:
            found[kind] = None
    if not found:
        raise InvalidInputError("no kind of entity was named", hint=f"Some of {', '.join(KINDS)}.")
    return tuple(found)


@dataclass
class ListedEntity:
    """A thing that a document names, perhaps many times."""

    kind: str
    text: str
    """As it stands the first time; of a person, the fullest form of the name."""
    value: str
    count: int
    first: Entity
    pages: list[int] = field(default_factory=list)


def list_entities(found: Iterable[tuple[Entity, int]]) -> list[ListedEntity]:
    """Each thing once, those named most often first within the order of the text.

    A person who is named by a surname or first name alone counts as the one full name that it is
    part of.

    Args:
        found: entities in the order of the text, each with its page, 0 without one.
    """
    found = list(found)
    whole = _find_full_names(one for one, _ in found if one.kind == "person")
    listed: dict[tuple[str, str], ListedEntity] = {}
    for one, page in found:
        name = (one.value or " ".join(one.text.split())).casefold()
        key = (one.kind, whole.get(name, name) if one.kind == "person" else name)
        entry = listed.setdefault(key, ListedEntity(one.kind, one.text, one.value, 0, one))
        entry.count += 1
        if len(one.text) > len(entry.text) and one.kind == "person":
            entry.text, entry.value, entry.first = one.text, one.value, one
        if page and page not in entry.pages[-1:]:
            entry.pages.append(page)
    return sorted(listed.values(), key=lambda each: -each.count)


def _find_full_names(people: Iterable[Entity]) -> dict[str, str]:
    """By a first or last word: the full name, where only one has it."""
    names = {(one.value or " ".join(one.text.split())).casefold() for one in people}
    full: dict[str, set[str]] = {}
    for name in names:
        words = name.split()
        for word in {words[0], words[-1]} if len(words) > 1 else ():
            full.setdefault(word, set()).add(name)
    return {word: next(iter(several)) for word, several in full.items() if len(several) == 1}


def redact(text: str, entities: Sequence[Entity]) -> str:
    """The text with each entity replaced by its kind, such as [PERSON]."""
    parts, last = [], 0
    for one in sorted(entities, key=lambda each: each.start):
        if one.start < last:  # the rest of an overlapping one goes too
            last = max(last, one.end)
            continue
        parts += [text[last : one.start], f"[{one.kind.upper()}]"]
        last = one.end
    return "".join([*parts, text[last:]])
