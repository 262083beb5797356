"""Training runs of this machine: how they stand, what they came to, and their figures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Path, Query, Request

from anyrig.app import runs
from anyrig.app.runs import RegisteredRun
from anyrig.errors import InvalidInputError
from anyrig.server.access import Client
from anyrig.server.auth import get_client
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.schemas.runs import RunHistory, RunsShown, RunSummary
from anyrig.server.state import ServerState

RunId = Annotated[str, Path(examples=["r1f0a9c3be2d4475"])]


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/runs", tags=["training"])

    @routes.get("", response_model=RunsShown, summary="List training runs")
    async def listed(request: Request) -> dict[str, Any]:
        """Those of this key, the oldest first. New ones are begun as jobs of the kind `train`."""
        return {"runs": await anyio.to_thread.run_sync(_all, server, get_client(request))}

    @routes.get("/{id}", response_model=RunSummary, summary="What is known of a run",
                responses=problem_responses(404))  # fmt: skip
    async def one(request: Request, id: RunId) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(_summary, server, get_client(request), id)

    @routes.get("/{id}/history", response_model=RunHistory, summary="A run's figures",
                responses=problem_responses(404))  # fmt: skip
    async def history(
        request: Request,
        id: RunId,
        after: Annotated[int, Query(ge=0, le=2**53, description="Only steps past this one.")] = 0,
        most: Annotated[int, Query(ge=2, le=20_000, description="Rows at most.")] = 2000,
    ) -> dict[str, Any]:
        """Loss, learning rate, time and memory by step; of a long run evenly thinned out."""
        client = get_client(request)
        return await anyio.to_thread.run_sync(partial(_history, server, client, id, after, most))

    return routes


def _all(server: ServerState, client: Client) -> list[dict[str, Any]]:
    jobs = _jobs(server, client)
    found = []
    for run in _registered(server, client, jobs):
        try:
            found.append(_shown(run, jobs))
        except InvalidInputError:  # its folder went away a moment ago
            continue
    return found


def _history(
    server: ServerState, client: Client, id: str, after: int, most: int
) -> dict[str, Any]:  # fmt: skip
    folder = _named(server, client, id).folder
    return {"rows": runs.load_history(folder, after=after, most=most),
            "others": runs.load_messages(folder)}  # fmt: skip


def _summary(server: ServerState, client: Client, id: str) -> dict[str, Any]:
    listed = _named(server, client, id)
    run = runs.open_run(listed.folder)
    result = listed.result.to_json() if listed.result is not None else None
    return {
        **_shown(listed, _jobs(server, client)), "task": _names(run.task),
        "train": _names(run.train), "result": _names(result),
    }  # fmt: skip


def _registered(
    server: ServerState, client: Client, jobs: Mapping[str, str]
) -> list[RegisteredRun]:
    """The runs that a client may see: a run belongs to whoever submitted its job."""
    found = runs.list_registered(server.rig.folders.runs)
    return [run for run in found if client.sees_all or str(run.folder) in jobs]


def _named(server: ServerState, client: Client, id: str) -> RegisteredRun:
    for run in _registered(server, client, _jobs(server, client)):
        if run.id == id:
            return run
    raise Problem(404, "there is no such run", hint="GET /runs lists them.")


def _jobs(server: ServerState, client: Client) -> dict[str, str]:
    """The job of each run, by the run's folder."""
    return {
        str(job.arguments.get("run")): job.id
        for job in server.jobs.list(kinds=("train",)) if client.may_see(job.client)
    }  # fmt: skip


def _shown(run: RegisteredRun, jobs: Mapping[str, str]) -> dict[str, Any]:
    state = run.state
    told = runs.open_run(run.folder)
    job = jobs.get(str(run.folder))
    name = told.name if job else run.folder.name
    return {
        "id": run.id, "name": name, "kind": str(told.task.get("kind", "")), "state": state.status,
        "step": state.step, "steps": state.steps, "loss": state.loss, "created": run.created,
        "since": state.since, "error": state.error or None, "job": job,
    }  # fmt: skip


def _names(value: Any) -> Any:
    """Paths of this machine as mere names."""
    if isinstance(value, str) and len(value) < 4096 and FilePath(value).is_absolute():
        return FilePath(value).name
    if isinstance(value, Mapping):
        return {str(name): _names(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_names(one) for one in value]
    return value
