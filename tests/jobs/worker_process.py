"""A process that works on a queue, for tests that kill it: `worker_process.py FILE FOLDER LEASE_S`.

Each job takes as many steps as it says, and holds a lock that the system releases when the process
dies: two processes on one job are noticed.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path
from typing import IO

from anyrig.jobs import Job, JobQueue, ReportEvent, StopSignal, run_jobs
from anyrig.storage.keys import JsonValue


def check_alone(lock: IO[str], found: Path) -> None:
    """Leave a file behind when another process has the lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found.touch()


def main(file: str, folder_name: str, lease_s: str) -> None:
    folder = Path(folder_name)

    def do(job: Job, report: ReportEvent, stop: StopSignal) -> JsonValue:
        lock = (folder / f"{job.id}.lock").open("w")  # noqa: SIM115 - closed below, or by the system
        check_alone(lock, folder / "twice")
        steps = int(str(job.arguments["steps"]))
        for step in range(steps):
            stop.raise_if_set()
            report("progress", {"done": step / steps})
            time.sleep(0.01)
        with (folder / "log").open("a") as log:  # one write: whole lines from all processes
            log.write(f"{job.id}\n")
        lock.close()
        return {"pid": os.getpid()}

    with JobQueue(Path(file), lease_s=float(lease_s)) as queue:
        run_jobs(queue, do, max_parallel=2, until_empty=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
