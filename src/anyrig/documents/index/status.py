"""What an index holds, for people and programs."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from anyrig.documents.index import rows, schema
from anyrig.documents.index.database import BESIDE, ENDING, is_locked, translated
from anyrig.results import in_json


@dataclass(frozen=True)
class Trouble:
    """A file that could not be read."""

    file: Path
    error: str
    hint: str


class IndexedFolder(NamedTuple):
    path: Path
    files: int


@dataclass(frozen=True)
class Status:
    """An index."""

    name: str = field(metadata=in_json("index"))
    path: Path
    model: str
    dimension: int
    roots: tuple[IndexedFolder, ...] = field(metadata=in_json("folders"))
    excluded: tuple[Path, ...]
    num_files: int = field(metadata=in_json("files"))
    num_passages: int = field(metadata=in_json("passages"))
    num_texts: int = field(metadata=in_json("texts"))
    num_vectors: int = field(metadata=in_json("vectors"))
    num_ocr: int = field(metadata=in_json("ocr_pages"))
    """Pages that were read off pictures."""
    formats: dict[str, int] = field(metadata=in_json("types"))
    languages: dict[str, int]
    troubles: tuple[Trouble, ...] = field(metadata=in_json("failed"))
    size_bytes: int
    num_pending: int = field(metadata=in_json("pending"))
    """Files that the last run has found and not finished: a file is added when it is complete."""
    indexing: bool
    """Whether a process is at work on it; otherwise a run with pending files was interrupted."""


def status(path: Path) -> Status:
    """What the index of a file holds."""
    with translated(path):
        connection = schema.connect_to_read(path)
        try:
            connection.execute("BEGIN")
            return _told(connection, path)
        finally:
            connection.close()


def _told(connection: sqlite3.Connection, path: Path) -> Status:
    _, model, dimension = rows.model(connection)
    files = list(rows.known(connection).values())
    read = [one.stamp.path for one in files if one.content is not None]
    roots = [
        IndexedFolder(_path(root), sum(rows.is_under(one, [root]) for one in read))
        for root in rows.roots(connection)
    ]
    beside = [path, *(Path(f"{path}{end}") for end in (*BESIDE, "-wal"))]
    return Status(
        path.name.removesuffix(ENDING), path, model, dimension, tuple(roots),
        tuple(map(_path, rows.excluded(connection))), len(read),
        _one(connection, "SELECT count(*) FROM passages"),
        _one(connection, "SELECT count(*) FROM texts"),
        _one(connection, "SELECT count(*) FROM texts WHERE id IN (SELECT text FROM vectors)"),
        _one(connection, "SELECT coalesce(sum(num_ocr), 0) FROM contents"),
        _counted(connection, "format"), _counted(connection, "language"),
        tuple(Trouble(one.stamp.file, one.error, one.hint) for one in files if one.error),
        sum(file.stat().st_size for file in beside if file.exists()),
        rows.count_pending(connection), is_locked(path),
    )  # fmt: skip


def _one(connection: sqlite3.Connection, query: str) -> int:
    ((value,),) = connection.execute(query).fetchall()
    return int(value)


def _counted(connection: sqlite3.Connection, column: str) -> dict[str, int]:
    found = connection.execute(
        f"SELECT {column}, count(*) FROM files JOIN contents ON contents.id = files.content "
        "GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return {name or "unknown": count for name, count in found}


def _path(path: bytes) -> Path:
    return Path(os.fsdecode(path))
