"""The content of a file, whatever its format: chapters of blocks, for books and for searches.

    document = files.read(Path("book.epub"))
    document.text                       all blocks, a blank line between them
    document.parts("page")              pages, or chapters where the format has no pages
    document.page_at(1200)              the page of a place in `text`

A reader keeps all it finds and names what it is: a footnote is a note, a page number is a page
number. What is done with each (spoken, indexed, left out) is for others to decide.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

BlockKind = Literal[
    "paragraph",
    "heading",
    "quote",
    "item",
    "poem",
    "code",
    "table",
    "note",
    "image",
    "rule",
    "page",
]
InlineKind = Literal["noteref", "page", "language"]
Role = Literal["cover", "title", "contents", "front", "body", "notes", "back"]
Span = tuple[int, int]
"""From and to, in characters."""
SEPARATOR = "\n\n"
"""Between two blocks in the text of a document: offsets count it."""


@dataclass(frozen=True)
class Inline:
    """A stretch of a block's text that is more than its words."""

    start: int
    end: int
    kind: InlineKind
    value: str = ""
    """The id of the note, the number of the page, the code of the language."""


@dataclass(frozen=True)
class Block:
    """A paragraph, or something that stands where one could.

    White space is single spaces, as a browser would show it; only a poem, code and a table keep
    lines, and a table's cells are parted by tabs.
    """

    text: str
    kind: BlockKind = "paragraph"
    level: int = 0
    """Of a heading: 1 is the highest."""
    language: str = ""
    """Where the file marks it: `fr`, `en-GB`."""
    id: str = ""
    """Of a note, what its references name."""
    page: int = 0
    """The page it begins on, counted from 1; 0 where there are none."""
    inlines: tuple[Inline, ...] = ()
    """In order; they do not overlap, except that others may stand inside a language's stretch."""
    breaks: tuple[tuple[int, int], ...] = ()
    """Where it runs on to another page: the offset in its text, and that page."""


@dataclass(frozen=True)
class Chapter:
    """What stands under one entry of the table of contents, up to the next."""

    title: str
    """From the table of contents, else from the first heading; may be empty."""
    blocks: tuple[Block, ...]
    """Its heading included, as it is printed; in reading order."""
    level: int = 1
    """How deep it stands in the table of contents."""
    role: Role = "body"
    """What kind of matter it is; `text/matter.py` settles it."""
    source: str = ""
    """The file inside the archive, with a fragment where there is one."""

    @property
    def num_characters(self) -> int:
        """Of its text."""
        return sum(len(block.text) for block in self.blocks)


@dataclass(frozen=True)
class Picture:
    """A picture as its file has it."""

    data: bytes = field(repr=False)
    media_type: str = "image/jpeg"


@dataclass(frozen=True)
class Metadata:
    """What a file says of itself; empty where it says nothing."""

    title: str = ""
    authors: tuple[str, ...] = ()
    language: str = ""
    series: str = ""
    series_index: str = ""
    year: str = ""
    description: str = ""
    publisher: str = ""
    identifier: str = ""
    rights: str = ""
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scan:
    """A page whose own text is missing or useless, and where its text comes from instead."""

    page: int
    reason: str
    """`a picture without a text layer`; empty where its own text is fine and OCR was requested."""
    layer: str = field(default="", repr=False)
    """Its own text, while that is kept out of the document."""
    source: Literal["none", "layer", "ocr"] = "none"
    ocr: Literal["", "missing", "off"] = ""
    """Why no OCR read it: none is installed, or it is turned off."""


@dataclass(frozen=True)
class Part:
    """A page or a chapter, with its place in the text of the document."""

    text: str
    start: int = 0
    page: int = 0
    """From 1; 0 in a file without pages."""
    title: str = ""
    """Of the chapter, the sheet, the message."""
    headings: tuple[Span, ...] = ()
    """Where the headings are in its text."""


@dataclass(frozen=True)
class Document:
    """A file that was read."""

    metadata: Metadata
    chapters: tuple[Chapter, ...]
    cover: Picture | None = None
    format: str = ""
    """`epub`, `pdf`, `txt` ..."""
    warnings: tuple[str, ...] = ()
    """What could not be read as it should be, each once."""
    path: Path = Path()
    scans: tuple[Scan, ...] = ()
    """In the order of pages."""

    @classmethod
    def from_text(cls, text: str, path: Path = Path()) -> Document:
        """A plain text, as it is."""
        return cls(Metadata(), (Chapter("", (Block(text),)),), format="txt", path=path)

    @property
    def blocks(self) -> Iterator[Block]:
        """All that is part of `text`: no page numbers, and only pages without text are empty."""
        for chapter in self.chapters:
            yield from _text_blocks(chapter)

    @cached_property
    def text(self) -> str:
        return SEPARATOR.join(block.text for block in self.blocks)

    @property
    def has_pages(self) -> bool:
        return any(block.page for block in self.blocks)

    def parts(self, kind: Literal["page", "chapter"]) -> tuple[Part, ...]:
        """The document cut where it has pages or chapters; chapters too where it has no pages.

        Each is `text[part.start : part.start + len(part.text)]`. A chapter without text is none.
        """
        return self._pages if kind == "page" and self.has_pages else self._chapters

    def page_at(self, position: int) -> int:
        """The page of a place in `text`; 0 where there are no pages."""
        pages = self.parts("page")
        return pages[max(0, bisect_right(self._starts, position) - 1)].page if pages else 0

    def replace_pages(self, texts: Mapping[int, str]) -> Document:
        """The same with other texts on some pages, a blank line between their paragraphs."""
        if not texts:
            return self
        chapters, written = [], set[int]()
        for chapter in self.chapters:
            blocks: list[Block] = []
            for block in chapter.blocks:
                if block.page not in texts or block.kind == "page":
                    blocks.append(block)
                elif block.page not in written:
                    written.add(block.page)
                    found = texts[block.page].split(SEPARATOR)
                    blocks += [Block(text, page=block.page) for text in found]
            chapters.append(replace(chapter, blocks=tuple(blocks)))
        return replace(self, chapters=tuple(chapters))

    @cached_property
    def _chapters(self) -> tuple[Part, ...]:
        found, start = [], 0
        for chapter in self.chapters:
            blocks = list(_text_blocks(chapter))
            if blocks:
                text = SEPARATOR.join(block.text for block in blocks)
                headings = _find_headings(blocks)
                found.append(Part(text, start, title=chapter.title, headings=headings))
                start += len(text) + len(SEPARATOR)
        return tuple(found)

    @cached_property
    def _pages(self) -> tuple[Part, ...]:
        found, start = [], 0
        pieces = (
            (page, chapter.title, text, kind, gap)
            for chapter in self.chapters
            for block in _text_blocks(chapter)
            for page, text, kind, gap in _split_at_breaks(block)
        )
        for page, run in groupby(pieces, key=lambda piece: piece[0]):
            pieces_here = list(run)
            text, headings = "", []
            for _, _, piece, kind, gap in pieces_here:
                if kind == "heading":
                    headings.append((len(text), len(text) + len(piece)))
                text += piece + gap
            length = len(text)
            text = text.removesuffix(pieces_here[-1][4])
            found.append(Part(text, start, page, pieces_here[0][1], tuple(headings)))
            start += length
        return tuple(found)

    @cached_property
    def _starts(self) -> list[int]:
        return [part.start for part in self.parts("page")]


def _text_blocks(chapter: Chapter) -> Iterator[Block]:
    for block in chapter.blocks:
        if block.kind != "page" and (block.page or block.text):
            yield block


def _find_headings(blocks: list[Block]) -> tuple[Span, ...]:
    found, start = [], 0
    for block in blocks:
        if block.kind == "heading":
            found.append((start, start + len(block.text)))
        start += len(block.text) + len(SEPARATOR)
    return tuple(found)


def _split_at_breaks(block: Block) -> Iterator[tuple[int, str, BlockKind, str]]:
    """The page, the text on it, and what follows that text."""
    page, start = block.page, 0
    for position, following in block.breaks:
        yield page, block.text[start:position], block.kind, ""
        page, start = following, position
    yield page, block.text[start:], block.kind, SEPARATOR


def document_to_json(document: Document) -> dict[str, Any]:
    """All but the cover and the path."""
    return {
        "metadata": asdict(document.metadata),
        "format": document.format,
        "warnings": document.warnings,
        "scans": [asdict(scan) for scan in document.scans],
        "chapters": [
            {**vars(chapter), "blocks": [_block_to_json(block) for block in chapter.blocks]}
            for chapter in document.chapters
        ],
    }


def document_from_json(data: Mapping[str, Any]) -> Document:
    metadata: dict[str, Any] = data["metadata"]
    lists = {name: tuple(metadata[name]) for name in ("authors", "subjects")}
    return Document(
        Metadata(**{**metadata, **lists}),
        tuple(
            Chapter(**{**chapter, "blocks": tuple(map(_block_from_json, chapter["blocks"]))})
            for chapter in data["chapters"]
        ),
        format=data["format"],
        warnings=tuple(data["warnings"]),
        scans=tuple(Scan(**scan) for scan in data["scans"]),
    )


def _block_to_json(block: Block) -> dict[str, Any]:
    """Only what is not empty: most of a document are plain paragraphs."""
    given = {name: value for name, value in vars(block).items() if value}
    if block.inlines:
        given["inlines"] = [vars(inline) for inline in block.inlines]
    return given


def _block_from_json(data: Mapping[str, Any]) -> Block:
    return Block(
        **{
            "text": "",
            **data,
            "breaks": tuple((start, page) for start, page in data.get("breaks", ())),
            "inlines": tuple(Inline(**inline) for inline in data.get("inlines", ())),
        }
    )
