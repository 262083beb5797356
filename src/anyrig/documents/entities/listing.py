"""What was found, each thing once with how often; and a text with what was found blotted out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anyrig.documents.entities.entity import Entity


@dataclass
class Listed:
    """A thing that a document names, perhaps many times."""

    kind: str
    text: str
    """As it stands the first time."""
    value: str
    count: int
    first: Entity


def listed(entities: Iterable[Entity]) -> list[Listed]:
    """Each thing once, those named most often first within the order of the text."""
    found: dict[tuple[str, str], Listed] = {}
    for one in entities:
        key = (one.kind, (one.value or " ".join(one.text.split())).casefold())
        if key in found:
            found[key].count += 1
        else:
            found[key] = Listed(one.kind, one.text, one.value, 1, one)
    return sorted(found.values(), key=lambda each: -each.count)


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
