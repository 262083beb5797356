"""/books: plans and covers of books, and chapters of book jobs while they are made."""

from __future__ import annotations

import asyncio
import base64
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal
from weakref import WeakValueDictionary

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.access import find_job, find_named_upload, find_upload
from anyrig.audiobooks.metadata import make_file_name
from anyrig.errors import AnyrigError, InvalidInputError, render
from anyrig.jobs import Job
from anyrig.server.auth import get_client
from anyrig.server.documents import DocumentTasks, run_while_connected, to_problem
from anyrig.server.errors import Problem, error_status, problem_responses
from anyrig.server.job_requests import prepare_plan
from anyrig.server.jobs import find_job_folder, list_files
from anyrig.server.json_body import JsonRoute
from anyrig.server.routes.jobs import BINARY, PARTS, FileNumber, JobId
from anyrig.server.state import ServerState
from anyrig.server.uploads import file_response
from anyrig.storage.keys import JsonValue

_MAX_COVERS = 32
_IMAGES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The image.", "content": {"image/jpeg": BINARY, "image/png": BINARY}}
}
UploadId = Annotated[str, Path(examples=["9f0c1e2d3b4a59687786950413223140"])]
_UPLOAD = "9f0c1e2d3b4a59687786950413223140"
_CHAPTER: dict[str, Any] = {
    "number": 3, "title": "One Hand", "level": 2, "words": 141, "seconds": 52.1, "kind": "body",
    "chosen": True,
}  # fmt: skip


class BookPlanRequest(BaseModel):
    """A book to plan. Further fields are those of a job of the kind `book`."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"file": f"upload:{_UPLOAD}", "rate": 1.1}]},
    )

    file: str = Field(description='As "upload:ID".', max_length=100)
    voice: str | None = Field(default=None, max_length=200)


class PlannedChapter(BaseModel):
    """A chapter of a book."""

    number: int = Field(description="In the book's list of chapters, from 1.")
    title: str
    level: int
    words: int
    seconds: float = Field(
        description="Estimated duration of its audio.", validation_alias="estimated_s"
    )
    kind: str = Field(
        description="`body`, `title`, `cover`, `contents`, `front`, `back`, `notes`.",
        validation_alias="role",
    )
    chosen: bool = Field(description="Whether it is spoken by default.", validation_alias="spoken")


class BookPlan(BaseModel):
    """The plan of a book."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "title": "The Tide Clock", "author": "Ada Example", "language": "en",
                    "format": "epub", "cover": f"/books/cover/{_UPLOAD}", "engine": "kokoro",
                    "voice": "af_heart", "chapters": [_CHAPTER], "words": 141, "audio_s": 52.1,
                    "wall_s": 2.4, "measured": True, "warnings": [],
                }
            ]
        }
    )  # fmt: skip

    title: str
    author: str
    language: str
    format: str
    cover: str | None = Field(description="URL of its cover image.")
    engine: str
    voice: str
    chapters: list[PlannedChapter]
    words: int = Field(description="Of the chosen chapters.")
    audio_s: float = Field(
        description="Estimated duration of the audio.", validation_alias="estimated_s"
    )
    wall_s: float | None = Field(
        description="Estimated time to make it; null if unknown.", validation_alias="to_make_s"
    )
    measured: bool = Field(description="Whether that estimate was measured on this machine.")
    warnings: list[str]


class ChapterState(BaseModel):
    """A chapter that is made, or will be."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"number": 3, "title": "One Hand", "state": "done", "seconds": 52.12,
                 "url": "/jobs/k3vq2mzx7a4hn5we/chapters/3"}
            ]
        }
    )  # fmt: skip

    number: int
    title: str
    state: Literal["waiting", "making", "done"]
    url: str | None = Field(description="Where its audio is, once it is done.")
    seconds: float | None = Field(description="Its duration; null until the book is finished.")


class ChapterStates(BaseModel):
    """The chapters of a book job; empty until the book was opened."""

    chapters: list[ChapterState]


def router(server: ServerState) -> APIRouter:
    routes = APIRouter(tags=["books"], route_class=JsonRoute)
    tasks = DocumentTasks(server)
    covers: OrderedDict[str, tuple[str, bytes] | None] = OrderedDict()

    def keep_cover(upload: str, image: Mapping[str, str] | None) -> None:
        covers[upload] = (image["type"], base64.b64decode(image["data"])) if image else None
        while len(covers) > _MAX_COVERS:
            covers.popitem(last=False)

    @routes.post("/books/plan", response_model=BookPlan, summary="Plan a book",
                 responses=problem_responses(404, 501))  # fmt: skip
    async def plan(request: Request, body: BookPlanRequest) -> dict[str, Any]:
        """Its chapters, which of them are spoken, how long it will be and how long it takes.

        Nothing is made, and no voice is loaded.
        """
        client = get_client(request)
        arguments = await to_thread.run_sync(
            prepare_plan, server, client, body.model_dump(exclude_none=True)
        )
        upload = body.file.partition(":")[2]
        try:
            work = tasks.result("book_plan", {"arguments": arguments}, lane="bulk")
            found = await run_while_connected(request, work)
        except InvalidInputError as error:  # it names the file as it is stored
            name = await to_thread.run_sync(
                lambda: find_named_upload(server, client, body.file).name
            )
            title = re.sub(rf"\b{upload}(\.\w+)?\b", lambda _: name, render(error.message, "http"))
            raise Problem(error_status(error), title, hint=error.hint) from error
        except AnyrigError as error:
            raise to_problem(error) from error
        keep_cover(upload, found.pop("picture"))
        return {
            **found, "author": ", ".join(found["authors"]),
            "cover": f"/books/cover/{upload}" if found["cover"] else None,
            "words": sum(row["words"] for row in found["chapters"] if row["spoken"]),
        }  # fmt: skip

    @routes.get("/books/cover/{id}", summary="The cover of a book", response_class=Response,
                responses={**_IMAGES, **problem_responses(404)})  # fmt: skip
    async def cover(request: Request, id: UploadId) -> Response:
        """Of an uploaded book, by the id of its upload."""
        await to_thread.run_sync(find_upload, server, get_client(request), id)
        path = await to_thread.run_sync(server.uploads.path, id)  # gone with its upload
        if id not in covers:
            work = tasks.ask("book_cover", {"file": str(path)}, lane="bulk")
            keep_cover(id, await run_while_connected(request, work))
        found = covers.get(id)
        if found is None:
            raise Problem(404, "the book has no cover", hint="Send an image with the job.")
        headers = {"Cache-Control": "private, max-age=3600", "X-Content-Type-Options": "nosniff"}
        return Response(found[1], media_type=found[0], headers=headers)

    _add_chapters(routes, server, tasks)
    return routes


def _add_chapters(routes: APIRouter, server: ServerState, tasks: DocumentTasks) -> None:
    locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
    """One for each chapter that is requested now."""

    @routes.get("/jobs/{id}/chapters", response_model=ChapterStates,
                responses=problem_responses(404, 409), summary="The chapters of a book job",
    )  # fmt: skip
    async def chapters(request: Request, id: JobId) -> dict[str, Any]:
        """Finished chapters can be played while the rest is made."""
        job = await to_thread.run_sync(find_job, server, get_client(request), id)
        return {"chapters": await to_thread.run_sync(_list_chapters, server, job)}

    @routes.head("/jobs/{id}/chapters/{number}", include_in_schema=False)
    @routes.get("/jobs/{id}/chapters/{number}", summary="The audio of a finished chapter",
                response_class=FileResponse,
                responses={**PARTS, **problem_responses(404, 409, 416)})  # fmt: skip
    async def chapter(request: Request, id: JobId, number: FileNumber) -> Response:
        """As mp3, or in the book's own format."""
        job = await to_thread.run_sync(find_job, server, get_client(request), id)
        audio = await to_thread.run_sync(partial(_find_audio, server, job, number))
        if audio.file is None:
            lock = locks.setdefault(f"{id} {number}", asyncio.Lock())
            await run_while_connected(request, _make_audio(tasks, audio, lock))
        return await file_response(request, audio.file or audio.target, audio.name, inline=True)


# -- chapters --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ChapterAudio:
    """Where the audio of a chapter is, or how it is made.

    The takes of a finished chapter are in the result cache while the rest of the book is made; a
    document worker joins them when somebody wants to listen, and the file stays with the job's.
    """

    name: str
    """To save it under."""
    target: FilePath
    """The file to make."""
    file: FilePath | None
    """The book's own file of the chapter, if it has one."""
    arguments: Mapping[str, Any]
    """For the document worker."""


def _list_chapters(server: ServerState, job: Job) -> list[dict[str, Any]]:
    """Each with its state; empty before the book was opened."""
    if job.kind != "book":
        raise Problem(409, f"a {job.kind} job has no chapters", hint="Give the id of a book job.")
    has_folder = find_job_folder(server, job) is not None
    finished = {row["number"]: row for row in _list_finished(job)}
    numbers, titles = _read_begin_event(server, job)
    if not numbers:
        numbers, titles = list(finished), [str(row["title"]) for row in finished.values()]
    num_done = _count_done(job, len(numbers))
    found = []
    for index, (number, title) in enumerate(zip(numbers, titles, strict=True)):
        row = finished.get(number)
        state = "done" if row or index < num_done else "waiting"
        if state == "waiting" and index == num_done and job.state == "running":
            state = "making"
        seconds = round(row["end_s"] - row["start_s"], 3) if row else None
        url = f"/jobs/{job.id}/chapters/{number}" if state == "done" and has_folder else None
        found.append(
            {"number": number, "title": title, "state": state, "url": url, "seconds": seconds}
        )
    return found


def _find_audio(server: ServerState, job: Job, number: int) -> _ChapterAudio:
    rows = {row["number"]: (i, row) for i, row in enumerate(_list_chapters(server, job))}
    folder = find_job_folder(server, job)
    if folder is None:
        raise Problem(409, "the job has no chapters", hint="Give the id of a book job.")
    if number not in rows:
        raise Problem(404, f"the book has no chapter {number}", hint="See the job's chapters.")
    index, row = rows[number]
    if row["state"] != "done":
        raise Problem(
            409, f"chapter {number} is not finished", hint="Try again when the job is past it."
        )
    target = folder / "chapters" / f"{number}.mp3"
    made = [one.path for one in list_files(server, job)] if job.state == "done" else []
    is_one_file = job.arguments.get("format") in (None, "", "m4b")
    file = made[index] if made and not is_one_file and index < len(made) else None
    arguments: dict[str, Any] = {
        "arguments": dict(job.arguments), "number": number, "target": str(target), "track": index,
    }  # fmt: skip
    if made and is_one_file:
        arguments["made"] = str(made[0])
    suffix = (file or target).suffix
    return _ChapterAudio(
        f"{number:02d} {make_file_name(row['title'])}{suffix}", target, file, arguments
    )


async def _make_audio(tasks: DocumentTasks, audio: _ChapterAudio, lock: asyncio.Lock) -> None:
    """Make the file of a chapter, once if several clients want it."""
    async with lock:
        if await to_thread.run_sync(audio.target.is_file):
            return
        try:
            await tasks.result("book_chapter", audio.arguments, lane="bulk")
        except InvalidInputError as error:
            raise Problem(409, error.message, hint=error.hint) from error
        except AnyrigError as error:
            raise to_problem(error) from error


def _read_begin_event(server: ServerState, job: Job) -> tuple[list[int], list[str]]:
    """Numbers and titles of the chapters, of the job's last start."""
    numbers: list[int] = []
    titles: list[str] = []
    for event in server.jobs.events(job.id):
        if event.kind == "begin":
            found, named = event.data.get("numbers"), event.data.get("chapters")
            if isinstance(found, list) and isinstance(named, list) and len(found) == len(named):
                numbers = [one for one in found if isinstance(one, int)]
                titles = [str(one) for one in named]
    return numbers, titles


def _count_done(job: Job, count: int) -> int:
    progress: Mapping[str, JsonValue] = job.progress or {}
    if job.state == "done" or progress.get("stage") in ("writing", "read-along"):
        return count
    chapter = progress.get("chapter")
    return max(0, chapter - 1) if isinstance(chapter, int) else 0


def _list_finished(job: Job) -> list[dict[str, Any]]:
    result = job.result if isinstance(job.result, Mapping) else {}
    rows = result.get("chapters")
    return [dict(row) for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
