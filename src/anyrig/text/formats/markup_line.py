"""What a page is read into, and the text of one block while it is gathered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from anyrig.text.document import Block, Inline

# Marks of where a word may be broken, and of byte order: no part of the text.
_UNSEEN = str.maketrans("", "", "\u00ad\u200b\ufeff\u2060")
_UNSEEN_SIGNS = ("\u00ad", "\u200b", "\ufeff", "\u2060")
# A space that holds the digits of one number together says so, and is kept.
_IN_NUMBER = re.compile("(?<=\\d)[\u00a0\u202f\u2009](?=\\d{3}(?!\\d))")
_HELD = "\ue0ff"
_RAISED = str.maketrans("0123456789+-\u2212=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")
_FIGURES = re.compile(r"[-+\u2212]?\d{1,4}$")


class MarkupLink(NamedTuple):
    """A short link that may be the reference of a note, or the way back from one."""

    start: int
    end: int
    target: str
    sure: bool
    """Whether the file says that it is one."""
    back: bool
    """Whether the file says that it leads back."""
    likely: bool = True
    """Whether it looks like one anywhere, not just inside of a note."""
    block: int = -1


@dataclass
class MarkupFlow:
    """One page, read."""

    blocks: list[Block] = field(default_factory=list)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of every id: its first block, and the one after its last."""
    links: list[MarkupLink] = field(default_factory=list)
    language: str = ""
    """Of the page as a whole."""
    types: tuple[str, ...] = ()
    """What the page, or what it begins with, is said to be (`epub:type`)."""


@dataclass
class LineBuilder:
    """The text gathered so far."""

    parts: list[str] = field(default_factory=list)
    length: int = 0
    """Of what is gathered, without a space that may yet come."""
    space: bool = False
    inlines: list[Inline] = field(default_factory=list)
    links: list[MarkupLink] = field(default_factory=list)
    anchors: list[tuple[str, int]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    num_breaks: int = 0

    def is_new(self) -> bool:
        """Whether there is nothing in it that a block could be made of; it can be used again."""
        self.space = False
        return not (self.parts or self.anchors or self.images or self.inlines or self.num_breaks)

    def add(self, text: str) -> None:
        """Text of an element, its white space as one."""
        text = _remove_unseen(text)
        if not text:
            return
        words = _held(text).split()
        if not words:
            self.space = True
            return
        if (self.space or text[0].isspace()) and self.length and not self._after_break():
            self._put(" ")
        self._put(" ".join(words).replace(_HELD, "\u00a0"))
        self.space = text[-1].isspace()

    def add_raw(self, text: str) -> None:
        """Text whose white space counts."""
        text = _remove_unseen(text.replace("\r\n", "\n").replace("\r", "\n"))
        if text:
            self._put(text)

    def end_line(self) -> None:
        """The end of a line inside the block; white space around it goes."""
        self.num_breaks += 1
        self.space = False
        if self.length:
            self._put("\n")

    def put(self, sign: str) -> None:
        """A sign that parts cells or rows."""
        self.space = False
        self._put(sign)

    def raise_figures(self, first: int) -> None:
        """Figures that stand high, from a part on, as such: 10<sup>6</sup> is not 106."""
        text = "".join(self.parts[first:])
        if _FIGURES.match(text) and first and not self.parts[first - 1][-1:].isspace():
            self.parts[first:] = [text.translate(_RAISED)]

    def text(self) -> str:
        """All of it."""
        return "".join(self.parts)

    def last(self) -> str:
        """The last character, or nothing."""
        return self.parts[-1][-1:] if self.parts else ""

    def _put(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def _after_break(self) -> bool:
        return self.parts[-1][-1] in "\n\t"


def _remove_unseen(text: str) -> str:
    if text.isascii() or not any(sign in text for sign in _UNSEEN_SIGNS):
        return text
    return text.translate(_UNSEEN)


def _held(text: str) -> str:
    return text if text.isascii() else _IN_NUMBER.sub(_HELD, text)


def sort_inlines(inlines: Iterable[Inline], text: str) -> tuple[Inline, ...]:
    """Inlines without the white space before them, sorted, none over another but a language."""
    kept: list[Inline] = []
    ends = {"language": 0, "other": 0}
    for inline in sorted(inlines, key=lambda each: (each.start, -each.end)):
        start, end = inline.start, min(inline.end, len(text))
        while start < end and text[start].isspace():
            start += 1
        start = min(start, end)
        track = "language" if inline.kind == "language" else "other"
        if start < ends[track] or (inline.kind == "language" and start == end):
            continue
        ends[track] = end
        kept.append(Inline(start, end, inline.kind, inline.value))
    return tuple(kept)
