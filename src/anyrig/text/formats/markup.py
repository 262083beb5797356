"""A page of (X)HTML as blocks: what a browser would show, in order, each named for what it is.

    build_blocks("<p>One</p><p>Two</p>")        blocks of one page, notes settled
    build_flow(root, resolve=..., style=...)    the same of one file among several, with its ids

The tree is walked once and without recursion. Ids are kept, so that a table of contents can cut
a file; links that look like references are kept, so that notes in another file can be found
(`markup_notes.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree

from anyrig.text.document import Block, BlockKind, Inline
from anyrig.text.formats import markup_elements as elements
from anyrig.text.formats.markup_elements import NOTHING, Attributes, CssStyle, ElementTraits
from anyrig.text.formats.markup_line import LineBuilder, MarkupFlow, MarkupLink, sort_inlines
from anyrig.text.formats.markup_notes import could_be_mark, is_mark, resolve_notes
from anyrig.text.formats.paragraphs import is_rule
from anyrig.text.formats.xml import ILLEGAL, local_name, parse_page_text

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_LONGEST_MARK = 24  # characters of a reference to a note, of a page's number
_OUTERMOST = 4  # the page, its body, and what fills that
_MOST_KNOWN = 10_000
_PERMALINKS = ("¶", "#", "§", "🔗", "\uf0c1")
_UNSEEN_LISTS = frozenset("page-list landmarks doc-pagelist".split())
_LOOKED_AT = 3_000
"""Descendants that are seen to tell what an element is: a bound, since they nest."""
_LONGEST_HEADING = 400  # longer ones are a heading that was never closed
_LONGEST_VERSE = 60  # characters of a line that its author ended by hand
_FEWEST_VERSES = 3
_LAYING_OUT = frozenset("table h1 h2 h3 h4 h5 h6 ul ol dl pre hr blockquote section".split())


def build_blocks(source: str) -> list[Block]:
    """The blocks of one page, which may be a piece of one."""
    return resolve_notes([build_flow(parse_page_text(source, name="the page"))])[0]


def read_blocks(root: Element) -> tuple[list[Block], dict[str, tuple[int, int]]]:
    """The blocks of a file that was renamed to HTML, rows of stars as rules; and where ids are."""
    read = build_flow(root)
    return mark_rules(resolve_notes([read])[0]), read.places


def mark_rules(blocks: list[Block]) -> list[Block]:
    return [
        replace(block, kind="rule") if block.kind == "paragraph" and is_rule(block.text) else block
        for block in blocks
    ]


def _inside(href: str) -> str:
    return href[1:] if href.startswith("#") else ""


def build_flow(
    root: Element, *, resolve: Callable[[str], str] = _inside, style: CssStyle = CssStyle(),  # noqa: B008
) -> MarkupFlow:  # fmt: skip
    """A page as blocks, notes not yet settled.

    Args:
        root: of the tree, from `xml.page`.
        resolve: a reference as the key of what it names, in this file or another; empty if none.
        style: what the page's style sheets hide.
    """
    walker = _MarkupWalker(resolve, style)
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            walker.end(element)
        elif not walker.begin(element):
            walk.skip_subtree()
    walker.flush()
    return walker.flow


class ElementWriter:
    """Writes text and elements into an element of HTML, one after the other."""

    def __init__(self, element: Element) -> None:
        self._element = element
        self._parts: list[str] = []
        self._language = ""

    def write(self, text: str, language: str = "") -> None:
        if language != self._language and text.strip():
            self._flush()
            self._language = language
        self._parts.append(text)

    def append(self, element: Element) -> None:
        self._flush()
        self._element.append(element)

    def close(self, tag: str = "") -> Element:
        """The element, complete; a tag gives it another name."""
        self._flush()
        self._element.tag = tag or self._element.tag
        return self._element

    def _flush(self) -> None:
        # The halves of characters outside the first plane may come one by one.
        units = "".join(self._parts).encode("utf-16-le", "surrogatepass")
        text = ILLEGAL.sub("", units.decode("utf-16-le", "replace"))
        self._parts = []
        if not text:
            return
        if self._language:
            etree.SubElement(self._element, "span", lang=self._language).text = text
        elif len(self._element):
            self._element[-1].tail = text
        else:
            self._element.text = text


# -- what holds inside of an element --------------------------------------------------------------


class _Context(NamedTuple):
    """What holds for text at some place of a page."""

    kind: BlockKind = "paragraph"
    level: int = 0
    language: str = ""
    note: str = ""
    notes: bool = False
    raw: bool = False
    poem: bool = False
    table: bool = False


def _enter_element(
    tag: str, traits: ElementTraits, outer: _Context, key: str, element: Element
) -> _Context:
    """What holds inside of a block element."""
    if traits is elements.NOTHING and tag in ("p", "div"):
        return outer
    inner = outer._replace(language=traits.language or outer.language)
    if tag in ("html", "body"):
        return outer
    if traits.notes:
        return inner._replace(kind="note", notes=True, note="")
    if traits.note or outer.notes and key and not outer.note:
        return inner._replace(kind="note", note=key or outer.note, notes=False)
    if tag in elements.HEADINGS or "heading" in traits.types:
        return _heading(tag, outer, inner, element)
    if tag in ("pre", "listing", "xmp"):
        kind: BlockKind = "poem" if outer.poem or traits.poem else "code"
        return inner._replace(kind=_unless_note(kind, outer), raw=True)
    if traits.poem:
        return inner._replace(kind=_unless_note("poem", outer), poem=True)
    if tag == "table" and _holds_data(element):
        return inner._replace(kind=_unless_note("table", outer), table=True)
    if tag == "caption":
        return inner._replace(kind=_unless_note("paragraph", outer), table=False)
    kind = outer.kind if outer.poem else _plain_kind(tag, outer)
    return inner._replace(kind=kind, raw=outer.raw and kind == outer.kind)


def _plain_kind(tag: str, outer: _Context) -> BlockKind:
    kinds: dict[str, BlockKind] = {"li": "item", "dt": "item", "dd": "item", "blockquote": "quote"}
    return _unless_note(kinds[tag], outer) if tag in kinds else outer.kind


def _heading(tag: str, outer: _Context, inner: _Context, element: Element) -> _Context:
    if outer.kind == "note" and outer.note:
        return inner
    given = element.get("aria-level") or ""
    level = int(given) if given.isdecimal() and len(given) < 3 else elements.HEADINGS.get(tag, 2)
    return inner._replace(kind="heading", level=max(level, 1), poem=False, raw=False)


def _unless_note(kind: BlockKind, outer: _Context) -> BlockKind:
    return "note" if outer.kind == "note" else kind


def _build_block(text: str, line: LineBuilder, context: _Context, cut: int) -> Block:
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
    inlines = sort_inlines(shifted, text)
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
    for each in islice(table.iter(), 1, _LOOKED_AT):
        name = local_name(each)
        if name in _LAYING_OUT:
            return False
        if name == "tr":
            widest = max(widest, len(each))
        elif name in ("td", "th") and sum(local_name(inner) in ("p", "div") for inner in each) > 1:
            return False
    return widest > 1


# -- the walk --------------------------------------------------------------------------------------


class _Frame(NamedTuple):
    """An open element: what was so when it began."""

    tag: str
    traits: ElementTraits
    context: _Context
    block: bool
    first: int
    start: int
    part: int
    breaks: int
    skipped: bool = False


# Most elements inside a paragraph: they change nothing, and must cost nothing.
_PLAIN_TAGS = frozenset("b i em strong span small big u font cite code tt s abbr".split())
_PLAIN = _Frame("span", NOTHING, _Context(), False, 0, 0, 0, 0)


class _MarkupWalker:
    """The walk through one tree."""

    def __init__(self, resolve: Callable[[str], str], style: CssStyle) -> None:
        self.flow = MarkupFlow()
        self._resolve, self._style = resolve, style
        self._line = LineBuilder()
        self._context = _Context()
        self._frames: list[_Frame] = []
        self._names: dict[str, str] = {}
        self._known: dict[tuple[object, ...], ElementTraits] = {}
        by_id = any("#" in name for name in (*style.hidden, *style.blocks))
        self._own = ("href", "title", "name") if by_id else ("href", "title", "name", "id")
        self._quotes = 0
        self._open = {"a": 0, "sup": 0}
        self._special = {"br": self._break, "hr": self._rule, "img": self._image, "q": self._quote,
                         "svg": self._drawing, "math": self._formula, "tr": self._row,
                         "td": self._cell, "th": self._cell, "wbr": _go_on}  # fmt: skip

    def begin(self, element: Element) -> bool:
        """An element opens; False if what it holds is left out."""
        tag = self._name(element)
        if tag in _PLAIN_TAGS and not element.attrib:
            self._frames.append(_PLAIN)
            if element.text:
                self._add(element.text)
            return True
        traits = self._find_traits(tag, element.attrib) if element.attrib else NOTHING
        block = tag in elements.BLOCKS or traits.block or self._is_verse(tag, traits)
        before = self._context
        if self._left_out(tag, traits, element):
            self._push(tag, traits, before, block=False, skipped=True)
            return False
        if block:
            self._block_begins(tag, traits, element)
        self._push(tag, traits, before, block)
        if len(self._frames) < _OUTERMOST:
            self._note_page(tag, traits)
        special = self._special.get(tag)
        if special and not special(element):
            return False
        if element.text:
            self._add(element.text)
        return True

    def end(self, element: Element) -> None:
        """An element closes, and what follows it is its parent's again."""
        frame = self._frames.pop()
        if frame is _PLAIN:
            if element.tail:
                self._add(element.tail)
            return
        if frame.tag in self._open:
            self._open[frame.tag] -= 1
        if not frame.skipped:
            if not frame.block:
                self._inline_ends(frame, element)
            self._remember(frame)
            if frame.tag == "dd":
                self._extend_term(element)
            if frame.block:
                self._block_ends(frame, element)
        self._context = frame.context
        if element.tail:
            self._add(element.tail)

    def flush(self) -> None:
        """What was gathered, as a block."""
        if self._line.is_new():
            return
        line, self._line = self._line, LineBuilder()
        text = line.text()
        text = text.strip("\n").rstrip() if self._context.raw else text.rstrip("\n\t ")
        cut = len(line.text()) - len(line.text().lstrip("\n")) if self._context.raw else 0
        index = len(self.flow.blocks)
        if text.strip():
            self.flow.blocks.append(_build_block(text, line, self._context, cut))
            self.flow.links += [link._replace(block=index) for link in line.links]
        for key, offset in line.anchors:
            # One at the very end of a paragraph is there for what comes next.
            at = index + 1 if text and offset >= len(text) and offset > 0 else index
            self.flow.places.setdefault(key, (at, at + 1))
        for alt in line.images:
            self.flow.blocks.append(Block(alt, "image", language=self._context.language))

    def _push(
        self,
        tag: str,
        traits: ElementTraits,
        before: _Context,
        block: bool,
        skipped: bool = False,
    ) -> None:
        line = self._line
        if tag in self._open:
            self._open[tag] += 1
        self._frames.append(
            _Frame(tag, traits, before, block, len(self.flow.blocks), line.length, len(line.parts),
                   line.num_breaks, skipped)
        )  # fmt: skip

    def _name(self, element: Element) -> str:
        tag = element.tag
        if not isinstance(tag, str):
            return ""
        name = self._names.get(tag)
        if name is None:
            name = self._names[tag] = local_name(element)
        return name

    def _find_traits(self, tag: str, attributes: Attributes) -> ElementTraits:
        """What attributes say; but for their own names, most elements say one of a few things."""
        given = attributes.items()
        key = (tag, *((name, value) for name, value in given if name not in self._own))
        traits = self._known.get(key)
        if traits is None:
            traits = elements.find_traits(tag, attributes, self._style)
            if len(self._known) < _MOST_KNOWN:
                self._known[key] = traits
        name = (attributes.get("name") or "").strip() if tag == "a" else ""
        identity = (attributes.get("id") or "").strip()
        if (traits.id, traits.name) != (identity, name):
            traits = traits._replace(id=identity, name=name)
        return traits

    def _add(self, text: str) -> None:
        if self._context.raw:
            self._line.add_raw(text)
        else:
            self._line.add(text)

    def _left_out(self, tag: str, traits: ElementTraits, element: Element) -> bool:
        if not tag or tag in elements.SKIPPED or tag == "case" and self._in_switch():
            return True
        if any(each in _UNSEEN_LISTS for each in traits.types):
            return True
        if tag == "a" and (element.text or "").strip() in _PERMALINKS and not len(element):
            # The sign that links a heading to itself, also where no class says so.
            return self._context.kind == "heading" or "headerlink" in traits.classes
        if not (traits.hidden or traits.aside):
            return False
        if traits.page:
            self._page(traits, element, "")
        return not (traits.note or traits.notes or _holds_notes(element))

    def _in_switch(self) -> bool:
        return bool(self._frames) and self._frames[-1].tag == "switch"

    def _is_verse(self, tag: str, traits: ElementTraits) -> bool:
        return tag == "span" and self._context.poem and any(
            each.startswith(("line", "verse")) or each == "l" for each in traits.classes
        )  # fmt: skip

    def _note_page(self, tag: str, traits: ElementTraits) -> None:
        if tag in ("html", "body") and traits.language:
            self.flow.language = traits.language
        if not self.flow.blocks and traits.types:
            self.flow.types += traits.types

    # Blocks

    def _block_begins(self, tag: str, traits: ElementTraits, element: Element) -> None:
        context = self._context
        if context.table and tag != "caption" or context.kind == "heading" and tag != "p":
            self._line.space = True
            return
        if context.poem and not traits.poem and tag in ("p", "div", "li", "span"):
            self._end_verse()
        elif tag not in elements.BLOCKS and context.kind != "heading":
            self._end_verse()  # an inline element that a style sheet sets on lines of its own
            return
        else:
            self.flush()
        self._context = _enter_element(tag, traits, context, self._key(traits), element)

    def _block_ends(self, frame: _Frame, element: Element) -> None:
        outer = frame.context
        if outer.table and frame.tag != "caption" or outer.kind == "heading" and frame.tag != "p":
            self._line.space = True
            return
        line = self._line
        verses = outer.poem and not frame.traits.poem and frame.tag in ("p", "div", "li", "span")
        ended = line.num_breaks > frame.breaks or line.length == frame.start
        if frame.traits.page and self._is_short_page(frame):
            self._page_block(frame.traits, element)
        elif (verses and not ended) or frame.tag not in elements.BLOCKS:
            self._end_verse()
        else:
            self.flush()

    def _end_verse(self) -> None:
        if self._line.length and self._line.last() != "\n":
            self._line.end_line()
            self._line.num_breaks -= 1

    def _break(self, element: Element) -> bool:
        context, line = self._context, self._line
        if context.raw:
            line.add_raw("\n")
        elif context.table or context.kind == "heading":
            line.space = True
        elif line.last() == "\n":
            self.flush()  # two of them part paragraphs, or stanzas
        elif line.length:
            line.end_line()
        return False

    def _rule(self, element: Element) -> bool:
        self.flow.blocks.append(Block("", "rule"))
        return False

    def _row(self, element: Element) -> bool:
        if self._context.table and self._line.length:
            self._line.put("\n")
        return True

    def _cell(self, element: Element) -> bool:
        if self._context.table and element.getprevious() is not None:
            self._line.put("\t")
        return True

    # Inlines

    def _inline_ends(self, frame: _Frame, element: Element) -> None:
        traits, line = frame.traits, self._line
        if frame.tag == "a":
            self._link_ends(frame, element)
        elif frame.tag == "q":
            self._quotes -= 1
            line.add("”" if self._quotes % 2 == 0 else "’")
        elif frame.tag == "sup" and not self._has_link(frame):
            line.raise_figures(frame.part)
        if traits.page and line.length - frame.start <= _LONGEST_MARK and not element.get("href"):
            self._page(traits, element, "".join(line.parts[frame.part :]), frame)
        if traits.language and traits.language != self._context.language:
            line.inlines.append(Inline(frame.start, line.length, "language", traits.language))

    def _has_link(self, frame: _Frame) -> bool:
        links = self._line.links
        return self._open["a"] > 0 or bool(links) and links[-1].start >= frame.start

    def _link_ends(self, frame: _Frame, element: Element) -> None:
        if self._line.length - frame.start > _LONGEST_MARK:
            return
        href = (element.get("href") or "").strip()
        text = "".join(self._line.parts[frame.part :]).strip()
        if not href:
            return
        sure = "noteref" in frame.traits.types or "doc-noteref" in frame.traits.types
        back = any(each in frame.traits.types for each in ("backlink", "doc-backlink"))
        raised = self._open["sup"] > 0 or any(
            local_name(each) in ("sup", "img") for each in islice(element.iter(), 8)
        )
        clues = " ".join((*frame.traits.classes, href.rpartition("#")[2], frame.traits.id))
        likely = sure or back or is_mark(text, raised=raised, clues=clues)
        target = self._resolve(href) if likely or could_be_mark(text) else ""
        if target:
            link = MarkupLink(frame.start, self._line.length, target, sure, back, likely)
            self._line.links.append(link)

    def _quote(self, element: Element) -> bool:
        self._line.add("“" if self._quotes % 2 == 0 else "‘")
        self._quotes += 1
        return True

    def _image(self, element: Element) -> bool:
        alt = _find_alternative_text(element)
        if any(open.tag == "a" and "noteref" in open.traits.types for open in self._frames[-3:]):
            return False
        if len(alt) == 1 and (element.tail or "")[:1].isalpha():
            self._line.add(alt)  # a picture of the first letter
        elif alt and self._context.table:
            self._line.add(f" {alt} ")
        else:
            self._show(alt)
        return False

    def _drawing(self, element: Element) -> bool:
        self._show(_read_drawing(element))
        return False

    def _show(self, alt: str) -> None:
        """A picture: after the block that it stands in, if one is open."""
        if alt and self._line.length:
            self._line.images.append(alt)
        elif alt:
            self.flow.blocks.append(Block(alt, "image", language=self._context.language))

    def _formula(self, element: Element) -> bool:
        words = _read_formula(element)
        self._line.add(f" {words} " if element.get("display") == "block" else words)
        return False

    # Pages and places

    def _is_short_page(self, frame: _Frame) -> bool:
        return (
            self._line.length - frame.start <= _LONGEST_MARK
            and len(self.flow.blocks) == frame.first
        )

    def _page_block(self, traits: ElementTraits, element: Element) -> None:
        label = elements.page_label(traits, element.attrib, self._line.text())
        self._line = LineBuilder()
        self.flow.blocks.append(Block(label, "page"))

    def _page(
        self, traits: ElementTraits, element: Element, text: str, frame: _Frame | None = None
    ) -> None:
        """The start of a page: inside a block if one is open, else between two."""
        label = elements.page_label(traits, element.attrib, text or (element.text or "")[:40])
        outside = not self._frames or self._frames[-1].tag in elements.CONTAINERS
        start = frame.start if frame else self._line.length
        if outside and start == 0 and self._line.length == len(text):
            self._line = LineBuilder()
            self.flow.blocks.append(Block(label, "page"))
        else:
            self._line.inlines.append(Inline(start, self._line.length, "page", label))

    def _key(self, traits: ElementTraits) -> str:
        return self._resolve(f"#{traits.id}") if traits.id else ""

    def _remember(self, frame: _Frame) -> None:
        if frame.traits is NOTHING:
            return
        for name in {frame.traits.id, frame.traits.name} - {""}:
            key = self._resolve(f"#{name}")
            if not frame.block:
                self._remember_inline(key, frame)
            else:
                end = len(self.flow.blocks) + bool(self._line.length)
                self.flow.places.setdefault(key, (frame.first, max(end, frame.first + 1)))

    def _extend_term(self, meaning: Element) -> None:
        """The place of a term goes on to the end of what it means: so some books write notes."""
        term = meaning.getprevious()
        key = self._resolve(f"#{term.get('id')}") if term is not None and term.get("id") else ""
        if term is not None and self._name(term) == "dt" and key in self.flow.places:
            end = len(self.flow.blocks) + bool(self._line.length)
            self.flow.places[key] = (self.flow.places[key][0], end)

    def _remember_inline(self, key: str, frame: _Frame) -> None:
        if frame.first < len(self.flow.blocks):  # it held blocks
            end = len(self.flow.blocks) + bool(self._line.length)
            self.flow.places.setdefault(key, (frame.first, end))
        else:
            self._line.anchors.append((key, frame.start))


def _go_on(element: Element) -> bool:
    return True


_PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".svg", ".webp")


def _find_alternative_text(image: Element) -> str:
    """What stands for a picture in words; empty if that says nothing."""
    alt = " ".join((image.get("alt") or "").split())
    names_file = " " not in alt and alt.lower().endswith(_PICTURES)
    return "" if names_file or not any(map(str.isalnum, alt)) else alt


def _read_drawing(svg: Element) -> str:
    """The words of a drawing: its title, what it says of itself, what is written in it."""
    words = [svg.get("aria-label") or ""]
    words += [
        "".join(each.itertext())
        for each in islice(svg.iter(), _LOOKED_AT)
        if local_name(each) in ("title", "desc", "text")
    ]
    return " ".join(" ".join(words).split())


def _read_formula(math: Element) -> str:
    """A formula as its author says it, else sign by sign."""
    label = (math.get("alttext") or "").strip()
    return label or " ".join(
        (each.text or "").strip()
        for each in islice(math.iter(), _LOOKED_AT)
        if local_name(each) in ("mi", "mn", "mo", "mtext", "ms")
    )


def _holds_notes(element: Element) -> bool:
    """Whether there are notes in it: they are often hidden until they are asked for."""
    return any(
        elements.find_traits("", each.attrib, elements.CssStyle()).note
        for each in islice(element.iter(), _LOOKED_AT)
        if each.attrib
    )
