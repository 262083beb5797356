"""What each kind of job takes, in words: for /docs, /openapi.json and those who get it wrong.

Which names a kind takes is said by `services.jobs` and `orders`; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyrig.services.jobs import KINDS

_FILE = "upload:9f0c1e2d3b4a59687786950413223140"
ABOUT: Mapping[str, str] = {
    "book": "An audiobook of a file: EPUB, PDF, Word, text, ...",
    "batch": "Many lines, a file of sound for each.",
    "index": "Makes files or a folder searchable; asked by POST /documents/search.",
    "transcribe": "Writes down what is said in a recording.",
    "train": "Trains a model by a TOML file.",
    "bench": "Measures the devices, or a speech engine.",
}
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "book": {"file": _FILE, "voice": "heart", "rate": 1.1, "chapters": [1, 2], "captions": ["srt"]},
    "batch": {"lines": ["Hello.", {"text": "Good bye.", "rate": 0.9}], "format": "mp3"},
    "index": {"files": [_FILE], "index": "letters"},
    "transcribe": {"file": _FILE, "language": "en", "format": ["srt", "txt"]},
    "train": {"file": _FILE, "steps": 100},
    "bench": {"quick": True},
}
CHOICES: Mapping[str, tuple[str, ...]] = {
    "notes": ("skip", "inline", "end"), "tables": ("speak", "skip"), "images": ("speak", "skip"),
    "poems": ("lines", "prose", "skip"), "code": ("skip", "speak"), "pages": ("skip", "speak"),
    "titles": ("speak", "skip"), "matter": ("skip", "speak"),
    "foreign": ("refuse", "skip", "read"), "levels": ("book", "acx"),
    "ocr": ("auto", "never", "always"),
    "profile": ("quality", "balanced", "fast", "low-memory"),
}  # fmt: skip
"""Words that an argument may be; the first of a book's is what holds when it is not given."""
_WORDS: Mapping[str, str] = {
    "allow_gaps": "Write the book also where passages failed.",
    "author": "Instead of the book's own.",
    "bitrate": "Such as 96k; an m4b has 64k.",
    "captions": "srt, vtt or both, beside the book.",
    "cast": "A TOML file, sent before, that says who speaks in which voice.",
    "chapters": 'Numbers of POST /books/plan: [3, 4] or "3-7,9".',
    "code": "Listings.",
    "cover": "A JPEG or PNG, sent before, instead of the book's own.",
    "device": "As GET /devices names it; the chosen one when not given.",
    "engine": "Of GET /config; one that speaks the language when not given.",
    "file": "A file that was sent, as `upload:ID`.",
    "files": "Files that were sent, as `upload:ID`.",
    "folder": "A whole path below the folders of server.folders, instead of files.",
    "foreign": "Paragraphs that no voice here speaks.",
    "format": "mp3, wav, flac, opus, m4a or pcm.",
    "fresh": "Make again what is kept already.",
    "images": "The words that stand for pictures.",
    "index": "The index's name, which searches ask for; `default` when not given.",
    "language": "Such as en, es, fr; found out when not given.",
    "levels": "What loudness is right: ours, or that of ACX.",
    "lexicon": "A TOML file, sent before, that says how words are pronounced.",
    "lines": "Texts, or objects with `text` and `voice`, `language`, `rate`, `seed`; or a `file`.",
    "loudness": "In LUFS; -19 when not given, 0 as it is.",
    "matter": "Covers, copyright pages, contents.",
    "memory_fraction": "No more than this share of a device's memory, 0 to 1.",
    "memory_gb": "No more than so many GiB of a device.",
    "model": "A folder with the engine's weights, below those of server.models.",
    "narrator": "Instead of the voice's name.",
    "no_bench": "Do not measure a device on its first use.",
    "notes": "Footnotes.",
    "nproc": "Processes that train together, a device for each; `auto` takes all of a kind.",
    "ocr": "Read pictures of pages: auto where they have no usable text.",
    "pages": "Page numbers.",
    "poems": "Poems.",
    "precision": "auto, fp32, tf32, fp16, bf16 or fp8.",
    "profile": "What to prefer.",
    "quick": "A few seconds a device.",
    "rate": "2 is twice as fast; 0.25 to 4.",
    "read_along": "An EPUB 3 too whose words light up as they are spoken.",
    "retry": "Try again what could not be read.",
    "seed": "Another take of the same words.",
    "set": "Options of the engine, such as {\"noise\": 0.5}.",
    "speech": "Measure a speech engine instead: loading, first sound, speed.",
    "steps": "As train.steps of the file.",
    "strategy": "ddp: every process has the whole model; fsdp: each holds a part of it.",
    "strict": "A device that cannot be used is an error.",
    "tables": "Tables.",
    "tensorboard": "Write TensorBoard's files too.",
    "title": "Instead of the book's own.",
    "titles": "Titles that only the contents have.",
    "translate": "Write it down in English.",
    "type": "Only files of these: pdf, docx, picture, ...",
    "voice": "Of GET /config; `a:2+b` blends two.",
    "word_times": "The times of words as well.",
    "workers_per_device": "Processes on each device.",
}  # fmt: skip
_OWN: Mapping[tuple[str, str], str] = {
    ("book", "format"): "m4b, or a file for each chapter: mp3, opus, flac, m4a.",
    ("transcribe", "format"): "txt, md, srt, vtt, json; several make several files.",
    ("transcribe", "engine"): "moonshine, whisper or transformers.",
    ("transcribe", "model"): "moonshine, whisper-base, a size such as small, or a folder below "
    "those of server.models.",
    ("transcribe", "fresh"): "Hear again what is kept already.",
    ("index", "model"): "Of GET /v1/models; the settings' when not given.",
    ("train", "file"): "A TOML file that was sent; files in it are named as `upload:ID`.",
    ("train", "set"): "Instead of the file's values, such as {\"train.learning_rate\": 0.001}.",
}  # fmt: skip
_UPLOAD = {"type": "string", "pattern": "^upload:[0-9a-f]{32}$"}
_LINE = {
    "anyOf": [
        {"type": "string"},
        {"type": "object", "required": ["text"], "additionalProperties": False,
         "properties": {"text": {"type": "string"}, "voice": {"type": "string"},
                        "language": {"type": "string"},
                        "rate": {"type": "number", "minimum": 0.25, "maximum": 4},
                        "seed": {"type": "integer", "minimum": 0}, "id": {}}},
    ]
}  # fmt: skip
_FORMS: Mapping[str, Mapping[str, Any]] = {
    "file": _UPLOAD, "cover": _UPLOAD, "cast": _UPLOAD, "lexicon": _UPLOAD,
    "files": {"type": "array", "items": _UPLOAD, "minItems": 1},
    "lines": {"type": "array", "items": _LINE, "minItems": 1},
    "folder": {"type": "string"},
    "chapters": {"anyOf": [{"type": "string"},
                           {"type": "array", "items": {"type": ["integer", "string"]}}]},
}  # fmt: skip
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"}, "path": {"type": "string"}, "number": {"type": "number"},
    "whole": {"type": "integer"}, "yes": {"type": "boolean"}, "options": {"type": "object"},
    "list": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
}  # fmt: skip


def argument(kind: str, name: str) -> dict[str, Any]:
    """An argument of a kind of job, as JSON Schema has it."""
    form = _FORMS.get(name) or _TYPES[KINDS[kind].flags[name]]
    found = {**form, "description": _OWN.get((kind, name), _WORDS[name])}
    return {**found, "enum": list(CHOICES[name])} if name in CHOICES else found


def variants(takes: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    """A schema for each kind.

    Args:
        takes: the arguments of each.
    """
    return [
        {
            "title": kind, "description": ABOUT[kind], "type": "object",
            "required": ["kind"],
            "properties": {
                "kind": {"const": kind},
                "arguments": {
                    "type": "object", "additionalProperties": False,
                    "properties": {name: argument(kind, name) for name in names},
                },
            },
            "example": {"kind": kind, "arguments": EXAMPLES[kind]},
        }
        for kind, names in takes.items()
    ]  # fmt: skip
