"""Captions: where a timed text is cut, a caption into two lines, and SubRip and WebVTT of them.

A caption has at most two lines of 42 letters and seven seconds, and stays for a second where the
text after it allows it. None overlaps another. Lines are measured as they are seen: a Chinese sign
is as wide as two letters.

SRT is UTF-8 without a mark in front and with CRLF, as the oldest players want it and all others
take it. WebVTT is UTF-8 with LF.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

LINE = 42
"""The width of a line, in letters."""
_LINES = 2
_MAX_S, _MIN_S = 7.0, 1.0

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


@dataclass(frozen=True)
class Caption:
    """What is shown at one time."""

    start_ms: int
    end_ms: int
    lines: tuple[str, ...]
    part: int = 0
    """Which chapter of a book, from 0."""


@dataclass(frozen=True)
class TimedText:
    """Something that is said, and when: a segment of speech or a line of a transcript."""

    text: str
    """In one line, its words parted by single spaces."""
    start_s: float
    end_s: float
    word_starts: Sequence[float] = ()
    """When each word between spaces begins; without them the letters share the time."""
    part: int = 0
    """Which chapter of a book, from 0."""


def build_captions(texts: Sequence[TimedText], end_s: float = math.inf) -> list[Caption]:
    """The captions of texts in order; the last one ends before `end_s`."""
    found: list[Caption] = []
    for number, one in enumerate(texts):
        following_s = texts[number + 1].start_s if number + 1 < len(texts) else end_s
        found += _cut_text(one, max(one.end_s, following_s))
    return list(_keep_apart(found))


def _keep_apart(shown: Sequence[Caption]) -> Iterator[Caption]:
    """Each ends before the next begins, and lasts at least a millisecond."""
    end = 0
    for number, caption in enumerate(shown):
        begin = max(caption.start_ms, end)
        end = max(caption.end_ms, begin + 1)
        if number + 1 < len(shown):
            end = max(min(end, shown[number + 1].start_ms), begin + 1)
        yield Caption(begin, end, caption.lines, caption.part)


def _cut_text(one: TimedText, until_s: float) -> Iterator[Caption]:
    if not one.text:
        return
    count = math.ceil((one.end_s - one.start_s) / _MAX_S)
    parts = pieces(one.text, min(count, len(one.text.split())))
    starts = _find_starts(parts, one)
    ends = [*starts[1:], min(until_s, max(one.end_s, starts[-1] + _MIN_S))]
    for part, start_s, end_s in zip(parts, starts, ends, strict=True):
        lines = tuple(wrap_lines(part) or [part])
        yield Caption(_floor_ms(start_s), _floor_ms(end_s), lines, one.part)


def _find_starts(parts: Sequence[str], one: TimedText) -> list[float]:
    counts = [0, *accumulate(len(part.split()) for part in parts)]
    widths = [0, *accumulate(max(1, width(part.replace(" ", ""))) for part in parts)]
    is_timed = len(one.word_starts) == counts[-1]
    found = [one.start_s]
    for before, share in zip(counts[1:-1], widths[1:-1], strict=True):
        evenly_s = one.start_s + share / widths[-1] * (one.end_s - one.start_s)
        start_s = one.word_starts[before] if is_timed else evenly_s
        found.append(min(max(start_s, found[-1]), one.end_s))
    return found


def _floor_ms(seconds: float) -> int:
    return math.floor(seconds * 1000 + 1e-6)


def width(text: str) -> int:
    """How wide the text is, in letters."""
    return len(text) if text.isascii() else sum(map(_width, text))


@lru_cache(maxsize=8192)
def _width(sign: str) -> int:
    if sign.isascii():
        return 1
    if unicodedata.category(sign) in _NARROW:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def _upto(text: str) -> list[int]:
    """The width before each place."""
    if text.isascii():
        return list(range(len(text) + 1))
    return [0, *accumulate(map(_width, text))]


def wrap_lines(text: str) -> list[str] | None:
    """The text in at most two lines, the second not shorter if it can be; None if it is longer.

    Words are parted by single spaces, here and in `pieces`.
    """
    before = _upto(text) if len(text) <= 8 * LINE else [_LINES * LINE + 2]
    whole = before[-1]
    if whole <= LINE:
        return [text]
    if whole > _LINES * LINE + 1:  # the space between the lines is not seen
        return None
    best: tuple[float, int] | None = None
    for place in breaks(text):
        first = before[place] - (text[place - 1] == " ")
        second = whole - before[place]
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
    left = max(1, at_least)
    start, whole = 0, width(text)
    while left > 1 or wrap_lines(text[start : start + 8 * LINE + 1]) is None:
        count = max(left, math.ceil(whole / (_LINES * LINE * 0.92)), 2)
        place = _cut(text[start : start + 8 * LINE], whole / count)
        if place is None:
            break
        found.append(text[start : start + place].rstrip())
        whole -= width(text[start : start + place])
        start += place
        left -= 1
    return [*found, text[start:]] if start < len(text) else found


def breaks(text: str) -> list[int]:
    """Where the text may be cut: after spaces, between wide signs, within a word too long."""
    if text.isascii() and len(text) <= LINE:
        return [place for place in range(1, len(text)) if text[place - 1] == " "]
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
    before = _upto(text)
    best: tuple[float, int] | None = None
    for place in breaks(text):
        wide = before[place] - (text[place - 1] == " ")
        if wide > _LINES * LINE + 1:
            break
        score = _quality(text, place) - 0.5 * abs(wide - ideal)
        better = best is None or score > best[0]
        if better and (wide <= LINE or wrap_lines(text[:place].rstrip()) is not None):
            best = (score, place)
    return best[1] if best else None


def _quality(text: str, place: int) -> int:
    """How well the text reads when it is cut there."""
    head = text[max(0, place - 12) : place].rstrip()
    if head[-1:].isalnum():
        return -8 if _JOINING.fullmatch(head.rsplit(" ", 1)[-1]) else 0  # it leans on the next
    for pattern, worth in _GOOD:
        if pattern.search(head):
            return worth
    return 0


# -- files -----------------------------------------------------------------------------------------

_TAG = re.compile(r"<(?=[/a-zA-Z])|\{(?=\\)")


def srt(shown: Sequence[Caption]) -> str:
    """The captions as SubRip."""
    blocks = []
    for number, caption in enumerate(shown, 1):
        when = f"{_clock(caption.start_ms, ',')} --> {_clock(caption.end_ms, ',')}"
        blocks.append("\r\n".join([str(number), when, *map(_srt_text, caption.lines), ""]))
    return "\r\n".join(blocks)


def vtt(shown: Sequence[Caption], titles: Sequence[str] = ()) -> str:
    """The captions as WebVTT; with titles, a note where each chapter begins."""
    blocks = ["WEBVTT\n"]
    chapter = -1
    for number, caption in enumerate(shown, 1):
        if titles and caption.part != chapter:
            chapter = caption.part
            blocks.append(f"NOTE {_note(titles[chapter])}\n")
        text = "\n".join(map(vtt_text, caption.lines))
        blocks.append(f"{number}\n{times(caption.start_ms, caption.end_ms)}\n{text}\n")
    return "\n".join(blocks)


def _clock(ms: int, point: str) -> str:
    seconds, rest = divmod(ms, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:03d}"


def times(start_ms: int, end_ms: int) -> str:
    """From when to when, as WebVTT writes it."""
    return f"{_clock(start_ms, '.')} --> {_clock(end_ms, '.')}"


def _srt_text(line: str) -> str:
    """SRT has no escapes: a word joiner keeps what looks like a tag from being taken for one."""
    return _TAG.sub(lambda found: found[0] + "\u2060", line.replace("-->", "→"))


def vtt_text(line: str) -> str:
    """A line as WebVTT writes it."""
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _note(title: str) -> str:
    return title.replace("-->", "→")
