"""Files that are derived from others at some cost: optimised graphs, tables to search in.

They save a process the work of an earlier one, and nothing else depends on them: a file that is
missing, damaged or another user's is derived again, and a folder that cannot be written leaves
every process to do the work itself. The entry point of a process names the folder once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path

from anyrig.storage.files import open_atomic

log = logging.getLogger(__name__)
_CHECKSUM_BYTES = 4
_MAX_VERSIONS = 4
"""Of one file: for another library, another processor. Older ones are deleted."""
_folder: Path | None = None


def set_folder(folder: Path) -> None:
    """Keep derived files in a folder, from now on; a relative one is ignored."""
    global _folder  # noqa: PLW0603 - one folder for the process
    _folder = folder if folder.is_absolute() else None


def find_path(name: str, *origins: str) -> Path | None:
    """Where a derived file is or would be; None if this process keeps none.

    Args:
        name: of what is derived, for people who look into the folder.
        origins: all that decides its contents: hashes of its sources, versions, the processor.
    """
    if _folder is None:
        return None
    digest = hashlib.sha256("\0".join(origins).encode()).hexdigest()
    return _folder / f"{name}.{digest[:32]}"


def derive(name: str, *origins: str, build: Callable[[], bytes]) -> bytes:
    """What `build` gives, or what it gave another process from the same origins."""
    path = find_path(name, *origins)
    found = read(path) if path is not None else None
    if found is not None:
        return bytes(found)
    data = build()
    if path is not None:
        write(path, data)
    return data


def read(path: Path) -> memoryview | None:
    """A derived file; None if it is missing, damaged or can be changed by other users."""
    try:
        with path.open("rb") as file:
            if not _is_own(os.fstat(file.fileno())):
                log.warning("%s belongs to another user: it is not used", path)
                return None
            data = memoryview(file.read())
    except OSError:
        return None
    body, checksum = data[:-_CHECKSUM_BYTES], bytes(data[-_CHECKSUM_BYTES:])
    if checksum != _checksum(path, body):
        log.debug("%s is damaged: it is derived again", path)
        return None
    return body


def write(path: Path, *parts: bytes | memoryview) -> None:
    """Keep a derived file, in one step; an error is not one of the caller's work."""
    try:
        with open_atomic(path) as file:
            checksum = zlib.crc32(path.name.encode())
            for part in parts:
                file.write(part)
                checksum = zlib.crc32(part, checksum)
            file.write(checksum.to_bytes(_CHECKSUM_BYTES, "little"))
        _remove_old(path)
    except OSError as error:
        log.debug("cannot write %s: %s", path, error)


def _checksum(path: Path, body: memoryview) -> bytes:
    """Of a file's name too: one that was renamed is not what its name says."""
    value = zlib.crc32(body, zlib.crc32(path.name.encode()))
    return value.to_bytes(_CHECKSUM_BYTES, "little")


def _is_own(state: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    return state.st_uid in (os.geteuid(), 0) and not state.st_mode & 0o022


def _remove_old(path: Path) -> None:
    name = path.name.rpartition(".")[0]
    versions = sorted(path.parent.glob(f"{name}.*"), key=lambda one: one.stat().st_mtime)
    for old in versions[:-_MAX_VERSIONS]:
        old.unlink(missing_ok=True)
