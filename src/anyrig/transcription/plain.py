"""Transcripts as plain JSON: as they are kept, and as programs read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anyrig.transcription.protocol import Line, Transcript, Word

if TYPE_CHECKING:
    from anyrig.storage.keys import JsonValue

_FACTS = ("avg_logprob", "no_speech_prob", "compression_ratio", "temperature")


def kept_form(heard: Transcript) -> dict[str, Any]:
    """A transcript as it is kept."""
    return {
        "text": heard.text,
        "language": heard.language,
        "languages": [list(one) for one in heard.languages],
        "lines": [
            {
                "text": line.text,
                "start": line.start_s,
                "end": line.end_s,
                "words": [list(word) for word in line.words],
                "doubt": line.doubt,
                **{name: getattr(line, name) for name in _FACTS},
            }
            for line in heard.lines
        ],
    }


def opened_form(data: bytes) -> Transcript | None:
    """A transcript that was kept; None when it is of another form."""
    try:
        found = json.loads(data)
        lines = tuple(
            Line(
                line["text"],
                line["start"],
                line["end"],
                tuple(Word(*word) for word in line["words"]),
                doubt=line["doubt"],
                **{name: line[name] for name in _FACTS},
            )
            for line in found["lines"]
        )
        languages = tuple((str(code), float(share)) for code, share in found["languages"])
        return Transcript(found["text"], found["language"], lines, languages)
    except (ValueError, KeyError, TypeError):
        return None


def line_form(line: Line, number: int) -> dict[str, JsonValue]:
    """A line for programs, with the names that OpenAI's `verbose_json` has."""
    made: dict[str, JsonValue] = {
        "id": number,
        "start": round(line.start_s, 3),
        "end": round(line.end_s, 3),
        "text": line.text,
    }
    for name in _FACTS:
        value = getattr(line, name)
        made[name] = None if value is None else round(float(value), 4)
    made["confidence"] = None if line.confidence is None else round(line.confidence, 4)
    made["doubt"] = line.doubt or None
    if line.words:
        made["words"] = [word_form(word) for word in line.words]
    return made


def word_form(word: Word) -> dict[str, JsonValue]:
    """A word for programs."""
    made: dict[str, JsonValue] = {
        "word": word.text,
        "start": round(word.start_s, 3),
        "end": round(word.end_s, 3),
    }
    if word.confidence is not None:
        made["probability"] = round(word.confidence, 4)
    return made
