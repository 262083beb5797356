"""A page of (X)HTML as blocks: what a browser would show, in order, each named for what it is.

    blocks("<p>One</p><p>Two</p>")        blocks of one page, notes settled
    flow(root, resolve=..., style=...)    the same of one file among several, with its ids

The tree is walked once and without recursion. Ids are kept, so that a table of contents can cut
a file; links that look like references are kept, so that notes in another file can be found
(`markup_notes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from lxml import etree

from anyrig.text.document import Block
from anyrig.text.formats import markup_elements as elements
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.markup_elements import CssStyle
from anyrig.text.formats.markup_line import MarkupFlow
from anyrig.text.formats.markup_notes import resolve_notes
from anyrig.text.formats.markup_walk import MarkupWalker
from anyrig.text.formats.paragraphs import is_rule
from anyrig.text.formats.xml import ILLEGAL, parse_page, parse_page_text

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def build_blocks(source: Element | str | bytes, *, skip: Collection[str] = ()) -> list[Block]:
    """The blocks of one page.

    Args:
        source: a tree, or the page itself.
        skip: names of elements that are left out with all they hold, such as `nav`.
    """
    if isinstance(source, bytes):
        source = parse_page(source, name="the page", limits=Limits())
    elif isinstance(source, str):
        source = parse_page_text(source, name="the page")
    return resolve_notes([build_flow(source, skip=skip)])[0]


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
    skip: Collection[str] = (),
) -> MarkupFlow:  # fmt: skip
    """A page as blocks, notes not yet settled.

    Args:
        root: of the tree, from `xml.page`.
        resolve: a reference as the key of what it names, in this file or another; empty if none.
        style: what the page's style sheets hide.
        skip: names of elements that are left out with all they hold.
    """
    walk = MarkupWalker(resolve, style, elements.SKIPPED.union(skip))
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        if event == "start":
            if not walk.begin(element):
                walker.skip_subtree()
        else:
            walk.end(element)
    walk.flush()
    return walk.flow


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
