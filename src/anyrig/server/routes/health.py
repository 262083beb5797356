"""Whether the server lives, and whether it is ready: what was observed, in a few milliseconds."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from anyrig.server import metrics
from anyrig.server.errors import problem_response, problem_responses
from anyrig.server.routes.health import Alive, Health
from anyrig.server.state import ServerState

_TITLES = {
    "starting": ("models are being loaded", "Try again in a few seconds."),
    "failed": ("a model could not be loaded", "`problems` says why; the server's log says more."),
    "stalled": ("no worker can answer", "Workers are started again; try again in a few seconds."),
    "ending": ("the server is ending", "Ask again when it is back."),
}


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["health"])

    @routes.get("/health/live", response_model=Alive, summary="Whether the process answers")
    async def live() -> Any:
        """Open to everybody, and the same whatever goes on: for probes."""
        return JSONResponse({"status": "alive"})

    @routes.get(
        "/health", response_model=Health, summary="Whether it is ready, and how its workers are",
        responses=problem_responses(503),
    )  # fmt: skip
    async def health() -> Response:
        """What was seen of worker processes and devices, never what was asked for; the same figures
        are in a 503.
        """
        facts = told(server)
        if facts["ready"]:
            return JSONResponse(facts)
        title, hint = _TITLES[facts["state"]]
        return problem_response(503, title, hint, **facts)

    return routes


def told(server: ServerState) -> dict[str, Any]:
    """Everything that `/health` says."""
    problems = metrics.list_worker_problems(server)
    error = server.preload_error
    if error:
        problems.insert(0, str(error))
    state = state_of(server)
    worker_ids, workers = metrics.describe_workers(server)
    return {
        "ready": state == "ready",
        "state": state,
        "workers": workers,
        "worker_ids": worker_ids,
        "models": [one.name for one in server.models.loaded_models()],
        "problems": [*problems, *metrics.list_cluster_problems(server)],
        "cluster": server.cluster.now()["workers"] if server.cluster is not None else [],
    }


def state_of(server: ServerState) -> str:
    """One word for how the server stands; `anyrig_ready` of the figures says the same."""
    if server.is_ending:
        return "ending"
    if server.preload_error:
        return "failed"
    if not server.is_ready:
        return "starting"
    # What nobody asked to have ready at the start is loaded at need, by whoever needs it.
    wanted = tuple(server.preloaded)
    return (
        "stalled"
        if any(name in wanted for name in metrics.list_stalled_models(server))
        else "ready"
    )
