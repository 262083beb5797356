"""The values in which a PDF's page travels: glyphs, pieces of lines, lines.

Places are in points from the lower left corner of the page as it is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

Span = tuple[int, int]


class Glyph(NamedTuple):
    """One drawn character; a ligature may be several letters."""

    text: str
    left: float
    right: float
    base: float
    size: float
    bold: bool = False
    mono: bool = False
    aside: bool = False
    """Turned, unseen or beyond the page: nothing that is read with the rest."""
    space: int = 0
    """Before it: 2 for a space that the file has, 1 for one that PDFium took from the gap."""
    drawn: int = 0
    """Which text object of the page drew it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Glyphs that stand together on one line, with no wide gap in between."""

    text: str
    left: float
    right: float
    base: float
    size: float
    first: float
    """How wide its first word is."""
    bold: bool = False
    mono: bool = False
    aside: bool = False
    raised: tuple[Span, ...] = ()
    """Stretches of the text in small type above the line."""

    @property
    def top(self) -> float:
        """Where its capitals end, nearly."""
        return self.base + 0.75 * self.size


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was read."""

    number: int
    """Counted from 1."""
    width: float
    height: float
    pieces: tuple[Piece, ...]
    label: str = ""
    """What the file calls the page: `iv`, `12`."""
    num_glyphs: int = 0
    num_unknown: int = 0
    """Of the glyphs, those that the file does not say the letter of."""
    picture: bool = False
    """Whether a picture covers much of it; only looked for where there is no text."""


@dataclass(frozen=True, slots=True)
class Line:
    """Pieces on one base line of one column."""

    text: str
    left: float
    right: float
    base: float
    size: float
    first: float
    page: int
    bold: bool = False
    mono: bool = False
    raised: tuple[Span, ...] = ()
    cells: tuple[tuple[float, float, str], ...] = ()
    """Its pieces, where there is more than one: left, right, text."""
    margin: float = 0.0
    """Where its column begins."""
    edge: float = 0.0
    """Where its column ends."""
    region: int = 0
    """Counts columns and bands through the whole document."""

    @property
    def width(self) -> float:
        """From its first glyph to its last."""
        return self.right - self.left


def line_of(pieces: list[Piece], page: int) -> Line:
    """The line that pieces on one base line make, from left to right."""
    ordered = sorted(pieces, key=lambda piece: piece.left)
    text, raised = "", []
    for piece in ordered:
        start = len(text) + bool(text)
        text = f"{text} {piece.text}" if text else piece.text
        raised += [(start + begin, start + end) for begin, end in piece.raised]
    main = max(ordered, key=lambda piece: len(piece.text))
    letters = sum(len(piece.text) for piece in ordered)
    return Line(
        text=text, left=ordered[0].left, right=max(piece.right for piece in ordered),
        base=main.base, size=main.size, first=ordered[0].first, page=page,
        bold=sum(len(piece.text) for piece in ordered if piece.bold) > 0.8 * letters,
        mono=all(piece.mono for piece in ordered),
        raised=tuple(raised),
        cells=_cells(ordered) if len(ordered) > 1 else (),
    )  # fmt: skip


def _cells(ordered: list[Piece]) -> tuple[tuple[float, float, str], ...]:
    """The pieces as a table's cells: parted by more than wide words' gaps."""
    cells: list[tuple[float, float, str]] = []
    for piece in ordered:
        if cells and piece.left - cells[-1][1] < 1.2 * piece.size:
            left, _, text = cells[-1]
            cells[-1] = (left, piece.right, f"{text} {piece.text}")
        else:
            cells.append((piece.left, piece.right, piece.text))
    return tuple(cells) if len(cells) > 1 else ()


def placed(line: Line, margin: float, edge: float, region: int) -> Line:
    """The line in its column."""
    return replace(line, margin=margin, edge=edge, region=region)
