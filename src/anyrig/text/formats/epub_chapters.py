"""The pages of a book cut into chapters: by its table of contents, else by headings or files.

A chapter goes from its entry to the next, over as many files as that takes. What stands before
the first entry, files that the reading order sets aside, and files said to be something of their
own (a cover, a list of contents) are chapters too: nothing is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from anyrig.text.document import Block, Chapter, Role
from anyrig.text.formats.epub_contents import Contents, Entry

ROLES: dict[str, Role] = {
    "cover": "cover", "doc-cover": "cover",
    "titlepage": "title", "title-page": "title", "halftitlepage": "title", "halftitle": "title",
    "toc": "contents", "doc-toc": "contents", "contents": "contents", "loi": "contents",
    "lot": "contents", "landmarks": "contents",
    # A dedication, an epigraph, a foreword and a preface are the author's words: body.
    "copyright-page": "front", "copyright": "front", "imprint": "front", "imprimatur": "front",
    "acknowledgments": "front", "acknowledgements": "front", "doc-acknowledgments": "front",
    "footnotes": "notes", "endnotes": "notes", "rearnotes": "notes", "doc-endnotes": "notes",
    "notes": "notes",
    "index": "back", "doc-index": "back", "bibliography": "back", "doc-bibliography": "back",
    "glossary": "back", "doc-glossary": "back", "colophon": "back", "doc-colophon": "back",
}  # fmt: skip
"""What EPUB calls a part -> what it is here."""
_ABOVE_HEADING = 300  # characters
_SILENT = ("page", "image", "rule")


@dataclass(frozen=True)
class File:
    """A file of the book, read."""

    path: str
    blocks: list[Block]
    places: dict[str, tuple[int, int]]
    types: tuple[str, ...] = ()
    aside: bool = False
    """Outside of the reading order."""


class _Start(NamedTuple):
    """Where a chapter begins."""

    at: int
    title: str
    level: int
    source: str


def chapters(files: Sequence[File], contents: Contents, warnings: list[str]) -> tuple[Chapter, ...]:
    """All blocks of all files, in chapters.

    Args:
        files: in reading order, those set aside at the end.
        contents: the table of contents, and what files are said to be.
        warnings: where entries that lead nowhere are named.
    """
    blocks = [block for file in files for block in file.blocks]
    offsets = _offsets(files)
    listed = _listed(files, offsets, contents.entries, blocks, warnings)
    if len({start.at for start in listed}) < 2 and len(files) > 1 or not listed:
        listed = _merged([*listed, *_by_headings(files, offsets, blocks)])
    starts = _with_files(files, offsets, listed, blocks, contents)
    ends = [start.at for start in starts[1:]] + [len(blocks)]
    made = [
        _chapter(start, blocks[start.at : end]) for start, end in zip(starts, ends, strict=True)
    ]
    roles = _roles(files, offsets, contents)
    return tuple(
        replace(chapter, role=roles.get(start.at) or _role(chapter, first=start.at == 0))
        for start, chapter in zip(starts, made, strict=True)
        if chapter.blocks
    )


def _offsets(files: Sequence[File]) -> list[int]:
    offsets = [0]
    for file in files:
        offsets.append(offsets[-1] + len(file.blocks))
    return offsets


def _chapter(start: _Start, blocks: list[Block]) -> Chapter:
    title = start.title or next((each.text for each in blocks if each.kind == "heading"), "")
    return Chapter(title, tuple(blocks), start.level, source=start.source)


def _role(chapter: Chapter, first: bool) -> Role:
    """What a chapter is seen to be: all notes, or a picture in front of all."""
    kinds = {block.kind for block in chapter.blocks}
    if first and kinds == {"image"}:
        return "cover"
    return "notes" if kinds - {*_SILENT, "heading"} == {"note"} else "body"


def _listed(
    files: Sequence[File], offsets: list[int], entries: Sequence[Entry], blocks: list[Block],
    warnings: list[str],
) -> list[_Start]:  # fmt: skip
    """Where the entries of the table of contents lead."""
    numbers = {file.path: number for number, file in reversed(list(enumerate(files)))}
    starts: list[_Start] = []
    nowhere: list[str] = []
    for index, entry in enumerate(entries):
        number = numbers.get(entry.place.path) if entry.place else None
        if entry.place is None or number is None:
            nowhere.append(entry.title or "(no title)")
            continue
        is_part = any(below.level > entry.level for below in entries[index + 1 : index + 2])
        if not files[number].blocks and not is_part:
            continue  # a picture without words: its title must not go to what follows
        at, end = offsets[number], offsets[number + 1]
        place = files[number].places.get(entry.place.key)
        if place:
            # Headings that stand right above belong to what they name.
            at = _with_heading(min(at + place[0], end), at, entry.title, blocks)
        elif entry.place.fragment:
            nowhere.append(f"{entry.title} ({entry.place.key})")
        source = entry.place.key if place else entry.place.path
        starts.append(_Start(at, entry.title, entry.level, source))
    if nowhere:
        listed = ", ".join(nowhere[:5]) + (" ..." if len(nowhere) > 5 else "")
        warnings.append(f"{len(nowhere)} entries of the contents lead nowhere: {listed}")
    return _merged(starts)


def _with_heading(at: int, lowest: int, title: str, blocks: list[Block]) -> int:
    wanted = _letters(title)
    for above in range(at - 1, max(lowest, at - 3) - 1, -1):
        if blocks[above].kind in _SILENT:
            continue
        if blocks[above].kind == "heading" and wanted and _letters(blocks[above].text) == wanted:
            return above
        break
    return at


def _letters(text: str) -> str:
    return re.sub(r"\W", "", text).casefold()


def _merged(starts: Sequence[_Start]) -> list[_Start]:
    """In order of place; a part and its first chapter at one place are one, with both titles."""
    merged: list[_Start] = []
    for start in sorted(starts, key=lambda each: each.at):
        last = merged[-1] if merged else None
        if last is None or start.at > last.at:
            merged.append(start)
        elif start.title and start.level > last.level and start.title != last.title:
            title = f"{last.title}: {start.title}" if last.title else start.title
            merged[-1] = last._replace(title=title)
    return merged


def _by_headings(files: Sequence[File], offsets: list[int], blocks: list[Block]) -> list[_Start]:
    """Starts at the headings that cut the book into chapters."""
    counts = Counter(block.level for block in blocks if block.kind == "heading")
    if not counts:
        return [_Start(at, "", 1, file.path) for at, file in zip(offsets, files, strict=False)]
    deepest = next((level for level in sorted(counts) if counts[level] > 1), min(counts))
    ranks = {level: rank for rank, level in enumerate(sorted(counts), start=1)}
    starts: list[_Start] = []
    number = 0
    for at, block in enumerate(blocks):
        while at >= offsets[number + 1]:
            number += 1
        if block.kind == "heading" and block.level <= deepest:
            first = at if starts and starts[-1].at >= offsets[number] else offsets[number]
            # A line above the first heading of a file goes with it; more is another's end.
            alone = sum(len(each.text) for each in blocks[first:at]) <= _ABOVE_HEADING
            begin = first if alone else at
            starts.append(_Start(begin, block.text, ranks[block.level], files[number].path))
    return starts


def _with_files(
    files: Sequence[File], offsets: list[int], listed: Sequence[_Start], blocks: list[Block],
    contents: Contents,
) -> list[_Start]:  # fmt: skip
    """Starts of the files that are chapters though no entry leads to them."""
    starts = list(listed)
    known = {start.at for start in listed}
    first = min(known, default=0)
    current = 0  # the level of the heading that the chapter so far began with
    apart = True
    levels = {start.at: _heading_level(blocks, start.at) for start in listed}
    places = sorted(levels)
    position = 0
    for number, file in enumerate(files):
        at, end = offsets[number], offsets[number + 1]
        special = _is_special(file, contents)
        if file.blocks and at not in known:
            level = _heading_level(blocks, at)
            above = bool(level and current and level <= current)
            if at < first or special or apart or file.aside or above:
                starts.append(_Start(at, "", 1, file.path))
                current = level
        while position < len(places) and places[position] < end:
            current = levels[places[position]]
            position += 1
        apart = special or file.aside
    return sorted(starts)


def _heading_level(blocks: list[Block], at: int) -> int:
    """The level of the heading that a chapter begins with, or 0."""
    for block in blocks[at : at + 5]:
        if block.kind == "heading":
            return block.level
        if block.kind not in _SILENT:
            break
    return 0


def _is_special(file: File, contents: Contents) -> bool:
    said = contents.roles.get(file.path, "")
    return (
        file.path == contents.navigation
        or said in ROLES
        or any(each in ROLES for each in file.types)
    )


def _roles(files: Sequence[File], offsets: list[int], contents: Contents) -> dict[int, Role]:
    """What the chapters that begin at the head of a file are said to be."""
    roles: dict[int, Role] = {}
    for file, at in zip(files, offsets, strict=False):
        said = [*file.types, contents.roles.get(file.path, "")]
        if file.path == contents.navigation:
            said.insert(0, "toc")
        role = next((ROLES[each] for each in said if each in ROLES), None)
        if role and file.blocks:
            roles[at] = role
    return roles
