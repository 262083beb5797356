"""The server's part of a cluster: what it shows, and where its jobs go."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from anyrig.app.cluster import ClusterMonitor
from anyrig.cli import fleet
from anyrig.cli.context import Context
from anyrig.errors import InvalidInputError
from anyrig.server.problems import Problem

if TYPE_CHECKING:
    from anyrig.jobs import JobQueue
    from anyrig.server.keeper import Keeper


def made(context: Context, stack: ExitStack, keeper: Keeper) -> WatchedCluster | None:
    """The part; none without `--cluster`."""
    url = fleet.url_of(context)
    if not url:
        return None
    cluster = WatchedCluster(url)
    stack.callback(cluster.close)
    return cluster


def jobs_of(context: Context) -> JobQueue:
    """This user's jobs; with `--cluster` those that can be are spread."""
    from anyrig.cli.jobs import open_jobs

    if not fleet.url_of(context):
        return open_jobs(context)
    from anyrig.cluster.jobs import CeleryJobs

    path = context.folders.jobs
    return CeleryJobs(path)


def environment(context: Context) -> dict[str, str]:
    """What tells a job's command which broker is meant; not its command line, which all can see."""
    url = fleet.url_of(context)
    return {"ANYRIG_CLUSTER_BROKER": url} if url else {}


class WatchedCluster(ClusterMonitor):
    """Fits `server.parts.Cluster`."""

    def drain(self, name: str, *, on: bool) -> Mapping[str, Any]:
        """Let a worker finish and leave, or take that back; how it is after it."""
        self._check(name)
        return super().drain(name, on=on)

    def forget(self, name: str) -> Mapping[str, Any]:
        """Take a lost worker off the list."""
        self._check(name)
        try:
            return super().forget(name)
        except InvalidInputError as error:
            raise Problem(409, error.message, hint="Drain it first.") from error

    def _check(self, name: str) -> None:
        if not any(row["name"] == name for row in self.now()["workers"]):
            raise Problem(404, f"unknown worker {name[:80]!r}", hint="GET /cluster lists them.")
