"""What was read on a picture: words, lines with their boxes, and how sure the engine is.

Boxes are in pixels of the picture as it came, four corners each, clockwise from the corner where
the text begins: so they fit a page that lies on its side, stands on its head or is askew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from anyrig.results import fields_to_json, in_json

Point = tuple[float, float]
Box = tuple[Point, Point, Point, Point]
"""Top left, top right, bottom right, bottom left, as the text is read."""
FORMAT = 1


@dataclass(frozen=True)
class OcrWord:
    """A word, where it stands."""

    text: str
    box: Box = field(metadata=in_json(digits=1))
    confidence: float = field(metadata=in_json(digits=4))
    """From 0 to 1."""


@dataclass(frozen=True)
class OcrLine:
    """A line of text; in two columns, each has its own lines."""

    text: str
    box: Box = field(metadata=in_json(digits=1))
    confidence: float = field(metadata=in_json(digits=4))
    words: tuple[OcrWord, ...] = ()
    block: int = 0
    """Which paragraph or column it belongs to, from 0."""


@dataclass(frozen=True)
class ReadPage:
    """All that was read on one picture, in reading order."""

    lines: tuple[OcrLine, ...]
    width: int
    height: int
    turned_degrees: int = 0
    """How far it was turned clockwise before it could be read: 0, 90, 180 or 270."""
    skew_degrees: float = field(default=0.0, metadata=in_json(digits=2))
    """How far its lines ran down to the right, once it was turned."""
    language: str = ""
    engine: str = ""
    device: str = ""
    """What really computed, in the framework's own word."""
    cpu_s: float = field(default=0.0, metadata=in_json(digits=3))
    """Seconds of a processor that reading it took, where known."""
    notes: tuple[str, ...] = ()
    """What was done to the picture before it was read."""

    @property
    def text(self) -> str:
        """Lines under each other, an empty one between blocks."""
        parts: list[str] = []
        last = 0
        for line in self.lines:
            if parts and line.block != last:
                parts.append("")
            parts.append(line.text)
            last = line.block
        return "\n".join(parts)

    @property
    def confidence(self) -> float:
        """Over its characters; 1 where nothing stands."""
        return confidence(self.lines)

    def to_bytes(self) -> bytes:
        """As it is kept and sent."""
        plain = {"format": FORMAT, **asdict(self)}
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()

    def to_json(self) -> dict[str, Any]:
        """For programs: boxes rounded to a tenth of a pixel."""
        return {**fields_to_json(self), "confidence": round(self.confidence, 4), "text": self.text}


def page_from_bytes(data: bytes) -> ReadPage:
    """A page as `to_bytes` wrote it; ValueError when it is none."""
    plain = json.loads(data)
    if plain.pop("format", None) != FORMAT:
        raise ValueError("another form of page")
    lines = tuple(_line(row) for row in plain.pop("lines"))
    notes = tuple(plain.pop("notes"))
    return ReadPage(lines, notes=notes, **plain)


def _line(row: dict[str, Any]) -> OcrLine:
    words = tuple(OcrWord(w["text"], box(w["box"]), w["confidence"]) for w in row["words"])
    return OcrLine(row["text"], box(row["box"]), row["confidence"], words, row["block"])


def box(points: Iterable[Iterable[float]]) -> Box:
    """Four corners as plain numbers."""
    first, second, third, fourth = ((float(x), float(y)) for x, y in points)
    return first, second, third, fourth


def confidence(lines: Sequence[OcrLine]) -> float:
    """Of lines together, each weighed by its characters."""
    count = sum(len(line.text) for line in lines)
    return sum(line.confidence * len(line.text) for line in lines) / count if count else 1.0


def join_words(words: Sequence[OcrWord], block: int) -> OcrLine:
    """A line of words, from left to right."""
    first, last = words[0].box, words[-1].box
    count = sum(len(word.text) for word in words)
    sure = sum(word.confidence * len(word.text) for word in words) / max(1, count)
    text = " ".join(word.text for word in words)
    return OcrLine(text, (first[0], last[1], last[2], first[3]), sure, tuple(words), block)


def number_blocks(lines: Iterable[OcrLine]) -> tuple[OcrLine, ...]:
    """Blocks counted from 0 without holes, in the order of the lines."""
    seen: dict[int, int] = {}
    return tuple(replace(line, block=seen.setdefault(line.block, len(seen))) for line in lines)
