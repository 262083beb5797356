"""The SQLite file under the store: opened late, shared by threads, mended or set aside.

What it promises, for every file system that keeps what it was given:

- kill -9 at any moment loses nothing that was acknowledged: SQLite's journal is replayed by the
  next process that opens the file.
- A loss of power may lose the last seconds of work (write-ahead log, `synchronous=NORMAL`: the log
  is not flushed at every commit) and leaves the file whole. With the rollback journal, which is
  used on network drives, every commit is flushed and nothing is lost.
- A file that SQLite calls malformed is renamed to `<name>.corrupt-<date>`, with a warning, and a
  new one is begun. `anyrig cache import` brings back what is whole in the old one.
- A file of a newer anyrig, or of another program, is refused and left alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from anyrig.errors import StorageError
from anyrig.storage.door import Door
from anyrig.storage.drives import network_drive
from anyrig.storage.refusals import malformed, moved, translated
from anyrig.storage.schema import (
    LOG_BYTES,
    PAGE,
    check,
    connect,
    connect_to_read,
    create,
    set_journal,
)

log = logging.getLogger(__name__)
T = TypeVar("T")
Journal = Literal["wal", "delete"]
SET_ASIDE = ".corrupt-"  # what the name of a malformed file gets, with a date
_NOWHERE = (0, 0)
_LEAVE_S = 5.0  # how long others are given to find a malformed file and close it
# Connections that a fork carried into a child: SQLite forbids even closing them there.
_LEFT_BEHIND: list[sqlite3.Connection] = []


class Database:
    """One file, one connection per process, one transaction at a time."""

    def __init__(self, path: Path, *, wal: bool | None = None) -> None:
        self.path = path
        self.read_only = False
        self.journal: Journal = "wal"
        self.journal_reason = ""
        self._wal = wal
        self._connection: sqlite3.Connection | None = None
        self._file = _NOWHERE
        self._closed = False
        self._owner = os.getpid()
        self._lock = threading.RLock()
        self._door = Door(path.with_name(f"{path.name}.lock"))

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """A block that no other thread of this process is in; refused once it is closed."""
        if self._owner != os.getpid():
            self._after_fork()
        with self._lock:
            if self._closed:
                raise StorageError(
                    "the store is closed",
                    hint="Ask it before it is closed, inside its `with` block, or open another.",
                )
            yield

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What the work answers; each of its statements sees one state of the file."""
        return self._do(work, "")

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What the work answers, its changes kept together or not at all."""
        return self._do(work, "BEGIN IMMEDIATE")

    def maintain(self, script: str) -> None:
        """Run statements that stand outside of transactions."""
        with self.alone(), translated(self.path):
            # executescript, as execute stops a PRAGMA without columns after its first step.
            self._ready().executescript(script)

    def begin_anew(self) -> bool:
        """Delete the file with all that is in it; False where others have it open.

        At once, whatever its size, and on a full disk too, where even deleting rows needs room.
        """
        with self.alone(), translated(self.path):
            self._leave()
            with self._door.alone(wait_s=0) as alone:
                if not alone:
                    return False
                try:
                    # First: SQLite deletes a log that it finds beside an empty file.
                    os.unlink(self.path)
                except OSError as error:  # Windows, while another has it open
                    log.debug("%s cannot be deleted: %s", self.path, error)
                    return False
                for end in ("-wal", "-shm", "-journal"):
                    with contextlib.suppress(OSError):
                        os.unlink(f"{self.path}{end}")
            return True

    def close(self) -> None:
        """Close it for good; once more does no harm."""
        if not self._closed:
            with self.alone():
                self._leave()
                self._closed = True

    @property
    def closed(self) -> bool:
        """Whether it is closed for good."""
        return self._closed

    def _leave(self) -> None:
        """Close the connection; it is opened again when something is asked."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._door.leave()

    def _do(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        with self.alone(), translated(self.path):
            for attempt in (1, 2):
                try:
                    return self._transaction(work, begin)
                except sqlite3.DatabaseError as error:
                    if attempt == 2 or self.read_only:
                        raise
                    if moved(error):
                        self._leave()  # replaced since we looked: opened anew
                    elif malformed(error):
                        self._set_aside(str(error))
                    else:
                        raise
        raise AssertionError("two attempts answer or raise")

    def _transaction(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        connection = self._ready()
        if not begin:
            return work(connection)
        connection.execute(begin)
        try:
            answer = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            # What broke it may have ended the transaction too, or may break this as well.
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return answer

    def _ready(self) -> sqlite3.Connection:
        if self._connection is not None and _identity(self.path) != self._file:
            # Set aside by another process, or deleted by hand: what we have open is no one else's.
            log.info("%s was replaced: opened anew", self.path)
            self._leave()
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._door.share()
            # Before it is looked at: what turns out to be malformed is this file, no later one.
            self._file = _identity(self.path)
            self._connection = self._open()
            if self._file == _NOWHERE:
                self._file = _identity(self.path)
        return self._connection

    def _after_fork(self) -> None:
        if self._connection is not None:
            _LEFT_BEHIND.append(self._connection)
        self._connection, self._owner, self._lock = None, os.getpid(), threading.RLock()
        self._door.leave()

    # -- opening -----------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        folder = self.path.parent
        there = self.path.exists()
        writable = os.access(folder, os.W_OK) and (not there or os.access(self.path, os.W_OK))
        if not writable and not there:
            raise PermissionError(13, "permission denied", str(folder))
        self.read_only = not writable
        connection = connect_to_read(self.path) if self.read_only else connect(str(self.path))
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = check(connection, self.path)
        if self.read_only:
            self.journal, self.journal_reason = "delete", ""  # nothing is written
            return
        if version == 0:
            connection.execute(f"PRAGMA page_size = {PAGE}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._choose_journal(connection)
        if version == 0:
            create(connection)
        check(connection, self.path)

    def _choose_journal(self, connection: sqlite3.Connection) -> None:
        drive = network_drive(self.path)
        wanted = self._wal if self._wal is not None else not drive
        answer = set_journal(connection, "wal" if wanted else "delete")
        self.journal = "wal" if answer == "wal" else "delete"
        self.journal_reason = ""
        if self.journal == "delete":
            self.journal_reason = f"the folder is on a network drive ({drive})" if drive else (
                "the file system has no shared memory" if wanted else "it was asked for"
            )  # fmt: skip
            log.info("%s: rollback journal, as %s", self.path, self.journal_reason)
        # See the top of this file for what each gives.
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if self.journal == 'wal' else 'FULL'}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_BYTES // PAGE}")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")

    # -- setting aside -----------------------------------------------------------------------------

    def _set_aside(self, why: str) -> None:
        """Rename a malformed file, unless another process has just done so."""
        self._leave()
        with self._door.alone(_LEAVE_S) as alone:
            if _identity(self.path) != self._file:
                return
            if not alone:
                log.debug("%s is renamed while others have it open", self.path)
            aside = _free_name(self.path)
            # The file last: with its name free, another process may begin a new one at once.
            for end in ("-wal", "-journal"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{end}", f"{aside}{end}")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}-shm")
            os.replace(self.path, aside)
        log.warning(
            "%s cannot be read (%s): it was set aside as %s and a new one begun;"
            " `anyrig cache import %s` brings back what is whole in it",
            self.path, why, aside.name, aside,
        )  # fmt: skip


def set_aside(path: Path) -> tuple[Path, ...]:
    """The malformed files that were set aside beside a store."""
    found = path.parent.glob(f"{path.name}{SET_ASIDE}*")
    beside = ("-wal", "-shm", "-journal")
    return tuple(sorted(file for file in found if not file.name.endswith(beside)))


def _free_name(path: Path) -> Path:
    date = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        name = path.with_name(f"{path.name}{SET_ASIDE}{date}{f'-{number}' if number > 1 else ''}")
        if not name.exists():
            break
    return name


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return _NOWHERE
    return found.st_dev, found.st_ino
