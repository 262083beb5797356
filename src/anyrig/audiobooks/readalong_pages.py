"""The pages of a read-along book: a part's blocks as XHTML, every spoken stretch with an id.

A segment is one stretch, unless it runs over the edge of a paragraph, an item or a cell: then it is
one in each of them, as an element cannot leave the one it began in.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import Part, Plan
    from anyrig.text.document import Block, Inline

_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]"
)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_RIGHT_TO_LEFT = frozenset(("ar", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"))
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


@dataclass(frozen=True)
class Notes:
    """Where the notes of a book stand."""

    places: Mapping[str, str]
    """The address of each note, by its id."""
    guests: Mapping[int, tuple[tuple[Block, ...], ...]]
    """By part: notes that it names and no part holds; they stand at its end, unspoken."""


def clean(text: str) -> str:
    """A text without what XML cannot hold, its marks escaped."""
    return escape(_UNPRINTABLE.sub("", text))


def words(text: str) -> str:
    """A name or a title in one line, escaped."""
    return escape(" ".join(_UNPRINTABLE.sub("", text).split()))


def tag(language: str) -> str:
    """A language as XML takes it, or nothing."""
    language = language.strip().replace("_", "-")
    return language if _LANGUAGE.fullmatch(language) else ""


def right_to_left(language: str) -> bool:
    """Whether it is written from the right."""
    return language.lower().partition("-")[0] in _RIGHT_TO_LEFT


def root(title: str, language: str, body: str, *, depth: str = "../", kind: str = "") -> str:
    """A whole XHTML file."""
    turned = ' dir="rtl"' if right_to_left(language) else ""
    typed = f' epub:type="{kind}"' if kind else ""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" '
        f'lang="{language}" xml:lang="{language}"{turned}>\n'
        f"<head>\n<title>{words(title)}</title>\n"
        f'<link rel="stylesheet" type="text/css" href="{depth}style.css"/>\n</head>\n'
        f"<body{typed}>\n{body}</body>\n</html>\n"
    )


def pages(plan: Plan, language: str) -> Iterator[Page]:
    """Every part of a plan as a page, in order."""
    notes = _notes(plan)
    for number, part in enumerate(plan.parts):
        writer = _Writer(part, notes.places, language)
        body = writer.blocks(part.chapter.blocks, part.places)
        for guests in notes.guests.get(number, ()):
            body += writer.blocks(guests, ())
        title = part.title if words(part.title) else str(part.number)
        kind = _MATTER.get(part.chapter.role, "frontmatter")
        xhtml = root(title, language, f'<section id="part">\n{body}</section>\n', kind=kind)
        yield Page(
            _name(number), title, part.level, part.chapter.role == "body", xhtml,
            tuple(writer.pieces), tuple(writer.stops),
        )  # fmt: skip


def _name(number: int) -> str:
    return f"part-{number + 1:03d}"


def _notes(plan: Plan) -> Notes:
    """The address of each note; those that lie outside the parts go to the first who names them."""
    places: dict[str, str] = {}
    for number, part in enumerate(plan.parts):
        for block in part.chapter.blocks:
            if block.kind == "note" and block.id and block.id not in places:
                places[block.id] = f"{_name(number)}.xhtml#n{len(places) + 1}"
    outside: dict[str, tuple[Block, ...]] = {}
    for chapter in plan.document.chapters:
        for kind, group in groupby(chapter.blocks, _together):
            if kind[0] == "note":
                outside.setdefault(kind[1], tuple(group))
    guests: dict[int, list[tuple[Block, ...]]] = {}
    for number, part in enumerate(plan.parts):
        for name in _named(part):
            if name in outside and name not in places:
                places[name] = f"{_name(number)}.xhtml#n{len(places) + 1}"
                guests.setdefault(number, []).append(outside[name])
    return Notes(places, {number: tuple(each) for number, each in guests.items()})


def _named(part: Part) -> Iterator[str]:
    for block in part.chapter.blocks:
        for mark in block.inlines:
            if mark.kind == "noteref" and mark.value:
                yield mark.value


def _together(block: Block) -> tuple[str, str]:
    """Neighbours that share this stand in one element."""
    if block.kind == "note":
        return "note", block.id
    return (block.kind, "") if block.kind in ("item", "quote") else ("", "")


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
        for (kind, name), group in groupby(placed, lambda each: _together(each[0])):
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
        said = _attribute(block.language, self.language)
        if block.kind == "page":
            return f"{self.stop('div', block.text, text.all())}\n"
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

    def stop(self, element: str, label: str, inner: str) -> str:
        """A page number of the printed book; readers go there by it."""
        name = f"page-{len(self.stops) + 1}"
        self.stops.append(Stop(name, label))
        said = f' aria-label="{words(label)}"' if words(label) else ""
        return (
            f'<{element} class="page" epub:type="pagebreak" role="doc-pagebreak" '
            f'id="{name}"{said}>{inner}</{element}>'
        )

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
        """A table's, cell by cell."""
        made, at = [], 0
        for row in self._block.text.split("\n"):
            cells = []
            for cell in row.split("\t"):
                cells.append(f"<td>{self._leaf(at, at + len(cell))}</td>")
                at += len(cell) + 1
            made.append(f"<tr>{''.join(cells)}</tr>\n")
        return "".join(made)

    def _leaf(self, start: int, end: int) -> str:
        """A stretch that one element holds."""
        made, at = [], start
        for low, high, segment in self._spoken(start, end):
            made.append(self._marked(at, low, 0))
            inner = self._marked(low, high, 0)
            weight = len(_UNPRINTABLE.sub("", self._block.text[low:high]).strip())
            if weight:
                name = self._writer.piece(segment, weight, self._block.kind)
                inner = f'<span id="{name}">{inner}</span>'
            made.append(inner)
            at = high
        made.append(self._marked(at, end, 0))
        made += [self._mark(mark, "") for mark in self._layers[1].points(end)]
        return "".join(made)

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
            return self._writer.stop("span", mark.value or inner, inner)
        if mark.kind == "language":
            said = _attribute(mark.value, "")
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


def _attribute(language: str, around: str) -> str:
    """What names a language where it is another than around it."""
    language = tag(language)
    if not language or language == around:
        return ""
    turned = ' dir="rtl"' if right_to_left(language) and not right_to_left(around) else ""
    return f' lang="{language}" xml:lang="{language}"{turned}'
