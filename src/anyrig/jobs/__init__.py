"""Long work that outlives its process: queued, watched, paused, cancelled, resumed.

    with JobQueue(path) as queue:
        job = queue.submit("book", {"file": "/books/alice.epub"})
        run_jobs(queue, handler)

This package stores and schedules jobs; what a kind of job means is up to the handler.
"""

from __future__ import annotations

from anyrig.jobs.job import (
    ACTIVE_STATES,
    FINISHED_STATES,
    FinishedJob,
    Job,
    JobEvent,
    JobFailure,
    JobHandler,
    JobKilledError,
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
    "FinishedJob",
    "Job",
    "JobFailure",
    "JobEvent",
    "JobHandler",
    "JobKilledError",
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
