"""The server's view of a cluster: looked at every two seconds, told to everybody who asks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from anyrig.cli import fleet
from anyrig.cli.context import Context
from anyrig.errors import AnyrigError
from anyrig.server.errors import Problem

if TYPE_CHECKING:
    from anyrig.app.models import ModelCache
    from anyrig.jobs import JobQueue

log = logging.getLogger(__name__)
_LOOK_S = 2.0
_WARN_S = 300.0
"""How often it is looked at who else can reach the broker."""


def made(context: Context, stack: ExitStack, models: ModelCache) -> WatchedCluster | None:
    """The part; none without `--cluster`."""
    url = fleet.url_of(context)
    if not url:
        return None
    cluster = WatchedCluster(url)
    stack.callback(cluster.close)
    return cluster


def jobs_of(context: Context) -> JobQueue:
    """This user's jobs; with `--cluster` those that can be are spread."""
    from anyrig.jobs import JobQueue

    if not fleet.url_of(context):
        return JobQueue(context.folders.jobs)
    from anyrig.cluster.jobs import CeleryJobs

    path = context.folders.jobs
    return CeleryJobs(path)


def environment(context: Context) -> dict[str, str]:
    """What tells a job's command which broker is meant; not its command line, which all can see."""
    url = fleet.url_of(context)
    return {"ANYRIG_CLUSTER_BROKER": url} if url else {}


class WatchedCluster:
    """Fits `server.parts.Cluster`. One thread asks the broker; everybody else reads what it saw."""

    def __init__(self, url: str) -> None:
        from anyrig.cli.cluster_link import needs_celery
        from anyrig.cluster.link import Link, shown

        needs_celery()
        self._link = Link(url)
        self._shown = shown(self._link.url)
        self._last: dict[str, Any] = self._told("starting", "")
        self._warnings: list[str] = []
        self._end, self._wake = threading.Event(), threading.Event()
        self._seen = threading.Condition()
        self._count = 0
        self._thread = threading.Thread(target=self._look, name="anyrig-cluster", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._end.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._link.close()

    def now(self) -> Mapping[str, Any]:
        """How it was when last looked at."""
        return self._last

    def drain(self, name: str, *, on: bool) -> Mapping[str, Any]:
        """Let a worker finish and leave, or take that back; how it is after it."""
        from anyrig.cluster.card import Roll

        self._check(name)
        Roll(self._link).drain(name, on=on)
        return self._looked()

    def forget(self, name: str) -> Mapping[str, Any]:
        """Take a lost worker off the list."""
        from anyrig.cluster import status

        if self._check(name)["status"] != status.LOST:
            raise Problem(
                409, f"{name} is there and would come back by itself", hint="Drain it first."
            )
        status.forget(self._link, name)
        return self._looked()

    def _check(self, name: str) -> Mapping[str, Any]:
        for row in self._last["workers"]:
            if row["name"] == name:
                found: Mapping[str, Any] = row
                return found
        raise Problem(404, f"there is no worker {name[:80]!r}", hint="GET /cluster lists them.")

    def _looked(self) -> Mapping[str, Any]:
        """A look that was begun after now."""
        with self._seen:
            wanted = self._count + 2  # one may be on its way
            self._wake.set()
            self._seen.wait_for(lambda: self._count >= wanted, timeout=_LOOK_S + 1)
        return self._last

    def _told(self, state: str, error: str, more: Mapping[str, Any] | None = None) -> Any:
        base: dict[str, Any] = {"coordinator": None, "workers": []}
        return {"broker": self._shown, "state": state, "error": error, "warnings": [],
                **base, **(more or {})}  # fmt: skip

    def _look(self) -> None:
        since = _WARN_S
        while not self._end.is_set():
            since += _LOOK_S
            self._last = self._once(warn=since >= _WARN_S)
            since = 0.0 if since >= _WARN_S and self._last["state"] == "ready" else since
            with self._seen:
                self._count += 1
                self._seen.notify_all()
            self._wake.wait(_LOOK_S)
            self._wake.clear()

    def _once(self, *, warn: bool) -> dict[str, Any]:
        from anyrig.cluster import status

        try:
            self._link.check()
            found = status.look(self._link).plain()
            if warn:
                self._warnings = status.exposed(self._link)
            found["warnings"] = self._warnings
            ready: dict[str, Any] = self._told("ready", "", found)
            return ready
        except AnyrigError as error:
            message = error.message
        except Exception as error:  # noqa: BLE001 - told, and looked at again
            message = f"{type(error).__name__}: {error}"
        if self._last["state"] != "away":
            log.warning("%s", message)
        # Who was there is not known to be gone: the rows stay as they were last seen.
        return {**self._last, "state": "away", "error": message}
