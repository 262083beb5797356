"""Documents: vectors, labels, entities, summaries, an analysis; each for JSON and for a form."""

from __future__ import annotations

import asyncio
import contextlib
import time
import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args, get_origin

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from anyrig.errors import AnyrigError, OverloadedError
from anyrig.server.access import Client, is_shared
from anyrig.server.auth import get_client
from anyrig.server.documents import Desk, Source, answer, done, foreseen, too_long, while_there
from anyrig.server.errors import Problem, problem_responses
from anyrig.server.json_body import JsonRoute, dump
from anyrig.server.schemas import documents as asked
from anyrig.server.schemas import documents_told as told
from anyrig.server.state import ServerState
from anyrig.server.uploads import Upload, receive_form
from anyrig.server.waiting import all_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from anyrig.work.live import Lane

Work = Callable[[Client, Sequence[Source], Mapping[str, Any]], Awaitable[Any]]
"""Who asks, sources and options to what is answered: a response, or plain JSON."""
HTML = {"text/html": {"schema": {"type": "string"}}}
_SLICE, _LIVE = 512, 64
"""Texts that are handed in to be embedded at a time; so many in all are still a person's."""
_ROOM_S = 0.5
"""How often it is asked whether there is room again."""


@dataclass(frozen=True)
class Task:
    """A task in its two forms."""

    name: str
    summary: str
    options: type[BaseModel]
    result: Any
    work: Work
    more: Mapping[str, Any] | None = None
    """Other media types of a good answer."""


def router(server: ServerState) -> APIRouter:
    """The routes."""
    from anyrig.server.routes import document_indexes, document_ocr, document_search

    routes = APIRouter(prefix="/documents", tags=["documents"], route_class=JsonRoute)
    desk = Desk(server)
    tasks = {task.name: task for task in _tasks(server, desk)}

    @routes.post("/embed", **described(tasks["embed"]))
    async def embed(request: Request, body: asked.EmbedAsked) -> Response:
        """A text has a vector; a file has one for each passage, with its place."""
        return await run(request, desk, tasks["embed"], body)

    @routes.post("/classify", **described(tasks["classify"]))
    async def classify(request: Request, body: asked.ClassifyAsked) -> Response:
        """By the names of labels, which need no examples, or by a classifier that was trained."""
        return await run(request, desk, tasks["classify"], body)

    @routes.post("/entities", **described(tasks["entities"]))
    async def entities(request: Request, body: asked.EntitiesAsked) -> Response:
        """People, places, dates, amounts, numbers whose check digits hold, with their places."""
        return await run(request, desk, tasks["entities"], body)

    @routes.post("/summarise", **described(tasks["summarise"]))
    async def summarise(request: Request, body: asked.SummariseAsked) -> Response:
        """Sentences of the text itself, with their places, or those of a model that writes."""
        return await run(request, desk, tasks["summarise"], body)

    @routes.post("/analyse", **described(tasks["analyse"]))
    async def analyse(request: Request, body: asked.AnalyseAsked) -> Response:
        """Languages, key phrases, near-duplicates, clusters, passages in common, how each reads."""
        return await run(request, desk, tasks["analyse"], body)

    for task in tasks.values():
        sent(routes, server, desk, task)
    for more in (document_ocr, document_search, document_indexes):
        routes.include_router(more.router(server, desk))
    return routes


def _tasks(server: ServerState, desk: Desk) -> list[Task]:
    async def each(
        name: str, client: Client, sources: Sequence[Source], options: Mapping[str, Any]
    ) -> Any:
        if options.get("classifier"):
            _check_classifier(server, client, options["classifier"])
        return answer(await desk.each(name, sources, options))

    async def whole(
        client: Client, sources: Sequence[Source], options: Mapping[str, Any]
    ) -> Any:  # fmt: skip
        html = options["format"] == "html"
        arguments = {**options, "html": html, "sources": [one.plain for one in sources]}
        found = await desk.ask("analyse", arguments, lane="bulk")
        return Response(found["html"], media_type="text/html") if html else found

    return [
        Task("embed", "Vectors of texts and files", asked.EmbedOptions, told.Told[told.Embedded],
             partial(_embedded, server, desk)),
        Task("classify", "Which label texts and files have", asked.ClassifyOptions,
             told.Told[told.Sorted], partial(each, "classify")),
        Task("entities", "What texts and files name", asked.EntitiesOptions,
             told.Told[told.Named], partial(each, "entities")),
        Task("summarise", "Texts and files in a few sentences", asked.SummariseOptions,
             told.Told[told.Summaries], partial(each, "summarise")),
        Task("analyse", "What documents hold, each and together", asked.AnalyseOptions,
             told.Analysis, whole, more=HTML),
    ]  # fmt: skip


def _check_classifier(server: ServerState, client: Client, title: str) -> None:
    """That a client may use a classifier; the answer is that of one that is not there."""
    name = title.partition("@")[0]
    if not is_shared(server, client, name):
        raise Problem(400, f"no classifier {name[:80]!r} is kept",
                      hint="GET /documents/classifiers lists them.")  # fmt: skip


async def _embedded(
    server: ServerState,
    desk: Desk,
    client: Client,
    sources: Sequence[Source],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Texts as they are, files by their passages; all go to the one embedder, with everybody's."""
    texts = [one for one in sources if one.path is None]
    files = [one for one in sources if one.path is not None]
    rows = [done(one, {"vector": one.text, "passages": None, "warnings": []}) for one in texts]
    rows += await desk.each("passages", files, {"ocr": options["ocr"]})
    places: list[tuple[dict[str, Any], str]] = []
    for row in rows:
        if row["result"] is not None:
            pieces = row["result"]["passages"]
            places += [(row["result"], "vector")] if pieces is None else [
                (piece, "text") for piece in pieces
            ]  # fmt: skip
    try:
        async with asyncio.timeout(server.settings.work_s) as scope:
            vectors = await _vectors(server, desk, [place[key] for place, key in places], options)
    except AnyrigError as error:
        raise foreseen(error) from error
    except TimeoutError:
        if not scope.expired():
            raise
        raise too_long("embed", server.settings.work_s) from None
    await to_thread.run_sync(_place, [place for place, _ in places], vectors)
    return answer(rows)


def _place(places: Sequence[dict[str, Any]], vectors: Sequence[Any]) -> None:
    for place, vector in zip(places, vectors, strict=True):
        place["vector"] = vector.tolist()


async def _vectors(
    server: ServerState, desk: Desk, texts: Sequence[str], options: Mapping[str, Any]
) -> list[Any]:
    """Of any number of texts: as many at a time as may wait, and others' come in between."""
    limits = server.settings
    size = min(_SLICE, limits.texts)
    lane: Lane = "live" if len(texts) <= _LIVE else "bulk"
    found: list[Any] = []
    for start in range(0, len(texts), size):
        submit = partial(
            server.embedding.submit, texts[start : start + size], model=options["model"],
            use=options["use"], lane=lane,
        )  # fmt: skip
        futures = await _admitted(partial(desk.embed, submit), limits.deadline_s if start else 0)
        found += await all_of(futures, deadline_s=limits.deadline_s)
    return found


async def _admitted(
    hand_in: Callable[[], Awaitable[Sequence[Future[Any]]]], patience_s: float
) -> Sequence[Future[Any]]:
    """What was begun is not refused in its middle: where there is no room, it waits for some."""
    end = time.monotonic() + patience_s
    while True:
        try:
            return await hand_in()
        except OverloadedError:
            if time.monotonic() >= end:
                raise
        await asyncio.sleep(_ROOM_S)


# -- the two forms of a task -----------------------------------------------------------------------


def described(task: Task, *, form: bool = False) -> dict[str, Any]:
    """What a route says of itself."""
    problems = problem_responses(404, 501) | (problem_responses(415, 507) if form else {})
    good: dict[int | str, dict[str, Any]] = {200: {"content": dict(task.more)}} if task.more else {}
    return {
        "summary": task.summary + (", sent with the request" if form else ""),
        "response_model": task.result, "responses": problems | good,
    }  # fmt: skip


def sent(routes: APIRouter, server: ServerState, desk: Desk, task: Task) -> None:
    """The form of a task: files come with the request, and are deleted once it is answered."""

    async def upload(request: Request) -> Response:
        """The files are deleted once the answer is made. Lists are repeated fields, or commas."""
        form = await receive_form(request, server.uploads, max_files=asked.MOST_FILES)
        try:
            if not form.files:
                raise Problem(400, "no file was sent", hint="curl -F files=@letter.pdf")
            options = options_of(task.options, form.fields)
            sources = await to_thread.run_sync(_sources, server, form.files)
            work = task.work(get_client(request), sources, options.model_dump())
            return await answered(request, work)
        finally:
            with anyio.CancelScope(shield=True):  # also where the client has left
                await to_thread.run_sync(_deleted, server, [one.id for one in form.files])

    routes.post(
        f"/{task.name}/upload", openapi_extra=form_of(task.options), name=f"{task.name}_upload",
        **described(task, form=True),
    )(upload)  # fmt: skip


def _sources(server: ServerState, files: Sequence[Upload]) -> list[Source]:
    return [Source(one.name, path=server.uploads.path(one.id)) for one in files]


def _deleted(server: ServerState, ids: Sequence[str]) -> None:
    for one in ids:
        with contextlib.suppress(AnyrigError):  # somebody else was faster
            server.uploads.delete(one)


async def run(request: Request, desk: Desk, task: Task, body: BaseModel) -> Response:
    """The JSON form of a task."""
    texts, files = getattr(body, "texts", []), getattr(body, "files", [])
    client = get_client(request)
    sources = await to_thread.run_sync(desk.sources, client, texts, files)
    options = body.model_dump(exclude={"texts", "files"})
    return await answered(request, task.work(client, sources, options))


async def answered(request: Request, work: Awaitable[Any]) -> Response:
    """What work answers, while there is somebody to be answered."""
    found = await while_there(request, work)
    if isinstance(found, Response):
        return found
    # Boxes of words and long vectors make megabytes: not written on the loop.
    body = await to_thread.run_sync(dump, found)
    return Response(body, media_type="application/json")


def form_of(options: type[BaseModel], *, file: str = "files") -> dict[str, Any]:
    """What a form takes, for the description."""
    schema = options.model_json_schema()
    files = {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": {
        "type": "object", "required": [file, *schema.get("required", ())],
        "properties": {file: files, **schema["properties"]},
    }}}}}  # fmt: skip


def options_of(model: type[BaseModel], fields: Mapping[str, Sequence[str]]) -> BaseModel:
    """The options that a form's fields say; an empty field says nothing."""
    given: dict[str, Any] = {}
    for name, values in fields.items():
        field = model.model_fields.get(name)
        if field is not None and _is_list(field.annotation):
            several = values if len(values) > 1 else values[0].split(",")
            given[name] = [value.strip() for value in several if value.strip()]
        elif values[-1] != "":
            given[name] = values[-1]
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]
        raise RequestValidationError(cast("Sequence[Any]", found)) from None


def _is_list(annotation: Any) -> bool:
    if get_origin(annotation) is types.UnionType:
        return any(map(_is_list, get_args(annotation)))
    return get_origin(annotation) is list
