"""A transcription as a file (text, Markdown, captions, JSON), and as it is cached."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from anyrig.audio import SPEECH_RATE
from anyrig.text import captions
from anyrig.text.captions import Caption, TimedText, srt, vtt
from anyrig.text.labels import one_line
from anyrig.transcription.engines import TranscribedLine, TranscribedWord, Transcript

if TYPE_CHECKING:
    from anyrig.storage.keys import JsonValue
    from anyrig.transcription.transcribe import Transcription

FormatName = Literal["txt", "md", "srt", "vtt", "json"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
_PAUSE_S = 2.0  # a longer one begins a paragraph
_PARAGRAPH = 600  # letters, after which the next sentence begins one
_MAX_LINE = 100_000
_ENDS = re.compile(r"[.!?…。！？]['\")\]’”»]*$")
_MARKUP = re.compile(r"([\\`*_\[\]<>#|])")
_FACTS = ("avg_logprob", "no_speech_prob", "compression_ratio", "temperature")


def format_transcription(transcription: Transcription, format: FormatName) -> str:
    if format == "json":
        return json.dumps(describe(transcription), indent=2, ensure_ascii=False) + "\n"
    if format == "srt":
        return srt(build_captions(transcription.lines))
    if format == "vtt":
        return vtt(build_captions(transcription.lines))
    if format == "md":
        return _format_markdown(transcription)
    text = "\n\n".join(map(_join, split_paragraphs(transcription.lines)))
    return f"{text}\n" if text else ""


def describe(transcription: Transcription) -> dict[str, JsonValue]:
    """For programs; the names are those of OpenAI's `verbose_json`."""
    return {
        "task": "translate" if transcription.translated else "transcribe",
        "file": transcription.name,
        "language": transcription.language,
        "language_reason": transcription.language_reason,
        "languages": {code: round(share, 4) for code, share in transcription.languages},
        "duration": round(transcription.duration_s, 3),
        "text": "\n\n".join(map(_join, split_paragraphs(transcription.lines))),
        "segments": [
            _describe_line(line, number) for number, line in enumerate(transcription.lines)
        ],
        "silences": [
            {"start": one.start / SPEECH_RATE, "end": one.end / SPEECH_RATE,
             "steady_noise": one.steady}
            for one in transcription.silences
        ],
        "not_heard": [
            {"start": gap.start_s, "end": gap.end_s, "reason": gap.reason}
            for gap in transcription.gaps
        ],
        "model": transcription.model,
        "engine": transcription.engine,
        "cached": transcription.num_cached,
        "pieces": len(transcription.chunks),
        "warnings": list(transcription.warnings),
    }  # fmt: skip


def _describe_line(line: TranscribedLine, number: int) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {
        "id": number,
        "start": round(line.start_s, 3),
        "end": round(line.end_s, 3),
        "text": line.text,
    }
    for name in _FACTS:
        value = getattr(line, name)
        found[name] = None if value is None else round(float(value), 4)
    found["confidence"] = None if line.confidence is None else round(line.confidence, 4)
    found["doubt"] = line.doubt or None
    if line.words:
        found["words"] = [describe_word(word) for word in line.words]
    return found


def describe_word(word: TranscribedWord) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {
        "word": word.text,
        "start": round(word.start_s, 3),
        "end": round(word.end_s, 3),
    }
    if word.confidence is not None:
        found["probability"] = round(word.confidence, 4)
    return found


def split_paragraphs(lines: Sequence[TranscribedLine]) -> Iterator[list[TranscribedLine]]:
    """A long pause ends a paragraph, and a sentence's end where there is much already."""
    paragraph: list[TranscribedLine] = []
    size = 0
    for line in lines:
        pause_s = line.start_s - paragraph[-1].end_s if paragraph else 0.0
        full = bool(paragraph) and size >= _PARAGRAPH and bool(_ENDS.search(paragraph[-1].text))
        if paragraph and (pause_s >= _PAUSE_S or full):
            yield paragraph
            paragraph, size = [], 0
        paragraph.append(line)
        size += len(line.text)
    if paragraph:
        yield paragraph


def build_captions(lines: Sequence[TranscribedLine]) -> list[Caption]:
    return captions.build_captions([
        TimedText(
            one_line(line.text, _MAX_LINE), line.start_s, line.end_s,
            [word.start_s for word in line.words],
        )
        for line in lines
    ])  # fmt: skip


def _join(lines: Sequence[TranscribedLine]) -> str:
    return " ".join(one_line(line.text, _MAX_LINE) for line in lines)


def _format_markdown(transcription: Transcription) -> str:
    about = f"{_clock(transcription.duration_s)}, {transcription.language or 'no speech'}"
    if transcription.translated and transcription.language != "en":
        about += ", in English"
    blocks = [
        f"# {_escape(one_line(transcription.name))}",
        f"{about}, transcribed by {transcription.model}",
    ]
    for part in split_paragraphs(transcription.lines):
        blocks.append(f"**[{_clock(part[0].start_s)}]** {_escape(_join(part))}")
    for gap in transcription.gaps:
        blocks.append(f"*Not transcribed: {_clock(gap.start_s)} to {_clock(gap.end_s)}*")
    return "\n\n".join(blocks) + "\n"


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def _clock(seconds: float) -> str:
    whole = int(seconds)
    hours = f"{whole // 3600}:" if whole >= 3600 else ""
    return f"{hours}{whole // 60 % 60:02d}:{whole % 60:02d}"


# -- the cache -------------------------------------------------------------------------------------


def to_json(transcript: Transcript) -> dict[str, Any]:
    """A transcript as it is cached."""
    return {
        "text": transcript.text,
        "language": transcript.language,
        "languages": [list(one) for one in transcript.languages],
        "lines": [
            {
                "text": line.text,
                "start": line.start_s,
                "end": line.end_s,
                "words": [list(word) for word in line.words],
                **{name: getattr(line, name) for name in _FACTS},
            }
            for line in transcript.lines
        ],
    }


def from_json(data: bytes) -> Transcript | None:
    """A transcript from the cache; None when it has another form."""
    try:
        found = json.loads(data)
        lines = tuple(
            TranscribedLine(
                line["text"],
                line["start"],
                line["end"],
                tuple(TranscribedWord(*word) for word in line["words"]),
                **{name: line[name] for name in _FACTS},
            )
            for line in found["lines"]
        )
        languages = tuple((str(code), float(share)) for code, share in found["languages"])
        return Transcript(found["text"], found["language"], lines, languages)
    except (ValueError, KeyError, TypeError):
        return None
