"""Files that are written whole or not at all, private files, JSON files of a version, locks between
processes.

What is below the folders that anyrig keeps for a user is for that user alone: texts, books, caches.
This module decides so, by `set_private`; everything else follows the umask.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_UNIQUE = re.compile(r"[0-9a-f]{12}")
_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{12}", re.DOTALL)
_MIN_AGE_S = 0.2
"""A temporary file is locked right after it is created, not as it is created."""
_STALE_S = 3600.0
_POLL_S = 0.01
_MAX_FOLDERS = 1000
PRIVATE_UMASK = 0o077
_OTHERS = 0o077
_ENVIRONMENTS = "environments"
_private: set[str] = set()
_leftovers: dict[Path, tuple[float, Sequence[str]]] = {}
"""When the temporary files of a folder were looked up, and their names."""


# -- private folders -------------------------------------------------------------------------------


def set_private(*folders: Path) -> None:
    """Keep everything below some folders to this user, from now on.

    What an earlier version left for others to read is closed, once: a folder of 0700 was closed
    before. Virtual environments below it are only closed as a whole.
    """
    for folder in folders:
        root = os.path.abspath(folder)
        _private.add(root)
        with suppress(OSError):
            if sys.platform != "win32" and os.stat(root).st_mode & _OTHERS:
                _close_tree(root)


def is_private(path: Path | str) -> bool:
    """Whether a file or folder is below one of the private folders, or is one."""
    place = os.path.abspath(path)
    while place not in _private:
        parent = os.path.dirname(place)
        if parent == place:
            return False
        place = parent
    return True


def make_folder(path: Path) -> None:
    """Create a folder and its parents where they are missing."""
    if is_private(path.parent):
        make_folder(path.parent)
    path.mkdir(mode=0o700 if is_private(path) else 0o777, parents=True, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open(..., opener=opener)`: a new file is private where its folder is."""
    return os.open(path, flags, 0o600 if is_private(path) else 0o666)


def create_private(path: Path | str) -> None:
    """Create a file for this user alone, wherever it is, unless it exists.

    One that exists is not opened: closing it would end all locks that this process has on it, and
    SQLite's are such locks.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def close_file(path: Path) -> None:
    """Take permissions of others from a file of this user."""
    with suppress(OSError):
        state = os.lstat(path)
        if state.st_mode & _OTHERS and stat.S_ISREG(state.st_mode) and sys.platform != "win32":
            os.chmod(path, state.st_mode & 0o700)


def _close_tree(root: str) -> None:
    """The root last: a process that is killed leaves it open, and the next one begins again."""
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != _ENVIRONMENTS]
        for name in names:
            close_file(Path(place, name))
        if place != root:
            with suppress(OSError):
                os.chmod(place, 0o700)
    os.chmod(root, 0o700)


# -- writing ---------------------------------------------------------------------------------------


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace a file in one step: readers see the old file or the new one, never a part."""
    with open_atomic(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def open_atomic(path: Path) -> Iterator[BinaryIO]:
    """A binary file that replaces `path` when the block succeeds, and is deleted otherwise.

    Temporary files that a killed process left for the same path are removed. A device or a pipe,
    such as /dev/stdout, is written to, not replaced.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        with open(path, "wb") as file:
            yield file
        return
    make_folder(path.parent)
    _remove_leftovers(path)
    name = path.parent / f".{path.name}.{os.urandom(6).hex()}"
    # Not mkstemp: its files are for their owner alone, and these may be served or sent on.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = opener(str(name), flags)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            _try_lock(descriptor)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files that no process is writing; without locks, those that are old."""
    prefix, now = f".{path.name}.", time.time()
    for name in _find_leftovers(path.parent):
        if not name.startswith(prefix) or not _UNIQUE.fullmatch(name, len(prefix)):
            continue
        found = path.parent / name
        with suppress(OSError):
            state = found.lstat()
            age_s = now - state.st_mtime
            if age_s > _MIN_AGE_S and stat.S_ISREG(state.st_mode):
                with found.open("rb") as file:
                    is_free = _try_lock(file.fileno())
                if is_free or (is_free is None and age_s > _STALE_S):
                    found.unlink()


def _find_leftovers(folder: Path) -> Sequence[str]:
    """Names in a folder that may be those of temporary files.

    Looked up when this process first writes there and then once an hour: reading a folder of
    20,000 files takes longer than writing one.
    """
    folder = folder.absolute()
    now, known = time.monotonic(), _leftovers.get(folder)
    if known is None or now > known[0] + _STALE_S:
        names: list[str] = []
        with suppress(OSError), os.scandir(folder) as entries:
            names = [one.name for one in entries if _TEMPORARY.fullmatch(one.name)]
        if len(_leftovers) >= _MAX_FOLDERS:
            _leftovers.clear()
        _leftovers[folder] = known = now, names
    return known[1]


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where the file is missing or holds anything else."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def read_versioned(path: Path, version: int) -> dict[str, Any]:
    """What `write_versioned` wrote; empty where the file is missing, damaged or of another version.

    For what can be measured or computed again.
    """
    data = read_json(path)
    return data if data.pop("format", None) == version else {}


def write_versioned(path: Path, version: int, data: Mapping[str, Any]) -> None:
    """Replace a JSON file by an object and the version of its format."""
    write_atomic(path, json.dumps({"format": version, **data}, indent=1) + "\n")


@contextmanager
def lock_file(path: Path, wait_s: float) -> Iterator[bool]:
    """Hold a lock between processes, which the system releases when a process dies.

    Yields whether it was acquired in time; also True where the folder cannot be written or the
    drive has no locks. `filelock` does the same, but takes 15 ms to import, in every worker.

    Args:
        path: a file for the lock alone; it is created, and stays.
        wait_s: how long to wait for another process.
    """
    try:
        descriptor = opener(str(path), os.O_RDWR | os.O_CREAT)
    except OSError:
        yield True
        return
    _lock_descriptors.add(descriptor)
    try:
        end = time.monotonic() + wait_s
        while (acquired := _try_lock(descriptor)) is False and time.monotonic() < end:
            time.sleep(_POLL_S)
        yield acquired is not False
    finally:
        if descriptor in _lock_descriptors:
            _lock_descriptors.discard(descriptor)
            os.close(descriptor)


_lock_descriptors: set[int] = set()


def _close_locks_of_parent() -> None:
    """A lock is released when every copy of its descriptor is closed: a child that outlives a
    killed parent, such as a worker that reads data, must not hold it.
    """
    for descriptor in _lock_descriptors:
        os.close(descriptor)
    _lock_descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_locks_of_parent)


def _try_lock(descriptor: int) -> bool | None:
    """Whether this process has the lock now; None where the drive has no locks."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter on Windows
        return False
    except OSError:
        return None
    return True
