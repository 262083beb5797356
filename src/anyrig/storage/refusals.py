"""What SQLite and the system refuse, in our words."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from anyrig.errors import StorageBusyError, StorageError

BUSY_S = 60.0


def code(error: sqlite3.Error) -> int:
    """SQLite's own code without its refinement, 0 where the module itself complained."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def damaged(why: str) -> sqlite3.DatabaseError:
    """What SQLite would raise of a malformed file, had it seen what we see."""
    error = sqlite3.DatabaseError(why)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def moved(error: sqlite3.Error) -> bool:
    """Whether another file has taken the place of the one that is open."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED


def malformed(error: sqlite3.Error) -> bool:
    """Whether the file itself is at fault, not the disk, the folder or another process."""
    return code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


_REFUSALS = {
    sqlite3.SQLITE_FULL: (
        "there is no room left for {path}",
        "Free some space, or set cache.folder (ANYRIG_CACHE_FOLDER) to a folder on another disk."
        " What is kept can still be read; `anyrig cache prune --all` deletes it.",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk refused to read or write {path}",
        "Look at the disk's space, quota and health. What was kept before is still there.",
    ),
    sqlite3.SQLITE_BUSY: (
        "{path} has been in use by another process for a minute",
        "See what else runs anyrig, or try again.",
    ),
    sqlite3.SQLITE_READONLY: (
        "{path} may not be written",
        "Set cache.folder (ANYRIG_CACHE_FOLDER) to a folder you may write to.",
    ),
}
_REFUSALS[sqlite3.SQLITE_LOCKED] = _REFUSALS[sqlite3.SQLITE_BUSY]
for _alike in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
    _REFUSALS[_alike] = _REFUSALS[sqlite3.SQLITE_READONLY]


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors, and the system's, as ours."""
    try:
        yield
    except sqlite3.Error as error:
        text, hint = _REFUSALS.get(code(error), (f"{{path}}: {error}", "-vv says more."))
        busy = code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        kind = StorageBusyError if busy else StorageError
        raise kind(text.replace("{path}", str(path)), hint=hint) from error
    except OSError as error:
        raise StorageError(
            f"cannot use {path}: {error.strerror or error}",
            hint="Set cache.folder (ANYRIG_CACHE_FOLDER) to a folder you may write to.",
        ) from error
