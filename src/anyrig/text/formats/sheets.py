"""Spreadsheets (xlsx, xls, ods): a chapter for each sheet, cut into pages of rows as CSV files are.

calamine holds a sheet as a rectangle, and copies a repeated text into each of its cells. So what a
sheet will take is counted from its XML first: one cell in the last row and column, or a row that
is repeated a million times, would fill any memory.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

from anyrig.errors import InvalidInputError, LimitExceededError, ProtectedFileError
from anyrig.text.document import Chapter, Document, Metadata
from anyrig.text.formats.csv import cut_rows
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.ole import MAGIC
from anyrig.text.formats.plain import build_empty_error
from anyrig.text.formats.zipped import ZipArchive, open_archive

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

_AGAIN = "Open it in Excel or LibreOffice and save it again, or save it as CSV."
_SPARSE = 2
"""Cells of a rectangle for each cell that may be filled: most sheets have empty ones."""
_SHARED = "xl/sharedStrings.xml"
_ROW = re.compile(rb"""<(?:\w+:)?row\b(?:[^<>]*?\br=["'](\d{1,9}))?""")
_CELL = re.compile(rb"""<(?:\w+:)?c\b(?:[^<>]*?\br=["']([A-Za-z]{1,3})\d{1,9}["'])?""")
_VALUE = re.compile(
    rb"""<(?:\w+:)?c\b([^<>]*)>\s*(?:<(?:\w+:)?f.{0,200}?</(?:\w+:)?f>\s*)?"""
    rb"""<(?:\w+:)?v>(\d{1,9})<"""
)
_PADDED = re.compile(rb"(<(?:\w+:)?v>)\s*([-+.\dEe]+)\s*(</)")
_IS_SHARED = re.compile(rb"""\bt=["']s["']""")
_REPEATED = re.compile(rb"""number-(?:rows|columns)-repeated=["'](\d{1,18})""")
_ODS_PART = re.compile(
    rb"<table:(table|table-row|table-cell|covered-table-cell)(?=[\s/>])([^<>]*)>"
)


def read(path: Path, limits: Limits) -> Document:
    from python_calamine import CalamineError, PasswordError

    form = _check_size(path, limits)
    try:
        try:
            chapters = _read_workbook(path, path, limits)
        except CalamineError as error:
            if form != "xlsx" or "Parse" not in str(error):
                raise
            chapters = _read_workbook(_strip_numbers(path, limits), path, limits)
    except PasswordError:
        raise ProtectedFileError(
            f"{path.name} is encrypted with a password",
            hint="Open it, remove the password, and save it again.",
        ) from None
    except (CalamineError, OSError, ValueError) as error:
        raise _invalid(path, error) from error
    except BaseException as error:
        # What PyO3 makes of a panic is no `Exception`.
        if type(error).__name__ != "PanicException":
            raise
        raise _invalid(path, error) from None
    if not chapters:
        raise build_empty_error(path.name)
    return Document(Metadata(), chapters, format=form)


def _read_workbook(source: Path | BytesIO, path: Path, limits: Limits) -> tuple[Chapter, ...]:
    from python_calamine import SheetTypeEnum, load_workbook

    with load_workbook(source) as book:
        names = [
            sheet.name for sheet in book.sheets_metadata if sheet.typ == SheetTypeEnum.WorkSheet
        ]
        return tuple(_read_sheets(book, names, path, limits))


def _strip_numbers(path: Path, limits: Limits) -> BytesIO:
    """The workbook without blanks around numbers, which Excel reads and calamine refuses."""
    stripped = BytesIO()
    with open_archive(path, limits) as archive, ZipFile(stripped, "w", ZIP_DEFLATED) as target:
        for name in archive.names:
            if not name.lower().endswith((".xml", ".rels")):
                continue  # pictures
            data = archive.read(name)
            if name.lower().startswith("xl/worksheets/"):
                data = _PADDED.sub(rb"\1\2\3", data)
            target.writestr(name, data)
    stripped.seek(0)
    return stripped


def _invalid(path: Path, error: BaseException) -> InvalidInputError:
    return InvalidInputError(f"{path.name} is not a valid spreadsheet: {error}", hint=_AGAIN)


def _read_sheets(
    book: CalamineWorkbook, names: list[str], path: Path, limits: Limits
) -> Iterator[Chapter]:
    num_cells = num_characters = 0
    for name in names:
        rows: list[list[str]] = []
        for values in book.get_sheet_by_name(name).iter_rows():
            cells = [_format(value) for value in values]
            while cells and not cells[-1]:
                cells.pop()
            if not cells:
                continue
            rows.append(cells)
            num_cells += len(cells)
            num_characters += sum(map(len, cells))
            if num_cells > limits.cells:
                raise _too_many_cells(path, limits)
            if num_characters > limits.characters:
                raise _too_much_text(path, limits)
        yield from cut_rows(rows, name)


def _format(value: object) -> str:
    """A cell as a person would type it: 3 for 3.0, dates as 2026-03-01."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M").removesuffix(" 00:00")
    return " ".join(str(value).split())


# -- what a sheet will take ------------------------------------------------------------------------


def _check_size(path: Path, limits: Limits) -> str:
    """The format; `LimitExceededError` if a sheet would take more memory than any honest one."""
    with path.open("rb") as file:
        if file.read(8) == MAGIC:
            return "xls"  # has at most 65,536 rows of 256 cells
    with open_archive(path, limits) as archive:
        if "content.xml" in archive:
            _check_ods(archive.read("content.xml"), path, limits)
            return "ods"
        _check_xlsx(archive, path, limits)
    return "xlsx"


def _check_xlsx(archive: ZipArchive, path: Path, limits: Limits) -> None:
    shared: list[int] = []
    if member := archive.find(_SHARED):
        shared = [len(part) for part in re.split(rb"</(?:\w+:)?si>", archive.read(member))]
    num_characters = 0
    for name in archive.names:
        if not name.lower().startswith("xl/worksheets/") or not name.lower().endswith(".xml"):
            continue
        data = archive.read(name)
        height, width = _measure_sheet(data)
        if height * width > _SPARSE * limits.cells:
            raise _too_many_cells(path, limits)
        for found in _VALUE.finditer(data):
            index = int(found[2])
            if index < len(shared) and _IS_SHARED.search(found[1]):
                num_characters += shared[index]
        # Tags are counted as well: a text of so many characters is not worth a closer look.
        if num_characters > 4 * limits.characters:
            raise _too_much_text(path, limits)


def _measure_sheet(data: bytes) -> tuple[int, int]:
    """The last row and the last column that a sheet names or counts up to."""
    last_row = width = 0
    start = 0
    for found in _ROW.finditer(data):
        width = max(width, _measure_row(data, start, found.start()))
        start = found.end()
        last_row = max(last_row + 1, int(found[1] or 0))
    return last_row, max(width, _measure_row(data, start, len(data)))


def _measure_row(data: bytes, start: int, end: int) -> int:
    column = most = 0
    for cell in _CELL.finditer(data, start, end):
        column = _number_column(cell[1]) if cell[1] else column + 1
        most = max(most, column)
    return most


def _number_column(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - 64
    return number


def _check_ods(data: bytes, path: Path, limits: Limits) -> None:
    """Repeated cells are counted up to the last that is not empty."""
    row = repeated = column = height = width = num_characters = 0
    parts = list(_ODS_PART.finditer(data))
    for at, part in enumerate(parts):
        name, attributes = part[1], part[2]
        found = _REPEATED.search(attributes)
        times = int(found[1]) if found else 1
        if name == b"table":
            row = repeated = height = width = 0
        elif name == b"table-row":
            row, repeated, column = row + repeated, times, 0
        else:
            column += times
            end = parts[at + 1].start() if at + 1 < len(parts) else len(data)
            length = 0 if attributes.endswith(b"/") else end - part.end()
            if length > len(b"</table:table-cell>") or b"value" in attributes:
                height, width = max(height, row + repeated), max(width, column)
                num_characters += length * times * repeated
        if height * width > _SPARSE * limits.cells:
            raise _too_many_cells(path, limits)
        if num_characters > 20 * limits.characters:  # of mark-up too
            raise _too_much_text(path, limits)


def _too_many_cells(path: Path, limits: Limits) -> LimitExceededError:
    return LimitExceededError(
        f"{path.name} has more than {limits.cells:,} cells", hint="Split it.", limit="cells"
    )


def _too_much_text(path: Path, limits: Limits) -> LimitExceededError:
    return LimitExceededError(
        f"{path.name} contains more than {limits.characters:,} characters of text",
        hint="Split it.",
        limit="characters",
    )
