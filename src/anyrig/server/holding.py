"""Which uploads somebody still needs: jobs that wait, rest or run read them when they begin again.

A job could have a link of its own to each file instead. But `DELETE /uploads/{id}` says that a file
is gone for good, and an index remembers the paths of its files: so it is refused while a job needs
the file, and whoever wants it gone cancels the job first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from anyrig.app.access import find_upload
from anyrig.jobs import ACTIVE_STATES
from anyrig.server.errors import Problem

if TYPE_CHECKING:
    from anyrig.app.access import Client
    from anyrig.jobs import Job
    from anyrig.server.state import ServerState
    from anyrig.server.uploads import Upload

USES = "uses"
"""Among a job's arguments: ids of the uploads that it reads while it runs."""


def holders(server: ServerState) -> dict[str, Job]:
    """The job that needs each upload, by the upload's id."""
    found: dict[str, Job] = {}
    for job in server.jobs.list(states=ACTIVE_STATES):
        uses = job.arguments.get(USES)
        if isinstance(uses, list):
            found |= {str(upload): job for upload in uses}
    return found


def deleted(server: ServerState, client: Client, upload_id: str) -> Upload:
    """Delete an upload of a client that nobody needs; a problem of 409 else."""
    with server.uploads.job_lock:
        upload = find_upload(server, client, upload_id)
        job = holders(server).get(upload.id)
        if job is not None and not client.may_see(job.client):
            raise Problem(409, "a job that is not over needs this file", hint="Try again later.")
        if job is not None:
            raise Problem(
                409, f"a {job.kind} job that is {job.state} needs this file",
                hint=f"Wait for it, or cancel it: POST /jobs/{job.id}/cancel.", job=job.id,
            )  # fmt: skip
        return server.uploads.delete(upload.id)


def unneeded(server: ServerState, upload_ids: Collection[str]) -> list[str]:
    """Delete those that no job needs; which they were."""
    with server.uploads.job_lock:
        held = holders(server) if upload_ids else {}
        gone = [one for one in upload_ids if one not in held]
        for one in gone:
            server.uploads.delete(one)
    return gone
