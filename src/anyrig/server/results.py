"""A job as outsiders see it: what was asked, how far it is, what it made; no path of this machine.

Jobs of the command line are in the same queue and are listed too; their files lie elsewhere on the
machine, and are not handed out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyrig.audiobooks.names import safe_name
from anyrig.errors import AnyrigError
from anyrig.jobs import Job, JobEvent
from anyrig.server.access import hide_key
from anyrig.server.errors import format_for_http
from anyrig.server.orders import OUT
from anyrig.server.state import ServerState
from anyrig.server.uploads import guess_media_type
from anyrig.server.working import FOLDER
from anyrig.storage.keys import JsonValue

_HIDDEN = ("folder", "files", "beside", "run")
_MOST_FILES = 500
_MOST_LISTED = 100


@dataclass(frozen=True)
class MadeFile:
    """A file that a job made."""

    number: int
    """From 1. Of a batch it is the line's."""
    name: str
    """What it is saved as."""
    path: Path
    size: int
    type: str


def folder_of(server: ServerState, job: Job) -> Path | None:
    """Where a job's files lie; none for one that did not come over HTTP."""
    folder = Path(str(job.arguments.get("folder", "")))
    root = server.data_folder.absolute() / FOLDER
    return folder if folder.parent == root and folder.name not in ("", ".", "..") else None


def title_of(job: Job) -> str:
    """What it is of, in few words."""
    called = job.arguments.get("called")
    if called:
        return str(called)
    file = job.arguments.get("file")
    return Path(str(file)).name if file else job.kind


def files_of(server: ServerState, job: Job) -> list[MadeFile]:
    """What a job made so far that can be handed out."""
    folder = folder_of(server, job)
    if folder is None:
        return []
    if job.kind == "batch":
        numbered = ((int(path.stem), path) for path in (folder / OUT).glob("*.*")
                    if _is_line(path.name))  # fmt: skip
        return _made(job, sorted(numbered))
    result = job.result if isinstance(job.result, Mapping) else {}
    named = [Path(str(path)) for name in ("files", "beside") for path in _list(result.get(name))]
    inside = [one for path in named if _below(path, folder) for one in _within(path)]
    return _made(job, enumerate(inside, 1))


def _num_files(server: ServerState, job: Job) -> int:
    """How many these are; a batch may have thousands, which are not looked at one by one."""
    folder = folder_of(server, job)
    if folder is None or job.kind != "batch":
        return len(files_of(server, job))
    try:
        with os.scandir(folder / OUT) as found:
            return sum(_is_line(one.name) and one.is_file(follow_symlinks=False) for one in found)
    except OSError:
        return 0


def _is_line(name: str) -> bool:
    """Whether a file of a batch is one of its lines."""
    stem, dot, _ = name.rpartition(".")
    return bool(dot) and stem.isdecimal()


def _within(path: Path) -> list[Path]:
    """A file; of a folder, such as a trained model, all that lies in it."""
    if not path.is_dir() or path.is_symlink():
        return [path]
    return sorted(one for one in path.rglob("*") if one.is_file())[:_MOST_FILES]


def _made(job: Job, numbered: Iterable[tuple[int, Path]]) -> list[MadeFile]:
    found = []
    for number, path in numbered:
        try:
            size = path.stat().st_size if path.is_file() and not path.is_symlink() else None
        except OSError:
            continue
        if size is not None:
            found.append(MadeFile(number, _saved_as(job, path), path, size, guess_media_type(path)))
    return found


def _saved_as(job: Job, path: Path) -> str:
    """`book.m4b` of a book is saved under the book's name."""
    ending = path.name.partition(".")[2] if path.stem.startswith(("book", "transcript")) else ""
    if not ending or job.kind not in ("book", "transcribe"):
        return path.name
    asked = job.arguments.get("asked")
    title = str(asked.get("title") or "") if isinstance(asked, Mapping) else ""
    return f"{safe_name(title or Path(title_of(job)).stem)}.{ending}"


def _below(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def _list(value: JsonValue) -> list[JsonValue]:
    return list(value) if isinstance(value, list) else []


def remove_files(folder: Path | None) -> None:
    """Take a job's files away for good."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


# -- in words --------------------------------------------------------------------------------------


def shown(
    server: ServerState, job: Job, *, place: int | None = None, brief: bool = False
) -> dict[str, Any]:  # fmt: skip
    """A job for outsiders.

    Args:
        server: of the server.
        job: as it stands.
        place: in the queue.
        brief: as one of many: without whatever is long.
    """
    clean = _Clean(server, job)
    asked = job.arguments.get("asked")
    arguments = dict(asked) if isinstance(asked, Mapping) else _words(job.arguments)
    result = job.result if isinstance(job.result, Mapping) else None
    if brief:
        lines = arguments.get("lines")
        arguments |= {"lines": f"{len(lines)} lines"} if isinstance(lines, list) else {}
        result = result and {name: one[:_MOST_LISTED] if isinstance(one, list) else one
                             for name, one in result.items()}  # fmt: skip
    return {
        "id": job.id, "kind": job.kind, "title": title_of(job), "state": job.state,
        "asked": job.stop_request,
        "created": job.created, "started": job.started, "ended": job.ended,
        "attempts": job.attempts, "arguments": arguments,
        "progress": clean(job.progress), "error": _trouble(server, job),
        "result": None if result is None else
        clean({name: one for name, one in result.items() if name not in _HIDDEN}),
        "num_files": _num_files(server, job),
        "here": folder_of(server, job) is not None,
        "place": place,
    }  # fmt: skip


def _trouble(server: ServerState, job: Job) -> dict[str, str] | None:
    """Why it failed; flags are arguments for those who ordered it over HTTP."""
    if job.error is None:
        return None
    found: dict[str, str] = _Clean(server, job)(job.error._asdict())
    if folder_of(server, job) is None:
        return found
    return {name: format_for_http(text) for name, text in found.items()}


def told(server: ServerState, job: Job, event: JobEvent) -> dict[str, Any]:
    """An event for outsiders."""
    data = {name: one for name, one in event.data.items() if name not in ("output", *_HIDDEN)}
    return {"number": event.number, "time": event.time, "kind": event.kind,
            "data": _Clean(server, job)(data)}  # fmt: skip


def _words(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Arguments of the command line, paths as mere names."""
    found: dict[str, JsonValue] = {}
    for name, value in arguments.items():
        if name != "folder":
            path = isinstance(value, str) and Path(value).is_absolute()
            found[name] = Path(str(value)).name if path else value
    found.pop("files", None)
    return found


class _Clean:
    """Takes the machine's paths out of whatever a command said."""

    def __init__(self, server: ServerState, job: Job) -> None:
        self._server = server
        asked, files = job.arguments.get("asked"), _list(job.arguments.get("files"))
        given = _list(asked.get("files")) if isinstance(asked, Mapping) else []
        # One of many files is told by its own name; uploads are looked up only where one is named.
        self._many = dict(zip(map(str, files), map(str, given), strict=False))
        self._swaps: list[tuple[str, str]] = []
        file = str(job.arguments.get("file") or "")
        if file and file not in self._many:
            self._swaps.append((file, title_of(job)))
            self._swaps.append((Path(file).name, title_of(job)))
        folder = str(job.arguments.get("folder") or "")
        if folder:
            self._swaps += [(f"{folder}/", ""), (folder, "")]
        self._swaps.append((str(server.data_folder.absolute()), ""))
        self._client = job.client

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            for path, upload in self._many.items():
                kept = Path(path).name  # a random one: errors name a file by it alone
                if kept in value:
                    name = self._name(upload)
                    value = value.replace(path, name).replace(kept, name)
            for path, word in self._swaps:
                if path in value:
                    value = value.replace(path, word)
            return hide_key(value, self._client)
        if isinstance(value, Mapping):
            return {name: self(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self(one) for one in value]
        return value

    def _name(self, upload: str) -> str:
        try:
            return self._server.uploads.find(upload).name
        except AnyrigError:  # it was deleted
            return upload
