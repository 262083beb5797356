"""A book to read while it is heard: an EPUB 3 with media overlays.

    write_readalong(Path("book.epub"), plan, timeline, audio, narrator="Aoede")

The text is the plan's own, all of it, spoken or not. Each word is highlighted as it is heard where
the engine gives the times of words, else each sentence. An element cannot leave the one it began
in: a segment that runs over the edge of a paragraph, an item or a cell has a piece in each of them.
The same book gives the same bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.audiobooks import readalong_epub as epub
from anyrig.audiobooks.metadata import prepare_cover
from anyrig.audiobooks.readalong_epub import Clip, Highlight, OverlayTrack, PageBreak, XhtmlPage
from anyrig.speech.word_times import place_words

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import ChapterPlan, NarrationPlan
    from anyrig.audiobooks.record import Cue, Timeline
    from anyrig.text.document import Block, Inline, Metadata

MEDIA_TYPES = {".m4a": "audio/mp4", ".mp3": "audio/mpeg"}
"""The audio that every reader of EPUB 3 plays."""
_ENDINGS = {"image/jpeg": "jpg", "image/png": "png"}
_TYPES = {"note": "footnote", "page": "pagebreak"}
_MATTER = {"body": "bodymatter", "notes": "backmatter", "back": "backmatter"}


def write_readalong(
    path: Path,
    plan: NarrationPlan,
    timeline: Timeline,
    audio: Sequence[Path],
    *,
    narrator: str = "",
) -> None:
    """Write the read-along book of a finished audiobook, whole or not at all.

    Args:
        path: of the new EPUB.
        plan: what was spoken.
        timeline: when it is heard.
        audio: one file for each part, from the part's mark to the next, of `MEDIA_TYPES`.
        narrator: the voice.
    """
    assert plan.parts, "a book without parts"
    assert len(audio) == len(plan.parts) == len(timeline.chapters), "one audio file for each part"
    about = plan.document.metadata
    language = _choose_language(about, plan)
    heard = timeline.group_cues()
    words = {
        number: time_part_words(part, heard.get(number, ()), timeline.rate)
        for number, part in enumerate(plan.parts)
    }
    written = list(build_pages(plan, language, words))
    clips = [
        build_clips(page.pieces, heard.get(number, ()), timeline, number)
        for number, page in enumerate(written)
    ]
    tracks = [_build_track(*each) for each in zip(written, clips, audio, strict=True)]
    picture = prepare_cover(plan.document.cover).picture
    face = (f"cover.{_ENDINGS[picture.media_type]}", picture.media_type) if picture else None
    name = epub.build_identifier(about, "\n".join(part.script.source for part in plan.parts))
    described = epub.build_metadata(about, language, name, narrator)
    title = about.title if epub.escape_label(about.title) else "Untitled"
    files: dict[str, str | bytes | Path] = {
        "META-INF/container.xml": epub.CONTAINER,
        "EPUB/package.opf": epub.build_package(written, tracks, described, language, face),
        "EPUB/nav.xhtml": epub.build_contents(written, language, title, cover=face is not None),
        "EPUB/style.css": epub.STYLE,
    }
    if picture and face:
        files["EPUB/text/cover.xhtml"] = _build_cover_page(face[0], title, language)
        files[f"EPUB/{face[0]}"] = picture.data
    for page, track, sound in zip(written, tracks, audio, strict=True):
        files[f"EPUB/text/{page.name}.xhtml"] = page.xhtml
        if track:
            files[f"EPUB/smil/{page.name}.smil"] = epub.build_overlay(page, track)
            files[f"EPUB/{track.file}"] = sound
    epub.write_archive(path, files)


def _choose_language(about: Metadata, plan: NarrationPlan) -> str:
    """As the file says, unless its text is in another."""
    main, declared = epub.parse_language(plan.language), epub.parse_language(about.language)
    alike = declared.lower().partition("-")[0] == main.lower().partition("-")[0]
    return declared if declared and (alike or not main) else main or "und"


def _build_track(page: XhtmlPage, heard: tuple[Clip, ...], audio: Path) -> OverlayTrack | None:
    """The audio of a part, or nothing where none of its text is heard."""
    ending = audio.suffix.lower()
    return OverlayTrack(f"audio/{page.name}{ending}", MEDIA_TYPES[ending], heard) if heard else None


def _build_cover_page(picture: str, title: str, language: str) -> str:
    image = f'<img src="../{picture}" alt="{epub.escape_label(title)}"/>'
    body = f'<section class="cover">\n{image}\n</section>\n'
    return epub.build_xhtml(title, language, body, kind="cover")


# -- which words are heard when --------------------------------------------------------------------


@dataclass(frozen=True)
class _TimedWord:
    """A word as it is written, in the source of its part."""

    start: int
    end: int
    heard_at: float
    """In samples of the book."""


TimedWords = Mapping[int, Sequence[_TimedWord]]
"""By segment; those without the times of words are not in it."""


def time_part_words(part: ChapterPlan, cues: Sequence[Cue], rate: int) -> TimedWords:
    """The words of a part that have times."""
    found: dict[int, list[_TimedWord]] = {}
    script = part.script
    for cue in cues:
        if cue.words:
            words = place_words(
                script.source, script.segments[cue.segment], cue.words, cue.start / rate,
                cue.end / rate,
            )  # fmt: skip
            found[cue.segment] = [_TimedWord(*word.span, word.start_s * rate) for word in words]
    return found


def build_clips(
    pieces: Sequence[Highlight], cues: Sequence[Cue], timeline: Timeline, number: int
) -> tuple[Clip, ...]:
    """The clips of a part from its beginning to its end.

    A player goes from clip to clip and leaves out what lies between, so each lasts until the next
    begins: the pauses are heard as they are in the audiobook.
    """
    mark, rate = timeline.chapters[number], timeline.rate
    whole_ms = round((mark.end - mark.start) * 1000 / rate)
    starts: list[tuple[int, Highlight]] = []
    for start, piece in _find_starts(pieces, cues):
        start_ms = round((start - mark.start) * 1000 / rate) if starts else 0
        if start_ms < whole_ms and (not starts or start_ms > starts[-1][0]):
            starts.append((start_ms, piece))
    ends = [start_ms for start_ms, _ in starts[1:]] + [whole_ms]
    return tuple(
        Clip(piece, start_ms, end_ms)
        for (start_ms, piece), end_ms in zip(starts, ends, strict=bool(starts))
    )


def _find_starts(
    pieces: Sequence[Highlight], cues: Sequence[Cue]
) -> Iterator[tuple[float, Highlight]]:
    """When each piece begins, in samples; where words have no times, pieces of one segment share
    its time by their length.
    """
    of: dict[int, list[Highlight]] = {}
    for piece in pieces:
        of.setdefault(piece.segment, []).append(piece)
    for cue in cues:
        shared = of.get(cue.segment, [])
        weight, done = sum(piece.weight for piece in shared), 0
        for piece in shared:
            share = cue.start + (cue.end - cue.start) * done / weight
            yield share if piece.start is None else piece.start, piece
            done += piece.weight


# -- notes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notes:
    """Where the notes of a book stand."""

    places: Mapping[str, str]
    """The address of each note, by its id."""
    guests: Mapping[int, tuple[tuple[Block, ...], ...]]
    """By part: notes that it names and no part holds; they stand at its end, unspoken."""


def format_page_name(number: int) -> str:
    """What a part's files are called."""
    return f"part-{number + 1:03d}"


def find_notes(plan: NarrationPlan) -> Notes:
    """The address of each note; those that lie outside the parts go to the first who names them."""
    places: dict[str, str] = {}
    for number, part in enumerate(plan.parts):
        for block in part.chapter.blocks:
            if _is_linkable(block) and block.id not in places:
                places[block.id] = f"{format_page_name(number)}.xhtml#n{len(places) + 1}"
    outside: dict[str, tuple[Block, ...]] = {}
    for chapter in plan.document.chapters:
        for (_, name), group in groupby(chapter.blocks, group_key):
            note = tuple(block for block in group if _is_linkable(block))
            if note:
                outside.setdefault(name, note)
    guests: dict[int, list[tuple[Block, ...]]] = {}
    for number, part in enumerate(plan.parts):
        for name in _list_note_references(part):
            if name in outside and name not in places:
                places[name] = f"{format_page_name(number)}.xhtml#n{len(places) + 1}"
                guests.setdefault(number, []).append(outside[name])
    return Notes(places, {number: tuple(each) for number, each in guests.items()})


def _is_linkable(block: Block) -> bool:
    """Whether it is a note that a sign can lead to."""
    return block.kind == "note" and bool(block.id) and bool(block.text.strip())


def _list_note_references(part: ChapterPlan) -> Iterator[str]:
    for block in part.chapter.blocks:
        for mark in block.inlines:
            if mark.kind == "noteref" and mark.value:
                yield mark.value


def group_key(block: Block) -> tuple[str, str]:
    """Neighbours that share this stand in one element."""
    if block.kind == "note":
        return "note", block.id
    return (block.kind, "") if block.kind in ("item", "quote") else ("", "")


# -- pages -----------------------------------------------------------------------------------------


def build_pages(
    plan: NarrationPlan, language: str, words: Mapping[int, TimedWords] | None = None
) -> Iterator[XhtmlPage]:
    """Every part of a plan as a page, in order; `words` are those with times, by part."""
    notes = find_notes(plan)
    for number, part in enumerate(plan.parts):
        writer = _PageWriter(part, notes.places, language, (words or {}).get(number, {}))
        body = writer.write_blocks(part.chapter.blocks, part.places)
        for guests in notes.guests.get(number, ()):
            body += writer.write_blocks(guests, ())
        title = part.title if epub.escape_label(part.title) else str(part.number)
        kind = _MATTER.get(part.chapter.role, "frontmatter")
        xhtml = epub.build_xhtml(
            title, language, f'<section id="part">\n{body}</section>\n', kind=kind
        )
        yield XhtmlPage(
            format_page_name(number), title, part.level, part.chapter.role == "body", xhtml,
            tuple(writer.pieces), tuple(writer.breaks),
        )  # fmt: skip


@dataclass
class _PageWriter:
    """Writes one part."""

    part: ChapterPlan
    notes: Mapping[str, str]
    language: str
    words: TimedWords
    pieces: list[Highlight] = field(default_factory=list)
    breaks: list[PageBreak] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._spans = sorted(
            (start, end, number)
            for number, segment in enumerate(self.part.script.segments)
            for start, end in segment.spans
        )
        self._starts = [span[0] for span in self._spans]
        self._counts: dict[int, int] = {}
        self._taken: set[str] = set()

    def write_blocks(self, blocks: Sequence[Block], places: Sequence[int]) -> str:
        """Blocks in order; those without a place are not spoken."""
        placed = [
            (block, places[at] if at < len(places) else -1) for at, block in enumerate(blocks)
        ]
        made = []
        for (kind, name), group in groupby(placed, lambda each: group_key(each[0])):
            inner = "".join(self._write_block(block, place) for block, place in group)
            made.append(self._wrap_group(kind, name, inner) if inner else "")
        return "".join(made)

    def _wrap_group(self, kind: str, name: str, inner: str) -> str:
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

    def _write_block(self, block: Block, place: int) -> str:
        text = _BlockWriter(self, block, place)
        attributes = epub.language_attributes(block.language, self.language)
        if block.kind == "page":
            return f"<div{self.add_break(block.text)}>{text.write()}</div>\n"
        if not block.text.strip():
            return "<hr/>\n" if block.kind == "rule" else ""
        if block.kind == "heading":
            name = f"h{min(6, max(1, block.level))}"
            return f"<{name}{attributes}>{text.write()}</{name}>\n"
        if block.kind == "table":
            return f"<table{attributes}>\n{text.write_rows()}</table>\n"
        opening, closing = {
            "item": (f"<li{attributes}>", "</li>"),
            "poem": (f'<p class="poem"{attributes}>', "</p>"),
            "code": (f"<pre{attributes}><code>", "</code></pre>"),
            "image": (f"<figure{attributes}><figcaption>", "</figcaption></figure>"),
            "rule": (f'<p class="rule"{attributes}>', "</p>"),
        }.get(block.kind, (f"<p{attributes}>", "</p>"))
        return f"{opening}{text.write()}{closing}\n"

    def add_break(self, label: str) -> str:
        """What makes an element a page number of the printed book; readers go there by it."""
        name = f"page-{len(self.breaks) + 1}"
        self.breaks.append(PageBreak(name, label))
        aria = f' aria-label="{epub.escape_label(label)}"' if epub.escape_label(label) else ""
        return f' class="page" epub:type="pagebreak" role="doc-pagebreak" id="{name}"{aria}'

    def find_spoken(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
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
                last = last[0], high, segment  # between them a sign that is not spoken
                continue
            if last:
                yield last
            last = low, high, segment
        if last:
            yield last

    def find_words(self, segment: int, start: int, end: int) -> list[_TimedWord]:
        """The words with times of a segment that a stretch of the source touches."""
        words = self.words.get(segment, ())
        first = bisect_right(words, start, key=lambda word: word.end)
        return list(takewhile(lambda word: word.start < end, words[first:]))

    def add_piece(self, segment: int, weight: int, kind: str, heard_at: float | None = None) -> str:
        """A new stretch, and its id."""
        self._counts[segment] = count = self._counts.get(segment, 0) + 1
        name = f"s{segment + 1}" if count == 1 else f"s{segment + 1}-{count}"
        self.pieces.append(Highlight(name, segment, weight, _TYPES.get(kind, ""), heard_at))
        return name


class _BlockWriter:
    """The text of a block with its marks: what is spoken, languages, notes and pages."""

    def __init__(self, writer: _PageWriter, block: Block, place: int) -> None:
        self._writer = writer
        self._block = block
        self._place = place
        inlines = [mark for mark in block.inlines if mark.start <= mark.end]
        languages = [mark for mark in inlines if mark.kind == "language"]
        others = [mark for mark in inlines if mark.kind != "language"]
        self._layers = (_InlineLayer(languages), _InlineLayer(others))

    def write(self) -> str:
        """The whole of it."""
        return self._write_leaf(0, len(self._block.text))

    def write_rows(self) -> str:
        """A table's; a row that is one segment without timed words is one piece, any other has a
        piece in each cell.
        """
        made, at = [], 0
        for row in self._block.text.split("\n"):
            heard = {segment for _, _, segment in self._find_spoken(at, at + len(row))}
            whole = len(heard) == 1 and not heard & self._writer.words.keys()
            name = self._add_piece(at, at + len(row), heard.pop()) if whole else ""
            known = f' id="{name}"' if name else ""
            cells = []
            for cell in row.split("\t"):
                cells.append(f"<td>{self._write_leaf(at, at + len(cell), lit=not name)}</td>")
                at += len(cell) + 1
            made.append(f"<tr{known}>{''.join(cells)}</tr>\n")
        return "".join(made)

    def _write_leaf(self, start: int, end: int, *, lit: bool = True) -> str:
        """A stretch that one element holds."""
        made, at = [], start
        for low, high, segment, heard_at in self._find_pieces(start, end) if lit else ():
            made.append(self._write_marked(at, low, 0))
            inner = self._write_marked(low, high, 0)
            name = self._add_piece(low, high, segment, heard_at)
            made.append(f'<span id="{name}">{inner}</span>' if name else inner)
            at = high
        made.append(self._write_marked(at, end, 0))
        made += [self._write_mark(mark, "") for mark in self._layers[1].find_points(end)]
        return "".join(made)

    def _add_piece(self, start: int, end: int, segment: int, heard_at: float | None = None) -> str:
        """The id of a stretch that is highlighted; empty where there is nothing to see."""
        weight = len(epub.escape_label(self._block.text[start:end]))
        if not weight:
            return ""
        return self._writer.add_piece(segment, weight, self._block.kind, heard_at)

    def _find_pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int, float | None]]:
        """From, to, segment, and of a word when it is heard."""
        for low, high, segment in self._find_spoken(start, end):
            if segment in self._writer.words:
                yield from self._find_words(low, high, segment)
            else:
                yield low, high, segment, None

    def _find_words(
        self, start: int, end: int, segment: int
    ) -> Iterator[tuple[int, int, int, float]]:
        """Words; those that share a page number or a sign of a note are one piece, as an element
        is not cut in two.
        """
        place, last = self._place, None
        for word in self._writer.find_words(segment, place + start, place + end):
            low, high = max(word.start - place, start), min(word.end - place, end)
            for mark in self._layers[1].find_between(low, high):
                low, high = max(start, min(low, mark.start)), min(end, max(high, mark.end))
            if last is not None and low < last[1]:
                last = last[0], max(last[1], high), segment, last[3]
                continue
            if last is not None:
                yield last
            last = low, high, segment, word.heard_at
        if last is not None:
            yield last

    def _find_spoken(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        place = self._place
        if place >= 0:
            for low, high, segment in self._writer.find_spoken(place + start, place + end):
                yield low - place, high - place, segment

    def _write_marked(self, start: int, end: int, depth: int) -> str:
        """A stretch with its marks, those of each layer inside those of the one before."""
        if start >= end:
            return ""
        if depth == len(self._layers):
            text = epub.escape_text(self._block.text[start:end])
            return text.replace("\n", "<br/>\n") if self._block.kind == "poem" else text
        made, at = [], start
        for mark in self._layers[depth].find_between(start, end):
            low, high = max(mark.start, at), min(mark.end, end)
            if low > high:
                continue
            made.append(self._write_marked(at, low, depth + 1))
            made.append(self._write_mark(mark, self._write_marked(low, high, depth + 1)))
            at = high
        made.append(self._write_marked(at, end, depth + 1))
        return "".join(made)

    def _write_mark(self, mark: Inline, inner: str) -> str:
        if mark.kind == "page":
            label = mark.value or self._block.text[mark.start : mark.end]
            return f"<span{self._writer.add_break(label)}>{inner}</span>"
        if mark.kind == "language":
            attributes = epub.language_attributes(mark.value, "")
            return f"<span{attributes}>{inner}</span>" if attributes and inner else inner
        if not inner.strip():
            return inner
        address = self._writer.notes.get(mark.value)
        if not address:
            return f"<sup>{inner}</sup>"
        return f'<a epub:type="noteref" role="doc-noteref" href="{address}">{inner}</a>'


class _InlineLayer:
    """Marks that do not overlap, in order."""

    def __init__(self, marks: Sequence[Inline]) -> None:
        self._marks = sorted(marks, key=lambda mark: (mark.start, mark.end))
        self._ends = [mark.end for mark in self._marks]

    def find_between(self, start: int, end: int) -> Iterator[Inline]:
        """Those that a stretch touches; a mark without length belongs to what follows it."""
        at = bisect_right(self._ends, start)
        while at and self._ends[at - 1] == start == self._marks[at - 1].start:
            at -= 1
        while at < len(self._marks) and self._marks[at].start < end:
            yield self._marks[at]
            at += 1

    def find_points(self, place: int) -> Iterator[Inline]:
        """Those without length at a place."""
        at = bisect_left(self._ends, place)
        while at < len(self._marks) and self._ends[at] == place:
            if self._marks[at].start == place:
                yield self._marks[at]
            at += 1
