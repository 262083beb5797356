"""Which lines of a plain text begin chapters, how deep each stands, and which only list them.

Three things are known only from the whole: a numeral alone is a chapter if its fellows count up
and text stands between them, a page number if sentences run through it; lines without text
between them, whose like comes again later, are a printed table of contents; and a part stands
above a chapter only where there are parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from anyrig.text.document import Block, Chapter, Role
from anyrig.text.formats.titles import RANK, HeadingLabel, Sort, parse_label

_CLOSED = re.compile(r"""[.!?:;…。！？*\-—_]['"”’»)\]*_]*$""")
_EMPHASIS = re.compile(r"(?<!\w)_|_(?!\w)")
_LONGEST_LIST = 2_000  # entries of one printed table of contents
_LONG = 100  # characters of a block that is surely text and not a line of a title page


@dataclass(frozen=True)
class DivisionEntry:
    """A block of a plain text with what is needed to find chapters."""

    block: Block
    num_lines: int = 1
    gap: int = 0
    """Blank lines before it."""
    label: HeadingLabel | None = None
    listing: bool = False
    """One of several lines in a row that each look like a chapter's."""


Found = dict[int, HeadingLabel]
_Sense = Literal["chapters", "pages", "nothing"]


def cut_divisions(entries: Sequence[DivisionEntry]) -> list[Chapter]:
    """The chapters of a text; what stands before the first heading is one of its own."""
    found = {at: entry.label for at, entry in enumerate(entries) if entry.label is not None}
    blocks = [entry.block for entry in entries]
    for at in [at for at in found if _heads_notes(entries, at)]:
        del found[at]
        blocks[at] = replace(blocks[at], kind="note")
    found = _find_counted(entries, found, blocks)
    listed = _printed_contents(entries, found)
    found |= _named_in_contents(entries, listed, found)
    opened = {at: one for at, one in found.items() if at not in listed}
    if not any(one.sort not in {"named", "contents"} for one in opened.values()):
        opened |= _find_shouted(entries, listed)
    levels = _levels(opened)
    heads = _subtitles(entries, opened)
    return list(_cut(blocks, opened, listed, levels, heads))


def _heads_notes(entries: Sequence[DivisionEntry], at: int) -> bool:
    """Whether a line stands above the notes of a page or chapter, which goes on after them."""
    named = entries[at].block.text.lower().strip(" .:_*") in ("footnotes", "footnote")
    return named and at + 1 < len(entries) and entries[at + 1].block.kind == "note"


def _find_counted(entries: Sequence[DivisionEntry], found: Found, blocks: list[Block]) -> Found:
    """Without the numerals that count no chapters; those that count pages become pages."""
    kept = dict(found)
    sorts: tuple[Sort, ...] = ("numeral", "titled")
    for sort in sorts:
        for roman in (True, False):
            places = [a for a, one in found.items() if one.sort == sort and one.roman == roman]
            sense = _sense(entries, found, places)
            if sense == "chapters":
                continue
            for at in places:
                del kept[at]
                if sense == "pages":
                    blocks[at] = replace(blocks[at], kind="page")
    return kept


def _sense(entries: Sequence[DivisionEntry], found: Found, places: Sequence[int]) -> _Sense:
    """What numerals of one form count."""
    if len(places) < 2:
        return "nothing"
    steps = [(found[first].number, found[second].number) for first, second in pairwise(places)]
    rising = sum(second == first + 1 or second == 1 for first, second in steps)
    if found[places[0]].sort == "numeral" and _through(entries, places) > 0.3 * len(places):
        upward = sum(second > first for first, second in steps)
        return "pages" if upward >= 0.8 * len(steps) else "nothing"
    texts = sum(second > first + 1 for first, second in pairwise(places))
    ordered = found[places[0]].number == 1 and rising >= 0.8 * len(steps)
    return "chapters" if ordered and texts >= 0.4 * len(steps) else "nothing"


def _through(entries: Sequence[DivisionEntry], places: Sequence[int]) -> int:
    """How many of these lines stand in the middle of a sentence."""
    count = 0
    for at in places:
        before = entries[at - 1] if at else None
        if before and before.label is None and not _CLOSED.search(before.block.text[-20:]):
            after = entries[at + 1].block.text if at + 1 < len(entries) else ""
            count += len(before.block.text) > 60 or after[:1].islower()
    return count


def _printed_contents(entries: Sequence[DivisionEntry], found: Found) -> set[int]:
    """The places that belong to a printed table of contents, its heading included."""
    listed: set[int] = set()
    places = sorted(found)
    paths = _paths(found)
    later = dict(zip(paths.values(), paths.keys(), strict=False))  # the last place of each
    at = 0
    while at < len(places):
        run = _run(entries, places, at, paths)
        again = sum(later[paths[place]] > run[-1] for place in run)
        headed = found[run[0]].sort == "contents"
        if _is_contents(run, headed, again):
            end = run[-1] + 1
            while headed and end < len(entries) and _is_list(entries, end, found):
                end += 1
            listed.update(range(run[0], end))
        at += len(run)
    return listed


def _named_in_contents(entries: Sequence[DivisionEntry], listed: set[int], found: Found) -> Found:
    """Lines that stand alone and are rows of the printed table of contents word for word."""
    rows = {_letters(row) for at in listed for row in entries[at].block.text.split("\n")}
    rows -= {_letters(entries[at].block.text) for at in listed if _heads_contents(found.get(at))}
    return {
        at: HeadingLabel("named", 0, entry.block.text)
        for at, entry in enumerate(entries)
        if at not in listed and at not in found and entry.gap and entry.num_lines <= 2
        and entry.block.kind == "paragraph" and len(entry.block.text) < _LONG
        and len(letters := _letters(entry.block.text)) > 3 and letters in rows
    }  # fmt: skip


def _heads_contents(label: HeadingLabel | None) -> bool:
    return label is not None and label.sort == "contents"


def _letters(text: str) -> str:
    """Without signs, spaces and the number of a page."""
    return re.sub(r"[\W_]+|\d+\s*$", "", text.strip()).casefold()


def _is_contents(run: Sequence[int], headed: bool, again: int) -> bool:
    return headed or (len(run) >= 3 and again >= (len(run) - 1) / 2)


def _run(
    entries: Sequence[DivisionEntry],
    places: Sequence[int],
    at: int,
    paths: dict[int, tuple[str, ...]],
) -> list[int]:
    """Headings from one on with no text between, up to one that comes for the second time."""
    run = [places[at]]
    seen = {paths[places[at]]}
    for index in range(at + 1, min(at + _LONGEST_LIST, len(places))):
        place = places[index]
        between = entries[run[-1] + 1 : place]
        if paths[place] in seen or len(between) > 2 or not all(map(_is_slight, between)):
            break
        run.append(place)
        seen.add(paths[place])
    return run


def _is_slight(entry: DivisionEntry) -> bool:
    return entry.block.kind in {"rule", "page"} or len(entry.block.text) < 80


def _is_list(entries: Sequence[DivisionEntry], at: int, found: Found) -> bool:
    """Whether an entry under a heading "Contents" still belongs to the list."""
    entry = entries[at]
    if at in found and not entry.listing:
        return False
    if entry.listing or entry.block.kind in {"table", "poem", "item", "rule"}:
        return True
    return len(entry.block.text) < 80 and entry.gap <= 2 and not _CLOSED.search(entry.block.text)


def _paths(found: Found) -> dict[int, tuple[str, ...]]:
    """Of each heading, what tells it from all others: those above it, its sort and its number."""
    paths: dict[int, tuple[str, ...]] = {}
    above: list[tuple[int, str]] = []
    for at in sorted(found):
        one = found[at]
        rank = RANK.get(one.sort, 0)
        name = f"{one.sort} {one.number}" + (one.title.lower() if one.sort == "named" else "")
        above = [higher for higher in above if rank and higher[0] < rank]
        paths[at] = (*(text for _, text in above), name)
        if rank:
            above.append((rank, name))
    return paths


def _find_shouted(entries: Sequence[DivisionEntry], listed: set[int]) -> Found:
    """Lines in capitals with room above and below, where a text has no other headings."""
    found: Found = {}
    for at, entry in enumerate(entries[:-1]):
        text = entry.block.text
        roomy = (entry.gap >= 2 or at == 0) and entries[at + 1].gap >= 1
        if at in listed or not roomy or entry.num_lines > 2 or not 3 <= len(text) <= 80:
            continue
        plain = entry.block.kind == "paragraph" and not _heads_notes(entries, at)
        if text.isupper() and plain:
            found[at] = HeadingLabel("chapter", 0, text)
    return found if len(found) >= 2 else {}


def _levels(opened: Found) -> dict[int, int]:
    """How deep each heading stands: the sorts that are there, from the highest down."""
    ranks = sorted({RANK[one.sort] for one in opened.values() if one.sort in RANK})
    depth = {rank: level for level, rank in enumerate(ranks, 1)}
    return {
        at: depth[RANK[one.sort]] if one.sort in RANK else 1 for at, one in sorted(opened.items())
    }


def _subtitles(entries: Sequence[DivisionEntry], opened: Found) -> dict[int, int]:
    """The place of the title that stands alone under a heading without one."""
    under: dict[int, int] = {}
    for at, one in opened.items():
        place = at + 1
        if one.title or one.sort == "contents" or place >= len(entries) - 1 or place in opened:
            continue
        if _is_subtitle(entries[place]):
            under[at] = place
    return under


def _is_subtitle(entry: DivisionEntry) -> bool:
    text = entry.block.text
    if entry.num_lines > 3 or len(text) > 120 or entry.block.kind not in {"paragraph", "poem"}:
        return False
    if text.isupper() and re.search(r"[^\W\d_]{2}", text):
        return True
    if text[0] in "\"'“‘«„[(" or re.search(r"[.,;:…][\"'”’»]?$", text) or len(text) > 70:
        return False
    long_words = [word for word in re.findall(r"[^\W\d_]+", text) if len(word) > 3]
    capitals = sum(word[0].isupper() for word in long_words)
    return text[0].isupper() and capitals >= 0.6 * len(long_words)


def _cut(
    blocks: Sequence[Block],
    opened: Found,
    listed: set[int],
    levels: dict[int, int],
    under: dict[int, int],
) -> Iterator[Chapter]:
    starts = set(opened)
    if listed:
        starts |= {at for at in listed if at - 1 not in listed}
        starts |= {at + 1 for at in listed if at + 1 not in listed}
    bounds = sorted({0, *(at for at in starts if at < len(blocks)), len(blocks)})
    for start, end in pairwise(bounds):
        yield _chapter(blocks, start, end, opened, listed, levels, under)


def _chapter(
    blocks: Sequence[Block],
    start: int,
    end: int,
    opened: Found,
    listed: set[int],
    levels: dict[int, int],
    under: dict[int, int],
) -> Chapter:
    part = list(blocks[start:end])
    if start in listed:
        return _contents(part)
    if start not in opened:
        return Chapter("", tuple(part), role=_role(part, more=end < len(blocks)))
    level = levels[start]
    part[0] = replace(part[0], kind="heading", level=level)
    title = _without_signs(part[0])
    if start in under and under[start] < end:
        sub = under[start] - start
        part[sub] = replace(part[sub], kind="heading", level=level)
        title = title + (" " if title[-1] in ".:!?—-" else ". ") + " ".join(part[sub].text.split())
    return Chapter(" ".join(_EMPHASIS.sub("", title).split()), tuple(part), level)


def _without_signs(block: Block) -> str:
    """The text of a heading, less the signs of its notes."""
    text = block.text
    for one in reversed(block.inlines):
        if one.kind == "noteref":
            text = text[: one.start] + text[one.end :]
    return text.strip() or block.text


def _contents(part: list[Block]) -> Chapter:
    named = parse_label(part[0].text)
    headed = named is not None and named.sort == "contents"
    if headed:
        part[0] = replace(part[0], kind="heading", level=1)
    return Chapter(part[0].text if headed else "", tuple(part), role="contents")


def _role(part: Sequence[Block], *, more: bool) -> Role:
    """A few short lines before the first heading are a title page; anything longer is text."""
    slight = sum(len(block.text) for block in part) < 1000
    lines = all(len(block.text) < _LONG for block in part)
    return "title" if more and slight and lines else "body"
