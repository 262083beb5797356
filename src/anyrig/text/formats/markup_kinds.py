"""What the blocks inside an element are: the context of a walk, and the block it ends in."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from anyrig.text.document import Block, BlockKind, Inline
from anyrig.text.formats import markup_elements as elements
from anyrig.text.formats.markup_elements import Said
from anyrig.text.formats.markup_line import Line, in_order
from anyrig.text.formats.xml import local

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

LOOKED_AT = 3_000
"""Descendants that are seen to tell what an element is: a bound, since they nest."""
_LONGEST_HEADING = 400  # longer ones are a heading that was never closed
_LONGEST_VERSE = 60  # characters of a line that its author ended by hand
_FEWEST_VERSES = 3
_LAYING_OUT = frozenset("table h1 h2 h3 h4 h5 h6 ul ol dl pre hr blockquote section".split())


class Context(NamedTuple):
    """What holds for text at some place of a page."""

    kind: BlockKind = "paragraph"
    level: int = 0
    language: str = ""
    note: str = ""
    notes: bool = False
    raw: bool = False
    poem: bool = False
    table: bool = False


def within(tag: str, said: Said, outer: Context, key: str, element: Element) -> Context:
    """What holds inside of a block element."""
    if said is elements.NOTHING and tag in ("p", "div"):
        return outer
    inner = outer._replace(language=said.language or outer.language)
    if tag in ("html", "body"):
        return outer
    if said.notes:
        return inner._replace(kind="note", notes=True, note="")
    if said.note or outer.notes and key and not outer.note:
        return inner._replace(kind="note", note=key or outer.note, notes=False)
    if tag in elements.HEADINGS or "heading" in said.types:
        return _heading(tag, outer, inner, element)
    if tag in ("pre", "listing", "xmp"):
        kind: BlockKind = "poem" if outer.poem or said.poem else "code"
        return inner._replace(kind=_unless_note(kind, outer), raw=True)
    if said.poem:
        return inner._replace(kind=_unless_note("poem", outer), poem=True)
    if tag == "table" and _holds_data(element):
        return inner._replace(kind=_unless_note("table", outer), table=True)
    if tag == "caption":
        return inner._replace(kind=_unless_note("paragraph", outer), table=False)
    kind = outer.kind if outer.poem else _plain_kind(tag, outer)
    return inner._replace(kind=kind, raw=outer.raw and kind == outer.kind)


def _plain_kind(tag: str, outer: Context) -> BlockKind:
    kinds: dict[str, BlockKind] = {"li": "item", "dt": "item", "dd": "item", "blockquote": "quote"}
    return _unless_note(kinds[tag], outer) if tag in kinds else outer.kind


def _heading(tag: str, outer: Context, inner: Context, element: Element) -> Context:
    if outer.kind == "note" and outer.note:
        return inner
    given = element.get("aria-level") or ""
    level = int(given) if given.isdecimal() and len(given) < 3 else elements.HEADINGS.get(tag, 2)
    return inner._replace(kind="heading", level=max(level, 1), poem=False, raw=False)


def _unless_note(kind: BlockKind, outer: Context) -> BlockKind:
    return "note" if outer.kind == "note" else kind


def block_of(text: str, line: Line, context: Context, cut: int) -> Block:
    """A block of what was gathered.

    Args:
        text: of the line, without what does not count at its ends.
        line: what was gathered.
        context: where it stands.
        cut: how many characters were cut off at the beginning.
    """
    kind: BlockKind = context.kind
    if kind == "heading" and len(text) > _LONGEST_HEADING:
        kind = "paragraph"
    if kind in ("paragraph", "quote") and line.num_breaks + 1 >= _FEWEST_VERSES and _is_verse(text):
        kind = "poem"
    if kind not in ("poem", "code", "table"):
        text = text.replace("\n", " ").replace("\t", " ")
    shifted = [
        Inline(max(each.start - cut, 0), max(each.end - cut, 0), each.kind, each.value)
        for each in line.inlines
    ]
    inlines = in_order(shifted, text)
    language = context.language
    if (
        inlines
        and inlines[0].kind == "language"
        and (inlines[0].start, inlines[0].end) == (0, len(text))
    ):
        language, inlines = inlines[0].value, inlines[1:]
    level = context.level if kind == "heading" else 0
    return Block(text, kind, level, language, context.note if kind == "note" else "", 0, inlines)


def _is_verse(text: str) -> bool:
    lines = text.split("\n")
    return len(lines) >= _FEWEST_VERSES and max(map(len, lines)) <= _LONGEST_VERSE


def _holds_data(table: Element) -> bool:
    """Whether a table is one, and not a way to lay out a page."""
    role = (table.get("role") or "").lower()
    if role in ("presentation", "table"):
        return role == "table"
    widest = 0
    for each in islice(table.iter(), 1, LOOKED_AT):
        name = local(each)
        if name in _LAYING_OUT:
            return False
        if name == "tr":
            widest = max(widest, len(each))
        elif name in ("td", "th") and sum(local(inner) in ("p", "div") for inner in each) > 1:
            return False
    return widest > 1
