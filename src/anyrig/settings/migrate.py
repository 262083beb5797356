"""Move the data that version 0.1 kept in the cache folder, where the system may delete it.

It is done once, under a lock. Each item appears at its new place whole or not at all: it is
renamed, or copied and then renamed where the new folder is on another file system or the old one
is read-only. If the process dies, the next one continues. While another process has the old data
open, they stay and are used where they are.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import secrets
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from anyrig.storage import files
from anyrig.storage.files import lock_file

log = logging.getLogger(__name__)
DATA = ("jobs.sqlite", "indexes", "runs", "server")
STATE = ("cluster",)
# The data and the state folder are one folder on macOS and Windows, so each set has its marker.
_MARKERS = {DATA: "moved-from-cache.json", STATE: "moved-cluster-from-cache.json"}
_JOURNAL = ".moving.json"
"""Names the items of a move that is under way, so that the next process can finish it."""
_STAGING_PREFIX = ".moving-"
_LOCK_TIMEOUT_S = 60.0
_MIN_FREE_BYTES = 4 << 20
_RENAME_IMPOSSIBLE = {errno.EXDEV}
if sys.platform != "win32":  # there it means that a file is open
    _RENAME_IMPOSSIBLE |= {errno.EROFS, errno.EACCES, errno.EPERM}


def migrate(old: Path, new: Path, names: tuple[str, ...]) -> Path:
    """Move items from one folder to another; return the folder that holds them from now on.

    Args:
        old: the cache folder.
        new: where the items belong.
        names: the files and folders to move, `DATA` or `STATE`.
    """
    marker = new / _MARKERS[names]
    if old == new or marker.exists() or not any(os.path.lexists(old / name) for name in names):
        return new
    try:
        new.mkdir(parents=True, exist_ok=True)
        with lock_file(new / ".moving.lock", _LOCK_TIMEOUT_S) as acquired:
            if marker.exists():  # another process did it in the meantime
                return new
            return new if acquired and _move_items(old, new, names, marker) else old
    except OSError as error:
        if marker.exists():  # on a drive without locks
            return new
        # shutil.copytree reports a list of (source, target, message).
        details = error.args[0] if error.args else None
        reason = details[0][-1] if isinstance(details, list) and details else error
        log.warning("keeping data in %s: cannot move them to %s: %s", old, new, reason)
        return old


def _move_items(old: Path, new: Path, names: Sequence[str], marker: Path) -> bool:
    """Return whether all items are in the new folder."""
    for leftover in new.glob(f"{_STAGING_PREFIX}*"):  # of a process that died
        _remove(leftover)
    here = [name for name in names if os.path.lexists(old / name)]
    in_both = [name for name in here if os.path.lexists(new / name)]
    pending = [name for name in here if name not in in_both]
    # A move that was interrupted is finished in any case: a split set of data serves nobody.
    interrupted = any(os.path.lexists(new / name) for name in names)
    if not interrupted and any(_is_in_use(old / name) for name in pending):
        log.info("data in %s are in use; they will be moved to %s later", old, new)
        return False
    if pending and shutil.disk_usage(new).free < _MIN_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # _rewrite_paths needs some
    journal = new / _JOURNAL
    moved_before = files.read_json(journal).get("items", [])
    with contextlib.suppress(OSError):
        files.write_atomic(journal, json.dumps({"items": [*moved_before, *pending]}))
    copied = _move_all(old, new, pending, marker)
    # Paths stay as they are if the new folder had a server folder of its own.
    if "server" not in in_both or "server" in moved_before:
        _rewrite_paths(old, new)
    summary = {"from": str(old), "items": pending, "left": in_both + copied}
    with contextlib.suppress(OSError):  # all items are here: do not return to the old folder
        files.write_atomic(marker, json.dumps(summary, indent=2) + "\n")
        journal.unlink(missing_ok=True)
    for name in copied:
        _remove(old / name)
    if pending:
        log.info("moved %s from %s to %s", ", ".join(pending), old, new)
    if in_both:
        log.warning("left %s in %s: %s has them already", ", ".join(in_both), old, new)
    return True


def _move_all(old: Path, new: Path, names: Sequence[str], marker: Path) -> list[str]:
    """Move all items or none. Return those that were copied, and still exist in the old folder."""
    renamed: list[str] = []
    copied: list[str] = []
    try:
        for name in names:
            (renamed if _move(old / name, new / name) else copied).append(name)
    except OSError:
        if not marker.exists():  # otherwise another process needs them where they are
            for name in copied:
                _remove(new / name)
            for name in renamed:
                with contextlib.suppress(OSError):
                    os.rename(new / name, old / name)
        raise
    return copied


def _move(old: Path, new: Path) -> bool:
    """Move an item. Return False if it was copied, and the old one still exists."""
    if old.is_symlink():  # the user's own, perhaps to a larger disk, and perhaps relative
        os.symlink(old.resolve(), new, target_is_directory=old.is_dir())
        with contextlib.suppress(OSError):
            old.unlink()
        return True
    wal = old.with_name(f"{old.name}-wal")
    try:
        if not wal.exists():  # it could not be merged: copy both
            os.rename(old, new)
            return True
    except OSError as error:
        if error.errno not in _RENAME_IMPOSSIBLE:
            raise
    staged = new.with_name(f"{_STAGING_PREFIX}{secrets.token_hex(4)}-{new.name}")
    try:
        if old.is_dir():
            shutil.copytree(old, staged, symlinks=True)
        else:
            shutil.copy2(old, staged)
            if wal.exists():
                shutil.copy2(wal, staged.with_name(f"{staged.name}-wal"))
                _is_database_open(staged)  # merges the WAL file
        _make_durable(staged)
        if os.path.lexists(new):  # moved by another process, on a drive without locks
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        os.rename(staged, new)
    except BaseException:
        _remove(staged)
        raise
    return False


def _make_durable(path: Path) -> None:
    """Make a copy writable for its owner, and flush it to the disk."""
    for item in (path, *path.rglob("*")):
        if item.is_symlink():
            continue
        item.chmod(item.stat().st_mode | (0o700 if item.is_dir() else 0o600))
        if item.is_file():
            with contextlib.suppress(OSError), item.open("rb") as file:
                os.fsync(file.fileno())


def _remove(path: Path) -> None:
    """Remove as much as the system permits."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            path.with_name(path.name + suffix).unlink()


# -- in use ----------------------------------------------------------------------------------------


def _is_in_use(path: Path) -> bool:
    if path.name == "cluster":
        return _is_cluster_running(path)
    databases = [path] if path.suffix == ".sqlite" else path.glob("*.sqlite")
    return any(map(_is_database_open, databases))


def _is_database_open(path: Path) -> bool:
    """Return whether another process has a database open; merge its WAL file if none has."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=0.2)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return False


def _is_cluster_running(folder: Path) -> bool:
    """Return whether a coordinator, or a broker that it left behind, uses a folder."""
    with contextlib.suppress(OSError, ValueError):
        os.kill(int((folder / "broker" / "broker.pid").read_text().strip()), 0)
        return True
    if not (folder / ".lock").exists():
        return False
    with lock_file(folder / ".lock", 0.0) as acquired:
        return not acquired


# -- absolute paths inside of the data -------------------------------------------------------------


def _rewrite_paths(old: Path, new: Path) -> None:
    """Jobs, indexes and training runs hold absolute paths of the server's files."""
    after = str(new.absolute() / "server")
    for before in sorted({str(old.absolute() / "server"), str(old.resolve() / "server")}):
        with contextlib.suppress(sqlite3.Error):  # a damaged file is reported when it is used
            _rewrite_jobs(new / "jobs.sqlite", before, after)
        for index in (new / "indexes").glob("*.sqlite"):
            with contextlib.suppress(sqlite3.Error):
                _rewrite_index(index, before, after)
        for run in sorted((new / "runs").glob("*.json")):
            _rewrite_run(run, before, after)


def _rewrite_jobs(path: Path, before: str, after: str) -> None:
    if not path.is_file():
        return
    # Within JSON: the folder itself, with its closing quote, and whatever is in it.
    replacements = [
        (json.dumps(before), json.dumps(after)),
        (json.dumps(before + os.sep)[:-1], json.dumps(after + os.sep)[:-1]),
    ]
    columns = ("jobs", "arguments"), ("jobs", "progress"), ("jobs", "result"), ("events", "data")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for table, name in columns:
            query = f"UPDATE {table} SET {name} = replace({name}, ?1, ?2) WHERE instr({name}, ?1)"
            connection.executemany(query, replacements)


def _rewrite_index(path: Path, before: str, after: str) -> None:
    prefix = os.fsencode(before + os.sep)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for table in ("files", "roots", "excluded"):
            connection.execute(
                f"UPDATE OR REPLACE {table} SET path = CAST(?1 || substr(path, ?2) AS BLOB)"
                " WHERE substr(path, 1, ?3) = ?4",
                (os.fsencode(after + os.sep), len(prefix) + 1, len(prefix), prefix),
            )


def _rewrite_run(path: Path, before: str, after: str) -> None:
    run = files.read_json(path)
    folder = str(run.get("folder", ""))
    if folder.startswith(before + os.sep):
        run["folder"] = after + folder[len(before) :]
        # A run's id is a hash of its folder.
        digest = hashlib.sha256(os.fsencode(run["folder"])).hexdigest()
        with contextlib.suppress(OSError):
            files.write_atomic(path.with_name(f"r{digest[:15]}.json"), json.dumps(run))
            path.unlink()
