"""Indexes and classifiers that are there: listed, looked into, deleted for good."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response

from anyrig.server.access import Client, is_shared
from anyrig.server.auth import get_client
from anyrig.server.documents import Desk
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.schemas import documents as asked
from anyrig.server.schemas import documents_told as told
from anyrig.server.state import ServerState
from anyrig.server.uploads import IndexFiles

_Name = Annotated[str, Path(min_length=1, max_length=64, examples=["letters"])]


def router(server: ServerState, desk: Desk) -> APIRouter:
    """The routes."""
    from anyrig.server.routes.documents import answered

    routes = APIRouter(route_class=JsonRoute)
    index_files = IndexFiles(server)

    @routes.get("/indexes", summary="List indexes", response_model=told.Indexes)
    async def indexes(request: Request) -> Response:
        """Each with its folders, model and figures, and what could not be read."""
        return await answered(request, _listed(desk, index_files, get_client(request)))

    @routes.get("/indexes/{name}", summary="One index", response_model=told.Index,
                responses=problem_responses(404))  # fmt: skip
    async def index(request: Request, name: _Name) -> Response:
        client = get_client(request)
        stored = await to_thread.run_sync(index_files.find_index, client, name)
        return await answered(request, _one(desk, index_files, client, stored))

    @routes.get("/indexes/{name}/files", summary="The files of an index",
                response_model=told.IndexFiles, responses=problem_responses(404))  # fmt: skip
    async def files(
        request: Request,
        name: _Name,
        start: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """In the order of their paths; those that could not be read say why."""
        stored = await to_thread.run_sync(index_files.find_index, get_client(request), name)
        return await answered(request, _files(desk, index_files, name, stored, start, limit))

    @routes.delete("/indexes/{name}", summary="Delete an index for good", response_model=told.Gone,
                   responses=problem_responses(404, 409))  # fmt: skip
    async def delete(
        request: Request,
        name: _Name,
        uploads: Annotated[bool, Query(description="Delete the uploads in it as well.")] = True,
    ) -> Response:
        """With the vectors and pages that are kept of its texts. Files of folders stay."""
        client = get_client(request)
        stored = await to_thread.run_sync(
            partial(index_files.find_index, client, name, change=True)
        )
        work = _overwritten(desk, "index_delete", {"index": stored})
        return await answered(request, _gone(index_files, client, name, work, uploads=uploads))

    @routes.post("/indexes/{name}/remove", summary="Take files out of an index for good",
                 response_model=told.Gone, responses=problem_responses(404))  # fmt: skip
    async def remove(request: Request, name: _Name, body: asked.RemoveAsked) -> Response:
        """From the index, from its file's bytes, and from what is kept of them elsewhere."""
        client = get_client(request)
        stored = await to_thread.run_sync(
            partial(index_files.find_index, client, name, change=True)
        )
        files = index_files.check_names(body.files)
        work = _overwritten(desk, "index_remove", {"index": stored, "files": files})
        return await answered(request, _gone(index_files, client, name, work, uploads=body.uploads))

    @routes.get("/classifiers", summary="List trained classifiers", response_model=told.Classifiers)
    async def classifiers(request: Request) -> Response:
        """With their labels and what cross-validation found."""
        return await answered(request, _classifiers(server, desk, get_client(request)))

    return routes


async def _listed(desk: Desk, index_files: IndexFiles, client: Client) -> dict[str, Any]:
    found = await desk.ask("indexes", {})
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


async def _one(desk: Desk, index_files: IndexFiles, client: Client, stored: str) -> Any:
    name = index_files.show_name(client, stored)
    for one in (await _listed(desk, index_files, client))["indexes"]:
        if one["name"] == name:
            return one
    raise Problem(422, "the index cannot be read", hint="GET /documents/indexes says why.")


async def _files(
    desk: Desk, index_files: IndexFiles, name: str, stored: str, start: int, limit: int
) -> dict[str, Any]:
    found = await desk.ask("index_files", {"index": stored, "start": start, "limit": limit})
    await to_thread.run_sync(index_files.add_names, found["files"])
    return {"index": name, **found}


async def _overwritten(desk: Desk, task: str, arguments: Mapping[str, Any]) -> Any:
    """Done by a clerk of its own, once the one that searches has let go of the index."""
    await desk.ask("index_close", {"index": arguments["index"]})
    return await desk.ask(task, arguments)


async def _gone(
    index_files: IndexFiles, client: Client, name: str, work: Any, *, uploads: bool
) -> dict[str, Any]:
    found = await work
    if "busy" in found:
        raise Problem(409, found["busy"], hint="Cancel the job that fills it, or wait for it.")
    still = found.pop("elsewhere")
    paths = found["files"] if uploads else []
    gone = await to_thread.run_sync(index_files.delete_uploads, client, paths, still)
    rows: list[dict[str, Any]] = [{"file": path} for path in found["files"]]
    await to_thread.run_sync(index_files.add_names, rows)
    return {"index": name, **found, "files": [row["file"] for row in rows], "uploads": gone}


async def _classifiers(server: ServerState, desk: Desk, client: Client) -> dict[str, Any]:
    found = await desk.ask("classifiers", {})
    return {"classifiers": [one for one in found if is_shared(server, client, one["name"])]}
