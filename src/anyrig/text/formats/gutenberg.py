"""What Project Gutenberg puts around a text, and how its texts mark notes, pages and pictures.

In `[1]`, `[Footnote 2: ...]` and `[Pg 23]`, a number refers to a note only where a block of the
text is that note; all brackets stay in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from anyrig.text.document import Block, Inline, Metadata
from anyrig.text.language_names import language_code

_START = re.compile(r"\*{3}\s*START OF (?:THE|THIS) PROJECT GUTENBERG", re.I)
_SMALL_PRINT = re.compile(r"\*END\*?\s*THE SMALL PRINT", re.I)
_END = re.compile(
    r"\*{3}\s*END OF (?:THE|THIS) PROJECT GUTENBERG"
    r"|End of (?:the |this )?Project Gutenberg(?:'s|’s| E-?(?:book|text)) ",
    re.I,
)
_FIELD = re.compile(r"(Title|Author|Language|Editor|Translator|Release Date)\s*:\s*(\S.*)", re.I)
_BRACKETED = re.compile(
    r"\[(?P<title>[^\]]{1,120}?) by (?P<author>[^\]]{1,80}?),?\s*(?P<year>\d{4})?\]"
)
_BY = re.compile(r"(?:by|par|von|por|di|door)\s+(\S.{0,80})", re.I)


class GutenbergFrame(NamedTuple):
    """Which lines are the text itself."""

    start: int
    end: int


def find_frame(lines: Sequence[str]) -> GutenbergFrame:
    """Where the text stands between the lines that tell its beginning and end."""
    start, end = 0, len(lines)
    for at, line in enumerate(lines[:1500]):
        if _START.search(line) or _SMALL_PRINT.search(line):
            start = _find_end_of_mark(lines, at)
    for at in range(len(lines) - 1, max(start, len(lines) - 2000), -1):
        if _END.search(lines[at][:200]):
            end = at
    return GutenbergFrame(start, end)


def read_metadata(lines: Sequence[str], header: int) -> Metadata:
    """What a header, or else the first lines, say of a text.

    Args:
        lines: of the whole file.
        header: how many of them stand before the text.
    """
    fields = _fields(lines[:header])
    if not fields:
        return _from_first_lines([line.strip() for line in lines[:40] if line.strip()][:6])
    author = fields.get("author", "")
    return Metadata(
        title=fields.get("title", ""),
        authors=tuple(part for part in re.split(r"\s+and\s+|;\s*", author) if part),
        language=language_code(fields.get("language", "")),
    )


def _find_end_of_mark(lines: Sequence[str], at: int) -> int:
    """The line after a mark, which may run over several lines."""
    for more in range(at, min(at + 4, len(lines))):
        if lines[more].rstrip().endswith("***") or "*END*" in lines[more]:
            return more + 1
    return at + 1


def _fields(lines: Sequence[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        found = _FIELD.match(line)
        if found:
            name = found[1].lower()
            fields.setdefault(name, " ".join(found[2].split()))
        elif name == "title" and line.startswith("  ") and line.strip():
            fields[name] += f" {' '.join(line.split())}"
        else:
            name = ""
    return fields


def _from_first_lines(lines: Sequence[str]) -> Metadata:
    """A title and "by" an author, if the first lines are those."""
    if not lines:
        return Metadata()
    found = _BRACKETED.fullmatch(lines[0])
    if found:
        return Metadata(found["title"], (found["author"],), year=found["year"] or "")
    for at, line in enumerate(lines[1:4], 1):
        by = _BY.fullmatch(line)
        if by and all(len(before) <= 80 for before in lines[:at]):
            return Metadata(" ".join(lines[:at]), (by[1],))
        if line.lower() in {"by", "par", "von", "por"} and at + 1 < len(lines):
            return (
                Metadata(" ".join(lines[:at]), (lines[at + 1],))
                if len(lines[0]) <= 80
                else Metadata()
            )
    return Metadata()


# -- remarks in brackets ---------------------------------------------------------------------------

_PAGE = re.compile(r"[\[{](?:Pg|Page|p\.?|S\.|Seite)\s*(?P<page>\d{1,4}|[ivxlc]{1,8})[\]}]", re.I)
_MARK = r"[\[{](?P<mark>\d{1,4}(?::[A-Z])?|[A-Za-z]{1,2}|\*{1,3}|†|‡)[\]}]"
_REFERENCE = re.compile(_MARK)
_NOTE = re.compile(_MARK + r"\s+\S")
_FOOTNOTE = re.compile(r"\[(?:Foot)?note\s*(?P<mark>\w{0,6}|\*{1,3})\s*:\s*\S", re.I)
_PICTURE = re.compile(r"\[(?:Illustration|Image|Picture|Abbildung)\b[^\]]*\]?", re.I)
_LONGEST_NOTE = 12  # blocks that one bracket may hold


def mark_brackets(blocks: Sequence[Block]) -> list[Block]:
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
            made.append(_mark_pictures(block))
    return [_inline_notes(block, at, ids) for at, block in enumerate(made)]


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


def _mark_pictures(block: Block) -> Block:
    if block.kind != "paragraph":
        return block
    if _PICTURE.fullmatch(block.text):
        return replace(block, kind="image")
    return replace(block, kind="page") if _PAGE.fullmatch(block.text) else block


def _inline_notes(block: Block, at: int, ids: dict[str, list[tuple[int, str]]]) -> Block:
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
