"""A file to pages of text: its own text first, its pictures where that is none or garbage.

What turns a picture into text is handed in (`Reads`); this file knows no engine of OCR.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ReadPicture:
    """What stands on one picture of a page."""

    text: str
    """In reading order, a blank line between paragraphs; empty where nothing stands."""
    turned_degrees: int = 0
    """How far the page was turned clockwise before it was read: 0, 90, 180 or 270."""
    confidence: float = 1.0
    """From 0 to 1, over its characters."""
    language: str = ""
    """The one it was read in, where the engine knows; `en`, `fr`."""


class Reads(Protocol):
    """Whatever reads the text on pictures."""

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        """What stands on each picture, in order, one for one.

        Args:
            pictures: each a whole PNG file, upright as the page is shown; taken as they are
                needed, so that a long file is never in memory as a whole.
        """
        ...
