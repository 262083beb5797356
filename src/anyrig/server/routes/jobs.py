"""Jobs: submitted, listed, followed, paused, cancelled, their files fetched, deleted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any, Literal, Protocol, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.access import Client, find_job, get_jobs_filter
from anyrig.app.job_retention import delete_job
from anyrig.app.jobs import JOB_KINDS
from anyrig.errors import InvalidInputError, OverloadedError
from anyrig.jobs import Job, JobNotFoundError, JobPage
from anyrig.server.auth import get_client, require_scope
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.job_requests import EXAMPLES, build_variants, check_uploads, prepare_job
from anyrig.server.jobs import (
    JobFollower,
    ResultFile,
    describe_event,
    describe_job,
    list_files,
)
from anyrig.server.json_body import JsonRoute
from anyrig.server.openapi import EVENT
from anyrig.server.state import ServerState
from anyrig.server.uploads import file_response

T = TypeVar("T")
_HEARTBEAT_S = 15.0
_MAX_NUMBER = 2**53
_STOP_TIMEOUT_S, _POLL_S = 8.0, 0.2


# -- schemas ---------------------------------------------------------------------------------------

JobKind = Literal["book", "batch", "index", "transcribe", "train", "bench"]
JobState = Literal["queued", "running", "paused", "done", "failed", "cancelled"]
_ID = "k3vq2mzx7a4hn5we"
JOB: dict[str, Any] = {
    "id": _ID, "kind": "book", "title": "The Tide Clock.epub", "state": "running", "requested": "",
    "name": "The Tide Clock.epub", "num_more": 0,
    "created": 1794700800.5, "started": 1794700801.0, "ended": None, "attempts": 1,
    "arguments": {"file": "upload:9f0c1e2d3b4a59687786950413223140", "rate": 1.1},
    "progress": {"stage": "making", "done": 0.42, "chapter": 3, "num_chapters": 7,
                 "title": "The harbour", "speed": 21.5, "left_s": 48.0},
    "error": None, "result": None, "num_files": 0, "local": True, "place": None,
}  # fmt: skip
_WAITS = {
    **JOB, "id": "uztmk4z5hrphsxul", "kind": "batch", "title": "The tide came in.",
    "name": "The tide came in.",
    "state": "queued", "created": 1794700900.0, "started": None, "attempts": 0,
    "arguments": {"lines": 200}, "progress": None, "place": 1,
}  # fmt: skip


def _add_variants(schema: dict[str, Any]) -> None:
    """What each kind takes."""
    schema["examples"] = [{"kind": kind, "arguments": EXAMPLES[kind]} for kind in JOB_KINDS]
    schema["oneOf"] = build_variants()


class NewJob(BaseModel):
    """Long work to submit."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_add_variants)

    kind: JobKind
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description='The options of this kind. Files are named as "upload:ID"; the server chooses'
        " where outputs go.",
    )


class JobErrorShown(BaseModel):
    """Why a job failed."""

    message: str
    hint: str = Field(description="What to do next.")


class JobShown(BaseModel):
    """A job as it is now."""

    model_config = ConfigDict(json_schema_extra={"examples": [JOB]})

    id: str
    kind: str
    title: str = Field(description="What it is about.")
    name: str = Field(description="The name of its file, or of the first.")
    num_more: int = Field(description="How many files it has besides the first.")
    state: JobState
    requested: Literal["", "pause", "cancel"] = Field(
        description="What a running job was told to do and has not done yet."
    )
    created: float = Field(description="Seconds since 1970, as all times are.")
    started: float | None
    ended: float | None
    attempts: int = Field(description="How often it was started.")
    arguments: dict[str, Any]
    progress: dict[str, Any] | None = Field(
        description="`done` from 0 to 1, `left_s`, or `left_range_s` while that is not known,"
        " `speed` in times real time, `stage`, `title`."
    )
    error: JobErrorShown | None
    result: dict[str, Any] | None
    num_files: int = Field(description="How many files can be fetched.")
    local: bool = Field(
        description="Whether it came over HTTP: only then its files can be fetched."
    )
    place: int | None = Field(description="Place in the queue; 1 is next, of whatever kind.")


_COUNTS: dict[str, Any] = {
    "queued": 1,
    "running": 1,
    "paused": 0,
    "done": 38,
    "failed": 2,
    "cancelled": 0,
}


class JobsShown(BaseModel):
    """Some jobs, the oldest first, and how many there are."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "jobs": [JOB, _WAITS],
                    "counts": _COUNTS,
                    "older": 41,
                    "keep_jobs_days": 0,
                    "max_jobs_gb": 0,
                }
            ],
        }
    )

    jobs: list[JobShown]
    counts: dict[JobState, int] = Field(
        description="All jobs of the requested kinds, listed here or not."
    )
    older: int | None = Field(
        description="Pass it as `before` to list older jobs; null at the end."
    )
    keep_jobs_days: float = Field(
        description="Finished jobs are deleted after so many days; 0 keeps them."
    )
    max_jobs_gb: float = Field(
        description="The oldest finished jobs of a key are deleted when the files of all take more;"
        " 0 keeps them."
    )


class JobFile(BaseModel):
    """A file that a job made."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "number": 1,
                    "name": "The Tide Clock.m4b",
                    "size": 1048576,
                    "type": "audio/mp4",
                    "url": f"/jobs/{_ID}/files/1",
                }
            ]
        }
    )

    number: int = Field(ge=1)
    name: str
    size: int = Field(ge=0)
    type: str
    url: str


class JobFiles(BaseModel):
    """The files that a job has made so far."""

    files: list[JobFile]


class JobDeleted(BaseModel):
    """A job that was deleted with its files."""

    id: str
    deleted: bool = True


# -- routes ----------------------------------------------------------------------------------------


class RunInThread(Protocol):
    """Runs work in one of a few threads."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """The result of the work."""


JobId = Annotated[str, Path(description="As in POST /jobs.", examples=["k3vq2mzx7a4hn5we"])]
_Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of jobs.", examples=[30])]
_Before = Annotated[
    int | None,
    Query(ge=1, le=_MAX_NUMBER, description="`older` of an answer: lists the jobs before those.",
          examples=[41]),
]  # fmt: skip
_Kinds = Annotated[
    list[JobKind],
    Query(default_factory=list, description="Only these kinds.", examples=[["book"]]),
]
_States = Annotated[
    list[JobState],
    Query(default_factory=list, description="Only in these states.",
          examples=[["queued", "running", "paused"]]),
]  # fmt: skip
FileNumber = Annotated[int, Path(ge=1, le=_MAX_NUMBER, examples=[1])]
BINARY = {"schema": {"type": "string", "format": "binary"}}
PARTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The whole file.", "content": {"application/octet-stream": BINARY}},
    206: {"description": "The requested range.",
          "content": {"application/octet-stream": BINARY}},
    304: {"description": "The client has it already."},
}  # fmt: skip
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events as they happen, until the job is finished.",
        "content": {"text/event-stream": {
            "schema": EVENT,
            "example": 'id: 3\nevent: progress\ndata: {"number": 3, "time": 1794700805.1, '
            '"kind": "progress", "data": {"done": 0.4, "speed": 20.1, "left_s": 12.0}}\n\n',
        }},
    },
    204: {"description": "The job is finished and there are no more events: do not ask again."},
}  # fmt: skip


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(prefix="/jobs", tags=["jobs"], route_class=JsonRoute)
    jobs = server.jobs
    follower = JobFollower(jobs)
    # Requests for jobs must not take the threads of others.
    threads = anyio.CapacityLimiter(8)

    async def run(work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=threads)

    @routes.post("", status_code=201, response_model=JobShown, summary="Submit a job",
                 responses=problem_responses(404, 507))  # fmt: skip
    async def submit(request: Request, new: NewJob) -> dict[str, Any]:
        """It is queued and runs in the background; it continues after a restart of the server."""
        require_scope(request, _scope(new.kind))
        return await run(partial(submit_job, server, new, get_client(request)))

    @routes.get("", response_model=JobsShown, summary="List jobs")
    async def list_jobs(
        request: Request,
        limit: _Limit = 100,
        before: _Before = None,
        *,
        kind: _Kinds,
        state: _States,
    ) -> Response:
        """The newest matching jobs of this key, the oldest of them first.

        Each is shortened: the number of a batch's lines, and the first hundred items of lists in
        results. `GET /jobs/{id}` has everything.
        """
        own = get_jobs_filter(get_client(request))
        look = partial(jobs.list_page, limit, before=before, kinds=kind, states=state, client=own)
        return await run(lambda: _list(server, look()))

    @routes.get("/{id}", response_model=JobShown, summary="Show a job",
                responses=problem_responses(404))  # fmt: skip
    async def show(request: Request, id: JobId) -> dict[str, Any]:
        return await run(lambda: _show(server, find_job(server, get_client(request), id)))

    @routes.get("/{id}/events", summary="Follow a job", response_class=StreamingResponse,
                responses={**_STREAM, **problem_responses(404)})  # fmt: skip
    async def events(
        request: Request,
        id: JobId,
        last_event_id: Annotated[
            str, Header(max_length=40, description="The `id` of the last event that was seen.")
        ] = "",
    ) -> Response:
        """Server-sent events: states, progress with speed and time left, warnings.

        After a break, `Last-Event-ID` continues where it was. A comment is sent now and then, to
        keep the connection open.
        """
        after = min(int(last_event_id), _MAX_NUMBER) if _is_number(last_event_id) else 0
        job = await run(lambda: find_job(server, get_client(request), id))
        if job.is_finished and after and not await run(lambda: list(jobs.events(id, after))):
            return Response(status_code=204)
        return StreamingResponse(
            _stream(server, job, follower, after), media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )  # fmt: skip

    for word, words in (("pause", "Pause a job"), ("resume", "Resume a job, or try again"),
                        ("cancel", "Cancel a job")):  # fmt: skip
        _add_change(routes, server, run, word, words)

    _add_delete(routes, server, run)
    _add_files(routes, server, run)
    return routes


def _add_delete(routes: APIRouter, server: ServerState, run: RunInThread) -> None:
    @routes.delete("/{id}", response_model=JobDeleted, summary="Delete a job and its files",
                   responses=problem_responses(404, 409))  # fmt: skip
    async def delete(request: Request, id: JobId) -> JobDeleted:
        """A running job is cancelled first."""
        job = await run(lambda: find_job(server, get_client(request), id))
        require_scope(request, _scope(job.kind))
        if job.state == "running":
            await run(lambda: _raise_conflict(lambda: server.jobs.cancel(id)))
            with anyio.move_on_after(_STOP_TIMEOUT_S):
                while (await run(lambda: server.jobs.get(id))).state == "running":
                    await anyio.sleep(_POLL_S)
        await run(partial(_delete, server, job))
        return JobDeleted(id=job.id)


def _add_files(routes: APIRouter, server: ServerState, run: RunInThread) -> None:
    @routes.get("/{id}/files", response_model=JobFiles, summary="List the files of a job",
                responses=problem_responses(404))  # fmt: skip
    async def files(request: Request, id: JobId) -> JobFiles:
        """Of a batch each line as soon as it was spoken; of others at the end."""
        job = await run(lambda: find_job(server, get_client(request), id))
        found = await run(lambda: list_files(server, job))
        return JobFiles(files=[_file(job, one) for one in found])

    @routes.head("/{id}/files/{number}", include_in_schema=False)
    @routes.get("/{id}/files/{number}", summary="Fetch a file of a job",
                response_class=FileResponse,
                responses={**PARTS, **problem_responses(404, 416)})  # fmt: skip
    async def file(request: Request, id: JobId, number: FileNumber) -> Response:
        """The whole file, or the requested range."""
        job = await run(lambda: find_job(server, get_client(request), id))
        found = await run(lambda: list_files(server, job))
        made = next((one for one in found if one.number == number), None)
        if made is None:
            raise Problem(404, f"the job has no file {number}", hint=f"GET /jobs/{job.id}/files.")
        return await file_response(request, made.path, made.name, media_type=made.type)


def _add_change(
    routes: APIRouter, server: ServerState, run: RunInThread, word: str, words: str
) -> None:
    @routes.post(f"/{{id}}/{word}", response_model=JobShown, summary=words, name=word,
                 operation_id=f"{word}_job", responses=problem_responses(404, 409))  # fmt: skip
    async def change(request: Request, id: JobId) -> dict[str, Any]:
        job = await run(lambda: find_job(server, get_client(request), id))
        require_scope(request, _scope(job.kind))

        def work() -> dict[str, Any]:
            with_word: Callable[[str], Job] = getattr(server.jobs, word)
            return _show(server, _raise_conflict(lambda: with_word(id)))

        return await run(work)


def _scope(kind: str) -> str:
    """The scope that a key needs to submit or change a job."""
    return "train" if kind == "train" else "jobs"


def _show(server: ServerState, job: Job) -> dict[str, Any]:
    places = server.jobs.list_page(0).queue_positions if job.state == "queued" else {}
    return describe_job(server, job, place=places.get(job.id))


def _list(server: ServerState, found: JobPage) -> Response:
    """Serialised one by one: a thread that does all at once stops the others for as long."""
    rows = [
        json.dumps(describe_job(server, job, place=found.queue_positions.get(job.id), brief=True),
                   ensure_ascii=False, allow_nan=False)
        for job in found.jobs
    ]  # fmt: skip
    rest = json.dumps({
        "counts": found.counts, "older": found.next_before,
        "keep_jobs_days": server.settings.keep_jobs_days,
        "max_jobs_gb": server.settings.max_jobs_gb,
    })  # fmt: skip
    body = f'{{"jobs": [{", ".join(rows)}], {rest[1:]}'
    return Response(body.encode("utf-8", "replace"), media_type="application/json")


def submit_job(server: ServerState, new: NewJob, client: Client) -> dict[str, Any]:
    """Queue a job; the job as it is shown."""
    _check_queue(server, client)
    with prepare_job(server, client, new.kind, new.arguments) as found, server.uploads.job_lock:
        check_uploads(server, found)
        job = server.jobs.submit(new.kind, found, client=client.key)
    return _show(server, job)


def _check_queue(server: ServerState, client: Client) -> None:
    """Refuse a job if too many wait, of all clients or of this key."""
    limit = server.settings.queue
    waiting = _count_waiting(server)
    if waiting >= limit:
        raise OverloadedError(
            f"{waiting} jobs are waiting already; the limit is {limit}",
            hint="Wait, or cancel some of them.",
        )
    own_limit = max(1, int(server.settings.client_share * limit))
    if client.key and (own := _count_waiting(server, client.key)) >= own_limit:
        raise OverloadedError(
            f"{own} jobs of this key are waiting already; the limit is {own_limit}",
            hint="Wait, or cancel some of them.",
        )


def _count_waiting(server: ServerState, client: str | None = None) -> int:
    counts = server.jobs.list_page(0, client=client).counts
    return counts["queued"] + counts["paused"]


def _delete(server: ServerState, job: Job) -> None:
    _raise_conflict(lambda: delete_job(server.jobs, server.data_folder, job))


def _raise_conflict(work: Callable[[], T]) -> T:
    """What cannot be done with a job as it is now is a conflict, not an invalid request."""
    try:
        return work()
    except JobNotFoundError:
        raise
    except InvalidInputError as error:
        raise Problem(409, error.message, hint=error.hint) from error


def _file(job: Job, made: ResultFile) -> JobFile:
    return JobFile(number=made.number, name=made.name, size=made.size, type=made.type,
                   url=f"/jobs/{job.id}/files/{made.number}")  # fmt: skip


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


async def _stream(
    server: ServerState, job: Job, follower: JobFollower, after: int
) -> AsyncIterator[bytes]:  # fmt: skip
    yield b"retry: 2000\n\n"
    async for event in follower.follow(job.id, after, heartbeat_s=_HEARTBEAT_S):
        if event is None:
            yield b": heartbeat\n\n"
            continue
        kind = "".join(sign for sign in event.kind if sign.isprintable())
        data = json.dumps(describe_event(server, job, event), allow_nan=False)
        yield f"id: {event.number}\nevent: {kind}\ndata: {data}\n\n".encode()
