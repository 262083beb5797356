"""Questions to an index, and what is most similar to a text or a file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from anyrig.app.access import Client
from anyrig.app.search import SearchRequest, SimilarRequest
from anyrig.errors import LimitExceededError
from anyrig.server.auth import get_client
from anyrig.server.documents import DocumentTasks, Source, build_results
from anyrig.server.errors import problem_responses
from anyrig.server.json_body import JsonRoute
from anyrig.server.request_models import MAX_FILES, Texts, Upload, build_model
from anyrig.server.routes.documents import TaskRoute, add_form_route, answer
from anyrig.server.state import ServerState
from anyrig.server.uploads import IndexFiles

_MAX_AT_ONCE = 4
_PASSAGES = 64
_FILTERS = "folders=folder types=type languages=language after before"
_SEARCH = f"{_FILTERS} index mode limit per_file=files all least=min"

SearchBody = build_model(
    "SearchBody", SearchRequest, f"{_SEARCH} question",
    example={"index": "letters", "question": "when is the rent due"},
)  # fmt: skip
SearchBatchBody = build_model(
    "SearchBatchBody", SearchRequest, _SEARCH,
    example={"index": "letters", "questions": ["when is the rent due", "who is the owner"]},
    questions=(
        list[Annotated[str, Field(min_length=1, max_length=10_000)]],
        Field(min_length=1, max_length=100),
    ),
)  # fmt: skip
_SIMILAR = f"{_FILTERS} index limit model ocr"
SimilarOptions = build_model("SimilarOptions", SimilarRequest, _SIMILAR)
SimilarBody = build_model(
    "SimilarBody", SimilarRequest, f"{_SIMILAR} to_text", one_of=("to_text", "to_file"),
    example={"to_text": "The landlord may raise the rent once a year.", "index": "letters"},
    to_file=(Upload | None, Field(None, description="either this or `to_text`")),
    texts=(Texts, Field([], description="texts to compare with it, instead of an index")),
    files=(list[Upload], Field([], max_length=MAX_FILES, description="files to compare with it")),
)  # fmt: skip


class SearchHit(BaseModel):
    """A passage that was found."""

    name: str = Field(description="The name of the file.")
    file: str = Field(description="`upload:ID`, or its path.")
    score: float
    similarity: float | None
    text: str
    matches: list[list[int]] = Field(description="What to highlight: from, to, in the text.")
    page: int | None
    title: str
    start: int = Field(description="In the page, in characters.")
    end: int
    file_start: int = Field(description="In the text of the file.")
    file_end: int
    type: str
    language: str
    changed: str
    also: list[dict[str, Any]] = Field(description="Other places with the same text.")
    more_passages: int


class SearchAnswer(BaseModel):
    """The result of a search."""

    question: str
    index: str
    words: list[str] = Field(description="What was searched word by word.")
    hits: list[SearchHit]
    nearest: SearchHit | None = Field(description="The nearest passage, if none is near enough.")
    not_near: int
    notes: list[str]


class SearchAnswers(BaseModel):
    """The results of several searches, in the order of the questions."""

    results: list[SearchAnswer]


class SimilarSource(BaseModel):
    """One of the sources that were compared."""

    name: str
    file: str | None = None
    similarity: float


class SimilarAnswer(BaseModel):
    """What is most similar: hits of an index, or sources that were given."""

    to: str
    index: str | None = None
    hits: list[SearchHit] = []
    model: str | None = None
    similar: list[SimilarSource] = []
    failed: list[dict[str, Any]] = []


def router(server: ServerState, tasks: DocumentTasks) -> APIRouter:
    routes = APIRouter(route_class=JsonRoute)
    index_files = IndexFiles(server)

    async def search(request: Request, body: Any) -> Response:
        """By meaning and by words; each hit has its place and what to highlight in it."""
        found = _search(tasks, index_files, get_client(request), body.question, body)
        return await answer(request, found)

    async def search_batch(request: Request, body: Any) -> Response:
        """The answers in the order of the questions."""

        async def search_all() -> dict[str, Any]:
            limit = asyncio.Semaphore(_MAX_AT_ONCE)

            async def search_one(question: str) -> dict[str, Any]:
                async with limit:
                    return await _search(tasks, index_files, get_client(request), question, body)

            return {"results": await asyncio.gather(*map(search_one, body.questions))}

        return await answer(request, search_all())

    async def similar(request: Request, body: Any) -> Response:
        """In an index; or among texts and files, if some are given."""
        client = get_client(request)
        (to,) = await tasks.find_sources(
            client, [body.to_text] if body.to_text else [], [body.to_file] if body.to_file else []
        )
        among = await tasks.find_sources(client, body.texts, body.files)
        given = body.read_given()
        given.pop("to_text", None)
        return await answer(request, _find_similar(tasks, index_files, client, to, among, given))

    async def similar_to_first(client: Client, sources: Sequence[Source], options: Any) -> Any:
        given = options.read_given()
        return await _find_similar(tasks, index_files, client, sources[0], sources[1:], given)

    problems = problem_responses(404, 501)
    for path, summary, run, body, result in (
        ("/search", "Search an index", search, SearchBody, SearchAnswer),
        ("/search/batch", "Search an index for several questions", search_batch, SearchBatchBody,
         SearchAnswers),
        ("/similar", "What is most similar to a text or a file", similar, SimilarBody,
         SimilarAnswer),
    ):  # fmt: skip
        run.__annotations__["body"] = body
        routes.post(path, summary=summary, response_model=result, responses=problems)(run)
    add_form_route(routes, server, TaskRoute(
        "similar", "What is most similar to the first file: among the others, or in an index", "",
        SimilarOptions, SimilarAnswer, similar_to_first, {},
    ))  # fmt: skip
    return routes


async def _search(
    tasks: DocumentTasks, index_files: IndexFiles, client: Client, question: str, body: Any
) -> dict[str, Any]:
    stored = await to_thread.run_sync(index_files.find_index, client, body.index)
    given = {**body.read_given(), "index": stored, "question": question}
    found = await tasks.ask("search", given)
    rows = [*found["hits"], *([found["nearest"]] if found["nearest"] else [])]
    await to_thread.run_sync(index_files.add_names, rows)
    return {"question": question, "index": body.index, **found}


async def _find_similar(
    tasks: DocumentTasks, index_files: IndexFiles, client: Client, to: Source,
    among: Sequence[Source],
    given: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    if among:
        return await _compare(tasks, to, among, given)
    index = given.get("index", "default")
    stored = await to_thread.run_sync(index_files.find_index, client, index)
    if to.path is not None:
        to = await _read_text(tasks, to, given)
    found = await tasks.ask("similar", {**given, "index": stored, "to_text": to.text})
    await to_thread.run_sync(index_files.add_names, found["hits"])
    return {"to": to.name, "index": index, "hits": found["hits"]}


async def _read_text(tasks: DocumentTasks, file: Source, given: Mapping[str, Any]) -> Source:
    """A file's text, read by the worker for long work: the other one, with the index, is quick.

    Only some of its passages, spread over it, as they stand for a long file as well.
    """
    options = {name: given[name] for name in ("ocr",) if name in given}
    rows = await tasks.run_each("passages", [file], options)
    passages = build_results(rows)["results"][0]["result"]["passages"]
    some = passages[:: 1 + len(passages) // _PASSAGES]
    return Source(file.name, "\n\n".join(passage["text"] for passage in some))


async def _compare(
    tasks: DocumentTasks, to: Source, among: Sequence[Source], given: Mapping[str, Any]
) -> dict[str, Any]:
    if len(among) > MAX_FILES:
        raise LimitExceededError(
            f"{len(among)} sources to compare", hint=f"Send at most {MAX_FILES} at a time."
        )
    subject = {"to_text": to.text} if to.path is None else {"to_file": str(to.path)}
    sources = {
        "texts": [one.text for one in among if one.path is None],
        "files": [str(one.path) for one in among if one.path is not None],
    }
    found = await tasks.ask("similar", {**given, **subject, **sources}, lane="bulk", sources=[to])
    for row in (*found["similar"], *found["failed"]):
        source = among[row.pop("number")]
        row |= {"name": source.name, "file": source.upload or None}
        row |= {key: source.rename(row[key]) for key in ("error", "hint") if key in row}
    return {"to": to.name, **found}
