"""A result as it lies in the file: its columns, its checksum, what may be kept at all."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.storage.key import canonical
from anyrig.storage.protocol import Entry, Result

LARGEST_BYTES = 512 << 20  # SQLite itself ends at 1 GB
_ASK = 500  # old builds of SQLite take 999 values a statement
_KEY = re.compile(r"[!-~]{1,200}")
_KIND = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_SELECT = (
    "SELECT id, key, kind, note, digest, made, bytes FROM results LEFT JOIN data USING (id) WHERE "
)


class Row(NamedTuple):
    """A result as it was read."""

    number: int
    key: str
    kind: str
    note: str
    digest: bytes
    made: float
    data: bytes | None
    """None where the row has lost its data."""

    @property
    def result(self) -> Result | None:
        """The result; None where it is not what was kept."""
        if self.data is None or self.digest != _digest(self.key, self.kind, self.note, self.data):
            return None
        return Result(self.key, self.kind, self.data, json.loads(self.note), self.made)


class Written(NamedTuple):
    """A result as it is written."""

    key: str
    kind: str
    engine: str
    note: str
    digest: bytes
    data: bytes


def by_keys(connection: sqlite3.Connection, keys: Sequence[str]) -> list[Row]:
    """The rows of some keys."""
    return [
        Row(*row)
        for part in parts(keys)
        for row in connection.execute(f"{_SELECT} key IN ({_marks(part)})", part).fetchall()
    ]


def by_number(connection: sqlite3.Connection, number: int) -> Row | None:
    """The row of a number, unless it has gone."""
    rows = connection.execute(f"{_SELECT} id = ?", (number,)).fetchall()
    return Row(*rows[0]) if rows else None


def there(connection: sqlite3.Connection, keys: Sequence[str]) -> list[str]:
    """Those of the keys that have a row."""
    return [
        key
        for part in parts(keys)
        for (key,) in connection.execute(
            f"SELECT key FROM results WHERE key IN ({_marks(part)})", part
        ).fetchall()
    ]


def made_elsewhere(connection: sqlite3.Connection) -> list[tuple[str, int, str, int]]:
    """What workers of a cluster made: the worker, the row's number, its key and its size."""
    found = []
    asked = connection.execute(
        "SELECT id, key, size, note FROM results WHERE instr(note, '\"from\"') ORDER BY id"
    )
    for number, key, size, note in asked.fetchall():
        try:
            maker = json.loads(note).get("from")
        except (ValueError, AttributeError):  # damaged: it is dropped when it is read
            continue
        if isinstance(maker, str):
            found.append((maker, number, key, size))
    return found


def insert(connection: sqlite3.Connection, row: Written, now: float) -> int | None:
    """Keep a row and answer its number; None where its key is kept already."""
    cursor = connection.execute(
        "INSERT OR IGNORE INTO results (key, kind, engine, size, made, used, digest, note)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (row.key, row.kind, row.engine, len(row.data), now, now, row.digest, row.note),
    )
    if cursor.rowcount < 1:
        return None
    connection.execute("INSERT OR REPLACE INTO data VALUES (?, ?)", (cursor.lastrowid, row.data))
    return cursor.lastrowid


def delete(connection: sqlite3.Connection, key: str) -> bool:
    """Let a row go; whether there was one."""
    return connection.execute("DELETE FROM results WHERE key = ?", (key,)).rowcount > 0


def delete_same(connection: sqlite3.Connection, row: Row) -> None:
    """Let a row go, unless its key has another one by now."""
    connection.execute(
        "DELETE FROM results WHERE id = ? AND key = ? AND digest = ?",
        (row.number, row.key, row.digest),
    )


def erase(connection: sqlite3.Connection, key: str) -> bool:
    """Delete and write over: what a limit evicts is only let go, as zeroes cost as much as data."""
    ((before,),) = connection.execute("PRAGMA secure_delete").fetchall()
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    try:
        return delete(connection, key)
    finally:
        connection.execute(f"PRAGMA secure_delete = {before}").fetchall()


def written(entry: Entry) -> Written:
    """An entry with its checksum; what cannot be kept is refused."""
    if not _KEY.fullmatch(entry.key):
        raise InvalidInputError(
            f"{entry.key[:80]!r} cannot be a key", hint="Make one with `anyrig.storage.key.key`."
        )
    if not _KIND.fullmatch(entry.kind):
        raise InvalidInputError(
            f"{entry.kind[:80]!r} cannot be a kind",
            hint="A kind is a word in small letters, such as `speech`.",
        )
    # Not left to bytes(): that makes zeroes of a number and fails on text without our hint.
    if not isinstance(entry.data, (bytes, bytearray, memoryview)):
        raise InvalidInputError(
            f"data is {type(entry.data).__name__}, not bytes",
            hint="Encode text with `.encode()`, an array with `.tobytes()`.",
        )
    data = bytes(entry.data)
    if len(data) > LARGEST_BYTES:
        raise InvalidInputError(
            f"a result of {len(data) >> 20} MiB is too large to keep",
            hint=f"Keep it in parts of at most {LARGEST_BYTES >> 20} MiB.",
        )
    # Escaped, as SQLite's text has no place for a lone surrogate.
    note = json.dumps(json.loads(canonical(entry.note)))
    engine = str(entry.note.get("engine", "")).encode("utf-8", "replace").decode()
    return Written(
        entry.key, entry.kind, engine, note, _digest(entry.key, entry.kind, note, data), data
    )


def parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """The keys in groups that one statement takes."""
    for start in range(0, len(keys), _ASK):
        yield keys[start : start + _ASK]


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _digest(key: str, kind: str, note: str, data: bytes) -> bytes:
    """Over everything: a row that points at another's data is found out as well."""
    found = hashlib.sha256(f"{key}\n{kind}\n{note}\n".encode("utf-8", "replace"))
    found.update(data)
    return found.digest()
