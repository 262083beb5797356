"""/health: whether the server lives, and whether it is ready."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from anyrig.server import metrics
from anyrig.server.auth import SCOPE_KEY, SCOPE_NO_KEY_NEEDED
from anyrig.server.errors import problem_response, problem_responses
from anyrig.server.routes.cluster import ClusterWorkerResponse
from anyrig.server.state import ServerState

_TITLES = {
    "starting": ("models are being loaded", "Try again in a few seconds."),
    "failed": ("a model could not be loaded", "See `problems` and the server's log."),
    "stalled": ("no worker can answer", "Workers are restarting: try again in a few seconds."),
    "ending": ("the server is shutting down", "Try again when it is back."),
}


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"] = "alive"


class WorkerHealth(BaseModel):
    """A worker process as it was last seen."""

    status: metrics.Status
    device_type: str = Field(description="The backend of its device: `cuda`, `rocm`, `cpu`.")
    gpu_available: bool = Field(description="Whether a GPU for it answered when last sampled.")
    gpu_count: int = Field(description="How many GPUs answered.")
    gpu_memory_free_mb: int | None = Field(description="MiB; null if unknown.")
    tts_model_loaded: bool
    cached_models: list[str] = Field(description="The models it has loaded.")


class Health(BaseModel):
    """Ready, or why not."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "ready": True, "state": "ready", "models": ["speech hibari"], "problems": [],
                    "workers": [
                        {"status": "busy", "device_type": "cuda", "gpu_available": True,
                         "gpu_count": 1, "gpu_memory_free_mb": 21034, "tts_model_loaded": True,
                         "cached_models": ["hibari"]}
                    ],
                    "worker_ids": ["speech hibari:4711"],
                }
            ]
        }
    )  # fmt: skip

    ready: bool
    state: metrics.ServerStatus
    workers: list[WorkerHealth] = []
    worker_ids: list[str] = Field(
        [], description="The name of each worker, in the same order: the model and the process id."
    )
    models: list[str] = Field([], description="Loaded models.")
    problems: list[str] = []
    cluster: list[ClusterWorkerResponse] = Field([], description="Workers of the cluster.")


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/health/live", response_model=Alive, summary="Liveness")
    async def live() -> Any:
        """Needs no key and always answers the same: for liveness probes."""
        return JSONResponse({"status": "alive"})

    @routes.get(
        "/health", response_model=Health, summary="Readiness, and the state of the workers",
        responses=problem_responses(503),
    )  # fmt: skip
    async def health(request: Request) -> Response:
        """What was observed of worker processes and devices; a 503 has the same fields. Without a
        key, on a server that needs one, only `ready` and `state`: for readiness probes.
        """
        facts = describe_health(server)
        if request.scope[SCOPE_KEY] is None and not request.scope[SCOPE_NO_KEY_NEEDED]:
            facts = {name: facts[name] for name in ("ready", "state")}
        if facts["ready"]:
            return JSONResponse(facts)
        title, hint = _TITLES[facts["state"]]
        return problem_response(503, title, hint, **facts)

    return routes


def describe_health(server: ServerState) -> dict[str, Any]:
    """The fields of `Health`."""
    status = metrics.get_server_status(server)
    worker_ids, workers = metrics.describe_workers(server)
    return {
        "ready": status == "ready",
        "state": status,
        "workers": workers,
        "worker_ids": worker_ids,
        "models": [model.name for model in server.models.loaded_models()],
        "problems": [
            *filter(None, [server.preload_error]),
            *metrics.list_worker_problems(server),
            *metrics.list_cluster_problems(server),
        ],
        "cluster": server.cluster.now()["workers"] if server.cluster is not None else [],
    }
