"""Training runs of this machine: their states, results and figures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.access import Client
from anyrig.app.training import find_missing_torch
from anyrig.errors import InvalidInputError, render
from anyrig.install import localize_install_commands
from anyrig.results import to_json
from anyrig.server.auth import get_client
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.request_models import EXAMPLE_UPLOAD, Upload
from anyrig.server.routes.jobs import JobShown, NewJob, submit_job
from anyrig.server.state import ServerState
from anyrig.server.uploads import file_response
from anyrig.training import runs
from anyrig.training.config_file import READY_RUNS, ReadyName, build_ready_config
from anyrig.training.runs import RegisteredRun
from anyrig.training.train_run import write_report

_RUN: dict[str, Any] = {
    "id": "r1f0a9c3be2d4475", "name": "language-2026-11-15-0900", "kind": "language",
    "state": "running", "step": 120, "steps": 600, "loss": 2.31, "created": 1794700800.5,
    "since": 1794700900.0, "error": None, "job": None,
}  # fmt: skip
_ROW: dict[str, Any] = {
    "step": 120, "epoch": 0, "loss": 2.31, "rate": 0.001, "step_s": 0.12,
    "memory_bytes": 1073741824, "samples_per_s": 133.0, "units_per_s": 34000.0, "eta_s": 57.0,
    "elapsed_s": 14.8, "time_s": 1794700900.0, "grad_norm": 0.9, "scale": 1.0, "mfu": 0.31,
    "micro_batch": 16, "precision": "bf16", "num_skipped": 0, "num_retries": 0,
}  # fmt: skip


class RunShown(BaseModel):
    """A run, in short."""

    model_config = ConfigDict(json_schema_extra={"examples": [_RUN]})

    id: str
    name: str
    kind: str = Field(description="What is trained: language, images, classifier, ...")
    state: Literal["running", "finished", "stopped", "failed"]
    step: int
    steps: int | None = Field(description="How many there will be; null if unknown.")
    loss: float | None
    created: float = Field(description="Seconds since 1970, as all times are.")
    since: float = Field(description="When it last reported.")
    error: str | None
    job: str | None = Field(description="The job that it belongs to, if it was queued.")


class RunsShown(BaseModel):
    """All runs, the oldest first."""

    runs: list[RunShown]


class ReadyRuns(BaseModel):
    """What `POST /runs` can start."""

    ready: list[ReadyName]
    install: str | None = Field(
        description="The command that installs what training needs; null if it is installed."
    )


class RunSummary(RunShown):
    """Everything that is known of a run."""

    task: dict[str, Any] = Field(description="What is trained, and on what.")
    train: dict[str, Any] = Field(description="How.")
    result: dict[str, Any] | None = Field(description="The result, once it has ended.")


class RunRow(BaseModel):
    """Figures of a step, or of a few that were merged."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ROW]})

    step: int
    epoch: int | None
    loss: float | None
    rate: float | None = Field(description="The learning rate.")
    step_s: float | None
    memory_bytes: int | None = Field(description="Peak memory in use.")
    samples_per_s: float | None
    units_per_s: float | None
    eta_s: float | None
    elapsed_s: float | None
    time_s: float | None
    grad_norm: float | None
    scale: float | None
    mfu: float | None
    micro_batch: int | None
    precision: str | None
    num_skipped: int | None
    num_retries: int | None


class RunHistory(BaseModel):
    """The figures of a run so far."""

    rows: list[RunRow]
    others: list[dict[str, Any]] = Field(
        description="Validations, alerts and events, each with its `kind` and `step`."
    )


class NewRun(BaseModel):
    """A ready-made run."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"ready": "language", "file": EXAMPLE_UPLOAD}]},
    )

    ready: ReadyName = Field(
        description="language: a small language model from a text. classifier: the packaged MiniLM"
        " learns the labels of examples, lines of JSON with `text` and `label`."
    )
    file: Upload
    steps: int | None = Field(None, ge=1, le=1_000_000, description="How many.")


RunId = Annotated[str, Path(examples=["r1f0a9c3be2d4475"])]


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(prefix="/runs", tags=["training"])

    @routes.get("", response_model=RunsShown, summary="List training runs")
    async def list_runs(request: Request) -> dict[str, Any]:
        """Those of this key, the oldest first. Submit a job of the kind `train` to start one."""
        return {"runs": await anyio.to_thread.run_sync(_list, server, get_client(request))}

    @routes.get("/ready", response_model=ReadyRuns, summary="List ready-made runs")
    async def list_ready() -> dict[str, Any]:
        """With the command that installs torch, where it is missing."""
        missing = await anyio.to_thread.run_sync(find_missing_torch, server.rig)
        install = localize_install_commands(missing.hint) if missing else None
        return {"ready": list(READY_RUNS), "install": install}

    @routes.post("", status_code=201, response_model=JobShown, summary="Start a ready-made run",
                 responses=problem_responses(404, 501, 507))  # fmt: skip
    async def start(request: Request, new: NewRun) -> dict[str, Any]:
        """Train on an uploaded file with settings that are known to work: a job is queued."""
        return await anyio.to_thread.run_sync(_start, server, get_client(request), new)

    @routes.get("/{id}/report", summary="The report of a run", response_class=FileResponse,
                responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}},
                           **problem_responses(400, 404)})  # fmt: skip
    async def report(request: Request, id: RunId) -> Response:
        """A page with its curves, figures and reasons, as the run is now."""
        client = get_client(request)
        folder = (await anyio.to_thread.run_sync(_find, server, client, id)).folder
        path = await anyio.to_thread.run_sync(lambda: write_report(runs.open_run(folder)))
        return await file_response(request, path, path.name, media_type="text/html", inline=True)

    @routes.get("/{id}", response_model=RunSummary, summary="Show a training run",
                responses=problem_responses(404))  # fmt: skip
    async def show(request: Request, id: RunId) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(_summary, server, get_client(request), id)

    @routes.get("/{id}/history", response_model=RunHistory, summary="The figures of a run",
                responses=problem_responses(404))  # fmt: skip
    async def history(
        request: Request,
        id: RunId,
        after: Annotated[int, Query(ge=0, le=2**53, description="Only steps after this one.")] = 0,
        most: Annotated[int, Query(ge=2, le=20_000, description="Maximum number of rows.")] = 2000,
    ) -> dict[str, Any]:
        """Loss, learning rate, time and memory by step; a long run is thinned out evenly."""
        client = get_client(request)
        return await anyio.to_thread.run_sync(partial(_history, server, client, id, after, most))

    return routes


def _start(server: ServerState, client: Client, new: NewRun) -> dict[str, Any]:
    config = build_ready_config(new.ready, new.file, new.steps).encode()
    with server.uploads.receive(f"{new.ready}.toml", client.key) as writer:
        writer.write(config)
    try:
        job = NewJob(kind="train", arguments={"file": f"upload:{writer.upload.id}"})
        return submit_job(server, job, client)
    finally:
        server.uploads.delete(writer.upload.id)  # the job has a copy


def _list(server: ServerState, client: Client) -> list[dict[str, Any]]:
    jobs = _jobs(server, client)
    found = []
    for run in _list_registered(server, client, jobs):
        try:
            found.append(_describe(run, jobs))
        except InvalidInputError:  # its folder went away a moment ago
            continue
    return found


def _history(
    server: ServerState, client: Client, id: str, after: int, most: int
) -> dict[str, Any]:  # fmt: skip
    folder = _find(server, client, id).folder
    return {"rows": runs.load_history(folder, after=after, most=most),
            "others": runs.load_messages(folder)}  # fmt: skip


def _summary(server: ServerState, client: Client, id: str) -> dict[str, Any]:
    listed = _find(server, client, id)
    run = runs.open_run(listed.folder)
    return {
        **_describe(listed, _jobs(server, client)), "task": _shorten_paths(run.task),
        "train": _shorten_paths(run.train), "result": _shorten_paths(to_json(listed.result)),
    }  # fmt: skip


def _list_registered(
    server: ServerState, client: Client, jobs: Mapping[str, str]
) -> list[RegisteredRun]:
    """The runs that a client may see: a run belongs to whoever submitted its job."""
    found = runs.list_runs(server.rig.folders.runs)
    return [run for run in found if client.sees_all or str(run.folder) in jobs]


def _find(server: ServerState, client: Client, id: str) -> RegisteredRun:
    for run in _list_registered(server, client, _jobs(server, client)):
        if run.id == id:
            return run
    raise Problem(404, "run not found", hint="GET /runs lists them.")


def _jobs(server: ServerState, client: Client) -> dict[str, str]:
    """The job of each run, by the run's folder."""
    return {
        str(job.arguments.get("run")): job.id
        for job in server.jobs.list(kinds=("train",)) if client.may_see(job.client)
    }  # fmt: skip


def _describe(run: RegisteredRun, jobs: Mapping[str, str]) -> dict[str, Any]:
    state = run.state
    details = runs.open_run(run.folder)
    job = jobs.get(str(run.folder))
    name = details.name if job else run.folder.name
    return {
        "id": run.id, "name": name, "kind": str(details.task.get("kind", "")),
        "state": state.status,
        "step": state.step, "steps": state.steps, "loss": state.loss, "created": run.created,
        "since": state.since, "error": render(state.error, "http") or None, "job": job,
    }  # fmt: skip


def _shorten_paths(value: Any) -> Any:
    """Paths of this machine as mere names."""
    if isinstance(value, str) and len(value) < 4096 and FilePath(value).is_absolute():
        return FilePath(value).name
    if isinstance(value, Mapping):
        return {str(name): _shorten_paths(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shorten_paths(one) for one in value]
    return value
