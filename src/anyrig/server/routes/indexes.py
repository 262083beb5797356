"""Indexes and trained classifiers: listed, looked into, deleted for good."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from anyrig.app.access import Client, is_shared
from anyrig.server.auth import get_client
from anyrig.server.documents import DocumentTasks
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.request_models import EXAMPLE_UPLOAD
from anyrig.server.routes.documents import answer
from anyrig.server.state import ServerState
from anyrig.server.uploads import IndexFiles

_Name = Annotated[str, Path(min_length=1, max_length=64, examples=["letters"])]


class RemoveBody(BaseModel):
    """Files to remove from an index for good."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"files": [EXAMPLE_UPLOAD]}]}
    )

    files: list[Annotated[str, Field(min_length=1, max_length=4000)]] = Field(
        min_length=1, max_length=1000,
        description="As the index lists them: `upload:ID`, or a path of the index.",
    )  # fmt: skip
    uploads: bool = Field(True, description="Delete the uploads among them as well.")


class IndexInfo(BaseModel):
    """An index and its figures."""

    name: str
    model: str
    dimension: int
    folders: list[dict[str, Any]]
    files: int
    passages: int
    vectors: int
    ocr_pages: int
    types: dict[str, int]
    languages: dict[str, int]
    failed: list[dict[str, Any]]
    size_bytes: int


class IndexList(BaseModel):
    indexes: list[IndexInfo]
    failed: list[dict[str, Any]] = Field(description="Indexes that cannot be read.")


class IndexedFile(BaseModel):
    """A file of an index."""

    name: str
    file: str
    size: int
    ocr_pages: int
    error: str
    hint: str


class IndexedFileList(BaseModel):
    """Some of the files of an index."""

    index: str
    total: int
    files: list[IndexedFile]


class RemovedFiles(BaseModel):
    """What was deleted for good."""

    index: str
    files: list[str]
    passages: int
    kept: int = Field(description="Vectors and pages that were cached of them.")
    uploads: list[str] = Field(
        description="Uploads that were deleted with it: those that no other index holds, and no "
        "unfinished job needs."
    )
    clean: bool = Field(description="False if another process still reads; its end clears it.")


class ClassifierInfo(BaseModel):
    """A trained classifier."""

    name: str
    version: int
    title: str
    labels: list[str]
    kind: str
    examples: int
    embedding: str
    made: str
    figures: dict[str, Any] | None


class ClassifierList(BaseModel):
    classifiers: list[ClassifierInfo]


def router(server: ServerState, tasks: DocumentTasks) -> APIRouter:
    routes = APIRouter(route_class=JsonRoute)
    index_files = IndexFiles(server)

    @routes.get("/indexes", summary="List indexes", response_model=IndexList)
    async def indexes(request: Request) -> Response:
        """Each with its folders, model and figures, and what could not be read."""
        return await answer(request, _list_indexes(tasks, index_files, get_client(request)))

    @routes.get("/indexes/{name}", summary="One index", response_model=IndexInfo,
                responses=problem_responses(404))  # fmt: skip
    async def index(request: Request, name: _Name) -> Response:
        client = get_client(request)
        stored = await to_thread.run_sync(index_files.find_index, client, name)
        return await answer(request, _find_index(tasks, index_files, client, stored))

    @routes.get("/indexes/{name}/files", summary="The files of an index",
                response_model=IndexedFileList, responses=problem_responses(404))  # fmt: skip
    async def files(
        request: Request,
        name: _Name,
        start: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """In the order of their paths; those that could not be read have the reason."""
        stored = await to_thread.run_sync(index_files.find_index, get_client(request), name)
        return await answer(request, _list_files(tasks, index_files, name, stored, start, limit))

    @routes.delete("/indexes/{name}", summary="Delete an index for good",
                   response_model=RemovedFiles, responses=problem_responses(404, 409))  # fmt: skip
    async def delete(
        request: Request,
        name: _Name,
        uploads: Annotated[bool, Query(description="Delete the uploads in it as well.")] = True,
    ) -> Response:
        """With the vectors and pages that are cached of its texts. Files of folders stay."""
        client = get_client(request)
        stored = await to_thread.run_sync(
            partial(index_files.find_index, client, name, change=True)
        )
        work = _overwrite(tasks, "index_delete", {"index": stored})
        return await answer(request, _remove(index_files, client, name, work, uploads=uploads))

    @routes.post("/indexes/{name}/remove", summary="Remove files from an index for good",
                 response_model=RemovedFiles, responses=problem_responses(404))  # fmt: skip
    async def remove(request: Request, name: _Name, body: RemoveBody) -> Response:
        """From the index, from its file's bytes, and from what is cached of them."""
        client = get_client(request)
        stored = await to_thread.run_sync(
            partial(index_files.find_index, client, name, change=True)
        )
        given = {"index": stored, "files": index_files.check_names(body.files)}
        work = _overwrite(tasks, "index_remove", given)
        return await answer(request, _remove(index_files, client, name, work, uploads=body.uploads))

    @routes.get("/classifiers", summary="List trained classifiers", response_model=ClassifierList)
    async def classifiers(request: Request) -> Response:
        """With their labels and the results of cross-validation."""
        return await answer(request, _list_classifiers(server, tasks, get_client(request)))

    return routes


async def _list_indexes(
    tasks: DocumentTasks, index_files: IndexFiles, client: Client
) -> dict[str, Any]:
    found = await tasks.ask("indexes", {})
    names = {one["index"]: index_files.show_name(client, one["index"]) for one in found["indexes"]}
    found["indexes"] = [one for one in found["indexes"] if names[one["index"]] is not None]
    found["failed"] = [
        {**one, "name": name} for one in found["failed"]
        if (name := index_files.show_name(client, one["name"])) is not None
    ]  # fmt: skip
    for one in found["indexes"]:
        one["name"] = names[one.pop("index")]
        one.pop("path")
        folders = [{"file": row["path"], "files": row["files"]} for row in one["folders"]]
        await to_thread.run_sync(index_files.add_names, [*folders, *one["failed"]])
        one["folders"] = [
            {"path": row["file"], "name": row["name"], "files": row["files"]} for row in folders
        ]
    return {"indexes": found["indexes"], "failed": found["failed"]}


async def _find_index(
    tasks: DocumentTasks, index_files: IndexFiles, client: Client, stored: str
) -> Any:
    name = index_files.show_name(client, stored)
    for one in (await _list_indexes(tasks, index_files, client))["indexes"]:
        if one["name"] == name:
            return one
    raise Problem(422, "the index cannot be read", hint="GET /documents/indexes has the reason.")


async def _list_files(
    tasks: DocumentTasks, index_files: IndexFiles, name: str, stored: str, start: int, limit: int
) -> dict[str, Any]:
    found = await tasks.ask("index_files", {"index": stored, "start": start, "limit": limit})
    await to_thread.run_sync(index_files.add_names, found["files"])
    return {"index": name, **found}


async def _overwrite(tasks: DocumentTasks, task: str, given: Mapping[str, Any]) -> Any:
    """Done by a worker of its own, once the one that searches has closed the index."""
    await tasks.ask("index_close", {"index": given["index"]})
    return await tasks.ask(task, given)


async def _remove(
    index_files: IndexFiles, client: Client, name: str, work: Any, *, uploads: bool
) -> dict[str, Any]:
    found = await work
    if "busy" in found:
        raise Problem(409, found["busy"], hint="Cancel the job that fills it, or wait for it.")
    elsewhere = found.pop("elsewhere")
    paths = found["files"] if uploads else []
    deleted = await to_thread.run_sync(index_files.delete_uploads, client, paths, elsewhere)
    rows: list[dict[str, Any]] = [{"file": path} for path in found["files"]]
    await to_thread.run_sync(index_files.add_names, rows)
    return {"index": name, **found, "files": [row["file"] for row in rows], "uploads": deleted}


async def _list_classifiers(
    server: ServerState, tasks: DocumentTasks, client: Client
) -> dict[str, Any]:  # fmt: skip
    found = await tasks.ask("classifiers", {})
    return {"classifiers": [one for one in found if is_shared(server, client, one["name"])]}
