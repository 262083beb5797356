"""Whether the server lives, and whether it is ready: what was observed, in a few milliseconds."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from anyrig.server import observed
from anyrig.server.parts import Parts
from anyrig.server.problems import answers, problem
from anyrig.server.schemas.health import Alive, Health

_TITLES = {
    "starting": ("models are being loaded", "Try again in a few seconds."),
    "failed": ("a model could not be loaded", "`problems` says why; the server's log says more."),
    "stalled": ("no worker can answer", "Workers are started again; try again in a few seconds."),
    "ending": ("the server is ending", "Ask again when it is back."),
}


def router(parts: Parts) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["health"])

    @routes.get("/health/live", response_model=Alive, summary="Whether the process answers")
    async def live() -> Any:
        """Open to everybody, and the same whatever goes on: for probes."""
        return JSONResponse({"status": "alive"})

    @routes.get(
        "/health", response_model=Health, summary="Whether it is ready, and how its workers are",
        responses=answers(503),
    )  # fmt: skip
    async def health() -> Response:
        """What was seen of worker processes and devices, never what was asked for; the same figures
        are in a 503.
        """
        facts = told(parts)
        if facts["ready"]:
            return JSONResponse(facts)
        title, hint = _TITLES[facts["state"]]
        return problem(503, title, hint, **facts)

    return routes


def told(parts: Parts) -> dict[str, Any]:
    """Everything that `/health` says."""
    problems = observed.problems(parts)
    error = parts.state.get("error")
    if error:
        problems.insert(0, str(error))
    state = state_of(parts)
    worker_ids, workers = observed.health(parts)
    return {
        "ready": state == "ready",
        "state": state,
        "workers": workers,
        "worker_ids": worker_ids,
        "models": [one.name for one in parts.models.loaded_models()],
        "problems": [*problems, *observed.cluster_problems(parts)],
        "cluster": parts.cluster.now()["workers"] if parts.cluster is not None else [],
    }


def state_of(parts: Parts) -> str:
    """One word for how the server stands; `anyrig_ready` of the figures says the same."""
    if parts.state.get("ending"):
        return "ending"
    if parts.state.get("error"):
        return "failed"
    if not parts.state.get("ready"):
        return "starting"
    # What nobody asked to have ready at the start is loaded at need, by whoever needs it.
    wanted = tuple(parts.state.get("preloaded", ()))
    return "stalled" if any(name in wanted for name in observed.stalled(parts)) else "ready"
