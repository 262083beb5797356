"""/cluster: the workers of the cluster, and draining them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import anyio
from anyio import to_thread
from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.cluster import ClusterMonitor
from anyrig.errors import InvalidInputError
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.state import ServerState


class ClusterWorkerResponse(BaseModel):
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


class CoordinatorResponse(BaseModel):
    """The coordinator of the cluster."""

    version: str
    protocol: int
    host: str
    pid: int
    flower: str = Field(description="The address of Flower, if it runs.")


class ClusterResponse(BaseModel):
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
    coordinator: CoordinatorResponse | None = None
    workers: list[ClusterWorkerResponse] = []


class DrainRequest(BaseModel):
    """Whether a worker is drained."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"drain": True}]})

    drain: bool = Field(
        description="true: it finishes its work and gets no more; false: it gets work again."
    )


Name = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        description="Of the worker; to drain, also of a machine: all its workers.",
    ),
]


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

    @routes.get("/cluster", response_model=ClusterResponse, summary="The workers of the cluster")
    async def show() -> Any:
        """As they were within the last seconds, lost ones too."""
        if server.cluster is None:
            return {"joined": False}
        return {"joined": True, **server.cluster.now()}

    @routes.put(
        "/cluster/workers/{name}", response_model=ClusterResponse,
        summary="Drain a worker, or undo that", responses=problem_responses(404),
    )  # fmt: skip
    async def drain(name: Name, request: DrainRequest) -> Any:
        """A drained worker finishes its work, gets no more, and leaves."""
        return await run(lambda cluster: cluster.drain(name, on=request.drain))

    @routes.delete(
        "/cluster/workers/{name}", response_model=ClusterResponse, summary="Forget a lost worker",
        responses=problem_responses(404, 409),
    )  # fmt: skip
    async def forget(name: Name) -> Any:
        """Remove a worker from the list that sends no heartbeats."""
        return await run(lambda cluster: cluster.forget(name))

    return routes


class MonitoredCluster(ClusterMonitor):
    """The state of a cluster, with the errors of HTTP."""

    def drain(self, name: str, *, on: bool) -> Mapping[str, Any]:
        try:
            return super().drain(name, on=on)
        except InvalidInputError:
            raise _not_found(name) from None

    def forget(self, name: str) -> Mapping[str, Any]:
        row = next((row for row in self.now()["workers"] if row["name"] == name), None)
        if row is None:
            raise _not_found(name)
        if row["status"] != "lost":
            raise Problem(409, f"{name} is alive and would rejoin", hint="Drain it first.")
        return super().forget(name)


def _not_found(name: str) -> Problem:
    return Problem(404, f"unknown worker {name[:80]!r}", hint="GET /cluster lists them.")
