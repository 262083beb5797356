"""Lines put together to a text: a word broken at a line's end becomes whole again.

A hyphen at a line's end either breaks a word or belongs to a compound. What the document itself
writes elsewhere decides; where it says nothing, two halves that are both words of their own are a
compound, and anything else is a broken word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from anyrig.text.formats.pdf_lines import PdfLine

_SOFT = "\u00ad"
_HYPHENS = "-\u2010\u2011" + _SOFT
_DASHES = "\u2014\u2015"
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019\u2010-][^\W\d_]+)*")
# Closed words of two halves that are words: the document need not write them elsewhere.
_FIRST = "any every some no with him her it them my your our one every"
_SECOND = "self selves thing things where body one out in ever more how what time times way ways"
_CLOSED = {(one, two) for one in _FIRST.split() for two in _SECOND.split()} - {("no", "one")}
_TENS = frozenset("twenty thirty forty fifty sixty seventy eighty ninety".split())
_OPENERS = _TENS | frozenset("well self half ill ex all cross vice".split())


class Words:
    """What a document writes inside its lines."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._seen: set[str] = set()
        for line in lines:
            found = _WORD.findall(line.casefold().replace("\u2010", "-"))
            # The last word may be broken, and the first its other half.
            end = -1 if line[-1:] in _HYPHENS else None
            self._seen.update(found[1:end])
            self._seen.update(
                part for word in found[1:end] if "-" in word for part in word.split("-")
            )

    def __contains__(self, word: str) -> bool:
        return word.casefold() in self._seen

    def joins(self, one: str, two: str) -> bool:
        """Whether two halves are one word, without a hyphen."""
        if f"{one}{two}" in self:
            return True
        if f"{one}-{two}" in self:
            return False
        last, first = one.casefold().rpartition("-")[2], two.casefold().partition("-")[0]
        if (last, first) in _CLOSED:
            return True
        if last in _OPENERS or "-" in one:
            return False
        return not (last in self and first in self and len(last) > 2 and len(first) > 2)


class Raised(NamedTuple):
    """A stretch of small type above the line."""

    start: int
    end: int
    page: int


class Joined(NamedTuple):
    """Some lines as one text."""

    text: str
    raised: list[Raised]
    breaks: tuple[tuple[int, int], ...]
    """Where a word begins that stands on another page, and that page."""


def join_lines(lines: Sequence[PdfLine], words: Words) -> Joined:
    """The text of some lines, the stretches of it that are raised, and where pages begin."""
    text = ""
    raised: list[Raised] = []
    breaks: list[tuple[int, int]] = []
    page = lines[0].page if lines else 0
    for line in lines:
        text, gap = _before(text, line.text, words)
        start = len(text) + len(gap)
        if line.page != page:
            page = line.page
            breaks.append((start if gap else text.rfind(" ") + 1, page))
        text = f"{text}{gap}{line.text}"
        raised += [Raised(start + begin, start + end, line.page) for begin, end in line.raised]
    if _SOFT not in text:
        return Joined(text, raised, tuple(breaks))

    def move(position: int) -> int:
        """Soft hyphens inside a line are not visible."""
        return position - text.count(_SOFT, 0, position)

    return Joined(
        text.replace(_SOFT, ""),
        [Raised(move(start), move(end), page) for start, end, page in raised],
        tuple((move(start), page) for start, page in breaks),
    )


def _before(text: str, following: str, words: Words) -> tuple[str, str]:
    """The text so far, less a hyphen that only broke a word; and what parts it from the next."""
    if not text:
        return "", ""
    if text[-1] == _SOFT:
        return text[:-1], ""
    if text[-1] in _DASHES and text[-2:-1] != " ":
        return text, ""
    if text[-1] not in _HYPHENS or len(text) < 2 or not text[-2].isalnum():
        return (text, "") if _is_east(text[-1]) and _is_east(following[:1]) else (text, " ")
    one = re.search(r"[^\W\d_]+(?:-[^\W\d_]+)*$", text[:-1])
    two = re.match(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*", following)
    if one is None or two is None:
        return text, ""
    is_capitals = one[0].isupper() and two[0].isupper() and len(one[0]) > 1
    if not (two[0][0].islower() or is_capitals):
        return text, ""
    if _hangs(one[0], two[0]):
        return text, " "
    return (text[:-1], "") if words.joins(one[0], two[0]) else (text, "")


_LINKS = frozenset("and or und oder et ou y o e bis to".split())


def _hangs(one: str, two: str) -> bool:
    """A hyphen that waits for a later half: pre- and post-war."""
    return two.casefold() in _LINKS and len(one) > 1


def _is_east(letter: str) -> bool:
    """Letters of scripts that put no space between words."""
    return bool(letter) and (
        "\u3000" <= letter <= "\u9fff" or "\uf900" <= letter <= "\ufaff" or letter in "\uff0c\uff01"
    )
