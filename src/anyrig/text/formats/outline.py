"""Blocks in a row with headings among them, as chapters: for formats without a table of contents.

A chapter begins at every heading of the three highest levels that a file uses; deeper ones stay
headings inside a chapter. Levels are counted from those in use: a file that begins with its third
level has chapters of level 1 all the same. A file with no heading at all is searched for lines
that read as some, as a plain text is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from anyrig.text.document import Block, Chapter, Role
from anyrig.text.formats import divisions
from anyrig.text.formats.divisions import DivisionEntry
from anyrig.text.formats.titles import HeadingLabel, parse_label

_DEPTH = 3
_SLIGHT = 300  # characters: no more than this stands on a title page


def cut_at_headings(
    blocks: Sequence[Block], roles: Mapping[int, Role] | None = None
) -> list[Chapter]:
    """The chapters that the headings make.

    Args:
        blocks: of the whole file, in order.
        roles: of blocks that are not the body, by place; each run of one role is a chapter.
    """
    roles = roles or {}
    if not blocks:
        return []
    used = sorted({one.level for at, one in enumerate(blocks) if _opens(one) and at not in roles})
    depth = {level: place for place, level in enumerate(used[:_DEPTH], 1)}
    if not used:
        return _search_chapters(blocks, roles)
    starts = {0, len(blocks)}
    for at, block in enumerate(blocks):
        before = roles.get(at - 1) if at else None
        if roles.get(at) != before or (_opens(block) and block.level in depth and at not in roles):
            starts.add(at)
    made = [
        _chapter(blocks[start:end], depth, roles.get(start))
        for start, end in pairwise(sorted(starts))
    ]
    return _add_cover(made)


def _search_chapters(blocks: Sequence[Block], roles: Mapping[int, Role]) -> list[Chapter]:
    """Chapters by lines such as "Chapter 1", in a file that marks no headings."""
    made: list[Chapter] = []
    places = [at for at in range(len(blocks)) if not at or roles.get(at) != roles.get(at - 1)]
    for start, end in pairwise([*places, len(blocks)]):
        part, role = blocks[start:end], roles.get(start)
        if role is not None:
            made.append(_chapter(part, {}, role))
        else:
            made += divisions.cut_divisions(
                [DivisionEntry(block, label=_label(block)) for block in part]
            )
    return made


def _label(block: Block) -> HeadingLabel | None:
    return parse_label(block.text) if block.kind == "paragraph" and len(block.text) < 120 else None


def _opens(block: Block) -> bool:
    return block.kind == "heading" and bool(block.text)


def _chapter(part: Sequence[Block], depth: Mapping[int, int], role: Role | None) -> Chapter:
    head = part[0]
    if role is not None:
        title = head.text if _opens(head) else ""
        return Chapter(title, tuple(part), 1, role)
    if not _opens(head):
        return Chapter("", tuple(part))
    return Chapter(head.text, tuple(part), depth.get(head.level, 1))


def find_title(chapters: Sequence[Chapter]) -> int | None:
    """The place of the chapter whose heading is the title of it all: the first, alone on top."""
    numbers = [at for at, chapter in enumerate(chapters) if chapter.role in ("body", "title")]
    if not numbers or not any(_opens(block) for block in chapters[numbers[0]].blocks):
        return None
    first, others = chapters[numbers[0]], [chapters[at] for at in numbers[1:]]
    head = next(block for block in first.blocks if _opens(block))
    if head.level != 1 or not first.title or any(other.level <= first.level for other in others):
        return None
    return numbers[0]


def remove_title(chapters: Sequence[Chapter], at: int) -> list[Chapter]:
    """A title that has no text of its own is the beginning of the first chapter under it."""
    if chapters[at].role != "title" or [one.role for one in chapters[at + 1 : at + 2]] != ["body"]:
        return list(chapters)
    head, first = chapters[at], chapters[at + 1]
    made = [*chapters[:at], replace(first, blocks=head.blocks + first.blocks), *chapters[at + 2 :]]
    return [
        replace(one, level=one.level - 1) if n >= at and one.level > 1 else one
        for n, one in enumerate(made)
    ]


def _add_cover(made: list[Chapter]) -> list[Chapter]:
    """Pictures in front of all are a cover; then the first chapter may be a title page."""
    if len(made) > 1 and made[0].role == "body" and all(map(_is_silent, made[0].blocks)):
        return [replace(made[0], role="cover"), *_title_page(made[1:])]
    return _title_page(made)


def _title_page(made: list[Chapter]) -> list[Chapter]:
    """The first chapter is a title page if it alone stands above the others and says little."""
    first, others = made[0], [each for each in made[1:] if each.role == "body"]
    if first.role != "body" or not others or first.num_characters > _SLIGHT:
        return made
    above = not first.title or all(each.level > first.level for each in others)
    if not above or not all(map(_is_line, first.blocks)):
        return made
    return [replace(first, role="title"), *made[1:]]


def _is_silent(block: Block) -> bool:
    return block.kind in ("image", "rule", "page")


def _is_line(block: Block) -> bool:
    """Whether a block may stand on a title page: a heading, or a line that is no sentence."""
    short = len(block.text) < 100 and not block.text.endswith((".", "!", "?", ":", "”", '"'))
    return block.kind in ("heading", "image", "rule", "page") or short
