"""Where a long text is cut into captions, and a caption into two lines.

Lines are measured as they are seen: a Chinese sign is as wide as two letters.
"""

from __future__ import annotations

import math
import re
import unicodedata

LINE = 42
"""The width of a line, in letters."""
_LINES = 2

# How well a cut reads after each: the end of a sentence best, then of a clause, then a comma.
_GOOD = (
    (re.compile(r"[.!?…。！？]['\")\]’”»]*$"), 40),
    (re.compile(r"[;:—–；：][\"')\]’”»]*$"), 25),
    (re.compile(r"[,，、][\"')\]’”»]*$"), 18),
)
_JOINING = re.compile(
    r"(?:and|or|but|nor|that|which|who|when|while|because|if|than|as|in|on|at|of|to|for|with|from"
    r"|und|oder|aber|dass|et|ou|mais|que|y|o|pero)",
    re.IGNORECASE,
)
_NARROW = ("Mn", "Me", "Cf")


def width(text: str) -> int:
    """How wide the text is, in letters."""
    return sum(_width(sign) for sign in text)


def _width(sign: str) -> int:
    if sign.isascii():
        return 1
    if unicodedata.category(sign) in _NARROW:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def wrapped(text: str) -> list[str] | None:
    """The text in at most two lines, the second not shorter if it can be; None if it is longer."""
    if width(text) <= LINE:
        return [text]
    whole = width(text)
    best: tuple[float, int] | None = None
    for place in breaks(text):
        first = width(text[:place].rstrip())
        second = whole - width(text[:place])
        if first > LINE or second > LINE:
            continue
        cost = abs(first - second) + (3 if first > second else 0) - _quality(text, place) / 4
        if best is None or cost < best[0]:
            best = (cost, place)
    if best is None:
        return None
    return [text[: best[1]].rstrip(), text[best[1] :].lstrip()]


def pieces(text: str, at_least: int = 1) -> list[str]:
    """The text in pieces that each fit a caption, cut where a reader would pause.

    `at_least` so many, where there are words enough: for a text that is spoken slowly.
    """
    found = []
    rest = text
    left = max(1, at_least)
    while left > 1 or wrapped(rest) is None:
        count = max(left, math.ceil(width(rest) / (_LINES * LINE * 0.92)), 2)
        place = _cut(rest, width(rest) / count)
        if place is None:
            break
        found.append(rest[:place].rstrip())
        rest = rest[place:].lstrip()
        left -= 1
    return [*found, rest] if rest else found


def breaks(text: str) -> list[int]:
    """Where the text may be cut: after spaces, between wide signs, within a word too long."""
    found = []
    run = 0
    for place in range(1, len(text)):
        before, here = text[place - 1], text[place]
        run = 0 if before == " " else run + _width(before)
        if here == " ":
            continue
        wide = _width(before) == 2 and _width(here) == 2 and not _closes(here)
        if before == " " or wide or run >= LINE:
            found.append(place)
            run = 0
    return found


def _closes(sign: str) -> bool:
    return unicodedata.category(sign) in ("Pe", "Pf", "Po", "Mn")


def _cut(text: str, ideal: float) -> int | None:
    """The best place to end the first caption."""
    best: tuple[float, int] | None = None
    for place in breaks(text):
        head = text[:place].rstrip()
        if width(head) > _LINES * LINE:
            break
        if wrapped(head) is None:
            continue
        score = _quality(text, place) - abs(width(head) - ideal)
        if best is None or score > best[0]:
            best = (score, place)
    return best[1] if best else None


def _quality(text: str, place: int) -> int:
    """How well the text reads when it is cut there."""
    head = text[:place].rstrip()[-12:]
    for pattern, worth in _GOOD:
        if pattern.search(head):
            return worth
    leans = _JOINING.fullmatch(head.rsplit(" ", 1)[-1])  # on the next word
    return -8 if leans else 0
