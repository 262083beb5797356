"""What kind of file somebody sent: told by its content, by its name where content is silent."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from anyrig.errors import AnyrigError
from anyrig.text.files import FORMATS, format_of, format_of_name, guarded
from anyrig.text.formats.limits import Limits

OTHER = "other"
_HEAD_BYTES = 64
_SOUNDS = (
    (b"fLaC", "flac"), (b"OggS", "ogg"), (b"ID3", "mp3"), (b"\xff\xfb", "mp3"),
    (b"\xff\xf3", "mp3"), (b"\xff\xf2", "mp3"), (b"\xff\xf1", "aac"), (b"\xff\xf9", "aac"),
    (b"\x1aE\xdf\xa3", "webm"), (b"FORM", "aiff"), (b"#!AMR", "amr"),
)  # fmt: skip
_PLAIN = ("toml", "json", "jsonl", "ndjson", "yaml", "yml", "srt", "vtt", "xml")
"""Texts that are told apart by nothing but their names."""
KINDS = (*FORMATS, *dict.fromkeys(kind for _, kind in _SOUNDS), "wav", "m4a", "mp4", "zip", *_PLAIN,
         OTHER)  # fmt: skip


def kind_of(path: Path) -> str:
    """One of `KINDS`; the path may end as `suffix_of(kind_of_name(...))` says, which helps."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    sound = _sound(head)
    if sound:
        return sound
    suffix = path.suffix.lstrip(".")
    if suffix in _PLAIN and b"\x00" not in head:
        return suffix
    return _document(path, head)


def kind_of_name(name: str) -> str:
    """What the name of a file says that it is; `other` where it says nothing."""
    suffix = PurePosixPath(name).suffix.lower().lstrip(".")
    return suffix if suffix in _PLAIN else format_of_name(name) or OTHER


def suffix_of(kind: str) -> str:
    """How the name of a kept file ends, so that readers know it; nothing where nothing is known."""
    return f".{kind}" if kind in KINDS and kind != OTHER else ""


def _sound(head: bytes) -> str:
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "wav"
    if head[4:8] == b"ftyp" and head[8:12] not in (b"avif", b"avis", b"heic", b"mif1"):
        return "m4a" if head[8:11] in (b"M4A", b"M4B") else "mp4"
    return next((kind for magic, kind in _SOUNDS if head.startswith(magic)), "")


def _document(path: Path, head: bytes) -> str:
    try:
        with guarded(path, Limits()):
            found = format_of(path)
    except AnyrigError:  # a program, an archive, a film: kept, and refused where it is used
        return "zip" if head.startswith(b"PK\x03\x04") else OTHER
    if found == "txt" and b"\x00" in head:
        return OTHER
    return found if found in FORMATS else OTHER
