"""The form of an index: its tables, and how the file is opened.

    contents    what files say: one row for equal files, so a moved file keeps all that it has
    texts       passages without their place: equal ones are embedded and kept once
    vectors     of texts
    words       the words of texts, for FTS5; it keeps no text of its own
    passages    which text stands where in which content

Paths are bytes as the system has them: not every file's name is Unicode.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from anyrig.errors import Message, OptionRef, StorageError
from anyrig.storage.files import make_folder
from anyrig.storage.sqlite import create_private_database

FORM = 1
OURS = 0x616E7969  # "anyi"
PAGE = 8192  # four vectors of 384 numbers lie in one, where 4096 has room for two
LOG_BYTES = 32 << 20
BUSY_S = 60.0
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE roots (path BLOB PRIMARY KEY, added REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE excluded (path BLOB PRIMARY KEY, since REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE contents (
    id INTEGER PRIMARY KEY AUTOINCREMENT, digest TEXT NOT NULL UNIQUE, format TEXT NOT NULL,
    language TEXT NOT NULL, title TEXT NOT NULL, num_pages INTEGER NOT NULL,
    num_ocr INTEGER NOT NULL, num_unread INTEGER NOT NULL, num_passages INTEGER NOT NULL,
    warnings TEXT NOT NULL);
CREATE TABLE files (
    path BLOB PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, seen REAL NOT NULL,
    content INTEGER, error TEXT NOT NULL DEFAULT '', hint TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
CREATE INDEX files_by_content ON files (content);
CREATE TABLE texts (id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE,
    body TEXT NOT NULL);
CREATE TABLE vectors (text INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE passages (
    content INTEGER NOT NULL, number INTEGER NOT NULL, text INTEGER NOT NULL,
    page INTEGER NOT NULL, start INTEGER NOT NULL, file_start INTEGER NOT NULL,
    title TEXT NOT NULL, PRIMARY KEY (content, number)) WITHOUT ROWID;
CREATE INDEX passages_by_text ON passages (text);
CREATE VIRTUAL TABLE words USING fts5 (
    body, content = '', tokenize = 'unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE frequencies USING fts5vocab ('words', 'row');
"""
_NAMES = frozenset("meta roots excluded contents files texts vectors passages words".split())


def connect(path: Path, *, wal: bool = True) -> sqlite3.Connection:
    """A connection to write through; the file is made where there is none."""
    make_folder(path.parent)
    create_private_database(path)
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        if _version(connection, path) == 0:
            connection.execute(f"PRAGMA page_size = {PAGE}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute(f"PRAGMA journal_mode = {'wal' if wal else 'delete'}")
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if wal else 'FULL'}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // PAGE}")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        # What is deleted is written over with zeroes: removed text is not in the file's bytes.
        connection.execute("PRAGMA secure_delete = ON")
        _create(connection)
        _version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip
    try:
        _version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The form of the file, 0 for a new one; what is no index of ours is refused."""
    connection.execute("BEGIN")
    try:
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        ((mark,),) = connection.execute("PRAGMA application_id").fetchall()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    finally:
        _roll_back(connection)
    if mark != OURS and (mark or tables or version):
        raise StorageError(
            f"{path} is not an index of anyrig",
            hint=Message("Choose another with {index}.", index=OptionRef("index")),
        )
    if version > FORM or (version == FORM and not tables >= _NAMES):
        raise StorageError(
            f"{path} was written by a newer anyrig, or is damaged",
            hint="Update anyrig; or delete it with `anyrig index --drop` and index again.",
        )
    return int(version)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        if version == 0:
            for statement in _statements():
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {OURS}")
            connection.execute(f"PRAGMA user_version = {FORM}")
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction; where the disk is full, SQLite has done so by itself."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("ROLLBACK")


def _statements() -> Iterator[str]:
    statement = ""
    for line in _TABLES.splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
