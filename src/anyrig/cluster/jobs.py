"""Jobs whose work is done by a cluster: queued on this machine, spread over all.

    jobs = CeleryJobs(path)
    job = jobs.submit("book", {"file": "/books/alice.epub"})     # its segments go to the workers

The same `jobs.Jobs` as everywhere, and the same file: `anyrig jobs` lists, pauses and cancels them.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyrig.jobs import Job, JobQueue
from anyrig.storage.keys import JsonValue

CLUSTER = "cluster"
KINDS = ("batch", "book")
"""Kinds of jobs whose work can be spread."""
NAMED = "yes"
"""The broker of the settings or the environment: a job's arguments are shown to many, and the
address of a broker has its password in it."""


class CeleryJobs(JobQueue):
    """The jobs in a file of this machine; what can be spread is spread.

    Jobs are not kept in the broker, for three reasons. A broker may forget: one without persistence
    that is started again would lose a night's queue, where it only loses shards here, which are
    given again. A job reads and writes files of this machine, so no other could do it. And takes
    that were made lie in this machine's store, so that a job that is resumed goes on where it was.

    Pause and cancel end the command of the job, which ends its run in the broker on the way out:
    the workers see that within a second and leave what they have. Were the command killed, the
    run's lease would end by itself.
    """

    def submit(self, kind: str, arguments: Mapping[str, JsonValue], *, client: str = "") -> Job:
        """A new job, queued; over the cluster where its kind can be, unless it says otherwise."""
        if kind in KINDS and arguments.get(CLUSTER) is None:
            arguments = {**arguments, CLUSTER: NAMED}
        return super().submit(kind, arguments, client=client)
