"""Captions as files: SubRip and WebVTT of what is shown when.

SRT is UTF-8 without a mark in front and with CRLF, as the oldest players want it and all others
take it. WebVTT is UTF-8 with LF. Where a text is cut into captions is in `captions_cut.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_TAG = re.compile(r"<(?=[/a-zA-Z])|\{(?=\\)")


@dataclass(frozen=True)
class Caption:
    """What is shown at one time."""

    start_ms: int
    end_ms: int
    lines: tuple[str, ...]
    part: int = 0
    """Which chapter of a book, from 0."""


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


def apart(shown: Sequence[Caption]) -> Iterator[Caption]:
    """Each ends before the next begins, and lasts at least a millisecond."""
    end = 0
    for number, caption in enumerate(shown):
        begin = max(caption.start_ms, end)
        end = max(caption.end_ms, begin + 1)
        if number + 1 < len(shown):
            end = max(min(end, shown[number + 1].start_ms), begin + 1)
        yield Caption(begin, end, caption.lines, caption.part)


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
