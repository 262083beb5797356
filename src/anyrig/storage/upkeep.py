"""Looking after the whole store: what it takes, what would go, every row, room given back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from anyrig.storage import room, rows
from anyrig.storage.database import Database
from anyrig.storage.protocol import KindSize, Pruned, Size, Tell

_PAGES = 2000  # given back in one transaction: 8 MB, some 20 ms


def measure(connection: sqlite3.Connection, path: Path, limit_bytes: int) -> Size:
    """What the store holds and takes."""
    ask = connection.execute
    kinds = tuple(
        KindSize(*row)
        for row in ask(
            "SELECT kind, count(*), sum(size), max(used) FROM results GROUP BY kind ORDER BY kind"
        ).fetchall()
    )
    ((held,),) = ask("SELECT count(DISTINCT result) FROM held").fetchall()
    engines = ask("SELECT DISTINCT engine FROM results WHERE engine != '' ORDER BY engine")
    files = (path, Path(f"{path}-wal"), Path(f"{path}-journal"))
    return Size(
        num_results=sum(row.num_results for row in kinds),
        used_bytes=room.used_bytes(connection),
        file_bytes=sum(file.stat().st_size for file in files if file.exists()),
        limit_bytes=limit_bytes,
        kinds=kinds,
        engines=tuple(name for (name,) in engines.fetchall()),
        num_held=held,
        jobs=tuple(job for (job,) in ask("SELECT job FROM jobs ORDER BY job").fetchall()),
        counters=dict(ask("SELECT name, value FROM counters ORDER BY name").fetchall()),
    )


def plan(connection: sqlite3.Connection, chosen: room.Selection, to_bytes: int) -> Pruned:
    """What a prune would drop, and how many it would have to leave to jobs."""
    over = room.excess(connection, chosen, to_bytes)
    found = room.oldest(connection, chosen, over, step=False)
    where, values = room.Selection(
        chosen.kind, chosen.engine, chosen.used_before, held=True
    ).where()
    ((held,),) = connection.execute(
        f"SELECT count(*) FROM results WHERE {where} AND id IN (SELECT result FROM held)", values
    ).fetchall()
    return Pruned(len(found), sum(size for _, size in found), 0 if chosen.held else held)


def every(database: Database, kind: str | None, tell: Tell | None) -> Iterator[rows.Row]:
    """Every row that is still there when its turn comes, in the order of keeping."""
    where, values = room.Selection(kind, held=True).where()
    numbers = database.read(
        lambda connection: connection.execute(
            f"SELECT id FROM results WHERE {where} ORDER BY id", values
        ).fetchall()
    )
    for done, (number,) in enumerate(numbers, 1):
        row = database.read(partial(rows.by_number, number=number))
        if row is not None:
            yield row
        if tell:
            tell(done, len(numbers))


def shrink(database: Database) -> None:
    """Give free pages back to the disk, a few at a time, and fold the log into the file."""
    while database.read(_num_free):
        before = database.read(_num_free)
        database.maintain(f"PRAGMA incremental_vacuum({_PAGES})")
        if database.read(_num_free) >= before:
            break  # another process fills them as we go
    database.maintain("PRAGMA wal_checkpoint(TRUNCATE)")


def _num_free(connection: sqlite3.Connection) -> int:
    ((free,),) = connection.execute("PRAGMA freelist_count").fetchall()
    return int(free)
