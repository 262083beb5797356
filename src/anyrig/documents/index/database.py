"""The SQLite file of an index: who writes it, who reads it, what is refused.

One process writes at a time; readers see the state before or after a file, never half of it. Kill
-9 loses the file that was being written and nothing else: each is one transaction.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from anyrig.documents.index import schema
from anyrig.errors import (
    MORE_DETAILS,
    DiskFullError,
    InvalidInputError,
    Message,
    OptionRef,
    StorageError,
)
from anyrig.storage.files import make_folder, opener
from anyrig.storage.sqlite import detect_network_drive

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
ENDING = ".sqlite"
BESIDE = (".hnsw", ".lock")
"""Files beside an index that go with it."""
UNCLEAN = "unclean"
"""Noted with a removal, until its bytes are gone: a kill in between is made good later."""
_READERS_S = 10.0  # how long those who read are waited for
_LOCK_RETRIES_S = (0.02, 0.05, 0.1)
_NAME = re.compile(r"[^\W_][\w.-]{0,63}")


def path_of(folder: Path, name: str) -> Path:
    """Where the index of a name lies: that of the same name in another case, if there is one. So a
    name is one index on every file system.
    """
    if not _NAME.fullmatch(name) or name.endswith(ENDING):
        raise InvalidInputError(
            f"{name!r} cannot be the name of an index",
            hint="Letters, digits, dots and dashes, such as `letters-2026`.",
        )
    return folder / f"{find_name(folder, name) or name}{ENDING}"


def find_name(folder: Path, name: str) -> str | None:
    """An index of a folder by its name, in any case; the exact one first."""
    known = names(folder)
    if name in known:
        return name
    wanted = fold_name(name)
    return next((one for one in known if fold_name(one) == wanted), None)


def fold_name(name: str) -> str:
    """The form in which names of indexes are compared."""
    return unicodedata.normalize("NFC", name.casefold())


def names(folder: Path) -> list[str]:
    """The indexes of a folder."""
    found = folder.glob(f"*{ENDING}") if folder.is_dir() else ()
    return sorted(path.name.removesuffix(ENDING) for path in found)


class IndexFile:
    """An index that is written: one connection, one transaction at a time, for all threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with translated(path):
            self._connection = schema.connect(path, wal=not detect_network_drive(path))
        self._lock = threading.RLock()

    def __enter__(self) -> IndexFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; the log is folded into the file if no one else has it open."""
        with self._lock:
            self._connection.close()

    def read(self, work: Work[T]) -> T:
        """What the work answers, from one state of the file."""
        return self._do(work, "BEGIN")

    def write(self, work: Work[T]) -> T:
        """What the work answers, its changes kept together or not at all; readers are told."""

        def told(connection: sqlite3.Connection) -> T:
            answer = work(connection)
            count(connection, "changed")
            return answer

        return self._do(told, "BEGIN IMMEDIATE")

    @property
    def unclean(self) -> bool:
        """Whether something was removed for good and its bytes are not all gone yet."""
        return bool(self.read(lambda connection: get(connection, UNCLEAN)))

    def purge(self) -> bool:
        """Leave nothing of what was deleted in the bytes of the file and of its log.

        False where another process is reading, so that its log could not be cleared yet.
        """

        def merged(connection: sqlite3.Connection) -> None:
            # FTS5 only marks what is deleted until its pieces are merged.
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")

        self.write(merged)
        for ending in BESIDE[:1]:
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(f"{self.path.name}{ending}").unlink()
        with self._lock, translated(self.path):
            self._connection.executescript("PRAGMA incremental_vacuum")
            end = time.monotonic() + _READERS_S
            while True:
                answer = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not answer[0]:
                    break
                if time.monotonic() > end:
                    return False
                time.sleep(0.05)
        self.write(lambda connection: put(connection, UNCLEAN, ""))
        return True

    def _do(self, work: Work[T], begin: str) -> T:
        with self._lock, translated(self.path):
            self._connection.execute(begin)
            try:
                answer = work(self._connection)
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
            return answer


def get(connection: sqlite3.Connection, name: str, default: str = "") -> str:
    """What is noted under a name."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else default


def put(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Note something."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def count(connection: sqlite3.Connection, name: str) -> None:
    """One more of something that happened."""
    connection.execute(
        "INSERT INTO meta VALUES (?, '1') "
        "ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1",
        (name,),
    )


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """A block in which no other process indexes; the system ends it for one that is killed."""
    make_folder(path.parent)
    lock = path.with_name(f"{path.name}.lock")
    descriptor = opener(str(lock), os.O_RDWR | os.O_CREAT)
    try:
        for wait_s in _LOCK_RETRIES_S:  # `is_locked` of another process holds it for a moment
            if _locked(descriptor):
                break
            time.sleep(wait_s)
        else:
            raise StorageError(
                f"another process is updating the index {path.stem}",
                hint=Message(
                    "Wait for it, or give this folder an index of its own with {index}.",
                    index=OptionRef("index", "NAME"),
                ),
            )
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process is inside `alone`."""
    try:
        descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR)
    except OSError:
        return False
    try:
        return not _locked(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except BlockingIOError:
        return False
    except OSError:
        return os.name != "nt"  # a drive without locks: the transactions still hold
    return True


_REFUSALS = {
    sqlite3.SQLITE_FULL: (
        "No space left on device: {path} cannot be written",
        "Free disk space, and run it again: it continues.",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk failed to read or write {path}",
        "Check the disk's space, quota and health.",
    ),
    sqlite3.SQLITE_BUSY: (
        "{path} has been in use by another process for a minute",
        "Stop other anyrig processes, or try again.",
    ),
    sqlite3.SQLITE_READONLY: (
        "{path} is not writable",
        "Check its owner and permissions.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "{path} is damaged",
        "`anyrig index --drop` deletes it; index the folders again, nothing else is lost.",
    ),
}
_REFUSALS[sqlite3.SQLITE_LOCKED] = _REFUSALS[sqlite3.SQLITE_BUSY]
_REFUSALS[sqlite3.SQLITE_NOTADB] = _REFUSALS[sqlite3.SQLITE_CORRUPT]
for _alike in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
    _REFUSALS[_alike] = _REFUSALS[sqlite3.SQLITE_READONLY]


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors, and the system's, as ours."""
    try:
        yield
    except sqlite3.Error as error:
        code = int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
        text, hint = _REFUSALS.get(code, (f"{{path}}: {error}", MORE_DETAILS))
        kind = DiskFullError if code == sqlite3.SQLITE_FULL else StorageError
        raise kind(text.replace("{path}", str(path)), hint=hint) from error
    except OSError as error:
        raise StorageError(
            f"cannot use {path}: {error.strerror or error}", hint="Check the permissions."
        ) from error
