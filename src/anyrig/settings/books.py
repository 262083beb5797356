"""How books are read aloud, as a person sets it once for all: `[book]` in the settings file."""

from __future__ import annotations

from dataclasses import dataclass

from anyrig.audiobooks.ways import CHOICES
from anyrig.errors import InvalidSettingError


@dataclass(frozen=True)
class BookSettings:
    """What is done with the parts of a book that are no plain prose; each has a flag as well."""

    notes: str = "skip"
    """Footnotes: skip, inline (after the paragraph that names them) or end (of the chapter)."""
    tables: str = "speak"
    """speak (row by row) or skip."""
    images: str = "speak"
    """The words that stand for a picture: speak or skip."""
    poems: str = "lines"
    """lines (a rest after each), prose or skip."""
    code: str = "skip"
    """Listings: skip or speak."""
    pages: str = "skip"
    """Page numbers and running heads: skip or speak."""
    titles: str = "speak"
    """A chapter's title where the text does not print it: speak or skip."""
    matter: str = "skip"
    """Covers, copyright pages, contents, advertisements: skip or speak."""
    foreign: str = "refuse"
    """Paragraphs in a language that no voice here speaks: refuse, skip or read."""
    rest_before: float = 0.5
    """Seconds of silence before a chapter."""
    rest_after: float = 1.5
    """And after it."""
    bitrate: int = 0
    """Bits a second of what is written; 0 leaves it to the format."""

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidSettingError(
                    f"book.{name} is {getattr(self, name)!r}", hint=f"One of: {', '.join(choices)}."
                )
        for name in ("rest_before", "rest_after"):
            if not 0 <= getattr(self, name) <= 60:
                raise InvalidSettingError(
                    f"book.{name} is {getattr(self, name):g}", hint="Seconds from 0 to 60."
                )
