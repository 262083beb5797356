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
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from anyrig.errors import MORE_DETAILS, DiskFullError, StorageBusyError, StorageError
from anyrig.storage.files import close_file, create_private, lock_file, make_folder

log = logging.getLogger(__name__)
T = TypeVar("T")
Transaction = Callable[[sqlite3.Connection], T]
MAX_VARIABLES = 500  # values in one statement: old builds of SQLite accept 999
_CREATED = re.compile(r"CREATE (?:UNIQUE |VIRTUAL )?\w+ (\w+)")
_CORRUPT = ".corrupt-"
_SIDE_FILES = ("-wal", "-shm", "-journal")
_NO_FILE = (0, 0)
_MIN_FREE_BYTES = 128 << 10
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
    upgrades: Mapping[int, Callable[[sqlite3.Connection, Path], None]] = field(default_factory=dict)
    """By an earlier version: what brings a file of it to the next one, within the transaction that
    notes the new version."""
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

    def list_names(self) -> set[str]:
        """Of the tables, indexes and triggers that every file of this version has."""
        return {_CREATED.match(statement)[1] for statement in self.schema}  # type: ignore[index]


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

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads of this process out; `StorageError` once the file is closed."""
        if self._pid != os.getpid():  # this process is a fork
            if self._connection is not None:
                _INHERITED.append(self._connection)
            self._connection, self._pid, self._lock = None, os.getpid(), threading.RLock()
        with self._lock:
            if self.closed:
                raise StorageError(
                    f"{self.path} is closed", hint="Use it inside its `with` block, or reopen it."
                )
            yield

    def read(self, transaction: Transaction[T]) -> T:
        """Run queries; each sees a consistent state of the file, not all of them the same."""
        return self._run("", transaction)

    def read_snapshot(self, transaction: Transaction[T]) -> T:
        """Run queries that all see the same state of the file."""
        return self._run("BEGIN", transaction)

    def write(self, transaction: Transaction[T]) -> T:
        """Run statements in one transaction. They may be run twice: on a file that is replaced."""
        return self._run("BEGIN IMMEDIATE", transaction)

    def run_script(self, script: str) -> None:
        """Run statements outside of transactions, such as VACUUM."""
        with self.locked(), self._translate_errors():
            # executescript, as execute stops a PRAGMA without columns after its first step.
            self._connect().executescript(script)

    def delete(self) -> bool:
        """Delete the file with all its contents; False where that is not possible.

        Immediate at any size, and possible on a full disk, where even deleting rows needs space.
        Other processes that have it open continue with a new file, which a rollback journal does
        not permit: SQLite finds it by name, so that a process with the old file open would roll
        back, into that, what another is writing to the new one.
        """
        with self.locked(), self._translate_errors():
            connection = self._connect()
            if self.journal_reason:
                return False
            with self._file_locked():
                if _get_file_id(self.path) != self._file_id:
                    return True  # another process has just done so
                # Nobody else is in a transaction then, and will delete its journal by name.
                connection.execute("BEGIN EXCLUSIVE")
                if sys.platform == "win32":
                    self._disconnect()
                try:
                    os.unlink(self.path)
                    self._unlink_side_files()
                except OSError as error:  # Windows, while another process has it open
                    log.debug("cannot delete %s: %s", self.path, error)
                    return False
                finally:
                    self._disconnect()
            return True

    def write_in_place(self, transaction: Transaction[T]) -> T:
        """Run statements without a log, and return free pages to the disk.

        For a full disk, where even deleting rows needs space for the log. No other process may have
        the file open, and one that is killed damages it: for disposable formats alone.
        """
        assert self.format.disposable
        with self.locked(), self._translate_errors(), self._file_locked():
            self._disconnect()
            with contextlib.closing(self._sqlite(str(self.path))) as connection:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # without shared memory
                connection.execute("PRAGMA journal_mode = MEMORY").fetchall()
                answer = _transact(connection, "BEGIN EXCLUSIVE", transaction)
                connection.executescript("PRAGMA incremental_vacuum")
                return answer

    def close(self) -> None:
        """Close it for good; harmless when it is closed already."""
        if not self.closed:
            with self.locked():
                self._disconnect()
                self.closed = True

    def damage_error(self, reason: str) -> StorageError:
        """The error for contents that are not what was written."""
        return StorageError(f"{self.path} is damaged: {reason}", hint=self.format.damage_hint)

    # -- transactions and errors -------------------------------------------------------------------

    def _run(self, begin: str, transaction: Transaction[T]) -> T:
        with self.locked(), self._translate_errors():
            try:
                return _transact(self._connect(), begin, transaction)
            except sqlite3.DatabaseError as error:
                if self.read_only or not self._replace_file(error):
                    raise
            return _transact(self._connect(), begin, transaction)

    def _replace_file(self, error: sqlite3.DatabaseError) -> bool:
        """Whether another file is there now, and a second attempt worth it."""
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
            self._disconnect()  # replaced after we looked
            return True
        if _code(error) not in _DAMAGED:
            return False
        self._disconnect()
        if self.format.disposable:
            self._set_aside(str(error))
        return self.format.disposable

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
            return self._busy_error()
        if code in _DAMAGED:
            return self.damage_error(str(error))
        # Without space for the index of its log, SQLite reports an error of the disk.
        is_full = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and self._is_disk_full()
        if code == sqlite3.SQLITE_FULL or is_full:
            return DiskFullError(
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
        return StorageError(f"{self.path}: {error}", hint=MORE_DETAILS)

    def _busy_error(self) -> StorageBusyError:
        return StorageBusyError(
            f"{self.path} is locked: another process has been using it for"
            f" {self.format.busy_timeout_s:.0f} s",
            hint="Check what else is running anyrig, or try again.",
        )

    def _is_disk_full(self) -> bool:
        try:
            return shutil.disk_usage(self.path.parent).free < _MIN_FREE_BYTES
        except OSError:
            return False

    # -- opening -----------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and _get_file_id(self.path) != self._file_id:
            # Set aside or deleted by another process, or by hand: nobody else sees what we have.
            log.info("%s was replaced; reopening it", self.path)
            self._disconnect()
        if self._connection is None:
            make_folder(self.path.parent)
            with self._file_locked():
                # Taken before opening: what turns out to be damaged is this file and no later one.
                self._file_id = _get_file_id(self.path)
                self._connection = self._open()
                if self._file_id == _NO_FILE:
                    self._file_id = _get_file_id(self.path)
        return self._connection

    def _disconnect(self) -> None:
        """Close the connection; the next operation opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _file_locked(self) -> Iterator[None]:
        """Let no process open the file while another removes it, and its journal beside it."""
        if not self.format.disposable:
            yield
            return
        lock_path = self.path.with_name(f"{self.path.name}.lock")
        # Whoever has the lock may have to wait as long for the file.
        with lock_file(lock_path, 2 * self.format.busy_timeout_s) as acquired:
            if not acquired:
                raise self._busy_error()
            yield

    def _open(self) -> sqlite3.Connection:
        exists = self.path.exists()
        self.read_only = not os.access(self.path.parent, os.W_OK) or (
            exists and not os.access(self.path, os.W_OK)
        )
        if self.read_only and not exists:
            raise PermissionError(13, "permission denied", str(self.path.parent))
        if not self.read_only:
            create_private_database(self.path)
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

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Check the format, choose the journal, and create the tables that are missing."""
        # In a transaction: another process may be creating the tables.
        version, names = _transact(connection, "BEGIN", self._check_format)
        is_outdated = version < self.format.version or bool(self.format.additions.keys() - names)
        if self.read_only:
            if is_outdated:
                raise StorageError(
                    f"{self.path} was written by an older anyrig and cannot be upgraded: it is not"
                    " writable",
                    hint=self._access_hint,
                )
            return
        for pragma in self.format.new_file_pragmas if version == 0 else ():
            connection.execute(f"PRAGMA {pragma}")
        self._choose_journal(connection)
        for pragma in self.format.pragmas:
            connection.execute(f"PRAGMA {pragma}")
        if is_outdated:
            _transact(connection, "BEGIN IMMEDIATE", self._create_missing)

    def _check_format(self, connection: sqlite3.Connection) -> tuple[int, set[str]]:
        """The version, 0 for an empty file, and the names of the tables, indexes and triggers."""
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        ((application_id,),) = connection.execute("PRAGMA application_id").fetchall()
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
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
        if version == self.format.version and not names >= self.format.list_names():
            error = sqlite3.DatabaseError("tables are missing")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return version, names

    def _create_missing(self, connection: sqlite3.Connection) -> None:
        version, names = self._check_format(connection)  # another process may have been quicker
        if version == 0:
            for statement in self.format.schema:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {self.format.application_id}")
        for older in range(version, self.format.version) if version else ():
            self.format.upgrades[older](connection, self.path)
        connection.execute(f"PRAGMA user_version = {self.format.version}")
        for name, statements in self.format.additions.items():
            for statement in () if name in names else statements:
                connection.execute(statement)

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
                return str(connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0])
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

    # -- removing ----------------------------------------------------------------------------------

    def _set_aside(self, reason: str) -> None:
        """Rename a damaged file, unless another process has just done so."""
        with self._file_locked():
            if _get_file_id(self.path) != self._file_id:
                return
            name = f"{self.path.name}{_CORRUPT}{time.strftime('%Y%m%d-%H%M%S')}"
            os.replace(self.path, self.path.with_name(name))
            self._unlink_side_files()
        log.warning(
            "%s is damaged (%s): it was set aside as %s and a new one was created. %s",
            self.path, reason, name, self.format.damage_hint,
        )  # fmt: skip

    def _unlink_side_files(self) -> None:
        for suffix in _SIDE_FILES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}{suffix}")


def create_private_database(path: Path) -> None:
    """Create a database for this user alone; SQLite gives its journal the same permissions."""
    with contextlib.suppress(OSError):  # SQLite reports it
        create_private(path)
    for suffix in ("", *_SIDE_FILES):
        close_file(Path(f"{path}{suffix}"))


def find_set_aside(path: Path) -> tuple[Path, ...]:
    """The damaged predecessors of a disposable file."""
    found = path.parent.glob(f"{path.name}{_CORRUPT}*")
    return tuple(sorted(file for file in found if not file.name.endswith(_SIDE_FILES)))


def _transact(connection: sqlite3.Connection, begin: str, transaction: Transaction[T]) -> T:
    if not begin:
        return transaction(connection)
    connection.execute(begin)
    try:
        answer = transaction(connection)
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # what failed may have ended the transaction
            connection.execute("ROLLBACK")
        raise
    return answer


def _code(error: sqlite3.Error) -> int:
    """The primary result code; 0 where the Python module itself complained."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _get_file_id(path: Path) -> tuple[int, int]:
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


def detect_network_drive(path: Path) -> str:
    """The type of network drive that a path is on; empty for a local disk, and on macOS.

    There the write-ahead log must not be used: it is shared through memory, which two machines do
    not have in common, and SQLite does not notice.
    """
    resolved = path.resolve()
    if sys.platform == "win32":
        import ctypes

        remote = ctypes.WinDLL("kernel32").GetDriveTypeW(resolved.anchor) == _WINDOWS_DRIVE_REMOTE
        return "network drive" if remote or resolved.anchor.startswith("\\\\") else ""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
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
