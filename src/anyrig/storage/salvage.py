"""What is whole in a damaged database, read page by page without SQLite.

SQLite finds a row by a path of pages that begins in the first one, so one lost page on the path
takes all rows beneath it along, and a file without its beginning is none at all. But every page of
rows says by itself what it holds. So we look at each page of the file, take the rows on it that are
formed as ours are, follow their data from page to page, and believe what fits its SHA-256. Pages
that SQLite marked as free are left out: what was dropped stays dropped. A log beside the file
counts as part of it. Nothing is written, neither to the file nor beside it.

The form of pages, rows and logs is told on SQLite's page "Database File Format".
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

from anyrig.storage.protocol import Result
from anyrig.storage.rows import LARGEST_BYTES, Row
from anyrig.storage.schema import OURS, PAGE

MAGIC = b"SQLite format 3\0"
_LEAF = 0x0D  # the first byte of a page that holds rows of a table
_NUM_COLUMNS, _NUM_DATA_COLUMNS = 9, 2
_LOG_HEAD, _FRAME_HEAD = 32, 24
_WIDTHS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
_WRONG = (ValueError, IndexError, struct.error)

Value = bytes | str | float | None


class _Cell(NamedTuple):
    """Where a row lies."""

    page: int
    offset: int


class Damaged:
    """A database to be read page by page, to be used as a context manager."""

    def __init__(self, path: Path) -> None:
        self._files = ExitStack()
        self._file: BinaryIO = self._files.enter_context(path.open("rb"))
        self._num_pages = os.fstat(self._file.fileno()).st_size // PAGE
        self._log: BinaryIO | None = None
        self._logged: dict[int, int] = {}
        log = Path(f"{path}-wal")
        if log.is_file():
            self._log = self._files.enter_context(log.open("rb"))
            self._logged = _logged(self._log)
        first = self._page(1)
        headed = first.startswith(MAGIC) and first[68:72] == OURS.to_bytes(4, "big")
        self.version: int = struct.unpack_from(">I", first, 60)[0] if headed else 0
        self._usable = PAGE - (first[20] if headed else 0)
        self._free = self._freed(first) if headed else set()
        self._rows: dict[str, list[Row]] = {}
        self._data: dict[int, list[_Cell]] = {}

    def __enter__(self) -> Damaged:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._files.close()

    def look(self) -> int:
        """Go through all pages; how many results there are traces of."""
        for number in range(2, max(self._num_pages, *self._logged, 0) + 1):
            page = self._page(number)
            if page[:1] == bytes([_LEAF]) and number not in self._free:
                self._take(number, page)
        return len(self._rows) + len(self._orphans())

    def results(self) -> Iterator[Result | None]:
        """Each result in the order of keeping, None for one that is not whole; after `look`."""
        for found in sorted(self._rows.values(), key=lambda rows: rows[0].number):
            # A page that was given up may hold an older take: the newest that is whole counts.
            newest = sorted(set(found), key=lambda row: row.made, reverse=True)
            yield next(filter(None, (self._whole(row) for row in newest)), None)
        yield from (None for _ in self._orphans())

    def _orphans(self) -> set[int]:
        """Data whose rows are lost."""
        return set(self._data) - {row.number for rows in self._rows.values() for row in rows}

    def _whole(self, row: Row) -> Result | None:
        for cell in self._data.get(row.number, ()):
            try:
                _, values = self._record(self._page(cell.page), cell.offset)
                data = values[1]
                result = row._replace(data=data).result if isinstance(data, bytes) else None
            except _WRONG:
                continue
            if result:
                return result
        return None

    # -- pages -------------------------------------------------------------------------------------

    def _page(self, number: int) -> bytes:
        """A page, empty where it is not there."""
        if self._log and number in self._logged:
            return _read(self._log, self._logged[number])
        return _read(self._file, (number - 1) * PAGE) if 0 < number <= self._num_pages else b""

    def _freed(self, first: bytes) -> set[int]:
        """The pages that SQLite gave up, as far as their list can be followed."""
        free: set[int] = set()
        (trunk,) = struct.unpack_from(">I", first, 32)
        while trunk and trunk not in free and (page := self._page(trunk)):
            free.add(trunk)
            trunk, count = struct.unpack_from(">II", page)
            free.update(struct.unpack_from(f">{min(count, PAGE // 4 - 2)}I", page, 8))
        return free

    def _take(self, number: int, page: bytes) -> None:
        (count,) = struct.unpack_from(">H", page, 3)
        for index in range(min(count, PAGE // 2 - 4)):
            (offset,) = struct.unpack_from(">H", page, 8 + 2 * index)
            try:
                if self._is_data(page, offset):
                    _, at = _varint(page, offset)
                    self._data.setdefault(_varint(page, at)[0], []).append(_Cell(number, offset))
                elif row := _row(*self._record(page, offset)):
                    self._rows.setdefault(row.key, []).append(row)
            except _WRONG:
                continue  # a row that is not whole

    def _is_data(self, page: bytes, offset: int) -> bool:
        """Whether a cell is a row of data; its bytes, which may be many, are not read for that."""
        types = _types(page, _varint(page, _varint(page, offset)[1])[1])
        return len(types) == _NUM_DATA_COLUMNS and types[0] == 0 and _is_blob(types[1])

    def _record(self, page: bytes, offset: int) -> tuple[int, list[Value]]:
        """The number and the values of the row at a place."""
        size, offset = _varint(page, offset)
        number, offset = _varint(page, offset)
        if size > LARGEST_BYTES + PAGE:
            raise ValueError("too large to be ours")
        local = self._local(size)
        parts = [page[offset : offset + local]]
        missing = size - len(parts[0])
        (following,) = struct.unpack_from(">I", page, offset + local) if missing else (0,)
        while missing > 0:
            page = self._page(following)
            (following,) = struct.unpack_from(">I", page)
            parts.append(page[4 : min(self._usable, 4 + missing)])
            missing -= len(parts[-1])
        return number, list(_values(b"".join(parts)))

    def _local(self, size: int) -> int:
        """How much of a row stands on its own page; the rest is on pages of its own."""
        most = self._usable - 35
        if size <= most:
            return size
        least = (self._usable - 12) * 32 // 255 - 23
        kept = least + (size - least) % (self._usable - 4)
        return kept if kept <= most else least


def _logged(log: BinaryIO) -> dict[int, int]:
    """Where the last version of each page lies in a log; of finished transactions alone."""
    places: dict[int, int] = {}
    waiting: dict[int, int] = {}
    salts = log.read(_LOG_HEAD)[16:24]
    at = _LOG_HEAD
    while len(head := log.read(_FRAME_HEAD)) == _FRAME_HEAD and head[8:16] == salts:
        number, commit = struct.unpack_from(">II", head)
        waiting[number] = at + _FRAME_HEAD
        at = log.seek(at + _FRAME_HEAD + PAGE)
        if commit:
            places.update(waiting)
            waiting.clear()
    return places


def _read(file: BinaryIO, offset: int) -> bytes:
    file.seek(offset)
    page = file.read(PAGE)
    return page if len(page) == PAGE else b""


def _row(number: int, values: list[Value]) -> Row | None:
    """A row of the table `results`, without its data."""
    if len(values) != _NUM_COLUMNS:
        return None
    _, key, kind, _, _, made, _, digest, note = values
    texts = isinstance(key, str) and isinstance(kind, str) and isinstance(note, str)
    if not texts or not isinstance(made, (int, float)) or not isinstance(digest, bytes):
        return None
    return Row(number, str(key), str(kind), str(note), digest, made, None)


def _types(data: bytes, start: int) -> list[int]:
    """What the head of a record says of its columns."""
    size, at = _varint(data, start)
    types = []
    while at < start + size:
        kind, at = _varint(data, at)
        types.append(kind)
    return types


def _values(record: bytes) -> Iterator[Value]:
    at, _ = _varint(record, 0)
    for kind in _types(record, 0):
        width = _WIDTHS[kind] if kind in _WIDTHS else (kind - 12) // 2
        part = record[at : at + width]
        if width < 0 or len(part) != width:
            raise ValueError("the record is cut off")
        at += width
        if kind in (0, 7):
            yield struct.unpack(">d", part)[0] if kind else None
        elif kind in _WIDTHS:
            yield kind - 8 if kind in (8, 9) else int.from_bytes(part, "big", signed=True)
        else:
            yield part if _is_blob(kind) else part.decode()


def _is_blob(kind: int) -> bool:
    return kind >= 12 and kind % 2 == 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where the next thing begins."""
    value = 0
    for index in range(8):
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    return value << 8 | data[at + 8], at + 9
