"""Books: looked at before they are made, and listened to while they are."""

from __future__ import annotations

import asyncio
import base64
import re
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import FileResponse

from anyrig.app.access import Client, find_job, find_named_upload, find_upload
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.jobs import Job
from anyrig.server import chapters as told
from anyrig.server.auth import get_client
from anyrig.server.documents import DocumentTasks, run_while_connected, to_problem
from anyrig.server.errors import Problem, error_status, problem_responses
from anyrig.server.job_requests import prepare_plan
from anyrig.server.json_body import JsonRoute
from anyrig.server.routes.books import BookPlan, BookPlanRequest, MadeChapters
from anyrig.server.routes.jobs import BINARY, PARTS, FileNumber, JobId
from anyrig.server.state import ServerState
from anyrig.server.uploads import file_response

_MOST_COVERS = 32
_PICTURES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The picture.", "content": {"image/jpeg": BINARY, "image/png": BINARY}}
}
UploadId = Annotated[str, Path(examples=["9f0c1e2d3b4a59687786950413223140"])]


def router(server: ServerState) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["books"], route_class=JsonRoute)
    tasks = DocumentTasks(server)
    covers: OrderedDict[str, tuple[str, bytes] | None] = OrderedDict()

    def keep(upload: str, picture: Mapping[str, str] | None) -> None:
        covers[upload] = (picture["type"], base64.b64decode(picture["data"])) if picture else None
        while len(covers) > _MOST_COVERS:
            covers.popitem(last=False)

    @routes.post("/books/plan", response_model=BookPlan, summary="Look at a book",
                 responses=problem_responses(404, 501))  # fmt: skip
    async def plan(request: Request, asked: BookPlanRequest) -> dict[str, Any]:
        """Its chapters, which of them are spoken, how long it will be and how long it takes.

        Nothing is made, and no voice is loaded.
        """
        arguments = asked.model_dump(exclude_none=True)
        client = get_client(request)
        checked = await anyio.to_thread.run_sync(prepare_plan, server, client, arguments)
        upload = asked.file.partition(":")[2]
        try:
            work = tasks.result("book_plan", {"arguments": checked}, lane="bulk")
            found = await run_while_connected(request, work)
        except InvalidInputError as error:  # it names the file as it is kept, which nobody knows
            name = await anyio.to_thread.run_sync(
                lambda: find_named_upload(server, client, asked.file).name
            )
            said = re.sub(rf"\b{upload}(\.\w+)?\b", lambda _: name, error.message)
            raise Problem(error_status(error), said, hint=error.hint) from error
        except AnyrigError as error:
            raise to_problem(error) from error
        keep(upload, found.pop("picture"))
        return told.planned(found, upload)

    @routes.get("/books/cover/{id}", summary="A book's cover", response_class=Response,
                responses={**_PICTURES, **problem_responses(404)})  # fmt: skip
    async def cover(request: Request, id: UploadId) -> Response:
        """Of a book that was sent, by the id of its upload."""
        await anyio.to_thread.run_sync(find_upload, server, get_client(request), id)
        path = await anyio.to_thread.run_sync(server.uploads.path, id)  # gone with its upload
        if id not in covers:
            work = tasks.ask("book_cover", {"file": str(path)}, lane="bulk")
            keep(id, await run_while_connected(request, work))
        found = covers.get(id)
        if found is None:
            raise Problem(404, "the book has no cover", hint="Send a picture with the job.")
        headers = {"Cache-Control": "private, max-age=3600", "X-Content-Type-Options": "nosniff"}
        return Response(found[1], media_type=found[0], headers=headers)

    _chapters_of(routes, server, tasks)
    return routes


def _chapters_of(routes: APIRouter, server: ServerState, tasks: DocumentTasks) -> None:
    making: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
    """For those who want the same chapter; gone with the last of them, however that went."""

    @routes.get("/jobs/{id}/chapters", response_model=MadeChapters, responses=problem_responses(404, 409),
                summary="A book's chapters, as they are made")  # fmt: skip
    async def chapters(request: Request, id: JobId) -> dict[str, Any]:
        """Those that are done can be heard while the rest is made."""
        client = get_client(request)
        return {"chapters": await anyio.to_thread.run_sync(_chapters, server, client, id)}

    @routes.head("/jobs/{id}/chapters/{number}", include_in_schema=False)
    @routes.get("/jobs/{id}/chapters/{number}", summary="The sound of a finished chapter",
                response_class=FileResponse,
                responses={**PARTS, **problem_responses(404, 409, 416)})  # fmt: skip
    async def chapter(request: Request, id: JobId, number: FileNumber) -> Response:
        """As mp3, or in the book's own format; whole, or the part that `Range` asks for."""
        job = await anyio.to_thread.run_sync(find_job, server, get_client(request), id)
        order = await anyio.to_thread.run_sync(partial(told.order, server, job, number))
        if order.ready is None:
            lock = making.setdefault(f"{id} {number}", asyncio.Lock())
            await run_while_connected(request, _made(tasks, order, lock))
        return await file_response(request, order.ready or order.target, order.name, inline=True)


async def _made(tasks: DocumentTasks, order: told.ChapterOrder, lock: asyncio.Lock) -> None:
    """See that a chapter's file is there; by one at a time."""
    async with lock:
        if await anyio.to_thread.run_sync(order.target.is_file):
            return
        try:
            await tasks.result("book_chapter", order.arguments, lane="bulk")
        except InvalidInputError as error:
            raise Problem(409, error.message, hint=error.hint) from error
        except AnyrigError as error:
            raise to_problem(error) from error


def _chapters(server: ServerState, client: Client, id: str) -> list[dict[str, Any]]:
    job: Job = find_job(server, client, id)
    if job.kind != "book":
        raise Problem(409, f"a {job.kind} has no chapters", hint="Ask for those of a book.")
    return told.chapters(server, job)
