"""What a file says, split into passages: made in the process that reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.documents.index.keywords import list_stems, list_words
from anyrig.documents.passages import Passage, split_passages
from anyrig.documents.reading import build_textless_error
from anyrig.text.document import SEPARATOR
from anyrig.text.language import detect_document

if TYPE_CHECKING:
    from anyrig.text.document import Chapter, Document, Role, Span

_LEFT_OUT: frozenset[Role] = frozenset(("cover", "title", "contents"))
_AROUND_PAGES: frozenset[Role] = frozenset(("front", "back"))
"""Of a web page: what stands above and below every page of its site."""
_LEADERS = re.compile(r"(?:\.[ \t]?){4,}[ \t]*[\divxlc]+[ \t]*$", re.MULTILINE)
_MIN_LEADERS = 3


class PassageRow(NamedTuple):
    """A passage as it is written."""

    number: int
    page: int
    start: int
    file_start: int
    title: str
    body: str
    stems: str


@dataclass(frozen=True)
class Content:
    """What a file says, without its name and place."""

    format: str
    language: str
    title: str
    num_pages: int
    num_ocr: int
    """Pages whose text was read off a picture."""
    num_unread: int
    """Pages that have no text because their pictures were not read."""
    passages: tuple[PassageRow, ...]
    warnings: tuple[str, ...] = ()


def extract(document: Document) -> dict[str, Any]:
    """The content of a file as JSON."""
    return {**vars(build_content(document))}


def content_from_json(data: dict[str, Any]) -> Content:
    rows = tuple(PassageRow(*row) for row in data["passages"])
    return Content(**{**data, "passages": rows, "warnings": tuple(data["warnings"])})


def build_content(document: Document) -> Content:
    """A document in passages, with their stems. Covers, tables of contents and the navigation of
    web pages are left out where there is anything else.
    """
    language = find_language(document)
    found = list(split_passages(document, language=language or "en"))
    num_unread = sum(scan.source == "none" for scan in document.scans)
    if not found and num_unread:
        raise build_textless_error(document)
    rows = tuple(_build_rows(found, list(_list_left_out(document)), language))
    if not rows:  # there is nothing else
        whole = [replace(one, is_heading=False) for one in found]
        rows = tuple(_build_rows(whole, [], language, use_all=True))
    return Content(
        document.format, language, document.metadata.title, len(document.parts("page")),
        sum(scan.source == "ocr" for scan in document.scans), num_unread, rows, document.warnings,
    )  # fmt: skip


def _build_rows(
    found: Sequence[Passage], left_out: Sequence[Span], language: str, *, use_all: bool = False
) -> Iterator[PassageRow]:
    """Passages worth searching. The words of a heading that stands alone, as that of a part does,
    go with the passage that follows.
    """
    headings: list[str] = []
    number = 0
    for one in found:
        start, end = one.file_start, one.file_start + len(one.text)
        if any(low <= start and end <= high for low, high in left_out):
            continue
        if one.is_heading:
            headings.append(one.text)
        elif use_all or len(_LEADERS.findall(one.text)) < _MIN_LEADERS:
            above = " ".join(headings)
            stems = [list_stems(one.text, language), *sorted(list_words(above))]
            if above:
                stems.append(list_stems(above, language))
            headings = []
            yield PassageRow(
                number, one.page, one.start, one.file_start, one.title, one.text,
                " ".join(filter(None, stems)),
            )  # fmt: skip
            number += 1


def find_language(document: Document) -> str:
    """The language that a file is written in; what it declares where its text does not tell."""
    found = detect_document(document)
    return found.language.partition("-")[0] if found.sure else ""


def _list_left_out(document: Document) -> Iterator[Span]:
    """Where in the text the chapters are that nobody searches for."""
    start = 0
    for chapter in document.chapters:
        length = _measure(chapter)
        roles = _LEFT_OUT | (_AROUND_PAGES if document.format == "html" else frozenset())
        if length and chapter.role in roles:
            yield start, start + length
        start += length


def _measure(chapter: Chapter) -> int:
    """Of its part of the document's text, with what separates it from the next."""
    return sum(
        len(block.text) + len(SEPARATOR)
        for block in chapter.blocks
        if block.kind != "page" and (block.page or block.text)
    )
