"""What was found, each thing once with how often and where; and a text with it blotted out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from anyrig.documents.entities.entity import Entity


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


def redacted(text: str, entities: Sequence[Entity]) -> str:
    """The text with each entity replaced by its kind, such as [PERSON]."""
    parts, last = [], 0
    for one in sorted(entities, key=lambda each: each.start):
        if one.start < last:  # the rest of an overlapping one goes too
            last = max(last, one.end)
            continue
        parts += [text[last : one.start], f"[{one.kind.upper()}]"]
        last = one.end
    return "".join([*parts, text[last:]])
