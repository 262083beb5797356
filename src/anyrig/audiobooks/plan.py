"""What of a book is spoken, and how: every character in a segment or in a named omission."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.speech.script import Script
    from anyrig.text.document import Chapter, Document


@dataclass(frozen=True)
class Part:
    """A chapter as it will be spoken."""

    number: int
    """In the book's list of chapters, from 1."""
    title: str
    level: int
    chapter: Chapter
    script: Script
    """Its source is the text of all blocks, parted by blank lines."""
    places: tuple[int, ...]
    """Where each block begins in that source."""


@dataclass(frozen=True)
class Plan:
    """A book as it will be spoken."""

    document: Document
    parts: tuple[Part, ...]

    @property
    def num_segments(self) -> int:
        """Of all parts."""
        return sum(len(part.script.segments) for part in self.parts)
