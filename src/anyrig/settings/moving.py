"""The user's data out of the cache folder, where 0.1 kept it and systems delete it: moved once.

Under a lock, so that two processes do it one after the other. Each item appears at its new place
whole or not at all: it is renamed, or copied beside and then renamed where the new folder is on
another file system or the old one is read-only. A process that dies on the way leaves an item at
either place, and the next one goes on. While another process uses the old data, they stay where
they are, and are used there.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import secrets
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from anyrig.storage import files
from anyrig.storage.files import FileLock

log = logging.getLogger(__name__)
DATA = ("jobs.sqlite", "indexes", "runs", "server")
STATE = ("cluster",)
_MARK = "moved-from-cache.json"
_STAGING = ".moving-"
_WAIT_S = 60.0
_LEAST_FREE_BYTES = 4 << 20
_ELSEWHERE = {errno.EXDEV, errno.EROFS, errno.EACCES, errno.EPERM}


def settle(old: Path, new: Path, names: Sequence[str]) -> Path:
    """The folder that holds these items from now on.

    Args:
        old: the cache folder.
        new: where they belong.
        names: files and folders within.
    """
    if old == new or (new / _MARK).exists() or not any(map(_there, _within(old, names))):
        return new
    try:
        new.mkdir(parents=True, exist_ok=True)
        with FileLock(new / ".moving.lock").exclusive(_WAIT_S) as alone:
            if not alone:
                return old
            if (new / _MARK).exists():  # another process has done it meanwhile
                return new
            return new if _move_all(old, new, names) else old
    except OSError as error:
        log.warning("the data stay in %s: they cannot be moved to %s: %s", old, new, _reason(error))
        return old


def _reason(error: OSError) -> str:
    """In words; an error of `shutil.copytree` is a list, the last of each what was said."""
    listed = error.args[0] if error.args else None
    return str(listed[0][-1]) if isinstance(listed, list) and listed else str(error)


def _within(folder: Path, names: Sequence[str]) -> list[Path]:
    return [folder / name for name in names]


def _there(path: Path) -> bool:
    return os.path.lexists(path)


def _move_all(old: Path, new: Path, names: Sequence[str]) -> bool:
    """Whether all of it is at its new place."""
    _clear_staging(new)
    begun = any(_there(new / name) for name in names)
    waiting = [name for name in names if _there(old / name) and not _there(new / name)]
    # What is half moved is moved on: the rest must not be left behind by a process that hangs.
    if not begun and any(_in_use(old / name) for name in waiting):
        log.info("the data in %s are in use and will be moved to %s later", old, new)
        return False
    both = [name for name in names if _there(old / name) and _there(new / name)]
    if waiting and shutil.disk_usage(new).free < _LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # databases are written to below
    copied: list[str] = []
    moved: list[str] = []
    try:
        for name in waiting:
            (copied if _move(old / name, new / name) else moved).append(name)
    except OSError:
        _move_back(old, new, copied, moved)
        raise
    _rewrite_paths(old, new)
    marked = {"from": str(old), "items": waiting, "left": both + copied}
    with contextlib.suppress(OSError):  # all of it is there: the old place must not be used again
        files.write_atomic(new / _MARK, json.dumps(marked, indent=2) + "\n")
    for name in copied:
        _remove(old / name)
    if waiting:
        log.info("moved %s from %s to %s", ", ".join(waiting), old, new)
    if both:
        log.warning("%s in %s were left there: %s has such files already",
                    ", ".join(both), old, new)  # fmt: skip
    return True


# -- whether others use it -------------------------------------------------------------------------


def _in_use(path: Path) -> bool:
    if path.name == "cluster":
        return _cluster_runs(path)
    return any(_database_in_use(one) for one in _databases(path))


def _databases(path: Path) -> Iterator[Path]:
    if path.suffix == ".sqlite":
        yield path
    elif path.name == "indexes" and path.is_dir():
        yield from sorted(path.glob("*.sqlite"))


def _database_in_use(path: Path) -> bool:
    """Whether another process has a database open; where none has, its log is folded into it."""
    try:
        connection = sqlite3.connect(path, timeout=0.2, isolation_level=None)
    except sqlite3.Error:
        return False
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    finally:
        connection.close()
    return False


def _cluster_runs(folder: Path) -> bool:
    """Whether a coordinator or the broker it left behind runs over a folder."""
    try:
        pid = int((folder / "broker" / "broker.pid").read_text().strip())
        os.kill(pid, 0)
        return True
    except (OSError, ValueError):
        pass
    if not (folder / ".lock").exists():
        return False
    with FileLock(folder / ".lock").exclusive(0.0) as alone:
        return not alone


# -- moving ----------------------------------------------------------------------------------------


def _move(old: Path, new: Path) -> bool:
    """Move one item; whether it had to be copied, and the old one is still there."""
    if old.is_symlink():  # a person's own: to a larger disk
        target = old.resolve()
        staged = _staging(new)
        os.symlink(target, staged, target_is_directory=target.is_dir())
        os.replace(staged, new)
        with contextlib.suppress(OSError):
            old.unlink()
        return False
    log_file = old.with_name(old.name + "-wal")
    try:
        if log_file.exists():  # a log that could not be folded in goes with its database
            raise OSError(errno.EXDEV, "it is copied")
        os.rename(old, new)
        return False
    except OSError as error:
        if error.errno not in _ELSEWHERE or (
            sys.platform == "win32" and error.errno != errno.EXDEV
        ):
            raise
    staged = _staging(new)
    try:
        if old.is_dir():
            shutil.copytree(old, staged, symlinks=True)
        else:
            shutil.copy2(old, staged)
            if log_file.exists():
                shutil.copy2(log_file, staged.with_name(staged.name + "-wal"))
                _database_in_use(staged)  # folds the log in
        _make_writable(staged)
        _flush(staged)
        os.rename(staged, new)
    except BaseException:
        _remove(staged)
        raise
    return True


def _move_back(old: Path, new: Path, copied: Sequence[str], moved: Sequence[str]) -> None:
    """All of it at the old place again, which is used on: a copy left here would soon be stale."""
    for name in copied:
        _remove(new / name)
    for name in moved:
        with contextlib.suppress(OSError):
            os.rename(new / name, old / name)


def _staging(new: Path) -> Path:
    return new.with_name(f"{_STAGING}{secrets.token_hex(6)}-{new.name}")


def _clear_staging(folder: Path) -> None:
    """What a process that died left half copied; nobody else copies now."""
    for path in folder.glob(f"{_STAGING}*"):
        _remove(path)


def _make_writable(path: Path) -> None:
    """Copies of read-only files and folders are ours to write."""
    for folder, _, names in os.walk(path):
        for one in (folder, *(os.path.join(folder, name) for name in names)):
            if not os.path.islink(one):
                os.chmod(one, os.stat(one).st_mode | 0o600 | (0o100 if one == folder else 0))
    if path.is_file():
        path.chmod(path.stat().st_mode | 0o600)


def _flush(path: Path) -> None:
    """To the disk, before the old copy may go."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    for file in files:
        with contextlib.suppress(OSError), file.open("rb") as opened:
            os.fsync(opened.fileno())


def _remove(path: Path) -> None:
    """As far as the system lets us."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    for one in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        with contextlib.suppress(OSError):
            one.unlink()


# -- paths that are written down -------------------------------------------------------------------


def _rewrite_paths(old: Path, new: Path) -> None:
    """Jobs, indexes and lists of runs name files of the server by their whole path."""
    places = {str(old.absolute() / "server"), str((old / "server").resolve())}
    places |= {str(old.resolve() / "server")}
    target = str(new.absolute() / "server")
    for place in sorted(places - {target}):
        with contextlib.suppress(sqlite3.Error):  # a damaged file is told of where it is used
            _rewrite_jobs(new / "jobs.sqlite", place, target)
        for index in sorted((new / "indexes").glob("*.sqlite")):
            with contextlib.suppress(sqlite3.Error):
                _rewrite_index(index, place, target)
        _rewrite_runs(new / "runs", place, target)


def _rewrite_jobs(path: Path, old: str, new: str) -> None:
    if not path.is_file():
        return
    columns = (("jobs", ("arguments", "progress", "result")), ("events", ("data",)))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for end in (os.sep, '"'):
            was, now = _in_json(old, end), _in_json(new, end)
            for table, names in columns:
                for name in names:
                    connection.execute(
                        f"UPDATE {table} SET {name} = replace({name}, ?1, ?2)"
                        f" WHERE instr({name}, ?1)",
                        (was, now),
                    )
        connection.execute("COMMIT")


def _in_json(path: str, end: str) -> str:
    """A path at the beginning of a text as JSON holds it, with the separator or quote behind it."""
    if end == '"':
        return json.dumps(path)
    return json.dumps(path + end)[:-1]


def _rewrite_index(path: Path, old: str, new: str) -> None:
    was, now = os.fsencode(old + os.sep), os.fsencode(new + os.sep)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for table in ("files", "roots", "excluded"):
            rows = connection.execute(
                f"SELECT path FROM {table} WHERE substr(path, 1, ?) = ?", (len(was), was)
            ).fetchall()
            connection.executemany(
                f"UPDATE OR REPLACE {table} SET path = ? WHERE path = ?",
                [(now + bytes(one)[len(was) :], one) for (one,) in rows],
            )
        connection.execute("COMMIT")


def _rewrite_runs(folder: Path, old: str, new: str) -> None:
    import hashlib

    for path in folder.glob("*.json"):
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            place = str(told["folder"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if not place.startswith(old + os.sep):
            continue
        told["folder"] = new + place[len(old) :]
        # A run's name is made of its folder.
        name = "r" + hashlib.sha256(os.fsencode(told["folder"])).hexdigest()[:15]
        with contextlib.suppress(OSError):
            files.write_atomic(folder / f"{name}.json", json.dumps(told))
            path.unlink()
