"""Indexes and classifiers that are there: listed, looked into, deleted for good."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response

from anyrig.app.access import Client, is_shared
from anyrig.server.access import client_of
from anyrig.server.documents import Desk
from anyrig.server.json_body import JsonRoute
from anyrig.server.parts import Parts
from anyrig.server.problems import Problem, answers
from anyrig.server.schemas import documents as asked
from anyrig.server.schemas import documents_told as told
from anyrig.server.shelf import Shelf

_Name = Annotated[str, Path(min_length=1, max_length=64, examples=["letters"])]


def router(parts: Parts, desk: Desk) -> APIRouter:
    """The routes."""
    from anyrig.server.routes.documents import answered

    routes = APIRouter(route_class=JsonRoute)
    shelf = Shelf(parts)

    @routes.get("/indexes", summary="List indexes", response_model=told.Indexes)
    async def indexes(request: Request) -> Response:
        """Each with its folders, model and figures, and what could not be read."""
        return await answered(request, _listed(desk, shelf, client_of(request)))

    @routes.get("/indexes/{name}", summary="One index", response_model=told.Index,
                responses=answers(404))  # fmt: skip
    async def index(request: Request, name: _Name) -> Response:
        client = client_of(request)
        stored = await to_thread.run_sync(shelf.stored, client, name)
        return await answered(request, _one(desk, shelf, client, stored))

    @routes.get("/indexes/{name}/files", summary="The files of an index",
                response_model=told.IndexFiles, responses=answers(404))  # fmt: skip
    async def files(
        request: Request,
        name: _Name,
        start: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """In the order of their paths; those that could not be read say why."""
        stored = await to_thread.run_sync(shelf.stored, client_of(request), name)
        return await answered(request, _files(desk, shelf, name, stored, start, limit))

    @routes.delete("/indexes/{name}", summary="Delete an index for good", response_model=told.Gone,
                   responses=answers(404, 409))  # fmt: skip
    async def delete(
        request: Request,
        name: _Name,
        uploads: Annotated[bool, Query(description="Delete the uploads in it as well.")] = True,
    ) -> Response:
        """With the vectors and pages that are kept of its texts. Files of folders stay."""
        client = client_of(request)
        stored = await to_thread.run_sync(partial(shelf.stored, client, name, change=True))
        work = _overwritten(desk, "index_delete", {"index": stored})
        return await answered(request, _gone(shelf, client, name, work, uploads=uploads))

    @routes.post("/indexes/{name}/remove", summary="Take files out of an index for good",
                 response_model=told.Gone, responses=answers(404))  # fmt: skip
    async def remove(request: Request, name: _Name, body: asked.RemoveAsked) -> Response:
        """From the index, from its file's bytes, and from what is kept of them elsewhere."""
        client = client_of(request)
        stored = await to_thread.run_sync(partial(shelf.stored, client, name, change=True))
        files = shelf.words(body.files)
        work = _overwritten(desk, "index_remove", {"index": stored, "files": files})
        return await answered(request, _gone(shelf, client, name, work, uploads=body.uploads))

    @routes.get("/classifiers", summary="List trained classifiers", response_model=told.Classifiers)
    async def classifiers(request: Request) -> Response:
        """With their labels and what cross-validation found."""
        return await answered(request, _classifiers(parts, desk, client_of(request)))

    return routes


async def _listed(desk: Desk, shelf: Shelf, client: Client) -> dict[str, Any]:
    found = await desk.ask("indexes", {})
    names = {one["index"]: shelf.shown(client, one["index"]) for one in found["indexes"]}
    found["indexes"] = [one for one in found["indexes"] if names[one["index"]] is not None]
    found["failed"] = [
        {**one, "name": name} for one in found["failed"]
        if (name := shelf.shown(client, one["name"])) is not None
    ]  # fmt: skip
    for one in found["indexes"]:
        one["name"] = names[one.pop("index")]
        one.pop("path")
        folders = [{"file": row["path"], "files": row["files"]} for row in one["folders"]]
        await to_thread.run_sync(shelf.named, [*folders, *one["failed"]])
        one["folders"] = [
            {"path": row["file"], "name": row["name"], "files": row["files"]} for row in folders
        ]
    return {"indexes": found["indexes"], "failed": found["failed"]}


async def _one(desk: Desk, shelf: Shelf, client: Client, stored: str) -> Any:
    name = shelf.shown(client, stored)
    for one in (await _listed(desk, shelf, client))["indexes"]:
        if one["name"] == name:
            return one
    raise Problem(422, "the index cannot be read", hint="GET /documents/indexes says why.")


async def _files(
    desk: Desk, shelf: Shelf, name: str, stored: str, start: int, limit: int
) -> dict[str, Any]:
    found = await desk.ask("index_files", {"index": stored, "start": start, "limit": limit})
    await to_thread.run_sync(shelf.named, found["files"])
    return {"index": name, **found}


async def _overwritten(desk: Desk, task: str, arguments: Mapping[str, Any]) -> Any:
    """Done by a clerk of its own, once the one that searches has let go of the index."""
    await desk.ask("index_close", {"index": arguments["index"]})
    return await desk.ask(task, arguments)


async def _gone(
    shelf: Shelf, client: Client, name: str, work: Any, *, uploads: bool
) -> dict[str, Any]:
    found = await work
    if "busy" in found:
        raise Problem(409, found["busy"], hint="Cancel the job that fills it, or wait for it.")
    still = found.pop("elsewhere")
    paths = found["files"] if uploads else []
    gone = await to_thread.run_sync(shelf.drop_uploads, client, paths, still)
    rows: list[dict[str, Any]] = [{"file": path} for path in found["files"]]
    await to_thread.run_sync(shelf.named, rows)
    return {"index": name, **found, "files": [row["file"] for row in rows], "uploads": gone}


async def _classifiers(parts: Parts, desk: Desk, client: Client) -> dict[str, Any]:
    found = await desk.ask("classifiers", {})
    return {"classifiers": [one for one in found if is_shared(parts, client, one["name"])]}
