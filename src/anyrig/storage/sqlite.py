"""The one wrapper of SQLite: opened late, one connection per process, shared by threads.

Whatever the format of a file, on every file system that keeps what it was given:

- kill -9 loses nothing that was acknowledged: the next process that opens the file replays or
  rolls back SQLite's journal.
- A power failure may lose the last seconds of work where a format is not `durable` (write-ahead
  log, `synchronous=NORMAL`: the log is not flushed at every commit). It never damages the file.
- A damaged file is refused and left alone; a `disposable` one is renamed to
  `<name>.corrupt-<date>`, with a warning, and a new one is created.
- Files of a newer anyrig or of another program are refused and left alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from anyrig.errors import StorageBusyError, StorageError
from anyrig.storage.files import FileLock

log = logging.getLogger(__name__)
T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
MAX_VARIABLES = 500  # values in one statement: old builds of SQLite accept 999
_CORRUPT = ".corrupt-"
_SIDE_FILES = ("-wal", "-shm", "-journal")
_NO_FILE = (0, 0)
_CLOSE_WAIT_S = 5.0  # for other processes to notice the damage too and close the file
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_ACCESS = (
    sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH,
)  # fmt: skip
# Connections that a fork carried into a child: SQLite forbids even closing them there.
_INHERITED: list[sqlite3.Connection] = []


@dataclass(frozen=True)
class DatabaseFormat:
    """What a file contains, how safely it is written, and what to advise when it fails."""

    application_id: int
    """Tells our files from those of other programs."""
    version: int
    """`PRAGMA user_version`; files of a higher version are refused."""
    schema: tuple[str, ...]
    """A CREATE statement for each table, index and trigger."""
    additions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Statements by the name of the object they end with; run where that object is missing.

    For changes that older releases do not notice, so that the version stays.
    """
    new_file_pragmas: tuple[str, ...] = ()
    pragmas: tuple[str, ...] = ()
    busy_timeout_s: float = 60.0
    durable: bool = False
    """Flush every commit to the disk."""
    disposable: bool = False
    """Replace a damaged file by a new one."""
    damage_hint: str = ""
    space_hint: str = ""
    move_hint: str = ""
    """How to keep the file elsewhere, to continue a sentence: `, or set x to another folder`."""

    @property
    def names(self) -> set[str]:
        """The objects that a file of this format has."""
        return {statement.split(None, 3)[2] for statement in self.schema}


class SqliteFile:
    """A database file: one connection per process, one transaction at a time.

    Args:
        path: the file; it and its folder are created on first use.
        format: what it contains.
    """

    def __init__(self, path: Path, format: DatabaseFormat) -> None:
        self.path, self.format = path, format
        self.read_only = False
        self.journal_reason = ""
        """Why the slower rollback journal is used instead of the write-ahead log."""
        self.closed = False
        self._connection: sqlite3.Connection | None = None
        self._file_id = _NO_FILE
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._file_lock = FileLock(path.with_name(f"{path.name}.lock"))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads of this process out; `StorageError` once the file is closed."""
        if self._pid != os.getpid():
            self._reset_after_fork()
        with self._lock:
            if self.closed:
                raise StorageError(
                    f"{self.path} is closed", hint="Use it inside its `with` block, or reopen it."
                )
            yield

    def read(self, work: Work[T]) -> T:
        """Run queries; each sees a consistent state of the file, not all of them the same."""
        return self._run(work, "")

    def read_snapshot(self, work: Work[T]) -> T:
        """Run queries that all see the same state of the file."""
        return self._run(work, "BEGIN")

    def write(self, work: Work[T]) -> T:
        """Run statements in one transaction. They may be run twice: on a file that is replaced."""
        return self._run(work, "BEGIN IMMEDIATE")

    def run_script(self, script: str) -> None:
        """Run statements outside of transactions, such as VACUUM."""
        with self.locked(), self._translate_errors():
            # executescript, as execute stops a PRAGMA without columns after its first step.
            self._connect().executescript(script)

    def delete(self) -> bool:
        """Delete the file with all its contents; False if another process has it open.

        Immediate at any size, and possible on a full disk, where even deleting rows needs space.
        """
        with self.locked(), self._translate_errors():
            self._disconnect()
            with self._file_lock.exclusive(wait_s=0) as acquired:
                if not acquired:
                    return False
                try:
                    # First: SQLite deletes a log that it finds beside an empty file.
                    os.unlink(self.path)
                except OSError as error:  # Windows, while another process has it open
                    log.debug("cannot delete %s: %s", self.path, error)
                    return False
                for suffix in _SIDE_FILES:
                    with contextlib.suppress(OSError):
                        os.unlink(f"{self.path}{suffix}")
            return True

    def close(self) -> None:
        """Close it for good; harmless when it is closed already."""
        if not self.closed:
            with self.locked():
                self._disconnect()
                self.closed = True

    def damage_error(self, reason: str) -> StorageError:
        """The error for contents that are not what was written."""
        return StorageError(f"{self.path} is damaged: {reason}", hint=self.format.damage_hint)

    # -- transactions ------------------------------------------------------------------------------

    def _run(self, work: Work[T], begin: str) -> T:
        with self.locked(), self._translate_errors():
            try:
                return self._transact(work, begin)
            except sqlite3.DatabaseError as error:
                if self.read_only or not self._recover(error):
                    raise
            return self._transact(work, begin)

    def _transact(self, work: Work[T], begin: str) -> T:
        connection = self._connect()
        if not begin:
            return work(connection)
        connection.execute(begin)
        try:
            answer = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise
        return answer

    def _recover(self, error: sqlite3.DatabaseError) -> bool:
        """Whether it is worth a second attempt, on another file."""
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
            self._disconnect()  # replaced after we looked
            return True
        if _code(error) in _DAMAGED:
            self._disconnect()
            if self.format.disposable:
                self._set_aside(str(error))
                return True
        return False

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._storage_error(error) from error
        except OSError as error:
            raise StorageError(
                f"cannot open {self.path}: {error.strerror or error}", hint=self._access_hint
            ) from error

    @property
    def _access_hint(self) -> str:
        return f"Check the permissions of the file and its folder{self.format.move_hint}."

    def _storage_error(self, error: sqlite3.Error) -> StorageError:
        code = _code(error)
        if code in _BUSY:
            return StorageBusyError(
                f"{self.path} is locked: another process has been using it for"
                f" {self.format.busy_timeout_s:.0f} s",
                hint="Check what else is running anyrig, or try again.",
            )
        if code in _DAMAGED:
            return self.damage_error(str(error))
        if code == sqlite3.SQLITE_FULL:
            return StorageError(
                f"No space left on device: cannot write {self.path}",
                hint=f"Free some space{self.format.move_hint}. {self.format.space_hint}".rstrip(),
            )
        if code == sqlite3.SQLITE_IOERR:
            return StorageError(
                f"disk error: cannot read or write {self.path}",
                hint="Check the disk's space, quota and health. Existing data is unchanged.",
            )
        if code in _NO_ACCESS:
            return StorageError(f"{self.path} is not writable", hint=self._access_hint)
        return StorageError(f"{self.path}: {error}", hint="Run with -vv for details.")

    # -- connecting --------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and _file_id(self.path) != self._file_id:
            # Set aside by another process, or deleted by hand: nobody else sees what we have open.
            log.info("%s was replaced; reopening it", self.path)
            self._disconnect()
        if self._connection is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.format.disposable:
                self._file_lock.acquire_shared()
            # Taken before opening: what turns out to be damaged is this file and no later one.
            self._file_id = _file_id(self.path)
            self._connection = self._open()
            if self._file_id == _NO_FILE:
                self._file_id = _file_id(self.path)
        return self._connection

    def _disconnect(self) -> None:
        """Close the connection; the next operation opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._file_lock.release()

    def _reset_after_fork(self) -> None:
        if self._connection is not None:
            _INHERITED.append(self._connection)
        self._connection, self._pid, self._lock = None, os.getpid(), threading.RLock()
        self._file_lock.release()

    def _open(self) -> sqlite3.Connection:
        exists = self.path.exists()
        writable = os.access(self.path.parent, os.W_OK) and (
            not exists or os.access(self.path, os.W_OK)
        )
        if not writable and not exists:
            raise PermissionError(13, "permission denied", str(self.path.parent))
        self.read_only = not writable
        connection = self._open_read_only() if self.read_only else self._sqlite(str(self.path))
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _sqlite(self, name: str, *, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(
            name, uri=uri, timeout=self.format.busy_timeout_s, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip

    def _open_read_only(self) -> sqlite3.Connection:
        """A connection that writes nothing, not even the log's index beside the file."""
        address = f"{self.path.absolute().as_uri()}?mode=ro"
        connection = self._sqlite(address, uri=True)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        except sqlite3.OperationalError:
            # A write-ahead log needs its index; without one the file is read as it stands.
            connection.close()
            return self._sqlite(f"{address}&immutable=1", uri=True)
        return connection

    # -- format ------------------------------------------------------------------------------------

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version, names = self._check_format(connection)
        outdated = bool(self.format.additions.keys() - names)
        if self.read_only:
            if outdated:
                raise StorageError(
                    f"{self.path} was written by an older anyrig and cannot be upgraded: it is not"
                    " writable",
                    hint=self._access_hint,
                )
            return
        if version == 0:
            for pragma in self.format.new_file_pragmas:
                connection.execute(f"PRAGMA {pragma}")
        self._choose_journal(connection)
        for pragma in self.format.pragmas:
            connection.execute(f"PRAGMA {pragma}")
        if version == 0 or outdated:
            self._create_missing(connection)
            self._check_format(connection)

    def _check_format(self, connection: sqlite3.Connection) -> tuple[int, set[str]]:
        """The version, 0 for an empty file, and the names of the tables, indexes and triggers."""
        connection.execute("BEGIN")  # one state for all three: another process may be creating it
        try:
            ((version,),) = connection.execute("PRAGMA user_version").fetchall()
            ((application_id,),) = connection.execute("PRAGMA application_id").fetchall()
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        finally:
            _roll_back(connection)
        if application_id != self.format.application_id and (application_id or names or version):
            raise StorageError(
                f"{self.path} is a database of another program",
                hint=f"Move it away{self.format.move_hint}.",
            )
        if version > self.format.version:
            raise StorageError(
                f"{self.path} was written by a newer anyrig"
                f" (format {version}, this one reads up to {self.format.version})",
                hint=f"Update anyrig{self.format.move_hint}.",
            )
        if version and not names >= self.format.names:
            error = sqlite3.DatabaseError("tables are missing")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return version, names

    def _create_missing(self, connection: sqlite3.Connection) -> None:
        """Create the tables, unless another process has just done so."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            ((version,),) = connection.execute("PRAGMA user_version").fetchall()
            if version == 0:
                for statement in self.format.schema:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {self.format.application_id}")
                connection.execute(f"PRAGMA user_version = {self.format.version}")
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            for name, statements in self.format.additions.items():
                for statement in () if name in names else statements:
                    connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise

    def _choose_journal(self, connection: sqlite3.Connection) -> None:
        drive = detect_network_drive(self.path)
        self.journal_reason = f"the folder is on a network drive ({drive})" if drive else ""
        mode = self._set_journal(connection, "delete" if drive else "wal")
        if mode != "wal":
            self.journal_reason = self.journal_reason or "the file system has no shared memory"
            log.info("%s: using a rollback journal (%s)", self.path, self.journal_reason)
        flush = "FULL" if self.format.durable or mode != "wal" else "NORMAL"
        connection.execute(f"PRAGMA synchronous = {flush}")

    def _set_journal(self, connection: sqlite3.Connection, mode: str) -> str:
        """Switch the journal and return the one in use."""
        ((current,),) = connection.execute("PRAGMA journal_mode").fetchall()
        end = time.monotonic() + self.format.busy_timeout_s
        while current != mode:
            try:
                ((current,),) = connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()
                break
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY:
                    if mode == "wal" and _code(error) not in _DAMAGED:
                        return "delete"  # no shared memory, or no locks, on this file system
                    raise
                if mode == "delete":
                    break  # others are using the log
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)  # SQLite's own timeout does not cover this statement
        return str(current)

    def _set_aside(self, reason: str) -> None:
        """Rename a damaged file, unless another process has just done so."""
        with self._file_lock.exclusive(_CLOSE_WAIT_S) as acquired:
            if _file_id(self.path) != self._file_id:
                return
            if not acquired:
                log.debug("renaming %s while other processes have it open", self.path)
            target = self._unused_name()
            # The file last: with its name free, another process may create a new one at once.
            for suffix in ("-wal", "-journal"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", f"{target}{suffix}")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}-shm")
            os.replace(self.path, target)
        log.warning(
            "%s is damaged (%s): it was set aside as %s and a new one was created. %s",
            self.path, reason, target.name, self.format.damage_hint,
        )  # fmt: skip

    def _unused_name(self) -> Path:
        date = time.strftime("%Y%m%d-%H%M%S")
        for number in range(1, 1000):
            suffix = f"-{number}" if number > 1 else ""
            name = self.path.with_name(f"{self.path.name}{_CORRUPT}{date}{suffix}")
            if not name.exists():
                break
        return name


def find_set_aside(path: Path) -> tuple[Path, ...]:
    """The damaged predecessors of a disposable file."""
    found = path.parent.glob(f"{path.name}{_CORRUPT}*")
    return tuple(sorted(file for file in found if not file.name.endswith(_SIDE_FILES)))


def _roll_back(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):  # whatever failed may have ended the transaction
        connection.execute("ROLLBACK")


def _code(error: sqlite3.Error) -> int:
    """The primary result code; 0 where the Python module itself complained."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _file_id(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return _NO_FILE
    return found.st_dev, found.st_ino


# -- network drives --------------------------------------------------------------------------------

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK_DRIVES = frozenset(
    "nfs nfs4 cifs smb3 smbfs 9p afs ceph fuse.ceph glusterfs fuse.glusterfs lustre gpfs beegfs "
    "fuse.sshfs fuse.rclone fuse.s3fs fuse.gcsfuse fuse.goofys ncpfs davfs fuse.davfs2 drvfs "
    "vboxsf fuse.vmhgfs-fuse virtiofs prl_fs".split()
)
_WINDOWS_DRIVE_REMOTE = 4


def detect_network_drive(path: Path, mounts: str | None = None) -> str:
    """The type of network drive that a path is on; empty for a local disk, and on macOS.

    There the write-ahead log must not be used: it is shared through memory, which two machines do
    not have in common, and SQLite does not notice.

    Args:
        path: a file or folder; it need not exist.
        mounts: the text of `/proc/self/mountinfo`, where it is not this machine's own.
    """
    if sys.platform == "win32":
        return _detect_windows_share(path)
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    resolved = path.resolve()
    depth, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if not after or len(fields) < 5:
            continue
        # Spaces are written as \040.
        point = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        # The last of several mounts on one point covers the others.
        if resolved.is_relative_to(point) and len(point.parts) >= depth:
            depth, kind = len(point.parts), after.split(" ")[0]
    return kind if kind in _NETWORK_DRIVES else ""


def _detect_windows_share(path: Path) -> str:
    anchor = path.resolve().anchor
    if anchor.startswith("\\\\"):
        return "network share"
    import ctypes

    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]  # Windows alone
    is_remote = kernel.GetDriveTypeW(anchor) == _WINDOWS_DRIVE_REMOTE
    return "network drive" if is_remote else ""
