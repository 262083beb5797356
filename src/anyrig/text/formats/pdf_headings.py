"""Which paragraphs are headings, and where chapters begin.

The file's own outline decides where there is one. Else headings are what stands in larger type,
what is short and bold, and what calls itself a chapter and stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyrig.text.document import Role
from anyrig.text.formats.pdf_lines import PdfLine
from anyrig.text.formats.pdf_paragraphs import CAPTION, Paragraph, Style, is_bulleted
from anyrig.text.formats.titles import RANK, label

_LARGER = 1.12
_LONGEST = 200
_FEW_CHARACTERS = 40
"""Between the lines of a title page: `by`, a date."""
_MOST_LINES = 5
_MOST_ALIKE = 3
"""Bold paragraphs in a row that may still be headings."""
_WORD = re.compile(r"\w{2,}")
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
class Start:
    """Where a chapter begins."""

    paragraph: int
    level: int
    title: str
    role: Role = "body"


def heading_levels(paragraphs: Sequence[Paragraph], style: Style) -> dict[int, int]:
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


def _is_heading(paragraphs: Sequence[Paragraph], number: int, style: Style) -> bool:
    paragraph = paragraphs[number]
    text = _text(paragraph)
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
        return any(letter.isalpha() for letter in text) or label(text) is not None
    if paragraph.size < 0.93 * style.body or text[-1] in ".,;:" and label(text) is None:
        return False
    if CAPTION.match(text):
        return False
    if paragraph.bold and len(text) <= 120 and any(letter.isalpha() for letter in text):
        return not (number + 1 < len(paragraphs) and _same_row(paragraph, paragraphs[number + 1]))
    return _stands_alone(paragraphs, number, style) and _calls_itself(paragraph, text)


def _same_row(one: Paragraph, two: Paragraph) -> bool:
    above, below = one.lines[-1], two.lines[0]
    return above.region == below.region and abs(above.base - below.base) < 1


def _calls_itself(paragraph: Paragraph, text: str) -> bool:
    found = label(text)
    centred = _is_centred(paragraph.lines[0])
    if found is not None and found.sort in ("numeral", "titled"):
        return centred
    if found is not None and len(text) <= 100:
        return True
    return centred and text.isupper() and 3 < len(text) <= 60


def _is_centred(line: PdfLine) -> bool:
    before, after = line.left - line.margin, line.edge - line.right
    return before > 2 * line.size and abs(before - after) < 0.1 * (line.edge - line.margin)


def _stands_alone(paragraphs: Sequence[Paragraph], number: int, style: Style) -> bool:
    """With more space around it than lines have between them, or at the top."""
    line, end = paragraphs[number].lines[0], paragraphs[number].lines[-1]
    space = 1.3 * style.leading * line.size
    above = paragraphs[number - 1].lines[-1] if number else None
    below = paragraphs[number + 1].lines[0] if number + 1 < len(paragraphs) else None
    free_above = above is None or above.region != line.region or above.base - line.base > space
    free_below = below is None or below.region != end.region or end.base - below.base > space
    return free_above and free_below


def starts_by_looks(paragraphs: Sequence[Paragraph], levels: dict[int, int]) -> list[Start]:
    """Where chapters begin, in a file without an outline."""
    called = {n: found for n in levels if (found := label(_text(paragraphs[n])))}
    cuts = {levels[n] for n, found in called.items() if found.sort in RANK and RANK[found.sort] < 5}
    if not cuts:
        cuts = {_chapter_level(paragraphs, levels)}
    deepest = max(cuts, default=0)
    chosen = [
        n for n in sorted(levels) if levels[n] <= deepest or n in called and called[n].sort in _CUTS
    ]
    starts = [Start(n, levels[n], _text(paragraphs[n])) for n in chosen]
    return _join_titles(_merged(starts, paragraphs, levels), paragraphs, levels)


def _join_titles(
    starts: list[Start], paragraphs: Sequence[Paragraph], levels: dict[int, int]
) -> list[Start]:
    """Headings one under the other, as on a title page, are one chapter, called as the largest."""
    joined: list[Start] = []
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
    before: int, start: Start, paragraphs: Sequence[Paragraph], levels: dict[int, int]
) -> bool:
    between = [n for n in range(before, start.paragraph) if n not in levels]
    return (
        _page(paragraphs[before]) == _page(paragraphs[start.paragraph])
        and label(_text(paragraphs[before])) is None
        and label(start.title) is None
        and sum(len(_text(paragraphs[n])) for n in between) < _FEW_CHARACTERS
    )


def _chapter_level(paragraphs: Sequence[Paragraph], levels: dict[int, int]) -> int:
    """The highest level that comes again and again; a title page's own is not one."""
    pages: dict[int, set[int]] = {}
    for number, level in levels.items():
        pages.setdefault(level, set()).add(_page(paragraphs[number]))
    for least in (3, 2):
        again = [level for level in sorted(pages) if len(pages[level]) >= least]
        if again:
            return again[0]
    return max(pages, default=0)


def _merged(
    starts: list[Start], paragraphs: Sequence[Paragraph], levels: dict[int, int]
) -> list[Start]:
    """Levels counted from 1; "Chapter 1" and the title under it are one chapter."""
    ranks = _ranks(starts, paragraphs)
    made: list[Start] = []
    for start in starts:
        start = Start(start.paragraph, ranks[start.paragraph], start.title)
        last = made[-1] if made else None
        if last is not None and _is_its_title(last, start, paragraphs):
            made[-1] = Start(last.paragraph, last.level, f"{last.title}: {start.title}")
        else:
            made.append(start)
    return [_with_title(start, paragraphs, levels) for start in made]


def _ranks(starts: list[Start], paragraphs: Sequence[Paragraph]) -> dict[int, int]:
    """The level of each start among the others, by what they call themselves."""
    sorts: dict[int, int] = {}
    for start in starts:
        found = label(start.title)
        sorts[start.paragraph] = RANK[found.sort] if found and found.sort in RANK else 0
    ranked = sorted({rank for rank in sorts.values() if 0 < rank < 5})
    if ranked:
        return {n: ranked.index(rank) + 1 if rank in ranked else 1 for n, rank in sorts.items()}
    return dict.fromkeys(sorts, 1)  # what stands in larger type comes too seldom to be parts


def _is_its_title(last: Start, start: Start, paragraphs: Sequence[Paragraph]) -> bool:
    found, after = label(last.title), label(start.title)
    return (
        start.paragraph == last.paragraph + 1
        and found is not None
        and found.sort in RANK
        and not found.title
        and ": " not in last.title
        and (after is None or after.sort == "named" and found.sort == "chapter")
        and _page(paragraphs[start.paragraph]) == _page(paragraphs[last.paragraph])
    )


def _with_title(start: Start, paragraphs: Sequence[Paragraph], levels: dict[int, int]) -> Start:
    """A bare "Chapter 1" takes the smaller heading right under it as its title."""
    found, after = label(start.title), start.paragraph + 1
    if (
        found is None
        or found.sort not in RANK
        or found.title
        or ": " in start.title
        or after not in levels
        or label(_text(paragraphs[after])) is not None
        or _page(paragraphs[after]) != _page(paragraphs[start.paragraph])
    ):
        return start
    return Start(start.paragraph, start.level, f"{start.title}: {_text(paragraphs[after])}")


def starts_by_outline(
    paragraphs: Sequence[Paragraph], entries: Sequence[OutlineEntry]
) -> list[Start]:
    """Where the outline's entries point; also finds out which paragraphs they name."""
    made: list[Start] = []
    begin = _first_of_pages(paragraphs)
    for entry in entries:
        place = _place(paragraphs, entry, begin)
        if _is_label(paragraphs, place - 1) and _matches(entry.title, _text(paragraphs[place])):
            place -= 1  # "Chapter 1" stands over the title
        made.append(Start(place, entry.level, entry.title))
    return sorted(made, key=lambda start: start.paragraph)


def _is_label(paragraphs: Sequence[Paragraph], number: int) -> bool:
    """Whether a paragraph is "Chapter 1" and no more, right over the next one."""
    if not 0 <= number < len(paragraphs) - 1:
        return False
    found = label(_text(paragraphs[number]))
    return (
        found is not None
        and found.sort in RANK
        and found.sort not in ("numeral", "titled")
        and not found.title
        and _page(paragraphs[number]) == _page(paragraphs[number + 1])
    )


def list_headings(start: Start, paragraphs: Sequence[Paragraph]) -> list[int]:
    """The paragraphs that are the heading of a chapter."""
    place = start.paragraph
    if place >= len(paragraphs):
        return []
    if _matches(start.title, _text(paragraphs[place])):
        return [place]
    if _is_label(paragraphs, place) and _matches(start.title, _text(paragraphs[place + 1])):
        return [place, place + 1]
    return []


def _first_of_pages(paragraphs: Sequence[Paragraph]) -> dict[int, int]:
    begin: dict[int, int] = {}
    for number, paragraph in enumerate(paragraphs):
        begin.setdefault(_page(paragraph), number)
    return begin


def _place(paragraphs: Sequence[Paragraph], entry: OutlineEntry, begin: dict[int, int]) -> int:
    """The paragraph that an entry points to: the one it names, else the one at its height."""
    pages = [page for page in begin if page >= entry.page]
    if not pages:
        return len(paragraphs)
    first = begin[min(pages)]
    here = _on_page(paragraphs, first, entry.page)
    named = [n for n in here if _matches(entry.title, _text(paragraphs[n]))]
    if entry.height is not None and here:
        height = entry.height
        below = [n for n in here if paragraphs[n].lines[0].base <= height + 3]
        near = [n for n in named if n in below or paragraphs[n].lines[0].base < height + 40]
        if near:
            return min(near, key=lambda n: abs(paragraphs[n].lines[0].base - height))
        if not named:
            return below[0] if below else here[-1] + 1
    return named[0] if named else first


def _on_page(paragraphs: Sequence[Paragraph], first: int, page: int) -> list[int]:
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


def _text(paragraph: Paragraph) -> str:
    return " ".join(line.text for line in paragraph.lines)


def _page(paragraph: Paragraph) -> int:
    return paragraph.lines[0].page
