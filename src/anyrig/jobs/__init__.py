"""Long work that outlives its process: queued, watched, paused, cancelled, found again.

    jobs = LocalJobs(path)
    job = jobs.submit("book", {"file": "/books/alice.epub"})
    work(jobs, run)

`run` is handed in: this room keeps and schedules jobs, and knows none of them.
"""

from __future__ import annotations

from anyrig.jobs.job import (
    ACTIVE,
    ENDED,
    Event,
    Job,
    JobNotFoundError,
    Jobs,
    Listing,
    Plain,
    Run,
    State,
    Stop,
    Stopped,
    Tell,
    Trouble,
)
from anyrig.jobs.local import LocalJobs
from anyrig.jobs.work import work

__all__ = [
    "ACTIVE",
    "ENDED",
    "Event",
    "Job",
    "Jobs",
    "Listing",
    "LocalJobs",
    "JobNotFoundError",
    "Plain",
    "Run",
    "State",
    "Stop",
    "Stopped",
    "Tell",
    "Trouble",
    "work",
]
