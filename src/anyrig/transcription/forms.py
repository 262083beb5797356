"""A transcription as a file: text in paragraphs, Markdown with times, captions, JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from anyrig.audio import SPEECH_RATE
from anyrig.text.captions import Caption, apart, srt, vtt
from anyrig.text.captions_cut import pieces, width, wrapped
from anyrig.text.labels import one_line
from anyrig.transcription.gather import Transcription
from anyrig.transcription.plain import line_form
from anyrig.transcription.protocol import FormName, Line
from anyrig.transcription.stitch import timed

if TYPE_CHECKING:
    from anyrig.storage.keys import JsonValue

_PAUSE_S = 2.0  # a longer one begins a paragraph
_PARAGRAPH = 600  # letters, after which the next sentence begins one
_LONGEST_S, _SHORTEST_S = 7.0, 1.0
_LONGEST_TEXT = 100_000
_ENDS = re.compile(r"[.!?…。！？]['\")\]’”»]*$")
_MARKUP = re.compile(r"([\\`*_\[\]<>#|])")


def written(heard: Transcription, form: FormName) -> str:
    """The transcription in a form."""
    if form == "json":
        return json.dumps(plain(heard), indent=2, ensure_ascii=False) + "\n"
    if form == "srt":
        return srt(captions(heard.lines))
    if form == "vtt":
        return vtt(captions(heard.lines))
    if form == "md":
        return _markdown(heard)
    text = "\n\n".join(_joined(part) for part in paragraphs(heard.lines))
    return f"{text}\n" if text else ""


def plain(heard: Transcription) -> dict[str, JsonValue]:
    """The transcription for programs; the names are those of OpenAI's `verbose_json`."""
    return {
        "task": "translate" if heard.translated else "transcribe",
        "file": heard.name,
        "language": heard.language,
        "language_reason": heard.language_reason,
        "languages": {code: round(share, 4) for code, share in heard.languages},
        "duration": round(heard.duration_s, 3),
        "text": "\n\n".join(_joined(part) for part in paragraphs(heard.lines)),
        "segments": [line_form(line, number) for number, line in enumerate(heard.lines)],
        "silences": [
            {"start": q.start / SPEECH_RATE, "end": q.end / SPEECH_RATE, "steady_noise": q.steady}
            for q in heard.quiet
        ],
        "not_heard": [
            {"start": gap.start_s, "end": gap.end_s, "reason": gap.why} for gap in heard.gaps
        ],
        "model": heard.model,
        "engine": heard.engine,
        "cached": heard.num_kept,
        "pieces": len(heard.pieces),
        "warnings": list(heard.warnings),
    }


def paragraphs(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Lines together: a long pause parts them, or a sentence's end when there is much already."""
    held: list[Line] = []
    size = 0
    for line in lines:
        pause = line.start_s - held[-1].end_s if held else 0.0
        full = size >= _PARAGRAPH and bool(_ENDS.search(held[-1].text)) if held else False
        if held and (pause >= _PAUSE_S or full):
            yield held
            held, size = [], 0
        held.append(line)
        size += len(line.text)
    if held:
        yield held


def captions(lines: Sequence[Line]) -> list[Caption]:
    """Two lines of 42 letters at most, up to seven seconds, none over another."""
    found: list[Caption] = []
    for number, line in enumerate(lines):
        following = lines[number + 1].start_s if number + 1 < len(lines) else math.inf
        found += _captions(line, following)
    return list(apart(found))


def _captions(line: Line, following_s: float) -> Iterator[Caption]:
    text = one_line(line.text, _LONGEST_TEXT)
    if not text:
        return
    lasts = line.end_s - line.start_s
    parts = pieces(text, min(math.ceil(lasts / _LONGEST_S), max(1, len(text.split()))))
    begins = _begins(line, parts)
    last = min(following_s, max(line.end_s, begins[-1] + _SHORTEST_S))
    for part, begin, end in zip(parts, begins, [*begins[1:], last], strict=True):
        lines = tuple(wrapped(part) or [part])
        yield Caption(math.floor(begin * 1000), math.floor(max(begin, end) * 1000), lines)


def _begins(line: Line, parts: Sequence[str]) -> list[float]:
    """When each part begins: by the times of words where they agree, else by letters."""
    words = timed(line)
    counts = [len(part.split()) for part in parts]
    if words and sum(counts) == len(words):
        ends = [sum(counts[:number]) for number in range(len(parts))]
        return [words[end].start_s if end else line.start_s for end in ends]
    whole = sum(width(part) for part in parts) or 1
    before, found = 0, []
    for part in parts:
        found.append(line.start_s + (line.end_s - line.start_s) * before / whole)
        before += width(part)
    return found


def _joined(lines: Sequence[Line]) -> str:
    return " ".join(one_line(line.text, _LONGEST_TEXT) for line in lines)


def _markdown(heard: Transcription) -> str:
    told = f"{clock(heard.duration_s)}, {heard.language or 'no speech'}"
    told += ", in English" if heard.translated and heard.language != "en" else ""
    blocks = [f"# {_escaped(one_line(heard.name))}", f"{told}, transcribed by {heard.model}"]
    for part in paragraphs(heard.lines):
        blocks.append(f"**[{clock(part[0].start_s)}]** {_escaped(_joined(part))}")
    for gap in heard.gaps:
        blocks.append(f"*Not transcribed: {clock(gap.start_s)} to {clock(gap.end_s)}*")
    return "\n\n".join(blocks) + "\n"


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def clock(seconds: float) -> str:
    """A time as people read it: `1:02:03`, `02:03`."""
    whole = int(seconds)
    hours = f"{whole // 3600}:" if whole >= 3600 else ""
    return f"{hours}{whole // 60 % 60:02d}:{whole % 60:02d}"
