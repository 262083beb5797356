"""The type of an uploaded file: by its content, or by its name if the content does not tell."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from anyrig.errors import AnyrigError
from anyrig.text.files import FORMATS, format_of, format_of_name, guarded
from anyrig.text.formats.limits import Limits

OTHER = "other"
_HEAD_BYTES = 64
_AUDIO = (
    (b"fLaC", "flac"), (b"OggS", "ogg"), (b"ID3", "mp3"), (b"\xff\xfb", "mp3"),
    (b"\xff\xf3", "mp3"), (b"\xff\xf2", "mp3"), (b"\xff\xf1", "aac"), (b"\xff\xf9", "aac"),
    (b"\x1aE\xdf\xa3", "webm"), (b"FORM", "aiff"), (b"#!AMR", "amr"),
)  # fmt: skip
_TEXT_TYPES = ("toml", "json", "jsonl", "ndjson", "yaml", "yml", "srt", "vtt", "xml")
"""Text formats that only their names tell apart."""
FILE_TYPES = (
    *FORMATS, *dict.fromkeys(kind for _, kind in _AUDIO), "wav", "m4a", "mp4", "zip", *_TEXT_TYPES,
    OTHER,
)  # fmt: skip


def detect_type(path: Path) -> str:
    """One of `FILE_TYPES`. The suffix of the path helps, as `get_suffix(guess_type(...))`."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if audio := _detect_audio(head):
        return audio
    suffix = path.suffix.lstrip(".")
    if suffix in _TEXT_TYPES and b"\x00" not in head:
        return suffix
    return _detect_document(path, head)


def guess_type(name: str) -> str:
    """The type that a file's name suggests; `other` if none."""
    suffix = PurePosixPath(name).suffix.lower().lstrip(".")
    return suffix if suffix in _TEXT_TYPES else format_of_name(name) or OTHER


def get_suffix(file_type: str) -> str:
    """The suffix of a stored file, by which readers recognise it; empty if unknown."""
    return f".{file_type}" if file_type in FILE_TYPES and file_type != OTHER else ""


def _detect_audio(head: bytes) -> str:
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "wav"
    if head[4:8] == b"ftyp" and head[8:12] not in (b"avif", b"avis", b"heic", b"mif1"):
        return "m4a" if head[8:11] in (b"M4A", b"M4B") else "mp4"
    return next((kind for magic, kind in _AUDIO if head.startswith(magic)), "")


def _detect_document(path: Path, head: bytes) -> str:
    try:
        with guarded(path, Limits()):
            found = format_of(path)
    except AnyrigError:  # a program, an archive, a video: stored, and refused where it is used
        return "zip" if head.startswith(b"PK\x03\x04") else OTHER
    if found == "txt" and b"\x00" in head:
        return OTHER
    return found if found in FORMATS else OTHER
