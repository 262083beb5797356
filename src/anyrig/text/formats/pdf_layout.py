"""Pages to chapters of blocks: the whole way from runs of lines to a document's parts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from anyrig.text.document import Block, BlockKind, Chapter, Inline, Role
from anyrig.text.formats.pdf_characters import PdfPage
from anyrig.text.formats.pdf_furniture import (
    Footnote,
    cut_notes,
    find_body_size,
    find_furniture,
    find_margin_column,
    find_repeated_slides,
    is_note_mark,
    take_margin,
)
from anyrig.text.formats.pdf_headings import (
    ChapterStart,
    ListedMatter,
    OutlineEntry,
    find_heading_levels,
    find_inner_contents,
    find_lists,
    find_starts_by_looks,
    find_starts_by_outline,
    find_unnumbered_contents,
    list_headings,
)
from anyrig.text.formats.pdf_lines import PdfLine, build_lines
from anyrig.text.formats.pdf_paragraphs import (
    PdfParagraph,
    RaisedText,
    Vocabulary,
    build_paragraphs,
    build_rows,
    is_row_of_dots,
    join_lines,
    measure_style,
    remove_leaders,
    widen_lines,
)
from anyrig.text.matter import is_titled

_KINDS: dict[str, BlockKind] = {
    "text": "paragraph", "item": "item", "code": "code", "table": "table", "verse": "poem",
    "contents": "item", "figure": "image",
}  # fmt: skip


@dataclass(frozen=True)
class _PdfLayout:
    """The paragraphs of a document, and what was set apart from them, by page."""

    paragraphs: list[PdfParagraph]
    lists: list[ListedMatter]
    levels: dict[int, int]
    """Of the paragraphs that look like headings."""
    notes: dict[int, list[Footnote]]
    aside: dict[int, list[str]]
    """Heads, feet, page numbers, a chapter's own contents, and what stands aside."""
    words: Vocabulary

    def build_blocks(self, levels: dict[int, int]) -> list[Block]:
        marks = {
            (page, note.mark): f"p{page}-{note.mark}"
            for page, notes in self.notes.items()
            for note in notes
            if note.mark
        }
        return [
            _build_block(paragraph, levels.get(number, 0), self.words, marks)
            for number, paragraph in enumerate(self.paragraphs)
        ]


def _lay_out(pages: Sequence[PdfPage], *, by_page: bool) -> _PdfLayout:
    """The one layout of books and of pages; `by_page` ends paragraphs at the foot of a page."""
    body = find_body_size(pages)
    lines, notes, aside = _separate_furniture(pages, body, by_page=by_page)
    words = Vocabulary([line.text for line in lines if not line.cells])
    style = measure_style(lines, body)
    lines = widen_lines(lines, style)
    parts = [list(run) for _, run in groupby(lines, key=lambda line: line.page)]
    groups = parts if by_page else [lines]
    paragraphs = [one for group in groups for one in build_paragraphs(group, style)]
    inner = find_inner_contents(paragraphs)
    for number in sorted(inner):
        aside[paragraphs[number].lines[0].page] += [line.text for line in paragraphs[number].lines]
    paragraphs = [one for number, one in enumerate(paragraphs) if number not in inner]
    lists = find_lists(paragraphs)
    listed = {number for one in lists for number in range(one.start, one.end)}
    levels = find_heading_levels(paragraphs, style)
    lists += find_unnumbered_contents(paragraphs, levels, listed)
    lists.sort(key=lambda one: one.start)
    listed |= {number for one in lists for number in range(one.start, one.end)}
    levels = {number: level for number, level in levels.items() if number not in listed}
    return _PdfLayout(paragraphs, lists, levels, notes, aside, words)


def build_chapters(
    pages: Sequence[PdfPage], outline: Sequence[OutlineEntry]
) -> tuple[Chapter, ...]:
    """The chapters of a document."""
    layout = _lay_out(pages, by_page=False)
    levels = layout.levels
    if outline:
        starts = find_starts_by_outline(layout.paragraphs, outline)
        if min(entry.page for entry in outline) > _LATE * pages[-1].number:  # only of an appendix
            earlier = find_starts_by_looks(layout.paragraphs, levels)
            starts = [one for one in earlier if one.paragraph < starts[0].paragraph] + starts
        levels = _find_outline_levels(starts, layout.paragraphs, levels)
    else:
        starts = find_starts_by_looks(layout.paragraphs, levels)
    starts = _add_lists(starts, layout.lists, len(layout.paragraphs))
    extra = _build_page_blocks(layout, [page.number for page in pages])
    return _cut_chapters(layout.build_blocks(levels), starts, extra)


_LATE = 0.5
"""Of the pages, before an outline's first entry: it does not say where chapters begin."""
_PAGE_NUMBER = re.compile(r"\W*(?:\d{1,5}|[ivxlc]{1,7})\W*", re.IGNORECASE)


def build_pages(pages: Sequence[PdfPage]) -> dict[int, tuple[tuple[Block, ...], Role]]:
    """By number, what stands on each page, and whether it is a table of contents or an index.

    A running head is a paragraph: it may be all that names a person or a case. A page's number is
    not.
    """
    try:
        layout = _lay_out(pages, by_page=True)
    except Exception:  # noqa: BLE001 - a layout nobody foresaw: its lines as they stand
        texts = {
            page.number: "\n".join(run.text for run in page.runs if not run.aside) for page in pages
        }
        return {number: ((Block(text, page=number),), "body") for number, text in texts.items()}
    found: dict[int, list[Block]] = {page.number: [] for page in pages}
    for block in layout.build_blocks(layout.levels):
        found[block.page].append(block)
    for page, notes in layout.notes.items():
        note_texts = (join_lines(note.lines, layout.words).text for note in notes)
        found[page] += [Block(text, "note", page=page) for text in note_texts]
    for page, aside in layout.aside.items():
        found[page] += [
            Block(text, page=page) for text in aside if text and not _PAGE_NUMBER.fullmatch(text)
        ]
    roles = _find_roles(layout)
    return {page: (tuple(blocks), roles.get(page, "body")) for page, blocks in found.items()}


def _find_roles(layout: _PdfLayout) -> dict[int, Role]:
    counts = Counter(paragraph.lines[0].page for paragraph in layout.paragraphs)
    listed = Counter(
        (paragraph.lines[0].page, one.role)
        for one in layout.lists
        for paragraph in layout.paragraphs[one.start : one.end]
    )
    return {page: role for (page, role), count in listed.items() if 2 * count > counts[page]}


def _add_lists(
    starts: Sequence[ChapterStart], lists: Sequence[ListedMatter], num_paragraphs: int
) -> list[ChapterStart]:
    """Each table of contents and index is a chapter of its own; what stood before it goes on."""
    bounds = [(one.start - 1, one.end) for one in lists if one.role == "contents"]
    made = [
        start
        for start in starts
        if not is_titled(start.title, "contents")
        or any(begin <= start.paragraph < end for begin, end in bounds)
    ]  # a heading over no list, or one that was not found, is no reason to leave out what follows
    for one in lists:
        named = [start for start in made if one.start - 1 <= start.paragraph <= one.start]
        title = one.title or (named[-1].title if named else "")
        begin = named[-1].paragraph if named and is_titled(title, one.role) else one.start
        made = [start for start in made if not begin <= start.paragraph < one.end]
        made.append(ChapterStart(begin, 1, title, one.role))
        if one.end < num_paragraphs and all(start.paragraph != one.end for start in made):
            made.append(ChapterStart(one.end, 1, ""))
    return sorted(made, key=lambda start: start.paragraph)


def _separate_furniture(
    pages: Sequence[PdfPage], body: float, *, by_page: bool
) -> tuple[list[PdfLine], dict[int, list[Footnote]], dict[int, list[str]]]:
    """Lines in reading order; and by page, the notes and the furniture."""
    fixed = find_furniture(pages)
    repeated = set() if by_page else find_repeated_slides(pages, fixed)
    fixed |= {page.number: list(page.runs) for page in pages if page.number in repeated}
    margin = find_margin_column(pages, body)
    lines: list[PdfLine] = []
    notes: dict[int, list[Footnote]] = {}
    region = 0
    goes_on = False
    for page in pages:
        taken = {id(run) for run in fixed[page.number]}
        free = [run for run in page.runs if id(run) not in taken]
        noted = [] if margin is None else take_margin(page, free, margin, body)
        beside = {id(run) for run in noted}
        here = build_lines(page, [run for run in free if id(run) not in beside], region)
        region = max((line.region for line in here), default=region) + 1
        here += build_lines(page, noted, region)
        region = max((line.region for line in here), default=region) + 1
        here, found = cut_notes(here, body, goes_on=goes_on)
        goes_on = bool(found) and found[-1].lines[-1].text[-1] not in ".!?"
        notes[page.number] = found
        lines += here
    aside = {number: [run.text for run in runs] for number, runs in fixed.items()}
    return lines, notes, aside


def _find_outline_levels(
    starts: Sequence[ChapterStart], paragraphs: Sequence[PdfParagraph], levels: dict[int, int]
) -> dict[int, int]:
    """The levels of headings, where the outline says them; others stand one below."""
    named = {number: start.level for start in starts for number in list_headings(start, paragraphs)}
    made: dict[int, int] = {}
    above = 0
    places = {start.paragraph: start.level for start in starts}
    for number in range(len(paragraphs)):
        above = places.get(number, above)
        if number in named:
            made[number] = min(named[number], 6)
        elif number in levels:
            made[number] = min(above + 1, 6)
    return made


def _build_block(
    paragraph: PdfParagraph, level: int, words: Vocabulary, marks: dict[tuple[int, str], str]
) -> Block:
    page = paragraph.lines[0].page
    if level:
        text = join_lines(paragraph.lines, words).text
        return Block(remove_leaders(text) or text, "heading", level, page=page)
    if paragraph.shape == "table":
        rows = build_rows(paragraph.lines, words)
        return Block("\n".join(map("\t".join, rows)), "table", page=page)
    if paragraph.shape in ("code", "verse"):
        text = "\n".join(_indent_lines(paragraph.lines, paragraph.shape))
        return Block(text, _KINDS[paragraph.shape], page=page)
    text, raised, breaks = join_lines(paragraph.lines, words)
    if paragraph.shape == "contents" or (is_row_of_dots(text) and not (raised or breaks)):
        kind = _KINDS[paragraph.shape]
        return Block(remove_leaders(text) or text, kind, page=page)
    inlines = tuple(filter(None, (_find_reference(text, each, marks) for each in raised)))
    return Block(text, _KINDS[paragraph.shape], page=page, breaks=breaks, inlines=inlines)


def _indent_lines(lines: Sequence[PdfLine], shape: str) -> list[str]:
    """Lines as they are; those of code keep their indents."""
    if shape != "code":
        return [line.text for line in lines]
    margin = min(line.left for line in lines)
    return [
        " " * min(round((line.left - margin) / (0.6 * line.size)), 40) + line.text for line in lines
    ]


def _find_reference(
    text: str, raised: RaisedText, marks: dict[tuple[int, str], str]
) -> Inline | None:
    """A raised stretch as a reference to a note, if it is one."""
    raised_text = text[raised.start : raised.end]
    mark = raised_text.strip("[]() ,")
    if not is_note_mark(raised_text) or not raised.start:
        return None
    for page in (raised.page, raised.page + 1):
        if (page, mark) in marks:
            return Inline(raised.start, raised.end, "noteref", marks[page, mark])
    before = text[: raised.start].rstrip()
    word = re.split(r"[^\w'\u2019-]", before)[-1] if before[-1:].isalnum() else "  "
    if mark.isalpha() or (mark.isdigit() and (before[-1:].isdigit() or len(word) < 2)):
        return None  # a power, or the letters of an ordinal
    return Inline(raised.start, raised.end, "noteref")


def _build_page_blocks(layout: _PdfLayout, numbers: list[int]) -> dict[int, list[Block]]:
    """Notes and furniture of each page, as blocks; a note that goes over the page is one."""
    made: dict[int, list[Block]] = {}
    open_note: tuple[int, int] | None = None
    for number in numbers:
        blocks = made[number] = []
        for note in layout.notes.get(number, ()):
            text = join_lines(note.lines, layout.words).text
            if not note.mark and open_note is not None:
                page, place = open_note
                old = made[page][place]
                gap = "" if old.text.endswith("-") else " "
                made[page][place] = Block(
                    f"{old.text.removesuffix('-')}{gap}{text}", "note", id=old.id, page=old.page
                )
                continue
            name = f"p{number}-{note.mark}" if note.mark else ""
            blocks.append(Block(text, "note", id=name, page=number))
            open_note = (number, len(blocks) - 1)
        blocks += [Block(text, "page", page=number) for text in layout.aside.get(number, ())]
    return made


def _cut_chapters(
    blocks: list[Block], starts: Sequence[ChapterStart], extra: dict[int, list[Block]]
) -> tuple[Chapter, ...]:
    """Blocks cut into chapters; what belongs to a page stands after what begins on it."""
    last = {block.page: number for number, block in enumerate(blocks)}
    after: dict[int, list[Block]] = defaultdict(list)
    """By the number of a paragraph, what stands after it; -1 is before all."""
    place = -1
    for page in sorted(extra):
        place = last.get(page, place)
        after[place] += extra[page]

    def join(start: int, end: int) -> tuple[Block, ...]:
        numbers = range(-1 if start == 0 < end else start, end)
        return tuple(
            each
            for number in numbers
            for each in (*blocks[number : number + 1], *after.get(number, ()))
        )

    ends = [*(start.paragraph for start in starts), len(blocks)]
    made = [Chapter("", join(-1, ends[0]))] if ends[0] or not starts else []
    for start, end in zip(starts, ends[1:], strict=True):
        found = join(start.paragraph, end)
        if found or start.title:
            made.append(Chapter(start.title, found, start.level, start.role))
    if made and not (made[0].title or made[0].blocks):
        made = made[1:]
    return tuple(made)
