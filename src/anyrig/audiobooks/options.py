"""What can be chosen of a book: the formats, and how what is not plain prose is read.

A file of its own: the settings of every command are built from it, and all others import more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args, get_type_hints

BOOK_FORMAT = "m4b"
CHAPTER_FORMATS = ("mp3", "opus", "flac", "m4a", "wav")
"""Of a file for each chapter."""


@dataclass(frozen=True)
class ContentOptions:
    """How the parts of a book that are not plain prose are read."""

    notes: Literal["skip", "inline", "end"] = "skip"
    """Footnotes: left out, after the paragraph that names them, or at the chapter's end."""
    tables: Literal["speak", "skip"] = "speak"
    images: Literal["speak", "skip"] = "speak"
    """The words that stand for a picture."""
    poems: Literal["lines", "prose", "skip"] = "lines"
    """With a rest after each line, or read through."""
    code: Literal["skip", "speak"] = "skip"
    pages: Literal["skip", "speak"] = "skip"
    """Page numbers and running heads."""
    titles: Literal["speak", "skip"] = "speak"
    """A chapter's title where the text itself does not print it."""
    matter: Literal["skip", "speak"] = "skip"
    """Covers, copyright pages, tables of contents, advertisements."""
    foreign: Literal["refuse", "skip", "read"] = "refuse"
    """Paragraphs in a language that no voice here speaks."""


CONTENT_CHOICES: dict[str, tuple[str, ...]] = {
    name: get_args(hint) for name, hint in get_type_hints(ContentOptions).items()
}
