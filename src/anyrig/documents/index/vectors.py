"""The vectors of an index in one file that searches map into memory: row `id - 1` is a passage's.

The file can be rebuilt from SQLite, which alone is the truth. Whoever writes it marks it as open
first and as complete at the end, so that one that a kill or a power failure left behind is not
trusted. Rows are written inside the transaction that they belong to: of all processes, only the one
that holds SQLite's lock for writing changes the file. A row whose passage is gone is zero.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np  # noqa: TID253 - arrays are all that is here

from anyrig.storage.files import open_atomic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.documents.model import EmbeddingModel

    Matrix = NDArray[np.float32]
    Ids = NDArray[np.int64]
    Mask = NDArray[np.bool_]

SUFFIX = ".vectors"
_MARK = b"anyrig vectors 1\n"
_HEADER_BYTES = 4096
_HEADER_KEYS = {"fingerprint", "dimension", "complete"}
_FEW = 0.1
"""Share of the rows below which a filter's rows are copied and multiplied alone."""
_ONE_THREAD = 1 << 26
"""Numbers that one thread multiplies: 170,000 rows of 384, about 20 ms."""
_BLOCK = 4096


def get_vector_file(index: Path) -> Path:
    """The file of the vectors of an index."""
    return index.with_name(f"{index.name}{SUFFIX}")


def normalize_rows(matrix: Matrix, model: EmbeddingModel) -> Matrix:
    """Vectors of length 1, whose products are cosines: not every model gives such."""
    matrix = np.ascontiguousarray(matrix, np.float32)
    if model.normalise:
        return matrix
    lengths = np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
    found: Matrix = (matrix / lengths).astype(np.float32)
    return found


def rebuild(connection: sqlite3.Connection, index: Path) -> None:
    """Write the file anew from what SQLite has; the caller's transaction holds it still."""
    fingerprint, dimension = _read_model(connection)
    with open_atomic(get_vector_file(index)) as file:
        file.write(_build_header(fingerprint, dimension, complete=True))
        file.flush()
        for ids, matrix in _read_blocks(connection, dimension):
            _write_rows(file.fileno(), ids, matrix)


class VectorWriter:
    """The file while an index is written; leaving the block without an error completes it."""

    def __init__(self, connection: sqlite3.Connection, index: Path) -> None:
        self._path = get_vector_file(index)
        fingerprint, dimension = _read_model(connection)
        header = _read_header(self._path)
        wanted = {"fingerprint": fingerprint, "dimension": dimension, "complete": True}
        if header != wanted:
            rebuild(connection, index)
        self._file = open(self._path, "r+b", buffering=0)  # noqa: SIM115 - closed by `close`
        self._header = (fingerprint, dimension)
        self._set_complete(False)

    def close(self, *, complete: bool) -> None:
        if complete:
            os.fsync(self._file.fileno())
            self._set_complete(True)
        self._file.close()

    def write(self, ids: Sequence[int], matrix: Matrix) -> None:
        """Set the rows of some passages."""
        _write_rows(self._file.fileno(), np.asarray(ids, np.int64), matrix)

    def _set_complete(self, complete: bool) -> None:
        self._file.seek(0)
        self._file.write(_build_header(*self._header, complete=complete))


def erase_rows(index: Path, ids: Iterable[int]) -> None:
    """Overwrite the rows of passages that are gone with zeroes."""
    gone = sorted(ids)
    path = get_vector_file(index)
    header = _read_header(path) if gone else None
    if header is None:
        return
    dimension = int(header["dimension"])
    num_rows = _count_rows(path, dimension)
    inside = np.asarray([one for one in gone if one <= num_rows], np.int64)
    if len(inside) and dimension:
        with open(path, "r+b", buffering=0) as file:
            for start in range(0, len(inside), _BLOCK):
                some = inside[start : start + _BLOCK]
                _write_rows(file.fileno(), some, np.zeros((len(some), dimension), np.float32))
            os.fsync(file.fileno())


def erase_unused_rows(connection: sqlite3.Connection, index: Path) -> None:
    """Zero what a removal that was killed has left. The caller's transaction must be able to write:
    else another process may be adding rows.
    """
    path = get_vector_file(index)
    header = _read_header(path)
    dimension = int(header["dimension"]) if header else 0
    num_rows = _count_rows(path, dimension) if dimension else 0
    if not num_rows:
        return
    used = np.zeros(num_rows, np.bool_)
    for (passage,) in connection.execute("SELECT passage FROM vectors"):
        if passage <= num_rows:
            used[passage - 1] = True
    matrix = _map_file(path, num_rows, dimension)
    unused = np.flatnonzero(~used)
    dirty = [
        some[matrix[some].any(axis=1)]
        for some in (unused[start : start + _BLOCK] for start in range(0, len(unused), _BLOCK))
    ]
    del matrix
    if dirty:
        erase_rows(index, (np.concatenate(dirty) + 1).tolist())


def open_matrix(connection: sqlite3.Connection, index: Path, *, writing: bool) -> Matrix:
    """All rows: mapped, or read from SQLite where the file is not to be trusted.

    Args:
        connection: to read.
        index: its file.
        writing: whether a process updates the index at present, so that the file is open.
    """
    fingerprint, dimension = _read_model(connection)
    path = get_vector_file(index)
    header = _read_header(path)
    if (
        header is not None
        and (header["complete"] or writing)
        and (header["fingerprint"], header["dimension"]) == (fingerprint, dimension)
    ):
        return _map_file(path, _count_rows(path, dimension), dimension)
    ((last,),) = connection.execute("SELECT coalesce(max(passage), 0) FROM vectors").fetchall()
    matrix = np.zeros((int(last), dimension), np.float32)
    for ids, rows in _read_blocks(connection, dimension):
        matrix[ids - 1] = rows
    return matrix


def identify_file(index: Path) -> tuple[int, int]:
    """Changes when the file grows or is replaced."""
    try:
        state = os.stat(get_vector_file(index))
    except OSError:
        return 0, 0
    return state.st_ino, state.st_size


def find_nearest(
    matrix: Matrix, query: Matrix, limit: int, allowed: Mask | None = None
) -> tuple[Ids, Matrix]:
    """The rows with the largest products, the largest first; a row of zeroes is never one."""
    if allowed is None:
        rows, scores = np.arange(len(matrix)), _multiply(matrix, query)
    else:
        rows = np.flatnonzero(allowed)
        few = len(rows) < _FEW * len(matrix)
        scores = _multiply(matrix[rows], query) if few else _multiply(matrix, query)[rows]
    present = scores != 0
    if not present.all():
        rows, scores = rows[present], scores[present]
    if len(scores) > limit:
        edge = scores[np.argpartition(-scores, limit - 1)[:limit]].min()
        # Equal ones at the edge are taken in order, whatever the partition did.
        chosen = np.flatnonzero(scores >= edge)
        rows, scores = rows[chosen], scores[chosen]
    order = np.lexsort((rows, -scores))[:limit]
    return rows[order], scores[order]


def _multiply(matrix: Matrix, query: Matrix) -> Matrix:
    """The products of all rows. In one thread if they are few: the threads of BLAS take 1 ms for
    8,000 rows, and then wait for more in a loop of 14 ms.
    """
    if matrix.size > _ONE_THREAD:
        return matrix @ query
    found: Matrix = np.einsum("ij,j->i", matrix, query)
    return found


# -- the file --------------------------------------------------------------------------------------


def _read_model(connection: sqlite3.Connection) -> tuple[str, int]:
    found = dict(connection.execute(
        "SELECT name, value FROM meta WHERE name IN ('fingerprint', 'dimension')"
    ).fetchall())  # fmt: skip
    return found.get("fingerprint", ""), int(found.get("dimension", 0))


def _read_blocks(connection: sqlite3.Connection, dimension: int) -> Iterator[tuple[Ids, Matrix]]:
    rows = connection.execute("SELECT passage, data FROM vectors ORDER BY passage")
    while some := rows.fetchmany(_BLOCK):
        ids = np.array([passage for passage, _ in some], np.int64)
        data = b"".join(data for _, data in some)
        yield ids, np.frombuffer(data, np.float32).reshape(len(some), dimension)


def _build_header(fingerprint: str, dimension: int, *, complete: bool) -> bytes:
    header = {"fingerprint": fingerprint, "dimension": dimension, "complete": complete}
    return (_MARK + json.dumps(header).encode() + b"\n").ljust(_HEADER_BYTES, b"\0")


def _read_header(path: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        data = file.read(_HEADER_BYTES)
        if len(data) == _HEADER_BYTES and data.startswith(_MARK):
            header = json.loads(data[len(_MARK) :].partition(b"\n")[0])
            if isinstance(header, dict) and header.keys() == _HEADER_KEYS:
                return header
    return None


def _count_rows(path: Path, dimension: int) -> int:
    if not dimension:
        return 0
    return (os.stat(path).st_size - _HEADER_BYTES) // (4 * dimension)


def _map_file(path: Path, num_rows: int, dimension: int) -> Matrix:
    if not num_rows:
        return np.zeros((0, dimension), np.float32)
    found: Matrix = np.memmap(path, np.float32, "r", _HEADER_BYTES, (num_rows, dimension))
    return found


def _write_rows(descriptor: int, ids: Ids, matrix: Matrix) -> None:
    """Rows in as few writes as the gaps between them allow."""
    if not len(ids):
        return
    row_bytes = 4 * matrix.shape[1]
    starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 2) != 1)
    for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
        os.lseek(descriptor, _HEADER_BYTES + (int(ids[start]) - 1) * row_bytes, os.SEEK_SET)
        data = memoryview(matrix[start:end].tobytes())
        while data:
            data = data[os.write(descriptor, data) :]
