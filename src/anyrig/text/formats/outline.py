"""Blocks in a row with headings among them, as chapters: for formats without a table of contents.

A chapter begins at every heading of the three highest levels that a file uses; deeper ones stay
headings inside a chapter. Levels are counted from those in use: a file that begins with its third
level has chapters of level 1 all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from anyrig.text.document import Block, Chapter, Role

_DEPTH = 3
_SLIGHT = 300  # characters: no more than this stands on a title page


def chapters(blocks: Sequence[Block], roles: Mapping[int, Role] | None = None) -> list[Chapter]:
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
    starts = {0, len(blocks)}
    for at, block in enumerate(blocks):
        before = roles.get(at - 1) if at else None
        if roles.get(at) != before or (_opens(block) and block.level in depth and at not in roles):
            starts.add(at)
    made = [
        _chapter(blocks[start:end], depth, roles.get(start))
        for start, end in pairwise(sorted(starts))
    ]
    return _titled(made)


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


def _titled(made: list[Chapter]) -> list[Chapter]:
    """The first chapter is a title page if it alone stands above the others and says little."""
    first, others = made[0], [each for each in made[1:] if each.role == "body"]
    if first.role != "body" or not others or first.num_characters > _SLIGHT:
        return made
    headed = first.title and all(each.level > first.level for each in others)
    loose = not first.title and all(len(block.text) < 100 for block in first.blocks)
    if not headed and not loose:
        return made
    return [replace(first, role="title"), *made[1:]]
