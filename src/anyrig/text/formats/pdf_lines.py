"""Runs of text to lines in reading order: columns are read one after the other.

A page is cut into bands by what goes across the gutter (a title, a wide figure's caption); inside
a band the left column comes first. Only what looks like running text on both sides of a gutter is
taken for columns: the cells of a table stay on their lines.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from anyrig.text.formats.pdf_characters import PdfPage, Span, TextRun

_FEWEST = 4
"""Lines on each side of a gutter."""
_MOST_TRIES = 60
_BULLETS = frozenset("\u2022\u2023\u2043\u2219\u22c5\u00b7-\u2010\u2013*")
_NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]")


@dataclass(frozen=True, slots=True)
class PdfLine:
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
    """Its runs, where there is more than one: left, right, text."""
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


def build_line(runs: list[TextRun], page: int) -> PdfLine:
    """The line that runs on one base line make, from left to right."""
    ordered = sorted(runs, key=lambda run: run.left)
    if is_bullet(ordered[0].text[:1]) and ordered[0].text[1:2] in ("", " "):
        sign = ordered[0].text[0]
        bullet = "\u2022" if unicodedata.category(sign) == "Co" else sign
        ordered[0] = replace(ordered[0], text=bullet + ordered[0].text[1:])
    text, raised = "", []
    for run in ordered:
        start = len(text) + bool(text)
        text = f"{text} {run.text}" if text else run.text
        raised += [(start + begin, start + end) for begin, end in run.raised]
    main = max(ordered, key=lambda run: len(run.text))
    letters = sum(len(run.text) for run in ordered)
    return PdfLine(
        text=text, left=ordered[0].left, right=max(run.right for run in ordered),
        base=main.base, size=main.size, first=ordered[0].first, page=page,
        bold=sum(len(run.text) for run in ordered if run.bold) > 0.8 * letters,
        mono=all(run.mono for run in ordered),
        raised=tuple(raised),
        cells=_find_cells(ordered) if len(ordered) > 1 else (),
    )  # fmt: skip


def is_bullet(text: str) -> bool:
    """Whether a text is one of the signs that items of a list begin with."""
    if len(text) != 1:
        return False
    is_sign = "\u2190" <= text < "\u2200" or "\u2500" <= text < "\u27c0"  # arrows, boxes, dingbats
    return text in _BULLETS or is_sign or unicodedata.category(text) == "Co"


def _find_cells(ordered: list[TextRun]) -> tuple[tuple[float, float, str], ...]:
    """The runs as a table's cells: parted by more than wide words' gaps.

    The bullet or number of an item is no cell.
    """
    cells: list[tuple[float, float, str]] = []
    for run in ordered:
        is_item = len(cells) == 1 and (is_bullet(cells[0][2]) or _NUMBER.fullmatch(cells[0][2]))
        if cells and (is_item or run.left - cells[-1][1] < 1.2 * run.size):
            left, _, text = cells[-1]
            cells[-1] = (left, run.right, f"{text} {run.text}")
        else:
            cells.append((run.left, run.right, run.text))
    return tuple(cells) if len(cells) > 1 else ()


def place_line(line: PdfLine, margin: float, edge: float, region: int) -> PdfLine:
    """The line in its column."""
    return replace(line, margin=margin, edge=edge, region=region)


def group_rows(runs: Iterable[TextRun]) -> list[list[TextRun]]:
    """Pieces that share a base line, from the top; each row from left to right."""
    rows: list[list[TextRun]] = []
    for run in sorted(runs, key=lambda run: (-run.base, run.left)):
        if rows and abs(rows[-1][0].base - run.base) <= 0.25 * min(rows[-1][0].size, run.size):
            rows[-1].append(run)
        else:
            rows.append([run])
    return [sorted(row, key=lambda run: run.left) for row in rows]


def find_regions(runs: Sequence[TextRun], depth: int = 0) -> list[list[TextRun]]:
    """The parts of a page that are read one after the other."""
    if not runs:
        return []
    gutter = _find_gutter(runs) if depth < 3 else None
    if gutter is None:
        return [list(runs)]
    made: list[list[TextRun]] = []
    for band in _cut_bands(runs, gutter):
        left = [run for run in band if run.right <= gutter]
        right = [run for run in band if run.left >= gutter]
        if len(left) + len(right) < len(band) or _are_terms(left, right):
            made.append(band)
            continue
        made += find_regions(left, depth + 1) + find_regions(right, depth + 1)
    return [region for region in made if region]


def _cut_bands(runs: Sequence[TextRun], gutter: float) -> list[list[TextRun]]:
    """Stretches from the top down, in turn across the gutter and on its two sides."""
    rows = group_rows(part for run in runs for part in run.split_at(gutter))
    if 3 * sum(_is_across(row, gutter) for row in rows) > len(rows):
        rows = group_rows(runs)  # its lines have no gap there but by chance
    bands: list[tuple[bool, list[TextRun]]] = []
    for row in rows:
        across = _is_across(row, gutter)
        if bands and bands[-1][0] == across:
            bands[-1][1].extend(row)
        else:
            bands.append((across, list(row)))
    return [band for _, band in bands]


def _is_across(row: Sequence[TextRun], gutter: float) -> bool:
    return any(run.left < gutter < run.right for run in row)


def _find_gutter(runs: Sequence[TextRun]) -> float | None:
    """Where the space between two columns is, if there are columns."""
    size = median(run.size for run in runs)
    places = Counter(round(run.right / 3) for run in runs)
    best: tuple[int, float] | None = None
    for place, _ in places.most_common(_MOST_TRIES):
        edge = place * 3 + 1.5
        left = [run for run in runs if run.right <= edge]
        right = [run for run in runs if run.left > edge]
        if len(left) < _FEWEST or len(right) < _FEWEST:
            continue
        side = min(run.left for run in right)
        gap = side - max(run.right for run in left)
        if gap < 0.6 * size or not _are_columns(left, right, size):
            continue
        if best is None or len(left) + len(right) > best[0]:
            best = (len(left) + len(right), side - gap / 2)
    return best[1] if best else None


def _are_columns(left: list[TextRun], right: list[TextRun], size: float) -> bool:
    """Whether both sides are running text, and stand beside each other."""
    if not _are_beside(left, right):
        return False
    if _is_prose(left, size) and _is_prose(right, size):
        return True
    # An index, or verse: many short lines on both sides, which begin at one place.
    few = min(len(left), len(right))
    widths = [max(p.right for p in side) - min(p.left for p in side) for side in (left, right)]
    is_leaders = any(5 * sum(map(_has_letters, side)) < len(side) for side in (left, right))
    if few >= 8 and min(widths) > 15 * size and not is_leaders and not _share_rows(left, right):
        return True  # panels of a leaflet, whatever is in them
    if _share_rows(left, right) and few < 20:
        return False  # most likely a table
    usual = [median(p.right - p.left for p in side) for side in (left, right)]
    return (
        few >= 10
        and min(widths) > 0.6 * max(widths)
        and min(usual) > 0.5 * max(usual)
        and all(_begins_alike(side) and _is_words(side) for side in (left, right))
    )


def _are_beside(left: list[TextRun], right: list[TextRun]) -> bool:
    top = min(max(p.top for p in left), max(p.top for p in right))
    bottom = max(min(p.base for p in left), min(p.base for p in right))
    least = min(max(p.top for p in side) - min(p.base for p in side) for side in (left, right))
    return top - bottom > 0.5 * least


def _are_terms(left: list[TextRun], right: list[TextRun]) -> bool:
    """Whether each line on the left is a term beside the lines that describe it."""
    rows, others = group_rows(left), group_rows(right)
    if len(rows) < _FEWEST or 3 * len(rows) > 2 * len(others):
        return False
    steps = [one[0].base - two[0].base for one, two in pairwise(rows)]
    usual = median([one[0].base - two[0].base for one, two in pairwise(others)] or [0.0])
    bases = {round(row[0].base) + near for row in others for near in (-1, 0, 1)}
    beside = sum(round(row[0].base) in bases for row in rows)
    apart = sum(step > 1.5 * usual for step in steps)
    return 4 * beside >= 3 * len(rows) and 2 * apart > len(steps)


def _share_rows(left: list[TextRun], right: list[TextRun]) -> bool:
    """Whether most lines of one side have one at their height on the other, as cells have."""
    heights = {round(run.base) for run in right}
    bases = {round(run.base) for run in left}
    shared = sum(bool({base - 1, base, base + 1} & heights) for base in bases)
    return shared > 0.7 * min(len(bases), len(heights))


def _is_prose(side: list[TextRun], size: float) -> bool:
    begin, end = min(p.left for p in side), max(p.right for p in side)
    rows = group_rows(side)
    widths = [row[-1].right - row[0].left for row in rows]
    letters = [sum(letter.isalnum() for p in row for letter in p.text) for row in rows]
    return (
        len(rows) >= _FEWEST
        and end - begin > 9 * size
        and median(widths) > 0.6 * (end - begin)
        and median(letters) >= 14
    )


def _begins_alike(side: list[TextRun]) -> bool:
    places = Counter(round(run.left / 2) for run in side)
    return sum(count for _, count in places.most_common(2)) >= 0.6 * len(side)


def _is_words(side: list[TextRun]) -> bool:
    letters = sum(sum(letter.isalpha() for letter in run.text) for run in side)
    return letters > 0.55 * sum(len(run.text) for run in side)


def _has_letters(run: TextRun) -> bool:
    return any(map(str.isalpha, run.text))


def build_lines(page: PdfPage, runs: Sequence[TextRun], first_region: int) -> list[PdfLine]:
    """The lines of a page in reading order, each with the bounds of its column."""
    made: list[PdfLine] = []
    for number, region in enumerate(find_regions(runs)):
        usual = median(run.size for run in region)
        initials = [run for run in region if _is_initial(run, region, usual)]
        rows = group_rows(p for p in region if p not in initials) + [[p] for p in initials]
        rows.sort(key=lambda row: -row[0].base)
        lines = _join_initials([build_line(row, page.number) for row in rows])
        margin, edge = _find_bounds(lines)
        made += [place_line(line, margin, edge, first_region + number) for line in lines]
    return made


def _is_initial(run: TextRun, region: list[TextRun], usual: float) -> bool:
    """A large letter that stands alone on its base line."""
    return (
        run.size > 1.6 * usual
        and len(run.text) <= 2
        and run.text[-1:].isalpha()
        and not any(
            other is not run and abs(other.base - run.base) < 1 and other.size > 0.8 * run.size
            for other in region
        )
    )


def _find_bounds(lines: list[PdfLine]) -> tuple[float, float]:
    """Where a column begins and ends: what its full lines share, not what sticks out."""
    lefts = Counter(round(line.left) for line in lines)
    usual = [place for place, count in lefts.items() if count >= max(2, 0.12 * len(lines))]
    margin = min(usual) if usual else min(line.left for line in lines)
    prose = [line for line in lines if not line.mono] or lines  # a listing may run over the edge
    rights = Counter(round(line.right) for line in prose)
    full = [place for place, count in rights.items() if count >= max(4, 0.25 * len(prose))]
    return float(margin), float(max(full)) if full else max(line.right for line in prose)


def _join_initials(lines: list[PdfLine]) -> list[PdfLine]:
    """Large initials put back before the line that they begin."""
    made = list(lines)
    for initial in lines:
        if len(initial.text) > 2 or not initial.text[-1:].isalpha():
            continue
        beside = [
            line
            for line in made
            if line is not initial
            and initial.size > 1.6 * line.size
            and initial.base - 0.3 * line.size <= line.base <= initial.base + initial.size
            and -0.2 * line.size <= line.left - initial.right < 2.5 * line.size
        ]
        if beside:
            made = _join_initial(made, initial, beside)
    return made


def _join_initial(lines: list[PdfLine], initial: PdfLine, beside: list[PdfLine]) -> list[PdfLine]:
    first = max(beside, key=lambda line: line.base)
    made: list[PdfLine] = []
    for line in lines:
        if line is first:
            # "A" and "I" may be words of their own; then the gap is a space's.
            alone = initial.text in "AIO" and line.left - initial.right > 0.22 * line.size
            alone = alone and not (len(line.text) > 1 and line.text[:2].isupper())
            gap = " " if alone else ""
            shift = len(initial.text) + len(gap)
            made.append(
                replace(
                    line, text=f"{initial.text}{gap}{line.text}", left=initial.left,
                    first=line.first + line.left - initial.left,
                    raised=tuple((start + shift, end + shift) for start, end in line.raised),
                )
            )  # fmt: skip
        elif line in beside:
            made.append(replace(line, left=initial.left))
        elif line is not initial:
            made.append(line)
    return made
