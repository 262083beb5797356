"""Tables in text: comma, semicolon, tab or bar between cells, found from the rows themselves.

Python's own guesser is not asked: its patterns take minutes on a file that was made for it, and it
takes a letter for a separator. A long table is cut into pages of rows, each with the header.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.text.decode import decode
from anyrig.text.document import Block, Chapter, Document, Metadata
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.plain import build_empty_error, read_content

ROWS = 1_000
"""Of a page, where a table is longer."""
_MARKS = ",;\t|"
_SAMPLE_ROWS = 200
_SAMPLE_LETTERS = 200_000
_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s*\d[\d.,\s'’_]*(?:[eE][-+]?\d+)?\s*[%€$£¥)]?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ]\d{1,2}:\d\d.*)?|\d{1,2}:\d\d(?::\d\d)?")


class Dialect(NamedTuple):
    """How cells are parted."""

    mark: str
    start: int = 0
    """Where the rows begin: after a line `sep=;`, as spreadsheets write it."""


def read(path: Path, limits: Limits) -> Document:
    """A table as a document: pages of rows, cells parted by tabs."""
    text = decode(read_content(path, limits), path.name).lstrip("\ufeff").replace("\x00", "")
    rows = read_rows(text, detect_dialect(text, path.suffix), path.name, limits)
    if not rows:
        raise build_empty_error(path.name)
    return Document(Metadata(), tuple(cut_rows(rows)), format="csv")


def detect_dialect(text: str, suffix: str = "") -> Dialect:
    """How the cells of a table are parted.

    Args:
        text: all of it.
        suffix: of the file's name; `.tsv` settles a draw.
    """
    declared = re.match(r"sep=(.)\r?\n", text)
    if declared:
        return Dialect(declared[1], declared.end())
    sample = text[:_SAMPLE_LETTERS]
    marks = "\t" + _MARKS if suffix.lower() in (".tsv", ".tab") else _MARKS
    scores = {mark: _score(sample, mark) for mark in marks}
    best = max(scores, key=scores.__getitem__)
    return Dialect(best if scores[best] > 0 else marks[0])


def _score(sample: str, mark: str) -> float:
    """How well rows agree on their number of cells, when they are parted so."""
    if mark not in sample:
        return 0.0
    widths: Counter[int] = Counter()
    try:
        for row in islice(_reader(sample, mark), _SAMPLE_ROWS):
            if row:
                widths[len(row)] += 1
    except csv.Error:
        return 0.0
    width, times = max(widths.items(), key=lambda one: (one[1], one[0]), default=(1, 0))
    if width < 2:
        return 0.0
    return times / sum(widths.values()) + 0.02 * min(width, 20)


def read_rows(text: str, dialect: Dialect, name: str, limits: Limits) -> list[list[str]]:
    """The rows, blank ones left out, each cell on one line."""
    rows: list[list[str]] = []
    num_cells = 0
    before = csv.field_size_limit(max(len(text), 1))
    try:
        for row in _reader(text[dialect.start :], dialect.mark):
            cells = [" ".join(cell.split()) for cell in row]
            num_cells += len(cells)
            if num_cells > limits.cells:
                raise LimitExceededError(
                    f"{name} has more than {limits.cells:,} cells", hint="Split it.", limit="cells"
                )
            while cells and not cells[-1]:
                cells.pop()  # a spreadsheet ends each row with empty ones
            if cells:
                rows.append(cells)
    except csv.Error as error:
        raise InvalidInputError(
            f"{name} is not a valid table: {error}", hint="Save it again as CSV in UTF-8."
        ) from error
    finally:
        csv.field_size_limit(before)
    return rows


def _reader(text: str, mark: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=mark, skipinitialspace=True)


def has_header(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns: words over numbers, or none of it said again."""
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    head = rows[0]
    below = rows[1 : 1 + min(_SAMPLE_ROWS, _SAMPLE_LETTERS // len(head))]
    if any(not cell or _is_value(cell) for cell in head) or len(set(head)) < len(head):
        return False
    columns = [[row[at] for row in below if at < len(row) and row[at]] for at in range(len(head))]
    if any(column and all(map(_is_value, column)) for column in columns):
        return True
    seen = sum(name in column for name, column in zip(head, columns, strict=True))
    return seen == 0 and sum(map(len, head)) / len(head) <= 30


def _is_value(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell))


def cut_rows(rows: list[list[str]], name: str = "") -> Iterator[Chapter]:
    """Pages of rows; counted as a person counts them, without the header.

    Args:
        rows: of one table.
        name: of the sheet, for the titles.
    """
    if not rows:
        return
    if len(rows) <= ROWS + 1:
        yield Chapter(name, (Block(_table(rows), "table"),))
        return
    head = rows[:1] if has_header(rows) else []
    body = rows[len(head) :]
    for start in range(0, len(body), ROWS):
        part = body[start : start + ROWS]
        title = f"{name}, " if name else ""
        title += f"rows {start + 1}-{start + len(part)}"
        yield Chapter(title, (Block(_table([*head, *part]), "table"),))


def _table(rows: Iterable[list[str]]) -> str:
    return "\n".join("\t".join(row) for row in rows)
