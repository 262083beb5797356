"""The text of a document in parts, for people who read it where its file cannot be shown.

    part = read_part(rig, ReadRequest(file=path, start=hit_start, words="The rent is due"))

A part is a chapter, a page or a message, or a piece of a long one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app.documents import FileOptions, read_files
from anyrig.options import option
from anyrig.text.language import detect_document
from anyrig.text.tokens import Span, split_paragraphs

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.text.document import Document, Part

_MAX_CHARACTERS = 20_000
"""Of a part."""


@dataclass(frozen=True, kw_only=True)
class ReadRequest(FileOptions):
    """Reading."""

    file: Path = option(help="the file")
    part: int | None = option(None, "number of the part, from 1; default: by the passage", gt=0)
    start: int = option(0, "where the passage begins in the text of the file", ge=0)
    words: str = option("", "how the passage begins: it is found if the file has changed")


@dataclass(frozen=True)
class ReadBlock:
    """A paragraph or a heading."""

    text: str
    start: int
    """In the text of the file, in characters."""
    heading: bool


@dataclass(frozen=True)
class DocumentPart:
    part: int
    """From 1."""
    num_parts: int
    type: str
    language: str
    """As the file says; empty if it does not."""
    title: str
    """Of the chapter or message."""
    page: int | None
    start: int | None
    """Where the passage begins in the text of the file; None if it was not found."""
    blocks: tuple[ReadBlock, ...]


def read_part(rig: Rig, request: ReadRequest) -> DocumentPart:
    """The part of a file with a number, or the one with a passage."""
    from anyrig.documents.reading import build_textless_error
    from anyrig.text.sandbox import ReadError

    (document,) = read_files(rig, request, (request.file,))
    if isinstance(document, ReadError):
        raise document.error
    parts = [(page, spans) for page in document.parts("page") for spans in _cut_page(page.text)]
    if not parts:
        raise build_textless_error(document)
    start = _find_passage(document, request.start, request.words)
    number = request.part or _find_part(parts, request.start if start is None else start)
    number = min(number, len(parts))
    page, spans = parts[number - 1]
    headings = set(page.headings)
    return DocumentPart(
        part=number,
        num_parts=len(parts),
        type=document.format,
        language=detect_document(document).language,
        title=page.title,
        page=page.page or None,
        start=start,
        blocks=tuple(
            ReadBlock(page.text[begin:end], page.start + begin, (begin, end) in headings)
            for begin, end in spans
        ),
    )


def _cut_page(text: str) -> Iterator[list[Span]]:
    """Paragraphs in parts of bounded length."""
    part: list[Span] = []
    for start, end in _cut_paragraphs(text):
        if part and end - part[0][0] > _MAX_CHARACTERS:
            yield part
            part = []
        part.append((start, end))
    if part:
        yield part


def _cut_paragraphs(text: str) -> Iterator[Span]:
    for start, end in split_paragraphs(text):
        while end - start > _MAX_CHARACTERS:
            space = text.rfind(" ", start + 1, start + _MAX_CHARACTERS)
            cut = space if space > 0 else start + _MAX_CHARACTERS
            yield start, cut
            start = cut
        yield start, end


def _find_passage(document: Document, start: int, words: str) -> int | None:
    """Where the passage is now: where it was, unless the file has changed since."""
    if not words:
        return None
    for page in document.parts("page"):
        if start >= page.start and page.text.startswith(words, start - page.start):
            return start
    for page in document.parts("page"):
        if (found := page.text.find(words)) >= 0:
            return page.start + found
    return None


def _find_part(parts: list[tuple[Part, list[Span]]], start: int) -> int:
    """The number of the last part that begins before a place."""
    begins = [page.start + spans[0][0] for page, spans in parts]
    return max(1, sum(begin <= start for begin in begins))
