"""/cluster: the workers of the cluster, and draining them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import anyio
from anyio import to_thread
from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from anyrig.errors import AnyrigError
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.state import ServerState

log = logging.getLogger(__name__)
_POLL_S = 2.0
_EXPOSURE_S = 300.0
"""How often to check who else can reach the broker."""


class ClusterWorker(BaseModel):
    """A worker of the cluster, as it last reported."""

    name: str
    status: str = Field(description="`loading`, `ready`, `busy`, `draining` or `lost`.")
    device_type: str = Field(description="The backend of its device: `cuda`, `rocm`, `cpu`.")
    gpu_available: bool
    gpu_count: int
    gpu_memory_free_mb: int | None = Field(description="MiB; null if unknown.")
    tts_model_loaded: bool
    cached_models: list[str]
    device: str = Field(description="The name of its device.")
    host: str
    pid: int
    speed: dict[str, float] = Field(description="Measured characters per second, by engine.")
    segments_done: int
    shards_done: int
    versions: dict[str, Any] = Field(description="Of anyrig, Python, the protocol, its engines.")
    last_sign_s: float | None = Field(description="Seconds since its last heartbeat.")
    trouble: str = Field(description="Why it gets no work; empty if it does.")


class Coordinator(BaseModel):
    """The coordinator of the cluster."""

    version: str
    protocol: int
    box: str = Field(description="Where results go that are too large for the broker.")
    host: str
    pid: int
    flower: str = Field(description="The address of Flower, if it runs.")


class Cluster(BaseModel):
    """The cluster that this server uses."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "joined": True, "broker": "redis://:***@192.168.1.5:6379/0", "state": "ready",
                    "error": "", "warnings": [], "coordinator": None,
                    "workers": [
                        {"name": "attic", "status": "busy", "device_type": "cuda",
                         "gpu_available": True, "gpu_count": 1, "gpu_memory_free_mb": 21034,
                         "tts_model_loaded": True, "cached_models": ["hibari fp16"],
                         "device": "NVIDIA RTX 4090", "host": "attic", "pid": 4711,
                         "speed": {"hibari": 5120.0}, "segments_done": 812, "shards_done": 60,
                         "versions": {"anyrig": "0.1.0"}, "last_sign_s": 1.2, "trouble": ""}
                    ],
                }
            ]
        }
    )  # fmt: skip

    joined: bool = Field(description="Whether this server was started with a cluster.")
    broker: str = Field("", description="Its address, without the password.")
    state: Literal["", "starting", "ready", "away"] = ""
    error: str = Field("", description="Why the broker does not answer.")
    warnings: list[str] = Field([], description="Such as that others can reach the broker.")
    coordinator: Coordinator | None = None
    workers: list[ClusterWorker] = []


class Draining(BaseModel):
    """Whether a worker is drained."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"drain": True}]})

    drain: bool = Field(
        description="true: it finishes its work and gets no more; false: it gets work again."
    )


Name = Annotated[str, Path(min_length=1, max_length=200, description="Of the worker.")]


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["cluster"], route_class=JsonRoute)
    limiter = anyio.CapacityLimiter(2)

    async def run(call: Callable[[MonitoredCluster], Mapping[str, Any]]) -> dict[str, Any]:
        cluster = server.cluster
        if cluster is None:
            raise Problem(
                404, "this server uses no cluster",
                hint="Start it with `anyrig serve --cluster URL`.",
            )  # fmt: skip
        return {"joined": True, **await to_thread.run_sync(call, cluster, limiter=limiter)}

    @routes.get("/cluster", response_model=Cluster, summary="The workers of the cluster")
    async def show() -> Any:
        """As they were within the last seconds, lost ones too."""
        if server.cluster is None:
            return {"joined": False}
        return {"joined": True, **server.cluster.now()}

    @routes.put(
        "/cluster/workers/{name}", response_model=Cluster, summary="Drain a worker, or stop that",
        responses=problem_responses(404),
    )  # fmt: skip
    async def drain(name: Name, wanted: Draining) -> Any:
        """A drained worker finishes its work, gets no more, and leaves."""
        return await run(lambda cluster: cluster.drain(name, on=wanted.drain))

    @routes.delete(
        "/cluster/workers/{name}", response_model=Cluster, summary="Forget a lost worker",
        responses=problem_responses(404, 409),
    )  # fmt: skip
    async def forget(name: Name) -> Any:
        """Remove a worker from the list that sends no heartbeats."""
        return await run(lambda cluster: cluster.forget(name))

    return routes


class MonitoredCluster:
    """The state of a cluster. One thread asks the broker; everybody reads what it found.

    Args:
        url: of the broker.
    """

    def __init__(self, url: str) -> None:
        from anyrig.app.cluster import check_celery
        from anyrig.cluster.link import Link, shown

        check_celery()
        self._link = Link(url)
        self._broker = shown(self._link.url)
        self._last: dict[str, Any] = self._describe("starting", coordinator=None, workers=[])
        self._warnings: list[str] = []
        self._end, self._wake = threading.Event(), threading.Event()
        self._polled = threading.Condition()
        self._num_polls = 0
        self._thread = threading.Thread(target=self._poll, name="anyrig-cluster", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._link.close()

    def now(self) -> Mapping[str, Any]:
        """The fields of `Cluster`, as last seen."""
        return self._last

    def drain(self, name: str, *, on: bool) -> Mapping[str, Any]:
        """Let a worker finish and leave, or take that back; the state after it."""
        from anyrig.cluster.card import Roll

        self._find(name)
        Roll(self._link).drain(name, on=on)
        return self._refresh()

    def forget(self, name: str) -> Mapping[str, Any]:
        """Remove a lost worker from the list; the state after it."""
        from anyrig.cluster import status

        if self._find(name)["status"] != status.LOST:
            raise Problem(409, f"{name} is alive and would rejoin", hint="Drain it first.")
        status.forget(self._link, name)
        return self._refresh()

    def _find(self, name: str) -> Mapping[str, Any]:
        for row in self._last["workers"]:
            if row["name"] == name:
                found: Mapping[str, Any] = row
                return found
        raise Problem(404, f"unknown worker {name[:80]!r}", hint="GET /cluster lists them.")

    def _refresh(self) -> Mapping[str, Any]:
        """Wait for a poll that begins after now."""
        with self._polled:
            wanted = self._num_polls + 2  # one may be under way
            self._wake.set()
            self._polled.wait_for(lambda: self._num_polls >= wanted, timeout=_POLL_S + 1)
        return self._last

    def _describe(self, state: str, **facts: Any) -> dict[str, Any]:
        return {"broker": self._broker, "state": state, "error": "", "warnings": [], **facts}

    def _poll(self) -> None:
        since_s = _EXPOSURE_S
        while not self._end.is_set():
            since_s += _POLL_S
            check_exposure = since_s >= _EXPOSURE_S
            self._last = self._ask(check_exposure=check_exposure)
            if check_exposure and self._last["state"] == "ready":
                since_s = 0.0
            with self._polled:
                self._num_polls += 1
                self._polled.notify_all()
            self._wake.wait(_POLL_S)
            self._wake.clear()

    def _ask(self, *, check_exposure: bool) -> dict[str, Any]:
        from anyrig.cluster import status

        try:
            self._link.check()
            found = status.look(self._link).plain()
            if check_exposure:
                self._warnings = status.exposed(self._link)
            return self._describe("ready", **{**found, "warnings": self._warnings})
        except AnyrigError as error:
            message = error.message
        except Exception as error:  # noqa: BLE001 - reported, and tried again
            message = f"{type(error).__name__}: {error}"
        if self._last["state"] != "away":
            log.warning("%s", message)
        # Its workers may still be there: the rows stay as they were last seen.
        return {**self._last, "state": "away", "error": message}
