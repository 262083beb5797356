"""Long work: begun, followed, paused, given up, its files fetched, all of it deleted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse

from anyrig.errors import InvalidInputError, OverloadedError
from anyrig.jobs import Job, JobNotFoundError, JobPage
from anyrig.server import results
from anyrig.server.access import Client, find_job, jobs_filter
from anyrig.server.auth import get_client, require_scope
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.following import Following
from anyrig.server.json_body import JsonRoute
from anyrig.server.orders import ordered, still_there
from anyrig.server.schemas.events import EVENT
from anyrig.server.schemas.jobs import (
    JobDeleted,
    JobFile,
    JobFiles,
    JobKind,
    JobShown,
    JobsShown,
    JobState,
    NewJob,
)
from anyrig.server.state import ServerState
from anyrig.server.uploads import file_response

T = TypeVar("T")


class Inside(Protocol):
    """Runs work in one of a few threads."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """What it answers."""


_BEAT_S = 15.0
_MOST_NUMBER = 2**53
_STOPS_S, _LOOK_S = 8.0, 0.2
JobId = Annotated[str, Path(description="As POST /jobs told.", examples=["k3vq2mzx7a4hn5we"])]
_Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.", examples=[30])]
_Before = Annotated[
    int | None,
    Query(ge=1, le=_MOST_NUMBER, description="`older` of an answer: those that come before it.",
          examples=[41]),
]  # fmt: skip
_Kinds = Annotated[
    list[JobKind],
    Query(default_factory=list, description="Only of these kinds.", examples=[["book"]]),
]
_States = Annotated[
    list[JobState],
    Query(default_factory=list, description="Only in these states.",
          examples=[["queued", "running", "paused"]]),
]  # fmt: skip
FileNumber = Annotated[int, Path(ge=1, le=_MOST_NUMBER, examples=[1])]
BINARY = {"schema": {"type": "string", "format": "binary"}}
PARTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The whole file.", "content": {"application/octet-stream": BINARY}},
    206: {"description": "The part that `Range` asked for.",
          "content": {"application/octet-stream": BINARY}},
    304: {"description": "The client has it already."},
}  # fmt: skip
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events as they happen, until the job is over.",
        "content": {"text/event-stream": {
            "schema": EVENT,
            "example": 'id: 3\nevent: progress\ndata: {"number": 3, "time": 1794700805.1, '
            '"kind": "progress", "data": {"done": 0.4, "speed": 20.1, "left_s": 12.0}}\n\n',
        }},
    },
    204: {"description": "The job is over, and everything was told: do not ask again."},
}  # fmt: skip


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(prefix="/jobs", tags=["jobs"], route_class=JsonRoute)
    jobs = server.jobs
    following = Following(jobs)
    few = anyio.CapacityLimiter(8)  # threads: requests for jobs must not take those of others

    async def inside(work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=few)

    @routes.post("", status_code=201, response_model=JobShown, summary="Begin long work",
                 responses=problem_responses(404, 507))  # fmt: skip
    async def begin(request: Request, new: NewJob) -> dict[str, Any]:
        """It is queued, and done beside the requests; it goes on after a restart of the server."""
        require_scope(request, _scope(new.kind))
        return await inside(partial(_begun, server, new, get_client(request)))

    @routes.get("", response_model=JobsShown, summary="List jobs")
    async def listed(
        request: Request,
        limit: _Limit = 100,
        before: _Before = None,
        *,
        kind: _Kinds,
        state: _States,
    ) -> Response:
        """The newest of this key that fit, told from the oldest of them to the newest.

        Each is told in short: the number of a batch's lines, and the first hundred of whatever a
        result lists. `GET /jobs/{id}` has all of it.
        """
        own = jobs_filter(get_client(request))
        look = partial(jobs.list_page, limit, before=before, kinds=kind, states=state, client=own)
        return await inside(lambda: _listed(server, look()))

    @routes.get("/{id}", response_model=JobShown, summary="How a job stands",
                responses=problem_responses(404))  # fmt: skip
    async def one(request: Request, id: JobId) -> dict[str, Any]:
        return await inside(lambda: _one(server, find_job(server, get_client(request), id)))

    @routes.get("/{id}/events", summary="Follow a job", response_class=StreamingResponse,
                responses={**_STREAM, **problem_responses(404)})  # fmt: skip
    async def events(
        request: Request,
        id: JobId,
        last_event_id: Annotated[
            str, Header(max_length=40, description="The `id` of the last event that was seen.")
        ] = "",
    ) -> Response:
        """Server-sent events: states, progress with speed and time left, and what else is told.

        After a break, `Last-Event-ID` goes on where it was. A comment is sent now and then, so that
        nobody in between takes the connection for dead.
        """
        after = min(int(last_event_id), _MOST_NUMBER) if _is_number(last_event_id) else 0
        job = await inside(lambda: find_job(server, get_client(request), id))
        if job.is_finished and after and not await inside(lambda: list(jobs.events(id, after))):
            return Response(status_code=204)
        return StreamingResponse(
            _stream(server, job, following, after), media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )  # fmt: skip

    for word, words in (("pause", "Let a job rest"), ("resume", "Go on with a job, or try again"),
                        ("cancel", "Give a job up")):  # fmt: skip
        _change(routes, server, inside, word, words)

    _deleting(routes, server, inside)
    _files(routes, server, inside)
    return routes


def _deleting(routes: APIRouter, server: ServerState, inside: Inside) -> None:
    @routes.delete("/{id}", response_model=JobDeleted, summary="Delete a job and its files",
                   responses=problem_responses(404, 409))  # fmt: skip
    async def delete(request: Request, id: JobId) -> JobDeleted:
        """For good. One that runs is cancelled first, and waited for."""
        job = await inside(lambda: find_job(server, get_client(request), id))
        require_scope(request, _scope(job.kind))
        if job.state == "running":
            await inside(lambda: _possible(lambda: server.jobs.cancel(id)))
            with anyio.move_on_after(_STOPS_S):
                while (await inside(lambda: server.jobs.get(id))).state == "running":
                    await anyio.sleep(_LOOK_S)
        await inside(partial(_deleted, server, job))
        return JobDeleted(id=job.id)


def _files(routes: APIRouter, server: ServerState, inside: Inside) -> None:
    @routes.get("/{id}/files", response_model=JobFiles, summary="What a job made",
                responses=problem_responses(404))  # fmt: skip
    async def files(request: Request, id: JobId) -> JobFiles:
        """Of a batch: each line as soon as it was spoken; of all others: at the end."""
        job = await inside(lambda: find_job(server, get_client(request), id))
        found = await inside(lambda: results.files_of(server, job))
        return JobFiles(files=[_file(job, one) for one in found])

    @routes.head("/{id}/files/{number}", include_in_schema=False)
    @routes.get("/{id}/files/{number}", summary="A file that a job made",
                response_class=FileResponse,
                responses={**PARTS, **problem_responses(404, 416)})  # fmt: skip
    async def file(request: Request, id: JobId, number: FileNumber) -> Response:
        """Whole, or the part that `Range` asks for."""
        job = await inside(lambda: find_job(server, get_client(request), id))
        found = await inside(lambda: results.files_of(server, job))
        made = next((one for one in found if one.number == number), None)
        if made is None:
            raise Problem(404, f"the job has no file {number}", hint=f"GET /jobs/{job.id}/files.")
        return await file_response(request, made.path, made.name, media_type=made.type)


def _change(routes: APIRouter, server: ServerState, inside: Inside, word: str, words: str) -> None:
    """One of pause, resume, cancel."""

    @routes.post(f"/{{id}}/{word}", response_model=JobShown, summary=words, name=word,
                 operation_id=f"{word}_job", responses=problem_responses(404, 409))  # fmt: skip
    async def change(request: Request, id: JobId) -> dict[str, Any]:
        job = await inside(lambda: find_job(server, get_client(request), id))
        require_scope(request, _scope(job.kind))

        def work() -> dict[str, Any]:
            with_word: Callable[[str], Job] = getattr(server.jobs, word)
            return _one(server, _possible(lambda: with_word(id)))

        return await inside(work)


def _scope(kind: str) -> str:
    """What a key must be allowed to begin or change a job."""
    return "train" if kind == "train" else "jobs"


def _one(server: ServerState, job: Job) -> dict[str, Any]:
    places = server.jobs.list_page(0).queue_positions if job.state == "queued" else {}
    return results.shown(server, job, place=places.get(job.id))


def _listed(server: ServerState, found: JobPage) -> Response:
    """Written one by one: a thread that writes all at once stops the others for as long."""
    rows = [
        json.dumps(results.shown(server, job, place=found.queue_positions.get(job.id), brief=True),
                   ensure_ascii=False, allow_nan=False)
        for job in found.jobs
    ]  # fmt: skip
    rest = json.dumps({"counts": found.counts, "older": found.next_before})
    body = f'{{"jobs": [{", ".join(rows)}], {rest[1:]}'
    return Response(body.encode("utf-8", "replace"), media_type="application/json")


def _begun(server: ServerState, new: NewJob, client: Client) -> dict[str, Any]:
    counts = server.jobs.list_page(0).counts
    waiting = counts["queued"] + counts["paused"]
    if waiting >= server.settings.queue:
        raise OverloadedError(f"{waiting} jobs wait already", hint="Wait, or cancel some of them.")
    with ordered(server, client, new.kind, new.arguments) as checked, server.uploads.job_lock:
        still_there(server, checked)
        job = server.jobs.submit(new.kind, checked, client=client.key)
    return _one(server, job)


def _deleted(server: ServerState, job: Job) -> None:
    folder = results.folder_of(server, job)
    _possible(lambda: server.jobs.delete(job.id))
    results.remove_files(folder)


def _possible(work: Callable[[], T]) -> T:
    """What cannot be done with a job as it stands is a conflict, not a mistake in the request."""
    try:
        return work()
    except JobNotFoundError:
        raise
    except InvalidInputError as error:
        raise Problem(409, error.message, hint=error.hint) from error


def _file(job: Job, made: results.MadeFile) -> JobFile:
    return JobFile(number=made.number, name=made.name, size=made.size, type=made.type,
                   url=f"/jobs/{job.id}/files/{made.number}")  # fmt: skip


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


async def _stream(
    server: ServerState, job: Job, following: Following, after: int
) -> AsyncIterator[bytes]:  # fmt: skip
    yield b"retry: 2000\n\n"
    async for event in following.events(job.id, after, beat_s=_BEAT_S):
        if event is None:
            yield b": still here\n\n"
            continue
        kind = "".join(sign for sign in event.kind if sign.isprintable())
        data = json.dumps(results.told(server, job, event), allow_nan=False)
        yield f"id: {event.number}\nevent: {kind}\ndata: {data}\n\n".encode()
