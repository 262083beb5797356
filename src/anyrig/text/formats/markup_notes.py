"""Which links are references to notes, and which blocks are the notes: settled over all files.

Where a file says so (`epub:type`, `role`), it is believed. Elsewhere a reference is a short link
that looks like one (a figure, a star; raised, bracketed or named so), to a later block that is no
heading. A note's link back is a reference too: nobody wants to hear it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from anyrig.text.document import Block, Inline
from anyrig.text.formats.markup_line import MarkupFlow, MarkupLink, sort_inlines

_MARK = re.compile(
    r"(?:note|fn|n\.)?\s*[\[({]?\s*(?:\d{1,4}[a-z]?|[*†‡§¶‖#⁎∗]{1,5}|[a-z]|[ivxlc]{1,7}|[⁰¹²³⁴-⁹]{1,4}"
    r"|[①-⑳]|注|註|注\d{1,4})\s*[\])}]?[.:]?",
    re.IGNORECASE,
)
_DISTINCT = re.compile(r"[\[({*†‡§¶‖⁎∗⁰¹²³⁴-⁹①-⑳注註]")
_BACK = re.compile(
    r"[\[(]?(?:[↩↵↑⇑^⏎←↖⤴⬆⮌⇧]\ufe0e?|back|return|zurück|retour)[\])]?", re.IGNORECASE
)
_CLUES = re.compile(
    r"(?:foot|end|side)?note|(?<![a-z])f?n(?:ote)?[-_.:]?\d|(?<![a-z])(?:fn|ftn|edn|sdfoot|ref|fnref|rf)",
    re.IGNORECASE,
)  # fmt: skip
_FIGURE = re.compile(r"[\[({]?(?:\d{1,4}|[*†‡§¶]{1,5}|[a-z])[\])}]?[.:]?", re.IGNORECASE)
_MOST_BLOCKS = 30  # of one note that the file does not mark as such
_SHORT = 12


def is_mark(text: str, *, raised: bool, clues: str) -> bool:
    """Whether a link may be a note's reference, or the way back from a note.

    Args:
        text: of the link.
        raised: whether it stands high, or is a picture.
        clues: its classes, its id and what it points to.
    """
    if _BACK.fullmatch(text):
        return True
    if not text:
        return raised and bool(_CLUES.search(clues))
    if not _MARK.fullmatch(text):
        return False
    return raised or bool(_DISTINCT.search(text)) or bool(_CLUES.search(clues))


def could_be_mark(text: str) -> bool:
    """Whether a link in a note may be the way back from it."""
    return bool(_MARK.fullmatch(text))


def resolve_notes(flows: Sequence[MarkupFlow]) -> list[list[Block]]:
    """The blocks of each file, with references marked and notes named.

    Args:
        flows: in reading order.
    """
    everything = [block for flow in flows for block in flow.blocks]
    places: dict[str, tuple[int, int]] = {}
    links: list[MarkupLink] = []
    at = 0
    for flow in flows:
        for key, (first, end) in flow.places.items():
            places.setdefault(key, (first + at, end + at))
        links += [link._replace(block=link.block + at) for link in flow.links]
        at += len(flow.blocks)
    _resolve_flow(everything, places, links)
    cut: list[list[Block]] = []
    at = 0
    for flow in flows:
        cut.append(everything[at : at + len(flow.blocks)])
        at += len(flow.blocks)
    return cut


def _resolve_flow(
    blocks: list[Block], places: dict[str, tuple[int, int]], links: Sequence[MarkupLink]
) -> None:
    headings = [at for at, block in enumerate(blocks) if block.kind == "heading"]
    marks: dict[int, list[Inline]] = {}
    referred: set[int] = {index for index, block in enumerate(blocks) if block.kind == "note"}
    for link in links:
        if link.back or _leads_back(link, blocks, places, referred):
            kind = "back"
        elif _is_reference(link, blocks, places, headings):
            kind = "reference"
        else:
            continue
        marks.setdefault(link.block, []).append(
            Inline(link.start, link.end, "noteref", link.target)
        )
        if kind == "reference":
            for index in _note_at(link, blocks, places):
                referred.add(index)
                blocks[index] = _as_note(blocks[index], link.target)
    for index, found in marks.items():
        block = blocks[index]
        blocks[index] = replace(block, inlines=sort_inlines([*block.inlines, *found], block.text))


def _leads_back(
    link: MarkupLink, blocks: list[Block], places: dict[str, tuple[int, int]], notes: set[int]
) -> bool:
    """Whether a link in a note leads to where the note is referred to."""
    if link.sure:
        return False
    text = blocks[link.block].text[link.start : link.end].strip()
    if text and _BACK.fullmatch(text):
        return link.block in notes or link.target in places
    place = places.get(link.target)
    return link.block in notes and place is not None and place[0] not in notes


def _is_reference(
    link: MarkupLink,
    blocks: list[Block],
    places: dict[str, tuple[int, int]],
    headings: Sequence[int],
) -> bool:
    text = blocks[link.block].text
    whole = link.end - link.start >= len(text.strip())
    if link.sure:
        return True
    place = places.get(link.target)
    if not link.likely:
        return False
    if whole or place is None or place[0] >= len(blocks):
        return False
    if blocks[place[0]].kind == "note":
        return True
    has_heading = bisect_left(headings, place[0]) < bisect_left(headings, place[1])
    return place[0] > link.block and not has_heading


def _note_at(link: MarkupLink, blocks: list[Block], places: dict[str, tuple[int, int]]) -> range:
    """The blocks of the note that a reference names."""
    first, end = places.get(link.target, (0, 0))
    end = min(end, len(blocks))
    if first >= end or first <= link.block < end or end - first > _MOST_BLOCKS:
        end = min(end, first + 1) if first < end and first != link.block else first
    if first < end < len(blocks) and len(blocks[end - 1].text) <= _SHORT:
        alone = end - first == 1 and not blocks[first].id
        alone = alone and _FIGURE.fullmatch(blocks[first].text.strip()) is not None
        end += alone  # the figure stands alone, its note after it
    return range(first, end)


def _as_note(block: Block, key: str) -> Block:
    if block.kind in ("heading", "rule", "page", "image") or block.kind == "note" and block.id:
        return block
    text = block.text.replace("\n", " ").replace("\t", " ")
    return replace(block, text=text, kind="note", id=block.id or key, level=0)
