"""Titles and names from files of others, as short lines that a terminal and a list can show.

A file may call itself anything: by ten million letters, by lines that look like another program's
words, by codes that clear a screen or turn the direction of writing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from anyrig.text.document import Chapter, Document, Metadata

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_INVALID = re.compile("[\x00\ud800-\udfff]")
_INVISIBLE = re.compile(r"[\u202a-\u202e\u2066-\u2069\u200b\u2060\ufeff]")
"""Marks of direction, and spaces and joiners without width."""
# How a spreadsheet tells a formula; telephone numbers and amounts begin with signs as well.
_FORMULA = re.compile(r"[=@\t\r]|[+-].*?(?:[|!]|[A-Za-z]\()", re.DOTALL)
_LONGEST = 500
_LONGEST_TEXT = 20_000
_MOST_NAMES = 100


def replace_invalid(text: str) -> str:
    """A text without what neither UTF-8 nor a database takes."""
    return _INVALID.sub("\ufffd", text)


def cell(text: str) -> str:
    """A text as a cell of a table, which no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def one_line(text: str, most: int = _LONGEST) -> str:
    """A text as one line without control characters, cut at a word if it is absurdly long."""
    text = text[: 4 * most]
    if not text.isprintable():
        text = _INVISIBLE.sub("", _CONTROL.sub(" ", text))
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    return text[:most].rpartition(" ")[0] or text[:most]


def format_pages(numbers: Sequence[int]) -> str:
    """Pages as people name them: "pages 1-3, 7"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] + 1 == number:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    named = [f"{a}" if a == b else f"{a}-{b}" for a, b in spans]
    if len(named) > 12:
        named = [*named[:12], "..."]
    return f"page{'s' if len(numbers) > 1 else ''} {', '.join(named)}"


def clean_labels(document: Document) -> Document:
    """A document whose titles, names and warnings can be shown."""
    return replace(
        document,
        metadata=_clean_metadata(document.metadata),
        chapters=tuple(_chapter(chapter) for chapter in document.chapters),
        warnings=tuple(dict.fromkeys(one_line(w, 1000) for w in document.warnings))[:_MOST_NAMES],
    )


def _chapter(chapter: Chapter) -> Chapter:
    title = one_line(chapter.title)
    return chapter if title == chapter.title else replace(chapter, title=title)


def _clean_metadata(metadata: Metadata) -> Metadata:
    rows = metadata.description[:_LONGEST_TEXT].splitlines()
    return Metadata(
        title=one_line(metadata.title),
        authors=_names(metadata.authors),
        language=one_line(metadata.language, 40),
        series=one_line(metadata.series),
        series_index=one_line(metadata.series_index, 40),
        year=one_line(metadata.year, 40),
        description="\n".join(one_line(row, _LONGEST_TEXT) for row in rows).strip(),
        publisher=one_line(metadata.publisher),
        identifier=one_line(metadata.identifier),
        rights=one_line(metadata.rights, _LONGEST_TEXT),
        subjects=_names(metadata.subjects),
    )


def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(None, (one_line(name) for name in names[:_MOST_NAMES])))
