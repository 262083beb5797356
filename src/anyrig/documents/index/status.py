"""What an index holds, for people and programs."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from anyrig.documents.index import db
from anyrig.documents.index.db import EXTRA_FILES, SUFFIX, UnreadFile, is_locked
from anyrig.results import in_json


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
    troubles: tuple[UnreadFile, ...] = field(metadata=in_json("failed"))
    size_bytes: int
    num_pending: int = field(metadata=in_json("pending"))
    """Files that the last run has found and not finished: a file is added when it is complete."""
    indexing: bool
    """Whether a process is at work on it; otherwise a run with pending files was interrupted."""


def read_status(path: Path) -> Status:
    """What the index of a file holds."""

    def work(connection: sqlite3.Connection) -> Status:
        _, model, dimension = db.read_model(connection)
        files = list(db.list_known(connection).values())
        read = [one.stamp.path for one in files if one.content is not None]
        roots = [
            IndexedFolder(_to_path(root), sum(db.is_under(one, [root]) for one in read))
            for root in db.list_roots(connection)
        ]
        beside = [path, *(Path(f"{path}{end}") for end in (*EXTRA_FILES, "-wal"))]
        num_passages = _get_number(connection, "SELECT count(*) FROM passages")
        return Status(
            path.name.removesuffix(SUFFIX), path, model, dimension, tuple(roots),
            tuple(map(_to_path, db.list_excluded(connection))), len(read),
            num_passages, num_passages,
            _get_number(connection, "SELECT count(*) FROM vectors"),
            _get_number(connection, "SELECT coalesce(sum(num_ocr), 0) FROM contents"),
            _count_files(connection, "format"), _count_files(connection, "language"),
            tuple(UnreadFile(one.stamp.file, one.error, one.hint) for one in files if one.error),
            sum(_get_size(file) for file in beside), db.count_pending(connection), is_locked(path),
        )  # fmt: skip

    return db.read_index(path, work)


def read_model_name(path: Path) -> str:
    """The name of the model that an index was made with; empty for none."""
    if not path.is_file():
        return ""
    return db.read_index(path, db.read_model)[1]


def _get_size(file: Path) -> int:
    """On the disk: the file of the vectors may have gaps."""
    try:
        state = file.stat()
    except OSError:
        return 0
    blocks = getattr(state, "st_blocks", None)
    return state.st_size if blocks is None else min(state.st_size, 512 * int(blocks))


def _get_number(connection: sqlite3.Connection, query: str) -> int:
    ((value,),) = connection.execute(query).fetchall()
    return int(value)


def _count_files(connection: sqlite3.Connection, column: str) -> dict[str, int]:
    found = connection.execute(
        f"SELECT {column}, count(*) FROM files JOIN contents ON contents.id = files.content "
        "GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return {name or "unknown": count for name, count in found}


def _to_path(path: bytes) -> Path:
    return Path(os.fsdecode(path))
