"""The pages of a read-along book: a part's blocks as XHTML, every spoken stretch with an id.

A segment is one stretch, unless it runs over the edge of a paragraph, an item or a cell: then it is
one in each of them, as an element cannot leave the one it began in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from anyrig.audiobooks.readalong_notes import notes_of, page_name, together
from anyrig.audiobooks.readalong_words import clean, root, spoken_as, words

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import Part, Plan
    from anyrig.text.document import Block, Inline

_TYPES = {"note": "footnote", "page": "pagebreak"}
_MATTER = {"body": "bodymatter", "notes": "backmatter", "back": "backmatter"}


@dataclass(frozen=True)
class Piece:
    """A stretch of text that is lit while it is heard."""

    id: str
    segment: int
    """Which segment of the part, from 0."""
    weight: int
    """How many characters it has: its share of the segment's time."""
    type: str = ""
    """In the words of EPUB, where a listener may want to skip it."""


@dataclass(frozen=True)
class Stop:
    """Where a page of the printed book begins."""

    id: str
    label: str


@dataclass(frozen=True)
class Page:
    """A part, written."""

    name: str
    title: str
    level: int
    body: bool
    """Whether it is the book itself, not what stands before or after."""
    xhtml: str
    pieces: tuple[Piece, ...]
    """As they stand on the page."""
    stops: tuple[Stop, ...]


def pages(plan: Plan, language: str) -> Iterator[Page]:
    """Every part of a plan as a page, in order."""
    notes = notes_of(plan)
    for number, part in enumerate(plan.parts):
        writer = _Writer(part, notes.places, language)
        body = writer.blocks(part.chapter.blocks, part.places)
        for guests in notes.guests.get(number, ()):
            body += writer.blocks(guests, ())
        title = part.title if words(part.title) else str(part.number)
        kind = _MATTER.get(part.chapter.role, "frontmatter")
        xhtml = root(title, language, f'<section id="part">\n{body}</section>\n', kind=kind)
        yield Page(
            page_name(number), title, part.level, part.chapter.role == "body", xhtml,
            tuple(writer.pieces), tuple(writer.stops),
        )  # fmt: skip


@dataclass
class _Writer:
    """Writes one part."""

    part: Part
    notes: Mapping[str, str]
    language: str
    pieces: list[Piece] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._spans = sorted(
            (start, end, number)
            for number, segment in enumerate(self.part.script.segments)
            for start, end in segment.spans
        )
        self._starts = [span[0] for span in self._spans]
        self._counts: dict[int, int] = {}
        self._taken: set[str] = set()

    def blocks(self, blocks: Sequence[Block], places: Sequence[int]) -> str:
        """Blocks in order; those without a place are not spoken."""
        placed = [
            (block, places[at] if at < len(places) else -1) for at, block in enumerate(blocks)
        ]
        made = []
        for (kind, name), group in groupby(placed, lambda each: together(each[0])):
            inner = "".join(self._block(block, place) for block, place in group)
            made.append(self._frame(kind, name, inner) if inner else "")
        return "".join(made)

    def _frame(self, kind: str, name: str, inner: str) -> str:
        if kind == "item":
            return f"<ul>\n{inner}</ul>\n"
        if kind == "quote":
            return f"<blockquote>\n{inner}</blockquote>\n"
        if kind == "note":
            own = self.notes.get(name, "").partition("#")[2]
            known = f' id="{own}"' if own and own not in self._taken else ""
            self._taken.add(own)
            return f'<aside epub:type="footnote" role="doc-footnote"{known}>\n{inner}</aside>\n'
        return inner

    def _block(self, block: Block, place: int) -> str:
        text = _Text(self, block, place)
        said = spoken_as(block.language, self.language)
        if block.kind == "page":
            return f"<div{self.stop(block.text)}>{text.all()}</div>\n"
        if not block.text.strip():
            return "<hr/>\n" if block.kind == "rule" else ""
        if block.kind == "heading":
            name = f"h{min(6, max(1, block.level))}"
            return f"<{name}{said}>{text.all()}</{name}>\n"
        if block.kind == "table":
            return f"<table{said}>\n{text.rows()}</table>\n"
        opening, closing = {
            "item": (f"<li{said}>", "</li>"),
            "poem": (f'<p class="poem"{said}>', "</p>"),
            "code": (f"<pre{said}><code>", "</code></pre>"),
            "image": (f"<figure{said}><figcaption>", "</figcaption></figure>"),
            "rule": (f'<p class="rule"{said}>', "</p>"),
        }.get(block.kind, (f"<p{said}>", "</p>"))
        return f"{opening}{text.all()}{closing}\n"

    def stop(self, label: str) -> str:
        """What makes an element a page number of the printed book; readers go there by it."""
        name = f"page-{len(self.stops) + 1}"
        self.stops.append(Stop(name, label))
        said = f' aria-label="{words(label)}"' if words(label) else ""
        return f' class="page" epub:type="pagebreak" role="doc-pagebreak" id="{name}"{said}'

    def spoken(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """What of a stretch of the source is spoken: from, to, by which segment."""
        at = max(0, bisect_right(self._starts, start) - 1)
        last: tuple[int, int, int] | None = None
        while at < len(self._spans) and self._spans[at][0] < end:
            low, high, segment = self._spans[at]
            low, high = max(low, start), min(high, end)
            at += 1
            if low >= high:
                continue
            if last and last[2] == segment:
                last = (
                    last[0],
                    high,
                    segment,
                )  # a mark in between that is not spoken, such as a note's
                continue
            if last:
                yield last
            last = low, high, segment
        if last:
            yield last

    def piece(self, segment: int, weight: int, kind: str) -> str:
        """A new stretch, and its id."""
        self._counts[segment] = count = self._counts.get(segment, 0) + 1
        name = f"s{segment + 1}" if count == 1 else f"s{segment + 1}-{count}"
        self.pieces.append(Piece(name, segment, weight, _TYPES.get(kind, "")))
        return name


class _Text:
    """The text of a block with its marks: what is spoken, languages, notes and pages."""

    def __init__(self, writer: _Writer, block: Block, place: int) -> None:
        self._writer = writer
        self._block = block
        self._place = place
        inlines = [mark for mark in block.inlines if mark.start <= mark.end]
        languages = [mark for mark in inlines if mark.kind == "language"]
        others = [mark for mark in inlines if mark.kind != "language"]
        self._layers = (_Layer(languages), _Layer(others))

    def all(self) -> str:
        """The whole of it."""
        return self._leaf(0, len(self._block.text))

    def rows(self) -> str:
        """A table's; a row that is one segment is lit as a whole, any other cell by cell."""
        made, at = [], 0
        for row in self._block.text.split("\n"):
            heard = {segment for _, _, segment in self._spoken(at, at + len(row))}
            name = self._piece(at, at + len(row), heard.pop()) if len(heard) == 1 else ""
            known = f' id="{name}"' if name else ""
            cells = []
            for cell in row.split("\t"):
                cells.append(f"<td>{self._leaf(at, at + len(cell), lit=not name)}</td>")
                at += len(cell) + 1
            made.append(f"<tr{known}>{''.join(cells)}</tr>\n")
        return "".join(made)

    def _leaf(self, start: int, end: int, *, lit: bool = True) -> str:
        """A stretch that one element holds."""
        made, at = [], start
        for low, high, segment in self._spoken(start, end) if lit else ():
            made.append(self._marked(at, low, 0))
            inner = self._marked(low, high, 0)
            name = self._piece(low, high, segment)
            made.append(f'<span id="{name}">{inner}</span>' if name else inner)
            at = high
        made.append(self._marked(at, end, 0))
        made += [self._mark(mark, "") for mark in self._layers[1].points(end)]
        return "".join(made)

    def _piece(self, start: int, end: int, segment: int) -> str:
        """The id of a stretch that is lit; nothing where there is nothing to see."""
        weight = len(words(self._block.text[start:end]))
        return self._writer.piece(segment, weight, self._block.kind) if weight else ""

    def _spoken(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        place = self._place
        if place >= 0:
            for low, high, segment in self._writer.spoken(place + start, place + end):
                yield low - place, high - place, segment

    def _marked(self, start: int, end: int, depth: int) -> str:
        """A stretch with its marks, those of each layer inside those of the one before."""
        if start >= end:
            return ""
        if depth == len(self._layers):
            text = clean(self._block.text[start:end])
            return text.replace("\n", "<br/>\n") if self._block.kind == "poem" else text
        made, at = [], start
        for mark in self._layers[depth].between(start, end):
            low, high = max(mark.start, at), min(mark.end, end)
            if low > high:
                continue
            made.append(self._marked(at, low, depth + 1))
            made.append(self._mark(mark, self._marked(low, high, depth + 1)))
            at = high
        made.append(self._marked(at, end, depth + 1))
        return "".join(made)

    def _mark(self, mark: Inline, inner: str) -> str:
        if mark.kind == "page":
            label = mark.value or self._block.text[mark.start : mark.end]
            return f"<span{self._writer.stop(label)}>{inner}</span>"
        if mark.kind == "language":
            said = spoken_as(mark.value, "")
            return f"<span{said}>{inner}</span>" if said and inner else inner
        if not inner.strip():
            return inner
        address = self._writer.notes.get(mark.value)
        if not address:
            return f"<sup>{inner}</sup>"
        return f'<a epub:type="noteref" role="doc-noteref" href="{address}">{inner}</a>'


class _Layer:
    """Marks that do not overlap, in order."""

    def __init__(self, marks: Sequence[Inline]) -> None:
        self._marks = sorted(marks, key=lambda mark: (mark.start, mark.end))
        self._ends = [mark.end for mark in self._marks]

    def between(self, start: int, end: int) -> Iterator[Inline]:
        """Those that a stretch touches; a mark without length belongs to what follows it."""
        at = bisect_right(self._ends, start)
        while at and self._ends[at - 1] == start == self._marks[at - 1].start:
            at -= 1
        while at < len(self._marks) and self._marks[at].start < end:
            yield self._marks[at]
            at += 1

    def points(self, place: int) -> Iterator[Inline]:
        """Those without length at a place."""
        at = bisect_left(self._ends, place)
        while at < len(self._marks) and self._ends[at] == place:
            if self._marks[at].start == place:
                yield self._marks[at]
            at += 1
