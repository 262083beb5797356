"""The SQLite file of an index: its tables, who writes it, who reads it, what is refused.

    contents    what files say: one row for equal files, so a moved file keeps all that it has
    passages    of contents, with their place
    vectors     of passages
    words       the words of passages, for FTS5, as written and stemmed; it keeps no text of its own
    names       the names and titles of files, likewise

Paths are bytes as the system has them: not every file's name is Unicode.

One process writes at a time; readers see the state before or after a file, never half of it. Kill
-9 loses the files that were being embedded and nothing else: each is one transaction.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from anyrig.documents.index import vectors
from anyrig.documents.index.content import Content
from anyrig.documents.index.keywords import list_stems, split_dense
from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
    StorageError,
    dump_message,
    load_message,
)
from anyrig.storage.files import lock_file, make_folder
from anyrig.storage.sqlite import DatabaseFormat, SqliteFile

if TYPE_CHECKING:
    from anyrig.documents.index.vectors import Matrix

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
SUFFIX = ".sqlite"
EXTRA_FILES = (vectors.SUFFIX, ".lock", ".hnsw")
"""Files beside an index that go with it; 0.1.0 wrote the last."""
UNCLEAN = "unclean"
"""Noted with a removal, until its bytes are gone: the next run completes one that was killed."""
INCOMPLETE = "incomplete_vectors"
"""Noted with a change of the model, until every passage has its vector again."""
_PENDING = "pending"
_PAGE_BYTES = 8192  # four vectors of 384 numbers lie in one, where 4096 has room for two
_LOG_BYTES = 32 << 20
_READERS_S = 10.0
_LOCK_S = 0.2
"""`is_locked` of another process holds the lock for a moment."""
_NAME = re.compile(r"[^\W_][\w.-]{0,63}")
_TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE roots (path BLOB PRIMARY KEY, added REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE excluded (path BLOB PRIMARY KEY, since REAL NOT NULL) WITHOUT ROWID",
    """CREATE TABLE contents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE, format TEXT NOT NULL,
    language TEXT NOT NULL, title TEXT NOT NULL, num_pages INTEGER NOT NULL,
    num_ocr INTEGER NOT NULL, num_unread INTEGER NOT NULL, num_passages INTEGER NOT NULL,
    warnings TEXT NOT NULL)""",
)
_TABLES_2 = (
    """CREATE TABLE files (
    id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, seen REAL NOT NULL, content INTEGER,
    error TEXT NOT NULL DEFAULT '', hint TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX files_of_contents ON files (content)",
    """CREATE TABLE passages (
    id INTEGER PRIMARY KEY, content INTEGER NOT NULL, number INTEGER NOT NULL,
    page INTEGER NOT NULL, start INTEGER NOT NULL, file_start INTEGER NOT NULL,
    title TEXT NOT NULL, body TEXT NOT NULL, stems TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX passages_of_contents ON passages (content, number)",
    "CREATE TABLE vectors (passage INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE VIRTUAL TABLE words USING fts5 (
    written, stemmed, content = '', tokenize = 'unicode61 remove_diacritics 2')""",
    """CREATE VIRTUAL TABLE names USING fts5 (
    written, stemmed, tokenize = 'unicode61 remove_diacritics 2')""",
    "CREATE VIRTUAL TABLE frequencies USING fts5vocab ('words', 'row')",
)


class FailureReason(Enum):
    """Why a file could not be read, where something depends on it."""

    OTHER = ""
    NO_OCR = "no-ocr"
    """Nothing read the pictures of its pages: tried again when something does."""


# -- names of indexes ------------------------------------------------------------------------------


def get_path(folder: Path, name: str) -> Path:
    """Where the index of a name lies: that of the same name in another case, if there is one. So a
    name is one index on every file system.
    """
    if not _NAME.fullmatch(name) or name.endswith(SUFFIX):
        raise InvalidInputError(
            f"{name!r} cannot be the name of an index",
            hint="Letters, digits, dots and dashes, such as `letters-2026`.",
        )
    return folder / f"{find_name(folder, name) or name}{SUFFIX}"


def find_name(folder: Path, name: str) -> str | None:
    """An index of a folder by its name, in any case; the exact one first."""
    known = list_names(folder)
    if name in known:
        return name
    wanted = _fold_name(name)
    return next((one for one in known if _fold_name(one) == wanted), None)


def list_names(folder: Path) -> list[str]:
    found = folder.glob(f"*{SUFFIX}") if folder.is_dir() else ()
    return sorted(path.name.removesuffix(SUFFIX) for path in found)


def _fold_name(name: str) -> str:
    return unicodedata.normalize("NFC", name.casefold())


def check_exists(path: Path) -> None:
    if not path.is_file():
        raise InvalidInputError(
            f"there is no index {path.stem!r}",
            hint="`anyrig index FOLDER` makes one; `anyrig index --list` shows what there is.",
        )


# -- the database ----------------------------------------------------------------------------------


class IndexDatabase:
    """An index that is read and written: one transaction at a time, for all threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SqliteFile(path, _FORMAT)

    def __enter__(self) -> IndexDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the log is folded into the file if no one else has it open."""
        self._file.close()

    def read(self, work: Work[T]) -> T:
        """What the work answers, from one state of the file."""
        return self._file.read_snapshot(work)

    def write(self, work: Work[T]) -> T:
        """What the work answers, its changes kept together or not at all; readers notice."""

        def work_and_count(connection: sqlite3.Connection) -> T:
            answer = work(connection)
            connection.execute(
                "INSERT INTO meta VALUES ('changed', '1') "
                "ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
            )
            return answer

        return self._file.write(work_and_count)

    @property
    def is_unclean(self) -> bool:
        """Whether something was removed for good and its bytes are not all gone yet."""
        return bool(self.read(lambda connection: get_meta(connection, UNCLEAN)))

    def purge(self) -> bool:
        """Leave nothing of what was deleted in the bytes of the file, of its log and its vectors.

        False where another process is reading, so that its log could not be cleared yet.
        """

        def merge(connection: sqlite3.Connection) -> None:
            # FTS5 only marks what is deleted until its pieces are merged.
            for table in ("words", "names"):
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
            vectors.erase_unused_rows(connection, self.path)

        def is_log_cleared(connection: sqlite3.Connection) -> bool:
            return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

        self.write(merge)
        self.path.with_name(f"{self.path.name}.hnsw").unlink(missing_ok=True)
        self._file.run_script("PRAGMA incremental_vacuum")
        end = time.monotonic() + _READERS_S
        while not self._file.read(is_log_cleared):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        self.write(lambda connection: set_meta(connection, UNCLEAN, ""))
        return True


def open_file(path: Path) -> SqliteFile:
    """The file of an index that is there, to be read."""
    check_exists(path)
    return SqliteFile(path, _FORMAT)


def read_index(path: Path, work: Work[T]) -> T:
    """What the work answers, from one state of an index."""
    with contextlib.closing(open_file(path)) as file:
        return file.read_snapshot(work)


def _upgrade_from_1(connection: sqlite3.Connection, path: Path) -> None:
    """Version 1 kept equal passages once, in `texts`, had no stems and no names of files."""
    run = connection.execute
    run("DROP TABLE frequencies")
    run("DROP TABLE words")
    for table in ("files", "passages", "vectors"):
        run(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in _TABLES_2:
        run(statement)
    for file_path, size, mtime_ns, seen, content, error, hint in run(
        "SELECT * FROM old_files"
    ).fetchall():
        # Only its message says why version 1 could not read a file.
        lacked_ocr = "no OCR is installed" in error or "OCR is turned off" in error
        reason = FailureReason.NO_OCR if lacked_ocr else FailureReason.OTHER
        row = (file_path, size, mtime_ns, seen, content, error, hint, reason.value)
        run(
            "INSERT INTO files (path, size, mtime_ns, seen, content, error, hint, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row,
        )  # fmt: skip
    languages = dict(run("SELECT id, language FROM contents").fetchall())
    old = run(
        "SELECT content, number, page, start, file_start, title, body, text FROM old_passages "
        "JOIN texts ON texts.id = old_passages.text ORDER BY content, number"
    )
    last = 0
    while some := old.fetchmany(1000):
        stems = [list_stems(row[6], languages.get(row[0], "")) for row in some]
        ids = range(last + 1, last + 1 + len(some))
        last += len(some)
        connection.executemany(
            "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(id, *row[:7], stem) for id, row, stem in zip(ids, some, stems, strict=True)],
        )
        _index_words(connection, ids, [row[6] for row in some], stems)
        connection.executemany(
            "INSERT INTO vectors SELECT ?, data FROM old_vectors WHERE text = ?",
            [(id, row[7]) for id, row in zip(ids, some, strict=True)],
        )
    for file, file_path, content in run("SELECT id, path, content FROM files").fetchall():
        if content is not None:
            _put_name(connection, file, file_path, content)
    for table in ("old_files", "old_passages", "old_vectors", "texts"):
        run(f"DROP TABLE {table}")
    if count_missing_vectors(connection):
        set_meta(connection, INCOMPLETE, "1")
    vectors.rebuild(connection, path)


_FORMAT = DatabaseFormat(
    application_id=0x616E7969,  # "anyi"
    version=2,
    schema=_TABLES + _TABLES_2,
    upgrades={1: _upgrade_from_1},
    new_file_pragmas=(f"page_size = {_PAGE_BYTES}", "auto_vacuum = INCREMENTAL"),
    pragmas=(
        f"wal_autocheckpoint = {_LOG_BYTES // _PAGE_BYTES}",
        f"journal_size_limit = {_LOG_BYTES}",
        # What is deleted is written over with zeroes: removed text is not in the file's bytes.
        "secure_delete = ON",
    ),
    damage_hint="`anyrig index --drop` deletes it; index the folders again, nothing else is lost.",
    space_hint="Then run it again: it continues.",
    move_hint=", or choose another index",
)


# -- one process at a time -------------------------------------------------------------------------


@contextlib.contextmanager
def lock_index(path: Path) -> Iterator[None]:
    """A block in which no other process indexes; the system ends it for one that is killed."""
    make_folder(path.parent)
    with lock_file(_get_lock(path), _LOCK_S) as is_ours:
        if not is_ours:
            raise StorageError(
                f"another process is updating the index {path.stem}",
                hint=Message(
                    "Wait for it, or give this folder an index of its own with {index}.",
                    index=OptionRef("index", "NAME"),
                ),
            )
        yield


def is_locked(path: Path) -> bool:
    """Whether a process is inside `lock_index`."""
    if not _get_lock(path).is_file():
        return False
    with lock_file(_get_lock(path), 0) as is_ours:
        return not is_ours


def _get_lock(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


# -- what an index knows ---------------------------------------------------------------------------


class Stamp(NamedTuple):
    """A file as the disk has it."""

    path: bytes
    size: int
    mtime_ns: int

    @property
    def file(self) -> Path:
        return Path(os.fsdecode(self.path))


class Known(NamedTuple):
    """A file as the index has it."""

    stamp: Stamp
    seen: float
    """When the stamp was taken, in seconds since 1970."""
    content: int | None
    error: str
    hint: str
    reason: FailureReason = FailureReason.OTHER
    digest: str = ""
    num_ocr: int = 0
    num_unread: int = 0


@dataclass(frozen=True)
class UnreadFile:
    """A file that could not be read."""

    file: Path
    error: str
    hint: str


def get_meta(connection: sqlite3.Connection, name: str, default: str = "") -> str:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else default


def set_meta(connection: sqlite3.Connection, name: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def list_known(connection: sqlite3.Connection) -> dict[bytes, Known]:
    """Every file of the index by its path."""
    rows = connection.execute(
        "SELECT path, size, mtime_ns, seen, content, error, hint, reason, digest, num_ocr,"
        " num_unread FROM files LEFT JOIN contents ON contents.id = files.content"
    )
    return {
        row[0]: Known(
            Stamp(*row[:3]), row[3], row[4], load_message(row[5]), load_message(row[6]),
            FailureReason(row[7]), row[8] or "", row[9] or 0, row[10] or 0,
        )
        for row in rows
    }  # fmt: skip


def list_roots(connection: sqlite3.Connection) -> list[bytes]:
    """The folders and files that are indexed."""
    return [path for (path,) in connection.execute("SELECT path FROM roots ORDER BY path")]


def list_excluded(connection: sqlite3.Connection) -> list[bytes]:
    """What was removed for good, and is not to come back by itself."""
    return [path for (path,) in connection.execute("SELECT path FROM excluded ORDER BY path")]


def list_languages(connection: sqlite3.Connection) -> list[str]:
    """Languages of the files, the most frequent first."""
    rows = connection.execute(
        "SELECT language FROM contents WHERE language != '' GROUP BY 1 ORDER BY count(*) DESC, 1"
    )
    return [language for (language,) in rows]


def is_under(path: bytes, folders: Iterable[bytes]) -> bool:
    """Whether a path is one of the folders or files, or lies in one of them."""
    separator = os.sep.encode()
    return any(path == one or path.startswith(one.rstrip(separator) + separator) for one in folders)


def find_content(connection: sqlite3.Connection, digest: str) -> int | None:
    """The content of a digest, if a file with it was read before."""
    row = connection.execute("SELECT id FROM contents WHERE digest = ?", (digest,)).fetchone()
    return int(row[0]) if row else None


def list_vectors(connection: sqlite3.Connection, path: bytes) -> dict[str, bytes]:
    """The vectors that the passages of a file have, by their text."""
    return dict(
        connection.execute(
            "SELECT body, data FROM files JOIN passages ON passages.content = files.content "
            "JOIN vectors ON vectors.passage = passages.id WHERE path = ?",
            (path,),
        )
    )


def list_without_vector(
    connection: sqlite3.Connection, after: int, limit: int
) -> list[tuple[int, str]]:
    """Passages whose vectors are still to be made, in order: after a change of the model."""
    return connection.execute(
        "SELECT id, body FROM passages WHERE id > ? AND id NOT IN (SELECT passage FROM vectors) "
        "ORDER BY id LIMIT ?",
        (after, limit),
    ).fetchall()


def count_missing_vectors(connection: sqlite3.Connection) -> int:
    ((count,),) = connection.execute(
        "SELECT (SELECT count(*) FROM passages) - (SELECT count(*) FROM vectors)"
    ).fetchall()
    return int(count)


def set_pending(connection: sqlite3.Connection, num_files: int, seen: float) -> None:
    """Note how many files a run is about to bring in."""
    set_meta(connection, _PENDING, f"{num_files} {seen!r}")


def clear_pending(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE name = ?", (_PENDING,))


def count_pending(connection: sqlite3.Connection) -> int:
    """Files that the last run has found and not finished."""
    num_files, _, seen = get_meta(connection, _PENDING).partition(" ")
    if not num_files:
        return 0
    query = "SELECT count(*) FROM files WHERE seen >= ?"
    ((num_done,),) = connection.execute(query, (float(seen),)).fetchall()
    return max(0, int(num_files) - int(num_done))


def read_model(connection: sqlite3.Connection) -> tuple[str, str, int]:
    """Fingerprint, name and dimension of the model whose vectors are in it; empty before any."""
    dimension = int(get_meta(connection, "dimension", "0"))
    return get_meta(connection, "fingerprint"), get_meta(connection, "model"), dimension


# -- what is written, each as part of a transaction ------------------------------------------------


def set_model(connection: sqlite3.Connection, fingerprint: str, name: str, dimension: int) -> None:
    """From now on the vectors are this model's; those of another are dropped."""
    if get_meta(connection, "fingerprint") != fingerprint:
        connection.execute("DELETE FROM vectors")
        if connection.execute("SELECT 1 FROM passages LIMIT 1").fetchone():
            set_meta(connection, INCOMPLETE, "1")
    set_meta(connection, "fingerprint", fingerprint)
    set_meta(connection, "model", name)
    set_meta(connection, "dimension", str(dimension))


def put_vectors(
    connection: sqlite3.Connection, pairs: Sequence[tuple[int, Matrix]]
) -> list[tuple[int, Matrix]]:
    """Keep vectors of passages; those of which the passage is still there."""
    there = [
        pair for pair in pairs
        if connection.execute("SELECT 1 FROM passages WHERE id = ?", pair[:1]).fetchone()
    ]  # fmt: skip
    connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", there)
    return there


def add_root(connection: sqlite3.Connection, path: bytes) -> None:
    """A folder that is looked through from now on."""
    connection.execute("INSERT OR IGNORE INTO roots VALUES (?, ?)", (path, time.time()))


def put_seen(connection: sqlite3.Connection, stamps: Iterable[Stamp], seen: float) -> None:
    """Files that were looked at and have not changed."""
    connection.executemany(
        "UPDATE files SET seen = ? WHERE path = ?", [(seen, stamp.path) for stamp in stamps]
    )


def put_error(
    connection: sqlite3.Connection,
    stamp: Stamp,
    seen: float,
    error: str,
    hint: str,
    reason: FailureReason,
) -> list[int]:
    """A file that could not be read; what it said before is not what it says now. Returns the
    passages that are gone, as all that follow do.
    """
    return _put_file(connection, stamp, seen, None, error, hint, reason)


def put_link(
    connection: sqlite3.Connection, stamp: Stamp, seen: float, digest: str
) -> list[int] | None:
    """A file whose content is known; None where it is not any more."""
    content = find_content(connection, digest)
    return None if content is None else _put_file(connection, stamp, seen, content)


def put_content(
    connection: sqlite3.Connection,
    stamp: Stamp,
    seen: float,
    digest: str,
    content: Content,
    ids: Sequence[int],
    rows: Sequence[Matrix],
) -> list[int]:
    """A file with all that it says.

    Args:
        connection: within a transaction.
        stamp: the file.
        seen: when the stamp was taken.
        digest: of its bytes, and of the way they were read.
        content: what it says, which the index does not have.
        ids: free ones, for its passages.
        rows: the vectors of its passages.
    """
    cursor = connection.execute(
        "INSERT INTO contents (digest, format, language, title, num_pages, num_ocr, num_unread,"
        " num_passages, warnings) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (digest, content.format, content.language, _encode(content.title),
         content.num_pages, content.num_ocr, content.num_unread, len(content.passages),
         json.dumps([_encode(one) for one in content.warnings])),
    )  # fmt: skip
    number = cursor.lastrowid
    assert number is not None
    passages = content.passages
    connection.executemany(
        "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(id, number, *one) for id, one in zip(ids, passages, strict=True)],
    )
    connection.executemany("INSERT INTO vectors VALUES (?, ?)", zip(ids, rows, strict=True))
    _index_words(connection, ids, [one.body for one in passages], [one.stems for one in passages])
    return _put_file(connection, stamp, seen, number)


def drop_files(connection: sqlite3.Connection, paths: Iterable[bytes]) -> list[int]:
    """Forget files, and whatever no other file says."""
    contents = set()
    for path in paths:
        row = connection.execute("SELECT id, content FROM files WHERE path = ?", (path,)).fetchone()
        if row is not None:
            connection.execute("DELETE FROM names WHERE rowid = ?", row[:1])
            connection.execute("DELETE FROM files WHERE id = ?", row[:1])
            contents.add(row[1])
    return [id for content in contents - {None} for id in _drop_unused(connection, content)]


def _put_file(
    connection: sqlite3.Connection,
    stamp: Stamp,
    seen: float,
    content: int | None,
    error: str = "",
    hint: str = "",
    reason: FailureReason = FailureReason.OTHER,
) -> list[int]:
    before = connection.execute(
        "SELECT id, content FROM files WHERE path = ?", (stamp.path,)
    ).fetchone()
    values = (
        *stamp[1:], seen, content, _encode(dump_message(error)), _encode(dump_message(hint)),
        reason.value,
    )  # fmt: skip
    if before is None:
        file = connection.execute(
            "INSERT INTO files (path, size, mtime_ns, seen, content, error, hint, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (stamp.path, *values),
        ).lastrowid
        assert file is not None
    else:
        file = before[0]
        connection.execute(
            "UPDATE files SET size = ?, mtime_ns = ?, seen = ?, content = ?, error = ?, hint = ?,"
            " reason = ? WHERE id = ?",
            (*values, file),
        )
        connection.execute("DELETE FROM names WHERE rowid = ?", (file,))
    if content is not None:
        _put_name(connection, file, stamp.path, content)
    if before is not None and before[1] is not None and before[1] != content:
        return _drop_unused(connection, before[1])
    return []


def _put_name(connection: sqlite3.Connection, file: int, path: bytes, content: int) -> None:
    ((title, language),) = connection.execute(
        "SELECT title, language FROM contents WHERE id = ?", (content,)
    ).fetchall()
    text = _encode(f"{os.fsdecode(os.path.basename(path))} {title}")
    row = (file, split_dense(text), list_stems(text.replace("_", " "), language))
    connection.execute("INSERT INTO names (rowid, written, stemmed) VALUES (?, ?, ?)", row)


def _index_words(
    connection: sqlite3.Connection, ids: Sequence[int], bodies: Sequence[str], stems: Sequence[str]
) -> None:
    connection.executemany(
        "INSERT INTO words (rowid, written, stemmed) VALUES (?, ?, ?)",
        [(id, split_dense(body), stem) for id, body, stem in zip(ids, bodies, stems, strict=True)],
    )


def _drop_unused(connection: sqlite3.Connection, content: int) -> list[int]:
    """Drop a content that no file has."""
    if connection.execute("SELECT 1 FROM files WHERE content = ?", (content,)).fetchone():
        return []
    rows = connection.execute(
        "SELECT id, body, stems FROM passages WHERE content = ?", (content,)
    ).fetchall()
    connection.executemany(
        "INSERT INTO words (words, rowid, written, stemmed) VALUES ('delete', ?, ?, ?)",
        [(id, split_dense(body), stems) for id, body, stems in rows],
    )
    connection.executemany("DELETE FROM vectors WHERE passage = ?", [row[:1] for row in rows])
    connection.execute("DELETE FROM passages WHERE content = ?", (content,))
    connection.execute("DELETE FROM contents WHERE id = ?", (content,))
    return [row[0] for row in rows]


def _encode(text: str) -> str:
    """Without lone surrogates, which SQLite's text has no place for."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
