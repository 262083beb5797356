"""A file that is written beside its place and moved there when it is whole.

A process that is killed leaves the unfinished one behind: `clear_leftovers` is for the next run.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from anyrig.errors import AnyrigError, InvalidInputError, StorageError
from anyrig.storage.files import write_atomic

# The second form is that of `store.atomic`, which writes the small files beside a book.
_UNFINISHED = re.compile(r"(\..*\.)(?:[0-9a-f]{8}\.part|[0-9a-f]{12})", re.DOTALL)
_LOCK = "lock"


def open_part_file(path: Path) -> tuple[Path, BinaryIO]:
    """A new file in the same folder, for this process alone; what killed runs left is removed."""
    clear_leftovers(path)
    part = path.with_name(f"{_build_temporary_prefix(path)}{secrets.token_hex(4)}.part")
    raw = open(part, "xb", buffering=1 << 16)  # noqa: SIM115  # the caller closes it
    _try_lock(raw)
    return part, raw


@contextlib.contextmanager
def part_folder(path: Path) -> Iterator[Path]:
    """A folder for what a file is made of, in the same place; it is gone when the block ends."""
    clear_leftovers(path)
    folder = path.with_name(f"{_build_temporary_prefix(path)}{secrets.token_hex(4)}.part")
    folder.mkdir()
    try:
        with open(folder / _LOCK, "xb") as lock:
            _try_lock(lock)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear_leftovers(target: str | Path, *others: str | Path) -> int:
    """Remove what killed runs left beside a file, and beside others in its folder.

    What another run is still writing stays.
    """
    path = Path(os.path.realpath(target))
    mine = {
        _build_temporary_prefix(path),
        *(_build_temporary_prefix(Path(other)) for other in others),
    }
    removed = 0
    with contextlib.suppress(OSError):  # no such folder, or not ours: then nothing was left
        for found in path.parent.iterdir():
            match = _UNFINISHED.fullmatch(found.name)
            if match and match[1] in mine and _remove_if_unused(found):
                removed += 1
    return removed


def _remove_if_unused(found: Path) -> bool:
    if found.is_file():
        if _is_unused(found):
            found.unlink()
            return True
        return False
    lock = found / _LOCK
    if lock.exists():
        if not _is_unused(lock):
            return False
        lock.unlink()
    shutil.rmtree(found, ignore_errors=True)
    return True


def _build_temporary_prefix(path: Path) -> str:
    """How the names of a file's unfinished forms begin; bounded, as systems take 255 bytes."""
    name = path.name.encode("utf-8", "surrogateescape")
    if len(name) <= 200:
        return f".{path.name}."
    return f".{path.name[:40]}.{hashlib.sha256(name).hexdigest()[:12]}."


def _try_lock(raw: BinaryIO) -> bool:
    """Take the file's lock, which ends with this process; on Windows open files are safe."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(raw.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_unused(path: Path) -> bool:
    with open(path, "rb") as raw:
        return _try_lock(raw)


def write_file(path: Path, content: str | bytes) -> Path:
    """Replace a small file in one step; what goes wrong is an error for people."""
    try:
        write_atomic(path, content)
    except OSError as error:
        raise explain_write_error(error, path) from error
    return path


def explain_write_error(error: OSError, path: Path | None) -> AnyrigError | OSError:
    """What a person is told; a closed pipe stays what it is, as commands end quietly on it."""
    if isinstance(error, BrokenPipeError) or path is None:
        return error
    if isinstance(error, FileNotFoundError):
        return InvalidInputError(
            f"the folder {path.parent} does not exist", hint="Create it, or use another."
        )
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return InvalidInputError(
            f"no permission to write {path.name} in {path.parent}", hint="Use another folder."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(
            f"the disk is full: {path} was not written",
            hint="Free disk space, or write to another disk.",
        )
    return StorageError(f"{path} was not written: {error}", hint="Write it to another folder.")
