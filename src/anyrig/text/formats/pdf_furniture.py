"""Running heads, feet and page numbers: what is printed on every page and belongs to none.

A line at the top or the foot is furniture when it comes again on other pages at the same height,
or when it is a number that counts as the pages do. What merely happens to stand at the top of a
page is text: it does not come again, or it follows on without the space that a head has.
Footnotes are small type at the foot that begins with a mark from the text above.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from anyrig.text.formats.pdf_characters import PdfPage, TextRun
from anyrig.text.formats.pdf_lines import PdfLine, group_rows
from anyrig.text.formats.titles import parse_label
from anyrig.text.roman_numerals import roman_value

_ZONE = 0.16  # of the height, at the top and at the foot
_DEEP = 3  # rows
_ROMAN = re.compile(r"[ivxlcdm]{1,9}", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,5}")
_OF_ALL = re.compile(r"(\d{1,5})/\d{1,5}")
_DRESSED = re.compile(
    r"(?:page|seite|p\.|pp\.|pg\.?|página|pagina|стр\.)?\s*[-–—|\[(·•]*\s*"
    r"(?P<number>\d{1,5}|[ivxlcdm]{1,9})\s*[-–—|\])·•.]*\s*"
    r"(?:(?:of|von|de|sur|/)\s*\d{1,5})?",
    re.IGNORECASE,
)
_MIN_LINE_NUMBERS = 4
_MIN_PLAN = 4
"""Lines of a slide that an earlier one has too."""
_MIN_MARGIN_PAGES = 3
_MAX_NUMBERED_RUNS = 5_000
"""Of a page: each column of numbers is compared with all."""
_LINE_NUMBER_SIZE = 0.85
"""Of the text that they count, at most."""
_OVER_PAGE = re.compile(
    r"\W*(?:(?:table|figure|listing|tabla|figura|tabelle|abbildung|tableau|tabella) [\w.-]+\W+)?"
    r"(?:continue[sd]|contin[uú]a|continu[eé]|continua[cç][aã]o|proviene|suite|fortsetzung)\b"
    r"[^.;]{1,24}\b(?:page|p[aá]gina|seite)\b[^.;]{0,12}\W*",
    re.IGNORECASE,
)
"""A line that says that something goes on over the page."""
_MAX_OVER_PAGE = 80
_DATE = re.compile(r"\d+[/.:-]\d+[/.:-]\d+")


@dataclass(frozen=True)
class EdgeRow:
    """A row near the top or the foot of a page."""

    page: int
    top: bool
    depth: int
    """Counted from the edge, 0 is the outermost."""
    base: float
    size: float
    apart: bool
    """Whether more than a line's space parts it from the text, or there is no text."""
    text: str
    runs: tuple[TextRun, ...]
    bare: str = ""
    """The text without the number of the page, in small letters."""

    @property
    def has_page_number(self) -> bool:
        return len(self.bare) < len(" ".join(self.text.casefold().split()))


def find_furniture(pages: Sequence[PdfPage]) -> dict[int, list[TextRun]]:
    """What is furniture, by the page's number: what stands aside, and heads, feet, numbers."""
    found: dict[int, list[TextRun]] = {page.number: [] for page in pages}
    for page in pages:
        found[page.number] += [run for run in page.runs if run.aside]
    pages = [replace(page, runs=tuple(run for run in page.runs if not run.aside)) for page in pages]
    numbered = {page.number: _find_line_numbers(page.runs) for page in pages}
    for number, runs in numbered.items():
        found[number] += runs
    taken = {id(run) for runs in numbered.values() for run in runs}
    pages = [
        replace(page, runs=tuple(run for run in page.runs if id(run) not in taken))
        for page in pages
    ]
    leading = _find_leading(pages)
    body = find_body_size(pages)
    bounds = _find_text_bounds(pages)
    edges = [edge for page in pages for edge in _find_edges(page, leading, bounds)]
    edges = _remove_page_numbers(edges)
    rows = _find_repeated(edges, len(pages), body) | _find_counted(edges, pages)
    for edge in sorted(rows, key=lambda edge: (edge.page, -edge.base)):
        found[edge.page] += edge.runs
    for page in pages:
        found[page.number] += _find_over_page(page, found[page.number])
    return found


def _find_over_page(page: PdfPage, taken: Sequence[TextRun]) -> list[TextRun]:
    """Of the text's first and last row, what says that something goes on over the page."""
    known = {id(run) for run in taken}
    rows = group_rows(run for run in page.runs if id(run) not in known)
    ends = rows[:1] + rows[1:][-1:]
    return [run for row in ends if _goes_over(" ".join(one.text for one in row)) for run in row]


def _goes_over(text: str) -> bool:
    return len(text) <= _MAX_OVER_PAGE and _OVER_PAGE.fullmatch(text) is not None


def find_repeated_slides(pages: Sequence[PdfPage], furniture: dict[int, list[TextRun]]) -> set[int]:
    """Pages that another page repeats whole: the plan of a talk, a slide that is built up."""
    found: set[int] = set()
    seen: set[frozenset[str]] = set()
    last_page, last = 0, frozenset[str]()
    for page in pages:
        taken = {id(run) for run in furniture[page.number]}
        texts = frozenset(run.text for run in page.runs if id(run) not in taken)
        if page.width > page.height and last and last < texts:
            found.add(last_page)
        elif page.width > page.height and len(texts) >= _MIN_PLAN and texts in seen:
            found.add(page.number)
        seen.add(texts)
        last_page, last = page.number, texts
    return found


def _find_line_numbers(runs: Sequence[TextRun]) -> list[TextRun]:
    """Small numbers outside of the text that count its lines: of a draft, or of a listing."""
    columns: dict[int, list[TextRun]] = defaultdict(list)
    for run in runs if len(runs) <= _MAX_NUMBERED_RUNS else ():
        if _NUMBER.fullmatch(run.text):
            columns[round(run.right / 2)].append(run)
    found: list[TextRun] = []
    for place in sorted(columns):
        column = sorted(columns.get(place - 1, []) + columns[place], key=lambda run: -run.base)
        if len(column) < _MIN_LINE_NUMBERS or column[0] in found:
            continue
        edge, size = max(run.right for run in column), max(run.size for run in column)
        others = [run for run in runs if run.left > edge or run.right > edge + size]
        beside = {round(run.base) for run in others if run.size * _LINE_NUMBER_SIZE >= size}
        steps = [int(two.text) - int(one.text) for one, two in pairwise(column)]
        usual = Counter(steps).most_common(1)[0][0]
        if (
            usual > 0
            and 4 * steps.count(usual) >= 3 * len(steps)
            and all(run.left > edge - 0.5 * size for run in others)
            and 2 * sum(_is_beside(run, beside) for run in column) >= len(column)
        ):
            found += column
    return found


def _is_beside(run: TextRun, bases: set[int]) -> bool:
    return any(round(run.base) + step in bases for step in (-1, 0, 1))


def find_body_size(pages: Sequence[PdfPage]) -> float:
    """The size that most letters have."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for run in page.runs:
            if not run.aside:
                sizes[round(run.size * 2) / 2] += len(run.text)
    return sizes.most_common(1)[0][0] if sizes else 10.0


def _find_leading(pages: Sequence[PdfPage]) -> float:
    """From one base line to the next, as it mostly is."""
    steps: Counter[float] = Counter()
    for page in pages[:400]:
        rows = group_rows(run for run in page.runs if not run.aside)
        for above, below in zip(rows, rows[1:], strict=False):
            if abs(above[0].size - below[0].size) < 0.5:
                steps[round((above[0].base - below[0].base) * 2) / 2] += 1
    return steps.most_common(1)[0][0] if steps else 14.0


def _find_text_bounds(pages: Sequence[PdfPage]) -> tuple[float, float]:
    """Where the lowest and the highest row of most pages stand: margins may be wide."""
    bases = [[run.base for run in page.runs if not run.aside] or [0.0] for page in pages]
    least = max(3, len(pages) / 4)

    def find_usual(places: Iterable[float], otherwise: float) -> float:
        [(place, count)] = Counter(map(round, places)).most_common(1) or [(0, 0)]
        return float(place) if count >= least else otherwise

    return find_usual(map(min, bases), -math.inf), find_usual(map(max, bases), math.inf)


def _find_edges(page: PdfPage, leading: float, bounds: tuple[float, float]) -> list[EdgeRow]:
    rows = group_rows(run for run in page.runs if not run.aside)
    made: list[EdgeRow] = []
    for top, ordered in ((True, rows), (False, rows[::-1])):
        limit = page.height * (1 - _ZONE) if top else page.height * _ZONE
        wide_limit = min(limit, bounds[1] - 2) if top else max(limit, bounds[0] + 2)
        for depth, row in enumerate(ordered[:_DEEP]):
            base = row[0].base
            inner = ordered[depth + 1][0].base if depth + 1 < len(ordered) else None
            apart = inner is None or abs(base - inner) > 1.3 * leading
            here = wide_limit if apart and not depth else limit
            if (base < here) if top else (base > here):
                break
            made.append(
                EdgeRow(
                    page.number, top, depth, base, max(run.size for run in row), apart,
                    " ".join(run.text for run in row), tuple(row),
                )
            )  # fmt: skip
    return made


def _remove_page_numbers(edges: list[EdgeRow]) -> list[EdgeRow]:
    """Rows with their text less the number that goes up as the pages do."""
    offsets: dict[int, set[int]] = defaultdict(set)
    for edge in edges:
        for _, number in _list_numbers(edge.text):
            offsets[number - edge.page].add(edge.page)
    usual = {offset for offset, pages in offsets.items() if len(pages) >= 2 and _are_near(pages)}
    made = []
    for edge in edges:
        words = edge.text.split()
        numbered = [at for at, number in _list_numbers(edge.text) if number - edge.page in usual]
        if numbered:  # the outermost is the page's, as a section may have the same
            ends = min(numbered), max(numbered)
            del words[ends[0] if ends[0] == 0 else ends[1]]
        bare = " ".join(words)
        if parse_label(edge.text) is not None and parse_label(bare) is None:
            bare = edge.text  # the number is the chapter's
        made.append(replace(edge, bare=bare.casefold()))
    return made


def _list_numbers(text: str) -> list[tuple[int, int]]:
    """The words that are numbers, with their values."""
    found = []
    for at, word in enumerate(text.split()):
        bare = word.strip("-\u2013\u2014|[](){}.,\u00b7\u2022")
        if match := _OF_ALL.fullmatch(bare):
            bare = match[1]
        if _NUMBER.fullmatch(bare):
            found.append((at, int(bare)))
        elif _ROMAN.fullmatch(bare) and (value := roman_value(bare)):
            found.append((at, value))
    return found


def _find_repeated(edges: list[EdgeRow], num_pages: int, body: float) -> set[EdgeRow]:
    """Rows that come again at the same height, and what else stands in the place of a head."""
    groups: dict[tuple[bool, str], list[EdgeRow]] = defaultdict(list)
    for edge in edges:
        if any(map(str.isalpha, edge.bare)) or not any(map(str.isdigit, edge.text)):
            groups[edge.top, edge.bare].append(edge)
    found: set[EdgeRow] = set()
    on_most_pages: set[EdgeRow] = set()
    for group in groups.values():
        for level in _group_by_height(group):
            if _comes_again(level, num_pages, body):
                found |= set(level)
                if len({edge.page for edge in level}) > max(3, num_pages / 2):
                    on_most_pages |= set(level)  # also where a full page runs over it
    found |= _find_in_same_slot(edges, found, body)
    return _keep_outermost(found, edges) | on_most_pages


def _group_by_height(group: list[EdgeRow]) -> list[list[EdgeRow]]:
    """The group's rows by height: a head keeps its place."""
    levels: list[list[EdgeRow]] = []
    for edge in sorted(group, key=lambda edge: edge.base):
        if levels and edge.base - levels[-1][-1].base <= 2.5:
            levels[-1].append(edge)
        else:
            levels.append([edge])
    return levels


def _comes_again(level: list[EdgeRow], num_pages: int, body: float) -> bool:
    pages = {edge.page for edge in level}
    if len(pages) < 2 or max(len(edge.text) for edge in level) > 160:
        return False
    if num_pages > 4 and not _are_near(pages):
        return False  # a heading that the book has again, far away
    large = level[0].size > 1.2 * body
    if large and 2 * len(pages) < num_pages:
        return False
    if sum(edge.apart for edge in level) * 2 > len(level):
        return True
    if _heads_every_page(level, pages):
        return True
    other = abs(level[0].size - body) > 0.06 * body and len(pages) > 2
    numbered = all(edge.has_page_number and len(edge.runs) > 1 for edge in level)
    return other or numbered


def _heads_every_page(level: list[EdgeRow], pages: set[int]) -> bool:
    """A head right above the text: the outermost row of nearly all pages, and always the same."""
    return (
        len(pages) > 2
        and 2 * len(pages) > max(pages) - min(pages)
        and all(edge.depth == 0 and edge.text == level[0].text for edge in level)
    )


def _are_near(pages: set[int]) -> bool:
    ordered = sorted(pages)
    return any(later - sooner <= 2 for sooner, later in zip(ordered, ordered[1:], strict=False))


def _find_in_same_slot(edges: list[EdgeRow], found: set[EdgeRow], body: float) -> set[EdgeRow]:
    """Heads that are printed once only: alone in the place that heads have on other pages."""
    slots = Counter((edge.top, round(edge.base), round(edge.size)) for edge in found)
    single: dict[tuple[bool, int, int], set[EdgeRow]] = defaultdict(set)
    for edge in edges:
        if edge in found or edge.depth or not edge.apart or edge.size > 1.15 * body:
            continue
        is_named = parse_label(edge.text) is not None and not edge.has_page_number
        if is_named and edge.size >= _SMALLER * body:
            continue  # a chapter's own heading
        if len(edge.text) < 120:
            single[edge.top, round(edge.base), round(edge.size)].add(edge)
    made: set[EdgeRow] = set()
    for (top, base, size), alone in single.items():
        near = sum(slots[top, base + step, size] for step in (-1, 0, 1))
        if near >= max(3, len(alone)):  # else they are the titles of slides
            made |= alone
    return made


def _keep_outermost(found: set[EdgeRow], edges: list[EdgeRow]) -> set[EdgeRow]:
    """Without rows that have text of the page outside of them."""
    taken = {(edge.page, edge.top, edge.depth) for edge in found}
    outer = {
        (edge.page, edge.top, edge.depth): edge
        for edge in edges
        if _parse_page_number(edge.text) is not None
    }
    return {
        edge
        for edge in found
        if all(
            (edge.page, edge.top, depth) in taken or (edge.page, edge.top, depth) in outer
            for depth in range(edge.depth)
        )
    }


def _find_counted(edges: list[EdgeRow], pages: Sequence[PdfPage]) -> set[EdgeRow]:
    """Numbers at the edge that go up as the pages do."""
    labels = {page.number: page.label for page in pages}
    by_offset: dict[tuple[bool, bool, int], list[EdgeRow]] = defaultdict(list)
    found: set[EdgeRow] = set()
    for edge in edges:
        number = _parse_page_number(edge.text)
        if number is None:
            continue
        value, roman = number
        by_offset[edge.top, roman, value - edge.page].append(edge)
        named = edge.text.strip(" -–—.[]()").casefold() == labels[edge.page].casefold() != ""
        alone = len(pages) == 1 and value == 1
        if edge.depth == 0 and edge.apart and (named or alone):
            found.add(edge)
    heights = [median(e.base for e in group) for group in by_offset.values() if len(group) > 2]
    for group in by_offset.values():
        if len({edge.page for edge in group}) >= 2:
            found |= set(group)
        else:  # a number whose pages were bound otherwise, at the height of the others
            found |= {e for e in group if any(abs(e.base - height) < 2 for height in heights)}
    return found


def _parse_page_number(text: str) -> tuple[int, bool] | None:
    """The number that a row is, and whether it is a Roman one."""
    match = _DRESSED.fullmatch(text.strip())
    if match is None or _DATE.search(text):
        return None
    digits = match["number"]
    if digits.isdigit():
        return int(digits), False
    value = roman_value(digits)
    return (value, True) if value else None


def find_margin_column(pages: Sequence[PdfPage], body: float) -> float | None:
    """Where small type beside the text begins, on several pages: notes in the margin."""
    places: dict[int, set[int]] = defaultdict(set)
    for page in pages:
        for run in _list_beside_text(page, body):
            places[round(run.left)].add(page.number)
    left = max(places, key=lambda one: len(places[one]), default=0)
    return left - 1.5 if places and len(places[left]) >= _MIN_MARGIN_PAGES else None


def take_margin(page: PdfPage, runs: Sequence[TextRun], left: float, body: float) -> list[TextRun]:
    """Those of some runs of a page that stand in the margin column."""
    beside = {id(run) for run in _list_beside_text(page, body) if run.left >= left}
    return [run for run in runs if id(run) in beside]


def _list_beside_text(page: PdfPage, body: float) -> list[TextRun]:
    runs = [run for run in page.runs if not run.aside and run.base < page.height * (1 - _ZONE / 2)]
    text = [run for run in runs if run.size >= _SMALLER * body]
    if 2 * sum(len(run.text) for run in text) < sum(len(run.text) for run in runs):
        return []  # an index, or a page of small type
    edge = max((run.right for run in text), default=page.width) + 0.5 * body
    return [run for run in runs if run.size < _SMALLER * body and run.left > edge]


# -- footnotes -------------------------------------------------------------------------------------

_MARK = re.compile(r"(?P<mark>\d{1,3}|[*\u2020\u2021\u00a7\u00b6#]{1,4}|[a-z])(?=[\s.)\]:]|\D)")
_RAISED_MARK = re.compile(r"\d{1,3}|[*\u2020\u2021\u00a7\u00b6#]{1,4}|[a-z]")
_SMALLER = 0.93


@dataclass(frozen=True)
class Footnote:
    """A footnote, or the part of one that stands on this page."""

    mark: str
    """Empty when it goes on from the page before."""
    lines: tuple[PdfLine, ...]


def is_note_mark(text: str) -> bool:
    """Whether raised text can be a reference to a note."""
    return _RAISED_MARK.fullmatch(text.strip("[]() ,")) is not None


def cut_notes(
    lines: list[PdfLine], body: float, *, goes_on: bool
) -> tuple[list[PdfLine], list[Footnote]]:
    """A page's lines without its notes, and the notes.

    Args:
        lines: of one page, in reading order.
        body: the size of the document's text.
        goes_on: whether the page before ended inside a note.
    """
    marks = {
        line.text[start:end].strip("[]() ")
        for line in lines
        for start, end in line.raised
        if start > 0 and is_note_mark(line.text[start:end])
    }
    found: set[int] = set()
    notes: list[Footnote] = []
    for region in dict.fromkeys(line.region for line in lines):
        column = [line for line in lines if line.region == region]
        foot = _find_foot(column, body)
        made = _split_notes(foot, marks, goes_on=goes_on)
        if made:
            notes += made
            found |= {id(line) for line in foot}
    return [line for line in lines if id(line) not in found], notes


def _find_foot(column: list[PdfLine], body: float) -> list[PdfLine]:
    """The small type that a column ends with."""
    foot: list[PdfLine] = []
    for line in reversed(column):
        if line.size > _SMALLER * body:
            break
        foot.insert(0, line)
    return foot


def _split_notes(foot: list[PdfLine], marks: set[str], *, goes_on: bool) -> list[Footnote]:
    """The notes in a foot; none if nothing in it answers to a mark of the page."""
    starts = [_find_mark(line, marks) for line in foot]
    if not any(starts):
        return []
    if not starts[0] and not goes_on:
        # Small type before the first mark, such as a caption: not this page's note.
        return []
    notes: list[Footnote] = []
    for line, mark in zip(foot, starts, strict=True):
        if mark or not notes:
            notes.append(Footnote(mark, (line,)))
        else:
            notes[-1] = Footnote(notes[-1].mark, (*notes[-1].lines, line))
    return notes


def _find_mark(line: PdfLine, marks: set[str]) -> str:
    """The mark that a line begins with, if it is one that the page's text has."""
    match = _MARK.match(line.text)
    if match is None or match["mark"] not in marks:
        return ""
    return match["mark"]
