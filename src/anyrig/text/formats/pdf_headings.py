"""Which paragraphs are headings, and where chapters begin.

The file's own outline decides where there is one. Else headings are what stands in larger type,
what is short and bold, and what calls itself a chapter and stands alone.

Tables of contents and indexes, which nobody wants to hear or find, are known by their layout.
Contents are lines that end in page numbers, which stand one below the other at the right edge and
do not go down. An index has short lines in the order of the alphabet that end in page numbers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from statistics import median

from anyrig.text.document import Role
from anyrig.text.formats.pdf_lines import PdfLine
from anyrig.text.formats.pdf_paragraphs import (
    CAPTION,
    PdfParagraph,
    PdfStyle,
    is_bulleted,
    is_dotted,
)
from anyrig.text.formats.titles import RANK, parse_label
from anyrig.text.matter import is_titled
from anyrig.text.roman_numerals import roman_value

_LARGER = 1.12
_LONGEST = 200
_FEW_CHARACTERS = 40
"""Between the lines of a title page: `by`, a date."""
_MOST_LINES = 5
_MOST_ALIKE = 3
"""Bold paragraphs in a row that may still be headings."""
_WORD = re.compile(r"\w{2,}")
_SECTION_NUMBER = re.compile(r"^[\dA-Z]{0,3}(?:\.\d{1,3})*\.?\s")
_CUTS = frozenset(("volume", "book", "part", "chapter", "named", "contents"))


@dataclass(frozen=True)
class OutlineEntry:
    """An entry of the file's outline."""

    level: int
    """1 is the highest."""
    title: str
    page: int
    """Counted from 1."""
    height: float | None = None
    """On the page, from its lower edge."""


@dataclass(frozen=True)
class ChapterStart:
    """Where a chapter begins."""

    paragraph: int
    level: int
    title: str
    role: Role = "body"


def find_heading_levels(paragraphs: Sequence[PdfParagraph], style: PdfStyle) -> dict[int, int]:
    """The paragraphs that are headings by their looks, with their levels."""
    looks: dict[int, tuple[float, bool]] = {}
    for number, paragraph in enumerate(paragraphs):
        if _is_heading(paragraphs, number, style):
            looks[number] = (round(paragraph.size * 2) / 2, paragraph.bold)
    if len(looks) > max(6, 0.5 * len(paragraphs)):
        # A form, a leaflet, slides: large or bold is nothing special here.
        looks = {n: look for n, look in looks.items() if look[0] > _LARGER * style.body}
    for run in _list_runs(looks):
        if len(run) > _MOST_ALIKE and looks[run[0]][0] <= _LARGER * style.body:
            for number in run:  # a list in bold
                del looks[number]
    order = sorted(set(looks.values()), reverse=True)
    return {number: min(order.index(look) + 1, 6) for number, look in looks.items()}


def _list_runs(looks: dict[int, tuple[float, bool]]) -> list[list[int]]:
    """Headings of one look with nothing in between."""
    runs: list[list[int]] = []
    for number, look in sorted(looks.items()):
        if runs and runs[-1][-1] == number - 1 and looks[number - 1] == look:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def _is_heading(paragraphs: Sequence[PdfParagraph], number: int, style: PdfStyle) -> bool:
    paragraph = paragraphs[number]
    text = _join_text(paragraph)
    if (
        paragraph.shape not in ("text", "item")
        or len(text) > _LONGEST
        or len(paragraph.lines) > _MOST_LINES
        or is_bulleted(text)
        or not any(letter.isalnum() for letter in text)
    ):
        return False
    if any(len(line.cells) > 2 for line in paragraph.lines):
        return False  # the head of a table
    if paragraph.size > _LARGER * style.body:
        title = _SECTION_NUMBER.sub("", text).replace(" ", "")
        letters = sum(map(str.isalpha, title))
        return 2 * letters > len(title) > 0 or parse_label(text) is not None  # else a formula
    if paragraph.size < 0.93 * style.body or text[-1] in ".,;:" and parse_label(text) is None:
        return False
    if CAPTION.match(text):
        return False
    if paragraph.bold and len(text) <= 120 and any(letter.isalpha() for letter in text):
        return not (number + 1 < len(paragraphs) and _same_row(paragraph, paragraphs[number + 1]))
    return _stands_alone(paragraphs, number, style) and _calls_itself(paragraph, text)


def _same_row(one: PdfParagraph, two: PdfParagraph) -> bool:
    above, below = one.lines[-1], two.lines[0]
    return above.region == below.region and abs(above.base - below.base) < 1


def _calls_itself(paragraph: PdfParagraph, text: str) -> bool:
    found = parse_label(text)
    centred = _is_centred(paragraph.lines[0])
    if found is not None and found.sort in ("numeral", "titled"):
        return centred
    if found is not None and len(text) <= 100:
        return True
    return centred and text.isupper() and 3 < len(text) <= 60


def _is_centred(line: PdfLine) -> bool:
    before, after = line.left - line.margin, line.edge - line.right
    return before > 2 * line.size and abs(before - after) < 0.1 * (line.edge - line.margin)


def _stands_alone(paragraphs: Sequence[PdfParagraph], number: int, style: PdfStyle) -> bool:
    """With more space around it than lines have between them, or at the top."""
    line, end = paragraphs[number].lines[0], paragraphs[number].lines[-1]
    space = 1.3 * style.leading * line.size
    above = paragraphs[number - 1].lines[-1] if number else None
    below = paragraphs[number + 1].lines[0] if number + 1 < len(paragraphs) else None
    free_above = above is None or above.region != line.region or above.base - line.base > space
    free_below = below is None or below.region != end.region or end.base - below.base > space
    return free_above and free_below


def find_starts_by_looks(
    paragraphs: Sequence[PdfParagraph], levels: dict[int, int]
) -> list[ChapterStart]:
    """Where chapters begin, in a file without an outline."""
    called = {n: found for n in levels if (found := parse_label(_join_text(paragraphs[n])))}
    cuts = {levels[n] for n, found in called.items() if found.sort in RANK and RANK[found.sort] < 5}
    if not cuts:
        cuts = {_chapter_level(paragraphs, levels)}
    deepest = max(cuts, default=0)
    chosen = [
        n for n in sorted(levels) if levels[n] <= deepest or n in called and called[n].sort in _CUTS
    ]
    starts = [ChapterStart(n, levels[n], _join_text(paragraphs[n])) for n in chosen]
    return _join_titles(_merge_labels(starts, paragraphs, levels), paragraphs, levels)


def _join_titles(
    starts: list[ChapterStart], paragraphs: Sequence[PdfParagraph], levels: dict[int, int]
) -> list[ChapterStart]:
    """Headings one under the other, as on a title page, are one chapter, called as the largest."""
    joined: list[ChapterStart] = []
    before, largest = 0, 0.0
    for start in starts:
        size = paragraphs[start.paragraph].size
        if joined and _is_under(before, start, paragraphs, levels):
            if size > largest:
                joined[-1], largest = replace(joined[-1], title=start.title), size
        else:
            joined.append(start)
            largest = size
        before = start.paragraph
    return joined


def _is_under(
    before: int, start: ChapterStart, paragraphs: Sequence[PdfParagraph], levels: dict[int, int]
) -> bool:
    between = [n for n in range(before, start.paragraph) if n not in levels]
    return (
        _page(paragraphs[before]) == _page(paragraphs[start.paragraph])
        and parse_label(_join_text(paragraphs[before])) is None
        and parse_label(start.title) is None
        and sum(len(_join_text(paragraphs[n])) for n in between) < _FEW_CHARACTERS
    )


def _chapter_level(paragraphs: Sequence[PdfParagraph], levels: dict[int, int]) -> int:
    """The highest level that comes again and again; a title page's own is not one."""
    pages: dict[int, set[int]] = {}
    for number, level in levels.items():
        pages.setdefault(level, set()).add(_page(paragraphs[number]))
    for least in (3, 2):
        again = [level for level in sorted(pages) if len(pages[level]) >= least]
        if again:
            return again[0]
    return max(pages, default=0)


def _merge_labels(
    starts: list[ChapterStart], paragraphs: Sequence[PdfParagraph], levels: dict[int, int]
) -> list[ChapterStart]:
    """Levels counted from 1; "Chapter 1" and the title under it are one chapter."""
    ranks = _find_ranks(starts, paragraphs)
    made: list[ChapterStart] = []
    title = -1
    for start in starts:
        number, text = start.paragraph, start.title
        if number == title:
            continue
        if _has_title_under(paragraphs, number, levels):
            title = number + 1
            text = f"{text}: {_join_text(paragraphs[title])}"
        made.append(ChapterStart(number, ranks[number], text))
    return made


def _find_ranks(starts: list[ChapterStart], paragraphs: Sequence[PdfParagraph]) -> dict[int, int]:
    """The level of each start among the others, by what they call themselves."""
    sorts: dict[int, int] = {}
    for start in starts:
        found = parse_label(start.title)
        sorts[start.paragraph] = RANK[found.sort] if found and found.sort in RANK else 0
    ranked = sorted({rank for rank in sorts.values() if 0 < rank < 5})
    if ranked:
        return {n: ranked.index(rank) + 1 if rank in ranked else 1 for n, rank in sorts.items()}
    return dict.fromkeys(sorts, 1)  # what stands in larger type comes too seldom to be parts


def _has_title_under(
    paragraphs: Sequence[PdfParagraph], number: int, levels: dict[int, int]
) -> bool:
    text = _join_text(paragraphs[number])
    found = parse_label(text)
    if found is None or found.sort not in RANK or found.title or ": " in text:
        return False
    if number + 1 not in levels or _page(paragraphs[number]) != _page(paragraphs[number + 1]):
        return False
    under = parse_label(_join_text(paragraphs[number + 1]))
    return under is None or (under.sort == "named" and found.sort == "chapter")


def find_starts_by_outline(
    paragraphs: Sequence[PdfParagraph], entries: Sequence[OutlineEntry]
) -> list[ChapterStart]:
    """Where the outline's entries point; also finds out which paragraphs they name."""
    made: list[ChapterStart] = []
    begin = _find_first_of_pages(paragraphs)
    for entry in entries:
        place = _find_paragraph(paragraphs, entry, begin)
        if _is_label(paragraphs, place - 1) and _matches(
            entry.title, _join_text(paragraphs[place])
        ):
            place -= 1  # "Chapter 1" stands over the title
        title = _restore_letters(entry.title, paragraphs[place : place + 2])
        made.append(ChapterStart(place, entry.level, title))
    return sorted(made, key=lambda start: start.paragraph)


def _restore_letters(title: str, headings: Sequence[PdfParagraph]) -> str:
    """A title as its page has it, where the outline lost its letters with accents."""
    for heading in headings:
        text = _join_text(heading)
        is_longer = sum(map(str.isalpha, text)) > sum(map(str.isalpha, title))
        if is_longer and _list_ascii(text) == _list_ascii(title) != "":
            return text
    return title


def _list_ascii(text: str) -> str:
    return "".join(letter for letter in text if letter.isascii() and letter.isalnum())


def _is_label(paragraphs: Sequence[PdfParagraph], number: int) -> bool:
    """Whether a paragraph is "Chapter 1" and no more, right over the next one."""
    if not 0 <= number < len(paragraphs) - 1:
        return False
    found = parse_label(_join_text(paragraphs[number]))
    return (
        found is not None
        and found.sort in RANK
        and found.sort not in ("numeral", "titled")
        and not found.title
        and _page(paragraphs[number]) == _page(paragraphs[number + 1])
    )


def list_headings(start: ChapterStart, paragraphs: Sequence[PdfParagraph]) -> list[int]:
    """The paragraphs that are the heading of a chapter."""
    place = start.paragraph
    if place >= len(paragraphs):
        return []
    if _matches(start.title, _join_text(paragraphs[place])):
        return [place]
    if _is_label(paragraphs, place) and _matches(start.title, _join_text(paragraphs[place + 1])):
        return [place, place + 1]
    return []


def _find_first_of_pages(paragraphs: Sequence[PdfParagraph]) -> dict[int, int]:
    begin: dict[int, int] = {}
    for number, paragraph in enumerate(paragraphs):
        begin.setdefault(_page(paragraph), number)
    return begin


def _find_paragraph(
    paragraphs: Sequence[PdfParagraph], entry: OutlineEntry, begin: dict[int, int]
) -> int:
    """The paragraph that an entry points to: the one it names, else the one at its height."""
    pages = [page for page in begin if page >= entry.page]
    if not pages:
        return len(paragraphs)
    first = begin[min(pages)]
    here = _list_on_page(paragraphs, first, entry.page)
    named = [n for n in here if _matches(entry.title, _join_text(paragraphs[n]))]
    if entry.height is not None and here:
        height = entry.height
        below = [n for n in here if paragraphs[n].lines[0].base <= height + 3]
        near = [n for n in named if n in below or paragraphs[n].lines[0].base < height + 40]
        if near:
            return min(near, key=lambda n: abs(paragraphs[n].lines[0].base - height))
        if not named:
            return below[0] if below else here[-1] + 1
    return named[0] if named else first


def _list_on_page(paragraphs: Sequence[PdfParagraph], first: int, page: int) -> list[int]:
    """The paragraphs that begin on a page, of which the first is known."""
    last = first
    while last < len(paragraphs) and _page(paragraphs[last]) == page:
        last += 1
    return list(range(first, last))


def _matches(title: str, text: str) -> bool:
    one, two = _bare(title), _bare(text)
    if not one or not two:
        return False
    if one == two:
        return True
    shorter, longer = sorted((one, two), key=len)
    return (
        len(shorter) > 2
        and len(longer) < 2 * len(shorter) + 12
        and (longer.startswith(shorter) or longer.endswith(shorter))
    ) or _share_words(title, text)


def _share_words(title: str, text: str) -> bool:
    """Whether a paragraph has nearly all words of a title, and few others."""
    one, two = set(_WORD.findall(title.casefold())), set(_WORD.findall(text.casefold()))
    return len(one) >= 3 and len(one & two) >= max(3, 0.75 * len(one), 0.6 * len(two))


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def _join_text(paragraph: PdfParagraph) -> str:
    return " ".join(line.text for line in paragraph.lines)


def _page(paragraph: PdfParagraph) -> int:
    return paragraph.lines[0].page


# -- tables of contents and indexes ----------------------------------------------------------------

_LAST_NUMBER = re.compile(r"(?:^|[\s.\u2026\u00b7_])(\d{1,4}|[ivxlc]{1,7})$", re.IGNORECASE)
_FEW_DOTS = re.compile(r"\w\S*(?: \.){2,3} ?(?:\d{1,4}|[ivxlc]{1,7})$")
"""A title that nearly fills its line leaves place for few dots."""
_INDEX_ENTRY = re.compile(
    r"(.*?\w.*?)(?:,|\s|[.\u2026]{2,})\s*\d{1,4}(?:\s?[-\u2013]\s?\d{1,4})?"
    r"(?:\s?,\s?\d{1,4}(?:\s?[-\u2013]\s?\d{1,4})?)*"
)
_MIN_ENTRIES = 4
_MIN_INDEX_ENTRIES = 12
_MIN_INNER_ENTRIES = 3
_MAX_BLANK_PAGES = 4
"""From one page of the document's contents to the next."""
_MAX_TITLE = 40
_MAX_CONTENTS = 2000
"""Paragraphs of the longest table of contents."""
_MAX_OTHER_LINES = 30
_MAX_MISSED_ENTRIES = 6
_ENTRY_NUMBER = re.compile(r"^\W*(?:chapter\s+|o\s+)?(?:\d[\d.]*|[ivx]+[.)])?\W*")


@dataclass(frozen=True)
class ListedMatter:
    """Paragraphs that list what stands elsewhere."""

    start: int
    end: int
    role: Role
    title: str


def find_lists(paragraphs: Sequence[PdfParagraph]) -> list[ListedMatter]:
    """The tables of contents, lists of figures and indexes of a document, in order."""
    pages = _group_by_page(paragraphs)
    found: list[ListedMatter] = []
    last_page = max(pages, default=0)
    for page, lines in sorted(pages.items()):
        if entries := _find_contents(lines, goes_on=_is_open(found, paragraphs, page, "contents")):
            _add(found, paragraphs, lines, entries, "contents")
        elif page > last_page / 2 and (entries := _find_index(lines)):
            _add(found, paragraphs, lines, entries, "back")
    return found


def _group_by_page(paragraphs: Sequence[PdfParagraph]) -> dict[int, list[tuple[int, PdfLine]]]:
    pages: dict[int, list[tuple[int, PdfLine]]] = defaultdict(list)
    for number, paragraph in enumerate(paragraphs):
        for line in paragraph.lines:
            pages[line.page].append((number, line))
    return pages


def find_inner_contents(paragraphs: Sequence[PdfParagraph]) -> set[int]:
    """The paragraphs of contents that share their page with text, as those of a chapter do."""
    found: set[int] = set()
    main = 0
    """The last page of the document's own contents."""
    for page, lines in sorted(_group_by_page(paragraphs).items()):
        if page <= (main or page) + _MAX_BLANK_PAGES and _find_contents(lines, goes_on=False):
            main = page
            continue
        for at, (number, line) in enumerate(lines):
            if is_titled(line.text, "contents"):
                entries = list(takewhile(lambda one: _page_number(one[1]), lines[at + 1 :]))
                values = [_page_number(entry) for _, entry in entries]
                if len(values) >= _MIN_INNER_ENTRIES and values == sorted(values):
                    listed = {id(entry) for _, entry in ((0, line), *entries)}
                    found |= {
                        n
                        for n in {number, *(n for n, _ in entries)}
                        if all(id(one) in listed for one in paragraphs[n].lines)
                    }
    return found


def find_unnumbered_contents(
    paragraphs: Sequence[PdfParagraph], levels: dict[int, int], listed: set[int]
) -> list[ListedMatter]:
    """Contents without page numbers: lines under such a title that are headings further on."""
    places = {_strip_number(_join_text(paragraphs[n])): n for n in sorted(levels)}
    found: list[ListedMatter] = []
    end = 0
    for number in sorted(levels):
        title = _join_text(paragraphs[number])
        if number < end or {number, number + 1} & listed or not is_titled(title, "contents"):
            continue
        end = _find_end_of_contents(paragraphs, number, places)
        if end:
            found.append(ListedMatter(number, end, "contents", title))
    return found


def _find_end_of_contents(
    paragraphs: Sequence[PdfParagraph], title: int, places: dict[str, int]
) -> int:
    """The paragraph after the last entry; 0 where there are too few of them."""
    end = num_lines = num_entries = 0
    for number in range(title + 1, min(title + _MAX_CONTENTS, len(paragraphs))):
        lines = paragraphs[number].lines
        here = sum(places.get(_strip_number(line.text), 0) > number for line in lines)
        num_lines, num_entries = num_lines + len(lines), num_entries + here
        if here and num_entries >= _MIN_ENTRIES and 2 * num_entries >= num_lines:
            end = number + 1
        if num_lines > _MAX_OTHER_LINES + 2 * num_entries:
            break
    return end


def _strip_number(text: str) -> str:
    return _bare(_ENTRY_NUMBER.sub("", text.casefold(), count=1))


def _is_open(
    found: list[ListedMatter], paragraphs: Sequence[PdfParagraph], page: int, role: Role
) -> bool:
    """Whether a list ran to the end of the page before."""
    if not found or found[-1].role != role:
        return False
    end = found[-1].end
    return paragraphs[end - 1].lines[-1].page >= page - 1 and (
        end >= len(paragraphs) or paragraphs[end].lines[0].page >= page
    )


def _find_contents(lines: list[tuple[int, PdfLine]], *, goes_on: bool) -> list[int]:
    """The paragraphs with entries of a table of contents; empty where there is none."""
    entries = [(n, line, value) for n, line in lines if (value := _page_number(line))]
    if goes_on and entries:  # the rest of one: what stands above its last entry
        body = [n for n, _ in lines if n <= entries[-1][0]]
        entries = [entry for entry in entries if 2 * len(entries) >= len(body)]
    elif len(entries) < _MIN_ENTRIES or 3 * len(entries) < len(lines):
        return []
    dotted = sum(is_dotted(line.text) for _, line, _ in entries)
    values = [value for _, _, value in entries]
    rising = sum(after >= before for before, after in pairwise(values))
    if not entries or 5 * rising < 4 * (len(values) - 1):
        return []
    if 2 * dotted >= len(entries):
        return [number for number, _, _ in entries]
    edge = median(line.right for _, line, _ in entries)
    aligned = sum(abs(line.right - edge) < 0.5 * line.size for _, line, _ in entries)
    return [number for number, _, _ in entries] if 4 * aligned >= 3 * len(entries) else []


def _page_number(line: PdfLine) -> int:
    """The number that a line ends in after dots or a wide gap; 0 if there is none."""
    match = _LAST_NUMBER.search(line.text)
    if match is None:
        return int(is_dotted(line.text))
    if _FEW_DOTS.search(line.text):
        return int(match[1]) if match[1].isdigit() else 1
    if not (line.cells or is_dotted(line.text)):
        return 0
    if line.cells and not is_dotted(line.text) and line.cells[-1][2].strip() != match[1]:
        return 0
    if not any(map(str.isalpha, line.text[: match.start()])):
        return 0
    return int(match[1]) if match[1].isdigit() else roman_value(match[1]) and 1


def _find_index(lines: list[tuple[int, PdfLine]]) -> list[int]:
    entries = [
        (number, match[1].casefold())
        for number, line in lines
        if len(line.text) < 100 and (match := _INDEX_ENTRY.fullmatch(line.text))
    ]
    if len(entries) < _MIN_INDEX_ENTRIES or 2 * len(entries) < len(lines):
        return []
    letters = [
        bare[0] for _, text in entries if (bare := text.lstrip("\"'`\u2018\u201c-_.$(<*")) and bare
    ]
    rising = sum(after >= before for before, after in pairwise(letters))
    if 10 * rising < 8 * (len(letters) - 1):
        return []
    return [number for number, _ in lines[: 1 + max(
        at for at, (number, _) in enumerate(lines) if number == entries[-1][0]
    )]]  # fmt: skip


def _is_heading_of(paragraphs: Sequence[PdfParagraph], start: int, first: int) -> bool:
    """Whether the one line over a list, at the top of a page, is its title in any language."""
    over, entry = paragraphs[first], paragraphs[start]
    return (
        first == start - 1
        and over.lines[0].page > 1
        and over.size > 1.15 * entry.size
        and len(over.lines[0].text) <= _MAX_TITLE
    )


def _add(
    found: list[ListedMatter],
    paragraphs: Sequence[PdfParagraph],
    lines: list[tuple[int, PdfLine]],
    entries: list[int],
    role: Role,
) -> None:
    """Add a page's entries as a list of their own, or to the one that they go on."""
    end = max(entries) + 1
    first = min(number for number, _ in lines)
    if found and found[-1].role == role and found[-1].end >= first - 1:
        found[-1] = ListedMatter(found[-1].start, end, role, found[-1].title)
        return
    if (
        found
        and found[-1].role == role == "contents"
        and _only_entries_between(paragraphs, found[-1].end, min(entries))
    ):
        found[-1] = ListedMatter(found[-1].start, end, role, found[-1].title)
        return
    start, title = min(entries), ""
    for number in range(first, start + 1):
        text = " ".join(line.text for line in paragraphs[number].lines)
        if len(paragraphs[number].lines) == 1 and (
            is_titled(text, role) or number < start and _is_heading_of(paragraphs, start, first)
        ):
            start, title = number, text
            break
    found.append(ListedMatter(start, end, role, title))


def _only_entries_between(paragraphs: Sequence[PdfParagraph], start: int, end: int) -> bool:
    """Whether the paragraphs are the few entries about a page's edge that were not found as such.

    One of them at least ends in the number of a page.
    """
    lines = [line for one in paragraphs[start:end] for line in one.lines]
    return (
        0 < len(lines) <= _MAX_MISSED_ENTRIES
        and lines[-1].page - lines[0].page <= 1
        and any(_LAST_NUMBER.search(line.text) for line in lines)
        and not any(line.text[-1] in ".!?" for line in lines)
    )
