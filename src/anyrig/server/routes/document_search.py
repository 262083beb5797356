"""Questions to an index, and what is most like a text or a file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from anyrig.errors import LimitExceededError
from anyrig.server.access import Client
from anyrig.server.auth import get_client
from anyrig.server.documents import Desk, Source, answer
from anyrig.server.errors import problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.schemas import documents as asked
from anyrig.server.schemas import documents_told as told
from anyrig.server.state import ServerState
from anyrig.server.uploads import IndexFiles

_AT_ONCE = 4


def router(server: ServerState, desk: Desk) -> APIRouter:
    """The routes."""
    from anyrig.server.routes.documents import Task, answered, sent

    routes = APIRouter(route_class=JsonRoute)
    index_files = IndexFiles(server)

    @routes.post("/search", summary="Search an index", response_model=told.Found,
                 responses=problem_responses(404, 501))  # fmt: skip
    async def search(request: Request, body: asked.SearchAsked) -> Response:
        """By meaning and by words; each hit has its place and what to show bright in it."""
        found = _found(desk, index_files, get_client(request), body.question, body)
        return await answered(request, found)

    @routes.post("/search/batch", summary="Search an index for several questions",
                 response_model=told.Founds, responses=problem_responses(404, 501))  # fmt: skip
    async def batch(request: Request, body: asked.SearchesAsked) -> Response:
        """The answers in the order of the questions."""

        async def all_of() -> dict[str, Any]:
            limit = asyncio.Semaphore(_AT_ONCE)

            async def one(question: str) -> dict[str, Any]:
                async with limit:
                    return await _found(desk, index_files, get_client(request), question, body)

            return {"results": await asyncio.gather(*map(one, body.questions))}

        return await answered(request, all_of())

    @routes.post("/similar", summary="What is most like a text or a file",
                 response_model=told.Similar, responses=problem_responses(404, 501))  # fmt: skip
    async def similar(request: Request, body: asked.SimilarAsked) -> Response:
        """In an index; or among texts and files, where some are given."""
        client = get_client(request)
        (to,) = await to_thread.run_sync(
            desk.sources, client, [body.to_text] if body.to_text else [],
            [body.to_file] if body.to_file else [],
        )  # fmt: skip
        among = await to_thread.run_sync(desk.sources, client, body.texts, body.files)
        options = body.model_dump(exclude={"to_text", "to_file", "texts", "files"})
        return await answered(request, _alike(desk, index_files, client, to, among, options))

    async def like_first(
        client: Client, sources: Sequence[Source], options: Mapping[str, Any]
    ) -> Any:
        return await _alike(desk, index_files, client, sources[0], sources[1:], options)

    sent(routes, server, desk, Task(
        "similar", "What is most like the first file: among the others, or in an index",
        asked.SimilarOptions, told.Similar, like_first,
    ))  # fmt: skip
    return routes


async def _found(
    desk: Desk, index_files: IndexFiles, client: Client, question: str, body: asked.SearchOptions
) -> dict[str, Any]:
    stored = await to_thread.run_sync(index_files.find_index, client, body.index)
    options = {**body.model_dump(exclude={"question", "questions"}), "index": stored}
    found = await desk.ask("search", {**options, "question": question})
    rows = [*found["hits"], *([found["nearest"]] if found["nearest"] else [])]
    await to_thread.run_sync(index_files.add_names, rows)
    return {"question": question, "index": body.index, **found}


async def _alike(
    desk: Desk, index_files: IndexFiles, client: Client, to: Source, among: Sequence[Source],
    options: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    if among:
        return await _among(desk, to, among, options)
    stored = await to_thread.run_sync(index_files.find_index, client, options["index"])
    if to.path is not None:
        to = await _as_text(desk, to, options)
    found = await desk.ask("similar", {**options, "index": stored, "to": to.plain})
    await to_thread.run_sync(index_files.add_names, found["hits"])
    return {"to": to.name, "index": options["index"], "hits": found["hits"]}


async def _as_text(desk: Desk, file: Source, options: Mapping[str, Any]) -> Source:
    """A file's text, read by the clerk for long work: the other one, which has the index, is quick.

    Its passages are cut again there: those of the middle stand for a long file as well.
    """
    rows = await desk.each("passages", [file], {"ocr": options["ocr"]})
    pieces = answer(rows)["results"][0]["result"]["passages"]
    some = pieces[:: 1 + len(pieces) // 64]
    return Source(file.name, "\n\n".join(piece["text"] for piece in some))


async def _among(
    desk: Desk, to: Source, among: Sequence[Source], options: Mapping[str, Any]
) -> dict[str, Any]:
    if len(among) > asked.MOST_FILES:
        raise LimitExceededError(
            f"{len(among)} sources to compare", hint=f"Give {asked.MOST_FILES} at a time at most."
        )
    arguments = {**options, "to": to.plain, "sources": [one.plain for one in among]}
    found = await desk.ask("similar", arguments, lane="bulk")
    for row in (*found["similar"], *found["failed"]):
        source = among[row.pop("number")]
        row |= {"name": source.name, "file": source.upload or None}
    return {"to": to.name, **found}
