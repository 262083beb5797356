"""Jobs as the server runs them and as clients see them.

Each job runs in a process of its own, beside the requests. A server that is killed leaves its jobs
to the next one: a lease that nobody renews is free. The files of a job are in a folder of its own;
folders of deleted jobs are removed. Clients see no path of this machine; jobs of the command line
are in the same queue and are listed too, but their files are not handed out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import traceback
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from anyrig.app import job_retention
from anyrig.app.access import hide_key
from anyrig.app.job_retention import (
    OUTPUT_FOLDER,
    Retention,
    delete_old_jobs,
    delete_orphaned_folders,
)
from anyrig.app.jobs import EXTRA_FILES, get_name, get_num_more, get_requested, get_title
from anyrig.audiobooks.metadata import cut_text, make_file_name
from anyrig.errors import AnyrigError, StorageError, render_json
from anyrig.jobs import Job, JobEvent, JobNotFoundError, JobQueue, run_jobs
from anyrig.server.job_requests import LINES_FILE
from anyrig.server.state import ServerState
from anyrig.server.uploads import guess_media_type
from anyrig.storage.keys import JsonValue

log = logging.getLogger(__name__)
_RETRY_S = 5.0
_SWEEP_INTERVAL_S = 3600.0
_STOP_TIMEOUT_S = 12.0  # a little longer than jobs that are told to stop are waited for
_POLL_S = 0.3
_MAX_WAITING = 2000
_HIDDEN = ("folder", "files", *EXTRA_FILES, "run")
_MAX_FILES = 500
_MAX_LISTED = 100
_MAX_NAME_CHARACTERS = 60  # of a line's text, in the name of its file


# -- running ---------------------------------------------------------------------------------------


@contextmanager
def run_queue(server: ServerState) -> Iterator[None]:
    """Run jobs until the end of the block, unless they are left to other processes."""
    stop = threading.Event()
    threading.Thread(target=_sweep, args=(server, stop), daemon=True).start()
    if server.job_handler is None:
        try:
            yield
        finally:
            stop.set()
        return
    thread = threading.Thread(target=_work, args=(server, stop), name="job queue", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_STOP_TIMEOUT_S)
        if thread.is_alive():  # its lease expires, and the next server takes the job
            log.warning("a job did not stop in time; it continues at the next start")


def _work(server: ServerState, stop: threading.Event) -> None:
    """A file that cannot be used for a while must not end the server's work for good."""
    assert server.job_handler is not None
    while not stop.is_set():
        try:
            run_jobs(
                server.jobs,
                server.job_handler,
                max_parallel=server.settings.jobs_at_once,
                stop=stop,
            )
        except StorageError as error:
            log.warning("the job queue pauses for %.0f s: %s", _RETRY_S, error.message)
        except Exception:
            log.exception("the job queue pauses for %.0f s", _RETRY_S)
        stop.wait(_RETRY_S)


def _sweep(server: ServerState, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            delete_expired(server)
        except (StorageError, OSError) as error:
            log.warning("cannot delete old jobs: %s", error)
        stop.wait(_SWEEP_INTERVAL_S)


def delete_expired(server: ServerState, *, min_age_s: float = _SWEEP_INTERVAL_S) -> None:
    """Delete the jobs that exceed the limits of the settings, and what is left of deleted ones."""
    keep_days, max_gb = server.settings.keep_jobs_days, server.settings.max_jobs_gb
    delete_old_jobs(server.jobs, server.data_folder, Retention(keep_days, max_gb))
    delete_orphaned_folders(
        server.jobs, server.data_folder, min_age_s=min_age_s, keep_days=keep_days
    )


# -- following -------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Follower:
    """A client that follows a job."""

    job: str
    after: int
    events: asyncio.Queue[JobEvent | None] = field(default_factory=asyncio.Queue)


class JobFollower:
    """Events of jobs as they happen: one reader for all clients, however many follow.

    The file is read a few times a second for each job that somebody follows, in one thread; clients
    wait on the event loop. Nothing is read while nobody follows.
    """

    def __init__(self, jobs: JobQueue, poll_s: float = _POLL_S) -> None:
        self._jobs, self._poll_s = jobs, poll_s
        self._followers: set[_Follower] = set()
        self._task: asyncio.Task[None] | None = None
        self._logged: set[str] = set()

    async def follow(
        self, job: str, after: int = 0, *, heartbeat_s: float = 15.0
    ) -> AsyncIterator[JobEvent | None]:
        """Events after that of a number, until the job is finished; None is a heartbeat."""
        follower = _Follower(job, after)
        self._followers.add(follower)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        try:
            while True:
                try:
                    event = await asyncio.wait_for(follower.events.get(), heartbeat_s)
                except TimeoutError:
                    yield None
                    continue
                if event is None:
                    return
                yield event
        finally:
            self._followers.discard(follower)

    async def _poll(self) -> None:
        while self._followers:
            positions: dict[str, int] = {}
            for one in self._followers:
                positions[one.job] = min(one.after, positions.get(one.job, one.after))
            try:
                found = await anyio.to_thread.run_sync(self._read, positions)
            except Exception as error:  # noqa: BLE001 - else followers would wait for ever
                self._log_error(error)
                found = {}
            for one in list(self._followers):
                if one.job in found:
                    self._pass_on(one, *found[one.job])
            await asyncio.sleep(self._poll_s)

    def _read(self, positions: dict[str, int]) -> dict[str, tuple[Sequence[JobEvent], bool]]:
        """New events of each job, and whether it is finished."""
        found: dict[str, tuple[Sequence[JobEvent], bool]] = {}
        for job, after in positions.items():
            try:
                # First the state: what ends in between is seen by the next poll.
                finished = self._jobs.get(job).is_finished
                found[job] = list(self._jobs.events(job, after)), finished
            except JobNotFoundError:
                found[job] = (), True
            except StorageError:  # busy for a moment
                continue
            except Exception as error:  # noqa: BLE001 - one job must not silence all others
                self._log_error(error)
        return found

    def _log_error(self, error: Exception) -> None:
        """Once for each class: it may occur with every poll. Without texts of users."""
        kind = type(error).__name__
        if kind not in self._logged:
            self._logged.add(kind)
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("jobs cannot be followed: %s\n%s", kind, where.rstrip())

    def _pass_on(self, follower: _Follower, events: Sequence[JobEvent], finished: bool) -> None:
        if follower.events.qsize() > _MAX_WAITING:  # a client that does not read
            finished, events = True, ()
        for event in events:
            if event.number > follower.after:
                follower.after = event.number
                follower.events.put_nowait(event)
        if finished:
            self._followers.discard(follower)
            follower.events.put_nowait(None)


# -- files -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultFile:
    """A file that a job made."""

    number: int
    """From 1; of a batch it is the line's."""
    name: str
    """What it is saved as."""
    path: Path
    size: int
    type: str


def find_job_folder(server: ServerState, job: Job) -> Path | None:
    """Where a job's files are; None for one that did not come over HTTP."""
    return job_retention.find_job_folder(server.data_folder, job.arguments)


def list_files(server: ServerState, job: Job) -> list[ResultFile]:
    """The files that a job has made so far and that clients may fetch."""
    folder = find_job_folder(server, job)
    if folder is None:
        return []
    if job.kind == "batch":
        paths = (folder / OUTPUT_FOLDER).glob("*.*")
        numbered = ((int(path.stem), path) for path in paths if _is_line(path.name))
        return _describe_files(job, sorted(numbered), _read_line_texts(folder))
    result = job.result if isinstance(job.result, Mapping) else {}
    named = [
        Path(str(path)) for name in ("files", *EXTRA_FILES) for path in _list(result.get(name))
    ]
    inside = [one for path in named if _is_below(path, folder) for one in _walk(path)]
    return _describe_files(job, enumerate(inside, 1))


def _count_files(server: ServerState, job: Job) -> int:
    """How many these are; a batch may have thousands, which are not opened one by one."""
    folder = find_job_folder(server, job)
    if folder is None or job.kind != "batch":
        return len(list_files(server, job))
    try:
        with os.scandir(folder / OUTPUT_FOLDER) as found:
            return sum(_is_line(one.name) and one.is_file(follow_symlinks=False) for one in found)
    except OSError:
        return 0


def _is_line(name: str) -> bool:
    """Whether a file of a batch is one of its lines."""
    stem, dot, _ = name.rpartition(".")
    return bool(dot) and stem.isdecimal()


def _walk(path: Path) -> list[Path]:
    """A file; of a folder, such as a trained model, everything in it."""
    if not path.is_dir() or path.is_symlink():
        return [path]
    return sorted(one for one in path.rglob("*") if one.is_file())[:_MAX_FILES]


def _read_line_texts(folder: Path) -> dict[int, str]:
    """The texts of a batch, by the number of their line."""
    try:
        rows = (folder / LINES_FILE).read_text(encoding="utf-8").splitlines()
        return {number: str(json.loads(row)["text"]) for number, row in enumerate(rows, 1)}
    except (OSError, ValueError, KeyError):
        return {}


def _describe_files(
    job: Job, numbered: Iterable[tuple[int, Path]], texts: Mapping[int, str] | None = None
) -> list[ResultFile]:
    """The files of a job; those of a batch are named by the texts of their lines."""
    found = []
    for number, path in numbered:
        try:
            size = path.stat().st_size if path.is_file() and not path.is_symlink() else None
        except OSError:
            continue
        if size is not None:
            name = _choose_name(job, path)
            if texts and number in texts:
                title = make_file_name(cut_text(texts[number], _MAX_NAME_CHARACTERS))
                name = f"{path.stem} {title}{path.suffix}"
            found.append(ResultFile(number, name, path, size, guess_media_type(path)))
    return found


def _choose_name(job: Job, path: Path) -> str:
    """`book.m4b` is saved under the name of the book."""
    ending = path.name.partition(".")[2] if path.stem.startswith(("book", "transcript")) else ""
    if not ending or job.kind not in ("book", "transcribe"):
        return path.name
    requested = get_requested(job)
    title = str(requested.get("title") or "") if isinstance(requested, Mapping) else ""
    return f"{make_file_name(title or Path(get_title(job)).stem)}.{ending}"


def _is_below(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def _list(value: JsonValue) -> list[JsonValue]:
    return list(value) if isinstance(value, list) else []


# -- as JSON ---------------------------------------------------------------------------------------


def describe_job(
    server: ServerState, job: Job, *, place: int | None = None, brief: bool = False
) -> dict[str, Any]:
    """A job for clients.

    Args:
        server: of the server.
        job: as it is now.
        place: in the queue.
        brief: as one of many: without whatever is long.
    """
    hide_paths = _PathFilter(server, job)
    requested = get_requested(job)
    arguments = dict(requested) if isinstance(requested, Mapping) else _shorten_paths(job.arguments)
    result = job.result if isinstance(job.result, Mapping) else None
    if brief:
        lines = arguments.get("lines")
        arguments |= {"lines": len(lines)} if isinstance(lines, list) else {}
        result = result and {
            name: one[:_MAX_LISTED] if isinstance(one, list) else one
            for name, one in result.items()
        }
    shown = None if result is None else {n: one for n, one in result.items() if n not in _HIDDEN}
    return {
        "id": job.id, "kind": job.kind, "title": get_title(job), "state": job.state,
        "name": get_name(job), "num_more": get_num_more(job), "requested": job.stop_request,
        "created": job.created, "started": job.started, "ended": job.ended,
        "attempts": job.attempts, "arguments": arguments,
        "progress": hide_paths(job.progress),
        "error": _describe_error(job, hide_paths),
        "result": hide_paths(shown), "num_files": _count_files(server, job),
        "local": find_job_folder(server, job) is not None,
        "place": place,
    }  # fmt: skip


def _describe_error(job: Job, hide_paths: _PathFilter) -> dict[str, str] | None:
    if job.error is None:
        return None
    shown: dict[str, str] = hide_paths(job.error._asdict())
    return shown


def describe_event(server: ServerState, job: Job, event: JobEvent) -> dict[str, Any]:
    """An event for clients."""
    data = {name: one for name, one in event.data.items() if name not in ("output", *_HIDDEN)}
    return {
        "number": event.number, "time": event.time, "kind": event.kind,
        "data": _PathFilter(server, job)(data),
    }  # fmt: skip


def _shorten_paths(arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Arguments of the command line, paths as mere names."""
    found: dict[str, JsonValue] = {}
    for name, value in arguments.items():
        if name not in ("folder", "files"):
            is_path = isinstance(value, str) and Path(value).is_absolute()
            found[name] = Path(str(value)).name if is_path else value
    return found


class _PathFilter:
    """Removes this machine's paths from what a job reports, and names options as HTTP does."""

    def __init__(self, server: ServerState, job: Job) -> None:
        self._server, self._client = server, job.client
        self.is_here = find_job_folder(server, job) is not None
        requested, files = get_requested(job), _list(job.arguments.get("files"))
        given = _list(requested.get("files")) if isinstance(requested, Mapping) else []
        # One of many files has its own name; uploads are looked up only where one is named.
        self._many = dict(zip(map(str, files), map(str, given), strict=False))
        self._replaced: list[tuple[str, str]] = []
        file, title = str(job.arguments.get("file") or ""), get_name(job)
        if file and file not in self._many:
            self._replaced += [(file, title), (Path(file).name, title)]
        folder = str(job.arguments.get("folder") or "")
        if folder:
            self._replaced += [(f"{folder}/", ""), (folder, "")]
        self._replaced.append((str(server.data_folder.absolute()), ""))

    def __call__(self, value: Any) -> Any:
        return self._filter_all(render_json(value, "http" if self.is_here else "command"))

    def _filter_all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._filter(value)
        if isinstance(value, Mapping):
            return {name: self._filter_all(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._filter_all(one) for one in value]
        return value

    def _filter(self, text: str) -> str:
        for path, upload in self._many.items():
            stored = Path(path).name  # a random one: errors name a file by it alone
            if stored in text:
                name = self._find_name(upload)
                text = text.replace(path, name).replace(stored, name)
        for path, word in self._replaced:
            if path in text:
                text = text.replace(path, word)
        return hide_key(text, self._client)

    def _find_name(self, upload: str) -> str:
        try:
            return self._server.uploads.find(upload).name
        except AnyrigError:  # it was deleted
            return upload
