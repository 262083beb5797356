"""The queue of jobs, worked beside the requests: each job's command in a process of its own.

    with working(server):
        ...

A server that is killed leaves its jobs to the next one: a lease that nobody renews is free. What a
job made lies in a folder of its own; folders of jobs that are forgotten are taken away.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anyrig.errors import StorageError
from anyrig.jobs import JobQueue, run_jobs
from anyrig.server.state import ServerState

log = logging.getLogger(__name__)
FOLDER = "jobs"
"""Below the server's data: a folder for each job that came over HTTP."""
_AGAIN_S = 5.0
_SWEEP_S = 3600.0
_LEAVE_S = 12.0  # a little longer than those who are told to stop are waited for


@contextmanager
def working(server: ServerState) -> Iterator[None]:
    """Work the queue from now until the end of the block; nothing where jobs are left to others."""
    if server.job_handler is None or not isinstance(server.jobs, JobQueue):
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_work, args=(server, stop), name="queue of jobs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_LEAVE_S)
        if thread.is_alive():  # its lease runs out, and the next server takes the job
            log.warning("a job did not stop in time; it goes on at the next start")


def _work(server: ServerState, stop: threading.Event) -> None:
    """A file that cannot be used for a while must not end the server's work for good."""
    assert server.job_handler is not None
    assert isinstance(server.jobs, JobQueue)
    threading.Thread(target=_sweeping, args=(server, stop), daemon=True).start()
    while not stop.is_set():
        try:
            run_jobs(
                server.jobs,
                server.job_handler,
                max_parallel=server.settings.jobs_at_once,
                stop=stop,
            )
        except StorageError as error:
            log.warning("the queue of jobs rests for %.0f s: %s", _AGAIN_S, error.message)
        except Exception:
            log.exception("the queue of jobs rests for %.0f s", _AGAIN_S)
        stop.wait(_AGAIN_S)


def _sweeping(server: ServerState, stop: threading.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(StorageError, OSError):
            sweep(server)
        stop.wait(_SWEEP_S)


def sweep(server: ServerState, *, older_than_s: float = _SWEEP_S) -> list[Path]:
    """Take away folders whose job is not there any more; those that were."""
    root = server.data_folder / FOLDER
    before = time.time() - older_than_s
    if not root.is_dir():
        return []
    there = [one for one in root.iterdir() if one.is_dir() and one.stat().st_mtime < before]
    known = {str(job.arguments.get("folder")) for job in server.jobs.list()}
    gone = [one for one in there if str(one.absolute()) not in known]
    for folder in gone:
        shutil.rmtree(folder, ignore_errors=True)
    return gone
