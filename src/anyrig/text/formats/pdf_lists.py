"""Tables of contents and indexes, found by their layout: nobody wants to hear or find them.

A contents page has lines that end in page numbers, which stand one below the other at the right
edge and do not go down. An index has short lines in the order of the alphabet that end in page
numbers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from anyrig.text.document import Role
from anyrig.text.formats.pdf_lines import PdfLine
from anyrig.text.formats.pdf_paragraphs import Paragraph, is_dotted
from anyrig.text.matter import is_titled
from anyrig.text.roman_numerals import roman_value

_LAST_NUMBER = re.compile(r"(?:^|[\s.\u2026\u00b7_])(\d{1,4}|[ivxlc]{1,7})$", re.IGNORECASE)
_INDEX_ENTRY = re.compile(
    r"(.*?\w.*?)(?:,|\s|[.\u2026]{2,})\s*\d{1,4}(?:\s?[-\u2013]\s?\d{1,4})?"
    r"(?:\s?,\s?\d{1,4}(?:\s?[-\u2013]\s?\d{1,4})?)*"
)
_MIN_ENTRIES = 4
_MIN_INDEX_ENTRIES = 12
_MAX_TITLE = 40


@dataclass(frozen=True)
class ListedMatter:
    """Paragraphs that list what stands elsewhere."""

    start: int
    end: int
    role: Role
    title: str


def find_lists(paragraphs: Sequence[Paragraph]) -> list[ListedMatter]:
    """The tables of contents, lists of figures and indexes of a document, in order."""
    pages: dict[int, list[tuple[int, PdfLine]]] = defaultdict(list)
    for number, paragraph in enumerate(paragraphs):
        for line in paragraph.lines:
            pages[line.page].append((number, line))
    found: list[ListedMatter] = []
    last_page = max(pages, default=0)
    for page, lines in sorted(pages.items()):
        if entries := _find_contents(lines, goes_on=_is_open(found, paragraphs, page, "contents")):
            _add(found, paragraphs, lines, entries, "contents")
        elif page > last_page / 2 and (entries := _find_index(lines)):
            _add(found, paragraphs, lines, entries, "back")
    return found


def _is_open(
    found: list[ListedMatter], paragraphs: Sequence[Paragraph], page: int, role: Role
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


def _is_heading_of(paragraphs: Sequence[Paragraph], start: int, first: int) -> bool:
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
    paragraphs: Sequence[Paragraph],
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
    start, title = min(entries), ""
    for number in range(first, start + 1):
        text = " ".join(line.text for line in paragraphs[number].lines)
        if len(paragraphs[number].lines) == 1 and (
            is_titled(text, role) or number < start and _is_heading_of(paragraphs, start, first)
        ):
            start, title = number, text
            break
    found.append(ListedMatter(start, end, role, title))
