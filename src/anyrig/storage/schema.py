"""The form of the file: its tables, its journal, and how it is opened."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from anyrig.errors import StorageError
from anyrig.storage.refusals import BUSY_S, code, damaged, malformed

SCHEMA = 1
OURS = 0x616E7972  # "anyr": how `file` and we tell our databases from others'
LOG_BYTES = 16 << 20  # the log is folded into the file when it is this long
PAGE = 4096
# Data stands in a table of its own, so that looking for the oldest results does not turn every page
# of audio. The trigger keeps the three in step whatever drops a row.
_NAMES = frozenset({"results", "data", "jobs", "held", "counters", "dropped"})
_TABLES = """
CREATE TABLE results (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, engine TEXT NOT NULL,
    size INTEGER NOT NULL, made REAL NOT NULL, used REAL NOT NULL, digest BLOB NOT NULL,
    note TEXT NOT NULL);
CREATE INDEX results_by_use ON results (used, id);
CREATE TABLE data (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE jobs (job TEXT PRIMARY KEY, seen REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE held (result INTEGER, job TEXT, PRIMARY KEY (result, job)) WITHOUT ROWID;
CREATE INDEX held_by_job ON held (job);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER dropped AFTER DELETE ON results BEGIN
    DELETE FROM data WHERE id = old.id;
    DELETE FROM held WHERE result = old.id;
END;
"""


def connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    """A connection that waits for others, and leaves transactions and threads to the caller."""
    return sqlite3.connect(
        name, uri=uri, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that writes nothing, not even the log's index beside the file."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    connection = connect(address, uri=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except sqlite3.OperationalError:
        # A write-ahead file needs its index; without one the file alone is read, as it stands.
        connection.close()
        return connect(f"{address}&immutable=1", uri=True)
    return connection


def check(connection: sqlite3.Connection, path: Path) -> int:
    """The schema's version, 0 for a new file; another program's file is refused."""
    connection.execute("BEGIN")  # one state for all three: another process may be creating it
    try:
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        ((mark,),) = connection.execute("PRAGMA application_id").fetchall()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    finally:
        with contextlib.suppress(sqlite3.Error):  # where the disk is full it is over already
            connection.execute("ROLLBACK")
    if mark != OURS and (mark or tables or version):
        raise StorageError(
            f"{path} is a database of another program",
            hint="Set cache.folder (ANYRIG_CACHE_FOLDER) to another folder.",
        )
    if version > SCHEMA:
        raise StorageError(
            f"{path} was written by a newer anyrig (form {version}, known is {SCHEMA})",
            hint="Update anyrig, or set cache.folder (ANYRIG_CACHE_FOLDER) to another folder.",
        )
    if version == SCHEMA and not tables >= _NAMES:
        raise damaged("its tables are missing")
    return int(version)


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, unless another process did so meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if version == 0:
        for statement in _statements(_TABLES):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {OURS}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: executescript would commit before it begins."""
    statement = ""
    for line in script.splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def set_journal(connection: sqlite3.Connection, mode: str) -> str:
    """Ask for a journal and answer which it is; the busy handler does not cover this statement."""
    ((now,),) = connection.execute("PRAGMA journal_mode").fetchall()
    end = time.monotonic() + BUSY_S
    while now != mode:
        try:
            ((now,),) = connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()
            break
        except sqlite3.OperationalError as error:
            if code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                if mode == "wal" and not malformed(error):
                    return "delete"  # no shared memory, or no locks, on this file system
                raise
            if mode == "delete":
                return str(now)  # others are using the log
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
    return str(now)
