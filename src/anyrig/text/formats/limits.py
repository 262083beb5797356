"""How much a file may ask of the machine before it is refused.

Far above any honest book, and low enough that a file made to do harm ends in seconds with an
error. A caller who trusts a file, and owns the memory, gives larger ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

OnPage = Callable[[int, int], None]
"""Called with the number of each page that was read, and of all: each page has its own time."""
_MB = 1_000_000


@dataclass(frozen=True)
class Limits:
    """The most that one file may hold."""

    file_bytes: int = 1_500 * _MB
    """Of the file as it lies on disk: picture books are large, texts are not."""
    member_bytes: int = 200 * _MB
    """Of one member of an archive, unpacked: the longest text, the largest picture."""
    text_bytes: int = 64 * _MB
    """Of one piece of text or mark-up that is taken as a whole: a chapter, a table of contents."""
    total_bytes: int = 1_000 * _MB
    """Of all members that are read, unpacked."""
    members: int = 50_000
    """Of an archive."""
    ratio: int = 250
    """Unpacked over packed, of a member above `ratio_from_bytes`."""
    ratio_from_bytes: int = 8 * _MB
    """Smaller members may be as repetitive as they like: they cannot fill a memory."""
    tags: int = 1_200_000
    """Of mark-up in one file of XML; what takes time is their number, not their size."""
    page_tags: int = 600_000
    """Of mark-up in one page."""
    book_bytes: int = 200 * _MB
    """Of all pages of a book, unpacked: blanks take time too."""
    book_tags: int = 1_500_000
    """Of mark-up in all pages of a book: twenty times a long one."""
    characters: int = 20 * _MB
    """Of text in the whole document: twice the longest novel."""
    pages: int = 20_000
    """Of a file that has pages: a PDF's, the pictures of a TIFF."""
    seconds: float = 600.0
    """To read a file, or to draw its pages; what reads the drawn pages is not counted."""
    pixels: int = 200 * _MB
    """Of one picture: an A0 sheet at 150 dots an inch has 35 million."""
    cells: int = 5 * _MB
    """Of a table."""
    attachments: int = 500
    """Of one message, those of its attached messages included."""
    depth: int = 8
    """How deep messages may be attached to messages; what lies deeper is left out and named."""
