"""Audiobooks: a book in, an m4b or a file for each chapter out.

What is made is cached as it comes, under the name of the output, so that a run that was interrupted
is continued by the same request.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.app.events import OnEvent
from anyrig.app.speech import SynthesisOptions
from anyrig.audiobooks.ways import CHOICES, Ways
from anyrig.errors import WorkError
from anyrig.options import Request, option

if TYPE_CHECKING:
    from anyrig.app.engines import EngineChoice
    from anyrig.app.rig import Rig

BOOK_FORMAT = "m4b"
CHAPTER_FORMATS = ("mp3", "opus", "flac", "m4a", "wav")
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min)?")


def _parse_bitrate(text: str) -> str | None:
    number = text.strip().lower().removesuffix("k")
    return f"{number}000" if number.isdecimal() and text.strip().lower().endswith("k") else None


def _parse_seconds(text: str) -> str | None:
    match = _TIME.fullmatch(text.strip().lower())
    if match is None:
        return None
    return str(float(match[1]) * (60 if (match[2] or "s").startswith("m") else 1))


def _normalize_format(text: str) -> str:
    return text.lower().lstrip(".")


def _reading(name: str, help: str) -> Any:
    return option(getattr(Ways, name), help, choices=CHOICES[name], setting=f"book.{name}")


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Request):
    """What is read."""

    notes: str = _reading("notes", "footnotes")
    tables: str = _reading("tables", "tables")
    images: str = _reading("images", "descriptions of pictures")
    poems: str = _reading("poems", "poems")
    code: str = _reading("code", "listings")
    pages: str = _reading("pages", "page numbers and running heads")
    titles: str = _reading("titles", "titles that only the table of contents has")
    matter: str = _reading("matter", "covers, copyright pages, tables of contents")
    foreign: str = _reading("foreign", "paragraphs in a language that the voice does not speak")
    cast: Path | None = option(
        None, "file that says who speaks in which voice", upload=True, metavar="FILE"
    )

    @property
    def ways(self) -> Ways:
        return Ways(**{name: getattr(self, name) for name in CHOICES})


@dataclass(frozen=True, kw_only=True)
class BookFileOptions(Request):
    """The files."""

    title: str = option("", "instead of the book's own")
    untitled: str = option("", "title of a book that has none", http=False)
    author: str = option("", "instead of the book's own", metavar="NAME")
    narrator: str = option("", "instead of the voice's name", metavar="NAME")
    cover: Path | None = option(
        None, "a JPEG or PNG instead of the book's own", upload=True, metavar="FILE"
    )
    captions: tuple[Literal["srt", "vtt"], ...] = option(
        (), "srt, vtt or both, beside the book", normalize=str.lower
    )
    read_along: bool = option(False, "also an EPUB 3 that highlights the words as they are spoken")
    loudness: float | None = option(
        None, "-19 if not given; 0 leaves it as it is", ge=-70, le=0, unit="LUFS",
        setting="speech.loudness", fill=False, metavar="LUFS",
    )  # fmt: skip
    bitrate: int | None = option(
        None, "such as 96k; an m4b has 64k", ge=1, unit="bits per second, such as 64k or 96000",
        normalize=_parse_bitrate, setting="book.bitrate", metavar="N",
    )  # fmt: skip
    rest_before: float = option(
        0.5, "silence before a chapter", ge=0, le=60, unit="seconds", flag=False,
        setting="book.rest_before",
    )  # fmt: skip
    rest_after: float = option(
        1.5, "silence after a chapter", ge=0, le=60, unit="seconds", flag=False,
        setting="book.rest_after",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BookRequest(ReadingOptions, BookFileOptions, SynthesisOptions):
    """The book."""

    file: Path = option(help="the book", positional=True, upload=True, metavar="FILE")
    output: Path | None = option(
        None, "the m4b, or the folder for a file for each chapter", short="-o", http=False
    )
    format: str | None = option(
        None, "m4b, or a file for each chapter: mp3, opus, flac, m4a, wav",
        choices=(BOOK_FORMAT, *CHAPTER_FORMATS), normalize=_normalize_format, metavar="NAME",
    )  # fmt: skip
    chapters: tuple[str, ...] = option((), "such as 3-7,9 or 5-; all but front matter if not given")
    again: tuple[str, ...] = option(
        (), "make segments again, as chapter:segment, such as 3:17,4:2", http=False
    )
    allow_gaps: bool = option(False, "write the book even if passages failed, with silence there")
    fresh: bool = option(False, "make again what is cached")
    levels: Literal["book", "acx"] = option("book", "loudness: ours, or that of ACX")

    def __post_init__(self) -> None:
        # Jobs and HTTP clients may name captions as one text, and chapters by number.
        if isinstance(self.captions, str):
            words = tuple(word.strip() for word in self.captions.split(",") if word.strip())
            object.__setattr__(self, "captions", words)
        if isinstance(self.chapters, list | tuple):
            numbers = tuple(str(one) if type(one) is int else one for one in self.chapters)
            object.__setattr__(self, "chapters", numbers)
        object.__setattr__(self, "format", self.format or None)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class SampleRequest(BookRequest):
    """Previews of a book."""

    sample: float = option(
        help="write previews of this length, such as 60s", ge=1, le=3600,
        unit="seconds, such as 60s or 2min", normalize=_parse_seconds, metavar="TIME",
    )  # fmt: skip
    voices: tuple[str, ...] = option((), "the voices to compare; the request's if not given")


@dataclass(frozen=True, kw_only=True)
class VerifyRequest(BookRequest):
    """A finished book and its source."""

    finished: Path = option(help="the finished book, or the folder of its chapters", flag=False)
    words: Literal["none", "sample", "all"] = option(
        "sample", "how much is listened to", metavar="SHARE"
    )


@dataclass(frozen=True)
class BookResult:
    """A finished book."""

    files: tuple[Path, ...]
    beside: tuple[Path, ...]
    """Captions, the playlist, the read-along EPUB."""
    engine: EngineChoice

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError


class UnfinishedBookError(WorkError):
    """Some passages could not be spoken, and gaps were not allowed."""


def make_book(rig: Rig, request: BookRequest, on_event: OnEvent) -> BookResult:
    """Make an audiobook."""
    raise NotImplementedError


def list_chapters(rig: Rig, request: BookRequest, on_event: OnEvent) -> Any:
    """A book's chapters with their words and estimated durations; nothing is made."""
    raise NotImplementedError


def plan_book(rig: Rig, request: BookRequest, on_event: OnEvent) -> Any:
    """Everything that will be spoken, segment by segment."""
    raise NotImplementedError
