"""What a file says, cut where it has pages, each with its place: file, page, offset.

A page whose text layer is missing or garbage says so, and holds no text until its picture is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Source = Literal["text", "ocr", "none"]
"""Where a page's text comes from: the file's own text, its picture, or there is none."""
JOINT = "\n\n"
"""What stands between two pages in the text of a file: offsets count it."""


@dataclass(frozen=True)
class Page:
    """A page of a file; a chapter or the whole of one that has no pages."""

    text: str
    number: int = 0
    """From 1; 0 in a file without pages."""
    start: int = 0
    """Where its text begins in the text of the file, in characters."""
    source: Source = "text"
    title: str = ""
    """Of the chapter, the sheet, the message: what helps a person to find the place."""
    lack: str = ""
    """Why its own text cannot be used, `a picture without a text layer`; empty when it can."""


@dataclass(frozen=True)
class Paged:
    """A file in pages."""

    file: Path
    format: str
    pages: tuple[Page, ...]
    language: str = ""
    """As the file says; empty where it does not."""
    title: str = ""
    warnings: tuple[str, ...] = ()
    """What could not be read as it should be, each said once."""

    @property
    def text(self) -> str:
        """All of it: `text[page.start:page.start + len(page.text)]` is the page's."""
        return JOINT.join(page.text for page in self.pages)
