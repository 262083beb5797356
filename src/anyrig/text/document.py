"""What a file says, whatever its format: chapters of blocks, with everything still there.

A reader keeps all it finds and names what it is: a footnote is a note, a page number is a page
number. What is done with each (spoken, indexed, left out) is for others to decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

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
class About:
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
class Document:
    """A file that was read."""

    about: About
    chapters: tuple[Chapter, ...]
    cover: Picture | None = None
    format: str = ""
    """`epub`, `pdf`, `txt` ..."""
    warnings: tuple[str, ...] = ()
    """What could not be read as it should be, each said once."""
