"""Long work that outlives its process: queued, watched, paused, cancelled, resumed.

    with JobQueue(path) as queue:
        job = queue.submit("book", {"file": "/books/alice.epub"})
        run_jobs(queue, function)

The function is passed in: this package stores and schedules jobs, and knows no kind of them.
"""

from __future__ import annotations

from anyrig.jobs.job import (
    ACTIVE_STATES,
    FINISHED_STATES,
    Job,
    JobError,
    JobEvent,
    JobFunction,
    JobNotFoundError,
    JobPage,
    JobState,
    JobStopped,
    ReportEvent,
    StopRequest,
    StopSignal,
)
from anyrig.jobs.queue import JobQueue
from anyrig.jobs.runner import run_jobs

__all__ = [
    "ACTIVE_STATES",
    "FINISHED_STATES",
    "Job",
    "JobError",
    "JobEvent",
    "JobFunction",
    "JobNotFoundError",
    "JobPage",
    "JobQueue",
    "JobState",
    "JobStopped",
    "ReportEvent",
    "StopRequest",
    "StopSignal",
    "run_jobs",
]
