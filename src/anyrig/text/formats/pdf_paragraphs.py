"""Lines to paragraphs, over the edges of columns and pages, and paragraphs to text.

A hyphen at a line's end either breaks a word or belongs to a compound. What the document itself
writes elsewhere decides; where it says nothing, two halves that are both words of their own are a
compound, and anything else is a broken word.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

from anyrig.text.formats.pdf_lines import PdfLine, is_bullet

ParagraphShape = Literal["text", "item", "code", "table", "verse", "contents", "figure"]
_ENDS = re.compile(r"[.!?:;\u2026\u3002\uff01\uff1f][\"'\u201d\u2019\u00bb)\]\d*\u2020]*$")
_COUNTED = re.compile(r"(?!p\.\s+\d)\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]\s+\S")
_REFERS = re.compile(r"(?:^|[\s(\[])(?:pp?|pgs?|S|Abb|figs?|nos?|nr|ch|secs?|vol|cap|art)\.$", re.I)
_LEADERS = re.compile(r"(?:\s?[.\u2026\u00b7]){4,}\s*|\s_{4,}\s")
_LAST = re.compile(r"[^\s.\u2026]{1,8}$")
_PAGE_NUMBER = re.compile(r"\d+|[ivxlc]+")
_FIGURE = re.compile(r"(?:figure|fig\.|abbildung|abb\.|figura|рис\.)\s*\d", re.IGNORECASE)
_LONGEST_LABEL = 48
_FIGURE_WIDTH = 4
"""Ems, at least, of a figure that lines are set beside."""
_MIN_BESIDE, _FULL_SHARE = 3, 0.4
_NUMBERED = re.compile(r".*[^\W\d].*\s(?:\d{1,4}|[ivxlc]{1,7})")
CAPTION = re.compile(
    r"(?:figure|fig\.|table|plate|abbildung|abb\.|tabelle|tableau|figura|tabla|chart)\s*\d",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class PdfParagraph:
    """Lines that belong together."""

    lines: tuple[PdfLine, ...]
    shape: ParagraphShape = "text"

    @property
    def size(self) -> float:
        """Of its type."""
        return self.lines[0].size

    @property
    def bold(self) -> bool:
        """Whether all of it is bold."""
        return all(line.bold for line in self.lines)


@dataclass(frozen=True)
class PdfStyle:
    """What the document does as a rule."""

    body: float
    leading: float
    """From base line to base line, in ems."""
    indents: bool
    """Whether paragraphs begin with an indent."""
    mono: bool
    """Whether the text itself is of fixed width, as a typewriter's."""
    width: float
    """Of a full column, in points."""
    contents: frozenset[int] = frozenset()
    """The pages that list what is on others."""


def measure_style(lines: Sequence[PdfLine], body: float) -> PdfStyle:
    """The style of a document from all its lines."""
    steps: Counter[float] = Counter()
    indented = plain = letters = mono = 0
    widths: Counter[int] = Counter()
    for above, below in zip(lines, lines[1:], strict=False):
        letters += len(below.text)
        mono += len(below.text) * below.mono
        if above.region != below.region or abs(above.size - body) > 0.6:
            continue
        step = above.base - below.base
        if 0.8 * body < step < 4 * body:
            steps[round(step / body, 1)] += 1
        widths[round(above.edge - above.margin)] += 1
        if _ENDS.search(above.text):
            indented += 0.7 < (below.left - below.margin) / body < 4
            plain += abs(
                below.left - below.margin
            ) < 0.3 * body and step > 1.25 * body * _find_usual_step(steps)
    return PdfStyle(
        body, _find_usual_step(steps), indented > plain, 2 * mono > letters,
        float(widths.most_common(1)[0][0]) if widths else 0.0, _find_contents_pages(lines),
    )  # fmt: skip


def _find_contents_pages(lines: Sequence[PdfLine]) -> frozenset[int]:
    dotted = Counter(line.page for line in lines if is_dotted(line.text))
    return frozenset(page for page, count in dotted.items() if count > 2)


def _find_usual_step(steps: Counter[float]) -> float:
    return steps.most_common(1)[0][0] if steps else 1.2


def build_paragraphs(lines: Sequence[PdfLine], style: PdfStyle) -> list[PdfParagraph]:
    """All paragraphs of a document, from its lines in reading order."""
    rows = _find_table_rows(lines, style)
    made: list[tuple[list[PdfLine], int]] = []
    for number, line in enumerate(lines):
        table = rows.get(number, 0)
        after = lines[number + 1] if number + 1 < len(lines) else None
        if (
            made
            and table == made[-1][1]
            and (table or not _begins(made[-1][0], line, after, style))
        ):
            made[-1][0].append(line)
        else:
            made.append(([line], table))
    shaped = [
        PdfParagraph(tuple(group), "table" if table else _find_paragraph_shape(group, style))
        for group, table in made
    ]
    return find_figures(_join_verses(shaped, style), style)


def _begins(group: list[PdfLine], line: PdfLine, after: PdfLine | None, style: PdfStyle) -> bool:
    """Whether a line begins a paragraph, after the lines of the one before."""
    before = group[-1]
    if abs(before.size - line.size) > 0.08 * max(before.size, line.size):
        return not _continues_small(before, line)
    if _is_contents(before, style) or _is_contents(line, style):
        return (
            not _is_contents(line, style)
            or _is_contents(before, style)
            or _is_full(before, line, style)
        )
    if before.mono != line.mono and not style.mono:
        return before.mono or not _is_broken(before) or before.region != line.region
    if before.region != line.region:
        return not _goes_over(group, line, style)
    if before.bold != line.bold and not _is_full(before, line, style):
        return True
    step = (before.base - line.base) / line.size
    if step > max(1.3 * style.leading, style.leading + 0.35) or step < -0.3:
        return True
    if (line.mono and not style.mono) or line.size > 1.15 * style.body:
        return False
    if is_bulleted(line.text) and not _goes_on_with_dash(before, line, style):
        return True
    if _COUNTED.match(line.text) and not _counts_on(before, line, style):
        return True
    return _begins_by_place(group, line, after, style)


def _begins_by_place(
    group: list[PdfLine], line: PdfLine, after: PdfLine | None, style: PdfStyle
) -> bool:
    before = group[-1]
    if _is_broken(before):
        return False
    shift = (line.left - before.left) / line.size
    full = _is_full(before, line, style)
    ended = _ENDS.search(before.text) is not None
    is_inside = line.left > group[0].left + 0.3 * line.size and line.text[:1].islower()
    if is_bulleted(group[0].text) and is_inside and not ended:
        return False  # an item whose lines end before a picture
    if shift > 0.6:
        if _is_item(group[0]) and len(group) == 1:
            return False  # an item's text hangs
        if full and not ended:  # a hanging indent, unless it is a paragraph's
            return style.indents and _is_indented(group, line, after)
        return not (len(group) == 1 and after is not None and _hangs(line, after))
    if shift < -0.6 and len(group) > 1:
        return _is_full(before, line, style) is False or ended or line.left < group[0].left - 1
    if full:
        return False
    if not ended and len(group) > 1 and line.text[:1].islower() and abs(shift) < 0.3:
        return False  # a sentence of lines that were broken before they were set
    room = before.edge - before.right
    return ended or room > 0.25 * (before.edge - before.margin)


def _is_indented(group: list[PdfLine], line: PdfLine, after: PdfLine | None) -> bool:
    """Whether a line alone is set in, after lines that begin where the column does."""
    near = 0.3 * line.size
    is_flush = len(group) > 1 and abs(group[-1].left - line.margin) < near
    returns = after is None or after.region != line.region or after.left < line.left - near
    return is_flush and returns and line.left - line.margin < 4 * line.size


def _is_broken(line: PdfLine) -> bool:
    """Whether a line ends inside a word."""
    return line.text[-1] in "-\u00ad\u2010" and line.text[-2:-1].isalnum()


def _hangs(line: PdfLine, after: PdfLine) -> bool:
    """Two lines that are set in alike, in one paragraph."""
    return (
        after.region == line.region
        and abs(after.left - line.left) < 0.3 * line.size
        and line.left - line.margin > 0.6 * line.size
        and not _ENDS.search(line.text)
        and after.text[:1].islower()
    )


def _is_full(before: PdfLine, line: PdfLine, style: PdfStyle) -> bool:
    """Whether the first word of a line would not have fitted on the one before."""
    edge = before.edge
    if before.edge - before.margin < 0.8 * style.width and before.region != line.region:
        edge = max(edge, before.margin + style.width)
    return before.right + line.first + 0.2 * line.size > edge - 0.1 * line.size


def _goes_over(group: list[PdfLine], line: PdfLine, style: PdfStyle) -> bool:
    """Whether a paragraph goes on in the next column or on the next page."""
    before = group[-1]
    is_new_title = before.page != line.page and before.size > 1.15 * style.body
    if before.bold != line.bold or _is_item(line) or is_new_title:
        return False
    if before.text[-1] in "-\u00ad\u2010,":
        return True
    ended = _ENDS.search(before.text) is not None
    starts_low = line.text.lstrip("\"'\u201c\u2018\u00ab([")[:1].islower()
    indented = line.left - line.margin > 0.6 * line.size
    if before.mono and not style.mono:
        return False
    if starts_low and not ended:
        return True
    if not _is_full(before, line, style) or (indented and not _is_item(group[0])):
        return False
    return style.indents if ended else True


def _continues_small(before: PdfLine, line: PdfLine) -> bool:
    """A line of which a part is small, such as capitals, in the middle of a paragraph."""
    return (
        before.region == line.region
        and before.text[-1:].isalpha()
        and line.text[:1].islower()
        and 0.8 < line.size / before.size < 1.25
        and before.base - line.base < 1.6 * max(before.size, line.size)
    )


def is_bulleted(text: str) -> bool:
    """Whether a line begins with a bullet or a dash, as an item of a list does."""
    return is_bullet(text[:1]) and text[1:2] == " " and len(text) > 2


def _goes_on_with_dash(before: PdfLine, line: PdfLine, style: PdfStyle) -> bool:
    """A dash that only happens to begin a line, in the middle of a sentence."""
    return (
        line.text[0] in "\u2013-"
        and line.text[2:3].islower()
        and abs(line.left - before.left) < 0.1 * line.size
        and not (_is_item(before) or _ENDS.search(before.text))
        and _is_full(before, line, style)
    )


def _is_item(line: PdfLine) -> bool:
    return is_bulleted(line.text) or bool(_COUNTED.match(line.text))


def _counts_on(before: PdfLine, line: PdfLine, style: PdfStyle) -> bool:
    """A number that only happens to begin a line: of a list inside a sentence, or of a page."""
    return (
        abs(line.left - before.left) < 0.5 * line.size
        and _is_full(before, line, style)
        and (not _ENDS.search(before.text) or _REFERS.search(before.text) is not None)
    )


def _is_contents(line: PdfLine, style: PdfStyle) -> bool:
    """A line of a table of contents: a title, dots or space, the number of a page."""
    if is_dotted(line.text):
        return True
    return line.page in style.contents and bool(_NUMBERED.fullmatch(line.text))


def is_dotted(text: str) -> bool:
    """Whether a line ends in dots and the number of a page.

    After many dots anything short counts: A-12, or ?? where a program lost the number. No pattern
    matches the dots, as it would try each of them.
    """
    last = _LAST.search(text)
    if last is None:
        return False
    before = text[: last.start()]
    title = before.rstrip(" .\u2026")
    leaders = before[len(title) :]
    num_dots = leaders.count(".") + 4 * leaders.count("\u2026")
    if num_dots < (4 if _PAGE_NUMBER.fullmatch(last[0]) else 8):
        return False
    return any(map(str.isalnum, title))


def is_row_of_dots(text: str) -> bool:
    """Whether dots lead from one part of a line to the other."""
    return "........" in text.replace(" ", "") and any(map(str.isalnum, text))


def remove_leaders(text: str) -> str:
    """A line of a table of contents without its row of dots."""
    return _LEADERS.sub(" ", text).strip()


def _find_paragraph_shape(group: list[PdfLine], style: PdfStyle) -> ParagraphShape:
    if not style.mono and all(line.mono for line in group):
        return "code"
    if _is_contents(group[-1], style):
        return "contents"
    if is_bulleted(group[0].text) or (_COUNTED.match(group[0].text) and not group[0].bold):
        return "item"
    return "text"


def _find_table_rows(lines: Sequence[PdfLine], style: PdfStyle) -> dict[int, int]:
    """By the number of a line, the number of the table that it is a row of, from 1."""
    found: dict[int, int] = {}
    run: list[int] = []
    tables = 0
    for number, line in enumerate(lines):
        row = bool(line.cells) and not _is_contents(line, style)
        goes_on = len(run) > 1 and _continues_cell(lines[run[-1]], line, style)
        if goes_on or (row and run and _is_next_row([lines[n] for n in run], line, style)):
            run.append(number)
        else:
            run = [number] if row else []
        if len(run) == 3:
            tables += 1
            found.update((n, tables) for n in run)
        elif len(run) > 3:
            found[number] = tables
    return found


def _is_next_row(rows: list[PdfLine], line: PdfLine, style: PdfStyle) -> bool:
    """Whether a line is the next row of a table: near, with cells where there were cells."""
    last = rows[-1]
    if last.region != line.region or last.base - line.base > 3.2 * style.leading * line.size:
        return False
    near = 0.6 * line.size
    above = [cell for row in rows[-3:] for cell in row.cells]
    aligned = sum(
        any(
            abs(left - other[0]) < near
            or abs(right - other[1]) < near
            or abs((left + right) - (other[0] + other[1])) < 2 * near
            for other in above
        )
        for left, right, _ in line.cells
    )
    return aligned >= 0.6 * len(line.cells) and abs(len(last.cells) - len(line.cells)) <= 2


def _continues_cell(row: PdfLine, line: PdfLine, style: PdfStyle) -> bool:
    """Whether a line is the rest of a cell that is not the row's first."""
    lefts = [left for left, _, _ in row.cells[1:]] or [row.left]
    return (
        not line.cells
        and row.region == line.region
        and 0 < row.base - line.base < 1.25 * style.leading * line.size
        and any(abs(left - line.left) < 0.5 * line.size for left in lefts)
    )


def build_rows(lines: Sequence[PdfLine], words: Vocabulary) -> list[list[str]]:
    """The cells of a table's rows; a line without cells goes on with the one that it is under."""
    rows: list[list[str]] = []
    places: list[float] = []
    for line in lines:
        if line.cells or not rows:
            rows.append([text for _, _, text in line.cells] or [line.text])
            places = [left for left, _, _ in line.cells] or [line.left]
        else:
            column = min(range(len(places)), key=lambda at: abs(places[at] - line.left))
            cell, gap = _cut_hyphen(rows[-1][column], line.text, words)
            rows[-1][column] = f"{cell}{gap}{line.text}"
    return rows


def find_figures(paragraphs: Sequence[PdfParagraph], style: PdfStyle) -> list[PdfParagraph]:
    """The labels inside a drawing are one paragraph, right above its caption."""
    found: list[PdfParagraph] = []
    for paragraph in paragraphs:
        if _FIGURE.match(paragraph.lines[0].text):
            first = len(found)
            while first and _is_drawn(found[first - 1], paragraph, style):
                first -= 1
            if labels := _find_labels(found[first:], style):
                found[first:] = [PdfParagraph(labels, "figure")]
        found.append(paragraph)
    return found


def _is_drawn(paragraph: PdfParagraph, caption: PdfParagraph, style: PdfStyle) -> bool:
    return (
        paragraph.shape in ("text", "table", "verse", "item")
        and paragraph.lines[-1].page == caption.lines[0].page
        and paragraph.size <= 1.05 * style.body
        and all(len(line.text) <= _LONGEST_LABEL for line in paragraph.lines)
        and not _ENDS.search(paragraph.lines[-1].text)
    )


def _find_labels(paragraphs: Sequence[PdfParagraph], style: PdfStyle) -> tuple[PdfLine, ...]:
    """Their lines, if they stand about as in a drawing: in small type, or not under each other."""
    lines = tuple(line for paragraph in paragraphs for line in paragraph.lines)
    if len(lines) < 3:
        return ()
    small = sum(line.size < 0.93 * style.body for line in lines)
    lefts = Counter(round(line.left / 6) for line in lines)
    scattered = lefts.most_common(1)[0][1] <= max(2, 0.4 * len(lines))
    is_drawing = scattered and (2 * small > len(lines) or len(lines) >= 5)
    return lines if is_drawing else ()


def _join_verses(paragraphs: list[PdfParagraph], style: PdfStyle) -> list[PdfParagraph]:
    """Short lines in a row, of which none reaches the column's end, are verse."""
    made: list[PdfParagraph] = []
    run: list[PdfLine] = []
    for paragraph in [*paragraphs, None]:
        line = paragraph.lines[0] if paragraph and len(paragraph.lines) == 1 else None
        if (
            line is not None
            and paragraph is not None
            and paragraph.shape == "text"
            and _is_verse(run, line, style)
        ):
            run.append(line)
            continue
        made += _build_verse(run)
        run = []
        if line is not None and paragraph is not None and paragraph.shape == "text":
            run = [line]
        elif paragraph is not None:
            made.append(paragraph)
    return made


def _build_verse(run: list[PdfLine]) -> list[PdfParagraph]:
    open_ends = sum(not _ENDS.search(line.text) for line in run)
    if len(run) >= 4 and open_ends * 3 >= len(run):
        return [PdfParagraph(tuple(run), "verse")]
    return [PdfParagraph((line,)) for line in run]


def _is_verse(run: list[PdfLine], line: PdfLine, style: PdfStyle) -> bool:
    if line.bold or abs(line.size - style.body) > 0.15 * style.body:
        return False
    if line.width > 0.75 * (line.edge - line.margin) or line.cells:
        return False
    if not run:
        return True
    step = (run[-1].base - line.base) / line.size
    return (
        run[-1].region == line.region
        and 0 < step < 1.35 * style.leading
        and not run[-1].bold
        and abs(run[-1].size - line.size) < 0.5
    )


def widen_lines(lines: list[PdfLine], style: PdfStyle) -> list[PdfLine]:
    """Lines with the end of their column, where none of them reaches it."""
    columns: dict[int, list[PdfLine]] = {}
    for line in lines:
        columns.setdefault(line.region, []).append(line)
    short = {
        region
        for region, column in columns.items()
        if column[0].edge - column[0].margin < style.width and not _is_set_narrow(column)
    }
    wide = [
        replace(line, edge=line.margin + style.width) if line.region in short else line
        for line in lines
    ]
    return [each for _, column in groupby(wide, lambda line: line.region) for each in
            _narrow_beside_figures(list(column))]  # fmt: skip


def _narrow_beside_figures(column: list[PdfLine]) -> list[PdfLine]:
    """Lines beside a figure, with the end of their own measure: full ones end at one place."""
    ends = Counter(round(line.right) for line in column if not line.cells)
    edge, size = column[0].edge, column[0].size
    made: list[PdfLine] = []
    places = [
        place
        for place, count in ends.items()
        if count >= _MIN_BESIDE and place < edge - _FIGURE_WIDTH * size
    ]
    place = max(places, key=lambda one: ends[one], default=0)
    for is_beside, run in groupby(column, lambda line: line.right < place + 1):
        lines = list(run)
        num_full = sum(line.right > place - 1 for line in lines)
        if is_beside and num_full >= max(_MIN_BESIDE, _FULL_SHARE * len(lines)):
            lines = [replace(line, edge=max(one.right for one in lines)) for line in lines]
        made += lines
    return made


def _is_set_narrow(column: list[PdfLine]) -> bool:
    """Whether several lines of a column end at one place, so that it is the column's end."""
    ends = sum(line.edge - line.right < 0.02 * (line.edge - line.margin) for line in column)
    return len(column) > 4 and ends > 2


# -- words broken at the end of a line -------------------------------------------------------------

_SOFT = "\u00ad"
_HYPHENS = "-\u2010\u2011" + _SOFT
_DASHES = "\u2014\u2015"
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019\u2010-][^\W\d_]+)*")
# Closed words of two halves that are words: the document need not write them elsewhere.
_FIRST = "any every some no with him her it them my your our one every"
_SECOND = "self selves thing things where body one out in ever more how what time times way ways"
_CLOSED = {(one, two) for one in _FIRST.split() for two in _SECOND.split()} - {("no", "one")}
_TENS = frozenset("twenty thirty forty fifty sixty seventy eighty ninety".split())
_OPENERS = _TENS | frozenset("well self half".split())
_MIN_ENDS = 3
"""Hyphens at the ends of lines, to say how the document uses them."""
_BROKEN_SHARE = 0.1
"""Of the words that lines break, those that the document writes elsewhere too, at least."""


class Vocabulary:
    """What a document writes inside its lines, and how it ends them."""

    def __init__(self, lines: Sequence[str]) -> None:
        inside: set[str] = set()
        """As written: words between the first and the last of their lines, which may be halves."""
        for line in lines:
            found = _WORD.findall(line.replace("\u2010", "-"))
            inside.update(found[1 : -1 if line[-1:] in _HYPHENS else None])
        self._seen = {word.casefold() for word in inside}
        self._parts = {part for word in self._seen if "-" in word for part in word.split("-")}
        self._words = {word for word in inside if word.islower()}
        self._ordered = sorted(self._seen)
        ends = [_find_halves(*pair) for pair in pairwise(lines)]
        halves = [pair for pair in ends if pair is not None]
        known = sum(self._find_elsewhere(*pair) is True for pair in halves)
        self._breaks_words = len(halves) < _MIN_ENDS or _BROKEN_SHARE * len(halves) <= known
        """Else every hyphen at a line's end is a compound's, as in what browsers print."""
        signs = [sum(line.endswith(sign) for line in lines) for sign in "\u2010-"]
        self._has_own_sign = signs[0] >= _MIN_ENDS and not any("\u2010" in x[:-1] for x in lines)
        """Whether words are broken with another sign than the hyphen of compounds."""

    def __contains__(self, word: str) -> bool:
        folded = word.casefold()
        return folded in self._seen or folded in self._parts

    def joins(self, one: str, two: str, sign: str = "-") -> bool:
        """Whether two halves are one word, without the hyphen between them."""
        if self._has_own_sign:
            return sign == "\u2010"
        written = self._find_elsewhere(one, two)
        if written is not None:
            return written
        last, first = _find_inner_halves(one, two)
        if not self._breaks_words or last in _OPENERS:
            return False
        if self._count(f"{last}-") > self._count(last) / 2:
            return False  # a prefix that the document writes with its hyphen
        are_words = last in self._seen and first in self._words
        return not (are_words and ("-" in one or len(last) > 2 and len(first) > 2))

    def _find_elsewhere(self, one: str, two: str) -> bool | None:
        """Whether the document writes two halves as one word, perhaps with another ending."""
        if f"{one}{two}" in self:
            return True
        if f"{one}-{two}" in self:
            return False
        last, first = _find_inner_halves(one, two)
        if (last, first) in _CLOSED or "-" in one and f"{last}{first}" in self:
            return True
        closed, open_ = (self._count(f"{last}{gap}{first[:2]}") for gap in ("", "-"))
        return None if closed == open_ else closed > open_

    def _count(self, start: str) -> int:
        """How many words begin so."""
        return bisect(self._ordered, f"{start}\U0010ffff") - bisect(self._ordered, start)


def _find_inner_halves(one: str, two: str) -> tuple[str, str]:
    """Of two halves that may be compounds themselves, what stands beside the hyphen."""
    return one.casefold().rpartition("-")[2], two.casefold().partition("-")[0]


class RaisedText(NamedTuple):
    """A stretch of small type above the line."""

    start: int
    end: int
    page: int


class JoinedText(NamedTuple):
    """Some lines as one text."""

    text: str
    raised: list[RaisedText]
    breaks: tuple[tuple[int, int], ...]
    """Where a word begins that stands on another page, and that page."""


def join_lines(lines: Sequence[PdfLine], words: Vocabulary) -> JoinedText:
    """The text of some lines, the stretches of it that are raised, and where pages begin."""
    text = ""
    raised: list[RaisedText] = []
    breaks: list[tuple[int, int]] = []
    page = lines[0].page if lines else 0
    for line in lines:
        text, gap = _cut_hyphen(text, line.text, words)
        start = len(text) + len(gap)
        if line.page != page:
            page = line.page
            breaks.append((start if gap else text.rfind(" ") + 1, page))
        text = f"{text}{gap}{line.text}"
        raised += [RaisedText(start + begin, start + end, line.page) for begin, end in line.raised]
    if _SOFT not in text:
        return JoinedText(text, raised, tuple(breaks))

    def move(position: int) -> int:
        """Soft hyphens inside a line are not visible."""
        return position - text.count(_SOFT, 0, position)

    return JoinedText(
        text.replace(_SOFT, ""),
        [RaisedText(move(start), move(end), page) for start, end, page in raised],
        tuple((move(start), page) for start, page in breaks),
    )


def _cut_hyphen(text: str, following: str, words: Vocabulary) -> tuple[str, str]:
    """The text so far, less a hyphen that only broke a word; and what parts it from the next."""
    if not text:
        return "", ""
    if text[-1] == _SOFT:
        return text[:-1], ""
    if text[-1] in _DASHES and text[-2:-1] != " ":
        return text, ""
    if text[-1] not in _HYPHENS or len(text) < 2 or not text[-2].isalnum():
        return (text, "") if _is_east(text[-1]) and _is_east(following[:1]) else (text, " ")
    halves = _find_halves(text, following)
    if halves is None:
        return text, ""
    one, two = halves
    is_capitals = one.isupper() and two.isupper() and len(one) > 1
    if not (two[0].islower() or is_capitals):
        is_name = f"{one}{two}" in words and f"{one}-{two}" not in words
        return (text[:-1], "") if is_name else (text, "")  # a name in CamelCase
    is_link = two.casefold() in _LINKS and following[len(two) : len(two) + 1] in ("", " ")
    if is_link and len(one) > 1 and f"{one}{two}" not in words:
        return text, " "  # a hyphen that waits for a later half: pre- and post-war
    return (text[:-1], "") if words.joins(one, two, text[-1]) else (text, "")


_LINKS = frozenset("and or und oder et ou y o e bis to".split())
_FIRST_HALF = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*$")
_SECOND_HALF = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")
_MAX_HALF = 80


def _find_halves(text: str, following: str) -> tuple[str, str] | None:
    """The two halves of the word that a hyphen at the end of a text breaks."""
    if text[-1:] not in _HYPHENS:
        return None
    one = _FIRST_HALF.search(text[-_MAX_HALF:-1].replace("\u2010", "-"))
    two = _SECOND_HALF.match(following)
    return (one[0], two[0].replace("\u2010", "-")) if one and two else None


def _is_east(letter: str) -> bool:
    """Letters of scripts that put no space between words."""
    return bool(letter) and (
        "\u3000" <= letter <= "\u9fff" or "\uf900" <= letter <= "\ufaff" or letter in "\uff0c\uff01"
    )
