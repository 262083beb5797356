"""Captions beside a book: SRT and WebVTT of what is heard, and its chapters as WebVTT.

A caption has at most two lines of 42 letters. It follows the segments, and within a long one the
times of words where the engine gave them, else the number of letters. Captions never overlap, and
stay a second where the pause after them allows it.

SRT is UTF-8 without a mark in front and with CRLF, as the oldest players want it and all others
take it. WebVTT is UTF-8 with LF.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.audio.tags import clean_text
from anyrig.audiobooks.metadata import build_chapter_titles, cut_text
from anyrig.storage.atomic_file import clear_leftovers, write_file
from anyrig.text.captions import Caption, apart, srt, times, vtt, vtt_text
from anyrig.text.captions_cut import pieces, wrap_lines

if TYPE_CHECKING:
    from anyrig.audiobooks.record import Cue, Timeline

CaptionKind = Literal["srt", "vtt"]
KINDS: tuple[CaptionKind, ...] = ("srt", "vtt")

_SHORTEST_S = 1.0
_LONGEST_S = 7.0


def build_book_captions(timeline: Timeline) -> list[Caption]:
    """Of the whole book."""
    return _caption_cues(timeline.cues, timeline, 0, timeline.num_samples)


def format_chapters_vtt(timeline: Timeline) -> str:
    """The chapters as a WebVTT of their own, as web players read them."""
    blocks = ["WEBVTT\n"]
    titles = build_chapter_titles(timeline.chapters)
    for number, (mark, title) in enumerate(zip(timeline.chapters, titles, strict=True), 1):
        start, end = (_to_ms(place, timeline.rate) for place in (mark.start, mark.end))
        if end > start:
            blocks.append(f"{number}\n{times(start, end)}\n{vtt_text(title)}\n")
    return "\n".join(blocks)


def write_captions(
    book: str | Path, timeline: Timeline, kinds: Sequence[CaptionKind] = KINDS
) -> tuple[Path, ...]:
    """Files beside a book and named after it; with WebVTT one of the chapters too."""
    book = Path(book)
    clear_leftovers(*(book.with_suffix(ending) for ending in (".srt", ".vtt", ".chapters.vtt")))
    shown = build_book_captions(timeline)
    written = []
    if "srt" in kinds:
        written.append(write_file(book.with_suffix(".srt"), srt(shown)))
    if "vtt" in kinds:
        notes = build_chapter_titles(timeline.chapters)
        written.append(write_file(book.with_suffix(".vtt"), vtt(shown, notes)))
        written.append(write_file(book.with_suffix(".chapters.vtt"), format_chapters_vtt(timeline)))
    return tuple(written)


def write_chapter_captions(
    files: Sequence[Path], timeline: Timeline, kinds: Sequence[CaptionKind] = KINDS
) -> tuple[Path, ...]:
    """Files beside each chapter's, in its own times; what comes before the first mark is in the
    first file.
    """
    forms: dict[CaptionKind, Callable[[Sequence[Caption]], str]] = {"srt": srt, "vtt": vtt}
    written = []
    cues = timeline.group_cues()
    clear_leftovers(*(file.with_suffix(f".{kind}") for file in files for kind in KINDS))
    start = 0
    for part, (file, mark) in enumerate(zip(files, timeline.chapters, strict=True)):
        shown = _caption_cues(cues.get(part, []), timeline, start, mark.end)
        start = mark.end
        written += [write_file(file.with_suffix(f".{kind}"), forms[kind](shown)) for kind in kinds]
    return tuple(written)


def _caption_cues(cues: Sequence[Cue], timeline: Timeline, start: int, end: int) -> list[Caption]:
    """The captions of a file that begins and ends at these samples of the book."""
    found: list[Caption] = []
    for number, cue in enumerate(cues):
        following = cues[number + 1].start if number + 1 < len(cues) else end
        until = max(cue.end, min(following, end))
        for piece in _caption_cue(cue, timeline.rate, until):
            found.append(_shift(piece, start, timeline.rate))
    return list(apart(found))


def _caption_cue(cue: Cue, rate: int, until: int) -> Iterator[Caption]:
    """A segment's captions, in the book's time; the last may stay until the next segment."""
    text = clean_text(cue.text)
    if not text:
        return
    start_s, end_s = cue.start / rate, cue.end / rate
    if cue.is_gap:
        parts = [f"[Not spoken: {cut_text(text, 60)}]"]
        if wrap_lines(parts[0]) is None:
            parts = ["[Not spoken]"]
    else:
        parts = pieces(text, min(math.ceil((end_s - start_s) / _LONGEST_S), len(text.split())))
    places = _find_starts(parts, cue, start_s, end_s)
    ends = [*places[1:], min(until / rate, max(end_s, places[-1] + _SHORTEST_S))]
    for part, begin, end in zip(parts, places, ends, strict=True):
        lines = wrap_lines(part) or [part]
        yield Caption(_floor_ms(begin), _floor_ms(end), tuple(lines), cue.part)


def _find_starts(parts: Sequence[str], cue: Cue, start_s: float, end_s: float) -> list[float]:
    """When each part of a segment begins."""
    weights = [max(1, len(part.replace(" ", ""))) for part in parts]
    whole, before = sum(weights), 0
    counts = [len(part.split()) for part in parts]
    timed = len(parts) > 1 and bool(cue.words)
    words = cue.find_word_starts([word for part in parts for word in part.split()]) if timed else []
    found: list[float] = []
    for number, weight in enumerate(weights):
        place = start_s + before / whole * (end_s - start_s)
        if words and found:
            place = words[min(sum(counts[:number]), len(words) - 1)]
        found.append(min(max(place, found[-1] if found else start_s), end_s))
        before += weight
    return found


def _shift(caption: Caption, start: int, rate: int) -> Caption:
    if not start:
        return caption
    away = _to_ms(start, rate)
    begin, end = max(0, caption.start_ms - away), max(0, caption.end_ms - away)
    return Caption(begin, end, caption.lines, caption.part)


def _to_ms(place: int, rate: int) -> int:
    return place * 1000 // rate


def _floor_ms(seconds: float) -> int:
    return math.floor(seconds * 1000 + 1e-6)
