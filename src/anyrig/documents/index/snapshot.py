"""An index as a searcher holds it in memory: vectors, which text stands in which files, filters.

It is made from one state of the file and never changed; when the file has changed another is made,
and of the vectors only the new ones are read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np  # noqa: TID253 - arrays are all that is here

from anyrig.documents.index import nearest, rows
from anyrig.documents.index.database import get

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Rows = NDArray[np.int64]
    Mask = NDArray[np.bool_]

GRAPH = ".hnsw"


class FileRow(NamedTuple):
    """A file that can be found."""

    path: bytes
    content: int
    modified: float
    """In seconds since 1970."""
    format: str
    language: str


@dataclass(frozen=True)
class Filters:
    """Which files may be found; what is not given lets all through."""

    folders: tuple[bytes, ...] = ()
    types: tuple[str, ...] = ()
    """Formats or endings of names: pdf, docx, eml."""
    after: float | None = None
    """Changed at or after, in seconds since 1970."""
    before: float | None = None
    """Changed before."""
    languages: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        """Whether anything is asked for."""
        return self != Filters()

    def lets(self, file: FileRow) -> bool:
        """Whether a file may be found."""
        if self.folders and not rows.is_under(file.path, self.folders):
            return False
        if self.after is not None and file.modified < self.after:
            return False
        if self.before is not None and file.modified >= self.before:
            return False
        if self.languages and file.language not in self.languages:
            return False
        ending = os.path.splitext(os.fsdecode(file.path))[1].lstrip(".").lower()
        return not self.types or file.format in self.types or ending in self.types


@dataclass(frozen=True)
class Snapshot:
    """What a search stands on."""

    changed: str
    """Which state of the file it is."""
    removed: str
    fingerprint: str
    model: str
    dimension: int
    ids: Rows
    """The text of each vector: of row `i` of the matrix."""
    vectors: nearest.Nearest
    num_texts: int
    texts: Rows
    """The text of each passage, sorted."""
    contents: Rows
    """The content of each passage."""
    files: Mapping[int, tuple[FileRow, ...]] = field(repr=False, default_factory=dict)
    """By content, in the order of their paths."""
    matrix: Matrix | None = field(repr=False, default=None)
    """All vectors, where they are held as one."""
    note: str = ""
    """What a person should know of how it searches."""
    counted: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    """How many texts words stand in, as far as they were asked for."""

    @property
    def num_lacking(self) -> int:
        """Texts that have no vector yet."""
        return self.num_texts - len(self.ids)

    def allowed_contents(self, filters: Filters) -> set[int]:
        """Contents with a file that the filters let through."""
        return {content for content, files in self.files.items() if any(map(filters.lets, files))}

    def allowed_texts(self, contents: set[int]) -> Rows:
        """The texts of some contents, sorted."""
        most = int(self.contents.max(initial=0)) + 1
        wanted = np.zeros(most, np.bool_)
        wanted[[one for one in contents if one < most]] = True
        return np.unique(self.texts[wanted[self.contents]])

    def allowed_rows(self, texts: Rows) -> Mask:
        """Which rows of the vectors are of these texts."""
        found: Mask = np.isin(self.ids, texts, assume_unique=True)
        return found


def taken(
    connection: sqlite3.Connection,
    path: Path,
    before: Snapshot | None = None,
    *,
    threshold: int = nearest.THRESHOLD,
    gpu: bool = False,
    vectors: bool = True,
) -> Snapshot:
    """The present state of an index; the caller's transaction holds it still.

    Args:
        connection: to read.
        path: of the index, beside which its graph lies.
        before: an older state, whose vectors need not be read again.
        threshold: vectors above which a graph is used.
        gpu: whether a GPU may be opened for it.
        vectors: False where only words are searched.
    """
    fingerprint, model, dimension = rows.model(connection)
    pairs = _array(connection, "SELECT text, content FROM passages ORDER BY text", 2)
    removed = get(connection, "removed")
    ((num_texts,),) = connection.execute("SELECT count(*) FROM texts").fetchall()
    ids, found, matrix, note = np.zeros(0, np.int64), _nothing(dimension), None, ""
    if vectors and dimension:
        known = before if _same_vectors(before, fingerprint, removed) else None
        ids, found, matrix, note = _vectors(
            connection, path, known, fingerprint, dimension, threshold, gpu
        )
    return Snapshot(
        get(connection, "changed"), removed, fingerprint, model, dimension, ids, found, num_texts,
        pairs[:, 0], pairs[:, 1], _files(connection), matrix, note,
    )  # fmt: skip


def _same_vectors(before: Snapshot | None, fingerprint: str, removed: str) -> bool:
    return (
        before is not None
        and before.matrix is not None
        and before.fingerprint == fingerprint
        and before.removed == removed
    )


def _vectors(
    connection: sqlite3.Connection,
    path: Path,
    before: Snapshot | None,
    fingerprint: str,
    dimension: int,
    threshold: int,
    gpu: bool,
) -> tuple[Rows, nearest.Nearest, Matrix | None, str]:
    ((count,),) = connection.execute("SELECT count(*) FROM texts").fetchall()
    note = ""
    if count > threshold:
        graph = nearest.load(path.with_name(f"{path.name}{GRAPH}"))
        if graph is not None and graph.fingerprint == fingerprint:
            return (*_with_graph(connection, graph, dimension), None, "")
        why = "has no graph yet" if nearest.has_faiss() else "FAISS is not installed"
        note = f"{count:,} passages are searched one by one: {why}"
    ids, matrix = _matrix(connection, dimension, before)
    exact = nearest.Exact(matrix)
    return ids, nearest.on_gpu(exact) if gpu else exact, matrix, note


def _with_graph(
    connection: sqlite3.Connection, graph: nearest.Graph, dimension: int
) -> tuple[Rows, nearest.Nearest]:
    present = text_ids(connection)
    there = np.isin(graph.ids, present)
    lacking = np.setdiff1d(present, graph.ids)
    tail = matrix_of(connection, lacking, dimension)
    return np.concatenate([graph.ids, lacking]), nearest.Hnsw(graph, there, tail)


def text_ids(connection: sqlite3.Connection) -> Rows:
    """The texts that have vectors, sorted."""
    found = _array(
        connection, "SELECT text FROM vectors JOIN texts ON texts.id = vectors.text ORDER BY 1", 1
    )
    return found[:, 0]


def matrix_of(connection: sqlite3.Connection, texts: Rows, dimension: int) -> Matrix:
    """The vectors of some texts as rows; of one that is gone meanwhile, a row that is near none."""
    found = np.empty((len(texts), dimension), np.float32)
    for place, text in enumerate(texts.tolist()):
        row = connection.execute("SELECT data FROM vectors WHERE text = ?", (text,)).fetchone()
        found[place] = 0 if row is None else np.frombuffer(row[0], np.float32)
    return found


def _matrix(
    connection: sqlite3.Connection, dimension: int, before: Snapshot | None
) -> tuple[Rows, Matrix]:
    """All vectors; of those that are at hand already only the later ones are read."""
    after = int(before.ids[-1]) if before is not None and len(before.ids) else 0
    new = connection.execute(
        "SELECT text, data FROM vectors WHERE text > ? ORDER BY text", (after,)
    ).fetchall()
    ids = np.array([text for text, _ in new], np.int64)
    data = b"".join(data for _, data in new)
    matrix = np.frombuffer(data, np.float32).reshape(len(new), dimension)
    if before is None or before.matrix is None or not after:
        return ids, matrix
    if not len(new):
        return before.ids, before.matrix
    return np.concatenate([before.ids, ids]), np.concatenate([before.matrix, matrix])


def _nothing(dimension: int) -> nearest.Nearest:
    return nearest.Exact(np.zeros((0, dimension), np.float32))


def _array(connection: sqlite3.Connection, query: str, columns: int) -> Rows:
    found = connection.execute(query).fetchall()
    return np.array(found, np.int64).reshape(len(found), columns)


def _files(connection: sqlite3.Connection) -> dict[int, tuple[FileRow, ...]]:
    found: dict[int, list[FileRow]] = {}
    for path, content, mtime_ns, format, language in connection.execute(
        "SELECT path, content, mtime_ns, format, language FROM files "
        "JOIN contents ON contents.id = files.content ORDER BY path"
    ):
        file = FileRow(path, content, mtime_ns / 1e9, format, language)
        found.setdefault(content, []).append(file)
    return {content: tuple(files) for content, files in found.items()}
