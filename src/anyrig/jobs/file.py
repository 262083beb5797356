"""The SQLite file that jobs are kept in: opened late, shared by threads and processes.

Every change is flushed to the disk before it is acknowledged: a job that was submitted is not lost
with the power. A malformed file is refused and left alone, as a queue cannot be made again.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from anyrig.errors import StorageBusyError, StorageError

T = TypeVar("T")
FORM = 1
OURS = 0x616E796A  # "anyj"
BUSY_S = 10.0  # less than a lease: who waits for the file must not lose its jobs meanwhile
_TABLES = (
    """CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
    arguments TEXT NOT NULL, state TEXT NOT NULL, wish TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL, started REAL, ended REAL, progress TEXT, error TEXT, hint TEXT,
    result TEXT, attempts INTEGER NOT NULL DEFAULT 0, deaths INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '', beat REAL, events INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX jobs_by_state ON jobs (state, number)",
    """CREATE TABLE events (
    job INTEGER NOT NULL, number INTEGER NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL,
    data TEXT NOT NULL, PRIMARY KEY (job, number)) WITHOUT ROWID""",
    """CREATE TRIGGER forgotten AFTER DELETE ON jobs BEGIN
    DELETE FROM events WHERE job = old.number; END""",
)
_NAMES = frozenset({"jobs", "jobs_by_state", "events", "forgotten"})
_CLIENT = (
    # Added after 0.1.0, which reads such files all the same. The index lets clients be listed
    # without reading past the arguments of every job.
    "ALTER TABLE jobs ADD COLUMN client TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX jobs_by_client ON jobs (client, number)",
)
_REFUSALS = {
    sqlite3.SQLITE_FULL: (
        "No space left on device: {path} cannot be written",
        "Free some space.",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk refused to read or write {path}",
        "Look at the disk's space, quota and health.",
    ),
    sqlite3.SQLITE_BUSY: (
        "{path} is in use by another process all the time",
        "See what else runs anyrig, or try again.",
    ),
    sqlite3.SQLITE_READONLY: (
        "{path} may not be written",
        "Look at who owns it and its folder.",
    ),
}
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_REFUSALS[sqlite3.SQLITE_LOCKED] = _REFUSALS[sqlite3.SQLITE_BUSY]
for _alike in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
    _REFUSALS[_alike] = _REFUSALS[sqlite3.SQLITE_READONLY]


def damaged(why: str) -> sqlite3.DatabaseError:
    """What SQLite would raise of a malformed file, had it seen what we see."""
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _roll_back(connection: sqlite3.Connection) -> None:
    """Undo a transaction; on a full disk SQLite has done so by itself."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("ROLLBACK")


def _has_client(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT name FROM sqlite_master WHERE name = 'jobs_by_client'")
    return found.fetchone() is not None


class File:
    """One connection for each process, one transaction at a time.

    Args:
        path: of the file; it and its folder are made when they are first needed.
        wal: whether its drive can have a write-ahead log, which a network drive cannot.
    """

    def __init__(self, path: Path, *, wal: bool = True) -> None:
        self.path = path
        self._wal = wal
        self._connection: sqlite3.Connection | None = None
        self._opened = (0, 0, 0)
        self._lock = threading.RLock()

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What the work answers, from one state of the file."""
        return self._do(work, "BEGIN")

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What the work answers, its changes kept together or not at all."""
        return self._do(work, "BEGIN IMMEDIATE")

    def close(self) -> None:
        """Close it; it opens again when it is asked."""
        with self._lock:
            if self._connection is not None and self._opened[0] == os.getpid():
                self._connection.close()
            self._connection = None

    def _do(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        with self._lock, self.translated():
            connection = self._ready()
            connection.execute(begin)
            try:
                answer = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise
            return answer

    def _ready(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity() != self._opened:
            # After a fork, or since the file was moved away: what is open is no one else's.
            self.close()
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection, self._opened = connection, self._identity()
        return self._connection

    def _identity(self) -> tuple[int, int, int]:
        try:
            found = os.stat(self.path)
        except OSError:
            return os.getpid(), 0, 0
        return os.getpid(), found.st_dev, found.st_ino

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if self._form(connection) == 0:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("PRAGMA user_version").fetchone() == (0,):
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {OURS}")
                connection.execute(f"PRAGMA user_version = {FORM}")
            connection.execute("COMMIT")
        if not _has_client(connection):
            connection.execute("BEGIN IMMEDIATE")
            try:
                for statement in () if _has_client(connection) else _CLIENT:
                    connection.execute(statement)
                connection.execute("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise
        # A drive without shared memory answers with the journal it keeps, which serves as well.
        mode = "wal" if self._wal else "delete"
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # a job that is deleted leaves no words

    def _form(self, connection: sqlite3.Connection) -> int:
        connection.execute("BEGIN")
        try:
            ((form,),) = connection.execute("PRAGMA user_version").fetchall()
            ((mark,),) = connection.execute("PRAGMA application_id").fetchall()
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        finally:
            _roll_back(connection)
        if mark != OURS and (mark or names or form):
            raise StorageError(
                f"{self.path} is a database of another program", hint="Move it away."
            )
        if form > FORM:
            raise StorageError(
                f"{self.path} was written by a newer anyrig (form {form}, known is {FORM})",
                hint="Update anyrig.",
            )
        if form == FORM and not names >= _NAMES:
            raise damaged("its tables are missing")
        return int(form)

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """SQLite's errors, and the system's, as ours."""
        try:
            yield
        except sqlite3.Error as error:
            code = int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                self.close()
                raise StorageError(
                    f"the list of jobs {self.path} is damaged: {error}",
                    hint="Move it away and a new list is begun. What jobs have made is not in it: "
                    "ordered again, they go on with what is kept.",
                ) from error
            text, hint = _REFUSALS.get(code, (f"{{path}}: {error}", "-vv says more."))
            kind = StorageBusyError if code in _BUSY else StorageError
            raise kind(text.replace("{path}", str(self.path)), hint=hint) from error
        except OSError as error:
            raise StorageError(
                f"cannot use {self.path}: {error.strerror or error}",
                hint="Look at who owns it and its folder.",
            ) from error
