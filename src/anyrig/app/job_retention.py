"""Which finished jobs are deleted, and their files with them.

Files of finished work are deleted by their owner, or by a limit that the settings name: an age
(`server.keep_jobs_days`), a size for each client (`server.max_jobs_gb`). Of jobs without files, a
client keeps the newest thousand that are done and the newest thousand that are not. Nothing that a
client does deletes a job of another.

A job that came over HTTP has a folder of its own below the server's data. It is renamed before the
job is deleted, so that a process that is killed in between leaves no files without an owner.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from anyrig.jobs import FinishedJob, Job, JobQueue

log = logging.getLogger(__name__)
JOBS_FOLDER = "jobs"
"""Below the server's data: a folder for each job that came over HTTP."""
OUTPUT_FOLDER, RUN_FOLDER = "out", "run"
"""Below a job's folder: what it made, and a training run with its checkpoints."""
MAX_RECORDS = 1000
_DELETED = ".deleted"
_DAY_S, _GB = 86400.0, 1e9


class Retention(NamedTuple):
    """The limits of the settings; 0 is none."""

    keep_days: float = 0.0
    max_gb: float = 0.0


def find_job_folder(data_folder: Path, arguments: Mapping[str, object]) -> Path | None:
    """Where a job's files are; None for one that did not come over HTTP."""
    folder = Path(str(arguments.get("folder") or ""))
    root = data_folder.absolute() / JOBS_FOLDER
    return folder if folder.parent == root and folder.name not in ("", ".", "..") else None


def delete_job(queue: JobQueue, data_folder: Path, job: Job) -> None:
    """Delete a job that is not running, and its files if it came over HTTP."""
    is_running = queue.get(job.id).state == "running"  # then it is refused, and needs its folder
    with _set_aside(None if is_running else find_job_folder(data_folder, job.arguments)):
        queue.delete(job.id)


def delete_old_jobs(
    queue: JobQueue, data_folder: Path, limits: Retention, now: float | None = None
) -> list[FinishedJob]:
    """Delete what exceeds the limits; returns it."""
    now = time.time() if now is None else now
    jobs = queue.list_finished()
    folders = {job.id: find_job_folder(data_folder, {"folder": job.folder}) for job in jobs}
    reasons = _find_old(jobs, limits.keep_days, now)
    reasons |= _find_large([job for job in jobs if job.id not in reasons], folders, limits.max_gb)
    surplus = _find_surplus([job for job in jobs if job.id not in reasons], folders)
    deleted = []
    for job in jobs:
        if job.id not in reasons and job.id not in surplus:
            continue
        with contextlib.suppress(_Resumed), _set_aside(folders[job.id]):
            if not queue.delete_finished(job):
                raise _Resumed
            deleted.append(job)
            if job.id in reasons:
                log.warning("deleted the job %s (%s): %s", job.id, job.kind, reasons[job.id])
    return deleted


class _Resumed(Exception):
    """A job is not finished any more."""


def _find_old(jobs: Sequence[FinishedJob], keep_days: float, now: float) -> dict[str, str]:
    if not keep_days:
        return {}
    reason = f"it ended more than {keep_days:g} days ago (server.keep_jobs_days)"
    return {job.id: reason for job in jobs if job.ended < now - keep_days * _DAY_S}


def _find_large(
    jobs: Sequence[FinishedJob], folders: Mapping[str, Path | None], max_gb: float
) -> dict[str, str]:
    """The oldest of each client whose files take too much; never the newest one."""
    if not max_gb:
        return {}
    reason = f"the files of this client's finished jobs take more than {max_gb:g} GB"
    found: dict[str, str] = {}
    for group in _group_by_client(jobs, folders).values():
        total_bytes = 0
        for number, (job, folder) in enumerate(group):
            total_bytes += _measure_bytes(folder) if folder else 0
            if number and folder and total_bytes > max_gb * _GB:
                found[job.id] = f"{reason} (server.max_jobs_gb)"
    return found


def _find_surplus(jobs: Sequence[FinishedJob], folders: Mapping[str, Path | None]) -> set[str]:
    """Jobs without files, beyond the newest ones of each client."""
    found: set[str] = set()
    for is_done in (True, False):
        some = [job for job in jobs if (job.state == "done") == is_done]
        for group in _group_by_client(some, folders).values():
            if len(group) > MAX_RECORDS:
                without = [job.id for job, folder in group if not has_results(folder)]
                found.update(without[MAX_RECORDS:])
    return found


def _group_by_client(
    jobs: Sequence[FinishedJob], folders: Mapping[str, Path | None]
) -> dict[str, list[tuple[FinishedJob, Path | None]]]:
    """By client, the newest first."""
    groups: dict[str, list[tuple[FinishedJob, Path | None]]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: job.ended, reverse=True):
        groups[job.client].append((job, folders[job.id]))
    return groups


def delete_orphaned_folders(
    queue: JobQueue, data_folder: Path, *, min_age_s: float, keep_days: float = 0.0
) -> list[Path]:
    """Delete folders of jobs that do not exist any more; returns them.

    Results without a job are kept, unless they are too old: `jobs.sqlite` may have been lost.
    """
    root = data_folder / JOBS_FOLDER
    if not root.is_dir():
        return []
    now = time.time()
    old = [one for one in root.iterdir() if one.is_dir() and now - _mtime(one) > min_age_s]
    known = {os.path.realpath(one) for one in queue.list_folders()} if old else set()
    orphaned = []
    for folder in old:
        if os.path.realpath(folder) in known:
            continue
        is_expired = keep_days and now - _mtime(folder) > keep_days * _DAY_S
        if folder.name.endswith(_DELETED) or is_expired or not has_results(folder):
            shutil.rmtree(folder, ignore_errors=True)
            orphaned.append(folder)
    return orphaned


def has_results(folder: Path | None) -> bool:
    """Whether a job has made anything, finished or not."""
    if folder is None:
        return False
    return any(
        names for name in (OUTPUT_FOLDER, RUN_FOLDER) for _, _, names in os.walk(folder / name)
    )


@contextmanager
def _set_aside(folder: Path | None) -> Iterator[None]:
    """Delete a folder at the end of the block; if it fails, the folder is as it was."""
    if folder is None or not folder.is_dir():
        yield
        return
    aside = folder.with_name(f"{folder.name}{_DELETED}")
    os.rename(folder, aside)
    try:
        yield
    except BaseException:
        os.rename(aside, folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _measure_bytes(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _mtime(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # deleted in the meantime
        return time.time()
