"""Captions beside a book: SRT and WebVTT of what is heard, and its chapters as WebVTT.

They follow the segments, and within a long one the times of words where the engine gave them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.audio.tags import clean_text
from anyrig.audiobooks.metadata import build_chapter_titles, cut_text
from anyrig.storage.atomic_file import clear_leftovers, write_file
from anyrig.text.captions import (
    LINE,
    Caption,
    TimedText,
    build_captions,
    srt,
    times,
    vtt,
    vtt_text,
    wrap_lines,
)

if TYPE_CHECKING:
    from anyrig.audiobooks.record import Cue, Timeline

CaptionKind = Literal["srt", "vtt"]
KINDS: tuple[CaptionKind, ...] = ("srt", "vtt")


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
    texts = [_time_text(cue, timeline.rate) for cue in cues]
    away_ms = _to_ms(start, timeline.rate)
    shown = build_captions(texts, end / timeline.rate)
    return [
        replace(one, start_ms=one.start_ms - away_ms, end_ms=one.end_ms - away_ms) for one in shown
    ]


def _time_text(cue: Cue, rate: int) -> TimedText:
    text = clean_text(cue.text)
    if cue.is_gap and text:
        text = f"[Not spoken: {cut_text(text, 60)}]"
        text = text if wrap_lines(text) else "[Not spoken]"
    is_timed = bool(cue.words) and len(text) > LINE  # a short one is shown at once
    starts = cue.find_word_starts(text.split()) if is_timed else []
    return TimedText(text, cue.start / rate, cue.end / rate, starts, cue.part)


def _to_ms(place: int, rate: int) -> int:
    return place * 1000 // rate
