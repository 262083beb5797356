"""A process that works on a queue, for tests that kill it: `worker_process.py FILE FOLDER`.

Each job takes as many steps as it says, and holds a lock that the system releases when the process
dies: two processes on one job are noticed. It begins when as many processes as it says have come,
and ends when the file it names is there. The clocks are ahead by what the file `ahead` says.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import IO

from anyrig.jobs import Job, JobQueue, JobStopped, ReportEvent, StopSignal, run_jobs
from anyrig.jobs import job as job_module
from anyrig.jobs import runner as runner_module
from anyrig.storage.keys import JsonValue

LEASE_S = 600.0
"""Longer than any machine keeps a process waiting."""


def check_alone(lock: IO[str], found: Path) -> None:
    """Leave a file behind when another process has the lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found.touch()


def main(file: str, folder_name: str) -> None:
    folder = Path(folder_name)

    def ahead_s() -> float:
        path = folder / "ahead"
        return float(path.read_text()) if path.exists() else 0.0

    clock = SimpleNamespace(
        monotonic=lambda: time.monotonic() + ahead_s(), time=lambda: time.time() + ahead_s()
    )
    job_module.time = runner_module.time = clock  # type: ignore[assignment, attr-defined]

    def do(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
        try:
            return work(job, report, stop)
        except JobStopped:
            (folder / f"{os.getpid()}.stopped").touch()
            raise

    def work(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
        lock = (folder / f"{job.id}.lock").open("w")  # noqa: SIM115 - closed below, or by the system
        check_alone(lock, folder / "twice")
        (folder / f"{os.getpid()}.here").touch()
        while len(list(folder.glob("*.here"))) < int(str(job.arguments.get("processes", 1))):
            time.sleep(0.01)
        steps = int(str(job.arguments["steps"]))
        for step in range(steps):
            stop.raise_if_set()
            report("progress", {"done": step / steps})
            time.sleep(0.01)
        while not (folder / str(job.arguments.get("until", ""))).exists():
            stop.raise_if_set()
            time.sleep(0.01)
        with (folder / "log").open("a") as log:  # one write: whole lines from all processes
            log.write(f"{job.id}\n")
        lock.close()
        return {"pid": os.getpid()}

    with JobQueue(Path(file), clock=clock.time, lease_s=LEASE_S) as queue:
        run_jobs(queue, do, max_parallel=2, until_empty=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
