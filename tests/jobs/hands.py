"""A process that works a queue, for tests that kill it: `python hands.py FILE FOLDER LEASE_S`.

Each job takes as long as it says, in steps, and holds a lock that the system frees for the dead:
two at once are found out.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path
from typing import IO

from anyrig.jobs import Job, LocalJobs, Plain, Stop, Tell, work


def alone(lock: IO[str], found: Path) -> None:
    """Leaves a file behind when another has the lock."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found.touch()


def main(file: str, folder: str, lease_s: str) -> None:
    place = Path(folder)

    def run(job: Job, tell: Tell, stop: Stop) -> Plain:
        lock = (place / f"{job.id}.lock").open("w")  # noqa: SIM115 - closed below, or by the system
        alone(lock, place / "twice")
        steps = int(str(job.arguments["steps"]))
        for step in range(steps):
            stop.check()
            tell("progress", {"done": step / steps})
            time.sleep(0.01)
        with (place / "log").open("a") as log:  # one write: whole lines from all processes
            log.write(f"{job.id}\n")
        lock.close()
        return {"pid": os.getpid()}

    with LocalJobs(Path(file), lease_s=float(lease_s)) as jobs:
        work(jobs, run, num_at_once=2, until_empty=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
