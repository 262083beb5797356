"""What Project Gutenberg puts around a text: where it begins and ends, and what it says of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from anyrig.text.document import Metadata
from anyrig.text.language_names import language_code

_START = re.compile(r"\*{3}\s*START OF (?:THE|THIS) PROJECT GUTENBERG", re.I)
_SMALL_PRINT = re.compile(r"\*END\*?\s*THE SMALL PRINT", re.I)
_END = re.compile(
    r"\*{3}\s*END OF (?:THE|THIS) PROJECT GUTENBERG"
    r"|End of (?:the |this )?Project Gutenberg(?:'s|’s| E-?(?:book|text)) ",
    re.I,
)
_FIELD = re.compile(r"(Title|Author|Language|Editor|Translator|Release Date)\s*:\s*(\S.*)", re.I)
_BRACKETED = re.compile(
    r"\[(?P<title>[^\]]{1,120}?) by (?P<author>[^\]]{1,80}?),?\s*(?P<year>\d{4})?\]"
)
_BY = re.compile(r"(?:by|par|von|por|di|door)\s+(\S.{0,80})", re.I)


class Frame(NamedTuple):
    """Which lines are the text itself."""

    start: int
    end: int


def frame(lines: Sequence[str]) -> Frame:
    """Where the text stands between the lines that tell its beginning and end."""
    start, end = 0, len(lines)
    for at, line in enumerate(lines[:1500]):
        if _START.search(line) or _SMALL_PRINT.search(line):
            start = _closed(lines, at)
    for at in range(len(lines) - 1, max(start, len(lines) - 2000), -1):
        if _END.search(lines[at][:200]):
            end = at
    return Frame(start, end)


def read_metadata(lines: Sequence[str], header: int) -> Metadata:
    """What a header, or else the first lines, say of a text.

    Args:
        lines: of the whole file.
        header: how many of them stand before the text.
    """
    fields = _fields(lines[:header])
    if not fields:
        return _from_first_lines([line.strip() for line in lines[:40] if line.strip()][:6])
    author = fields.get("author", "")
    return Metadata(
        title=fields.get("title", ""),
        authors=tuple(part for part in re.split(r"\s+and\s+|;\s*", author) if part),
        language=language_code(fields.get("language", "")),
    )


def _closed(lines: Sequence[str], at: int) -> int:
    """The line after a mark, which may run over several lines."""
    for more in range(at, min(at + 4, len(lines))):
        if lines[more].rstrip().endswith("***") or "*END*" in lines[more]:
            return more + 1
    return at + 1


def _fields(lines: Sequence[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        found = _FIELD.match(line)
        if found:
            name = found[1].lower()
            fields.setdefault(name, " ".join(found[2].split()))
        elif name == "title" and line.startswith("  ") and line.strip():
            fields[name] += f" {' '.join(line.split())}"
        else:
            name = ""
    return fields


def _from_first_lines(lines: Sequence[str]) -> Metadata:
    """A title and "by" an author, if the first lines are those."""
    if not lines:
        return Metadata()
    found = _BRACKETED.fullmatch(lines[0])
    if found:
        return Metadata(found["title"], (found["author"],), year=found["year"] or "")
    for at, line in enumerate(lines[1:4], 1):
        by = _BY.fullmatch(line)
        if by and all(len(before) <= 80 for before in lines[:at]):
            return Metadata(" ".join(lines[:at]), (by[1],))
        if line.lower() in {"by", "par", "von", "por"} and at + 1 < len(lines):
            return (
                Metadata(" ".join(lines[:at]), (lines[at + 1],))
                if len(lines[0]) <= 80
                else Metadata()
            )
    return Metadata()
