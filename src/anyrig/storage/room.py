"""Which results go when there is no room: the least recently used, never what a job needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

# One step drops this much at most, so that other processes get their turn in between.
_STEP_RESULTS = 1000
_STEP_BYTES = 64 << 20
# What a row takes beside its data: its key twice, digest, note, and the pages' own needs.
_BESIDE_BYTES = 400


@dataclass(frozen=True)
class Selection:
    """Some of the results."""

    kind: str | None = None
    engine: str | None = None
    used_before: float | None = None
    """Last used before this moment, in seconds since 1970."""
    before_id: int | None = None
    """Kept before the one with this number."""
    held: bool = False
    """Also those that unfinished jobs need."""

    @property
    def whole(self) -> bool:
        """Whether it is about the store and not about a part of it."""
        return self.kind is None and self.engine is None

    def where(self, *, all_ages: bool = False) -> tuple[str, list[object]]:
        """The condition in SQL, and its values."""
        pairs: list[tuple[str, object]] = [("kind = ?", self.kind), ("engine = ?", self.engine)]
        if not all_ages:
            pairs += [("used < ?", self.used_before), ("id < ?", self.before_id)]
        terms = [text for text, value in pairs if value is not None]
        if not all_ages and not self.held:
            terms.append("NOT EXISTS (SELECT 1 FROM held WHERE result = results.id)")
        return " AND ".join(terms) or "1", [value for _, value in pairs if value is not None]


def used_bytes(connection: sqlite3.Connection) -> int:
    """The bytes of all pages in use: what the store takes, free pages left out."""
    (((pages,),), ((free,),), ((page,),)) = (
        connection.execute(f"PRAGMA {name}").fetchall()
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * page)


def excess(connection: sqlite3.Connection, selection: Selection, to_bytes: int) -> int:
    """How far a selection is over a bound: pages for the whole store, data for a part of it."""
    if to_bytes <= 0:
        return 1 << 62
    if selection.whole:
        return used_bytes(connection) - to_bytes
    where, values = selection.where(all_ages=True)
    rows = connection.execute(f"SELECT total(size) FROM results WHERE {where}", values).fetchall()
    return int(rows[0][0]) - to_bytes


def oldest(
    connection: sqlite3.Connection, selection: Selection, over: int, *, step: bool = True
) -> list[tuple[int, int]]:
    """Number and size of the results that have to go, the least recently used first."""
    where, values = selection.where()
    found: list[tuple[int, int]] = []
    freed = 0
    # Left early: the rows are sorted by an index, so only those that are taken are read.
    cursor = connection.execute(
        f"SELECT id, size FROM results WHERE {where} ORDER BY used, id", values
    )
    for number, size in cursor:
        if freed >= over or (step and (len(found) >= _STEP_RESULTS or freed >= _STEP_BYTES)):
            break
        found.append((number, size))
        freed += size + (_BESIDE_BYTES if selection.whole else 0)
    cursor.close()
    return found


def drop(connection: sqlite3.Connection, rows: Sequence[tuple[int, int]]) -> None:
    """Drop results by number; a trigger takes their data along."""
    connection.executemany("DELETE FROM results WHERE id = ?", [(number,) for number, _ in rows])
