"""Notes, pages and pictures as plain texts mark them: `[1]`, `[Footnote 2: ...]`, `[Pg 23]`.

A number in brackets refers to a note only where a block of the text is that note; all brackets
stay in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from anyrig.text.document import Block, Inline

_PAGE = re.compile(r"[\[{](?:Pg|Page|p\.?|S\.|Seite)\s*(?P<page>\d{1,4}|[ivxlc]{1,8})[\]}]", re.I)
_MARK = r"[\[{](?P<mark>\d{1,4}(?::[A-Z])?|[A-Za-z]{1,2}|\*{1,3}|†|‡)[\]}]"
_REFERENCE = re.compile(_MARK)
_NOTE = re.compile(_MARK + r"\s+\S")
_FOOTNOTE = re.compile(r"\[(?:Foot)?note\s*(?P<mark>\w{0,6}|\*{1,3})\s*:\s*\S", re.I)
_PICTURE = re.compile(r"\[(?:Illustration|Image|Picture|Abbildung)\b[^\]]*\]?", re.I)
_LONGEST_NOTE = 12  # blocks that one bracket may hold


def marked(blocks: Sequence[Block]) -> list[Block]:
    """The blocks with notes, references, pages and pictures named."""
    called = {found["mark"] for block in blocks for found in _references(block)}
    made: list[Block] = []
    ids: dict[str, list[tuple[int, str]]] = {}
    open_id, left = "", 0
    for at, block in enumerate(blocks):
        mark, closed = _mark(block, called)
        if mark:
            seen = ids.setdefault(mark, [])
            open_id = f"note-{mark}" if not seen else f"note-{mark}-{len(seen) + 1}"
            seen.append((at, open_id))
            left = 0 if closed else _closing(blocks, at)
            made.append(replace(block, kind="note", id=open_id))
        elif left:
            left -= 1
            made.append(replace(block, kind="note", id=open_id))
        else:
            made.append(_pictured(block))
    return [_inlined(block, at, ids) for at, block in enumerate(made)]


def _references(block: Block) -> list[re.Match[str]]:
    """What may refer to a note: brackets that do not begin the block."""
    return [found for found in _REFERENCE.finditer(block.text) if found.start()]


def _mark(block: Block, called: set[str]) -> tuple[str, bool]:
    """The mark of the note that a block is, and whether it is whole; else empty."""
    if block.kind not in {"paragraph", "quote"}:
        return "", True
    found = _FOOTNOTE.match(block.text)
    if found:
        return found["mark"] or "0", block.text.count("[") <= block.text.count("]")
    found = _NOTE.match(block.text)
    return (found["mark"], True) if found and found["mark"] in called else ("", True)


def _closing(blocks: Sequence[Block], at: int) -> int:
    """How many more blocks belong to a note whose bracket is still open."""
    depth = 0
    for more, block in enumerate(blocks[at : at + _LONGEST_NOTE]):
        depth += block.text.count("[") - block.text.count("]")
        if depth <= 0:
            return more
    return 0


def _pictured(block: Block) -> Block:
    if block.kind != "paragraph":
        return block
    if _PICTURE.fullmatch(block.text):
        return replace(block, kind="image")
    return replace(block, kind="page") if _PAGE.fullmatch(block.text) else block


def _inlined(block: Block, at: int, ids: dict[str, list[tuple[int, str]]]) -> Block:
    if "[" not in block.text and "{" not in block.text or block.kind == "page":
        return block
    inlines = [
        Inline(found.start(), found.end(), "page", found["page"])
        for found in _PAGE.finditer(block.text)
    ]
    for found in _references(block):
        name = _nearest(ids.get(found["mark"], []), at)
        if name and name != block.id:
            inlines.append(Inline(found.start(), found.end(), "noteref", name))
    if not inlines:
        return block
    inlines = sorted((*block.inlines, *inlines), key=lambda one: one.start)
    return replace(block, inlines=tuple(inlines))


def _nearest(places: Sequence[tuple[int, str]], at: int) -> str:
    """The first note of a mark from a reference on; else the last before it; else empty."""
    if not places:
        return ""
    return places[min(bisect_left(places, (at, "")), len(places) - 1)][1]
