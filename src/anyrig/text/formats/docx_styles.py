"""What the styles of a docx say of a paragraph: heading, quote, code, verse, contents.

Word writes the ids of its own styles in the user's language (`berschrift1`), their names always
in English (`heading 1`); an outline level counts whatever the name is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from anyrig.text.formats.office import attribute
from anyrig.text.formats.xml import local

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_HEADING = re.compile(r"heading\s*([1-9])|(?:überschrift|titre|título|titolo|kop)\s*([1-9])")
_CONTENTS = re.compile(
    r"toc\s*[1-9]|toc heading|table of (?:figures|authorities)|contents?\s*[1-9]"
)
_QUOTE = re.compile(r"(?:intense )?quote|block ?text|quotations?|zitat|citation")
_CODE = re.compile(r"html preformatted|(?:source )?code\b.*|preformatted text|macro text")
_VERSE = re.compile(r".*\b(?:verse|poem|poetry|stanza)\b.*")
_DEEPEST = 30  # styles based on styles


class Style(NamedTuple):
    """What is known of one."""

    name: str = ""
    based_on: str = ""
    outline: int = -1
    """From 0; -1 where the style does not say."""
    numbered: bool = False


class Styles:
    """All styles of a file."""

    def __init__(self, root: Element | None) -> None:
        self._styles: dict[str, Style] = {}
        self._chains: dict[str, tuple[Style, ...]] = {}
        self.language = ""
        """The file's own, where its defaults say it."""
        self.default = ""
        for element in root if root is not None else ():
            if local(element) == "style":
                self._styles[attribute(element, "styleId")] = _style(element)
                if attribute(element, "default") in ("1", "true") and _is_paragraph(element):
                    self.default = attribute(element, "styleId")
            elif local(element) == "docdefaults":
                self.language = _language(element)

    def level(self, style: str) -> int:
        """Of a heading, from 1; 0 if the style is none."""
        for one in self._chain(style):
            found = _HEADING.fullmatch(one.name)
            if found:
                return int(found[1] or found[2])
            if one.outline >= 0:
                return one.outline + 1 if one.outline < 9 else 0
        return 0

    def is_title(self, style: str) -> bool:
        """Whether it is the title of the whole."""
        return any(one.name == "title" for one in self._chain(style))

    def is_contents(self, style: str) -> bool:
        """Whether it is a line of a table of contents."""
        return any(_CONTENTS.fullmatch(one.name) for one in self._chain(style))

    def is_quote(self, style: str) -> bool:
        """Whether it is set apart as quoted."""
        return any(_QUOTE.fullmatch(one.name) for one in self._chain(style))

    def is_code(self, style: str) -> bool:
        """Whether it is set as a program's text is."""
        return any(_CODE.fullmatch(one.name) for one in self._chain(style))

    def is_verse(self, style: str) -> bool:
        """Whether its lines count."""
        return any(_VERSE.fullmatch(one.name) for one in self._chain(style))

    def is_numbered(self, style: str) -> bool:
        """Whether it is an item of a list by its style alone."""
        return any(one.numbered for one in self._chain(style))

    def _chain(self, style: str) -> tuple[Style, ...]:
        """A style and those it is based on, the nearest first; asked for at every paragraph."""
        known = self._chains.get(style)
        if known is None:
            known = self._chains[style] = tuple(self._followed(style))
        return known

    def _followed(self, style: str) -> Iterator[Style]:
        for _ in range(_DEEPEST):
            one = self._styles.get(style)
            if one is None:
                if style:
                    yield Style(re.sub(r"(?<=[a-z])(?=\d)", " ", style.lower()))
                return
            yield one
            style = one.based_on


def _style(element: Element) -> Style:
    name, based_on, outline, numbered = "", "", -1, False
    for child in element:
        kind = local(child)
        if kind == "name":
            name = attribute(child, "val").strip().lower()
        elif kind == "basedon":
            based_on = attribute(child, "val")
        elif kind == "ppr":
            outline = outline_of(child)
            numbered = is_numbered(child)
    return Style(name, based_on, outline, numbered)


def outline_of(properties: Element) -> int:
    """The outline level of a paragraph's properties, from 0; -1 where they do not say."""
    for child in properties:
        if local(child) == "outlinelvl":
            value = attribute(child, "val")
            return int(value) if value.isdecimal() and len(value) < 3 else -1
    return -1


def is_numbered(properties: Element) -> bool:
    """Whether a paragraph's properties make it an item of a list."""
    for child in properties:
        if local(child) == "numpr":
            ids = [attribute(each, "val") for each in child if local(each) == "numid"]
            return bool(ids) and ids[0] != "0"
    return False


def _is_paragraph(element: Element) -> bool:
    return attribute(element, "type") == "paragraph"


def _language(defaults: Element) -> str:
    for element in defaults.iter():
        if local(element) == "lang":
            return attribute(element, "val")
    return ""
