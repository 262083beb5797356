"""Where the notes of a book stand on the pages of its read-along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import Part, Plan
    from anyrig.text.document import Block


@dataclass(frozen=True)
class Notes:
    """Where the notes of a book stand."""

    places: Mapping[str, str]
    """The address of each note, by its id."""
    guests: Mapping[int, tuple[tuple[Block, ...], ...]]
    """By part: notes that it names and no part holds; they stand at its end, unspoken."""


def page_name(number: int) -> str:
    """What a part's files are called."""
    return f"part-{number + 1:03d}"


def notes_of(plan: Plan) -> Notes:
    """The address of each note; those that lie outside the parts go to the first who names them."""
    places: dict[str, str] = {}
    for number, part in enumerate(plan.parts):
        for block in part.chapter.blocks:
            if _stands(block) and block.id not in places:
                places[block.id] = f"{page_name(number)}.xhtml#n{len(places) + 1}"
    outside: dict[str, tuple[Block, ...]] = {}
    for chapter in plan.document.chapters:
        for (_, name), group in groupby(chapter.blocks, together):
            note = tuple(block for block in group if _stands(block))
            if note:
                outside.setdefault(name, note)
    guests: dict[int, list[tuple[Block, ...]]] = {}
    for number, part in enumerate(plan.parts):
        for name in _named(part):
            if name in outside and name not in places:
                places[name] = f"{page_name(number)}.xhtml#n{len(places) + 1}"
                guests.setdefault(number, []).append(outside[name])
    return Notes(places, {number: tuple(each) for number, each in guests.items()})


def _stands(block: Block) -> bool:
    """Whether it is a note that a sign can lead to."""
    return block.kind == "note" and bool(block.id) and bool(block.text.strip())


def _named(part: Part) -> Iterator[str]:
    for block in part.chapter.blocks:
        for mark in block.inlines:
            if mark.kind == "noteref" and mark.value:
                yield mark.value


def together(block: Block) -> tuple[str, str]:
    """Neighbours that share this stand in one element."""
    if block.kind == "note":
        return "note", block.id
    return (block.kind, "") if block.kind in ("item", "quote") else ("", "")
