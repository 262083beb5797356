"""A clerk's tasks that look after indexes: what there is, what is in one, taking out for good."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.index import IndexRequest, open_forget, status_to_json
from anyrig.cli.clerk import ClerkRoom
from anyrig.cli.clerk_search import closed
from anyrig.errors import AnyrigError, InvalidInputError, StorageError

if TYPE_CHECKING:
    from anyrig.documents.index.forget import Removed
    from anyrig.documents.index.rows import Known


def indexes(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Every index with its figures; one that cannot be read is named with what is wrong."""
    from anyrig.documents.index.database import names, path_of
    from anyrig.documents.index.status import status

    folder = room.context.folders.indexes
    found, failed = [], []
    for name in names(folder):
        try:
            told = status_to_json(status(path_of(folder, name)))
            told["failed"] = told["failed"][: arguments.get("limit", 100)]
            found.append(told)
        except AnyrigError as error:
            failed.append({"name": name, "error": error.message, "hint": error.hint})
    return {"indexes": found, "failed": failed}


def files(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The files of an index, in order of their paths: `index`, `start`, `limit`."""
    known = _known(_path(room, arguments["index"]))
    start = arguments["start"]
    some = known[start : start + arguments["limit"]]
    return {
        "total": len(known),
        "files": [
            {"file": os.fsdecode(name), "size": one.stamp.size, "ocr_pages": one.num_ocr,
             "error": one.error, "hint": one.hint}
            for name, one in some
        ],
    }  # fmt: skip


def uploads(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Ids of the files that were sent and that some index holds.

    One that cannot be read is an error: nobody knows what it holds.
    """
    from anyrig.documents.index.database import names, path_of

    folder = room.context.folders.indexes
    found: set[str] = set()
    for name in names(folder):
        files = [Path(os.fsdecode(one)) for one, _ in _known(path_of(folder, name))]
        found |= {file.name.partition(".")[0] for file in files if _sent(room, file)}
    return {"uploads": sorted(found)}


def close(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Let go of an index, before another clerk overwrites what was in it."""
    closed(room, arguments["index"])
    return {}


def remove(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Take files or folders out of an index for good, with what is kept of them elsewhere."""
    path = _path(room, arguments["index"])
    closed(room, arguments["index"])
    files = [Path(os.fsdecode(name)) for name, _ in _known(path)]
    uploads = {f"upload:{file.stem}": file for file in files if _sent(room, file)}
    named = []
    for word in arguments["files"]:
        if word.startswith("upload:") and word not in uploads:
            raise InvalidInputError(
                f"{word} is not in the index", hint="Look at the files of the index."
            )
        named.append(uploads.get(word) or Path(word))
    return _plain(room, path, _removed(room, path, named))


def delete(room: ClerkRoom, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Delete an index for good, with the vectors and pages that are kept of its texts."""
    from anyrig.documents.index.database import alone
    from anyrig.documents.index.folders import delete_index
    from anyrig.documents.index.status import status

    path = _path(room, arguments["index"])
    closed(room, arguments["index"])
    try:
        with alone(path):
            pass
    except StorageError as error:  # somebody is filling it: told before anything is taken out
        return {"busy": error.message}
    found = status(path)
    told: dict[str, Any] = {
        "files": [], "passages": 0, "kept": 0, "clean": True, "elsewhere": [],
    }  # fmt: skip
    if found.roots:
        told = _plain(room, path, _removed(room, path, [root for root, _ in found.roots]))
    delete_index(path)
    return told


def _path(room: ClerkRoom, name: str) -> Path:
    from anyrig.documents.index.database import names, path_of

    folder = room.context.folders.indexes
    path = path_of(folder, name)
    if not path.is_file():
        known = ", ".join(names(folder))
        raise InvalidInputError(
            f"there is no index {name!r}",
            hint=f"There are: {known}." if known else "A job of the kind index makes one.",
        )
    return path


def _known(path: Path) -> list[tuple[bytes, Known]]:
    """The files of an index by their paths."""
    from anyrig.documents.index import rows, schema
    from anyrig.documents.index.database import translated

    with translated(path):
        connection = schema.connect_to_read(path)
        try:
            return sorted(rows.known(connection).items())
        finally:
            connection.close()


def _sent(room: ClerkRoom, file: Path) -> bool:
    """Whether a file of an index is one that was sent to the server."""
    return file.is_relative_to(room.context.folders.server.resolve())


def _removed(room: ClerkRoom, path: Path, named: list[Path]) -> Removed:
    from anyrig.documents.index.folders import remove_files

    with open_forget(room.context.rig, IndexRequest(), path, lambda event: None) as forget:
        return remove_files(path, named, forget)


def _plain(room: ClerkRoom, path: Path, removed: Removed) -> dict[str, Any]:
    return {
        "files": [str(one) for one in removed.files], "passages": removed.num_texts,
        "kept": removed.num_cached, "clean": removed.clean,
        "elsewhere": _elsewhere(room, path, removed.files),
    }  # fmt: skip


def _elsewhere(room: ClerkRoom, path: Path, files: Iterable[Path]) -> list[str]:
    """Those of some files that were sent and that another index holds too."""
    from anyrig.documents.index.database import names, path_of

    sent = {os.fsencode(file): str(file) for file in files if _sent(room, file)}
    folder = room.context.folders.indexes
    found: set[str] = set()
    for other in (path_of(folder, name) for name in names(folder)) if sent else ():
        if other != path:
            with suppress(AnyrigError):  # one that cannot be read names nothing
                found |= {sent[name] for name, _ in _known(other) if name in sent}
    return sorted(found)
